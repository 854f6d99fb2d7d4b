//! Rows of the area `network`: what a policy denies fails while the same probe succeeds where it is allowed.

mod change;
mod deny;
mod ports;

use crate::{
    Canary, Ctx, Reach,
    expect::{ensure, unproven},
    row::{Done, Row, Stop, row},
};
use sandbox::Sandbox;
use sandbox_core::{
    Capability::{
        AllowCidr, AllowHost, AllowIpv4, AllowIpv6, AllowPort, AllowWildcard, Deny, DynamicNetwork, Learn, Ports, Run,
        Stream,
    },
    NetworkPolicy,
};
use std::net::IpAddr;

pub(crate) static ROWS: &[Row] = &[
    row!("network::deny_stops_tcp_to_an_address", deny_stops_tcp_to_an_address).needs(&[Run, Deny]),
    row!("network::deny_stops_tcp_to_a_name", deny_stops_tcp_to_a_name).needs(&[Run, Deny]),
    row!("network::deny_stops_ipv6", deny::ipv6).needs(&[Run, Deny]),
    row!("network::deny_stops_udp", deny::udp).needs(&[Run, Deny]),
    row!("network::deny_stops_lookups", deny::lookups).needs(&[Run, Deny]),
    row!("network::deny_stops_a_dns_tunnel", deny::a_dns_tunnel).needs(&[Run, Deny]),
    row!("network::deny_stops_the_metadata_address", deny::metadata).needs(&[Run, Deny]),
    row!("network::deny_stops_the_gateway", deny::the_gateway).needs(&[Run, Deny]),
    row!("network::deny_stops_a_neighbour", deny::a_neighbour).needs(&[Run, Deny]),
    row!("network::deny_holds_for_the_first_process", deny::the_first_process).needs(&[Run, Deny]),
    row!("network::nothing_said_is_deny", nothing_said_is_deny).needs(&[Run, Deny]),
    row!("network::an_empty_allowlist_is_deny", an_empty_allowlist_is_deny).needs(&[Run, Deny]),
    row!("network::two_policies_hold_side_by_side", two_policies_hold_side_by_side).needs(&[Run, Deny]),
    row!("network::a_host_rule_lets_that_host_through_alone", a_host_rule).needs(&[Run, AllowHost]),
    row!("network::a_wildcard_rule_lets_names_below_it_through_alone", a_wildcard_rule).needs(&[Run, AllowWildcard]),
    row!("network::an_ipv4_rule_lets_that_address_through_alone", an_ipv4_rule).needs(&[Run, AllowIpv4]),
    row!("network::an_ipv6_rule_lets_that_address_through_alone", an_ipv6_rule).needs(&[Run, AllowIpv6]),
    row!("network::a_cidr_rule_lets_that_network_through_alone", a_cidr_rule).needs(&[Run, AllowCidr]),
    row!("network::a_port_rule_lets_that_port_through_alone", a_port_rule).needs(&[Run, AllowPort]),
    row!("network::names_that_no_rule_has_are_asked_of_nobody", names_that_no_rule_has).needs(&[Run, AllowHost]),
    row!("network::an_address_of_an_allowed_name_alone_is_not_allowed", an_address_of_an_allowed_name)
        .needs(&[Run, AllowHost]),
    row!("network::a_port_is_reached_through_its_address_alone", ports::through_its_address_alone).needs(&[Run, Ports]),
    row!("network::a_port_is_opened_whatever_the_policy", ports::whatever_the_policy).needs(&[Run, Ports]),
    row!("network::a_port_ends_with_its_sandbox", ports::ends_with_its_sandbox).needs(&[Run, Ports]),
    row!("network::learning_records_and_blocks_nothing", change::learning).needs(&[Run, Learn]),
    row!("network::a_change_holds_for_new_connections", change::new_connections).needs(&[Run, Deny, DynamicNetwork]),
    row!("network::a_change_cuts_what_it_forbids", change::live_connections).needs(&[
        Run,
        Deny,
        DynamicNetwork,
        Stream,
    ]),
    row!("network::an_equal_policy_is_no_change", change::an_equal_policy).facade().needs(&[
        Run,
        DynamicNetwork,
        Stream,
    ]),
    row!("network::a_refused_change_leaves_the_old_policy", change::a_refused_change).facade().needs(&[
        Run,
        Deny,
        DynamicNetwork,
    ]),
];

async fn deny_stops_tcp_to_an_address(cx: &Ctx) -> Done {
    let canary = canary(cx).await?;
    denied(cx, NetworkPolicy::Deny, &canary, &canary.host).await
}

