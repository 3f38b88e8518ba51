//! `swaplet-demo demo`: runs a whole cluster in this process, and the real controller in it.

mod cluster;
mod cron;
mod notes;
mod pipeline;
mod timeline;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use self::cluster::Cluster;
use self::timeline::Timeline;
use crate::mock_node::ProfileName;
use anyhow::{Context, bail, ensure};
use clap::Args;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event as PodEvent, Pod};
use kube::api::ListParams;
use kube::{Api, Client};
use prometheus_client::registry::Registry;
use serde_json::Value;
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::frame::clock::Clock;
use swaplet_controller::frame::metrics::Metrics;
use swaplet_controller::frame::serve::Health;
use swaplet_controller::frame::watch::age::WatchAges;
use swaplet_controller::frame::watch::{Event, watch};
use swaplet_controller::restart::driver::RestartSettings;
use swaplet_controller::run::{Settings, TimeOfDay, run};
use swaplet_controller::warm::jobs::WarmSettings;
use swaplet_core::check::around::Described;
use swaplet_core::cluster::exit_images::{ExitImages, Public};
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::image::exit_paths::standard_paths;
use swaplet_core::image::path_set::PathSet;
use swaplet_core::image::reference::ImageReference;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::values::env::WHEN_JOB_EXIT;
use swaplet_core::restart::reconcile::ParkImage;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_core::terminate::openkruise::Coexist;
use swaplet_core::warm::pull_job::sandbox::SandboxKeys;
use swaplet_edge::address::here;
use swaplet_edge::duration::duration;
use swaplet_edge::exit::{FAILED, code};
use swaplet_edge::manifests::{Manifests, is_kustomization, shown};
use swaplet_edge::print;
use swaplet_edge::signals::stopped;
use swaplet_edge::table::{aligned, dash};
use swaplet_testbed::ApiServer;
use tokio::net::TcpListener;
use tokio::time::timeout;

const EXAMPLES: &str = "\
Examples:
  # See three Jobs end whose sidecars would run forever
  swaplet-demo demo

  # The same on virtual nodes that ignore image changes, or fail on them: one pod finds out, and
  # all end all the same
  swaplet-demo demo --profile inert
  swaplet-demo demo --profile rejects

  # Your own Jobs or pods; the words run=, exit=, term= in a container's args set its behaviour
  # (swaplet-demo mock-node --help)
  swaplet-demo demo -f job.yaml

  # Look around with kubectl
  swaplet-demo demo --serve";

/// Show the main job in a cluster inside this process
///
/// Nothing is installed, nothing is contacted. The API server, the Job controller and the node are
/// stand-ins; the controller is the one that `swaplet run --restart --warm` runs, so with --serve
/// ContainerRecreateRequests and ImagePullJobs are handled too. Of a CronJob one Job runs, at once;
/// namespaces of the files are created; objects of kinds that the stand-in does not have are left
/// out, and so is what directs pods to other nodes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DemoArgs {
    /// Your own Jobs and pods instead of the pipeline of the demo; - is standard input
    #[arg(short, long, value_name = "FILE")]
    filename: Vec<PathBuf>,
    /// How the node reacts to a changed image
    #[arg(long, value_enum, default_value_t = ProfileName::Kubelet)]
    profile: ProfileName,
    /// Serve the API at this loopback address and stay until Ctrl-C [default address: a free port]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:0", value_parser = here)]
    serve: Option<std::net::SocketAddr>,
    /// How long to wait for the Jobs and pods to end
    #[arg(long, value_name = "DURATION", default_value = "3m", value_parser = duration)]
    timeout: Duration,
}

impl DemoArgs {
    /// Runs the demo.
    ///
    /// # Errors
    /// Unreadable files, objects that the API server refuses, or an address that cannot be served.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let objects = read_all(&self.filename)?.unwrap_or_else(pipeline::jobs);
        let stopped = stopped()?;
        tokio::pin!(stopped);
        let cluster = Cluster::start(self.profile.default_options()).await?;
        let served = match self.serve {
            Some(address) => Some(Served::start(&cluster.server, address).await?),
            None => None,
        };
        let (results, story) = tokio::select! {
            played = cluster.play(&objects, self.timeout) => played?,
            code = &mut stopped => return Ok(ExitCode::from(code)),
        };
        print(&results.table())?;
        if let Some(served) = served {
            tokio::select! {
                ended = served.stay(story) => ended?,
                _ = &mut stopped => (),
            }
        }
        Ok(code(results.all_completed(), FAILED))
    }
}

