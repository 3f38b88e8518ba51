//! The rounds of owners, in turns by namespace, so that a tenant whose writes hang, as behind a
//! webhook that does not answer, holds up no other one.
//!
//! A round reads the `PodDisruptionBudget`s, if a pod would be restarted without them, and then
//! makes its writes. A namespace has one round at a time: two of them would use the same room in a
//! budget. Nothing is decided but from records that are stored.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::time::Duration;

use swaplet_core::objects::moment::Moment;
use swaplet_core::report::decision::Report;
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::on_config::pod::ConfiguredPod;
use swaplet_core::restart::on_config::round::{Action, Round, decide};
use tokio::time::timeout;

use super::Run;
use super::disruption_budgets::{BudgetsUnknown, DisruptionBudgets, Left};
use super::requests::{Made, make};
use super::state::Group;
use crate::frame::in_flight::InFlight;
use crate::frame::isolated::isolated;
use crate::frame::queue::FairQueue;
use crate::frame::serve::rights::Right;

/// The maximum number of rounds in progress, of which each namespace has one.
const AT_ONCE: usize = 8;
/// The deadline of reading the `PodDisruptionBudget`s of a namespace.
const READ_BUDGETS: Duration = Duration::from_secs(15);
/// The interval between two checks whether a `PodDisruptionBudget` allows a restart.
const HELD: Duration = Duration::from_secs(10);

/// The labels of a pod.
type Labels = BTreeMap<String, String>;

pub(super) struct Budgets {
    /// What remains of them.
    left: Result<Left, BudgetsUnknown>,
    /// The labels of the pods for which they were read.
    of: BTreeSet<Labels>,
}

/// The rounds in progress, and the owners that wait for theirs.
pub(super) struct Rounds {
    line: FairQueue<Group>,
    pub(super) calls: InFlight<Group, Carried>,
    /// The rounds whose budgets have been read, and when.
    read: Vec<(Group, Moment, Budgets)>,
}

/// A part of a round that has been carried out.
pub(super) enum Carried {
    Read(Budgets),
    Made {
        made: Made,
        /// When the owner is due again, whatever became of the writes.
        again: Option<Moment>,
        /// True if the budgets were not read in time.
        was_late: bool,
    },
}

impl Rounds {
    pub(super) fn new() -> Self {
        Self {
            line: FairQueue::default(),
            calls: InFlight::one_each(AT_ONCE, |(namespace, _)| namespace),
            read: Vec::new(),
        }
    }

    /// Adds an owner behind those of its namespace.
    pub(super) fn push(&mut self, group: Group) {
        let namespace = group.0.clone();
        self.line.push(&namespace, group);
    }

    /// Returns the owner whose turn it is; `None` if there is no room.
    fn turn(&mut self) -> Option<Group> {
        self.calls.turn(|may_begin| self.line.pop_of(may_begin))
    }

    /// Carries out a part of a round beside the loop.
    fn call(&mut self, group: &Group, part: impl Future<Output = Carried> + Send + 'static) {
        self.calls.begin((), group.clone(), |(), _| Box::pin(part));
    }
}

impl Run {
    /// Continues the rounds whose budgets have been read, and begins those for which there is room.
    pub(super) fn begin_rounds(&mut self) {
        let now = self.clock.now();
        for (group, at, budgets) in take(&mut self.rounds.read) {
            // The records could not be stored for a while.
            let is_old = now > at + READ_BUDGETS;
            self.round(&group, Some(budgets).filter(|_| !is_old), now);
        }
        while let Some(group) = self.rounds.turn() {
            self.round(&group, None, now);
        }
    }

    /// Handles a part of a round that has been carried out, or has panicked.
    pub(super) fn called(&mut self, group: Group, result: Result<Carried, String>) {
        let now = self.clock.now();
        match result {
            Ok(Carried::Read(budgets)) => self.rounds.read.push((group, now, budgets)),
            Ok(Carried::Made {
                made,
                again,
                was_late,
            }) => {
                let has_failed = was_late || made.has_failed;
                let was_fresh = self.state.is_fresh(&group);
                match isolated(&group.1, || self.made(made)) {
                    Ok(retry) => {
                        self.state.written(&group, was_fresh);
                        let again = again.into_iter().chain(retry).min();
                        self.end_round(&group, again, has_failed);
                    }
                    Err(defect) => self.broken(&group, &defect, now),
                }
            }
            Err(defect) => self.broken(&group, &defect, now),
        }
    }

    fn round(&mut self, group: &Group, budgets: Option<Budgets>, now: Moment) {
        if let Err(defect) = isolated(&group.1, || self.step(group, budgets, now)) {
            self.broken(group, &defect, now);
        }
    }

    fn broken(&mut self, group: &Group, defect: &str, now: Moment) {
        self.rounds.calls.end(group, false);
        self.undecided(group, defect, now);
    }

    /// Ends a round; the owner is due again at this time, or with the next event.
    fn end_round(&mut self, group: &Group, again: Option<Moment>, has_failed: bool) {
        self.rounds.calls.end(group, has_failed);
        if let Some(at) = again {
            self.state.again(group, at);
        }
    }

