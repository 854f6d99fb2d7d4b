//! `sandbox explain`.

use crate::{
    exit::{self, Phase},
    report::{Payload, Report},
};
use clap::Args;
use sandbox::{Capability, Error, ErrorKind, Retry};
use serde::Serialize;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Explain {
    /// The codes; without any, all of them are listed
    #[arg(value_name = "CODE")]
    codes: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  sandbox explain execution-timeout
  sandbox explain KILL_ONE
  sandbox explain 245";

/// What one code means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Meaning {
    code: String,
    /// Of which list.
    of: Of,
    meaning: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    may_have_applied: Option<bool>,
}

/// The lists that codes are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Of {
    ErrorKind,
    Capability,
    ExitCode,
}

#[derive(Debug, Serialize)]
struct Meanings {
    codes: Vec<Meaning>,
    /// One line each.
    #[serde(skip)]
    brief: bool,
}

impl Payload for Meanings {
    fn words(&self) -> String {
        if !self.brief {
            return self.codes.iter().map(Meaning::words).collect::<Vec<_>>().join("\n");
        }
        let mut text = String::new();
        for (of, title) in
            [(Of::ErrorKind, "Error kinds"), (Of::Capability, "Capabilities"), (Of::ExitCode, "Exit codes")]
        {
            let codes: Vec<_> = self.codes.iter().filter(|one| one.of == of).collect();
            let width = codes.iter().map(|one| one.code.len()).max().unwrap_or(0);
            text.push_str(&format!("{}{title}:\n", if text.is_empty() { "" } else { "\n" }));
            for one in codes {
                text.push_str(&format!("  {:width$}  {}\n", one.code, one.meaning));
            }
        }
        text
    }
}

impl Meaning {
    fn words(&self) -> String {
        let of = match self.of {
            Of::ErrorKind => "error kind",
            Of::Capability => "capability",
            Of::ExitCode => "exit code of this command",
        };
        let mut text = format!("{}: {of}\n  {}\n", self.code, self.meaning);
        if let Some(fix) = self.fix {
            text.push_str(&format!("  what to do: {fix}\n"));
        }
        if let Some(retry) = self.retry {
            text.push_str(&format!("  trying again: {retry}\n"));
        }
        match self.may_have_applied {
            Some(true) => text.push_str("  effect: the request may have taken effect all the same\n"),
            Some(false) => text.push_str("  effect: the request took no effect\n"),
            None => {}
        }
        text
    }
}

/// Says what codes mean, and gives the code to end with.
pub(crate) fn explain(args: &Explain, json: bool) -> u8 {
    let mut report = Report::new(json);
    let all = all();
    if args.codes.is_empty() {
        return report.give(&Meanings { codes: all, brief: true }, "ok", 0);
    }
    let (mut codes, mut failed) = (Vec::new(), None);
    for code in &args.codes {
        match all.iter().find(|one| plain(&one.code) == plain(code)) {
            Some(one) => codes.push(one.clone()),
            None => {
                let error = unknown(code, &all);
                report.error(Phase::Usage, &error);
                failed = Some(exit::code(Phase::Usage, &error));
            }
        }
    }
    let found = Meanings { codes, brief: false };
    match failed {
        None => report.give(&found, "ok", 0),
        Some(own) => report.give(&found, "failed", own.code()),
    }
}

/// Every code there is. Where the core has a meaning, it is the core's.
fn all() -> Vec<Meaning> {
    let bare = |code: &str, of, meaning: &str| Meaning {
        code: code.into(),
        of,
        meaning: crate::table::flat(meaning),
        fix: None,
        retry: None,
        may_have_applied: None,
    };
    let kinds = ErrorKind::ALL.iter().map(|kind| Meaning {
        fix: Some(kind.fix()),
        retry: Some(match kind.retry() {
            Retry::Never => "fails again, unless something else has changed",
            _ => "may succeed later",
        }),
        may_have_applied: Some(kind.may_have_applied()),
        ..bare(kind.code(), Of::ErrorKind, kind.meaning())
    });
    let capabilities = Capability::ALL.iter().map(|one| bare(one.code(), Of::Capability, one.meaning()));
    let codes = exit::ALL.iter().map(|(own, meaning)| bare(&own.code().to_string(), Of::ExitCode, meaning));
    kinds.chain(capabilities).chain(codes).collect()
}

/// The same for `kill-one`, `KillOne` and `KILL_ONE`.
fn plain(code: &str) -> String {
    code.trim()
        .trim_matches(['[', ']'])
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

fn unknown(code: &str, all: &[Meaning]) -> Error {
    let near = near(code, all);
    let hint = match &near[..] {
        [] => "`sandbox explain` lists every code".into(),
        near => format!("near ones are {}; `sandbox explain` lists every code", near.join(", ")),
    };
    Error::invalid(format!("there is no code `{}`", code.escape_debug())).with_hint(hint)
}

/// The nearest codes, the nearest first.
fn near<'a>(code: &str, all: &'a [Meaning]) -> Vec<&'a str> {
    let wanted = plain(code);
    let distance = |one: &'a Meaning| (strsim::jaro_winkler(&wanted, &plain(&one.code)), &*one.code);
    // Digits are too short to be alike: a code that is none has no neighbours worth a word.
    let words = all.iter().filter(|one| one.of != Of::ExitCode);
    let mut near: Vec<_> = words.map(distance).filter(|(like, _)| *like > ALIKE).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    near.into_iter().take(3).map(|(_, code)| code).collect()
}

const ALIKE: f64 = 0.75;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_there_once_and_has_a_meaning() {
        let all = all();
        let codes: std::collections::BTreeSet<_> = all.iter().map(|one| plain(&one.code)).collect();
        assert_eq!(codes.len(), all.len(), "two codes are the same to who asks");
        assert_eq!(all.len(), ErrorKind::ALL.len() + Capability::ALL.len() + exit::ALL.len());
        assert!(all.iter().all(|one| one.meaning.len() > 5), "{all:?}");
    }

    #[test]
    fn near_codes_are_listed_the_nearest_first() {
        let all = all();
        assert_eq!(near("excution-timeout", &all)[0], "execution-timeout");
        assert_eq!(near("KILONE", &all)[0], "KILL_ONE");
        assert!(near("zzzzqqq", &all).is_empty());
    }
}
