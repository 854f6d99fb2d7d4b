//! What is under way, on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    fmt::{self, Write as _},
    io::{self, IsTerminal as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// A line on stderr that says what is under way; nothing at all where stderr is no terminal.
#[derive(Debug, Clone)]
pub(crate) struct Progress(Option<Arc<Mutex<Option<ProgressBar>>>>);

impl Progress {
    /// Shows nothing yet.
    pub(crate) fn new() -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let progress = Self((io::stderr().is_terminal() && !dumb).then(Arc::default));
        if progress.0.is_some() {
            // Where the application listens itself, it hears what it asked for.
            _ = tracing::subscriber::set_global_default(News(progress.clone()));
        }
        progress
    }

    /// Says what is under way.
    pub(crate) fn say(&self, what: impl Into<String>) {
        if let Some(mut bar) = self.bar() {
            bar.get_or_insert_with(bar_on_stderr).set_message(plain(&what.into()));
        }
    }

    /// Takes the line away, so that others can write.
    pub(crate) fn clear(&self) {
        if let Some(bar) = self.bar().and_then(|mut bar| bar.take()) {
            bar.finish_and_clear();
        }
    }

    /// Says it where something else is being said: news alone bring no line back that was taken away.
    fn update(&self, what: &str) {
        if let Some(bar) = self.bar().as_deref().and_then(Option::as_ref) {
            bar.set_message(plain(what));
        }
    }

    fn bar(&self) -> Option<MutexGuard<'_, Option<ProgressBar>>> {
        self.0.as_ref().map(|bar| bar.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn bar_on_stderr() -> ProgressBar {
    let colourless = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let template = if colourless { "{spinner} {msg} {elapsed}" } else { "{spinner:.cyan} {msg} {elapsed:.dim}" };
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// A provider's words may hold anything.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Shows what providers tell about long work of theirs, such as the pull of an image.
struct News(Progress);

impl Subscriber for News {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() == Level::INFO && metadata.target().starts_with("sandbox")
    }

    fn event(&self, event: &Event<'_>) {
        let mut words = Words::default();
        event.record(&mut words);
        self.0.update(&words.0);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// The message and then the values of an event.
#[derive(Default)]
struct Words(String);

impl Words {
    fn add(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        if field.name() == "message" {
            self.0.insert_str(0, &value.to_string());
        } else {
            _ = write!(self.0, " {value}");
        }
    }
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, format_args!("{value}"));
    }
}
