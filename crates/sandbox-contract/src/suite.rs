//! Runs one row to its verdict.

use crate::{
    Labels, Record, Row, Settings, Verdict,
    ctx::{Ctx, absence},
    row::{Body, Stop, told},
    rows::refuses,
    settings::SCALES,
    subject::{IntoSubject, Make, Subject, maker, words},
};
use sandbox_core::{Capability, Error, ErrorKind, Facts};
use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
        mpsc::{RecvTimeoutError, sync_channel},
    },
    task::Poll,
    thread,
    time::{Duration, Instant},
};

/// The rows on one subject, for whoever wants verdicts in a program of their own; `contract_suite!` is this in a test harness.
///
/// ```
/// fn all(subject: fn() -> sandbox_contract::Subject) {
///     let suite = sandbox_contract::Suite::new(subject);
///     for row in sandbox_contract::rows() {
///         let record = suite.run(row);
///         println!("{}: {} {}", record.row, record.verdict, record.reason);
///     }
/// }
/// ```
pub struct Suite {
    make: Make,
    pub(crate) settings: Settings,
}

impl Suite {
    /// A suite on what the closure makes, once for every row. Times are not stretched and nothing is written.
    pub fn new<By, T: IntoSubject<By>>(make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        let settings = Settings::read(|_| None).expect("nothing set is no wrong setting");
        Self { make: maker(make), settings }
    }

    /// Stretches every time of the suite, as `SANDBOX_CONTRACT_SCALE` does; less than one makes it impatient, for where rows
    /// are expected to fail.
    ///
    /// # Panics
    ///
    /// Where it is not from 0.1 to 100, which `SANDBOX_CONTRACT_SCALE` takes too.
    pub fn scale(mut self, scale: f64) -> Self {
        assert!(SCALES.contains(&scale), "the scale of a suite is from 0.1 to 100, not {scale}");
        self.settings.scale = scale;
        self
    }

    pub(crate) fn with(make: Make, settings: Settings) -> Self {
        Self { make, settings }
    }

    pub(crate) fn subject(&self) -> Result<Subject, Error> {
        (self.make)()
    }

    /// Runs one row, on a thread of its own. A serial row waits until it is alone in this process. Where one of its
    /// capabilities is absent, the refuses twin runs in its place. It always answers: a row that does not end within its limit
    /// has failed.
    pub fn run(&self, row: &'static Row) -> Record {
        static ALONE: RwLock<()> = RwLock::new(());
        let (_shared, _alone);
        if row.is_serial() {
            _alone = ALONE.write().unwrap_or_else(PoisonError::into_inner);
        } else {
            _shared = ALONE.read().unwrap_or_else(PoisonError::into_inner);
        }
        let started = Instant::now();
        let limit = Duration::from_secs(row.seconds()).mul_f64(self.settings.scale) + SLACK;
        let (tell, told) = sync_channel(1);
        let (make, settings) = (Make::clone(&self.make), self.settings.clone());
        let thread = thread::Builder::new().name(row.name().into()).spawn(move || {
            let mut facts = None::<Facts>;
            let end = catch_unwind(AssertUnwindSafe(|| judge(row, &make, settings, &mut facts)));
            let end = end.unwrap_or_else(|panic| Err(Stop::Fail(format!("the row panicked: {}", words(&*panic)))));
            // Whoever asked has given up where this fails.
            _ = tell.send((end, facts));
        });
        let (end, facts) = match thread.map(|_| told.recv_timeout(limit)) {
            Ok(Ok(answer)) => answer,
            Ok(Err(RecvTimeoutError::Timeout)) => {
                (Err(Stop::Fail(format!("the row was not over after {limit:?}; its thread is left behind"))), None)
            }
            Ok(Err(RecvTimeoutError::Disconnected)) => (Err(Stop::Fail("the thread of the row died".into())), None),
            Err(error) => (Err(Stop::Fail(format!("no thread for the row: {error}"))), None),
        };
        let (verdict, reason) = verdict(end);
        Record::new(row, verdict, reason, started.elapsed()).about(facts)
    }
}

impl std::fmt::Debug for Suite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Suite").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Over the limit of a row, for what the harness does around it.
const SLACK: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 20 });

type End = Result<(), Stop>;

fn verdict(end: End) -> (Verdict, String) {
    match end {
        Ok(()) => (Verdict::Pass, String::new()),
        Err(Stop::Fail(evidence)) => (Verdict::Fail, evidence),
        Err(Stop::Unproven(why)) => (Verdict::Unproven, why),
        Err(Stop::Unavailable(why)) => (Verdict::Unavailable, why),
        Err(Stop::Refused(why)) => (Verdict::Absent, why),
        Err(Stop::Absent(capability, why)) => {
            (Verdict::Fail, format!("nobody has seen how {capability} is refused: {why}"))
        }
    }
}

fn judge(row: &Row, make: &Make, settings: Settings, known: &mut Option<Facts>) -> End {
    if let Body::Expression(body) = row.body() {
        return body(make);
    }
    let subject = make().map_err(no_subject)?;
    let facts = subject.info()?;
    let edition = subject.edition;
    *known = Some(facts);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Stop::Fail(format!("no runtime for the row: {error}")))?;
    let labels = labels(row, &settings);
    let end = runtime.block_on(async {
        let mut cx = Ctx::new(Make::clone(make), subject, labels, settings)?;
        let end = whole(row, &mut cx).await;
        *known = Some(cx.facts().clone());
        let swept = if row.is_offline() { Ok(()) } else { nothing_left(&cx).await };
        combine(end, swept, &cx.notes())
    });
    match end {
        Err(Stop::Fail(evidence)) if row.since() > edition && row.since() == crate::EDITION => {
            Err(Stop::Unproven(format!("new in edition {}, to be failed by the next: {evidence}", row.since())))
        }
        other => other,
    }
}

