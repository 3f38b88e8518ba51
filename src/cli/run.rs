//! `swaplet run`: runs the controller.

mod args;
pub(super) mod config;
mod removed;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use self::args::ControllerArgs;
pub(super) use self::args::warm_namespace;
use self::config::{Setting, yaml};
use self::removed::variable;
use super::client::ConnectionArgs;
use super::exit::FAILED;
use super::in_one_line;
use super::program::log::{LogFormat, start_log};
use super::program::process::stopped;
use anyhow::{Context as _, bail};
use clap::{Arg, ArgGroup, Args};
use kube::Client;
use prometheus_client::registry::Registry;
use swaplet_controller::frame::lease::{Leadership, LeaseKeeper, Resignation};
use swaplet_controller::frame::metrics::Metrics;
use swaplet_controller::frame::serve::{Health, serve};
use swaplet_controller::run::{Settings, run, run_while_leading};
use swaplet_edge::address::{everywhere, without_ipv6};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long the end of the work may take, besides the deadlines of the tasks and of the writes in
/// flight: with the usual ones, less than a pod has to end.
const BEYOND_WRITES: Duration = Duration::from_secs(5);

const EXAMPLES: &str = "\
Examples:
  # End the sidecars of all Jobs of the cluster of the current context
  swaplet exit-image push registry.example/swaplet/exit:v1
  swaplet run --exit-image registry.example/swaplet/exit:v1

  # Pods may also name any image under registry.example/exit, in the variable
  # KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE
  swaplet run --exit-image registry.example/swaplet/exit:v1 \\
    --exit-images 'registry.example/exit/*'

  # Sidecars may execute anything: exit images for their paths are derived, and pushed with the
  # account of this file
  swaplet run --exit-image registry.example/swaplet/exit:v1 \\
    --derived-repository registry.example/swaplet/derived \\
    --docker-config /etc/swaplet/config.json

  # In two namespaces only: then a RoleBinding in each of them is enough for most rights
  swaplet run --exit-image registry.example/swaplet/exit:v1 -n reports -n billing

  # Two of these: one works, the other takes over within 15 s when it dies, and at once when it
  # is stopped
  swaplet run --exit-image registry.example/swaplet/exit:v1 \\
    --state-namespace swaplet --leader-elect

  # Restart containers on request, and end no sidecars
  swaplet run --terminate=false --restart

  # Restart containers also when a ConfigMap changes that the annotation swaplet.io/restart-on of
  # their pods names, for example app=configmap/app-settings
  swaplet run --terminate=false --restart --restart-on-config --state-namespace swaplet

  # Also pull images for ImagePullJobs and ImageListPullJobs
  swaplet park-image push registry.example/swaplet/park:v1
  swaplet run --exit-image registry.example/swaplet/exit:v1 \\
    --warm --park-image registry.example/swaplet/park:v1

  # And keep the exit image on all nodes that keep images; new nodes that register with the taint
  # swaplet.io/warming lose it when they have it
  swaplet run --exit-image registry.example/swaplet/exit:v1 \\
    --warm --warm-exit-images --warm-startup-taint \\
    --park-image registry.example/swaplet/park:v1

  # From a file of lines such as `exit-image: registry.example/swaplet/exit:v1`; its outcome
  swaplet run --config /etc/swaplet/config.yaml
  swaplet run --config /etc/swaplet/config.yaml --print-config

Every flag but --print-config is also a variable, SWAPLET_ with the flag in capitals, and every \
one but --config is also a key of the file of --config: a flag takes precedence over its variable, \
and that over the file.

A container is a sidecar if its env has KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT=true, or \
KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE, if the annotation swaplet.io/sidecars of its \
pod names it, or by a policy (--sidecar-policies). The account that runs this needs to list, \
watch and patch pods, to patch pods/status (not with --finish=never), to list and watch \
jobs.batch, to create events, and to list and watch nodes (without that, every node counts as \
unknown).

Exit codes: 0 stopped by SIGTERM or Ctrl-C; 1 a background task has died or is stuck; 2 wrong usage, flags that \
exclude each other, or no way to reach a cluster. --print-config gives the same codes, so it checks \
a configuration.";

/// Gives a flag the variable that the help names.
fn with_variable(flag: Arg) -> Arg {
    match flag.get_long() {
        Some(long) if long != "print-config" => {
            let variable = variable(long);
            flag.env(variable)
        }
        _ => flag,
    }
}

