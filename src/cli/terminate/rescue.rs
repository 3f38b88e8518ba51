//! `swaplet rescue`: ends the stuck Job pods of a cluster once, without an installation.

mod beside;
mod given;
mod rows;
mod seen;
mod typed;

use std::process::ExitCode;
use std::time::Duration;

use crate::cli::image::RegistryArgs;
use crate::cli::program::log::{LogFormat, start_log};
use crate::cli::program::process::{instance, stopped};
use crate::cli::program::rights::lacking;
use crate::cli::program::table::{self, Output, counted, note, render};
use crate::cli::rules::{AskedRules, NO_EXIT_IMAGE, PoliciesArgs, learn_public};
use crate::cli::status::installation::{Found, Naming, Purpose};
use crate::cli::terminate::explain::target::Target;
use anyhow::{Context, anyhow, bail, ensure};
use clap::Args;
use given::GivenArgs;
use jiff::Timestamp;
use kube::Client;
use prometheus_client::registry::Registry;
use rows::Stuck;
use seen::{Pods, Seen};
use serde_json::json;
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::frame::metrics::Metrics;
use swaplet_controller::frame::remarks::Remarks;
use swaplet_controller::frame::serve::Health;
use swaplet_controller::frame::writer::report::Notice;
use swaplet_controller::run::{Settings, WRITE_SECONDS, run};
use swaplet_controller::terminate::selection::{Progress, Selection};
use swaplet_controller::terminate::snapshot::policies::Given;
use swaplet_controller::terminate::snapshot::{Scope, Snapshot};
use swaplet_core::objects::pod::{Phase, roles};
use swaplet_core::report::decision::Report;
use swaplet_core::report::reason::Reason;
use swaplet_edge::client::{ClusterArgs, named_or_own};
use swaplet_edge::duration::seconds;
use swaplet_edge::exit::{CANNOT, FAILED, INTERRUPTED, code};
use swaplet_edge::{in_one_line, print};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};
use typed::Typed;

const EXAMPLES: &str = "\
Examples:
  # What is stuck in the whole cluster, since when, and what would be done; nothing is written
  swaplet rescue --dry-run -A

  # End the stuck pods of a namespace; only those of a Job, or of an application
  swaplet exit-image push registry.example/swaplet/exit:v1
  swaplet rescue -n batch --exit-image registry.example/swaplet/exit:v1
  swaplet rescue job/report -n batch --exit-image registry.example/swaplet/exit:v1
  swaplet rescue -l app=report -n batch --exit-image registry.example/swaplet/exit:v1

  # Where swaplet is installed: with its flags
  swaplet rescue -n batch

  # Without any exit image: by writing the phase of the pods
  swaplet rescue -n batch --prefer=finish

  # Pods whose sidecars nobody has marked: they are listed with the flags that end them
  swaplet rescue -n batch --prefer=finish --preset fluent-bit --sidecar my-agent

A pod is stuck if its main containers are done and a sidecar has not ended: a container with \
KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT=true or KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE, \
one that the annotation swaplet.io/sidecars of the pod names, or with --sidecar-policies, or \
where the installation has that, one that a SidecarPolicy names, when it is due; or one that \
--sidecar, --preset or --policy names. Pods that wait for containers that nothing marks are listed \
with what seems to be a sidecar, and left alone: only you know whether it is one. Those that are \
stuck now are listed first; then the controller of `swaplet run` runs here, restricted to exactly \
these, until all have ended, until only those are left that need a manual fix, or until the \
timeout. Pods that become stuck meanwhile are left alone: call it again, or run the controller.

Your own rights are enough: list, watch and patch pods, patch pods/status (not with \
--finish=never), list and watch jobs.batch (for pods of Jobs under OnFailure), list and watch \
sidecarpolicies and namespacedsidecarpolicies (with --sidecar-policies). Without list and watch of \
nodes each counts as unknown, and without create of events no Event is left on the pods. Ctrl-C \
stops after the writes that are under way; nothing is left behind, and the next call continues.

