//! The matrix as a page of the documentation.

use super::{
    groups::grouped,
    model::{Column, Conformance, Row, Support, Verdict, codes, meaning},
};
use crate::amount::limit;
use std::{collections::BTreeSet, fmt::Write as _};

/// The whole page.
pub(super) fn render(all: &Conformance) -> String {
    let mut page = String::from(HEAD);
    summary(&mut page, &all.backends);
    matrix(&mut page, &all.backends);
    for column in &all.backends {
        limits(&mut page, column);
    }
    rows(&mut page, &all.backends);
    page
}

const HEAD: &str = "\
<!-- Made by `sandbox conformance --into docs` from what the contract suites reported. Do not edit. -->
# Conformance

What each backend can do, and how much of it the contract suite has seen. [`conformance.html`](conformance.html) is the same as a page to \
look at, [`conformance.json`](conformance.json) for programs. The day is the one on which a backend first came out like this.

";

fn summary(page: &mut String, backends: &[Column]) {
    page.push_str("| backend | isolation | rows of the suite | as of |\n|---|---|---|---|\n");
    for column in backends {
        let isolation = match &column.isolation {
            Some(fact) => format!("{} ({}; {})", fact.tier, cell(&fact.source), fact.date),
            None => "unknown".into(),
        };
        _ = writeln!(page, "| `{}` | {isolation} | {} | {} |", column.name, column.counts(), column.as_of);
    }
}

fn matrix(page: &mut String, backends: &[Column]) {
    page.push_str(
        "\n## Capabilities\n\n● native, ◐ made of other operations, – absent. Behind it: how many of the rows about it passed; \
         `?` where not all of them could be proven, `FAILED` where one was refuted.\n",
    );
    let codes = codes(backends);
    for (group, codes) in grouped(&codes) {
        let names: Vec<_> = backends.iter().map(|column| format!("`{}`", column.name)).collect();
        _ = writeln!(page, "\n| {group} | meaning | {} |\n|---|---|{}", names.join(" | "), "---|".repeat(names.len()));
        for code in codes {
            let cells: Vec<_> = backends.iter().map(|column| mark(column, code)).collect();
            _ = writeln!(page, "| {code} | {} | {} |", cell(&meaning(code)), cells.join(" | "));
        }
    }
}

fn mark(column: &Column, code: &str) -> String {
    let cell = column.cell(code);
    let mark = match cell.support {
        Support::Native => "●",
        Support::Emulated(_) => "◐",
        Support::Absent(_) => return "–".into(),
    };
    let doubt = if cell.count(Verdict::Fail) > 0 {
        " FAILED"
    } else if cell.is_doubtful() {
        " ?"
    } else {
        ""
    };
    format!("{mark} {}{doubt}", cell.share().unwrap_or_default())
}

fn limits(page: &mut String, column: &Column) {
    _ = writeln!(page, "\n## `{}`: what it cannot, and what was not proven\n", column.name);
    for (support, codes) in column.reasons() {
        _ = writeln!(
            page,
            "- {}: {}: {}",
            support.word(),
            codes.join(", "),
            flat(support.reason().unwrap_or_default())
        );
    }
    for row in column.rows.iter().filter(|row| !matches!(row.verdict, Verdict::Pass | Verdict::Absent)) {
        _ = writeln!(page, "- {}: `{}`: {}", row.verdict, row.row, flat(&row.reason));
    }
    let defaults: Vec<_> = column.defaults.iter().map(|(name, value)| limit(name, *value)).collect();
    if !defaults.is_empty() {
        _ = writeln!(page, "- limits where nothing is asked for: {}", defaults.join(", "));
    }
}

fn rows(page: &mut String, backends: &[Column]) {
    page.push_str("\n## Rows\n");
    let all: BTreeSet<(&str, &str)> =
        backends.iter().flat_map(|column| &column.rows).map(|row| (row.area(), &*row.row)).collect();
    let mut area = "";
    for (here, name) in all {
        if here != area {
            area = here;
            let names: Vec<_> = backends.iter().map(|column| format!("`{}`", column.name)).collect();
            _ = writeln!(page, "\n| {area} | about | {} |\n|---|---|{}", names.join(" | "), "---|".repeat(names.len()));
        }
        let found = |column: &Column| column.rows.iter().find(|row| row.row == name).cloned();
        let Some(row) = backends.iter().find_map(found) else { continue };
        let verdicts: Vec<_> = backends.iter().map(|column| verdict(found(column).as_ref())).collect();
        _ = writeln!(page, "| {} | {} | {} |", cell(&row.claim()), row.needs.join(", "), verdicts.join(" | "));
    }
}

fn verdict(row: Option<&Row>) -> &'static str {
    row.map_or("", |row| row.verdict.word())
}

/// Text that a cell of a table can hold.
fn cell(text: &str) -> String {
    flat(text).replace('|', "\\|")
}

/// One line, in which nothing is a tag.
fn flat(text: &str) -> String {
    crate::table::flat(text).replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::model::tests::sample;

    #[test]
    fn every_capability_row_and_reason_is_there() {
        let page = render(&sample());
        for part in [
            "| `one` | container (measured &lt;here>; 2026-01-01) | 2 pass, 1 absent, 1 unproven | 2026-01-02 |",
            "| RUN | A program runs to its end: exit code, stdout and stderr apart. | ● 1/1 | ● 1/1 |",
            "| TREE | Whole directories in one stream, both ways. | ◐ 0/1 ? | ◐ 0/1 ? |",
            "| – | ● 0/1 FAILED |",
            "- absent: PIDS: there is \"no\" such cap",
            "- unproven: `files::a_tree_goes_up`: no probe",
            "- limits where nothing is asked for: 256 MiB memory",
            "| a fork bomb is contained | PIDS | absent | fail |",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
    }
}
