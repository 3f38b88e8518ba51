//! Keeps a Lease in the background, so that one of several processes works. [`Election`] decides
//! what is read and written.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease as LeaseObject, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::Patch;
use kube::{Api, Client};
use serde_json::json;
use swaplet_core::cluster::lease::{Election, Lease, Step, Timing};
use swaplet_core::objects::moment::Moment;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::clock::{Clock, time_of_day};
use super::list::words;
use super::serve::Health;
use super::writer::{created, is_of_webhook, params};

/// The name of the Lease.
pub const LEASE: &str = "swaplet";
/// The deadline of one request: two of them fit into the time that is left when a renewal is due.
const REQUEST: Duration = Duration::from_secs(3);
/// The most tries to give the Lease up. The first meets the result of a renewal in flight, the
/// second reads it, and one may be lost.
const TRIES: u32 = 3;
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(500);
/// The deadline of giving up: a part of a pod's half minute to end, and less than the Lease lasts.
const GIVING_UP: Duration = Duration::from_secs(9);

/// The right of this process to write.
#[derive(Clone, Debug)]
pub struct Leadership(Option<watch::Receiver<Option<Instant>>>);

impl Leadership {
    /// Returns the leadership of a process that is alone.
    pub const fn undisputed() -> Self {
        Self(None)
    }

    /// Returns true if the Lease is ours now. A process that was suspended for minutes learns here
    /// that it is not.
    pub fn holds(&self) -> bool {
        self.0
            .as_ref()
            .is_none_or(|until| until.borrow().is_some_and(|until| Instant::now() < until))
    }

    /// Completes once the Lease is ours. Returns false if its keeper has ended.
    pub async fn won(&mut self) -> bool {
        while !self.holds() {
            let Some(until) = &mut self.0 else {
                return true;
            };
            if until.changed().await.is_err() {
                return false;
            }
        }
        true
    }

    /// Completes once the Lease is not ours any more.
    pub async fn lost(&self) {
        self.clone().ended(Duration::ZERO).await;
    }

    /// Completes once a write in flight has to be given up, because another process may lead. One
    /// that was sent shortly before the end of the leadership could else be applied after the next
    /// leader has read the pods, and that one would not count it.
    pub(crate) async fn over(self) {
        self.ended(Timing::default().outlasts()).await;
    }

    /// Completes so long after the end of the leadership.
    async fn ended(mut self, since: Duration) {
        loop {
            let Some(changes) = &mut self.0 else {
                return std::future::pending().await;
            };
            let until = *changes.borrow_and_update();
            let Some(over) = until.map(|until| until + since) else {
                return;
            };
            tokio::select! {
                () = sleep_until(over) => return,
                changed = changes.changed() => if changed.is_err() {
                    return sleep_until(over).await;
                },
            }
        }
    }
}

/// Gives the Lease of a process up whose work is stuck.
pub struct Resignation {
    stop: Arc<Notify>,
    leadership: Leadership,
}

impl Resignation {
    /// Gives the Lease up: nothing is written any more, and another process can take over. Returns
    /// when that is done, or has taken too long.
    pub async fn resign(self) {
        self.stop.notify_one();
        if let Some(mut until) = self.leadership.0 {
            let released = async { while until.changed().await.is_ok() {} };
            let _ = timeout(GIVING_UP, released).await;
        }
    }
}

/// Keeps the Lease until it is [released](Self::release) or dropped.
pub struct LeaseKeeper {
    leadership: Leadership,
    stop: Arc<Notify>,
    task: JoinSet<()>,
}