Where swaplet is installed, its flags are used: those of the Deployment with the label \
app.kubernetes.io/name=swaplet whose account may change the pods. That is checked by a \
SubjectAccessReview; without the right to create one, name the namespace with --state-namespace. \
Flags that you pass take precedence. Its controller ends these pods by itself, and `swaplet \
explain` says what it waits for. Both together never change the wrong pod, because every write is \
guarded; but neither knows what the other one is about to swap, so for Jobs under OnFailure let \
only one of them work at a time. With another exit image than that of a controller which holds its \
Lease, or whose Lease you may not read, nothing is done without --force.

Exit codes: 0 all have ended, or --dry-run has listed (pods that wait for containers that nothing \
marks count as left only where they are named); 1 some are left, each with its reason, or \
have ended Failed although their main containers succeeded; 2 wrong usage, the pods cannot be \
read, none of those that are named is stuck, or a controller with another exit image holds its \
Lease or may hold it; 130 interrupted before all had ended.";

/// End the Job pods that are stuck now, once, without installing anything
///
/// Lists the pods whose main containers are done and whose sidecars still run, and ends them by the
/// same decisions as `swaplet run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RescueArgs {
    // Before the others, which take out of the matches what they read.
    #[command(flatten)]
    typed: Typed,
    /// Only these pods, as NAME or pod/NAME, and those of these Jobs and CronJobs, as job/NAME and
    /// cronjob/NAME [default: all that are stuck]
    #[arg(value_name = "NAME", value_parser = Target::read, conflicts_with = "all_namespaces")]
    targets: Vec<Target>,
    /// Only pods that this label selector matches
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "targets")]
    selector: Option<String>,
    /// Work even next to a controller that has another exit image, and on pods whose images it has
    /// changed already
    #[arg(long)]
    force: bool,
    /// Only list the stuck pods and what would be done
    #[arg(long)]
    dry_run: bool,
    /// Only pods of this namespace [default: that of the context]
    #[arg(short, long)]
    namespace: Option<String>,
    /// Pods of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// When to give up on pods that have not ended
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = seconds(1..=u32::MAX))]
    timeout: u32,
    /// The namespace of the ConfigMap swaplet-node-verdicts, which is only read [default: that of the
    /// installation; where none is found, what was proved on nodes does not count]
    #[arg(long, value_name = "NAMESPACE", env = "SWAPLET_STATE_NAMESPACE")]
    state_namespace: Option<String>,
    /// How to print the pods
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    registry: RegistryArgs,
    #[command(flatten)]
    rules: AskedRules,
    #[command(flatten)]
    policies: PoliciesArgs,
    #[command(flatten)]
    given: GivenArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl RescueArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        if std::env::var_os("RUST_LOG").is_some() {
            start_log(LogFormat::Text);
        }
        let mut remarks = Remarks::default();
        self.rescue(&mut remarks).await.or_else(|error| {
            tell(&mut remarks);
            say!("error: {}", in_one_line(&error));
            Ok(ExitCode::from(CANNOT))
        })
    }

    /// The remarks that are left are for the caller to print.
    async fn rescue(mut self, remarks: &mut Remarks) -> anyhow::Result<ExitCode> {
        let client = self.cluster.client().await?;
        let namespace =
            (!self.all_namespaces).then(|| named_or_own(&client, self.namespace.as_deref()));
        let (rules, lacks_image, found) =
            self.rules(&client, namespace.as_deref(), remarks).await?;
        let scope = Scope {
            namespace,
            state_namespace: found.state_namespace(self.state_namespace.as_deref()),
        };
        let namespace = scope.namespace.as_deref();
        Target::read_jobs(&mut self.targets, &client, namespace).await?;
        let (given, unread) = self.given.read(&client, namespace).await?;
        remarks.extend(&unread);
        let mut policies = self.policies.read(&found, &client, namespace, &rules).await;
        remarks.extend(policies.remarks());
        given::is_new(&given, &policies)?;
        policies.give(&given);
        let pods = Pods {
            scope: &scope,
            targets: &self.targets,
            selector: self.selector.as_deref(),
            given: &self.given,
            typed: &self.typed,
        };
        let seen = pods.read(&client, &rules, &mut policies, remarks).await?;
        given::without_effect(&given, &seen.snapshot).for_each(|words| remarks.push(words));
        let writes = seen.stuck.iter().filter_map(Stuck::write);
        let unmarked = seen.unmarked.namespaces();
        let lacking = lacking(&client, writes, unmarked, rules.allowed.finish).await;
        lacking.into_iter().for_each(|words| remarks.push(words));
        if !(lacks_image || seen.stuck.is_empty()) {
            let asked = (&found, namespace, &rules);
            self.objections(&client, asked, &seen, remarks).await?;
        }
        tell(remarks);
        if self.dry_run || seen.stuck.is_empty() || lacks_image {
            return self.lists(&seen, lacks_image);
        }
        let settings = Settings {
            namespaces: scope.namespace.into_iter().collect(),
            ask_public: Some(self.registry.hosts.ask_public()),
            push: self.registry.clone().push(&rules),
            sidecar_policies: policies.are_on(),
            ..Settings::new(rules, instance())
        };
        self.end(client, settings, given, seen).await
    }

    /// Prints what was seen, where nothing is to be written.
    fn lists(&self, seen: &Seen, lacks_image: bool) -> anyhow::Result<ExitCode> {
        print(&rows::listed(seen, self.output)?)?;
        ensure!(seen.stuck.is_empty() || !lacks_image, NO_EXIT_IMAGE);
        Ok(code(self.dry_run || !self.leaves_some(seen), FAILED))
    }

    /// Returns true if something that was named waits for containers that nothing marks.
    fn leaves_some(&self, seen: &Seen) -> bool {
        !self.targets.is_empty() && !seen.unmarked.pods.is_empty()
    }

    /// Returns the rules in effect, with remarks on where they come from; and true if nothing may be
    /// written by them, because an exit image is only assumed.
    async fn rules(
        &self,
        client: &Client,
        namespace: Option<&str>,
        remarks: &mut Remarks,
    ) -> anyhow::Result<(Rules, bool, Found)> {
        let purpose = if self.dry_run {
            Purpose::Tell
        } else {
            Purpose::Write
        };
        let named = self.state_namespace.as_deref();
        let naming = Naming::Namespace(named);
        let found = Found::find(client, naming, namespace, purpose).await?;
        let (mut rules, sources) = self.rules.with(&found)?;
        remarks.extend(&sources);
        let idleness = found.idleness(namespace);
        let lacks_image = !self.dry_run && rules.needs_exit_image();
        let assumed = rules.assume()?.filter(|_| self.dry_run);
        let mut rules = rules.rules()?;
        let unclear = learn_public(&mut rules.exit_images, &self.registry.hosts.ask_public()).await;
        let lines = idleness.into_iter().chain(assumed).chain(unclear);
        lines.for_each(|words| remarks.push(words));
        Ok((rules, lacks_image, found))
    }

    /// Fails where a controller would undo what is written; a dry run remarks it, and what is left
    /// alone.
    async fn objections(
        &self,
        client: &Client,
        (found, namespace, rules): (&Found, Option<&str>, &Rules),
        seen: &Seen,
        remarks: &mut Remarks,
    ) -> anyhow::Result<()> {
        let refusal = match self.force || found.idleness(namespace).is_some() {
            true => None,
            false => beside::refusal(client, found, rules).await,
        };
        match refusal {
            Some(refusal) if !self.dry_run => bail!("{refusal}"),
            Some(refusal) => remarks.push(refusal),
            None => {}
        }
        if self.dry_run {
            let (_, left) = self.leave_to_others(seen.stuck.clone(), &seen.snapshot);
            left.into_iter().for_each(|words| remarks.push(words));
        }
        Ok(())
    }

    /// Returns the pods to write, and what is said of the others.
    fn leave_to_others(&self, stuck: Vec<Stuck>, snapshot: &Snapshot) -> (Vec<Stuck>, Vec<String>) {
        match self.force {
            true => (stuck, Vec::new()),
            false => beside::leave_to_others(stuck, snapshot),
        }
    }

    async fn end(
        &self,
        client: Client,
        settings: Settings,
        given: Given,
        seen: Seen,
    ) -> anyhow::Result<ExitCode> {
        let leaves_some = self.leaves_some(&seen);
        let snapshot = seen.snapshot;
        let (stuck, left) = self.leave_to_others(seen.stuck, &snapshot);
        left.iter().for_each(|words| note(words));
        let (progress, news) = mpsc::unbounded_channel();
        let selection = Selection {
            pods: stuck.iter().map(|stuck| stuck.pod.uid.clone()).collect(),
            kept: snapshot.kept().clone(),
            given,
            progress,
        };
        let settings = Settings {
            selection: Some(selection),
            ..settings
        };
        let patience = Duration::from_secs(self.timeout.into());
        let rescue = work(client, settings, Rescue::new(stuck, news), patience).await?;
        print(&rescue.table(self.output, snapshot.taken_at())?)?;
        let are_well = rescue.pods.iter().all(Row::is_well);
        Ok(ExitCode::from(
            match are_well && left.is_empty() && !leaves_some {
                true => 0,
                false if rescue.is_interrupted => INTERRUPTED,
                false => FAILED,
            },
        ))
    }
}