async fn deny_stops_tcp_to_a_name(cx: &Ctx) -> Done {
    let canary = canary(cx).await?;
    let name = name(&canary)?;
    denied(cx, NetworkPolicy::Deny, &canary, name).await
}

async fn nothing_said_is_deny(cx: &Ctx) -> Done {
    let canary = canary(cx).await?;
    let mut spec = cx.spec();
    spec.network = None;
    let sandbox = cx.sandbox_of(spec).await?;
    silent(cx, &sandbox, &canary, &canary.host).await
}

async fn an_empty_allowlist_is_deny(cx: &Ctx) -> Done {
    let canary = canary(cx).await?;
    denied(cx, NetworkPolicy::Allow(Vec::new()), &canary, &canary.host).await
}

async fn two_policies_hold_side_by_side(cx: &Ctx) -> Done {
    let canary = canary(cx).await?;
    let open = cx.sandbox_of(cx.spec().network(NetworkPolicy::Open)).await?;
    let closed = cx.sandbox_of(cx.spec().network(NetworkPolicy::Deny)).await?;
    for _ in 0..2 {
        answers(cx, &open, &canary, &canary.host).await?;
        silent(cx, &closed, &canary, &canary.host).await?;
    }
    Ok(())
}

async fn a_host_rule(cx: &Ctx) -> Done {
    let canary = canary(cx).await?;
    let name = name(&canary)?;
    allowed(cx, name, &canary, name).await?;
    denied(cx, allow("other.invalid")?, &canary, name).await
}

async fn a_wildcard_rule(cx: &Ctx) -> Done {
    let canary = canary(cx).await?;
    let name = name(&canary)?;
    let Some((_, domain)) = name.split_once('.') else { unproven!("the canary's name {name} is in no domain") };
    allowed(cx, &format!("*.{domain}"), &canary, name).await?;
    denied(cx, allow(&format!("*.x{domain}"))?, &canary, name).await?;
    // The domain itself is not below it.
    denied(cx, allow(&format!("*.{name}"))?, &canary, name).await
}

/// A question could carry data out.
async fn names_that_no_rule_has(cx: &Ctx) -> Done {
    let canary = deny::canary_at(cx, Reach::Lookup).await?;
    let lookup = || cx.probes().lookup(&*canary.host).timeout(cx.secs(20));
    let (hits, sandbox) = (canary.hits(), cx.sandbox_of(cx.spec().network(allow(&canary.host)?)).await?);
    let asked = cx.run(&sandbox, lookup()).await?;
    if canary.hits() == hits {
        unproven!(
            "{asked:?}: the positive control cannot be made here: a name that a rule has is not looked up outside"
        );
    }
    let (hits, sandbox) = (canary.hits(), cx.sandbox_of(cx.spec().network(allow("other.invalid")?)).await?);
    let output = cx.run(&sandbox, lookup()).await?;
    ensure!(!output.success(), "a name that no rule has is resolved: {output:?}");
    ensure!(canary.hits() == hits, "a name that no rule has is asked for outside: {output:?}");
    Ok(())
}

async fn an_address_of_an_allowed_name(cx: &Ctx) -> Done {
    let canary = canary(cx).await?;
    let name = name(&canary)?;
    let sandbox = cx.sandbox_of(cx.spec().network(allow(name)?)).await?;
    silent(cx, &sandbox, &canary, &canary.host).await.map_err(|stop| stop.during("by its address"))?;
    answers(cx, &sandbox, &canary, name).await.map_err(|stop| stop.during("by its name"))
}

async fn an_ipv4_rule(cx: &Ctx) -> Done {
    let canary = canary(cx).await?;
    let Ok(IpAddr::V4(_)) = canary.host.parse() else { unproven!("the canary {} is no IPv4 address", canary.host) };
    allowed(cx, &canary.host, &canary, &canary.host).await?;
    denied(cx, allow("192.0.2.7")?, &canary, &canary.host).await
}

async fn an_ipv6_rule(cx: &Ctx) -> Done {
    let canary = deny::canary_at(cx, Reach::Ipv6).await?;
    let open = cx.sandbox_of(cx.spec().network(NetworkPolicy::Open)).await?;
    control(cx, &open, &canary, &canary.host).await?;
    allowed(cx, &canary.host, &canary, &canary.host).await?;
    denied(cx, allow("2001:db8::7")?, &canary, &canary.host).await
}

