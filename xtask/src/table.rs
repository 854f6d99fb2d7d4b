//! Plain tables for the end of a command's output.

/// Left-aligned columns, two spaces apart. The last column may be long, so it is not padded.
pub(crate) fn render<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let mut widths = head.map(|cell| cell.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in std::iter::once(&head.map(String::from)).chain(rows) {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_line_up_and_lines_have_no_tail() {
        let text = super::render(["lane", "why"], &[["a/long/name".into(), String::new()], ["b".into(), "é".into()]]);
        assert_eq!(text, "lane         why\na/long/name\nb            é\n");
    }
}
