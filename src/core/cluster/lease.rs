//! The leader election between processes: a step function over a `coordination.k8s.io/v1` Lease.
//!
//! The rules are client-go's (`tools/leaderelection`): the age of a Lease counts from when *this
//! process* observed it change, so the clocks of other machines do not matter. A leader stops
//! before any other process can take it for gone. The election only keeps two processes from doing
//! the same work; the guards of every write are what prevents harm.

use std::time::Duration;

use crate::objects::moment::Moment;

/// The longest term that a version of this program has. A Lease that names a longer one, by mistake,
/// can be deleted.
const LONGEST_TERM: Duration = Duration::from_secs(60);

/// The time by which the clocks of two processes may drift apart within one term of the Lease.
const DRIFT: Duration = Duration::from_secs(2);

/// The times of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Any process may take a Lease that has not changed for this long.
    pub lasts: Duration,
    /// A leader stops this long after it has sent the last renewal that was applied. Shorter than
    /// `lasts` by the rate at which two clocks may drift apart, and by what a write that is in
    /// flight may take.
    pub leads: Duration,
    /// The interval between two requests.
    pub every: Duration,
}

impl Default for Timing {
    /// Returns times with which another process takes over at most 14 s after the last renewal, and
    /// one lost renewal costs nothing.
    fn default() -> Self {
        Self {
            lasts: Duration::from_secs(12),
            leads: Duration::from_secs(8),
            every: Duration::from_secs(2),
        }
    }
}

impl Timing {
    /// Returns how long a write that is in flight may outlast the leadership: another process may
    /// lead after that, and must not meet it.
    pub const fn outlasts(&self) -> Duration {
        self.lasts.saturating_sub(self.leads).saturating_sub(DRIFT)
    }
}

/// A Lease, reduced to the fields that the election reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// `metadata.resourceVersion`
    pub version: Box<str>,
    /// `spec.holderIdentity`; empty if the Lease was released.
    pub holder: Box<str>,
    /// `spec.leaseDurationSeconds` of the holder; `None` if absent.
    pub lasts: Option<Duration>,
    /// `spec.leaseTransitions`
    pub transitions: i32,
}

/// The next step of the election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Do nothing until this time.
    Wait(Moment),
    /// Read the Lease from the API server.
    Read,
    /// Create the Lease, which is missing, with this process as its holder.
    Create,
    /// Write the Lease with this process as its holder, if it still has this version.
    Take {
        /// `metadata.resourceVersion` of the Lease that is replaced.
        version: Box<str>,
        /// `spec.leaseTransitions` to write.
        transitions: i32,
    },
}

/// One process in the election.
#[derive(Clone, Debug)]
pub struct Election {
    me: Box<str>,
    timing: Timing,
    seen: Seen,
    /// When the last applied renewal was sent; `None` if this process does not lead.
    renewed: Option<Moment>,
    /// How long the Lease lasts that somebody else was last seen to hold; `None` if nobody was.
    others: Option<Duration>,
    /// True from a conflict until a write is applied, or somebody else is seen to lead.
    has_conflict: bool,
    not_before: Moment,
}

/// The Lease as it was last observed.
#[derive(Clone, Debug)]
enum Seen {
    /// To be read (again). Holds the last observed version, and since when it was observed.
    Unknown(Option<(Box<str>, Moment)>),
    Missing,
    Lease(Lease, Moment),
}

impl Election {
    /// Creates an election in which this process does not lead. `me` must be unique for each run of
    /// each process.
    pub const fn new(me: Box<str>, timing: Timing) -> Self {
        Self {
            me,
            timing,
            seen: Seen::Unknown(None),
            renewed: None,
            others: None,
            has_conflict: false,
            not_before: Moment::START,
        }
    }