/// Reads the objects of files, and says what is left out because kustomize or helm makes objects of
/// it.
fn read_all(files: &[PathBuf]) -> anyhow::Result<Option<Vec<Value>>> {
    if files.is_empty() {
        return Ok(None);
    }
    let read = Manifests::read(files);
    if let Some(problem) = read.problems.into_iter().next() {
        return Err(problem);
    }
    let mut notes = read.notes;
    let mut objects = Vec::new();
    for document in read.documents {
        let file = &document.file;
        let beside = is_kustomization(file)
            .then(|| Path::new(file).parent())
            .flatten();
        if let Some(folder) = document.patch_in.as_deref().or(beside) {
            notes.push(format!(
                "{file}: `kubectl kustomize {} | swaplet-demo demo -f -` runs what kustomize makes of it",
                shown(folder)
            ));
            continue;
        }
        let is_whole = |field: &str| document.object[field].is_string();
        ensure!(
            is_whole("apiVersion") && is_whole("kind"),
            "{file}: an object has no apiVersion or kind"
        );
        for described in Described::all(&document.object) {
            let mut containers = described.template.spec.containers.iter();
            if let Some(part) = containers.find(|each| each.image.is_empty()) {
                bail!(
                    "{file}: container {} has no image: is it a patch? `kubectl kustomize FOLDER | swaplet-demo demo -f -` runs what kustomize makes of it",
                    part.name
                );
            }
        }
        objects.push(document.object);
    }
    if objects.is_empty() {
        bail!(
            notes
                .into_iter()
                .next()
                .unwrap_or("the files hold no objects".to_owned())
        );
    }
    for note in notes {
        print(&format!("        left out: {note}\n"))?;
    }
    Ok(Some(objects))
}

/// The API on a loopback port, with a kubeconfig file for it.
struct Served {
    kubeconfig: PathBuf,
    server: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Served {
    async fn start(server: &ApiServer, address: std::net::SocketAddr) -> anyhow::Result<Self> {
        ensure!(
            address.ip().is_loopback(),
            "--serve {address}: the API of the demo has no authentication; use a loopback address"
        );
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("--serve {address}"))?;
        let address = listener.local_addr()?;
        let kubeconfig =
            std::env::temp_dir().join(format!("swaplet-demo-{}.kubeconfig", address.port()));
        write_new(&kubeconfig, &ApiServer::kubeconfig(address))?;
        let server = server.clone();
        let server = tokio::spawn(async move { server.serve(listener).await });
        print(&format!("export KUBECONFIG={}\n", kubeconfig.display()))?;
        Ok(Self { kubeconfig, server })
    }

    /// Prints what happens, forever.
    async fn stay(mut self, mut story: Story) -> anyhow::Result<()> {
        say!(
            "\nThe cluster stays until Ctrl-C, and what your own Jobs do is printed here. In another terminal:\n  export KUBECONFIG={}",
            self.kubeconfig.display()
        );
        tokio::select! {
            result = &mut self.server => Ok(result??),
            result = story.go_on() => result,
        }
    }
}

impl Drop for Served {
    /// Removes the kubeconfig file, however the demo ends.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.kubeconfig);
    }
}

/// Writes a new file. The directory for temporary files belongs to everybody, so a link that
/// somebody left at this name is not followed.
fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    let _ = std::fs::remove_file(path);
    let file = std::fs::File::create_new(path);
    let mut file = file.with_context(|| path.display().to_string())?;
    Ok(std::io::Write::write_all(&mut file, text.as_bytes())?)
}

// Prints what happens in the cluster as it is observed.

/// A printer of what happens in the cluster.
struct Story {
    clock: Clock,
    timeline: Timeline,
    pods: tokio::sync::mpsc::Receiver<Event<Pod>>,
    jobs: tokio::sync::mpsc::Receiver<Event<Job>>,
    events: tokio::sync::mpsc::Receiver<Event<PodEvent>>,
}

impl Story {
    /// Starts the watches. `inert` means that the node does not react to changed images.
    fn begin(client: Client, inert: bool) -> Self {
        let (all, ages) = (ListParams::default(), WatchAges::default());
        Self {
            clock: Clock::start(),
            timeline: Timeline::of(inert),
            pods: watch(Api::all(client.clone()), all.clone(), &ages),
            jobs: watch(Api::all(client.clone()), all.clone(), &ages),
            events: watch(Api::all(client), all, &ages),
        }
    }