impl LeaseKeeper {
    /// Starts to compete for the Lease [`LEASE`] of this namespace. The client should be one of its
    /// own, so that no write of pods delays a renewal. `instance` is the readable part of the
    /// holder's identity.
    pub fn start(client: Client, namespace: &str, instance: &str, health: Health) -> Self {
        let (until, receiver) = watch::channel(None);
        let stop = Arc::new(Notify::new());
        // Another one for each run: a process with the same name must not take up the lease of an
        // earlier run.
        let me = format!(
            "{instance}_{:016x}",
            RandomState::new().build_hasher().finish()
        );
        let keeper = Keeper {
            leases: Api::namespaced(client, namespace),
            place: format!("{namespace}/{LEASE}"),
            clock: Clock::start(),
            timing: Timing::default(),
            election: Election::new(me.clone().into(), Timing::default()),
            me,
            until,
            health,
            reported: None,
        };
        let mut task = JoinSet::new();
        task.spawn(keeper.keep(Arc::clone(&stop)));
        Self {
            leadership: Leadership(Some(receiver)),
            stop,
            task,
        }
    }

    /// Returns the leadership that the writer checks.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Returns the way to give the Lease up from outside, where the work that owns this does not
    /// come back.
    pub fn resignation(&self) -> Resignation {
        Resignation {
            stop: Arc::clone(&self.stop),
            leadership: self.leadership.clone(),
        }
    }

    /// Gives the Lease up, so that another process can take over at once.
    pub async fn release(mut self) {
        self.stop.notify_one();
        let _ = timeout(GIVING_UP, self.task.join_next()).await;
    }
}

/// The result of a request.
enum Answer {
    Read(Option<Lease>),
    Wrote(Lease),
    Conflict(String),
    Failed(String),
}

struct Keeper {
    leases: Api<LeaseObject>,
    place: String,
    clock: Clock,
    timing: Timing,
    me: String,
    election: Election,
    until: watch::Sender<Option<Instant>>,
    health: Health,
    /// The trouble that was logged last.
    reported: Option<String>,
}

impl Keeper {
    /// Competes until it is stopped, then gives up what it holds. A request in flight is not waited
    /// for: where the API server is slow there is always one.
    async fn keep(mut self, stop: Arc<Notify>) {
        tokio::select! {
            biased;
            () = stop.notified() => {}
            () = self.compete() => {}
        }
        self.release().await;
    }

    /// Reads and renews the Lease, and does not end.
    async fn compete(&mut self) {
        loop {
            let sent = self.clock.now();
            let answer = match self.election.step(sent) {
                Step::Wait(until) => {
                    sleep_until(self.clock.instant(until)).await;
                    continue;
                }
                Step::Read => self.read().await,
                Step::Create => self.create().await,
                Step::Take {
                    version,
                    transitions,
                } => self.take(&version, transitions).await,
            };
            self.learn(answer, sent);
        }
    }

    fn learn(&mut self, answer: Answer, sent: Moment) {
        let now = self.clock.now();
        let is_read = matches!(answer, Answer::Read(_));
        match answer {
            Answer::Read(lease) => self.election.read(lease, now),
            Answer::Wrote(lease) => self.election.wrote(lease, sent, now),
            Answer::Conflict(error) => {
                if self.election.conflict(now) {
                    return self.trouble(error);
                }
            }
            Answer::Failed(error) => {
                self.election.failed(now);
                return self.trouble(error);
            }
        }
        let until = self.election.leads_until().filter(|until| *until > now);
        self.until
            .send_replace(until.map(|until| self.clock.instant(until)));
        // One that can be read may still not be written, which the write that follows shows.
        let writes_next =
            is_read && matches!(self.election.step(now), Step::Create | Step::Take { .. });
        if writes_next && self.reported.is_some() {
            return;
        }
        if self.reported.take().is_some() {
            tracing::info!(
                lease = self.place,
                "the Lease can be read and written again"
            );
        }
        self.health.lease(if until.is_some() {
            None
        } else {
            Some(self.election.holder().unwrap_or("nobody yet").to_owned())
        });
    }

    /// Logs a trouble once, not with each try.
    fn trouble(&mut self, error: String) {
        self.health.lease_trouble(&error);
        if self.reported.as_ref() != Some(&error) {
            tracing::warn!(
                lease = self.place,
                error,
                "cannot read or write the Lease; nothing is done without it; trying again"
            );
            self.reported = Some(error);
        }
    }

