//! The loop of the controller: takes events in, decides, and starts writes.

mod controller;

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, Client};
use swaplet_core::objects::job::JobWire;
use swaplet_core::objects::node::NodeWire;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::hot_upgrade::sidecar_set::UpgradeImages;
use tokio::sync::mpsc;
use tokio::sync::watch::{self, channel};
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use self::controller::Controller;
use crate::cluster::openkruise::{self, Scope, observe};
use crate::cluster::rules::{Beside, Common, Rules};
use crate::frame::clock::Clock;
pub use crate::frame::clock::TimeOfDay;
use crate::frame::connection::Namespaces;
use crate::frame::connection::discovery::Discovery;
use crate::frame::isolated::{Defects, TaskDied, isolated_task};
use crate::frame::lease::{Leadership, LeaseKeeper};
use crate::frame::metrics::Metrics;
use crate::frame::serve::Health;
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::many::{Unlisted, watch_all_kept};
use crate::frame::watch::{Event, heard, watch};
use crate::frame::writer::Tools;
use crate::frame::writer::leash::Gate;
use crate::protect;
use crate::restart::driver::RestartSettings;
use crate::restart::{hot_upgrade, on_config, readiness_gate};
use crate::terminate::JOB_PODS;
use crate::terminate::derive::Push;
use crate::terminate::policies::observe::PolicyWatches;
use crate::terminate::public::AskPublic;
use crate::terminate::selection::Selection;
use crate::warm::jobs::{self, WarmSettings};
use crate::warm::predownload::{self, OwnJobs};

/// The default for the most writes of pods in flight at once. With 16 and with 64 an API server on two
/// processors answers as many in a second (`bench/RESULTS.md`); one that is far away needs more.
pub const CONCURRENCY: u16 = 32;
/// The default deadline of one write, in seconds.
pub const WRITE_SECONDS: u16 = 10;

/// Runs the controller until `shutdown` completes, then waits for the writes in flight. `client`
/// must not retry by itself.
///
/// # Errors
/// Returns [`TaskDied`] if a background task has ended: only a new process can continue.
pub async fn run(
    client: Client,
    settings: Settings,
    metrics: Metrics,
    health: Health,
    shutdown: impl Future<Output = ()>,
) -> Result<(), TaskDied> {
    let discovery = Discovery::new(client.clone());
    let watch_ages = metrics.watch_ages.clone();
    health.watches(&watch_ages);
    let gate = Gate::of(discovery.client(), settings.leash(), &health);
    let mut controller = Controller::new(&discovery, &settings, &gate, metrics, health);
    let (stop, stopping) = channel(false);
    let mut beside = controller.start_beside(&discovery, &settings, &gate, &stopping);
    drop(stopping);
    if let Some(namespace) = &settings.state_namespace {
        controller.restore_verdicts(client.clone(), namespace).await;
    }
    controller.select(settings.selection.clone());
    tokio::pin!(shutdown);
    let (client, is_on) = (discovery.client().clone(), settings.sidecar_policies);
    let mut policies = PolicyWatches::begin(client, &settings.namespaces, &watch_ages, is_on);
    tokio::select! {
        () = &mut shutdown => { controller.end(&stop, settings.write_deadline).await; return Ok(()); }
        () = controller.first_policies(&mut policies) => {}
    }
    let mut watches = Watches::begin(&discovery, &settings, &watch_ages);
    tokio::select! {
        () = &mut shutdown => { controller.end(&stop, settings.write_deadline).await; return Ok(()); }
        () = controller.first_answers() => {}
    }
    let mut heartbeat = controller.health.heartbeat("pods");
    loop {
        heartbeat.beat();
        if controller.go_on_with_policies(&discovery, &settings) {
            watches.pods = pods(&discovery, &settings, &watch_ages);
        }
        controller.go_on_with_restarts();
        controller.start_writes();
        controller.report_progress();
        let due = controller.clock.instant(controller.next_look());
        tokio::select! {
            () = &mut shutdown => break,
            event = heard(&mut watches.pods, "pods") => controller.observe(event?),
            event = heard(&mut watches.nodes, "nodes") => controller.observe_node(event?),
            news = heard(&mut watches.openkruise, "OpenKruise") => controller.handle(news?),
            event = heard(&mut watches.jobs, "Jobs") => controller.see_job(event?),
            news = policies.next() => controller.see_policies(news?, &mut policies),
            Some(reported) = controller.reports.join_next() => controller.policies_reported(reported),
            Some((write, outcome, concerns_all)) = controller.writes.next() => controller.finish(write, &outcome, concerns_all),
            Some(ended) = beside.join_next() => return Err(ended.unwrap_or_else(|error| TaskDied(error.to_string()))),
            happened = controller.restarts.next() => controller.see_restart(happened?),
            Some((namespace, paths, pushed)) = controller.deriver.next() => controller.derived(&namespace, &paths, pushed),
            Some(kept) = controller.found.recv() => controller.verdicts_found(kept),
            Some((image, public)) = controller.questions.next() => controller.answered(&image, public),
            () = sleep_until(due) => controller.index.wake(controller.clock.now()),
            () = heartbeat.due() => {}
        }
    }
    controller.end(&stop, settings.write_deadline).await;
    Ok(())
}