    /// Prints what happens until `ending` Jobs and pods without a Job have ended, or the deadline
    /// has passed; where only `doubtful` of them are left, of which nothing marks a sidecar, until
    /// nothing happens for a while.
    async fn follow(
        &mut self,
        ending: usize,
        doubtful: usize,
        deadline: Duration,
    ) -> anyhow::Result<()> {
        let reached = timeout(deadline, async {
            while self.timeline.ended() < ending {
                let is_doubtful = self.timeline.ended() + doubtful >= ending;
                let patience = if is_doubtful { QUIET } else { deadline };
                match timeout(patience, self.next()).await {
                    Ok(next) => next?,
                    Err(_) => return self.give_up(patience),
                }
            }
            // The last report, the end of the sidecar, comes just after the end of the Job.
            while timeout(LAST_WORDS, self.next()).await.is_ok() {}
            anyhow::Ok(())
        });
        match reached.await {
            Ok(result) => result,
            Err(_) => self.give_up(deadline),
        }
    }

    fn give_up(&self, deadline: Duration) -> anyhow::Result<()> {
        let mut text = format!(
            "        not all ended in {} s; giving up\n",
            deadline.as_secs()
        );
        for waiting in self.timeline.waiting() {
            text += &format!("        {waiting}\n");
        }
        print(&text)
    }

    /// Prints what happens until this is dropped.
    async fn go_on(&mut self) -> anyhow::Result<()> {
        loop {
            self.next().await?;
        }
    }

    async fn next(&mut self) -> anyhow::Result<()> {
        let lines = tokio::select! {
            Some(Event::Listed(pod) | Event::Applied(pod)) = self.pods.recv() => self.timeline.pod(self.clock.now(), pod),
            Some(Event::Listed(job) | Event::Applied(job)) = self.jobs.recv() => self.timeline.job(self.clock.now(), &job),
            Some(Event::Listed(event) | Event::Applied(event)) = self.events.recv() => {
                self.timeline.event(self.clock.now(), &event)
            }
            else => Vec::new(),
        };
        lines
            .iter()
            .try_for_each(|line| print(&format!("{line}\n")))
    }
}

/// How long nothing happens where the sidecars run on that nothing marks.
const QUIET: Duration = Duration::from_secs(20);
/// The time in which the last Event of a pod must arrive.
const LAST_WORDS: Duration = Duration::from_millis(400);

// The real controller, as the demo runs it.

/// The image that ends sidecars.
const EXIT_IMAGE: &str = "registry.example/swaplet/exit:v1";
const PARK_IMAGE: &str = "registry.example/swaplet/park:v1";
/// The namespace of the warmer pods.
const WARM_NAMESPACE: &str = "default";
/// The deadline of one pull of an image, the default of `swaplet run`.
const LONGEST_TRY: Duration = Duration::from_secs(1800);

/// Runs the controller of `swaplet run --restart --warm --sidecar-policies`, with its default
/// settings. No admission policies are required, because the demo's API server has none.
async fn controller(client: Client, instance: &str) {
    let Some(settings) = settings(instance) else {
        return;
    };
    let metrics = Metrics::register(&mut Registry::default());
    let _ = run(
        client,
        settings,
        metrics,
        Health::default(),
        std::future::pending(),
    )
    .await;
}

fn settings(instance: &str) -> Option<Settings> {
    let exit_image = ImageReference::parse(EXIT_IMAGE).ok()?;
    let rules = Rules {
        exit_images: ExitImages::new(Some(exit_image), Vec::new()).said_public(Public::Yes),
        allowed: AllowedMethods {
            finish: true,
            ..AllowedMethods::default()
        },
        node_table: NodeTable::built_in(),
        coexist: Coexist::Own,
    };
    Some(Settings {
        restart: Some(restart()?),
        warm: Some(warm()),
        sidecar_policies: true,
        ..Settings::new(rules, instance.to_owned())
    })
}

fn restart() -> Option<RestartSettings> {
    let paths = standard_paths().iter().map(|entry| entry.path);
    let image = ImageReference::parse(PARK_IMAGE).ok()?;
    Some(RestartSettings {
        time_of_day: TimeOfDay::default(),
        on_config: None,
        readiness_gates: false,
        park: Some(ParkImage::new(image, PathSet::new(paths).ok()?)),
        leash: None,
    })
}

fn warm() -> WarmSettings {
    WarmSettings {
        namespace: WARM_NAMESPACE.into(),
        park_image: PARK_IMAGE.into(),
        exit_image: None,
        startup_taint_timeout: None,
        startup_taint_namespaces: BTreeSet::new(),
        longest_try: LONGEST_TRY,
        coexist: Coexist::Own,
        image_caches: None,
        sandbox_keys: SandboxKeys::default(),
        time_of_day: TimeOfDay::default(),
    }
}

