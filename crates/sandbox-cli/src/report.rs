//! What the command says of itself: lines on stderr for people, documents on stdout for programs.

use crate::exit::{self, Own, Phase};
use sandbox::{Error, ErrorKind, Fate, Retry};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::io::{self, Write as _};

/// What a command came to: one value, written as words for people and as fields of the last document for programs.
pub(crate) trait Payload: Serialize {
    /// The words, on stdout, with their line ends.
    fn words(&self) -> String;
}

/// Errors and warnings of one command. Each is said on stderr when it comes, and once more in the last document of `--json`.
#[derive(Debug)]
pub(crate) struct Report {
    json: bool,
    fields: Map<String, Value>,
    errors: Vec<Value>,
    warnings: Vec<String>,
}

impl Report {
    /// Nothing yet.
    pub(crate) fn new(json: bool) -> Self {
        Self { json, fields: Map::new(), errors: Vec::new(), warnings: Vec::new() }
    }

    /// Adds a field to the last document.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.fields.insert(name.into(), value.into());
    }

    /// Says an error.
    pub(crate) fn error(&mut self, phase: Phase, error: &Error) {
        say("error", &with_sandbox(error));
        if let Some(hint) = error.hint().filter(|hint| !hint.is_empty()) {
            say("hint", hint);
        }
        for cause in causes(error) {
            say("cause", &cause);
        }
        self.errors.push(document(phase, error));
    }

    /// Says something that is no failure.
    pub(crate) fn warning(&mut self, text: impl Into<String>) {
        let text = text.into();
        say("warning", &text);
        self.warnings.push(text);
    }

    /// The last document, with its line end; `None` where none is wanted.
    pub(crate) fn last(mut self, status: &str, code: u8) -> Option<String> {
        if !self.json {
            return None;
        }
        self.set("event", "end");
        self.set("status", status);
        self.set("exit", code);
        let errors = std::mem::take(&mut self.errors);
        self.set("errors", errors);
        let warnings = std::mem::take(&mut self.warnings);
        self.set("warnings", warnings);
        Some(format!("{}\n", Value::Object(self.fields)))
    }

    /// Adds every field of a payload to the last document.
    pub(crate) fn add(&mut self, payload: &impl Serialize) {
        if let Ok(Value::Object(fields)) = serde_json::to_value(payload) {
            self.fields.extend(fields);
        }
    }

    /// Writes what the command came to, and gives the code to end with.
    pub(crate) fn give(mut self, payload: &impl Payload, status: &str, code: u8) -> u8 {
        if self.json {
            self.add(payload);
            return self.end(status, code);
        }
        told(&payload.words(), code)
    }

    /// Writes the last document, and gives the code to end with.
    pub(crate) fn end(self, status: &str, code: u8) -> u8 {
        self.last(status, code).map_or(code, |last| told(&last, code))
    }

    /// The end of a command that failed before it did anything.
    pub(crate) fn failed(mut self, phase: Phase, error: &Error) -> u8 {
        self.error(phase, error);
        self.end("failed", exit::code(phase, error).code())
    }
}

/// One document on stdout.
pub(crate) fn line(value: &Value) {
    _ = write(&format!("{value}\n"));
}

/// Text on stdout.
pub(crate) fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Writes what a command came to. What nobody could be told is no success.
fn told(text: &str, code: u8) -> u8 {
    match write(text) {
        Ok(()) => code,
        Err(_) if code != 0 => code,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Own::Pipe.code(),
        Err(error) => {
            say("error", &format!("stdout takes no more: {error}"));
            Own::Internal.code()
        }
    }
}

/// The host gives no runtime, so there is nothing to do anything with.
pub(crate) fn no_runtime(error: &io::Error, json: bool) -> u8 {
    let error = Error::new(ErrorKind::Internal, format!("this host gives no event loop: {error}"));
    debug_assert_eq!(exit::code(Phase::Usage, &error), Own::Internal);
    Report::new(json).failed(Phase::Usage, &error)
}

/// One line on stderr, whatever is in the text: it may come from a provider.
fn say(what: &str, text: &str) {
    let text: String = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    _ = writeln!(io::stderr(), "sandbox: {what}: {text}");
}

fn with_sandbox(error: &Error) -> String {
    match error.sandbox() {
        Some(id) => format!("{error} in sandbox {id}"),
        None => error.to_string(),
    }
}

fn causes(error: &Error) -> Vec<String> {
    let first = std::error::Error::source(error);
    std::iter::successors(first, |cause| cause.source()).map(ToString::to_string).collect()
}

fn document(phase: Phase, error: &Error) -> Value {
    json!({
        "phase": phase,
        "kind": error.kind(),
        "message": error.message(),
        "hint": error.hint(),
        "operation": error.operation(),
        "backend": error.backend(),
        "sandbox": error.sandbox(),
        "may_have_applied": error.may_have_applied(),
        "retry": match error.retry() {
            Retry::Later => json!("later"),
            Retry::After(wait) => json!({ "after_ms": u64::try_from(wait.as_millis()).unwrap_or(u64::MAX) }),
            _ => json!("never"),
        },
        "fate": match error.fate() {
            Some(Fate::Dead) => json!("dead"),
            Some(_) => json!("unknown"),
            None => Value::Null,
        },
        "causes": causes(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_document_holds_what_was_said() {
        let mut report = Report::new(true);
        report.set("sandbox", "abc");
        let cause = io::Error::other("the cause");
        report.error(Phase::Create, &Error::new(ErrorKind::Capacity, "full").with_hint("wait").with_source(cause));
        let last: Value = serde_json::from_str(&report.last("failed", 243).unwrap()).unwrap();
        assert_eq!((&last["event"], &last["status"], &last["exit"]), (&json!("end"), &json!("failed"), &json!(243)));
        let error = &last["errors"][0];
        assert_eq!((&error["kind"], &error["phase"]), (&json!("capacity"), &json!("create")));
        assert_eq!((&error["hint"], &error["retry"]), (&json!("wait"), &json!("later")));
        assert_eq!(error["causes"], json!(["the cause"]));
        assert_eq!(last["sandbox"], json!("abc"));
    }

    #[test]
    fn a_payload_is_fields_of_the_last_document() {
        #[derive(Serialize)]
        struct Found {
            found: u8,
        }
        let mut report = Report::new(true);
        report.add(&Found { found: 3 });
        let last: Value = serde_json::from_str(&report.last("ok", 0).unwrap()).unwrap();
        assert_eq!((&last["found"], &last["status"]), (&json!(3), &json!("ok")));
    }

    #[test]
    fn people_get_no_document() {
        assert_eq!(Report::new(false).last("ok", 0), None);
    }
}
