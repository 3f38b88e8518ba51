//! Restarts of containers of several pods: which pod is next, and how many at once.
//!
//! * At most `max_unavailable` pods are restarted at the same time.
//! * A pod that is ready is restarted only while fewer pods than that are unavailable: those that
//!   are being restarted, those that are not ready, and those that a workload wants and does not
//!   have.
//! * Pods that are not ready come first: restarting them reduces no availability, and may fix them.
//! * A `PodDisruptionBudget` is respected as by the eviction API.

use std::fmt;

use crate::objects::values::amount::{Amount, Rounding};

/// One pod of a group that is restarted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The name of the pod.
    pub name: Box<str>,
    /// The progress of its restart.
    pub stage: Stage,
    /// True if the pod is Ready and not being deleted.
    pub ready: bool,
    /// The positions in [`Situation::budgets`] of the budgets that cover the pod.
    pub budgets: Vec<usize>,
}

/// The progress of a pod's restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The pod is to be restarted.
    Waiting,
    /// The pod is being restarted.
    Restarting,
    /// The pod has been restarted, could not be, or never had to be.
    Over,
}

/// The state of a group of pods when the next ones are chosen.
#[derive(Clone, Debug, Default)]
pub struct Situation {
    /// All pods of the group, in the order in which they are to be restarted.
    pub members: Vec<Member>,
    /// How many pods there should be: the replicas of the workload, or the number of existing pods.
    pub desired: usize,
    /// How many pods may be unavailable; at least 1.
    pub max_unavailable: usize,
    /// The budgets that cover any of the members.
    pub budgets: Vec<Budget>,
}

/// The pods to restart now, and those that wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The positions of the members to restart now, in order.
    pub start: Vec<usize>,
    /// The positions of the members that wait, each with the reason.
    pub held: Vec<(usize, Hold)>,
}

/// Why a pod is not restarted yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// This many pods are being restarted, and no more are allowed.
    AtOnce(usize),
    /// Too many of the pods are unavailable.
    Unavailable {
        /// How many pods are unavailable.
        unavailable: usize,
        /// How many pods may be unavailable.
        limit: usize,
    },
    /// The `PodDisruptionBudget` of this name allows no disruption.
    Budget(Box<str>),
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtOnce(1) => f.write_str("1 of --max-unavailable 1 is being restarted"),
            Self::AtOnce(limit) => write!(
                f,
                "{limit} of --max-unavailable {limit} are being restarted"
            ),
            Self::Unavailable { unavailable, limit } => {
                write!(f, "{unavailable} unavailable, --max-unavailable is {limit}")
            }
            Self::Budget(name) => write!(f, "PodDisruptionBudget {name} allows no disruption"),
        }
    }
}

/// Chooses the pods to restart now.
pub fn next(situation: &Situation) -> Step {
    let mut count = Count::of(situation);
    let mut step = Step::default();
    for (index, member) in situation.in_order() {
        match count.hold(situation, member) {
            Some(hold) => step.held.push((index, hold)),
            None => {
                count.start(member);
                step.start.push(index);
            }
        }
    }
    step
}

impl Situation {
    /// Returns the members that wait, those that are not ready first.
    fn in_order(&self) -> impl Iterator<Item = (usize, &Member)> {
        let waiting = |ready| {
            let is = move |member: &Member| member.stage == Stage::Waiting && member.ready == ready;
            self.members
                .iter()
                .enumerate()
                .filter(move |(_, member)| is(member))
        };
        waiting(false).chain(waiting(true))
    }
}

/// Running counts while pods are chosen.
struct Count {
    restarting: usize,
    available: usize,
    /// How many disruptions were chosen in this step, by position of the budget.
    disrupted: Vec<usize>,
}

impl Count {
    fn of(situation: &Situation) -> Self {
        let members = || situation.members.iter();
        Self {
            restarting: members()
                .filter(|member| member.stage == Stage::Restarting)
                .count(),
            available: members()
                .filter(|member| member.ready && member.stage != Stage::Restarting)
                .count(),
            disrupted: vec![0; situation.budgets.len()],
        }
    }

    fn hold(&self, situation: &Situation, member: &Member) -> Option<Hold> {
        let limit = situation.max_unavailable;
        if self.restarting >= limit {
            return Some(Hold::AtOnce(limit));
        }
        let unavailable = situation.desired.saturating_sub(self.available);
        if member.ready && unavailable >= limit {
            return Some(Hold::Unavailable { unavailable, limit });
        }
        let full = |&&index: &&usize| {
            let (budget, taken) = (situation.budgets.get(index), self.disrupted.get(index));
            budget
                .zip(taken)
                .is_some_and(|(budget, taken)| !budget.allows(member.ready, *taken))
        };
        let budget = situation.budgets.get(*member.budgets.iter().find(full)?)?;
        Some(Hold::Budget(budget.name.clone()))
    }