/// Prints the remarks, once.
fn tell(remarks: &mut Remarks) {
    let lines = std::mem::take(remarks).lines();
    lines.iter().for_each(|words| note(words));
}

/// Runs the controller until no pod can be expected to end any more.
async fn work(
    client: Client,
    settings: Settings,
    mut rescue: Rescue,
    patience: Duration,
) -> anyhow::Result<Rescue> {
    let (stop, ended) = oneshot::channel::<()>();
    let metrics = Metrics::register(&mut Registry::default());
    let mut controller = tokio::spawn(run(client, settings, metrics, Health::default(), async {
        // Dropped or sent: either ends the wait.
        let _ = ended.await;
    }));
    let (start, interrupted) = (Instant::now(), stopped()?);
    tokio::pin!(interrupted);
    let timeout = sleep(patience);
    tokio::pin!(timeout);
    while rescue.pods.iter().any(Row::hopes) {
        tokio::select! {
            () = rescue.next() => {}
            () = &mut timeout => {
                say!("giving up after {} s", patience.as_secs());
                break;
            }
            () = &mut interrupted => {
                say!("stopping: waiting for pending writes, {WRITE_SECONDS} s at most");
                rescue.is_interrupted = true;
                break;
            }
            died = &mut controller => return Err(died?.err().map_or_else(|| anyhow!("the controller has stopped"), Into::into)),
        }
    }
    drop(stop);
    controller.await?.context("while stopping")?;
    rescue.rest();
    say!(
        "{} of {} ended in {} s",
        rescue.ended(),
        counted(rescue.pods.len(), "pod"),
        start.elapsed().as_secs()
    );
    Ok(rescue)
}

