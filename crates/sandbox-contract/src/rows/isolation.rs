//! Rows of the area `isolation`: what of the host a sandbox may not see.

use crate::{
    Ctx,
    expect::{ensure, expect_eq, unproven},
    row::{Done, Row, Stop, row},
};
use sandbox_core::{
    Capability::{Run, Separate},
    Isolation,
};
use std::collections::BTreeSet;

pub(crate) static ROWS: &[Row] = &[
    row!("isolation::programs_gain_no_privileges", no_privileges).needs(&[Run]),
    row!("isolation::no_engine_is_reached_through_a_socket_inside", no_engine_socket).needs(&[Run, Separate]),
    row!("isolation::namespaces_are_not_the_hosts", own_namespaces).needs(&[Run]),
    row!("isolation::the_hosts_environment_is_not_seen_inside", no_host_environment).needs(&[Run, Separate]),
];

async fn no_privileges(cx: &Ctx) -> Done {
    isolates(cx)?;
    let sandbox = cx.sandbox().await?;
    let seen = cx.text(&sandbox, cx.probes().privileges()).await?;
    if seen.trim().is_empty() {
        unproven!("programs of this sandbox do not see whether they can gain privileges");
    }
    expect_eq!(seen.trim(), "1", "that no privileges can be gained");
    Ok(())
}

async fn no_engine_socket(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox().await?;
    let exists = async |path: &str| Ok::<_, Stop>(cx.run(&sandbox, cx.probes().exists(path)).await?.code());
    expect_eq!(exists("/").await?, 0, "the root directory, the control");
    for path in [
        "/var/run/docker.sock",
        "/run/docker.sock",
        "/run/containerd/containerd.sock",
        "/run/podman/podman.sock",
        "/run/crio/crio.sock",
    ] {
        expect_eq!(exists(path).await?, 1, "{path} inside");
    }
    Ok(())
}

async fn own_namespaces(cx: &Ctx) -> Done {
    isolates(cx)?;
    let (one, two) = (cx.sandbox().await?, cx.sandbox().await?);
    let of_one = cx.text(&one, cx.probes().namespaces()).await?;
    let of_two = cx.text(&two, cx.probes().namespaces()).await?;
    let (of_one, of_two): (BTreeSet<_>, BTreeSet<_>) = (of_one.lines().collect(), of_two.lines().collect());
    if of_one.len() < 5 {
        unproven!("programs of this sandbox do not see their namespaces: {of_one:?}");
    }
    let shared: Vec<_> = of_one.intersection(&of_two).collect();
    ensure!(shared.is_empty(), "two sandboxes share namespaces: {shared:?}");
    let host = ["pid", "net", "mnt", "ipc", "uts"].map(|name| std::fs::read_link(format!("/proc/self/ns/{name}")).ok());
    let host: BTreeSet<_> = host.into_iter().flatten().map(|path| path.to_string_lossy().into_owned()).collect();
    if host.is_empty() {
        unproven!("this host does not show its namespaces");
    }
    let shared: Vec<_> = of_one.iter().filter(|one| host.contains(**one)).collect();
    ensure!(shared.is_empty(), "a sandbox shares namespaces of this host: {shared:?}");
    Ok(())
}

async fn no_host_environment(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox_of(cx.spec().env("CONTRACT_SEEN", "the control")).await?;
    let seen = cx.text(&sandbox, cx.probes().every_variable()).await?;
    ensure!(
        seen.lines().any(|line| line == "CONTRACT_SEEN=the control"),
        "the probe does not see what is there: {seen:?}"
    );
    let names: BTreeSet<_> = seen.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    for variable in cx.facts().credential_variables() {
        ensure!(!names.contains(variable.name), "the credential variable {} is set inside", variable.name);
    }
    // What every system sets is no trace of this one, unless it has this host's own value.
    let mut compared = 0;
    for (name, value) in
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
    {
        if value.len() < 12 || name == "PATH" || value.contains('\n') {
            continue;
        }
        compared += 1;
        let line = format!("{name}={value}");
        ensure!(!seen.lines().any(|seen| seen == line), "the variable {name} of this host is seen inside");
    }
    if compared == 0 {
        unproven!("this process has no variable that could be told from any other's");
    }
    Ok(())
}

/// Where nothing is isolated, nothing is promised.
fn isolates(cx: &Ctx) -> Done {
    match cx.facts().tier() {
        Isolation::None => Err(Stop::Refused("the backend isolates nothing, and says so".into())),
        _ => Ok(()),
    }
}
