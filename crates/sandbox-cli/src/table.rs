//! Plain tables.

/// Columns two spaces apart, as wide as their widest cell; the last one is not padded. Control characters become spaces:
/// cells may come from a provider.
pub(crate) fn table(rows: &[impl AsRef<[String]>]) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.as_ref().iter().map(|cell| cell.replace(char::is_control, " ")).collect()).collect();
    let mut widths = Vec::new();
    for row in &rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_string() + "\n"
    };
    rows.iter().map(line).collect()
}

/// On one line, whatever was in it.
pub(crate) fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_line_up_and_nothing_moves_the_cursor() {
        let rows = [["a".to_string(), "b\u{1b}[2J".into()], ["ccc".into(), String::new()]];
        assert_eq!(super::table(&rows), "a    b [2J\nccc\n");
    }
}
