//! What was proven of each backend: the data that every rendering is made from.

use sandbox::Capability;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// Every backend that has a report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Conformance {
    pub(crate) backends: Vec<Column>,
}

/// One backend, as one run of the suite saw it. Nothing here depends on the day or on the speed of the machine, but `as_of`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// The day on which it first came out like this, as `2026-11-30`.
    pub(crate) as_of: String,
    pub(crate) isolation: Option<Isolation>,
    pub(crate) support: BTreeMap<String, Support>,
    /// The limits where nothing is asked for.
    pub(crate) defaults: BTreeMap<String, u64>,
    pub(crate) rows: Vec<Row>,
}

/// The tier, and who says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Isolation {
    pub(crate) tier: String,
    pub(crate) source: String,
    pub(crate) date: String,
}

/// How far a capability reaches, with its reason.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Support {
    // The weakest comes first: facts only narrow.
    Absent(String),
    Emulated(String),
    Native,
}

impl Support {
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Emulated(_) => "emulated",
            Self::Absent(_) => "absent",
        }
    }

    pub(crate) fn reason(&self) -> Option<&str> {
        match self {
            Self::Native => None,
            Self::Emulated(reason) | Self::Absent(reason) => Some(reason),
        }
    }
}

/// One row of the suite and what it came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) row: String,
    pub(crate) verdict: Verdict,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    /// The capabilities it is about; none for what every backend has to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) needs: Vec<String>,
    pub(crate) edition: u32,
}

impl Row {
    /// The part of the name before `::`.
    pub(crate) fn area(&self) -> &str {
        self.row.split_once("::").map_or("", |(area, _)| area)
    }

    /// Whether it tells something of this capability. Nearly every row runs a program: those that are about something else
    /// as well say nothing of `RUN`.
    fn is_about(&self, capability: &str) -> bool {
        let run = Capability::Run.code();
        self.needs.iter().any(|need| need == capability)
            && (capability != run || self.needs.iter().all(|need| need == run))
    }

    /// The claim in words.
    pub(crate) fn claim(&self) -> String {
        self.row.split_once("::").map_or(&*self.row, |(_, claim)| claim).replace('_', " ")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    Pass,
    Fail,
    Absent,
    Unproven,
    Unavailable,
}

impl Verdict {
    pub(crate) const ALL: [Self; 5] = [Self::Pass, Self::Absent, Self::Unproven, Self::Unavailable, Self::Fail];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Absent => "absent",
            Self::Unproven => "unproven",
            Self::Unavailable => "unavailable",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// A capability of a backend, and the rows that are about it.
#[derive(Debug)]
pub(crate) struct Cell<'a> {
    pub(crate) support: &'a Support,
    pub(crate) rows: Vec<&'a Row>,
}

impl Cell<'_> {
    pub(crate) fn count(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|row| row.verdict == verdict).count()
    }

    /// How many rows could tell whether the claim holds: not those that another capability, which is absent, took away.
    pub(crate) fn tellable(&self) -> usize {
        self.rows.len() - self.count(Verdict::Absent)
    }

    /// How much of what is claimed was seen, as `4/5`; nothing where nothing is claimed.
    pub(crate) fn share(&self) -> Option<String> {
        match self.support {
            Support::Absent(_) => None,
            _ => Some(format!("{}/{}", self.count(Verdict::Pass), self.tellable())),
        }
    }

    /// Whether something that is claimed was not seen.
    pub(crate) fn is_doubtful(&self) -> bool {
        let tellable = self.tellable();
        !matches!(self.support, Support::Absent(_)) && (tellable == 0 || self.count(Verdict::Pass) < tellable)
    }
}

impl Column {
    pub(crate) fn cell(&self, capability: &str) -> Cell<'_> {
        static UNDECLARED: std::sync::LazyLock<Support> =
            std::sync::LazyLock::new(|| Support::Absent("the backend does not declare it".into()));
        let support = self.support.get(capability).unwrap_or(&UNDECLARED);
        Cell { support, rows: self.rows.iter().filter(|row| row.is_about(capability)).collect() }
    }

    pub(crate) fn count(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|row| row.verdict == verdict).count()
    }

    /// `221 pass, 6 absent, 9 unproven`: what there is any of.
    pub(crate) fn counts(&self) -> String {
        let all =
            Verdict::ALL.into_iter().map(|verdict| (verdict, self.count(verdict))).filter(|(_, count)| *count > 0);
        all.map(|(verdict, count)| format!("{count} {verdict}")).collect::<Vec<_>>().join(", ")
    }

    /// What is absent or emulated, those with the same reason together.
    pub(crate) fn reasons(&self) -> Vec<(&Support, Vec<&str>)> {
        let mut groups: Vec<(&Support, Vec<&str>)> = Vec::new();
        for code in codes(std::slice::from_ref(self)) {
            let Some((code, support)) = self.support.get_key_value(&code) else { continue };
            if support.reason().is_some() {
                match groups.iter_mut().find(|(known, _)| *known == support) {
                    Some((_, codes)) => codes.push(code),
                    None => groups.push((support, vec![code])),
                }
            }
        }
        groups
    }

    /// The same but for the day.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let day = |column: &Self| Self { as_of: String::new(), ..column.clone() };
        day(self) == day(other)
    }
}

