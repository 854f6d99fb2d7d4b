//! The checkups for people.

use super::{Check, Checkup, Checkups, Outcome, Told};
use crate::{amount::amount, listed::words, report::Payload, table::flat};
use sandbox::Capability;
use std::{collections::BTreeMap, fmt::Write as _};

impl Payload for Checkups {
    fn words(&self) -> String {
        let mut text = String::new();
        for checkup in &self.backends {
            if !text.is_empty() {
                text.push('\n');
            }
            one(&mut text, checkup);
        }
        text.replace(|c: char| c.is_control() && c != '\n', " ")
    }
}

fn one(text: &mut String, checkup: &Checkup) {
    _ = writeln!(text, "{}: {}", checkup.backend, if checkup.usable { "usable" } else { "NOT USABLE" });
    for Check { check, outcome, says, kind, fix } in &checkup.checks {
        let outcome = match outcome {
            Outcome::Ok => "ok",
            Outcome::Failed => "FAILED",
            Outcome::NotChecked => "not checked",
        };
        let kind = kind.map(|kind| format!(" [{kind}]")).unwrap_or_default();
        line(text, check, &format!("{outcome}: {}{kind}", flat(says)));
        if let Some(fix) = fix {
            line(text, "", &format!("fix: {}", flat(fix)));
        }
    }
    if checkup.credentials.is_empty() {
        line(text, "credentials", "none is declared");
    }
    for one in &checkup.credentials {
        line(text, "credential", &format!("{}: {} ({})", one.variable, one.says, flat(one.help)));
    }
    if let Some(facts) = &checkup.facts {
        told(text, facts);
    }
}

fn told(text: &mut String, facts: &Told) {
    match &facts.isolation {
        Some(fact) => line(text, "isolation", &format!("{} ({}; {})", fact.tier, flat(&fact.source), fact.date)),
        None => line(text, "isolation", "unknown: the backend states no tier"),
    }
    line(text, "native", &codes(facts.native.iter()));
    for (name, reasons) in [("emulated", &facts.emulated), ("absent", &facts.absent)] {
        for (reason, these) in by_reason(reasons) {
            line(text, name, &format!("{}: {}", codes(these.iter()), flat(reason)));
        }
    }
    let resources = facts.resources.iter().map(|(name, honoured)| {
        let modes = match (honoured.limit, honoured.request) {
            (true, true) => "limit and request",
            (false, _) => "request",
            _ => "limit",
        };
        let default =
            honoured.default.map(|default| format!(", default {}", amount(name, default))).unwrap_or_default();
        format!("{name} ({modes}{default})")
    });
    let pids = facts.pids_by_default.map(|most| format!("processes (limit, default {most})"));
    let resources: Vec<_> = resources.chain(pids).collect();
    if !resources.is_empty() {
        line(text, "resources", &resources.join(", "));
    }
    for (name, longest) in [("lifetime", facts.longest_lifetime_s), ("command", facts.longest_command_s)] {
        if let Some(seconds) = longest {
            line(text, name, &format!("at most {}", words(seconds)));
        }
    }
}

fn line(text: &mut String, name: &str, says: &str) {
    _ = writeln!(text, "  {name:<12} {says}");
}

fn codes<'a>(all: impl Iterator<Item = &'a Capability>) -> String {
    let codes: Vec<_> = all.map(|one| one.code()).collect();
    if codes.is_empty() { "nothing".into() } else { codes.join(" ") }
}

/// The capabilities with the same reason together, in the order of the catalogue.
fn by_reason(reasons: &BTreeMap<Capability, String>) -> Vec<(&str, Vec<Capability>)> {
    let mut groups: Vec<(&str, Vec<Capability>)> = Vec::new();
    for (capability, reason) in reasons {
        match groups.iter_mut().find(|(known, _)| known == reason) {
            Some((_, these)) => these.push(*capability),
            None => groups.push((reason, vec![*capability])),
        }
    }
    groups
}
