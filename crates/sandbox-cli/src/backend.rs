//! Which backend is meant.

use crate::args;
use sandbox::{Client, Error, ErrorKind, Registry, Result};

/// The variable that stands in for `--backend`.
const VARIABLE: &str = "SANDBOX_BACKEND";

/// Opens the backend that was chosen.
pub(crate) fn open(registry: &Registry, chosen: &args::Backend) -> Result<Client> {
    let Some(dsn) = chosen.backend.clone().or_else(from_environment).filter(|dsn| !dsn.is_empty()) else {
        let error = Error::new(ErrorKind::BackendMissing, "no backend was chosen");
        return Err(error.with_hint(format!("give --backend DSN or set {VARIABLE}; {}", known(registry))));
    };
    registry.open(&dsn).map_err(|error| match error.kind() {
        ErrorKind::BackendUnknown => error.with_hint(known(registry)),
        _ => error,
    })
}

/// The backend that the environment names.
pub(crate) fn from_environment() -> Option<String> {
    std::env::var(VARIABLE).ok().filter(|dsn| !dsn.is_empty())
}

fn known(registry: &Registry) -> String {
    let schemes = registry.schemes();
    if schemes.is_empty() {
        return "this binary has no backend at all".into();
    }
    let each = schemes.iter().map(|scheme| format!("{scheme} (as in {scheme}://IMAGE?lifetime=10m)"));
    format!("there are: {}", each.collect::<Vec<_>>().join(", "))
}
