//! Which of several processes leads: a step function over a `coordination.k8s.io/v1` Lease.
//!
//! The rules are client-go's (`tools/leaderelection`): a Lease counts from when *we* saw it change,
//! so that clocks of other machines do not matter; and who leads stops before anybody else can take
//! it for gone. Leading only keeps two processes from doing the same work: what keeps them from
//! doing harm are the guards of every write.

use std::time::Duration;

/// The times of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// A Lease that has not changed for so long is anybody's.
    pub lasts: Duration,
    /// Whoever leads stops so long after it has sent the last renewal that was applied. Shorter
    /// than `lasts` by the rate at which two clocks may drift apart, and by what a write that is
    /// under way may take.
    pub leads: Duration,
    /// Between two requests.
    pub every: Duration,
}

impl Default for Timing {
    /// Another process takes over at most 14 s after the last renewal; one lost renewal costs
    /// nothing.
    fn default() -> Self {
        Self {
            lasts: Duration::from_secs(12),
            leads: Duration::from_secs(8),
            every: Duration::from_secs(2),
        }
    }
}

/// What is read of a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// `metadata.resourceVersion`
    pub version: Box<str>,
    /// `spec.holderIdentity`; empty where it was given up.
    pub holder: Box<str>,
    /// `spec.leaseDurationSeconds` of the holder; `None` where it says none.
    pub lasts: Option<Duration>,
    /// `spec.leaseTransitions`
    pub transitions: i32,
}

/// What is to be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing, until then.
    Wait(Duration),
    /// The Lease is to be read.
    Read,
    /// There is none: it is to be created, with us as its holder.
    Create,
    /// It is to be written with us as its holder, if it still has this version.
    Take {
        /// `metadata.resourceVersion` of what is replaced.
        version: Box<str>,
        /// `spec.leaseTransitions` to write.
        transitions: i32,
    },
}

/// One process in the election. All times are since its start.
#[derive(Clone, Debug)]
pub struct Election {
    me: Box<str>,
    timing: Timing,
    seen: Seen,
    /// When the last renewal that was applied was sent.
    renewed: Option<Duration>,
    not_before: Duration,
}

/// The Lease as it was last seen.
#[derive(Clone, Debug)]
enum Seen {
    /// It is to be read (again). With what it was, and since when.
    Unknown(Option<(Box<str>, Duration)>),
    Missing,
    Lease(Lease, Duration),
}

impl Election {
    /// Begins as one that does not lead. `me` must be another one for each life of each process.
    #[must_use]
    pub const fn new(me: Box<str>, timing: Timing) -> Self {
        Self {
            me,
            timing,
            seen: Seen::Unknown(None),
            renewed: None,
            not_before: Duration::ZERO,
        }
    }

    /// What is to be done at this time.
    #[must_use]
    pub fn step(&self, now: Duration) -> Step {
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

    fn is_ours(&self, lease: &Lease, since: Duration, now: Duration) -> bool {
        lease.holder.is_empty() || lease.holder == self.me || now >= self.expires(lease, since)
    }

    /// A holder that promises more than we would is believed: it may be another version of this
    /// program.
    fn expires(&self, lease: &Lease, since: Duration) -> Duration {
        since + lease.lasts.unwrap_or_default().max(self.timing.lasts)
    }

    /// The Lease was read; `None`: there is none.
    pub fn read(&mut self, lease: Option<Lease>, now: Duration) {
        let before = match &self.seen {
            Seen::Unknown(before) => before.clone(),
            Seen::Missing => None,
            Seen::Lease(lease, since) => Some((lease.version.clone(), *since)),
        };
        let Some(lease) = lease else {
            self.renewed = None;
            self.seen = Seen::Missing;
            return;
        };
        if lease.holder != self.me {
            self.renewed = None;
        }
        let since = before
            .filter(|(version, _)| *version == lease.version)
            .map_or(now, |(_, since)| since);
        if !self.is_ours(&lease, since, now) {
            self.not_before = (now + self.timing.every).min(self.expires(&lease, since));
        }
        self.seen = Seen::Lease(lease, since);
    }

    /// Our write was applied, and gave this; it was sent at that time.
    pub fn wrote(&mut self, lease: Lease, sent: Duration, now: Duration) {
        self.renewed = Some(sent);
        self.not_before = sent + self.timing.every;
        self.seen = Seen::Lease(lease, now);
    }

    /// Somebody else has written first.
    pub fn conflict(&mut self) {
        self.forget();
    }

    /// A request failed, or nobody knows what became of it.
    pub fn failed(&mut self, now: Duration) {
        self.not_before = now + self.timing.every / 2;
        self.forget();
    }

    fn forget(&mut self) {
        let known = match &self.seen {
            Seen::Lease(lease, since) => Some((lease.version.clone(), *since)),
            Seen::Unknown(before) => before.clone(),
            Seen::Missing => None,
        };
        self.seen = Seen::Unknown(known);
    }

    /// Until when this process leads, if it does; a time that has passed is no lead any more.
    #[must_use]
    pub fn leads_until(&self) -> Option<Duration> {
        self.renewed.map(|sent| sent + self.timing.leads)
    }

    /// The version to give up with; `None` where we do not hold the Lease as far as we know.
    #[must_use]
    pub fn held(&self) -> Option<&str> {
        match &self.seen {
            Seen::Lease(lease, _) if lease.holder == self.me => Some(&lease.version),
            _ => None,
        }
    }

    /// Who holds the Lease, as far as we know.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        match &self.seen {
            Seen::Lease(lease, _) if !lease.holder.is_empty() => Some(&lease.holder),
            _ => None,
        }
    }
}
