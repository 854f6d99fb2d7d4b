//! The contract suite is proven: for each row there is a backend that gets just this wrong, and the row turns red.
//!
//! `matrix.toml` says which lie kills which row. Its designated killers run on every change, the whole product nightly. The rows
//! that only the facade can break are killed by mutations of the facade, by `cargo xtask mutate`.

#[path = "../subject/mod.rs"]
mod subject;

mod matrix;
mod pool;
mod traps;

use matrix::{Kills, Matrix};
use sandbox_contract::{Record, Row, Suite, Verdict};
use sandbox_core::{Backend, Capability};
use sandbox_fake::Fault;
use std::collections::{BTreeMap, BTreeSet};

/// Rows that are to fail are given up early. What a fault needs to show is not made of time.
const IMPATIENT: f64 = 0.3;

fn lie(fault: Fault, row: &'static Row, scale: f64) -> Record {
    let fake = subject::fake();
    // All clients of a row are of one provider.
    Suite::new(move || subject::subject(fake.clone(), move |fake| fake.lying(fault))).scale(scale).run(row)
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
    let all = Matrix::read().killer.into_iter().map(|(name, fault)| (fault, row(&name)));
    let failures = pool::each(alone_last(all, |(_, row)| row), |(fault, row)| {
        let record = lie(fault, row, IMPATIENT);
        let told = || format!("{} with {fault}: {} {}", row.name(), record.verdict, record.reason);
        (record.verdict != Verdict::Fail).then(told)
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

/// Every fault by every row, for hours: `cargo xtask ci --lane faults-product` runs it. `SANDBOX_FAULTS=accept` writes the matrix.
/// `SANDBOX_FAULTS_ROWS` and `SANDBOX_FAULTS_ONLY` take a part of it: beginnings of rows, and names of faults, with commas.
#[test]
#[ignore = "nightly"]
fn the_whole_product_is_the_matrix() {
    let mut matrix = Matrix::read();
    let (rows, faults) = (part("SANDBOX_FAULTS_ROWS"), part("SANDBOX_FAULTS_ONLY"));
    let chosen = |row: &&Row| rows.is_empty() || rows.iter().any(|part| row.name().starts_with(part));
    let rows: Vec<_> = matrix.killer.keys().map(|name| row(name)).filter(chosen).collect();
    let chosen = |fault: &&Fault| faults.is_empty() || faults.iter().any(|name| name == fault.name());
    let faults: Vec<_> = Fault::ALL.iter().filter(chosen).copied().collect();
    assert!(!rows.is_empty() && !faults.is_empty(), "nothing of the product is chosen");
    let pairs: Vec<_> = faults.iter().flat_map(|fault| rows.iter().map(move |row| (*fault, *row))).collect();
    let known = |fault: Fault, row: &Row| matrix.kills.get(&fault).is_some_and(|rows| rows.contains(row.name()));
    let is_news = |(fault, row): (Fault, &'static Row)| {
        let kills = lie(fault, row, IMPATIENT).verdict == Verdict::Fail;
        (kills != known(fault, row)).then_some((fault, row))
    };
    let news = pool::each(alone_last(pairs, |(_, row)| row), is_news);
    // Once more at leisure: that a busy machine was late is no kill, and none the less.
    let news = pool::few(alone_last(news, |(_, row)| row), is_news);
    let (mut more, mut less) = (Kills::new(), Kills::new());
    for (fault, row) in news {
        let side = if known(fault, row) { &mut less } else { &mut more };
        side.entry(fault).or_default().insert(row.name().to_string());
    }
    if std::env::var("SANDBOX_FAULTS").is_ok_and(|what| what == "accept") {
        for (fault, rows) in more {
            matrix.kills.entry(fault).or_default().extend(rows);
        }
        for (fault, rows) in less {
            matrix.kills.entry(fault).or_default().retain(|row| !rows.contains(row));
        }
        return matrix.write();
    }
    assert!(
        more.is_empty() && less.is_empty(),
        "the product is not [kills] of the matrix: now also {more:#?}, no longer {less:#?}"
    );
}

/// Rows that have to be alone come last: each of them waits until all others are over.
fn alone_last<T>(all: impl IntoIterator<Item = T>, row: impl Fn(&T) -> &&'static Row) -> Vec<T> {
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort_by_key(|one| row(one).is_serial());
    all
}

fn part(variable: &str) -> Vec<String> {
    let chosen = std::env::var(variable).unwrap_or_default();
    chosen.split(',').map(str::trim).filter(|one| !one.is_empty()).map(str::to_string).collect()
}

/// Every row with no lie at all, as impatient as the killers: else they may kill by that alone.
#[test]
fn without_a_lie_impatient_rows_pass() {
    let all: Vec<_> = Matrix::read().killer.into_keys().map(|name| row(&name)).collect();
    let failures = pool::each(alone_last(all, |row| row), |row| {
        let fake = subject::fake();
        let suite = Suite::new(move || subject::subject(fake.clone(), |fake| fake));
        let record = suite.scale(IMPATIENT).run(row);
        (record.verdict != Verdict::Pass).then(|| format!("{}: {} {}", row.name(), record.verdict, record.reason))
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A row that says something on the fake is proven on the fake: no list is a place for rows whose killer nobody has looked for.
#[test]
fn what_is_not_proven_says_nothing_on_the_fake() {
    let failures = pool::each(Matrix::read().unproven.into_keys().collect(), |name| {
        let fake = subject::fake();
        let record = Suite::new(move || subject::subject(fake.clone(), |fake| fake)).run(row(&name));
        let says_nothing = matches!(record.verdict, Verdict::Unproven | Verdict::Absent);
        (!says_nothing).then(|| format!("{name}: {} {}", record.verdict, record.reason))
    });
    assert!(failures.is_empty(), "rows of [unproven] that need a killer:\n{}", failures.join("\n"));
}

/// A fake without a capability refuses it, and all that does not need it holds.
#[test]
#[ignore = "nightly"]
fn every_profile_is_refused_or_holds() {
    let rows: Vec<_> = sandbox_contract::rows().collect();
    let has = |capability: &&Capability| subject::fake().info().has(**capability);
    let pairs = Capability::ALL.iter().filter(has).flat_map(|one| rows.iter().map(move |row| (*one, *row)));
    let failures = pool::each(alone_last(pairs, |(_, row)| row), |(capability, row)| {
        let fake = subject::fake().absent(capability, "not in this profile");
        let make = move || subject::subject(fake.clone(), |fake| fake);
        let record = Suite::new(make).run(row);
        let needs = row.capabilities().contains(&capability);
        let fine = if needs { record.verdict == Verdict::Absent } else { record.verdict != Verdict::Fail };
        (!fine).then(|| format!("{} without {capability}: {} {}", row.name(), record.verdict, record.reason))
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
