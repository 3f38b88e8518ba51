//! Handles writes that the API server forbids, or does not apply for long.

use std::sync::Arc;
use std::time::Duration;

use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::Container;
use swaplet_core::objects::pod::annotations::SIDECARS;
use swaplet_core::objects::pod::rule::SidecarRule;
use swaplet_core::objects::values::bounds::{MESSAGE, cut};
use swaplet_core::report::decision::{Action, Method, Report};
use swaplet_core::report::denial::{By, Denial};
use swaplet_core::report::reason::Reason;

use super::{Entry, RETRY};
use crate::frame::writer::is_unreached;
use crate::terminate::index::effect::{Effect, Write, notice};

/// The longest backoff after denials.
const LAST_DENIED_RETRY: Duration = Duration::from_secs(15 * 60);
/// How long writes to a pod may fail, one after another, until the next method is tried: a webhook
/// that is down concerns one kind of write.
const PATIENCE: Duration = Duration::from_secs(60);
/// After how long without a failure the next one is the first again.
const FORGOTTEN: Duration = Duration::from_secs(180);

impl Entry {
    /// Records a denial. A swap that is denied repeatedly gives way to the next method, which needs
    /// another right: the first time at once, later after a minute, so that a pod that does not
    /// change gets one write a minute. All other writes of the pod back off.
    pub(crate) fn denied(&mut self, write: Write, words: &str, now: Moment) -> Vec<Effect> {
        let method = write.action.method();
        let denial = Denial::of(words);
        let what_to_do = self.what_to_do(&denial, &write.action);
        let attempt = attempt(&write.action, &denial);
        // A long message leaves room for what to do.
        let words = cut(
            words,
            MESSAGE.saturating_sub(attempt.len() + what_to_do.len() + 64),
        );
        let note = format!("the API server forbids to {attempt}: {words}{what_to_do}");
        // Who does not answer may be back at any moment; who says no hardly changes it.
        let longest = match is_unreached(&words) {
            true => RETRY.longest,
            false => LAST_DENIED_RETRY,
        };
        let until = self
            .memory
            .denied
            .remember(method, note.as_str().into(), now, longest);
        let denials = self.memory.denied.of(method);
        if !denials.are_lasting() || !matches!(write.action, Action::Swap(_)) {
            self.memory.not_before = Some(until);
        } else if !denials.are_news() {
            self.memory.not_before = Some(now + RETRY.longest);
        }
        // Reported once per method: a denial of one says nothing about the others.
        if !denials.are_news() {
            return Vec::new();
        }
        self.memory.first_time(Reason::WriteDenied);
        notice(
            write.target,
            Some(Report {
                reason: Reason::WriteDenied,
                note,
            }),
        )
        .into_iter()
        .collect()
    }

    /// Records a write that was not applied, or of which that is not known. Where that goes on, a
    /// swap gives way to the next method, and they take turns, one a minute.
    pub(crate) fn failed(
        &mut self,
        write: Write,
        error: &str,
        retry_after: Option<Duration>,
        now: Moment,
    ) -> Vec<Effect> {
        let failing = self.memory.failing.take();
        let failing = failing.filter(|(_, last)| now.since(*last) < FORGOTTEN);
        let (since, _) = failing.unwrap_or((now, now));
        self.memory.failing = Some((since, now));
        let are_lasting = self.memory.denied.are_lasting();
        let at_least = are_lasting.then_some(RETRY.longest).max(retry_after);
        self.back_off(now, RETRY, at_least);
        if now < since + PATIENCE {
            self.keep_unconfirmed(write);
            return Vec::new();
        }
        let method = write.action.method();
        let is_news = !self.memory.denied.of(method).are_lasting();
        let note = format!(
            "the API server has not done for {} s what it was asked, to {}: {error}",
            now.since(since).as_secs(),
            attempt(&write.action, &Denial::of(""))
        );
        // Longer than the pod waits, so that the next method has a turn before this one again.
        let until = now + RETRY.longest * 2;
        self.memory
            .denied
            .failed(method, note.as_str().into(), until);
        if is_news && method == Method::Swap {
            self.memory.not_before = retry_after.map(|wait| now + wait);
        }
        let target = write.target.clone();
        self.keep_unconfirmed(write);
        let report = Report {
            reason: Reason::WriteDenied,
            note,
        };
        let is_told = !self.memory.first_time(report.reason);
        notice(target, Some(report).filter(|_| !is_told))
            .into_iter()
            .collect()
    }

    /// Returns what somebody can change, in parentheses; empty where the words say it.
    fn what_to_do(&self, denial: &Denial<'_>, action: &Action) -> String {
        let advice = match (&denial.by, action) {
            (By::Rights, Action::Finish(_)) => {
                Some("grant patch of pods/status, or start with --finish=never".to_owned())
            }
            (By::Rights, _) => None,
            (By::Other(_), _) => denial.advice(action),
            (By::Leash | By::Unknown, _) => self.opt_in(action, denial),
        };
        advice.map_or_else(String::new, |advice| format!(" ({advice})"))
    }

    /// Returns how to open containers that only a policy makes sidecars, or leaves to run: for the
    /// admission policy they are main containers otherwise. Where its message names some of them,
    /// only these. `None` where there are none.
    fn opt_in(&self, action: &Action, denial: &Denial<'_>) -> Option<String> {
        let by_policy = |container: &Container| {
            let has_policy = |rule: &Arc<SidecarRule>| rule.policy().is_some();
            !container.mark.is_sidecar()
                && container.end().is_none()
                && container.rule.as_ref().is_some_and(has_policy)
        };
        let all = self.pod.containers.iter().enumerate();
        let all = all.filter(|(_, container)| by_policy(container));
        let all: Vec<_> = all.map(|(at, container)| (at, &*container.name)).collect();
        if all.is_empty() || matches!(action, Action::Recreate(_)) {
            return None;
        }
        let names = denial.those(&all);
        let waiting = match action {
            Action::Swap(swaps) if swaps.len() > names.len() => {
                "; until then the other sidecars of the pod are not swapped either"
            }
            Action::Finish(_) => "; until then no sidecar of the pod is ended",
            _ => "",
        };
        let names = names.join(",");
        Some(format!(
            "where the admission policies of swaplet deny it: name {names} in the value sidecarPolicies.containers of the chart, or in the annotation {SIDECARS} of the namespace{waiting}"
        ))
    }
}

/// Describes the attempt, in words that follow "to"; of changes of images those that are denied.
fn attempt(action: &Action, denial: &Denial<'_>) -> String {
    let verb = action.verb();
    match action {
        Action::Swap(_) => format!("{verb} {}", denial.containers(action).join(", ")),
        Action::Finish(_) => format!("{verb} of the pod"),
        Action::Recreate(containers) => format!("{verb} {}", containers.join(", ")),
    }
}
