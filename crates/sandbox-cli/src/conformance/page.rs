//! The matrix as one page that needs nothing beside itself: no script, font or picture from elsewhere.

use super::{
    groups::grouped,
    model::{Cell, Column, Conformance, Row, Support, Verdict, codes, meaning},
};
use crate::amount::limit;
use std::{
    collections::BTreeMap,
    fmt::{self, Display, Write as _},
};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const SHAPES: &str = include_str!("shapes.svg");

/// The whole page.
pub(super) fn render(all: &Conformance) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    _ = whole(&mut page, &all.backends);
    page
}

fn whole(page: &mut String, backends: &[Column]) -> fmt::Result {
    write!(
        page,
        "<!doctype html>\n<!-- Made by `sandbox conformance --into docs`. Do not edit. -->\n<html lang=\"en\">\n<head>\n\
         <meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <title>Sandbox conformance</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{SHAPES}\
         <a class=\"skip\" href=\"#matrix\">Skip to the matrix</a>\n<div class=\"page\">\n"
    )?;
    head(page, backends)?;
    matrix(page, backends)?;
    areas(page, backends)?;
    write!(page, "</div>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n")
}

fn head(page: &mut String, backends: &[Column]) -> fmt::Result {
    page.push_str(
        "<header>\n<div class=\"title\"><h1>Sandbox conformance</h1>\
         <button class=\"theme\" type=\"button\" hidden aria-label=\"Switch between light and dark\">\
         <svg aria-hidden=\"true\"><use href=\"#theme\"/></svg></button></div>\n\
         <p class=\"lead\">What each backend can do, and how much of that the contract suite has seen to hold. Behind each claim: \
         how many of the rows about it passed. What could not be proven says why.</p>\n<div class=\"cards\">\n",
    );
    for column in backends {
        card(page, column)?;
    }
    page.push_str("</div>\n</header>\n");
    Ok(())
}

fn card(page: &mut String, column: &Column) -> fmt::Result {
    writeln!(page, "<section class=\"card\" aria-label=\"{0}\">\n<h2>{0}</h2>", Text(&column.name))?;
    match &column.isolation {
        Some(fact) => writeln!(
            page,
            "<p class=\"tier\"><b>{}</b> isolation <span>{}, {}</span></p>",
            Text(&fact.tier),
            Text(&fact.source),
            Text(&fact.date)
        )?,
        None => {
            page.push_str("<p class=\"tier\"><b>unknown</b> isolation <span>the backend states no tier</span></p>\n")
        }
    }
    page.push_str("<div class=\"bar\" aria-hidden=\"true\">");
    for verdict in Verdict::ALL {
        let count = column.count(verdict);
        if count > 0 {
            write!(page, "<i class=\"{verdict}\" style=\"flex-grow:{count}\"></i>")?;
        }
    }
    page.push_str("</div>\n<ul class=\"counts\">");
    for verdict in Verdict::ALL {
        let count = column.count(verdict);
        if count > 0 {
            write!(page, "<li class=\"{verdict}\">{}<b>{count}</b> {verdict}</li>", Shape(verdict.word()))?;
        }
    }
    page.push_str("</ul>\n");
    if !column.defaults.is_empty() {
        let defaults = column.defaults.iter().map(|(name, value)| limit(name, *value));
        let defaults = defaults.collect::<Vec<_>>().join(", ");
        writeln!(page, "<p class=\"fine\">Limits unless others are asked for: {}</p>", Text(&defaults))?;
    }
    writeln!(page, "<p class=\"fine\">As of <time>{}</time></p>\n</section>", Text(&column.as_of))
}

