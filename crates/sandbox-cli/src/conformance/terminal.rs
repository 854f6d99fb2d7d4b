//! The matrix on a terminal.

use super::{
    groups::grouped,
    model::{Column, Conformance, Support, Verdict, codes},
};
use crate::{
    report::Payload,
    table::{flat, table},
};
use std::fmt::Write as _;

impl Payload for Conformance {
    fn words(&self) -> String {
        let mut text = String::new();
        let codes = codes(&self.backends);
        let mut rows = vec![line("CAPABILITY", self.backends.iter().map(|column| column.name.clone()))];
        for code in grouped(&codes).into_iter().flat_map(|(_, codes)| codes) {
            rows.push(line(code, self.backends.iter().map(|column| cell(column, code))));
        }
        text.push_str(&table(&rows));
        text.push('\n');
        for column in &self.backends {
            _ = writeln!(text, "{}: {} (as of {})", column.name, column.counts(), column.as_of);
            let tier = column.isolation.as_ref().map_or("unknown", |fact| &fact.tier);
            _ = writeln!(text, "  isolation: {tier}");
            for (support, codes) in column.reasons() {
                let (word, reason) = (support.word(), support.reason().unwrap_or_default());
                _ = writeln!(text, "  {word}: {}: {reason}", codes.join(" "));
            }
            for row in column.rows.iter().filter(|row| !matches!(row.verdict, Verdict::Pass | Verdict::Absent)) {
                _ = writeln!(text, "  {}: {}: {}", row.verdict, row.row, flat(&row.reason));
            }
        }
        text
    }
}

fn line(first: &str, rest: impl Iterator<Item = String>) -> Vec<String> {
    std::iter::once(first.to_string()).chain(rest).collect()
}

fn cell(column: &Column, code: &str) -> String {
    let cell = column.cell(code);
    let mark = match cell.support {
        Support::Native => '●',
        Support::Emulated(_) => '◐',
        Support::Absent(_) => '–',
    };
    let share = cell.share().map(|share| format!(" {share}")).unwrap_or_default();
    let doubt = if cell.count(Verdict::Fail) > 0 {
        " FAILED"
    } else if cell.is_doubtful() {
        " ?"
    } else {
        ""
    };
    format!("{mark} {}{share}{doubt}", cell.support.word())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::model::tests::sample;

    #[test]
    fn the_matrix_lines_up_and_names_what_was_not_seen() {
        let expected = "\
CAPABILITY  one               two
RUN         ● native 1/1      ● native 1/1
TREE        ◐ emulated 0/1 ?  ◐ emulated 0/1 ?
PIDS        – absent          ● native 0/1 FAILED

one: 2 pass, 1 absent, 1 unproven (as of 2026-01-02)
  isolation: container
  emulated: TREE: through tar & sh
  absent: PIDS: there is \"no\" such cap
  unproven: files::a_tree_goes_up: no probe
";
        let words = sample().words();
        assert!(words.starts_with(expected), "{words}");
    }
}