/// Every capability that a backend speaks of, in the order of the catalogue; what this version does not know comes last.
pub(crate) fn codes(backends: &[Column]) -> Vec<String> {
    let known = Capability::ALL.iter().map(|capability| capability.code().to_string());
    let spoken = |code: &String| backends.iter().any(|column| column.support.contains_key(code));
    let mut all: Vec<String> = known.filter(spoken).collect();
    for code in backends.iter().flat_map(|column| column.support.keys()) {
        if !all.contains(code) {
            all.push(code.clone());
        }
    }
    all
}

/// What a capability is, where this version knows it.
pub(crate) fn meaning(code: &str) -> String {
    let known = Capability::ALL.iter().find(|capability| capability.code() == code);
    let meaning = known.map_or("unknown to this version", |capability| capability.meaning());
    crate::table::flat(meaning)
}

impl Conformance {
    /// The text of the committed file: one row a line, so that a difference is read as rows.
    pub(crate) fn to_text(&self) -> serde_json::Result<String> {
        let mut text = String::from("{\"backends\":[");
        for (index, column) in self.backends.iter().enumerate() {
            let head = serde_json::to_string(&Column { rows: Vec::new(), ..column.clone() })?;
            let head = head.strip_suffix("]}").unwrap_or(&head);
            let rows: serde_json::Result<Vec<_>> = column.rows.iter().map(serde_json::to_string).collect();
            let comma = if index == 0 { "" } else { "," };
            text.push_str(&format!("{comma}\n{head}\n{}\n]}}", rows?.join(",\n")));
        }
        text.push_str("\n]}\n");
        Ok(text)
    }

    /// Takes a backend in, in the place of what was known of it. The day stays where nothing else has changed.
    pub(crate) fn put(&mut self, mut column: Column) {
        match self.backends.iter_mut().find(|known| known.name == column.name) {
            Some(known) => {
                if known.is_like(&column) {
                    column.as_of.clone_from(&known.as_of);
                }
                *known = column;
            }
            None => self.backends.push(column),
        }
        self.backends.sort_by(|a, b| a.name.cmp(&b.name));
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Two small backends with every kind of support and verdict.
    pub(crate) fn sample() -> Conformance {
        let row = |row: &str, verdict, reason: &str, needs: &[&str]| Row {
            row: row.into(),
            verdict,
            reason: reason.into(),
            needs: needs.iter().map(|need| (*need).to_string()).collect(),
            edition: 1,
        };
        let one = Column {
            name: "one".into(),
            as_of: "2026-01-02".into(),
            isolation: Some(Isolation {
                tier: "container".into(),
                source: "measured <here>".into(),
                date: "2026-01-01".into(),
            }),
            support: [
                ("RUN".into(), Support::Native),
                ("TREE".into(), Support::Emulated("through tar & sh".into())),
                ("PIDS".into(), Support::Absent("there is \"no\" such cap".into())),
            ]
            .into(),
            defaults: [("memory".into(), 268_435_456)].into(),
            rows: vec![
                row("run::exit_codes_arrive", Verdict::Pass, "", &["RUN"]),
                row("files::a_tree_goes_up", Verdict::Unproven, "no probe", &["TREE"]),
                row("create::a_fork_bomb_is_contained", Verdict::Absent, "PIDS: there is \"no\" such cap", &["PIDS"]),
                row("info::is_instant", Verdict::Pass, "", &[]),
            ],
        };
        let mut two = Column { name: "two".into(), isolation: None, ..one.clone() };
        two.support.insert("PIDS".into(), Support::Native);
        two.rows[2].verdict = Verdict::Fail;
        Conformance { backends: vec![one, two] }
    }

    #[test]
    fn the_file_is_read_back_and_has_a_row_a_line() {
        let all = sample();
        let text = all.to_text().unwrap();
        assert_eq!(serde_json::from_str::<Conformance>(&text).unwrap(), all);
        assert_eq!(text.lines().filter(|line| line.starts_with("{\"row\"")).count(), 8, "{text}");
    }

    #[test]
    fn the_day_stays_where_nothing_has_changed() {
        let mut all = sample();
        let later = |column: &Column| Column { as_of: "2027-01-01".into(), ..column.clone() };
        all.put(later(&sample().backends[0]));
        assert_eq!(all, sample());
        let mut changed = later(&sample().backends[0]);
        changed.rows.pop();
        all.put(changed.clone());
        assert_eq!(all.backends[0], changed);
    }

    #[test]
    fn cells_count_what_was_seen() {
        let all = sample();
        let shares = |index: usize| ["RUN", "TREE", "PIDS", "NONE"].map(|code| all.backends[index].cell(code).share());
        assert_eq!(shares(0), [Some("1/1".into()), Some("0/1".into()), None, None]);
        assert!(!all.backends[0].cell("RUN").is_doubtful() && all.backends[0].cell("TREE").is_doubtful());
        assert!(all.backends[1].cell("PIDS").is_doubtful() && !all.backends[0].cell("PIDS").is_doubtful());
    }
}
