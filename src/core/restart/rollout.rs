//! Restarting containers of several pods: which pod is next, and how many at once.
//!
//! * At most as many pods as the limit says are restarted at the same time.
//! * A pod that is ready is restarted only while fewer pods than the limit are unavailable: those
//!   that are being restarted, those that are not ready, and those that a workload wants and does
//!   not have.
//! * Pods that are not ready come first: restarting them takes nothing away, and may be their cure.
//! * A `PodDisruptionBudget` is respected as by the eviction of a pod.

mod budget;
mod limit;

use std::fmt;

pub use budget::{Budget, Covered};
pub use limit::{Limit, Rounding};

/// One pod of those that are restarted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: Box<str>,
    /// How far it is.
    pub stage: Stage,
    /// Whether it is Ready and not being deleted.
    pub ready: bool,
    /// The positions in [`Situation::budgets`] of those that cover it.
    pub budgets: Vec<usize>,
}

/// How far a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is to be restarted.
    Waiting,
    /// It is being restarted.
    Restarting,
    /// It has been restarted, could not be, or never had to be.
    Over,
}

/// What is known when the next pods are chosen.
#[derive(Clone, Debug, Default)]
pub struct Situation {
    /// All pods of the group, in the order in which they are to be restarted.
    pub members: Vec<Member>,
    /// How many pods there should be: what the workload says, or how many there are.
    pub desired: usize,
    /// How many may be unavailable; at least 1.
    pub max_unavailable: usize,
    /// The budgets that cover any of them.
    pub budgets: Vec<Budget>,
}

/// What to do now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The positions of the members to start with now, in order.
    pub start: Vec<usize>,
    /// The positions of those that wait, each with the reason.
    pub held: Vec<(usize, Hold)>,
}

/// Why a pod is not restarted yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// So many are being restarted, and no more are allowed.
    AtOnce(usize),
    /// So many of the pods are unavailable, and no more are allowed.
    Unavailable {
        /// How many are.
        unavailable: usize,
        /// How many may be.
        limit: usize,
    },
    /// The `PodDisruptionBudget` of this name allows no disruption.
    Budget(Box<str>),
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
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

/// Chooses the pods to start with now.
#[must_use]
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
    /// Those that wait: first those that are not ready.
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

/// What is taken already.
struct Count {
    restarting: usize,
    available: usize,
    /// By budget: how many disruptions of it were chosen in this step.
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

/// The place of a pod in the order: pods of a `StatefulSet` from the highest ordinal down, as it
/// updates them itself, others by name.
#[must_use]
pub fn place(name: &str, by_ordinal: bool) -> (std::cmp::Reverse<u64>, Box<str>) {
    let ordinal = name
        .rsplit_once('-')
        .and_then(|(_, ordinal)| ordinal.parse().ok())
        .filter(|_| by_ordinal);
    (std::cmp::Reverse(ordinal.unwrap_or_default()), name.into())
}
