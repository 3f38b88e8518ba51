//! Reads the last log lines of ended sidecars, for the Event that reports their end.
//!
//! A log is read when the end is first observed. Kubelets before 1.36 keep one dead container per
//! name. They drop a swapped one as soon as they see the end of the exit image in its place, mostly
//! before they report either. Then its log is reported as gone. Only that Event waits for a log,
//! and only for [`DEADLINE`].

mod kept;

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use kube::api::LogParams;
use kube::client::Body;
use kube::core::Request;
use kube::{Client, Resource as _};
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::report::log_tail::{LogTail, MOST_BYTES, clean, last, with_logs};
use swaplet_core::terminate::memory::ends::LogPlace;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout};

use self::kept::{FORGOTTEN, Kept, MOST_PODS, Room};
use super::index::SidecarLog;
use crate::frame::lease::Leadership;
use crate::frame::serve::Health;
use crate::frame::serve::rights::Right;
use crate::frame::writer::report::{Notice, Reporter};
use crate::frame::writer::{is_missing_right, refusal};

/// The deadline of one log, including the wait for its turn.
const DEADLINE: Duration = Duration::from_secs(5);
/// Logs that are read at once: they must not crowd out the writes that end pods.
const AT_ONCE: usize = 8;
/// The maximum number of sidecars per pod: its Event has no room for more logs.
const MOST_OF_POD: usize = 8;
/// The number of lines requested. Runtimes split lines at 16 KiB.
const LINES: i64 = 16;
/// The maximum size of these lines in bytes; reading stops if a node sends more.
const MOST_READ: usize = 512 << 10;
/// The number of bytes kept for cleaning: much of it may not be printable.
const KEPT: usize = 16 << 10;
/// The texts that a kubelet answers with 200 if a container is gone (`pkg/kubelet/kuberuntime`,
/// `GetContainerLogs` and `ReadLogs`).
const KUBELET_HAS_NONE: [&str; 2] = [
    "unable to retrieve container logs for ",
    "failed to try resolving symlinks in path ",
];
/// The error that it answers if the previous container is gone.
const NO_PREVIOUS: &str = "previous terminated container ";
const GONE: &str = "its node has dropped it";

/// Reads logs, and emits Events with them.
pub struct Logs {
    reader: Option<Reader>,
    reads: Kept<Reads>,
    /// When it was logged last that logs are not read.
    logged: Option<Instant>,
    reporting: JoinSet<()>,
}

/// The reads for one pod, by container.
type Reads = Vec<(Box<str>, JoinHandle<LogTail>)>;

#[derive(Clone)]
struct Reader {
    client: Client,
    leadership: Leadership,
    health: Health,
    bytes: usize,
    at_once: Arc<Semaphore>,
}

impl Logs {
    /// Returns a reader of at most `bytes` of each log; with 0, none is read.
    #[must_use]
    pub fn new(client: Client, leadership: Leadership, health: Health, bytes: usize) -> Self {
        let reader = Reader {
            client,
            leadership,
            health,
            bytes,
            at_once: Arc::new(Semaphore::new(AT_ONCE)),
        };
        Self {
            reader: (bytes > 0).then_some(reader),
            reads: Kept::new(),
            logged: None,
            reporting: JoinSet::new(),
        }
    }

    /// Starts reading a log, in the background.
    pub fn read(&mut self, log: SidecarLog) {
        let Some(reader) = self.reader.clone() else {
            return;
        };
        let (uid, namespace) = (&log.target.uid, &log.target.namespace);
        match self.reads.make_room(uid, namespace) {
            Room::Free => {}
            Room::Instead(reads) => {
                self.note_unread();
                reads.iter().for_each(|(_, task)| task.abort());
            }
            Room::None => return self.note_unread(),
        }
        let reads = self.reads.of(uid, namespace);
        if reads.len() >= MOST_OF_POD {
            return;
        }
        let container = log.container.clone();
        let task = tokio::spawn(async move { reader.read(&log).await });
        reads.push((container, task));
    }

    /// Logs that Events will lack logs, but not for each of them.
    fn note_unread(&mut self) {
        if self.logged.is_some_and(|at| at.elapsed() < FORGOTTEN) {
            return;
        }
        self.logged = Some(Instant::now());
        tracing::warn!(
            "{MOST_PODS} pods whose sidecars have ended have not: Events of further pods of the namespace that has most of them lack the last lines of sidecars"
        );
    }

