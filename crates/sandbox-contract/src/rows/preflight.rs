//! Rows of the area `preflight`: what is missing before anything is made.

use crate::{
    Ctx, Withheld,
    expect::{ensure, unproven},
    row::{Done, Row, Stop, row},
};
use sandbox_core::ErrorKind;

pub(crate) static ROWS: &[Row] = &[
    row!("preflight::a_missing_credential_names_its_variable", a_missing_credential_names_its_variable).offline(),
    row!("preflight::an_empty_credential_names_its_variable", an_empty_credential_names_its_variable).offline(),
];

async fn a_missing_credential_names_its_variable(cx: &Ctx) -> Done {
    withheld(cx, Withheld::Missing).await
}

async fn an_empty_credential_names_its_variable(cx: &Ctx) -> Done {
    withheld(cx, Withheld::Empty).await
}

async fn withheld(cx: &Ctx, how: Withheld) -> Done {
    let Some(variable) = cx.facts().credential_variables().first() else {
        return Err(Stop::Refused("the backend takes no credential, so none can be missing".into()));
    };
    ensure!(!variable.help.trim().is_empty(), "{} says nothing about what it holds", variable.name);
    let Some(missing) = &cx.hooks().missing_credential else {
        unproven!("the behaviour probe `missing_credential` is missing");
    };
    let error = cx.within(30, "the probe `missing_credential`", missing(how)).await??;
    ensure!(error.kind() == ErrorKind::Auth, "{how:?}: expected `auth`, got {error:?}");
    let text = format!("{error} {}", error.hint().unwrap_or_default());
    ensure!(text.contains(variable.name), "{how:?}: neither error nor hint names {}: {error:?}", variable.name);
    ensure!(!error.may_have_applied(), "{how:?}: nothing was sent, and the error says otherwise: {error:?}");
    Ok(())
}
