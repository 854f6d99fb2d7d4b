//! `matrix.toml`: which lie kills which row.

use sandbox_fake::Fault;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::PathBuf,
};

#[derive(Debug, Default)]
pub(crate) struct Matrix {
    /// The designated killer of each row that a backend can break.
    pub(crate) killer: BTreeMap<String, Fault>,
    /// Rows that only the facade can break, and the mutation that does.
    pub(crate) facade: BTreeMap<String, String>,
    /// Rows that the fake cannot prove, and why.
    pub(crate) unproven: BTreeMap<String, String>,
    /// All that each lie kills, as the nightly product found it.
    pub(crate) kills: Kills,
}

pub(crate) type Kills = BTreeMap<Fault, BTreeSet<String>>;

const HEAD: &str = "\
# Which lie of the fake kills which row of the contract suite. Every row is in exactly one of the first three tables.
# To add a fault: an entry in `Fault`, a line where it is told, and a line here.
";

impl Matrix {
    pub(crate) fn read() -> Self {
        let text = std::fs::read_to_string(path()).expect("tests/faults/matrix.toml");
        let table: toml::Table = text.parse().expect("matrix.toml is TOML");
        let others: Vec<_> =
            table.keys().filter(|name| !["killer", "facade", "unproven", "kills"].contains(&name.as_str())).collect();
        assert!(others.is_empty(), "matrix.toml has no tables of these names: {others:?}");
        let strings = |name: &str| -> BTreeMap<String, String> {
            let rows = table.get(name).and_then(toml::Value::as_table).cloned().unwrap_or_default();
            rows.into_iter().map(|(row, value)| (row, value.as_str().unwrap_or_default().to_string())).collect()
        };
        let rows = table.get("kills").and_then(toml::Value::as_table).cloned().unwrap_or_default();
        let kills = rows.into_iter().map(|(name, rows)| {
            let rows = rows.as_array().cloned().unwrap_or_default();
            (fault(&name), rows.iter().filter_map(|row| row.as_str().map(str::to_string)).collect())
        });
        Self {
            killer: strings("killer").into_iter().map(|(row, name)| (row, fault(&name))).collect(),
            facade: strings("facade"),
            unproven: strings("unproven"),
            kills: kills.collect(),
        }
    }

    pub(crate) fn write(&self) {
        let mut text = HEAD.to_string();
        let mut table = |name: &str, rows: Vec<(String, String)>| {
            writeln!(text, "\n[{name}]").expect("a string takes all");
            rows.into_iter().for_each(|(row, value)| writeln!(text, "{row} = {value}").expect("a string takes all"));
        };
        let quoted = |rows: &BTreeMap<String, String>| {
            rows.iter().map(|(row, value)| (format!("{row:?}"), format!("{value:?}"))).collect()
        };
        let killer = self.killer.iter().map(|(row, fault)| (format!("{row:?}"), format!("\"{fault}\"")));
        table("killer", killer.collect());
        table("facade", quoted(&self.facade));
        table("unproven", quoted(&self.unproven));
        let kills = self.kills.iter().filter(|(_, rows)| !rows.is_empty());
        table("kills", kills.map(|(fault, rows)| (fault.to_string(), format!("{rows:?}"))).collect());
        text = text.replace("{\"", "[\"").replace("\"}", "\"]");
        std::fs::write(path(), text).expect("matrix.toml is written");
    }
}

fn fault(name: &str) -> Fault {
    *Fault::ALL.iter().find(|fault| fault.name() == name).unwrap_or_else(|| panic!("there is no fault {name}"))
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/faults/matrix.toml")
}
