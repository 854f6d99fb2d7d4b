use crate::lab::{Lab, out, run, sh};
use sandbox_core::NetworkPolicy;
use std::time::Duration;

pub(crate) async fn deny_has_no_interface(lab: Lab) {
    let made = lab.sandbox().await;
    assert_eq!(out(&made.instance, "ls /sys/class/net").await, "lo");
    let explicit = lab.create(lab.spec().network(NetworkPolicy::Deny)).await.unwrap();
    assert_eq!(out(&explicit.instance, "ls /sys/class/net").await, "lo");
    let open = lab.create(lab.spec().network(NetworkPolicy::Open)).await.unwrap();
    assert!(out(&open.instance, "ls /sys/class/net").await.contains("eth0"), "the control");
    for made in [made, explicit, open] {
        lab.destroy(made).await;
    }
}

pub(crate) async fn open_is_a_bridge_of_its_own(lab: Lab) {
    let open = lab.spec().network(NetworkPolicy::Open);
    let server = lab.create(open.clone()).await.unwrap();
    let client = lab.create(open).await.unwrap();
    let names = lab.left().await;
    assert!(
        names.contains(&format!("network {}", server.id)) && names.contains(&format!("network {}", client.id)),
        "{names:?}"
    );
    let address = out(&server.instance, "ip -4 addr show eth0 | grep -o 'inet [0-9.]*' | cut -d' ' -f2").await;
    out(&server.instance, "(while true; do echo served | nc -l -p 8080; done) >/dev/null 2>&1 </dev/null &").await;
    let ask = format!("echo | timeout 5 nc -w 3 {address} 8080");
    let mut served = String::new();
    for _ in 0..50 {
        served = run(&server.instance, &sh(&ask)).await.unwrap().text();
        if served.contains("served") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(served.contains("served"), "the control: {served:?}");
    let neighbour = run(&client.instance, &sh(&ask)).await.unwrap();
    assert!(!neighbour.text().contains("served"), "a neighbour was reached");
    lab.destroy(server).await;
    lab.destroy(client).await;
    assert!(lab.left().await.is_empty());
}
