//! The pods of one owner, whose containers are restarted one pod after another.
//!
//! The next pod is restarted when the one before is Ready again, by the rules of
//! [`rollout`](crate::restart::rollout), including its `PodDisruptionBudget`s. A pod whose restart
//! has failed stops the round, until its objects change again, its request is deleted, or it is
//! gone.

use super::{Asked, Contents, Progress, Standing, containers_of, sources_of};
use crate::objects::recreate_request::KIND;
use crate::report::decision::Report;
use crate::report::reason::Reason;
use crate::restart::on_config::annotation::{RESTART_ON, ReferenceKind, Source};
use crate::restart::on_config::pod::ConfiguredPod;
use crate::restart::request::request_name;
use crate::restart::rollout::{self, Budget, Hold, Situation, Stage, next, place};

/// One pod of the owner.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    /// The pod of this member.
    pub pod: &'a ConfiguredPod,
    /// The comparison of the pod with its objects.
    pub standing: Standing,
    /// The requests for the pod, the oldest first.
    pub requests: Vec<&'a Asked>,
    /// The positions of the budgets that cover the pod.
    pub budgets: Vec<usize>,
}

/// The writes and reports for the pods of one owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// The writes to make, in this order, by position of the member.
    pub actions: Vec<(usize, Action)>,
    /// The conditions of members, by position, each to be reported once.
    pub reports: Vec<(usize, Report)>,
    /// The `PodDisruptionBudget` that the round waits for, if any.
    pub held_by: Option<Box<str>>,
}

/// A write to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Create a request to restart containers of the pod.
    Ask {
        /// The name of the request.
        name: String,
        /// The contents that the containers are restarted for.
        target: Contents,
        /// The report about the pod once the request is created.
        done: Report,
    },
    /// Delete a completed request, which another one of the pod has replaced.
    Forget {
        /// The name of the request to delete.
        name: Box<str>,
        /// The uid of the request to delete.
        uid: Box<str>,
    },
}