    fn start(&mut self, member: &Member) {
        self.restarting += 1;
        if member.ready {
            self.available -= 1;
            for index in &member.budgets {
                self.disrupted
                    .iter_mut()
                    .skip(*index)
                    .take(1)
                    .for_each(|taken| *taken += 1);
            }
        }
    }
}

/// Returns the sort key of a pod: pods of a `StatefulSet` from the highest ordinal down, as it
/// updates them itself, others by name.
pub fn place(name: &str, by_ordinal: bool) -> (std::cmp::Reverse<u64>, Box<str>) {
    let ordinal = name
        .rsplit_once('-')
        .and_then(|(_, ordinal)| ordinal.parse().ok())
        .filter(|_| by_ordinal);
    (std::cmp::Reverse(ordinal.unwrap_or_default()), name.into())
}

// The limit of unavailable pods.

/// Returns how many of these pods may be unavailable: at least one, as in Kubernetes, for with none
/// nothing would ever happen (`pkg/controller/deployment/util`, `ResolveFenceposts`).
pub fn most(limit: Amount, pods: usize, rounding: Rounding) -> usize {
    limit.of(pods, rounding).max(1)
}

/// Reads the limit of unavailable pods, a number or a percentage.
///
/// # Errors
/// Says what is wrong with any other text, with no pods at all, and with more than all.
pub fn limit(text: &str) -> Result<Amount, String> {
    match Amount::parse(text) {
        None => Err(format!(
            "\"{text}\" is neither a number of pods, such as 1, nor a percentage, such as 25%"
        )),
        Some(limit) if limit.is_none() => Err(format!(
            "with {text} no pod could ever be restarted; write at least 1"
        )),
        Some(Amount::Percent(101..)) => Err(format!("{text} is more than all pods")),
        Some(limit) => Ok(limit),
    }
}

// The disruptions that a `PodDisruptionBudget` allows, by the rules of the eviction API
// (`pkg/registry/core/pod/storage/eviction.go`).
//
// The status of a budget lags behind what has just been done to its pods. So it is not trusted
// alone while pods are being restarted: the pods that it covers are counted here, without those
// that are being restarted.

/// A `PodDisruptionBudget` with its remaining disruptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The name of the budget.
    pub name: Box<str>,
    /// How many ready pods may be disrupted now.
    pub allowed: usize,
    /// True if pods that are not ready may be disrupted.
    pub allows_unready: bool,
}

/// The inputs for a budget: its status, and counts of the pods that it covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Covered {
    /// True if `status.observedGeneration` is behind `metadata.generation`: the status is about
    /// another spec.
    pub is_outdated: bool,
    /// True if the condition `DisruptionAllowed` has the reason `SyncFailed`: its controller cannot
    /// count.
    pub sync_failed: bool,
    /// True if `spec.unhealthyPodEvictionPolicy` is `AlwaysAllow`.
    pub always_allows_unready: bool,
    /// `status.disruptionsAllowed`
    pub disruptions_allowed: usize,
    /// `status.desiredHealthy`
    pub desired_healthy: usize,
    /// How many entries `status.disruptedPods` has: evictions that have not taken effect yet.
    pub disrupted: usize,
    /// How many of its pods are observed Ready, not being deleted, and not being restarted.
    pub healthy: usize,
    /// How many of its pods are being restarted.
    pub restarting: usize,
}

impl Budget {
    /// Computes the remaining disruptions; no ready pod may be disrupted while the status is
    /// unusable.
    pub fn of(name: &str, covered: &Covered) -> Self {
        let known = !covered.is_outdated && !covered.sync_failed;
        let counted = covered
            .healthy
            .saturating_sub(covered.disrupted)
            .saturating_sub(covered.desired_healthy);
        let reported = if covered.restarting == 0 {
            covered.disruptions_allowed
        } else {
            usize::MAX
        };
        let is_healthy = covered.desired_healthy > 0 && covered.healthy >= covered.desired_healthy;
        Self {
            name: name.into(),
            allowed: if known { counted.min(reported) } else { 0 },
            allows_unready: covered.always_allows_unready || (known && is_healthy),
        }
    }

    /// Returns true if one more pod may be disrupted, after `taken` ready ones that the budget does
    /// not count yet.
    pub const fn allows(&self, ready: bool, taken: usize) -> bool {
        (!ready && self.allows_unready) || self.allowed > taken
    }
}