    /// Decides about the pods of an owner, and begins the writes.
    fn step(&mut self, group: &Group, budgets: Option<Budgets>, now: Moment) {
        let left = budgets.as_ref().map(|budgets| &budgets.left);
        let was_late = matches!(left, Some(Err(BudgetsUnknown::Late(_))));
        let Some((round, trouble)) = self.decide(group, budgets, now) else {
            return;
        };
        let is_unknown = trouble.is_some();
        let members = self
            .state
            .members(group, &self.records, &self.settings, now);
        let pods: Vec<ConfiguredPod> = members.iter().map(|member| member.pod.clone()).collect();
        let due = members
            .iter()
            .filter_map(|member| member.standing.due)
            .min();
        drop(members);
        for (index, report) in round.reports.into_iter().chain(trouble) {
            pods.get(index)
                .into_iter()
                .for_each(|pod| self.report(pod, report.clone()));
        }
        if let Some(budget) = &round.held_by {
            tracing::info!(namespace = %group.0, %budget, "a PodDisruptionBudget allows no restart for changed configuration; waiting");
        }
        let held = round
            .held_by
            .map(|_| now + if is_unknown { READ_BUDGETS } else { HELD });
        let again = due.into_iter().chain(held).min();
        let of_pods = round.actions.into_iter();
        let actions: Vec<_> = of_pods
            .filter_map(|(index, action)| Some((pods.get(index)?.clone(), action)))
            .collect();
        if actions.is_empty() {
            return self.end_round(group, again, was_late);
        }
        let (writer, clock) = (self.tools.writer.clone(), self.clock);
        self.rounds.call(group, async move {
            Carried::Made {
                made: make(&writer, clock, actions).await,
                again,
                was_late,
            }
        });
    }

    /// Decides about the pods of an owner. Returns `None` if a pod would be restarted without the
    /// `PodDisruptionBudget`s that cover it: they are read first.
    fn decide(
        &mut self,
        group: &Group,
        budgets: Option<Budgets>,
        now: Moment,
    ) -> Option<(Round, Option<(usize, Report)>)> {
        let mut members = self
            .state
            .members(group, &self.records, &self.settings, now);
        let round = decide(&members, Vec::new());
        let asks = |(_, action): &&(usize, Action)| matches!(action, Action::Ask { .. });
        let Some(&(first, _)) = round.actions.iter().find(asks) else {
            return Some((round, None));
        };
        let waiting: BTreeSet<Labels> = members
            .iter()
            .filter(|member| !member.standing.stale.is_empty())
            .map(|member| member.pod.labels.clone())
            .collect();
        let Some(Budgets { left, of }) = budgets else {
            drop(members);
            self.read_budgets(group, waiting);
            return None;
        };
        match left {
            // While they were read a pod has got other labels, or has come to those that wait: its
            // budgets are unknown.
            Ok(_) if !waiting.is_subset(&of) => {
                drop(members);
                self.end_round(group, Some(now), false);
                None
            }
            Ok(left) => {
                self.tools.health.has_in(Right::ListBudgets, &group.0);
                members
                    .iter_mut()
                    .for_each(|member| member.budgets = left.covering(&member.pod.labels));
                Some((decide(&members, left.budgets), None))
            }
            Err(error) => {
                if let BudgetsUnknown::Budgets(words) = &error {
                    self.tools
                        .health
                        .note_denial(Right::ListBudgets, &group.0, words);
                }
                let fix = match error {
                    BudgetsUnknown::Budgets(_) | BudgetsUnknown::Pods(_) => {
                        "; bind the ClusterRole swaplet-restart-on (deploy/restart.yaml)"
                    }
                    _ => "",
                };
                let note =
                    format!("no container is restarted for changed configuration: {error}{fix}");
                let reason = Reason::RestartOnForbidden;
                let report = Report::new(reason, note);
                Some((without_requests(round), Some((first, report))))
            }
        }
    }

    /// Reads the `PodDisruptionBudget`s that cover pods with any of these labels, beside the loop.
    fn read_budgets(&mut self, group: &Group, of: BTreeSet<Labels>) {
        let restarting = self.state.restarting(&group.0);
        let budgets = DisruptionBudgets {
            client: self.client.clone(),
            namespace: group.0.to_string(),
        };
        self.rounds.call(group, async move {
            let left = {
                let waiting: Vec<_> = of.iter().collect();
                timeout(READ_BUDGETS, budgets.read(&waiting, &restarting)).await
            };
            let left = left.unwrap_or(Err(BudgetsUnknown::Late(READ_BUDGETS)));
            Carried::Read(Budgets { left, of })
        });
    }
}

/// Removes new requests from a round, because it is unknown what the disruption budgets allow.
fn without_requests(mut round: Round) -> Round {
    round
        .actions
        .retain(|(_, action)| matches!(action, Action::Forget { .. }));
    round.held_by = Some("(unknown)".into());
    round
}