fn matrix(page: &mut String, backends: &[Column]) -> fmt::Result {
    page.push_str("<main id=\"matrix\">\n<div class=\"bench\">\n<h2>Capabilities</h2>\n<ul class=\"legend\">");
    for (support, words) in [
        ("native", "the provider does it"),
        ("emulated", "made of other operations"),
        ("absent", "refused, with a reason"),
    ] {
        write!(page, "<li class=\"{support}\">{}<b>{support}</b> {words}</li>", Shape(support))?;
    }
    write!(page, "<li class=\"doubt\">{}<b>unproven</b> claimed, not all of it seen</li></ul>", Shape("unproven"))?;
    // A few backends fit beside each other, so that the page scrolls and not a box in it.
    let fits = if backends.len() <= 4 { " fits" } else { "" };
    write!(
        page,
        "\n<div class=\"tools\" hidden><label>Find <input type=\"search\" placeholder=\"name or meaning\"></label>\
         <label><input type=\"checkbox\"> only where they differ</label></div>\n</div>\n\
         <div class=\"scroll{fits}\" tabindex=\"0\" role=\"region\" aria-label=\"Capabilities by backend\">\n\
         <table class=\"matrix\">\n<thead><tr><th scope=\"col\">Capability</th>"
    )?;
    for column in backends {
        write!(page, "<th scope=\"col\">{}</th>", Text(&column.name))?;
    }
    page.push_str("</tr></thead>\n");
    let codes = codes(backends);
    for (group, codes) in grouped(&codes) {
        writeln!(
            page,
            "<tbody>\n<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"{}\">{}</th></tr>",
            backends.len() + 1,
            Text(group)
        )?;
        for code in codes {
            let meaning = meaning(code);
            let differs =
                backends.windows(2).any(|pair| pair[0].cell(code).support.word() != pair[1].cell(code).support.word());
            writeln!(
                page,
                "<tr{}><th scope=\"row\"><code>{}</code><small>{}</small></th>",
                if differs { " class=\"differs\"" } else { "" },
                Text(code),
                Prose(&meaning)
            )?;
            for (index, column) in backends.iter().enumerate() {
                matrix_cell(page, column, code, &format!("p{index}-{}", code.to_ascii_lowercase()))?;
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</tbody>\n");
    }
    page.push_str("</table>\n</div>\n<p class=\"none\" role=\"status\" hidden>Nothing matches.</p>\n</main>\n");
    Ok(())
}

/// A button that says all at a glance, a hint for whoever points at it, and the rows for whoever opens it.
fn matrix_cell(page: &mut String, column: &Column, code: &str, id: &str) -> fmt::Result {
    let cell = column.cell(code);
    let word = cell.support.word();
    let failed = cell.count(Verdict::Fail) > 0;
    let doubt = if failed { Some("fail") } else { cell.is_doubtful().then_some("unproven") };
    write!(
        page,
        "<td><button class=\"cell {word}\" type=\"button\" popovertarget=\"{id}\">{}<b>{word}</b>",
        Shape(word)
    )?;
    if let Some(share) = cell.share() {
        write!(page, "<span class=\"share\">{share}</span>")?;
    }
    if let Some(doubt) = doubt {
        write!(page, "<span class=\"mark {doubt}\">{}<span class=\"said\">{doubt}</span></span>", Shape(doubt))?;
    }
    write!(page, "</button><span class=\"tip\" aria-hidden=\"true\">{}</span>", Text(&tip(&cell, column)))?;
    popover(page, &cell, column, code, id)?;
    page.push_str("</td>");
    Ok(())
}

/// What it comes to, in a sentence or two.
fn tip(cell: &Cell<'_>, column: &Column) -> String {
    let mut tip = match (cell.support, cell.rows.len()) {
        (Support::Native, _) => String::new(),
        (Support::Emulated(how), _) => format!("Through {how}. "),
        (Support::Absent(why), _) => format!("{}. ", upper(why)),
    };
    let count = |verdict| cell.count(verdict);
    let seen = match (cell.support, cell.tellable()) {
        (Support::Absent(_), _) if !cell.rows.is_empty() => match count(Verdict::Absent) {
            1 => "Seen to be refused in 1 row".into(),
            rows => format!("Seen to be refused in {rows} rows"),
        },
        (_, 0) => "No row of the suite could tell".into(),
        (_, 1) if count(Verdict::Pass) == 1 => "The one row about it passed".into(),
        (_, rows) if count(Verdict::Pass) == rows => format!("All {rows} rows about it passed"),
        (_, rows) => format!("{} of {rows} rows about it passed", count(Verdict::Pass)),
    };
    tip.push_str(&format!("{seen}, as of {}.", column.as_of));
    tip
}

fn upper(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn popover(page: &mut String, cell: &Cell<'_>, column: &Column, code: &str, id: &str) -> fmt::Result {
    let word = cell.support.word();
    writeln!(
        page,
        "\n<div class=\"sheet\" id=\"{id}\" popover role=\"dialog\" aria-labelledby=\"{id}-t\"><div class=\"sheet-head\">\
         <h3 id=\"{id}-t\"><code>{}</code> on {}</h3><button class=\"close\" type=\"button\" popovertarget=\"{id}\" \
         popovertargetaction=\"hide\" aria-label=\"Close\">{}</button></div>\n<p>{}</p>",
        Text(code),
        Text(&column.name),
        Shape("close"),
        Prose(&meaning(code))
    )?;
    let sum = tip(cell, column);
    writeln!(page, "<p class=\"verdict {word}\">{}<b>{word}</b><span>{}</span></p>", Shape(word), Text(&sum))?;
    page.push_str("<ul class=\"rows\">");
    for row in &cell.rows {
        list_row(page, row)?;
    }
    page.push_str("</ul></div>");
    Ok(())
}

fn list_row(page: &mut String, row: &Row) -> fmt::Result {
    let verdict = row.verdict;
    write!(
        page,
        "<li class=\"{verdict}\">{}<span class=\"said\">{verdict}: </span><span title=\"{}\">{}</span>",
        Shape(verdict.word()),
        Text(&row.row),
        Text(&row.claim())
    )?;
    if !row.reason.is_empty() {
        write!(page, "<small><b>{verdict}</b> {}</small>", Text(&row.reason))?;
    }
    page.push_str("</li>");
    Ok(())
}

/// Every row of the suite by area, also those that are about no capability.
fn areas(page: &mut String, backends: &[Column]) -> fmt::Result {
    let mut areas: BTreeMap<&str, BTreeMap<&str, Vec<Option<&Row>>>> = BTreeMap::new();
    for (index, column) in backends.iter().enumerate() {
        for row in &column.rows {
            let found =
                areas.entry(row.area()).or_default().entry(&row.row).or_insert_with(|| vec![None; backends.len()]);
            found[index] = Some(row);
        }
    }
    page.push_str("<section class=\"areas\">\n<h2>Every row of the suite</h2>\n");
    for (area, rows) in &areas {
        writeln!(
            page,
            "<details><summary><b>{}</b> <span class=\"fine\">{} rows{}</span></summary>\n<div class=\"scroll\">\
             <table class=\"list\">\n<thead><tr><th scope=\"col\">Claim</th>",
            Text(area),
            rows.len(),
            Text(&open(rows.values()))
        )?;
        for column in backends {
            write!(page, "<th scope=\"col\">{}</th>", Text(&column.name))?;
        }
        page.push_str("</tr></thead>\n<tbody>\n");
        for (name, found) in rows {
            let Some(row) = found.iter().flatten().next() else { continue };
            write!(page, "<tr><th scope=\"row\" title=\"{}\">{}</th>", Text(name), Text(&row.claim()))?;
            for row in found {
                match row {
                    None => page.push_str("<td></td>"),
                    Some(row) => {
                        write!(page, "<td class=\"{0}\">{1}<b>{0}</b>", row.verdict, Shape(row.verdict.word()))?;
                        if !row.reason.is_empty() {
                            write!(page, "<small>{}</small>", Text(&row.reason))?;
                        }
                        page.push_str("</td>");
                    }
                }
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</tbody>\n</table></div>\n</details>\n");
    }
    page.push_str("</section>\n");
    Ok(())
}

/// What of an area is not simply passed, such as `, 3 absent`.
fn open<'a>(rows: impl Iterator<Item = &'a Vec<Option<&'a Row>>>) -> String {
    let verdicts: Vec<Verdict> = rows.flatten().flatten().map(|row| row.verdict).collect();
    let others = Verdict::ALL.into_iter().filter(|verdict| *verdict != Verdict::Pass);
    let counts = others.map(|verdict| (verdict, verdicts.iter().filter(|one| **one == verdict).count()));
    counts.filter(|(_, count)| *count > 0).map(|(verdict, count)| format!(", {count} {verdict}")).collect()
}

/// A shape of its own for each state, so that none is told by its colour alone.
struct Shape(&'static str);

impl Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<svg class=\"shape\" aria-hidden=\"true\"><use href=\"#{}\"/></svg>", self.0)
    }
}

/// Text with its names, which stand between backticks, as such.
struct Prose<'a>(&'a str);

impl Display for Prose<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.0.split('`').enumerate() {
            match index % 2 {
                0 => write!(f, "{}", Text(part))?,
                _ => write!(f, "<code>{}</code>", Text(part))?,
            }
        }
        Ok(())
    }
}