// The results of the Jobs and pods of the demo, as a table.

/// One row: a pod and its result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The Job; empty for a pod without one.
    pub job: String,
    /// The last observed phase of the pod.
    pub phase: String,
    /// The names of its sidecars.
    pub sidecars: Vec<String>,
    /// When all its main containers were observed ended.
    pub mains_ended: Option<Moment>,
    /// When it was observed finished.
    pub finished: Option<Moment>,
    /// The number of patches of it that were applied.
    pub patches: usize,
}

/// All rows, and the state of each Job.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// The rows, by the pod's namespace and name.
    pub pods: BTreeMap<String, Row>,
    /// The state of each Job, by its namespace and name.
    pub jobs: BTreeMap<String, String>,
}

impl Results {
    /// Returns true if every Job is complete and every pod without a Job has succeeded.
    pub fn all_completed(&self) -> bool {
        let jobs = self.jobs.values().all(|state| state == COMPLETE);
        let pods = self
            .pods
            .values()
            .filter(|row| row.job.is_empty())
            .all(|row| row.phase == "Succeeded");
        jobs && pods && !(self.jobs.is_empty() && self.pods.is_empty())
    }

    /// Formats the table, in the style of kubectl.
    pub fn table(&self) -> String {
        let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
        rows.extend(self.pods.iter().map(|(name, row)| self.row(name, row)));
        format!("\n{}{}", aligned(&rows), self.hint())
    }

    /// Returns what to do where swaplet had nothing to do; else empty.
    fn hint(&self) -> String {
        let unmarked = self.pods.values().all(|row| row.sidecars.is_empty());
        if self.pods.is_empty() || !unmarked {
            return String::new();
        }
        format!(
            "\nNo container is marked as a sidecar, so swaplet had nothing to do. Mark each sidecar by a variable:\n  \
             env: [{{name: {WHEN_JOB_EXIT}, value: \"true\"}}]\n"
        )
    }

    fn row(&self, name: &str, row: &Row) -> Vec<String> {
        let status = self.jobs.get(&row.job).cloned().unwrap_or_default();
        let after = match (row.mains_ended, row.finished) {
            (Some(mains), Some(pod)) => format!("{:.1}s", pod.since(mains).as_secs_f64()),
            _ => "-".to_owned(),
        };
        let (sidecars, patches) = (row.sidecars.join(","), row.patches.to_string());
        let cells: [&str; COLUMNS.len()] = [
            &row.job, &status, name, &row.phase, &sidecars, &after, &patches,
        ];
        cells.map(dash).to_vec()
    }
}

/// The columns of the table.
const COLUMNS: [&str; 7] = [
    "JOB",
    "STATUS",
    "POD",
    "PHASE",
    "SIDECARS",
    "AFTER MAIN",
    "PATCHES",
];

/// The state of a Job that has completed.
const COMPLETE: &str = "Complete";
/// The state of a Job that has not ended.
pub const RUNNING: &str = "Running";

/// Returns the state of a Job in one word.
pub fn job_state(job: &Job) -> String {
    let mut conditions = job
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let ended = conditions.find(|found| {
        found.status == "True" && matches!(found.type_.as_str(), COMPLETE | "Failed")
    });
    ended.map_or_else(|| RUNNING.to_owned(), |condition| condition.type_.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(state: &str, phase: &str) -> Results {
        let row = Row {
            job: "extract".to_owned(),
            phase: phase.to_owned(),
            ..Row::default()
        };
        Results {
            pods: [("extract-1".to_owned(), row)].into(),
            jobs: [("extract".to_owned(), state.to_owned())].into(),
        }
    }

    #[test]
    fn only_complete_jobs_are_a_success() {
        assert!(results("Complete", "Succeeded").all_completed());
        assert!(!results("Running", "Running").all_completed());
        assert!(!Results::default().all_completed());
    }

    #[test]
    fn who_has_marked_nothing_is_told_how() {
        let mut results = results("Complete", "Succeeded");
        assert!(
            results
                .table()
                .contains("KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT")
        );
        for row in results.pods.values_mut() {
            row.sidecars.push("log".to_owned());
        }
        assert!(!results.table().contains("marked"));
    }

    #[test]
    fn cells_are_aligned_and_never_empty() {
        let table = results("Running", "Running").table();
        assert_eq!(
            table.lines().nth(2),
            Some("extract   Running   extract-1   Running   -          -            0")
        );
    }
}