// The controller of several processes: it runs in the leader, and the others stand by.

/// [Runs](run) the controller whenever this process leads, until `shutdown` completes; then gives
/// the Lease up. Each run starts without memory: all of it is derived from the pods.
///
/// # Errors
/// Returns [`TaskDied`] if a background task has ended: only a new process can continue.
pub async fn run_while_leading(
    client: Client,
    settings: &Settings,
    metrics: Metrics,
    health: Health,
    keeper: LeaseKeeper,
    shutdown: impl Future<Output = ()>,
) -> Result<(), TaskDied> {
    let mut leadership = keeper.leadership();
    let mut stopping = false;
    tokio::pin!(shutdown);
    while !stopping {
        tokio::select! {
            () = &mut shutdown => break,
            won = leadership.won() => if !won {
                return Err(TaskDied::of("the keeper of the Lease"));
            },
        }
        tracing::info!("this process leads");
        metrics.leads.set(1);
        let end = async {
            tokio::select! {
                () = &mut shutdown => stopping = true,
                () = leadership.lost() => tracing::warn!("this process no longer leads; it stands by"),
            }
        };
        let settings = Settings {
            leadership: keeper.leadership(),
            ..settings.clone()
        };
        run(
            client.clone(),
            settings,
            metrics.clone(),
            health.clone(),
            end,
        )
        .await?;
        metrics.leads.set(0);
    }
    keeper.release().await;
    Ok(())
}

// The settings of a controller.

/// The most writes in flight of each loop beside that of pods.
const BESIDE: usize = 16;

/// The settings of the controller: where it works, what it does and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespaces that it works in.
    pub namespaces: Namespaces,
    /// The rules of the installation.
    pub rules: Rules,
    /// The most writes of pods in flight at once.
    pub concurrency: usize,
    /// The deadline of one write.
    pub write_deadline: Duration,
    /// The name of this process in Events.
    pub instance: String,
    /// The way to push derived exit images; `None` if none are derived.
    pub push: Option<Push>,
    /// The way to ask whether exit images can be pulled without credentials; `None` if nobody is
    /// asked.
    pub ask_public: Option<AskPublic>,
    /// Set if containers are restarted as `ContainerRecreateRequest`s require.
    pub restart: Option<RestartSettings>,
    /// Set if images are pulled for `ImagePullJob`s and `ImageListPullJob`s.
    pub warm: Option<WarmSettings>,
    /// True if images of workloads that ask for it are pre-downloaded.
    pub predownload: bool,
    /// Set if sidecars are hot-upgraded as SidecarSets require, and with which images.
    pub hot_upgrade: Option<UpgradeImages>,
    /// True if the objects in protected Namespaces and CRDs are counted.
    pub protect: bool,
    /// True if SidecarPolicies decide which containers are sidecars.
    pub sidecar_policies: bool,
    /// The time of day until the API server has reported its own.
    pub time_of_day: TimeOfDay,
    /// The leadership without which this process does not write.
    pub leadership: Leadership,
    /// The namespace of the ConfigMap that keeps node verdicts; `None` if they are not kept.
    pub state_namespace: Option<String>,
    /// The pods to handle; every pod if `None`.
    pub selection: Option<Selection>,
}