/// Decides about the pods of one owner, whose records have been stored.
pub fn decide(members: &[Member<'_>], budgets: Vec<Budget>) -> Round {
    let mut round = Round::default();
    let mut has_failed = false;
    for (index, member) in members.iter().enumerate() {
        let failure = member.failure();
        has_failed |= failure.is_some();
        round
            .actions
            .extend(member.superseded().map(|request| (index, forget(request))));
        round
            .actions
            .extend(member.unanswered().map(|ask| (index, ask)));
        round.reports.extend(
            failure
                .into_iter()
                .chain(member.problems())
                .map(|report| (index, report)),
        );
    }
    if !has_failed {
        round.begin(members, budgets);
    }
    round
}

impl Round {
    fn begin(&mut self, members: &[Member<'_>], budgets: Vec<Budget>) {
        let mut order: Vec<usize> = (0..members.len()).collect();
        order.sort_by_key(|index| {
            members
                .get(*index)
                .map(|member| place(&member.pod.name, true))
        });
        let ordered: Vec<&Member<'_>> = order
            .iter()
            .filter_map(|index| members.get(*index))
            .collect();
        let situation = Situation {
            members: ordered.iter().map(|member| member.in_rollout()).collect(),
            desired: members.len(),
            max_unavailable: 1,
            budgets,
        };
        let step = next(&situation);
        for position in step.start {
            if let (Some(index), Some(member)) = (order.get(position), ordered.get(position)) {
                self.actions.push((*index, member.ask()));
            }
        }
        self.held_by = step.held.into_iter().find_map(|(_, hold)| match hold {
            Hold::Budget(name) => Some(name),
            Hold::AtOnce(_) | Hold::Unavailable { .. } => None,
        });
    }
}

impl Member<'_> {
    fn in_rollout(&self) -> rollout::Member {
        let stage = if self
            .requests
            .iter()
            .any(|request| request.progress == Progress::Open)
        {
            Stage::Restarting
        } else if self.standing.stale.is_empty() {
            Stage::Over
        } else {
            Stage::Waiting
        };
        rollout::Member {
            name: self.pod.name.clone(),
            stage,
            ready: self.pod.ready,
            budgets: self.budgets.clone(),
        }
    }

    /// Returns the completed requests except the last one. The last one is kept: as long as its
    /// name is taken, a creation that was sent long ago and arrives late changes nothing.
    fn superseded(&self) -> impl Iterator<Item = &Asked> {
        let earlier = self
            .requests
            .split_last()
            .map(|(_, earlier)| earlier)
            .unwrap_or_default();
        earlier
            .iter()
            .copied()
            .filter(|request| request.progress != Progress::Open)
    }

    /// Returns why the round has stopped at this pod: its last restart has failed, for contents
    /// that are still current. Else `None`.
    fn failure(&self) -> Option<Report> {
        let request = self.requests.last()?;
        let Progress::Failed(why) = &request.progress else {
            return None;
        };
        let is_there = |container, source, content| {
            self.standing
                .current
                .get(container)
                .and_then(|contents: &std::collections::BTreeMap<_, _>| contents.get(source))
                == Some(content)
        };
        let is_current = request.target.iter().all(|(container, contents)| {
            contents
                .iter()
                .all(|(source, content)| is_there(container, source, content))
        });
        is_current.then(|| Report {
            reason: Reason::RestartOnStopped,
            note: format!(
                "restarting {} for {} has failed: {why}. No further pod of the same owner is restarted for it; to try again: \
                 kubectl delete crr -n {} {}, or change the object",
                containers_of(&request.target),
                sources_of(&request.target),
                self.pod.namespace,
                request.name,
            ),
        })
    }

    /// Reports problems of the annotation: it is invalid, or a source is denied.
    fn problems(&self) -> impl Iterator<Item = Report> {
        let invalid = self.pod.wish.as_ref().err().map(|problem| {
            Report::new(
                Reason::RestartOnInvalid,
                format!("annotation {RESTART_ON}: {problem}. The annotation is ignored"),
            )
        });
        let role = |source: &Source| match source {
            Source::Object(reference) if reference.kind == ReferenceKind::SecretMetadata => {
                "swaplet-restart-on-secrets"
            }
            Source::Object(_) | Source::PodMetadata => "swaplet-restart-on",
        };
        let forbidden = self.standing.forbidden.iter().map(move |source| Report {
            reason: Reason::RestartOnForbidden,
            note: format!(
                "annotation {RESTART_ON}: {source} may not be watched, so nothing is restarted when it changes: bind the ClusterRole {} \
                 (deploy/restart.yaml)",
                role(source)
            ),
        });
        invalid.into_iter().chain(forbidden)
    }

    /// Creates again a request of which it is unknown whether it was created; else `None`.
    fn unanswered(&self) -> Option<Action> {
        let request = self
            .requests
            .iter()
            .find(|request| request.uid.is_empty())?;
        Some(ask_for(request.name.to_string(), request.target.clone()))
    }

    fn ask(&self) -> Action {
        let target = self.standing.stale.clone();
        let name = request_name(
            &self.pod.name,
            "restart-on",
            &format!("{} {}", self.pod.uid, super::as_text(&target)),
        );
        // An object has an earlier content again: the restart for that proves nothing about now.
        match self.requests.iter().find(|request| *request.name == *name) {
            Some(before) => forget(before),
            None => ask_for(name, target),
        }
    }
}

fn ask_for(name: String, target: Contents) -> Action {
    let note = format!(
        "{} has changed: restarting {} ({KIND} {name})",
        sources_of(&target),
        containers_of(&target)
    );
    Action::Ask {
        name,
        target,
        done: Report::new(Reason::RestartOnChanged, note),
    }
}

fn forget(request: &Asked) -> Action {
    Action::Forget {
        name: request.name.clone(),
        uid: request.uid.clone(),
    }
}
