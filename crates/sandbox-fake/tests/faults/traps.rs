//! Probes that prove nothing: what published suites were seen to walk into. None of it may look like a pass.

use crate::subject;
use sandbox::Command;
use sandbox_contract::{Canary, Probes, Subject, Verdict};
use std::future::ready;

#[derive(Clone, Copy)]
pub(crate) struct Trap {
    pub(crate) what: &'static str,
    pub(crate) row: &'static str,
    pub(crate) verdict: Verdict,
    set: fn(Probes) -> Probes,
}

impl Trap {
    pub(crate) fn subject(self) -> Subject {
        subject::changed(subject::fake(), |fake| fake, self.set)
    }
}

pub(crate) const ALL: &[Trap] = &[
    Trap {
        what: "a leak check that is an empty hook",
        row: "lifecycle::create_run_close_and_close_again",
        verdict: Verdict::Fail,
        set: |probes| probes.count(|_| ready(Ok(0))),
    },
    Trap {
        what: "a leak check that is an empty hook, and nothing that shows it",
        row: "lifecycle::the_last_handle_ends_the_sandbox",
        verdict: Verdict::Fail,
        set: |probes| probes.count(|_| ready(Ok(0))),
    },
    Trap {
        what: "a denial that is a missing tool",
        row: "network::deny_stops_tcp_to_an_address",
        verdict: Verdict::Unproven,
        set: |probes| probes.egress(|host, port| Command::new("no-such-tool").args([host, port.to_string()])),
    },
    Trap {
        what: "a denial of a host that nobody can resolve",
        row: "network::deny_stops_tcp_to_a_name",
        verdict: Verdict::Unproven,
        set: |probes| {
            let canary = || Canary::new(subject::ADDRESS, subject::PORT, "canary", || 0, ()).name("nowhere.invalid");
            probes.canary(move |()| ready(Ok(canary())))
        },
    },
    Trap {
        what: "a child that is never started",
        row: "stream::a_kill_reaches_the_whole_tree",
        verdict: Verdict::Fail,
        set: |probes| probes.spawn_child(|_| Command::new("hang")),
    },
    Trap {
        what: "a daemon that is never started",
        row: "lifecycle::destroy_ends_daemons_too",
        verdict: Verdict::Fail,
        set: |probes| probes.daemonize(|_| Command::new("true")),
    },
    Trap {
        what: "a look from outside that sees nothing",
        row: "lifecycle::destroy_ends_daemons_too",
        verdict: Verdict::Fail,
        set: |probes| probes.survivors(|_| ready(Ok(0))),
    },
    Trap {
        what: "a death that does not happen",
        row: "lifecycle::a_sandbox_that_dies_by_itself_is_gone_at_once",
        verdict: Verdict::Fail,
        set: |probes| probes.expire(|_| ready(Ok(()))),
    },
    Trap {
        what: "a look at processes that sees nothing",
        row: "cancel::a_dropped_run_kills_its_command",
        verdict: Verdict::Fail,
        set: |probes| probes.alive(|_| Command::new("echo").arg("0")),
    },
    Trap {
        what: "a failure of the provider that does not happen",
        row: "create::a_provider_failure_keeps_its_cause",
        verdict: Verdict::Fail,
        set: |probes| probes.provider_failure(|()| ready(Ok("never".to_string()))),
    },
];