// The progress of the stuck pods, as the controller reports it.

struct Rescue {
    pods: Vec<Row>,
    news: mpsc::UnboundedReceiver<Progress>,
    /// True if somebody has ended it early.
    is_interrupted: bool,
}

struct Row {
    stuck: Stuck,
    reason: Option<Reason>,
    reported: Vec<Report>,
    over: Option<Phase>,
}

impl Rescue {
    fn new(stuck: Vec<Stuck>, news: mpsc::UnboundedReceiver<Progress>) -> Self {
        let row = |stuck| Row {
            stuck,
            reason: None,
            reported: Vec::new(),
            over: None,
        };
        Self {
            pods: stuck.into_iter().map(row).collect(),
            news,
            is_interrupted: false,
        }
    }

    fn ended(&self) -> usize {
        self.pods.iter().filter(|row| row.over.is_some()).count()
    }

    /// Waits for an event, and prints it.
    async fn next(&mut self) {
        match self.news.recv().await {
            Some(news) => self.take(news),
            // Others observe the end of the controller.
            None => std::future::pending().await,
        }
    }

    /// Handles the events that were sent until the controller stopped.
    fn rest(&mut self) {
        while let Ok(news) = self.news.try_recv() {
            self.take(news);
        }
    }

    fn take(&mut self, news: Progress) {
        match news {
            Progress::Decided { uid, reason } => self
                .pods
                .iter_mut()
                .filter(|row| row.stuck.pod.uid == uid)
                .for_each(|row| row.reason = Some(reason)),
            Progress::Reported(Notice { target, report }) => {
                let concerned = self.pods.iter_mut().filter(|row| row.is_about(&target.uid));
                concerned.for_each(|row| row.reported.push(report.clone()));
                table::report(&format!(
                    "{}/{}: {}: {}",
                    target.namespace, target.name, report.reason, report.note
                ));
            }
            Progress::Over { uid, phase } => {
                let Some(row) = self.pods.iter_mut().find(|row| row.stuck.pod.uid == uid) else {
                    return;
                };
                // It only does not interest the controller any more: a policy that marked it is gone.
                if row.reason == Some(Reason::NoSidecar) && !phase.is_terminal() {
                    return;
                }
                row.over = Some(phase);
                let (pod, result) = (&row.stuck.pod, row.result());
                let name = format!("{}/{}", pod.namespace, pod.name);
                let all = self.pods.len();
                let left = all - self.ended();
                table::report(&format!("{name}: {result}; {left} of {all} left"));
            }
        }
    }

