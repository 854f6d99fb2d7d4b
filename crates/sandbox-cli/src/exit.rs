//! The codes that the command ends with: the one table.

use sandbox::{Error, ErrorKind};
use std::process::ExitCode;

macro_rules! table {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal;)*) => {
        /// A code of this command itself. A program inside may end with any of them too; `--json` tells the two apart.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Own { $($(#[doc = $doc])+ $name = $code,)* }

        /// The table as help shows it.
        pub(crate) const TABLE: &str = concat!(
            "Exit codes:\n",
            "  N     the program's own code; 128+N where it died of signal N\n",
            $("  ", stringify!($code), "  ", $($doc,)+ "\n",)*
            "A program may end with these codes too: the field `status` of --json tells for sure."
        );

        /// Every code with what it means.
        pub(crate) const ALL: &[(Own, &str)] = &[$((Own::$name, concat!($($doc,)+)),)*];
    };
}

table! {
    /// hung up (SIGHUP): the program was ended, the sandbox removed
    Hangup = 129;
    /// interrupted (SIGINT): the program was ended, the sandbox removed
    Interrupt = 130;
    /// stdout was closed by its reader: the program was ended, the sandbox removed
    Pipe = 141;
    /// terminated (SIGTERM): the program was ended, the sandbox removed
    Terminate = 143;
    /// the command line is wrong, or a host path of it; nothing was created
    Usage = 240;
    /// no backend was chosen, or it cannot be reached with these credentials
    Backend = 241;
    /// the backend cannot do what was asked; nothing was created
    Refused = 242;
    /// the sandbox could not be created
    Create = 243;
    /// the program could not be started
    Start = 244;
    /// the program was not over at its timeout, and was ended
    Timeout = 245;
    /// the program hit a cap of the sandbox, such as its memory
    Limit = 246;
    /// the sandbox, or the connection to it, was lost
    Lost = 247;
    /// an upload or a download failed
    Files = 248;
    /// the sandbox could not be removed, or not be seen to be gone
    Teardown = 249;
    /// a fault of this command, or of the host
    Internal = 250;
    /// of `sandbox conformance --check`: the pages are not what the reports give
    Stale = 251;
}

impl Own {
    /// The code.
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }
}

impl From<Own> for ExitCode {
    fn from(own: Own) -> Self {
        Self::from(own.code())
    }
}

/// What the command was doing when something failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Phase {
    /// Reading the command line.
    Usage,
    /// Opening the backend.
    Open,
    /// Creating the sandbox.
    Create,
    /// Copying files into it.
    Upload,
    /// Starting the program.
    Start,
    /// The program was running.
    Run,
    /// Copying files out.
    Download,
    /// Removing the sandbox.
    Teardown,
    /// Listing sandboxes.
    List,
}

/// The code for an error in a phase.
pub(crate) fn code(phase: Phase, error: &Error) -> Own {
    use ErrorKind as K;
    match error.kind() {
        K::Internal | K::Forked => return Own::Internal,
        K::BackendUnknown | K::BackendMissing | K::Auth | K::PermissionDeniedByProvider => return Own::Backend,
        _ => {}
    }
    match (phase, error.kind()) {
        (Phase::Usage, _) | (Phase::Open | Phase::Create | Phase::List, K::InvalidArgument) => Own::Usage,
        (Phase::Open | Phase::Create | Phase::List, K::Unsupported | K::IsolationTooWeak) => Own::Refused,
        (Phase::Open, _) => Own::Backend,
        (Phase::Create, _) => Own::Create,
        (_, K::TeardownFailed | K::TeardownTimeout) | (Phase::Teardown, _) => Own::Teardown,
        (_, K::Gone | K::ConnectionLost) | (Phase::List, _) => Own::Lost,
        (Phase::Upload | Phase::Download, _) => Own::Files,
        (Phase::Start | Phase::Run, K::ExecutionTimeout) => Own::Timeout,
        (Phase::Start | Phase::Run, K::ResourceExhausted) => Own::Limit,
        (Phase::Start, _)
        | (
            Phase::Run,
            K::StartFailed | K::ProgramNotFound | K::ArgumentTooLarge | K::PathNotFound | K::NotADirectory,
        ) => Own::Start,
        (Phase::Run, _) => Own::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_in_the_documented_ranges() {
        let codes: std::collections::BTreeSet<_> = ALL.iter().map(|(own, _)| own.code()).collect();
        assert_eq!(codes.len(), ALL.len());
        for (own, meaning) in ALL {
            assert!(TABLE.contains(&format!("  {}  {meaning}\n", own.code())), "{TABLE}");
        }
    }

    #[test]
    fn no_error_ends_with_a_code_of_success_or_of_a_signal() {
        let phases = [
            Phase::Usage,
            Phase::Open,
            Phase::Create,
            Phase::Upload,
            Phase::Start,
            Phase::Run,
            Phase::Download,
            Phase::Teardown,
            Phase::List,
        ];
        for kind in ErrorKind::ALL {
            for phase in phases {
                let code = code(phase, &Error::new(*kind, "x")).code();
                assert!((240..=250).contains(&code), "{kind} in {phase:?} is {code}");
            }
        }
    }

    #[test]
    fn the_same_kind_means_what_its_phase_says() {
        let missing = Error::new(ErrorKind::PathNotFound, "x");
        assert_eq!(code(Phase::Usage, &missing), Own::Usage);
        assert_eq!(code(Phase::Start, &missing), Own::Start);
        assert_eq!(code(Phase::Download, &missing), Own::Files);
        assert_eq!(code(Phase::Run, &Error::new(ErrorKind::ExecutionTimeout, "x")), Own::Timeout);
        assert_eq!(code(Phase::Create, &Error::unsupported("x")), Own::Refused);
        assert_eq!(code(Phase::Create, &Error::new(ErrorKind::ImageNotFound, "x")), Own::Create);
    }
}