    async fn read(&self) -> Answer {
        match timeout(REQUEST, self.leases.get_opt(LEASE)).await {
            Ok(Ok(lease)) => Answer::Read(lease.map(|lease| read(&lease))),
            Ok(Err(error)) => Answer::Failed(words(&error)),
            Err(_) => no_answer(),
        }
    }

    async fn create(&self) -> Answer {
        let now = MicroTime(time_of_day());
        let spec = LeaseSpec {
            holder_identity: Some(self.me.clone()),
            lease_duration_seconds: Some(self.seconds()),
            lease_transitions: Some(0),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            ..LeaseSpec::default()
        };
        let lease = LeaseObject {
            metadata: ObjectMeta {
                name: Some(LEASE.to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(spec),
        };
        match timeout(REQUEST, self.leases.create(&created(), &lease)).await {
            // The namespace is missing: another try at once would get the same answer.
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => {
                Answer::Failed(words(&kube::Error::Api(status)))
            }
            created => written(created),
        }
    }

    async fn take(&self, version: &str, transitions: i32) -> Answer {
        let now = MicroTime(time_of_day());
        let mut spec = json!({
            "holderIdentity": self.me,
            "leaseDurationSeconds": self.seconds(),
            "leaseTransitions": transitions,
            "renewTime": now,
        });
        if self.election.held().is_none() {
            spec["acquireTime"] = json!(now);
        }
        self.patch(version, &spec).await
    }

    /// Writes if the resourceVersion still holds: 409 if somebody else has written meanwhile.
    async fn patch(&self, version: &str, spec: &serde_json::Value) -> Answer {
        let patch = Patch::Merge(json!({"metadata": {"resourceVersion": version}, "spec": spec}));
        written(timeout(REQUEST, self.leases.patch(LEASE, &params(), &patch)).await)
    }

    /// Gives the Lease up. Each try requires a version that had us as the holder: it is refused if
    /// somebody else has taken the Lease, and makes a renewal in flight void.
    async fn release(self) {
        self.until.send_replace(None);
        let mut known = self.election.held().map(Box::from);
        for _ in 0..TRIES {
            if known.is_none() {
                match self.read().await {
                    Answer::Read(Some(lease)) if *lease.holder == *self.me => {
                        known = Some(lease.version)
                    }
                    Answer::Read(_) => return,
                    _ => {}
                }
            }
            if let Some(version) = known.take()
                && let Answer::Wrote(_) = self.give_up(&version).await
            {
                return;
            }
            sleep(PAUSE).await;
        }
    }

    async fn give_up(&self, version: &str) -> Answer {
        // One second is the least that the API server accepts.
        let spec = json!({"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": MicroTime(time_of_day())});
        self.patch(version, &spec).await
    }

    fn seconds(&self) -> i32 {
        i32::try_from(self.timing.lasts.as_secs()).unwrap_or(i32::MAX)
    }
}

fn read(lease: &LeaseObject) -> Lease {
    let spec = lease.spec.as_ref();
    let seconds = spec
        .and_then(|spec| spec.lease_duration_seconds)
        .and_then(|seconds| u64::try_from(seconds).ok());
    Lease {
        version: lease
            .metadata
            .resource_version
            .as_deref()
            .unwrap_or_default()
            .into(),
        holder: spec
            .and_then(|spec| spec.holder_identity.as_deref())
            .unwrap_or_default()
            .into(),
        lasts: seconds.map(Duration::from_secs),
        transitions: spec
            .and_then(|spec| spec.lease_transitions)
            .unwrap_or_default(),
    }
}

fn written(result: Result<kube::Result<LeaseObject>, tokio::time::error::Elapsed>) -> Answer {
    match result {
        Ok(Ok(lease)) => Answer::Wrote(read(&lease)),
        Ok(Err(kube::Error::Api(status)))
            if matches!(status.code, 404 | 409) && !is_of_webhook(&status.message) =>
        {
            Answer::Conflict(words(&kube::Error::Api(status)))
        }
        Ok(Err(error)) => Answer::Failed(words(&error)),
        Err(_) => no_answer(),
    }
}

fn no_answer() -> Answer {
    Answer::Failed(format!("no answer in {} s", REQUEST.as_secs()))
}
