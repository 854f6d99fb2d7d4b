//! What the environment says.

use std::{
    env,
    ops::RangeInclusive,
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

/// How this process runs the suite.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// `SANDBOX_CONTRACT=require`: no engine is a failure.
    pub(crate) require: bool,
    /// `SANDBOX_CONTRACT_REPORT`: a directory for the report.
    pub(crate) report: Option<PathBuf>,
    /// `SANDBOX_CONTRACT_SCALE`: stretches every time of the suite.
    pub(crate) scale: f64,
    /// `SANDBOX_CONTRACT_UNPROVEN`: rows that may be unproven where no report is compared.
    pub(crate) unproven: Vec<String>,
    /// nextest runs us: it knows only exit codes.
    pub(crate) nextest: bool,
    /// The same for all processes of one run.
    pub(crate) run: String,
    /// This process.
    pub(crate) process: String,
}

/// What times can be stretched by.
pub(crate) const SCALES: RangeInclusive<f64> = 0.1..=100.0;

impl Settings {
    /// # Errors
    ///
    /// Which variable has a value that means nothing, and what it may be.
    pub(crate) fn from_env() -> Result<Self, String> {
        Self::read(|name| env::var(name).ok().filter(|value| !value.is_empty()))
    }

    pub(crate) fn read(get: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let require = match get("SANDBOX_CONTRACT").as_deref() {
            None => false,
            Some("require") => true,
            Some(other) => return Err(format!("SANDBOX_CONTRACT is `{other}`; it may be `require`, or unset")),
        };
        let scale = match get("SANDBOX_CONTRACT_SCALE") {
            None => 1.0,
            Some(text) => match text.parse::<f64>() {
                Ok(scale) if SCALES.contains(&scale) => scale,
                _ => return Err(format!("SANDBOX_CONTRACT_SCALE is `{text}`; it may be a number from 0.1 to 100")),
            },
        };
        let unproven = get("SANDBOX_CONTRACT_UNPROVEN").unwrap_or_default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let process = format!("{}-{:x}", std::process::id(), now & 0xffff_ffff_ffff);
        Ok(Self {
            require,
            report: get("SANDBOX_CONTRACT_REPORT").map(PathBuf::from),
            scale,
            unproven: unproven.split(',').map(|name| name.trim().to_string()).filter(|name| !name.is_empty()).collect(),
            nextest: get("NEXTEST").is_some(),
            run: get("NEXTEST_RUN_ID").unwrap_or_else(|| process.clone()),
            process,
        })
    }

    /// Whether the row with this name may be unproven: named in full, or as `area::*`.
    pub(crate) fn may_be_unproven(&self, row: &str) -> bool {
        self.unproven.iter().any(|name| match name.strip_suffix('*') {
            Some(start) => row.starts_with(start),
            None => name == row,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(all: &[(&str, &str)]) -> Result<Settings, String> {
        Settings::read(|name| all.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_string()))
    }

    #[test]
    fn nothing_set_is_a_plain_run() {
        let settings = read(&[]).unwrap();
        assert!(!settings.require && !settings.nextest && settings.report.is_none());
        assert_eq!((settings.scale, settings.run == settings.process), (1.0, true));
    }

    #[test]
    fn what_means_nothing_is_refused_by_name() {
        for (name, value) in [
            ("SANDBOX_CONTRACT", "required"),
            ("SANDBOX_CONTRACT_SCALE", "fast"),
            ("SANDBOX_CONTRACT_SCALE", "0"),
            ("SANDBOX_CONTRACT_SCALE", "NaN"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
        assert!(read(&[("SANDBOX_CONTRACT", "require"), ("SANDBOX_CONTRACT_SCALE", "2.5")]).is_ok());
    }

    #[test]
    fn expected_unproven_rows_are_named_whole_or_by_area() {
        let settings = read(&[("SANDBOX_CONTRACT_UNPROVEN", "a::b, network::*")]).unwrap();
        assert!(settings.may_be_unproven("a::b") && settings.may_be_unproven("network::x"));
        assert!(!settings.may_be_unproven("a::bc") && !settings.may_be_unproven("net::x"));
    }
}
