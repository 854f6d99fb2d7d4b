//! All pages of an enumeration.

use crate::{
    engine::{Held, Spawner},
    erase::DynBackend,
    validate::{self, need},
};
use sandbox_core::{Capability, Error, ErrorKind, Page, Query, Result};
use std::{collections::BTreeSet, future::Future, sync::Arc};

/// A list that is longer has no end.
const MOST: usize = 10_000;

/// Asks for one page after the other. `what` is in its errors, with its article.
pub(crate) async fn all<T: Send + 'static, F: Future<Output = Result<Page<T>>> + Send + 'static>(
    s: &Spawner,
    capability: Capability,
    what: &'static str,
    mut query: Query,
    page: impl Fn(Arc<Held<Box<dyn DynBackend>>>, Query) -> F,
) -> Result<Vec<T>> {
    need(&s.facts, capability)?;
    validate::label_query(&query)?;
    let (mut all, mut seen) = (Vec::new(), BTreeSet::new());
    loop {
        let page = s.operate(what, None, page(Arc::clone(&s.backend), query.clone())).await?;
        all.extend(page.items);
        let wrong = match page.next {
            None => return Ok(all),
            Some(_) if seen.len() == MOST => {
                Error::new(ErrorKind::Protocol, format!("{what} has more than {MOST} pages"))
                    .with_hint("ask for fewer, by labels")
            }
            Some(next) if seen.insert(next.clone()) => {
                query.cursor = Some(next);
                continue;
            }
            Some(_) => Error::new(ErrorKind::Protocol, format!("the pages of {what} go round in a circle")),
        };
        return Err(wrong);
    }
}
