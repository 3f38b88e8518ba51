//! Restarts the pods in turns, and follows their progress.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use swaplet_controller::frame::clock::Clock;
use swaplet_controller::restart::on_config::disruption_budgets::{
    BudgetsUnknown, DisruptionBudgets, Left, is_ready,
};
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::values::amount::Amount;
use swaplet_core::restart::rollout::{self, Hold, Situation, Stage, Step, next};
use tokio::time::sleep;

use super::member::{Member, Outcome, State};
use super::way::Heard;
use super::way::Way;
use super::{Group, Seen, results};
use crate::cli::program::table::{Output, pods_wait, report};

/// The interval between two rounds.
const AGAIN: Duration = Duration::from_secs(1);
/// How long the API server may fail before the restart is given up.
const TROUBLE: Duration = Duration::from_secs(120);

/// A restart in progress.
pub(super) struct Roll {
    group: Group,
    /// The disruption budgets; `None` if they are ignored.
    budgets: Option<DisruptionBudgets>,
    way: Way,
    limit: Amount,
    ignores_failures: bool,
    clock: Clock,
    pub(super) members: Vec<Member>,
    /// The last report about waiting pods.
    reported: String,
    /// When the API server started to fail.
    trouble: Option<Moment>,
}

impl Roll {
    pub(super) fn new(
        group: Group,
        budgets: Option<DisruptionBudgets>,
        way: Way,
        limit: Amount,
        ignores_failures: bool,
        members: Vec<Member>,
    ) -> Self {
        Self {
            group,
            budgets,
            way,
            limit,
            ignores_failures,
            clock: Clock::start(),
            members,
            reported: String::new(),
            trouble: None,
        }
    }

    fn all_are(&self, stage: Stage) -> bool {
        self.members.iter().all(|member| member.stage() == stage)
    }

    /// Restarts all pods, and prints the progress. Returns true if it was interrupted.
    ///
    /// # Errors
    /// What prevents the very first step: nothing was begun.
    pub(super) async fn run(&mut self, stopped: impl Future<Output = ()>) -> anyhow::Result<bool> {
        tokio::pin!(stopped);
        loop {
            match self.round().await {
                Err(error) if self.all_are(Stage::Waiting) => return Err(error),
                round => self.note(round).await,
            }
            if self.all_are(Stage::Over) {
                return Ok(false);
            }
            // A round is never cut short: it would be unknown whether a request was made.
            tokio::select! {
                () = sleep(AGAIN) => {}
                () = &mut stopped => {
                    self.stop("it was interrupted").await;
                    return Ok(true);
                }
            }
        }
    }

    /// Returns the plan, checked by the API server and its webhooks.
    pub(super) async fn dry_run(&mut self, output: Output) -> anyhow::Result<String> {
        for member in &self.members {
            let tried = self.way.try_out(member).await;
            tried.with_context(|| format!("pod {} would not be restarted", member.name))?;
        }
        let step = self.choose(&self.group.list_pods().await?).await?;
        let held: BTreeMap<usize, String> = step
            .held
            .into_iter()
            .map(|(index, hold)| (index, hold.to_string()))
            .collect();
        results::show_plan(&self.members, &held, output)
    }

    /// Starts the restart of all pods at once, and does not wait for them.
    pub(super) async fn ask_for_all(&mut self) -> anyhow::Result<()> {
        let step = self.choose(&self.group.list_pods().await?).await?;
        if let Some((index, hold)) = step.held.first() {
            let name = &self.members[*index].name;
            bail!(
                "pod {name} would have to wait for its turn ({hold}), which needs --wait: raise --max-unavailable, or leave --wait=false out"
            );
        }
        for index in step.start {
            if let Err(error) = self.begin_with(index).await {
                self.over(index, Outcome::Failed(format!("{error:#}")));
            }
        }
        Ok(())
    }

    async fn round(&mut self) -> anyhow::Result<()> {
        let mut completed = Vec::new();
        for index in 0..self.members.len() {
            if let State::Restarting(since) = self.members[index].state
                && self.follow(index, since).await?
            {
                completed.push((index, since));
            }
        }
        let seen = self.group.list_pods().await?;
        self.observe(&seen);
        for (index, since) in completed {
            self.judge(index, since);
        }
        self.begin(&seen).await
    }

    /// Starts the restart of the pods whose turn it is.
    async fn begin(&mut self, seen: &Seen) -> anyhow::Result<()> {
        self.leave_out_after_a_failure();
        let step = self.choose(seen).await?;
        self.report_holds(&step);
        for index in step.start {
            if self.members[index].stage() == Stage::Waiting {
                self.begin_with(index).await?;
                self.leave_out_after_a_failure();
            }
        }
        Ok(())
    }

    fn leave_out_after_a_failure(&mut self) {
        let failed = |member: &Member| matches!(member.state, State::Over(Outcome::Failed(_)));
        if !self.ignores_failures && self.members.iter().any(failed) {
            self.leave_out("another pod was not restarted");
        }
    }

    async fn begin_with(&mut self, index: usize) -> anyhow::Result<()> {
        let now = self.clock.now();
        self.members[index].state = State::Restarting(now);
        self.follow(index, now).await.map(drop)
    }

    async fn choose(&self, seen: &Seen) -> anyhow::Result<Step> {
        let stage = |stage| {
            self.members
                .iter()
                .filter(move |member| member.stage() == stage)
        };
        let restarting: BTreeSet<String> = stage(Stage::Restarting)
            .map(|member| member.uid.clone())
            .collect();
        let waiting: Vec<_> = stage(Stage::Waiting)
            .map(|member| member.pod.labels())
            .collect();
        let left = match &self.budgets {
            Some(budgets) => budgets.read(&waiting, &restarting).await.map_err(unknown)?,
            None => Left::default(),
        };
        Ok(next(&self.situation(seen, left)))
    }