/// Ends the sidecars of pods whose main containers are done.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, group(ArgGroup::new("park_users").args(["restart", "warm", "hot_upgrade"]).multiple(true)))]
#[command(mut_args(with_variable))]
pub struct RunArgs {
    /// Take from this YAML file what neither a flag nor a variable says; its keys are the flags,
    /// without the dashes in front; it is read at the start
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print what it would run with, and exit; in the form of --config, with where each comes from
    #[arg(long)]
    print_config: bool,
    /// Work only while this process leads: holds the Lease `swaplet` in --state-namespace; others
    /// stand by. Without it, run one process
    #[arg(long, requires = "state_namespace")]
    leader_elect: bool,
    /// Serve /healthz, /readyz and /metrics here; for example 127.0.0.1:8080, or :8080 for all
    /// addresses of both families [default: nowhere]
    #[arg(long, value_name = "ADDRESS", value_parser = everywhere)]
    listen: Option<SocketAddr>,
    /// The form of the log, on standard error; RUST_LOG sets the level
    #[arg(hide_short_help = true, long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    #[command(flatten)]
    controller: ControllerArgs,
    #[command(flatten)]
    cluster: ConnectionArgs,
    /// Each flag with its value, and where that comes from.
    #[arg(skip)]
    pub(super) origins: Vec<Setting>,
}

impl RunArgs {
    /// Runs until SIGTERM or SIGINT.
    ///
    /// # Errors
    /// Invalid flags, no way to reach a cluster, or a background task that died.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        if self.print_config {
            super::print(&yaml(&self.origins))?;
            self.controller.settings()?;
            return Ok(ExitCode::SUCCESS);
        }
        // First of all: the first process of a container is not ended by a signal that it does not
        // handle, and would stay the leader in a pod that is being deleted.
        let stopped = stopped()?;
        let settings = self.controller.settings()?;
        start_log(self.log_format);
        let lease_client = self.cluster.client().await?;
        let client = self.cluster.client().await?;
        let (metrics, health) = start_serving(self.listen).await?;
        let namespace = settings
            .state_namespace
            .as_ref()
            .filter(|_| self.leader_elect);
        // The Lease has a client of its own, so that it is renewed whatever the loops wait for.
        let keeper = namespace.map(|namespace| {
            LeaseKeeper::start(lease_client, namespace, &settings.instance, health.clone())
        });
        let resignation = keeper.as_ref().map(LeaseKeeper::resignation);
        let patience = 2 * settings.write_deadline + BEYOND_WRITES;
        let (stop, stopping) = oneshot::channel();
        let stopping = async { drop(stopping.await) };
        let work = work(client, settings, metrics, health.clone(), keeper, stopping);
        let ended = supervised(work, &health, resignation, stop, stopped, patience).await;
        if let Err(error) = &ended {
            say!("error: {}", in_one_line(error));
        }
        // Not by returning: the runtime would wait for a task that is stuck, beside the work too.
        std::process::exit(if ended.is_ok() { 0 } else { FAILED.into() });
    }
}

/// Runs until `stopped` completes, or a background task dies. With a keeper of the Lease, only while
/// this process leads.
async fn work(
    client: Client,
    settings: Settings,
    metrics: Metrics,
    health: Health,
    keeper: Option<LeaseKeeper>,
    stopped: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let (terminate, restart) = (settings.selection.is_none(), settings.restart.is_some());
    tracing::info!(version = env!("CARGO_PKG_VERSION"), scope = %settings.namespaces, exit_images = %settings.rules.exit_images, terminate, restart, "watching pods");
    if let Some(keeper) = keeper {
        let namespace = settings.state_namespace.as_deref().unwrap_or_default();
        tracing::info!(
            namespace,
            "standing by until this process holds the Lease swaplet"
        );
        run_while_leading(client, &settings, metrics, health, keeper, stopped).await?;
    } else {
        metrics.leads.set(1);
        let settings = Settings {
            leadership: Leadership::undisputed(),
            ..settings
        };
        run(client, settings, metrics, health, stopped).await?;
    }
    tracing::info!("stopped");
    Ok(())
}

async fn listener(address: SocketAddr) -> std::io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(error) => match without_ipv6(address, &error) {
            Some(address) => TcpListener::bind(address).await,
            None => Err(error),
        },
        bound => bound,
    }
}

async fn start_serving(listen: Option<SocketAddr>) -> anyhow::Result<(Metrics, Health)> {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let health = Health::default();
    if let Some(address) = listen {
        let listener = listener(address)
            .await
            .with_context(|| format!("--listen {address}"))?;
        tracing::info!(address = %listener.local_addr()?, "serving /healthz, /readyz and /metrics");
        tokio::spawn(serve(listener, Arc::new(registry), health.clone()));
    }
    Ok((metrics, health))
}