/// Text in which nothing is a tag, an entity or the end of an attribute.
struct Text<'a>(&'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::model::tests::sample;

    #[test]
    fn nothing_comes_from_elsewhere_and_text_is_text() {
        let page = render(&sample());
        for outside in ["http:", "https:", "src=", "url(", "@import", "<link", "=\"//"] {
            let found = page.match_indices(outside).map(|(at, _)| page[at..].chars().take(40).collect::<String>());
            assert_eq!(found.collect::<Vec<_>>(), Vec::<String>::new(), "{outside}");
        }
        assert!(page.contains("measured &lt;here&gt;") && page.contains("tar &amp; sh"), "{page}");
        assert!(page.contains("there is &quot;no&quot; such cap"));
    }

    #[test]
    fn every_cell_opens_its_rows_with_verdict_reason_and_day() {
        let page = render(&sample());
        let (_, sheet) = page.split_once("<div class=\"sheet\" id=\"p1-pids\"").unwrap();
        let (sheet, _) = sheet.split_once("</ul></div>").unwrap();
        for part in ["a fork bomb is contained", "<b>fail</b> PIDS: there is", "#fail", "as of 2026-01-02"] {
            assert!(sheet.contains(part), "{part}: {sheet}");
        }
        for id in ["p0-run", "p0-tree", "p0-pids", "p1-run", "p1-tree", "p1-pids"] {
            assert!(
                page.contains(&format!("popovertarget=\"{id}\"")) && page.contains(&format!(" id=\"{id}\"")),
                "{id}"
            );
        }
    }
}