/// The row, or its refuses twin where a capability is missing.
async fn whole(row: &Row, cx: &mut Ctx) -> End {
    let mut missing = row
        .capabilities()
        .iter()
        .find(|need| !cx.has(**need))
        .map(|need| Stop::Absent(*need, absence(cx.facts(), *need)));
    if missing.is_none() && !row.is_offline() {
        missing = cx.narrow(row.capabilities()).await.err();
    }
    let end = match (missing, row.body()) {
        (Some(stop), _) => Err(stop),
        (None, Body::Row(body)) => caught(body(cx)).await,
        (None, Body::Expression(_)) => Ok(()),
    };
    match end {
        // By `info`, by `probe`, or by what the row itself found out.
        Err(Stop::Absent(capability, why)) => refused(cx, capability, why).await,
        end => end,
    }
}

async fn refused(cx: &Ctx, capability: Capability, why: String) -> End {
    if why.trim().is_empty() {
        return Err(Stop::Fail(format!("{capability} is absent without a reason; declare it with `Facts::absent`")));
    }
    caught(Box::pin(refuses::check(cx, capability)))
        .await
        .map_err(|stop| stop.during(&format!("{capability} is absent")))?;
    Err(Stop::Refused(format!("{capability}: {why}")))
}

/// Turns a panic of the row into its failure.
async fn caught<'a>(mut future: Pin<Box<dyn Future<Output = End> + 'a>>) -> End {
    poll_fn(|cx| {
        catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)))
            .unwrap_or_else(|panic| Poll::Ready(Err(Stop::Fail(format!("the row panicked: {}", words(&*panic))))))
    })
    .await
}

/// Fails on whatever the row left behind, and ends it.
async fn nothing_left(cx: &Ctx) -> End {
    cx.meddling().clear();
    let mut end = Ok(());
    if cx.can_count() {
        end = cx.settles_at(0, "left behind by the row").await;
        if end.is_err() && cx.can_list() {
            for id in cx.listed().await? {
                // What could not be ended is found again by the sweep.
                _ = cx.client().destroy(id.as_str()).await;
            }
        }
    }
    if end.is_ok() && cx.hooks().count_services.is_some() {
        end = cx.services_settle_at(0, "left behind by the row").await;
    }
    if end.is_ok() && cx.has(Capability::SnapshotList) {
        let left = cx.snapshots().await?;
        for one in &left {
            cx.client().delete_snapshot(one).await?;
        }
        if !left.is_empty() {
            end = Err(Stop::Fail(format!("snapshots left behind by the row: {left:?}")));
        }
    }
    let closed = cx.within(60, "close of the client", cx.client().close()).await;
    if end.is_ok() {
        closed?.map_err(|error| Stop::from(error).during("close of the client after the row"))?;
        let orphans = cx.client().orphans();
        if !orphans.is_empty() && !cx.are_orphans_fine() {
            return Err(Stop::Fail(format!("the client reports orphans: {orphans:?}")));
        }
    }
    match end {
        // Where there is no engine there is nothing to leave behind.
        Err(Stop::Unavailable(_)) => Ok(()),
        other => other,
    }
}

fn combine(end: End, swept: End, notes: &[String]) -> End {
    let with_notes = |evidence: String| {
        notes.iter().fold(evidence, |mut all, note| {
            all.push_str("\n  note: ");
            all.push_str(note);
            all
        })
    };
    match (end, swept) {
        (Err(Stop::Fail(evidence)), Err(Stop::Fail(more))) => {
            Err(Stop::Fail(with_notes(format!("{evidence}\n  and then: {more}"))))
        }
        (Err(Stop::Unavailable(why)), _) => Err(Stop::Unavailable(why)),
        (_, Err(Stop::Fail(evidence))) | (Err(Stop::Fail(evidence)), _) => Err(Stop::Fail(with_notes(evidence))),
        (end, _) => end,
    }
}

fn labels(row: &Row, settings: &Settings) -> Labels {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let trial = format!("{}-{}", settings.process, NEXT.fetch_add(1, Ordering::Relaxed));
    // Providers differ in what a value may hold, so it holds nothing special.
    let row = row.name().replace("::", ".").chars().take(60).collect();
    [(RUN, settings.run.clone()), (PROCESS, settings.process.clone()), (TRIAL, trial), (ROW, row)]
        .map(|(name, value)| (name.to_string(), value))
        .into()
}

/// The label of all processes of one run.
pub(crate) const RUN: &str = "contract.run";
/// The label of this process.
pub(crate) const PROCESS: &str = "contract.process";
const TRIAL: &str = "contract.trial";
const ROW: &str = "contract.row";

/// What it means that there is no subject.
pub(crate) fn no_subject(error: Error) -> Stop {
    match error.kind() {
        ErrorKind::BackendMissing | ErrorKind::Auth => Stop::Unavailable(told(&error)),
        _ => Stop::Fail(format!("the suite's expression failed: {error:?}")),
    }
}
