//! `swaplet-demo demo`: runs a whole cluster in this process, and the real controller in it.

mod cluster;
mod controller;
mod cron;
mod notes;
mod pipeline;
mod results;
mod story;
mod timeline;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::Args;
use serde_json::Value;
use swaplet_core::check::around::Described;
use swaplet_edge::address::here;
use swaplet_edge::duration::duration;
use swaplet_edge::manifests::{Manifests, is_kustomization, shown};
use swaplet_edge::print;
use swaplet_testbed::ApiServer;
use tokio::net::TcpListener;

use self::cluster::Cluster;
use self::story::Story;
use crate::mock_node::ProfileName;
use crate::signals::stopped;

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
        let Self {
            filename,
            profile,
            serve,
            timeout,
        } = self;
        let objects = read_all(&filename)?.unwrap_or_else(pipeline::jobs);
        let stopped = stopped();
        tokio::pin!(stopped);
        let cluster = Cluster::start(profile.default_options()).await?;
        let served = match serve {
            Some(address) => Some(Served::start(&cluster.server, address).await?),
            None => None,
        };
        let (results, story) = tokio::select! {
            played = cluster.play(&objects, timeout) => played?,
            code = &mut stopped => return Ok(ExitCode::from(code)),
        };
        print(&results.table())?;
        if let Some(served) = served {
            tokio::select! {
                ended = served.stay(story) => ended?,
                _ = &mut stopped => (),
            }
        }
        Ok(if results.all_completed() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// Reads the objects of files, and says what is left out because kustomize or helm makes objects of
/// it.
fn read_all(files: &[PathBuf]) -> anyhow::Result<Option<Vec<Value>>> {
    if files.is_empty() {
        return Ok(None);
    }
    let Manifests {
        documents,
        problems,
        mut notes,
        ..
    } = Manifests::read(files);
    if let Some(problem) = problems.into_iter().next() {
        return Err(problem);
    }
    let mut objects = Vec::new();
    for document in documents {
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
        eprintln!(
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
    let file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path);
    let mut file = file.with_context(|| path.display().to_string())?;
    Ok(std::io::Write::write_all(&mut file, text.as_bytes())?)
}