    fn table(&self, output: Output, now: Timestamp) -> anyhow::Result<String> {
        let (mut lines, mut values) = (Vec::new(), Vec::new());
        for row in &self.pods {
            let result = [
                ("RESULT", row.result().to_owned()),
                ("DETAILS", row.details().to_owned()),
            ];
            lines.push(row.stuck.line(now, result));
            let mut value = row.stuck.value();
            value["ended"] = row.over.is_some().into();
            value["result"] = json!({"reason": row.result(), "details": row.details()});
            values.push(value);
        }
        render(output, &lines, &json!({ "pods": values }))
    }
}

impl Row {
    fn is_about(&self, uid: &str) -> bool {
        let pod = &self.stuck.pod;
        *pod.uid == *uid || pod.job.as_ref().is_some_and(|job| *job.uid == *uid)
    }

    /// Returns true while it may still end without intervention.
    fn hopes(&self) -> bool {
        let reported = |reason| self.reported.iter().any(|report| report.reason == reason);
        // A Job that cannot be found is waited for until that is reported.
        let is_unknown = self.reason == Some(Reason::JobUnknown) && reported(Reason::JobUnknown);
        self.over.is_none()
            && !is_unknown
            && self.reason != Some(Reason::NoSidecar)
            && !self.reason.is_some_and(Reason::needs_a_hand)
    }

    /// Returns true if it has ended like its main containers.
    fn is_well(&self) -> bool {
        let failed = [
            Reason::PodFailedAfterSwap,
            Reason::PodFailedAfterFinish,
            Reason::PodFailedAfterRecreate,
        ];
        let is_lost = self.over == Some(Phase::Failed) && roles::mains_succeeded(&self.stuck.pod);
        let has_failed = |report: &Report| failed.contains(&report.reason);
        self.over.is_some() && !is_lost && !self.reported.iter().any(has_failed)
    }

    /// Returns the phase of a pod that has ended, else the reason why it has not.
    fn result(&self) -> &'static str {
        match (self.over, self.last_trouble(), self.reason) {
            (Some(phase), ..) if phase.is_terminal() => phase.as_str(),
            (Some(_), ..) => "Deleted",
            (None, Some(report), _) => report.reason.as_str(),
            (None, None, Some(reason)) => reason.as_str(),
            (None, None, None) => "NotSeen",
        }
    }

    fn details(&self) -> &str {
        let (report, else_words) = match (self.over, self.reason) {
            (Some(_), _) => (self.reported.last(), "It has ended by itself."),
            (None, Some(reason)) => (self.last_trouble(), reason.sentence()),
            (None, None) => (
                self.last_trouble(),
                "The controller has not observed the pod.",
            ),
        };
        report.map_or(else_words, |report| &report.note)
    }

    /// Returns the last report, if it is about what keeps the pod from ending now.
    fn last_trouble(&self) -> Option<&Report> {
        let is_now = |report: &&Report| {
            Some(report.reason) == self.reason || report.reason == Reason::WriteDenied
        };
        self.reported.iter().rev().find(is_now)
    }
}