    /// Returns the members, followed by the other pods of the group.
    fn situation(&self, seen: &Seen, left: Left) -> Situation {
        let ours = self.members.iter().map(|member| rollout::Member {
            name: member.name.as_str().into(),
            stage: member.stage(),
            ready: member.is_ready(),
            budgets: left.covering(member.pod.labels()),
        });
        let known: BTreeSet<&str> = self
            .members
            .iter()
            .map(|member| member.uid.as_str())
            .collect();
        let others = seen
            .pods
            .iter()
            .filter(|pod| !known.contains(pod.uid().unwrap_or_default().as_str()));
        let others = others.map(|pod| rollout::Member {
            name: pod.name_any().into(),
            stage: Stage::Over,
            ready: is_ready(pod),
            budgets: Vec::new(),
        });
        Situation {
            members: ours.chain(others).collect(),
            desired: seen.desired,
            max_unavailable: rollout::most(self.limit, seen.desired, self.group.target.rounding()),
            budgets: left.budgets,
        }
    }

    fn observe(&mut self, seen: &Seen) {
        let by_uid: BTreeMap<_, _> = seen
            .pods
            .iter()
            .filter_map(|pod| Some((pod.uid()?, pod)))
            .collect();
        for index in 0..self.members.len() {
            let member = &mut self.members[index];
            match by_uid.get(&member.uid) {
                Some(pod) => member
                    .observe(Pod::clone(pod))
                    .iter()
                    .for_each(|line| report(line)),
                None => {
                    member.pod = Pod::default();
                    if member.state == State::Waiting {
                        let named = self.group.target.is_named();
                        self.over(
                            index,
                            if named {
                                Outcome::Failed("it was deleted".to_owned())
                            } else {
                                Outcome::Gone
                            },
                        );
                    }
                }
            }
        }
    }

    /// Continues with a pod; returns true if its request is completed.
    async fn follow(&mut self, index: usize, since: Moment) -> anyhow::Result<bool> {
        let age = self.clock.now().since(since);
        let heard = self.way.follow(&self.members[index], age).await?;
        Ok(self.handle(index, heard))
    }

    /// Prints the news of a pod; returns true if its request is completed.
    fn handle(&mut self, index: usize, heard: Heard) -> bool {
        let member = &mut self.members[index];
        match heard {
            Heard::News(news) => report(&format!("pod/{}: {news}", member.name)),
            Heard::Over(outcome) => self.over(index, outcome),
            Heard::Says(request, news) => {
                member.handle(&request).iter().for_each(|line| report(line));
                news.iter()
                    .for_each(|news| report(&format!("pod/{}: {news}", member.name)));
                return request.is_completed();
            }
        }
        false
    }

    fn judge(&mut self, index: usize, since: Moment) {
        let outcome = self.members[index].judge(self.clock.now().since(since));
        self.over(index, outcome);
    }

    fn over(&mut self, index: usize, outcome: Outcome) {
        let member = &mut self.members[index];
        report(&format!("pod/{}: {outcome}", member.name));
        member.state = State::Over(outcome);
    }

    /// Leaves out the pods that have not been started.
    fn leave_out(&mut self, why: &str) {
        let waiting = self
            .members
            .iter_mut()
            .filter(|member| member.state == State::Waiting);
        waiting.for_each(|member| member.state = State::Over(Outcome::NotStarted(why.to_owned())));
    }

    /// Prints what pods wait for, except for others to be restarted first.
    fn report_holds(&mut self, step: &Step) {
        let reasons: BTreeMap<String, usize> = step
            .held
            .iter()
            .filter(|(_, hold)| !matches!(hold, Hold::AtOnce(_)))
            .fold(BTreeMap::new(), |mut reasons, (_, hold)| {
                *reasons.entry(hold.to_string()).or_default() += 1;
                reasons
            });
        let reported = reasons.keys().cloned().collect::<Vec<_>>().join("; ");
        if reported != self.reported {
            for (reason, pods) in &reasons {
                report(&format!("{}: {reason}", pods_wait(*pods)));
            }
            self.reported = reported;
        }
    }

    /// Tolerates an API server that fails for a short time.
    async fn note(&mut self, round: anyhow::Result<()>) {
        let now = self.clock.now();
        match (round, self.trouble) {
            (Ok(()), None) => {}
            (Ok(()), Some(_)) => {
                report("the API server answers again");
                self.trouble = None;
            }
            (Err(error), None) => {
                report(&format!("{error:#}; trying again"));
                self.trouble = Some(now);
            }
            (Err(_), Some(since)) if now.since(since) < TROUBLE => {}
            (Err(error), Some(_)) => {
                report(&format!("{error:#}; giving up"));
                self.stop("the API server does not answer").await;
            }
        }
    }

    /// Ends without waiting for the pods: withdraws what can be withdrawn, and prints where to find
    /// the others.
    async fn stop(&mut self, why: &str) {
        self.leave_out(why);
        for index in 0..self.members.len() {
            if let State::Restarting(since) = self.members[index].state {
                let heard = self.way.stop(&self.members[index], why).await;
                if self.handle(index, heard) {
                    self.judge(index, since);
                }
            }
        }
    }
}

fn unknown(error: BudgetsUnknown) -> anyhow::Error {
    match error {
        BudgetsUnknown::Budgets(words) => anyhow::Error::msg(words).context(
            "cannot list PodDisruptionBudgets (--ignore-disruption-budgets continues without them)",
        ),
        error => error.into(),
    }
}