    /// Returns the next step at this time.
    pub fn step(&self, now: Moment) -> Step {
        if now < self.not_before {
            return Step::Wait(self.not_before);
        }
        match &self.seen {
            Seen::Unknown(_) => Step::Read,
            Seen::Missing => Step::Create,
            Seen::Lease(lease, since) if self.is_ours(lease, *since, now) => {
                let taken = i32::from(lease.holder != self.me);
                Step::Take {
                    version: lease.version.clone(),
                    transitions: lease.transitions.saturating_add(taken),
                }
            }
            Seen::Lease(..) => Step::Read,
        }
    }

    fn is_ours(&self, lease: &Lease, since: Moment, now: Moment) -> bool {
        lease.holder.is_empty() || lease.holder == self.me || now >= self.expires(lease, since)
    }

    fn expires(&self, lease: &Lease, since: Moment) -> Moment {
        since + self.lasts(lease)
    }

    /// Returns how long the Lease lasts. A holder with a longer duration than this process has is
    /// respected: it may be another version of this program.
    fn lasts(&self, lease: &Lease) -> Duration {
        lease.lasts.unwrap_or_default().max(self.timing.lasts)
    }

    /// Records that the Lease was read; `None` if it does not exist.
    pub fn read(&mut self, lease: Option<Lease>, now: Moment) {
        let before = self.known();
        let Some(lease) = lease else {
            self.renewed = None;
            self.seen = Seen::Missing;
            // Whoever deletes a Lease does not stop its holder, who may have renewed it just now.
            if let Some(lasts) = self.others.take() {
                self.not_before = now + lasts.min(LONGEST_TERM);
            }
            return;
        };
        self.others = None;
        if lease.holder != self.me {
            self.renewed = None;
            let lasts = self.lasts(&lease);
            self.others = (!lease.holder.is_empty()).then_some(lasts);
        }
        let since = before
            .filter(|(version, _)| *version == lease.version)
            .map_or(now, |(_, since)| since);
        if !self.is_ours(&lease, since, now) {
            self.has_conflict = false;
            self.not_before = (now + self.timing.every).min(self.expires(&lease, since));
        }
        self.seen = Seen::Lease(lease, since);
    }

    /// Records that a write of this process, sent at `sent`, was applied and returned this Lease.
    pub fn wrote(&mut self, lease: Lease, sent: Moment, now: Moment) {
        self.renewed = Some(sent);
        (self.others, self.has_conflict) = (None, false);
        self.not_before = sent + self.timing.every;
        self.seen = Seen::Lease(lease, now);
    }

    /// Records that another process has written first. Returns true if that goes on, although none
    /// is seen to lead: then it counts as a failure.
    pub fn conflict(&mut self, now: Moment) -> bool {
        self.forget();
        if self.has_conflict {
            self.failed(now);
        }
        std::mem::replace(&mut self.has_conflict, true)
    }

    /// Records that a request has failed, or that its outcome is unknown.
    pub fn failed(&mut self, now: Moment) {
        self.not_before = now + self.timing.every / 2;
        self.forget();
    }

    fn forget(&mut self) {
        self.seen = Seen::Unknown(self.known());
    }

    /// Returns the last observed version, and since when it was observed.
    fn known(&self) -> Option<(Box<str>, Moment)> {
        match &self.seen {
            Seen::Lease(lease, since) => Some((lease.version.clone(), *since)),
            Seen::Unknown(before) => before.clone(),
            Seen::Missing => None,
        }
    }

    /// Returns until when this process leads; `None`, or a time in the past, if it does not.
    pub fn leads_until(&self) -> Option<Moment> {
        self.renewed.map(|sent| sent + self.timing.leads)
    }

    /// Returns the version to release the Lease with; `None` unless this process holds it.
    pub fn held(&self) -> Option<&str> {
        match &self.seen {
            Seen::Lease(lease, _) if lease.holder == self.me => Some(&lease.version),
            _ => None,
        }
    }

    /// Returns the last observed holder of the Lease; `None` if it is free or unknown.
    pub fn holder(&self) -> Option<&str> {
        match &self.seen {
            Seen::Lease(lease, _) if !lease.holder.is_empty() => Some(&lease.holder),
            _ => None,
        }
    }
}