impl Settings {
    /// Returns the settings of a controller that only ends sidecars, in all namespaces.
    pub fn new(rules: Rules, instance: String) -> Self {
        Self {
            namespaces: Namespaces::default(),
            rules,
            concurrency: CONCURRENCY.into(),
            write_deadline: Duration::from_secs(WRITE_SECONDS.into()),
            instance,
            push: None,
            ask_public: None,
            restart: None,
            warm: None,
            predownload: false,
            hot_upgrade: None,
            protect: false,
            sidecar_policies: false,
            time_of_day: TimeOfDay::default(),
            leadership: Leadership::undisputed(),
            state_namespace: None,
            selection: None,
        }
    }

    /// Returns the settings that every loop is started with.
    pub(crate) fn common(&self) -> Common {
        Common {
            namespaces: self.namespaces.clone(),
            rules: self.rules.clone(),
            concurrency: self.concurrency.clamp(1, BESIDE),
        }
    }

    /// Returns the name of the admission policy without which nothing is restarted, if any is.
    pub(crate) fn leash(&self) -> Option<&str> {
        self.restart.as_ref()?.leash.as_deref()
    }
}

// The tasks beside the loop of pods: each is a task of its own, because neither needs to know of
// the other.

impl Controller {
    /// Starts the tasks that `settings` enable. A task that ends has died, and all end when the set
    /// is dropped; the next run takes up what they had begun.
    fn start_beside(
        &self,
        discovery: &Discovery,
        settings: &Settings,
        gate: &Gate,
        stopping: &watch::Receiver<bool>,
    ) -> JoinSet<TaskDied> {
        let beside = Beside {
            discovery: discovery.clone(),
            common: settings.common(),
            tools: Tools {
                writer: self.writer.clone(),
                reporter: self.reporter.clone(),
                metrics: self.metrics.clone(),
                health: self.health.clone(),
            },
        };
        let mut tasks = JoinSet::new();
        let (own, _) = watch::channel(OwnJobs::default());
        if let Some(warm) = settings.warm.clone() {
            let (derived, own) = (self.derived.clone(), own.clone());
            beside.start(&mut tasks, "pulling images", None, move |beside| {
                let (mut derived, mut own) = (derived.subscribe(), own.subscribe());
                // Other tasks may have requested images before this one subscribed.
                derived.mark_changed();
                own.mark_changed();
                jobs::driver::run(beside, warm.clone(), derived, own)
            });
        }
        if settings.predownload {
            let own = settings.warm.is_some().then_some(own);
            beside.start(&mut tasks, "pre-download", None, move |beside| {
                predownload::run(beside, own.clone())
            });
        }
        if settings.protect {
            let stopping = stopping.clone();
            let name = "the counting of protected objects";
            beside.start(&mut tasks, name, None, move |beside| {
                protect::run(beside, stopping.clone())
            });
        }
        if let Some(images) = settings.hot_upgrade.clone() {
            let state_namespace = settings.state_namespace.clone();
            beside.start(&mut tasks, "hot upgrades", None, move |beside| {
                hot_upgrade::run(beside, images.clone(), state_namespace.clone())
            });
        }
        if let Some(restart) = settings.restart.clone() {
            beside.start_restarts(&mut tasks, restart, gate);
        }
        tasks
    }
}

