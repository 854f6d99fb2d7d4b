//! The arguments of instructions: words, quotes, variables.

/// Splits at blanks that are not quoted; quotes stay.
pub(super) fn split(text: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let mut chars = text.chars();
    let mut quote = None;
    while let Some(c) = chars.next() {
        match (c, quote) {
            (' ' | '\t', None) => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                continue;
            }
            ('\'' | '"', None) => quote = Some(c),
            (_, Some(open)) if c == open => quote = None,
            _ => {}
        }
        word.push(c);
        if c == '\\' && quote != Some('\'') {
            word.extend(chars.next());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// `NAME=VALUE` and more of it, or the old form `NAME VALUE`; values as they are meant.
pub(super) fn pairs(text: &str, var: &dyn Fn(&str) -> Option<String>) -> Result<Vec<(String, String)>, String> {
    let words = split(text);
    let Some(first) = words.first() else { return Ok(Vec::new()) };
    if !first.contains('=') {
        let rest = text.trim_start()[first.len()..].trim();
        return match rest {
            "" => Err(format!("`{first}` has no value")),
            rest => Ok(vec![(first.clone(), meant(rest, var)?)]),
        };
    }
    let pair = |word: &String| match word.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((meant(name, var)?, meant(value, var)?)),
        _ => Err(format!("`{word}` is not NAME=VALUE")),
    };
    words.iter().map(pair).collect()
}

/// A word without its quotes, and with values in place of variables; one that is not set is empty.
pub(super) fn meant(word: &str, var: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let (mut out, mut chars) = (String::new(), word.chars().peekable());
    let mut quote = None;
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (_, Some(open)) if c == open => quote = None,
            ('\\', None) => out.extend(chars.next()),
            ('\\', Some('"')) => match chars.next() {
                Some(next) if matches!(next, '"' | '$' | '\\') => out.push(next),
                next => out.extend(Some('\\').into_iter().chain(next)),
            },
            ('$', None | Some('"')) => match chars.peek() {
                Some('{') => {
                    let inside: String = chars.by_ref().skip(1).take_while(|c| *c != '}').collect();
                    // What is not closed has no end to be found.
                    let whole = format!("${{{inside}}}");
                    if !word.contains(&whole) {
                        return Err(format!("`{word}`: a `${{` is not closed"));
                    }
                    out.push_str(&braced(&inside, var)?);
                }
                Some(c) if c.is_ascii_alphabetic() || *c == '_' => {
                    let mut name = String::new();
                    while let Some(c) = chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                        name.push(c);
                    }
                    out.push_str(&var(&name).unwrap_or_default());
                }
                _ => out.push('$'),
            },
            (c, _) => out.push(c),
        }
    }
    match quote {
        Some(open) => Err(format!("`{word}`: a {open} is not closed")),
        None => Ok(out),
    }
}

/// `NAME`, `NAME:-else`, `NAME:+instead`.
fn braced(inside: &str, var: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let end = inside.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inside.len());
    let (name, rest) = inside.split_at(end);
    let value = var(name).filter(|value| !value.is_empty());
    match rest.split_at_checked(2) {
        _ if name.is_empty() => Err(format!("`${{{inside}}}` names no variable")),
        None if rest.is_empty() => Ok(value.unwrap_or_default()),
        Some((":-", other)) => value.map_or_else(|| meant(other, var), Ok),
        Some((":+", other)) => value.map_or(Ok(String::new()), |_| meant(other, var)),
        _ => Err(format!("`${{{inside}}}` is no substitution that the fake knows")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn var(name: &str) -> Option<String> {
        [("A", "1"), ("B", "b c"), ("E", "")].iter().find(|(n, _)| *n == name).map(|(_, value)| value.to_string())
    }

    #[test]
    fn words_are_what_they_mean() {
        for (word, means) in [
            ("plain", "plain"),
            ("$A-$B", "1-b c"),
            ("${A}2", "12"),
            ("$A2", ""),
            ("${C:-x$A}", "x1"),
            ("${A:-x}", "1"),
            ("${E:-x}", "x"),
            ("${A:+y}${C:+z}", "y"),
            ("'$A'", "$A"),
            ("\"$A \\\"q\\\" \\n\"", "1 \"q\" \\n"),
            ("\\$A", "$A"),
            ("a\\ b", "a b"),
            ("$", "$"),
            ("$-", "$-"),
            ("a'b c'd", "ab cd"),
        ] {
            assert_eq!(meant(word, &var).as_deref(), Ok(means), "{word}");
        }
        for wrong in ["'a", "\"a", "${A", "${}", "${A:?x}", "${A!}"] {
            assert!(meant(wrong, &var).is_err(), "{wrong}");
        }
    }

    #[test]
    fn pairs_have_both_forms() {
        let pair = |a: &str, b: &str| (a.to_string(), b.to_string());
        for (text, expected) in [
            ("A=1 B=\"x y\" C='$A' D=a\\ b", vec![pair("A", "1"), pair("B", "x y"), pair("C", "$A"), pair("D", "a b")]),
            ("PATH /a:/b c", vec![pair("PATH", "/a:/b c")]),
            ("V=$A=2", vec![pair("V", "1=2")]),
            ("EMPTY=", vec![pair("EMPTY", "")]),
        ] {
            assert_eq!(pairs(text, &var), Ok(expected), "{text}");
        }
        assert!(pairs("A=1 B", &var).is_err() && pairs("A", &var).is_err() && pairs("=1", &var).is_err());
    }
}
