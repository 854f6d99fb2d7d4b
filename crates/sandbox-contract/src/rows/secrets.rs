//! Rows about secrets of a sandbox: its programs have them, and nothing else shows them.

use crate::{
    Ctx,
    expect::{ensure, expect_eq, unproven},
    row::{Done, Row, row},
};
use sandbox_core::Capability::{Run, SecretStore, Snapshot};

pub(crate) static ROWS: &[Row] = &[
    row!("isolation::a_secret_reaches_programs", reaches_programs).needs(&[SecretStore, Run]),
    row!("isolation::a_secret_is_not_shown_by_the_provider", is_not_shown).needs(&[SecretStore, Run]),
    row!("isolation::a_snapshot_holds_no_secret", snapshot_holds_none).needs(&[SecretStore, Snapshot, Run]),
];

const NAME: &str = "CONTRACT_SECRET";
const VALUE: &str = "contract-hunter2-$HOME";

async fn reaches_programs(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox_of(cx.spec().secret(NAME, VALUE)).await?;
    expect_eq!(cx.text(&sandbox, cx.probes().env(NAME)).await?, VALUE, "the variable of a command");
    let own = cx.probes().env(NAME).env(NAME, "its own");
    expect_eq!(cx.text(&sandbox, own).await?, "its own", "the variable of a command that sets it itself");
    let without = cx.sandbox().await?;
    expect_eq!(
        cx.text(&without, cx.probes().env(NAME)).await?,
        "unset",
        "the variable in a sandbox without the secret"
    );
    Ok(())
}

async fn is_not_shown(cx: &Ctx) -> Done {
    let Some(inspect) = &cx.hooks().inspect else { unproven!("the behaviour probe `inspect` is missing") };
    let shown = cx.marker();
    let sandbox = cx.sandbox_of(cx.spec().env("CONTRACT_SHOWN", &shown).secret(NAME, VALUE)).await?;
    expect_eq!(cx.text(&sandbox, cx.probes().env(NAME)).await?, VALUE, "the variable of a command, the control");
    let text = cx.within(30, "the probe `inspect`", inspect(sandbox.id().clone())).await??;
    if !text.contains(&shown) && cx.labels().values().all(|label| !text.contains(label.as_str())) {
        unproven!("the provider shows neither the environment nor the labels of a sandbox");
    }
    ensure!(!text.contains(VALUE), "the provider shows the secret");
    Ok(())
}

async fn snapshot_holds_none(cx: &Ctx) -> Done {
    let sandbox = cx.sandbox_of(cx.spec().env("CONTRACT_KEPT", "kept").secret(NAME, VALUE)).await?;
    expect_eq!(cx.text(&sandbox, cx.probes().env(NAME)).await?, VALUE, "the variable in the source, the control");
    let snapshot = cx.snapshot(&sandbox).await?;
    let copy = cx.sandbox_of(cx.spec_from(&snapshot)).await?;
    expect_eq!(cx.text(&copy, cx.probes().env("CONTRACT_KEPT")).await?, "kept", "a variable of the snapshot");
    expect_eq!(cx.text(&copy, cx.probes().env(NAME)).await?, "unset", "the secret in a sandbox of the snapshot");
    drop(copy);
    cx.client().delete_snapshot(&snapshot).await?;
    Ok(())
}