// Ends the process where its work does not: a loop that is stuck decides nothing any more, hears no
// signal and may hold the Lease, and only another process helps.

/// Runs the work in a task of its own until it ends, and tells it by `stop` when `stopped` completes.
///
/// # Errors
/// Returns the error of the work; the message about its loop that is stuck; or that it has not ended
/// within `patience` after the signal. In these two cases the Lease was given up, and the process has
/// to be exited: the runtime waits for ever for a task that is stuck.
async fn supervised(
    work: impl Future<Output = anyhow::Result<()>> + Send + 'static,
    health: &Health,
    resignation: Option<Resignation>,
    stop: oneshot::Sender<()>,
    stopped: impl Future<Output = ()>,
    patience: Duration,
) -> anyhow::Result<()> {
    let mut working = tokio::spawn(work);
    let stuck = tokio::select! {
        ended = &mut working => return ended.context("the work has died")?,
        stuck = health.stuck() => stuck,
        () = stopped => {
            let _ = stop.send(());
            match timeout(patience, working).await {
                Ok(ended) => return ended.context("the work has died")?,
                Err(_) => format!("the work has not ended {} s after the signal", patience.as_secs()),
            }
        }
    };
    if let Some(resignation) = resignation {
        resignation.resign().await;
    }
    bail!("{stuck}; this process ends, so that another one can work")
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use swaplet_testbed::{ApiServer, Clock};
    use tokio::time::Instant;

    use super::*;

    async fn supervise(
        work: impl Future<Output = anyhow::Result<()>> + Send + 'static,
        stopped: impl Future<Output = ()>,
    ) -> String {
        let (stop, _stopping) = oneshot::channel();
        let patience = Duration::from_secs(20);
        supervised(work, &Health::default(), None, stop, stopped, patience)
            .await
            .map_or_else(|error| error.to_string(), |()| "ended".to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_does_not_hear_the_signal_is_left_after_a_while() {
        let said = supervise(pending(), async {}).await;
        assert!(
            said.starts_with("the work has not ended 20 s after the signal"),
            "{said}"
        );
        let ends_late = async {
            tokio::time::sleep(Duration::from_secs(19)).await;
            Ok(())
        };
        assert_eq!(supervise(ends_late, async {}).await, "ended");
    }

    #[tokio::test]
    async fn health_is_served_to_both_families() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        use tokio::net::TcpStream;

        let listener = listener(everywhere("0").unwrap()).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let registry = Arc::new(Registry::default());
        let serving = tokio::spawn(serve(listener, registry, Health::default()));
        for host in ["127.0.0.1", "::1"] {
            let mut stream = TcpStream::connect((host, port)).await.unwrap();
            let request = "GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 "), "{host}: {answer}");
        }
        serving.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_of_the_work_is_passed_on() {
        let fails = async { bail!("a task has died") };
        assert_eq!(supervise(fails, pending()).await, "a task has died");
    }

    /// Another process leads within seconds, although the work holds the keeper of the Lease.
    #[tokio::test(start_paused = true)]
    async fn u135_a_loop_that_stands_still_gives_the_lease_up_and_ends_the_work() {
        let server = ApiServer::new(Clock::default());
        let health = Health::default();
        let start = |instance, health| {
            LeaseKeeper::start(server.client_as(instance), "default", instance, health)
        };
        let keeper = start("first", health.clone());
        let mut leadership = keeper.leadership();
        assert!(leadership.won().await);
        let next = start("next", Health::default());
        let resignation = keeper.resignation();
        let heartbeat = health.heartbeat("pods");
        let work = async move {
            let _held = (keeper, heartbeat);
            pending::<anyhow::Result<()>>().await
        };
        let (stop, _stopping) = oneshot::channel();
        let patience = Duration::from_secs(20);
        let began = Instant::now();
        let ended = supervised(work, &health, Some(resignation), stop, pending(), patience);
        let said = ended.await.unwrap_err().to_string();
        assert!(
            said.starts_with("the loop of pods has been stuck for 12")
                && said.ends_with("this process ends, so that another one can work"),
            "{said}"
        );
        assert!(began.elapsed() < Duration::from_secs(130));
        let lease = server.peek("leases.coordination.k8s.io", "default", "swaplet");
        assert_eq!(lease.unwrap()["spec"]["holderIdentity"], "");
        let mut leadership = next.leadership();
        let leads = timeout(Duration::from_secs(5), leadership.won());
        assert_eq!(leads.await, Ok(true));
    }
}