    /// Emits a report; one about the end of a pod waits for the logs of its sidecars.
    pub fn report(&mut self, notice: Notice, reporter: &Reporter) {
        while self.reporting.try_join_next().is_some() {}
        let reads = if notice.report.reason.is_end() {
            self.reads.take(&notice.target.uid)
        } else {
            None
        };
        let (Some(reads), Some(reader)) = (reads, &self.reader) else {
            return reporter.report(notice);
        };
        let (bytes, reporter) = (reader.bytes, reporter.clone());
        self.reporting.spawn(async move {
            reporter.report(with_all(notice, reads, bytes).await);
        });
    }

    /// Waits until all pending reports are emitted, but not longer than the deadline of one log.
    pub async fn drain(&mut self) {
        let all = async { while self.reporting.join_next().await.is_some() {} };
        let _ = timeout(DEADLINE, all).await;
    }
}

async fn with_all(mut notice: Notice, reads: Reads, bytes: usize) -> Notice {
    let mut logs = Vec::new();
    for (container, task) in reads {
        let log = task.await.unwrap_or_else(|_| unread("a defect in swaplet"));
        logs.push((container, log));
    }
    notice.report.note = with_logs(&notice.report.note, &logs, bytes);
    notice
}

fn unread(why: &str) -> LogTail {
    LogTail::Unread(why.to_owned())
}

impl Reader {
    async fn read(&self, log: &SidecarLog) -> LogTail {
        if !self.leadership.holds() {
            return unread("this process no longer leads");
        }
        let read = async {
            let Ok(_turn) = self.at_once.acquire().await else {
                return unread("the process ends");
            };
            match log.place {
                LogPlace::Current => self.current(log).await,
                LogPlace::Previous => self.ask(log, true).await,
                LogPlace::Gone => unread(GONE),
            }
        };
        let late = || unread(&format!("no answer in {} s", DEADLINE.as_secs()));
        timeout(DEADLINE, read).await.unwrap_or_else(|_| late())
    }

    /// Reads the current log, or the previous one: the exit image, which logs nothing, may be
    /// current.
    async fn current(&self, log: &SidecarLog) -> LogTail {
        let current = self.ask(log, false).await;
        if matches!(&current, LogTail::Lines(lines) if !lines.is_empty()) {
            return current;
        }
        match self.ask(log, true).await {
            LogTail::Unread(_) => current,
            previous @ LogTail::Lines(_) => previous,
        }
    }

    async fn ask(&self, log: &SidecarLog, previous: bool) -> LogTail {
        match self.fetch(log, previous).await {
            Ok(Ok(body)) => {
                self.health.has_in(Right::ReadLogs, &log.target.namespace);
                let lines = clean(&body);
                if KUBELET_HAS_NONE
                    .iter()
                    .any(|words| lines.starts_with(words))
                {
                    return unread(GONE);
                }
                LogTail::Lines(last(&lines, MOST_BYTES.into()))
            }
            Ok(Err(words)) => {
                self.health
                    .note_denial(Right::ReadLogs, &log.target.namespace, &words);
                if is_missing_right(&words) {
                    return unread("the right is missing (deploy/sidecar-logs.yaml)");
                }
                if words.starts_with(NO_PREVIOUS) {
                    return unread(GONE);
                }
                LogTail::Unread(words)
            }
            Err(error) => LogTail::Unread(error.to_string()),
        }
    }

    /// Returns the end of the log, or the text of a refusal.
    async fn fetch(
        &self,
        log: &SidecarLog,
        previous: bool,
    ) -> kube::Result<Result<Vec<u8>, String>> {
        let params = LogParams {
            container: Some(log.container.to_string()),
            previous,
            tail_lines: Some(LINES),
            limit_bytes: i64::try_from(MOST_READ).ok(),
            ..LogParams::default()
        };
        let pods = Request::new(PodWire::url_path(&(), Some(&log.target.namespace)));
        let request = pods
            .logs(&log.target.name, &params)
            .map_err(kube::Error::BuildRequest)?;
        let (head, mut body) = self
            .client
            .send(request.map(Body::from))
            .await?
            .into_parts();
        let mut end = Vec::new();
        let mut read = 0;
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else {
                continue;
            };
            read += data.len();
            end.extend_from_slice(&data);
            end.drain(..end.len().saturating_sub(KEPT));
            if read > MOST_READ {
                break;
            }
        }
        Ok(if head.status.is_success() {
            Ok(end)
        } else {
            Err(refusal(head.status.as_u16(), &end).message)
        })
    }
}
