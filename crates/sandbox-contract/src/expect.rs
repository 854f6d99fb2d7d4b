//! Macros that put the evidence into the failure: the harness does not capture output.

/// Stops the row as failed unless the condition holds: `ensure!(a == b, "what was expected, got {b:?}")`.
macro_rules! ensure {
    ($cond:expr, $($arg:tt)+) => {
        if !$cond {
            return Err($crate::row::Stop::fail(format_args!("{} (`{}` does not hold)", format_args!($($arg)+), stringify!($cond))));
        }
    };
}

/// Stops the row as failed unless both are equal: `expect_eq!(output.code(), 3, "the exit code")`.
macro_rules! expect_eq {
    ($left:expr, $right:expr, $($what:tt)+) => {
        match (&$left, &$right) {
            (left, right) => if !(*left == *right) {
                return Err($crate::row::Stop::fail(format_args!(
                    "{}: expected {}, got {}", format_args!($($what)+), $crate::expect::short(right), $crate::expect::short(left))));
            }
        }
    };
}

/// The error of a result that has to fail with this kind: `let error = expect_kind!(sb.run(c).await, Gone, "run after close");`
macro_rules! expect_kind {
    ($result:expr, $kind:ident, $($what:tt)+) => {
        match $result {
            Err(error) if sandbox_core::Error::kind(&error) == sandbox_core::ErrorKind::$kind => error,
            Err(error) => return Err($crate::row::Stop::fail(format_args!(
                "{}: expected `{}`, got {error:?}", format_args!($($what)+), sandbox_core::ErrorKind::$kind))),
            Ok(value) => return Err($crate::row::Stop::fail(format_args!(
                "{}: expected `{}`, got success: {}", format_args!($($what)+), sandbox_core::ErrorKind::$kind, $crate::expect::short(&value)))),
        }
    };
}

/// Stops the row as failed.
macro_rules! fail {
    ($($arg:tt)+) => { return Err($crate::row::Stop::fail(format_args!($($arg)+))) };
}

/// Stops the row as unproven: a probe or a positive control is missing.
macro_rules! unproven {
    ($($arg:tt)+) => { return Err($crate::row::Stop::unproven(format!($($arg)+))) };
}

pub(crate) use {ensure, expect_eq, expect_kind, fail, unproven};

/// The debug form, cut where it would drown the rest.
pub(crate) fn short(value: &impl std::fmt::Debug) -> String {
    const MOST: usize = 800;
    let text = format!("{value:?}");
    if text.len() <= MOST {
        return text;
    }
    let end = (0..=MOST).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}… ({} bytes)", &text[..end], text.len())
}
