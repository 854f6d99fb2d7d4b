//! Amounts of resources in words.

/// An amount in the unit of its resource, such as `1.5 processors` or `256 MiB`.
pub(crate) fn amount(resource: &str, value: u64) -> String {
    match resource {
        "cpu" => {
            let number = format!("{}.{:03}", value / 1000, value % 1000);
            let number = number.trim_end_matches('0').trim_end_matches('.');
            if number == "1" { "1 processor".into() } else { format!("{number} processors") }
        }
        "processes" => value.to_string(),
        _ if value >= 1 << 30 && value.is_multiple_of(1 << 30) => format!("{} GiB", value >> 30),
        _ if value.is_multiple_of(1 << 20) => format!("{} MiB", value >> 20),
        _ => format!("{value} bytes"),
    }
}

/// A limit with what it is of, such as `256 MiB memory`.
pub(crate) fn limit(resource: &str, value: u64) -> String {
    match resource {
        "cpu" => amount(resource, value),
        _ => format!("{} {resource}", amount(resource, value)),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn amounts_have_their_units() {
        let amounts =
            [("cpu", 1000), ("cpu", 500), ("memory", 256 << 20), ("disk", 2 << 30), ("memory", 1), ("processes", 7)];
        let words = amounts.map(|(name, value)| super::amount(name, value));
        assert_eq!([super::limit("cpu", 2000), super::limit("disk", 1 << 30)], ["2 processors", "1 GiB disk"]);
        assert_eq!(words, ["1 processor", "0.5 processors", "256 MiB", "2 GiB", "1 bytes", "7"]);
    }
}