async fn a_cidr_rule(cx: &Ctx) -> Done {
    let canary = canary(cx).await?;
    let Ok(IpAddr::V4(address)) = canary.host.parse() else {
        unproven!("the canary {} is no IPv4 address", canary.host)
    };
    let [a, b, c, _] = address.octets();
    allowed(cx, &format!("{a}.{b}.{c}.0/24"), &canary, &canary.host).await?;
    denied(cx, allow(&format!("{a}.{b}.{}.0/24", c ^ 1))?, &canary, &canary.host).await
}

async fn a_port_rule(cx: &Ctx) -> Done {
    let canary = canary(cx).await?;
    let Ok(IpAddr::V4(_)) = canary.host.parse() else { unproven!("the canary {} is no IPv4 address", canary.host) };
    allowed(cx, &format!("{}:{}", canary.host, canary.port), &canary, &canary.host).await?;
    let other = if canary.port == 9 { 10 } else { 9 };
    denied(cx, allow(&format!("{}:{other}", canary.host))?, &canary, &canary.host).await
}

async fn allowed(cx: &Ctx, rule: &str, canary: &Canary, host: &str) -> Done {
    let sandbox = cx.sandbox_of(cx.spec().network(allow(rule)?)).await?;
    answers(cx, &sandbox, canary, host).await.map_err(|stop| stop.during(&format!("allowed by `{rule}`")))
}

/// The same probe has succeeded under `Open`; see [`canary`].
async fn denied(cx: &Ctx, policy: NetworkPolicy, canary: &Canary, host: &str) -> Done {
    let what = format!("under {policy:?}");
    if host != canary.host {
        let open = cx.sandbox_of(cx.spec().network(NetworkPolicy::Open)).await?;
        control(cx, &open, canary, host).await?;
    }
    let sandbox = cx.sandbox_of(cx.spec().network(policy)).await?;
    silent(cx, &sandbox, canary, host).await.map_err(|stop| stop.during(&what))
}

/// The canary, which has answered a sandbox with an open network.
pub(super) async fn canary(cx: &Ctx) -> Result<Canary, Stop> {
    let Some(canary) = &cx.hooks().canary else { unproven!("the behaviour probe `canary` is missing") };
    let canary = cx.within(60, "the probe `canary`", canary(())).await??;
    let open = cx.sandbox_of(cx.spec().network(NetworkPolicy::Open)).await?;
    control(cx, &open, &canary, &canary.host).await?;
    Ok(canary)
}

/// Without it, a denial proves nothing.
pub(super) async fn control(cx: &Ctx, open: &Sandbox, canary: &Canary, host: &str) -> Done {
    match answers(cx, open, canary, host).await {
        Err(Stop::Fail(evidence)) => unproven!("the positive control cannot be made here: {evidence}"),
        other => other,
    }
}

fn name(canary: &Canary) -> Result<&str, Stop> {
    canary.name.as_deref().ok_or_else(|| Stop::unproven("the canary has no name that sandboxes can resolve"))
}

fn allow(rule: &str) -> Result<NetworkPolicy, Stop> {
    Ok(NetworkPolicy::Allow(vec![rule.parse()?]))
}

pub(super) async fn answers(cx: &Ctx, sandbox: &Sandbox, canary: &Canary, host: &str) -> Done {
    let hits = canary.hits();
    let output = cx.run(sandbox, cx.probes().egress(host, canary.port).timeout(cx.secs(20))).await?;
    let said = output.stdout.text();
    ensure!(said.contains(&canary.says), "no answer from {host}:{}: {output:?}", canary.port);
    ensure!(canary.hits() > hits, "the canary at {host}:{} answered and did not count it", canary.port);
    Ok(())
}

pub(super) async fn silent(cx: &Ctx, sandbox: &Sandbox, canary: &Canary, host: &str) -> Done {
    // That commands run here at all is seen first.
    let echo = cx.text(sandbox, cx.probes().echo("control")).await?;
    ensure!(echo == "control", "echo gives {echo:?}");
    let hits = canary.hits();
    let result =
        cx.within(60, "egress", sandbox.run(cx.probes().egress(host, canary.port).timeout(cx.secs(20)))).await?;
    if let Ok(output) = &result {
        ensure!(!output.success() && !output.stdout.text().contains(&canary.says), "{host} was reached: {output:?}");
    }
    ensure!(canary.hits() == hits, "the canary at {host}:{} was reached: {result:?}", canary.port);
    Ok(())
}
