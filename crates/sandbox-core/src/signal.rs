//! Signals to programs.

use std::fmt;

macro_rules! catalogue {
    ($($(#[doc = $doc:literal])+ $name:ident = $short:literal, $number:literal;)*) => {
        /// A signal to a program.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Signal { $($(#[doc = $doc])+ $name,)* }

        impl Signal {
            /// Every signal that there is here.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The signal's number on Linux, on x86 and ARM.
            pub const fn number(self) -> i32 {
                match self { $(Self::$name => $number,)* }
            }

            /// Its name without `SIG`, such as `TERM`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $short,)* }
            }
        }
    };
}

catalogue! {
    /// SIGHUP: the terminal is gone; to many servers, read the configuration again.
    Hangup = "HUP", 1;
    /// SIGINT, as ctrl-C sends it.
    Interrupt = "INT", 2;
    /// SIGQUIT, as ctrl-\ sends it.
    Quit = "QUIT", 3;
    /// SIGABRT.
    Abort = "ABRT", 6;
    /// SIGKILL: it can be neither caught nor ignored.
    Kill = "KILL", 9;
    /// SIGUSR1.
    User1 = "USR1", 10;
    /// SIGUSR2.
    User2 = "USR2", 12;
    /// SIGALRM.
    Alarm = "ALRM", 14;
    /// SIGTERM.
    Terminate = "TERM", 15;
    /// SIGCONT: a program that was stopped goes on.
    Continue = "CONT", 18;
    /// SIGSTOP: the program stands still until CONT; it can be neither caught nor ignored.
    Stop = "STOP", 19;
    /// SIGTSTP, as ctrl-Z sends it.
    TerminalStop = "TSTP", 20;
    /// SIGWINCH: the terminal has another size.
    WindowChange = "WINCH", 28;
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_unique() {
        let numbers: std::collections::BTreeMap<_, _> =
            Signal::ALL.iter().map(|signal| (signal.number(), signal.name())).collect();
        let names: std::collections::BTreeSet<_> = numbers.values().collect();
        assert_eq!((numbers.len(), names.len()), (Signal::ALL.len(), Signal::ALL.len()));
        assert_eq!((Signal::Terminate.to_string().as_str(), Signal::Terminate.number()), ("TERM", 15));
    }
}
