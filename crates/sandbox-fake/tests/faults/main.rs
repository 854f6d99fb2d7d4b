//! The contract suite is proven: for each row there is a backend that gets just this wrong, and the row turns red.
//!
//! `matrix.toml` says which lie kills which row. Its designated killers run on every change, the whole product nightly. The rows
//! that only the facade can break are killed by mutations of the facade, by `cargo xtask mutate`.

#[path = "../subject/mod.rs"]
mod subject;

mod matrix;
mod pool;
mod traps;

use matrix::Matrix;
use sandbox_contract::{Record, Row, Suite, Verdict};
use sandbox_core::{Backend, Capability};
use sandbox_fake::Fault;
use std::collections::{BTreeMap, BTreeSet};

/// Rows that are to fail are given up early. What a fault needs to show is not made of time.
const IMPATIENT: f64 = 0.3;

fn lie(fault: Fault, row: &'static Row, scale: f64) -> Record {
    Suite::new(move || subject::subject(subject::fake(), move |fake| fake.lying(fault))).scale(scale).run(row)
}

fn row(name: &str) -> &'static Row {
    sandbox_contract::rows().find(|row| row.name() == name).unwrap_or_else(|| panic!("there is no row {name}"))
}

#[test]
fn every_row_has_its_killer_and_every_fault_its_victim() {
    let matrix = Matrix::read();
    let rows: BTreeSet<_> = sandbox_contract::rows().map(Row::name).collect();
    let mut known = BTreeMap::new();
    for (list, names) in [
        ("killer", matrix.killer.keys().collect::<Vec<_>>()),
        ("facade", matrix.facade.keys().collect()),
        ("owed", matrix.owed.keys().collect()),
        ("unproven", matrix.unproven.keys().collect()),
    ] {
        for name in names {
            assert!(rows.contains(name.as_str()), "[{list}] has {name}, which is no row");
            assert_eq!(known.insert(name.as_str(), list), None, "{name} is in two lists");
        }
    }
    let without: Vec<_> = rows.iter().filter(|name| !known.contains_key(*name)).collect();
    assert!(without.is_empty(), "rows without a killer: give each a fault in matrix.toml: {without:#?}");
    let marked: BTreeSet<_> = sandbox_contract::rows().filter(|row| row.is_facade()).map(Row::name).collect();
    let listed: BTreeSet<_> = matrix.facade.keys().map(String::as_str).collect();
    assert_eq!(marked, listed, "rows marked `.facade()`, and rows in [facade]");
    let victims: BTreeSet<_> = matrix.killer.values().copied().collect();
    let without: Vec<_> = Fault::ALL.iter().filter(|fault| !victims.contains(fault)).collect();
    assert!(without.is_empty(), "faults without a victim: {without:#?}");
    let mutations = include_str!("../../../../ci/mutations.toml").parse::<toml::Table>().expect("ci/mutations.toml");
    for (row, mutation) in &matrix.facade {
        let rows = mutations.get(mutation).and_then(|entry| entry.get("rows")).and_then(toml::Value::as_array);
        let listed = rows.is_some_and(|rows| rows.iter().any(|name| name.as_str() == Some(row)));
        assert!(listed, "{row}: ci/mutations.toml has no [{mutation}] with this row");
    }
}

#[test]
fn designated_killers_kill() {
    let all = Matrix::read().killer;
    let failures = pool::each(all.into_iter().collect(), |(name, fault)| {
        let record = lie(fault, row(&name), IMPATIENT);
        (record.verdict != Verdict::Fail).then(|| format!("{name} with {fault}: {} {}", record.verdict, record.reason))
    });
    assert!(failures.is_empty(), "rows that did not see the lie:\n{}", failures.join("\n"));
}

#[test]
fn traps_are_seen() {
    let failures = pool::each(traps::ALL.to_vec(), |trap| {
        let record = Suite::new(move || trap.subject()).scale(IMPATIENT).run(row(trap.row));
        (record.verdict != trap.verdict)
            .then(|| format!("{}: {} is {} {}", trap.what, trap.row, record.verdict, record.reason))
    });
    assert!(failures.is_empty(), "traps that the suite walks into:\n{}", failures.join("\n"));
}

/// Every fault by every row, an hour or more: `cargo xtask ci --lane faults` runs it. `SANDBOX_FAULTS=accept` writes the matrix.
#[test]
#[ignore = "nightly"]
fn the_whole_product_is_the_matrix() {
    let mut matrix = Matrix::read();
    let names: Vec<_> = matrix.killer.keys().map(|name| row(name)).collect();
    let pairs = Fault::ALL.iter().flat_map(|fault| names.iter().map(move |row| (*fault, *row))).collect();
    let killed = pool::each(pairs, |(fault, row)| {
        (lie(fault, row, IMPATIENT).verdict == Verdict::Fail).then(|| (fault, row.name().to_string()))
    });
    let mut kills: BTreeMap<Fault, BTreeSet<String>> = BTreeMap::new();
    killed.into_iter().for_each(|(fault, row)| _ = kills.entry(fault).or_default().insert(row));
    if std::env::var("SANDBOX_FAULTS").is_ok_and(|what| what == "accept") {
        matrix.kills = kills;
        return matrix.write();
    }
    for (fault, rows) in &kills {
        let known = matrix.kills.get(fault).cloned().unwrap_or_default();
        let (more, less): (Vec<_>, Vec<_>) = (rows.difference(&known).collect(), known.difference(rows).collect());
        assert!(more.is_empty() && less.is_empty(), "{fault}: now also kills {more:?}, no longer {less:?}");
    }
}

/// Every row with no lie at all, as impatient as the killers: else they may kill by that alone.
#[test]
fn without_a_lie_impatient_rows_pass() {
    let all: Vec<_> = Matrix::read().killer.into_keys().collect();
    let failures = pool::each(all, |name| {
        let record = Suite::new(|| subject::subject(subject::fake(), |fake| fake)).scale(IMPATIENT).run(row(&name));
        (record.verdict != Verdict::Pass).then(|| format!("{name}: {} {}", record.verdict, record.reason))
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A fake without a capability refuses it, and all that does not need it holds.
#[test]
#[ignore = "nightly"]
fn every_profile_is_refused_or_holds() {
    let rows: Vec<_> = sandbox_contract::rows().collect();
    let has = |capability: &&Capability| subject::fake().info().has(**capability);
    let pairs = Capability::ALL.iter().filter(has).flat_map(|one| rows.iter().map(move |row| (*one, *row))).collect();
    let failures = pool::each(pairs, |(capability, row)| {
        let make = move || subject::subject(subject::fake().absent(capability, "not in this profile"), |fake| fake);
        let record = Suite::new(make).run(row);
        let needs = row.capabilities().contains(&capability);
        let fine = if needs { record.verdict == Verdict::Absent } else { record.verdict != Verdict::Fail };
        (!fine).then(|| format!("{} without {capability}: {} {}", row.name(), record.verdict, record.reason))
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