impl Beside {
    /// Starts the tasks that restart containers, or let pods be Ready, once the gate is open.
    fn start_restarts(&self, tasks: &mut JoinSet<TaskDied>, restart: RestartSettings, gate: &Gate) {
        if let Some(on_config) = restart.on_config.clone() {
            let name = "restarts for changed configuration";
            self.start(tasks, name, Some(gate), move |beside| {
                on_config::run(beside, on_config.clone())
            });
        }
        if restart.readiness_gates {
            let name = "the first readiness of pods";
            self.start(tasks, name, Some(gate), move |beside| {
                readiness_gate::run(beside, restart.clone())
            });
        }
    }

    /// Starts a task, once the gate is open, if it has one.
    fn start<T: Future<Output = Result<Infallible, TaskDied>> + Send + 'static>(
        &self,
        tasks: &mut JoinSet<TaskDied>,
        task: &'static str,
        gate: Option<&Gate>,
        mut begin: impl FnMut(Self) -> T + Send + 'static,
    ) {
        let (beside, gate) = (self.clone(), gate.cloned());
        tasks.spawn(async move {
            if let Some(mut gate) = gate {
                gate.opens().await;
            }
            let metrics = beside.tools.metrics.clone();
            anew(task, metrics, || begin(beside.clone())).await
        });
    }
}

/// Runs a task, and starts it again after a pause when it panics: such a defect must not end the
/// work on pods. Returns when the task ends without a panic: then it cannot continue.
async fn anew<T: Future<Output = Result<Infallible, TaskDied>>>(
    task: &str,
    metrics: Metrics,
    mut begin: impl FnMut() -> T,
) -> TaskDied {
    let (clock, mut defects) = (Clock::start(), Defects::default());
    loop {
        let defect = match isolated_task(task, begin()).await {
            Ok(Err(died)) => return died,
            Err(defect) => defect,
        };
        metrics.decisions_failed(1);
        let again = defects.meet((), clock.now());
        let reason = Reason::DecisionFailed.as_str();
        let pause = again.since(clock.now()).as_secs();
        tracing::error!(
            reason,
            defect,
            "a defect in swaplet has stopped {task}; it restarts in {pause} s; please report it"
        );
        sleep_until(clock.instant(again)).await;
    }
}

/// The watches of the loop.
struct Watches {
    pub pods: mpsc::Receiver<Event<PodWire>>,
    pub jobs: mpsc::Receiver<Event<JobWire>>,
    pub nodes: mpsc::Receiver<Event<NodeWire>>,
    pub openkruise: mpsc::Receiver<openkruise::News>,
}

impl Watches {
    fn begin(discovery: &Discovery, settings: &Settings, ages: &WatchAges) -> Self {
        let (client, namespaces) = (discovery.client(), &settings.namespaces);
        let scope = Scope::of(
            namespaces.clone(),
            &settings.rules,
            settings.restart.is_some(),
        );
        Self {
            pods: pods(discovery, settings, ages),
            jobs: watch_all_kept(
                namespaces.apis(client),
                &ListParams::default(),
                ages,
                Unlisted::AreHidden,
                JobWire::clone,
            ),
            nodes: watch(Api::all(client.clone()), ListParams::default(), ages),
            openkruise: observe(discovery.clone(), scope),
        }
    }
}

fn pods(
    discovery: &Discovery,
    settings: &Settings,
    ages: &WatchAges,
) -> mpsc::Receiver<Event<PodWire>> {
    watch_all_kept(
        settings.namespaces.apis(discovery.client()),
        &ListParams::default().fields(JOB_PODS),
        ages,
        Unlisted::AreHiddenFor(settings.write_deadline),
        PodWire::without_containers,
    )
}

#[cfg(test)]
mod tests;
