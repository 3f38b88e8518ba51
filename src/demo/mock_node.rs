//! `swaplet-demo mock-node`: a virtual node that runs nothing, for a real API server.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use clap::{Args, ValueEnum};
use swaplet_controller::frame::clock::time_of_day;
use swaplet_controller::frame::list::words;
use swaplet_core::image::ImagePattern;
use swaplet_core::objects::values::go_duration::duration;
use swaplet_edge::client::{ClusterArgs, plain};
use swaplet_edge::print;
use swaplet_testbed::Clock;
use swaplet_testbed::virtual_node::{
    Gap, ImageOptions, KubeletOptions, KubeletVersion, NodeOptions, OnUpdate, Profile,
    ProviderOptions, Refused, StatusMode, Taint, VirtualNode,
};

use swaplet_edge::signals::stopped;

const AFTER_HELP: &str = "\
The behaviour of a container is set in its args (or in its command, if it has no args):
  run=2s         it ends by itself after this time; run=forever (or no such word): when it is
                 stopped
  exit=3         with this exit code; exit=1,1,0 gives one per start
  term=0         its exit code after SIGTERM [143]; term=ignore: only SIGKILL ends it
  term-after=1s  how long it takes to end after SIGTERM
A container without any of these words does what is likely. `sleep 5` as the whole command takes \
five seconds. A sidecar (marked by its env, or native) and a container that always restarts run \
until they are stopped, whatever sleeps in their loops; so does a main container with \
`while true` or `tail -f`. Any other ends well after two seconds, or after what it sleeps. Images \
of a repository named `exit` end at once (on a kubelet only if they have the container's command: \
see `swaplet exit-image list`), those of one named `park` stay until SIGTERM.

Examples:
  # A node that replaces containers, like Alibaba ECI, in the cluster of the current context
  swaplet-demo mock-node --profile updates --name eci-1

  # A kubelet for pods that select it, without disturbing others; an image that no registry has
  swaplet-demo mock-node --profile kubelet --name quick --taint only=tests:NoSchedule \\
    --missing 'registry.example/gone/*'

  # A provider that fails all updates, with the labels of a real one
  swaplet-demo mock-node --profile rejects --name bad \\
    --label virtual-node.interlink/type=virtual-kubelet --label type=

Pods come to a virtual node if they tolerate its taint, \
virtual-kubelet.io/provider=mock:NoSchedule.";

/// Add a node that runs nothing, but treats its pods as a kubelet or a virtual node does
///
/// It registers a Node, and for the pods bound to it reports statuses and events as if their
/// containers ran. Nothing is started, pulled or mounted. For trying out controllers: how does mine
/// get on with a node that ignores image changes? On Ctrl-C the Node is taken away; its pods stay
/// as they are, and go on when it comes back. A Node or Lease that no mock node made is never
/// touched: a name that is taken is refused.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct MockNodeArgs {
    /// How the node reacts when the image of a container changes
    #[arg(long, value_enum)]
    profile: ProfileName,
    /// The name of the node
    #[arg(long, default_value = "swaplet-mock")]
    name: String,
    /// A label of the node (repeatable); KEY= takes away one that nodes of the profile usually have
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// A taint of the node, in place of the usual one of the profile (repeatable)
    #[arg(long = "taint", value_name = "KEY[=VALUE]:EFFECT", value_parser = taint, conflicts_with = "no_taint")]
    taints: Vec<Taint>,
    /// No taint
    #[arg(long)]
    no_taint: bool,
    /// Images that are exit images, besides those of a repository named `exit` (repeatable); *
    /// stands for any characters except /
    #[arg(long = "exit-image", value_name = "PATTERN", value_parser = ImagePattern::parse)]
    exit_images: Vec<ImagePattern>,
    /// Images that no registry gives (repeatable)
    #[arg(long, value_name = "PATTERN", value_parser = ImagePattern::parse)]
    missing: Vec<ImagePattern>,
    /// How long a pull takes
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = time)]
    pull: Duration,
    /// Images whose pull takes this long instead (repeatable)
    #[arg(long, value_name = "PATTERN=TIME", value_parser = slow)]
    slow: Vec<(ImagePattern, Duration)>,
    #[command(flatten)]
    kubelet: KubeletArgs,
    #[command(flatten)]
    provider: ProviderArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// The name of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ProfileName {
    /// As an ordinary node: kill, pull and start in one go
    Kubelet,
    /// As a provider that replaces changed containers
    Updates,
    /// As a provider that takes the change and does nothing
    Inert,
    /// As a provider that fails every update, so that the pod may fail
    Rejects,
}

impl ProfileName {
    /// Returns the profile without further options.
    pub(super) fn default_options(self) -> Profile {
        match self {
            Self::Kubelet => Profile::kubelet(),
            Self::Updates => Profile::updates(),
            Self::Inert => Profile::inert(),
            Self::Rejects => Profile::rejects(),
        }
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Options of the kubelet profile")]
struct KubeletArgs {
    /// The version whose habits are played
    #[arg(long, default_value = "1.37", value_parser = ["1.30", "1.32", "1.34", "1.36", "1.37"])]
    kubelet_version: String,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Options of the other profiles")]
struct ProviderArgs {
    /// How statuses reach the API server: sent at once, or polled every 5 s
    #[arg(long, default_value = "notify", value_parser = ["notify", "poll"])]
    status: String,
    /// The containerID of a container that was started again
    #[arg(long, default_value = "constant", value_parser = ["constant", "new"])]
    container_ids: String,
    /// The restartCount of a container that was started again
    #[arg(long, default_value = "unchanged", value_parser = ["unchanged", "counted"])]
    restart_count: String,
    /// The imageID of every container
    #[arg(long, default_value = "empty", value_parser = ["empty", "digest"])]
    image_id: String,
    /// What the status shows between the old and the new container: nothing, the old one's end, or
    /// that and a phase derived from it
    #[arg(long, default_value = "hidden", value_parser = ["hidden", "reported", "judged"])]
    gap: String,
    /// Whether changed labels and annotations are kept; if not, the next status report reverts them
    #[arg(long, default_value = "stored", value_parser = ["stored", "reverting"])]
    metadata: String,
    /// Show containers that ended well as running
    #[arg(long)]
    completed_as_running: bool,
    /// How long an exit image shows as running
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    exit_runs: Duration,
    /// How long the start of a container takes
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = time)]
    start_delay: Duration,
    /// How long after an update the old containers get SIGTERM
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = time)]
    update_latency: Duration,
}

impl MockNodeArgs {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let options = self.options();
        let client = self.cluster.client().await?;
        let version = client
            .apiserver_version()
            .await
            .map_err(plain)
            .context("the API server does not answer")?;
        ensure!(!options.name.is_empty(), "--name: the node needs a name");
        let name = options.name.clone();
        let stopped = stopped()?;
        let node = VirtualNode::new(client, Clock::starting_at(time_of_day()), options);
        node.register().await.map_err(|refused| match refused {
            Refused::Api(error) => anyhow!("the Node cannot be created: {}", words(&error)),
            other => anyhow!("--name: {other}"),
        })?;
        print(&format!(
            "node {name} in a cluster of version {}; Ctrl-C removes it\n",
            version.git_version
        ))?;
        tokio::select! {
            () = node.clone().run_for_ever() => (),
            _ = stopped => (),
        }
        node.remove().await.map_err(|error| {
            let words = words(&error);
            anyhow!(
                "the Node could not be removed ({words}); do it with kubectl delete node {name}"
            )
        })?;
        Ok(ExitCode::SUCCESS)
    }

    fn options(&self) -> NodeOptions {
        let mut options = NodeOptions::new(&self.name, self.profile());
        options.labels = BTreeMap::from_iter(self.labels.clone());
        if self.no_taint || !self.taints.is_empty() {
            options.taints = self.taints.clone();
        }
        options.images = ImageOptions {
            exit: self.exit_images.clone(),
            missing: self.missing.clone(),
            pull: self.pull,
            slow: self.slow.clone(),
            ..ImageOptions::default()
        };
        options
    }

    fn profile(&self) -> Profile {
        match self.profile {
            ProfileName::Kubelet => Profile::Kubelet(KubeletOptions::of(
                match self.kubelet.kubelet_version.as_str() {
                    "1.30" => KubeletVersion::V1_30,
                    "1.32" => KubeletVersion::V1_32,
                    "1.34" => KubeletVersion::V1_34,
                    "1.36" => KubeletVersion::V1_36,
                    _ => KubeletVersion::V1_37,
                },
            )),
            ProfileName::Updates => Profile::Virtual(self.provider.options(OnUpdate::Replaces)),
            ProfileName::Inert => Profile::Virtual(self.provider.options(OnUpdate::Nothing)),
            ProfileName::Rejects => Profile::Virtual(self.provider.options(OnUpdate::Fails)),
        }
    }
}

impl ProviderArgs {
    fn options(&self, on_update: OnUpdate) -> ProviderOptions {
        ProviderOptions {
            on_update,
            status: if self.status == "poll" {
                StatusMode::Poll
            } else {
                StatusMode::Notify
            },
            new_container_ids: self.container_ids == "new",
            counts_restarts: self.restart_count == "counted",
            reports_image_id: self.image_id == "digest",
            gap: match self.gap.as_str() {
                "reported" => Gap::Reported,
                "judged" => Gap::Judged,
                _ => Gap::Hidden,
            },
            keeps_metadata: self.metadata == "stored",
            completed_as_running: self.completed_as_running,
            exit_runs: self.exit_runs,
            start_delay: self.start_delay,
            update_latency: self.update_latency,
            ..ProviderOptions::default()
        }
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("a label is written KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

fn taint(text: &str) -> Result<Taint, String> {
    let form = "a taint is written KEY=VALUE:EFFECT or KEY:EFFECT, with the effect NoSchedule, PreferNoSchedule or NoExecute";
    let (rest, effect) = text.rsplit_once(':').ok_or(form)?;
    let known = ["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect);
    let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
    if key.is_empty() || !known {
        return Err(form.to_owned());
    }
    Ok(Taint {
        key: key.to_owned(),
        value: value.to_owned(),
        effect: effect.to_owned(),
    })
}

fn slow(text: &str) -> Result<(ImagePattern, Duration), String> {
    let (images, long) = text
        .rsplit_once('=')
        .ok_or("a slow image is written PATTERN=TIME")?;
    let images = ImagePattern::parse(images).map_err(|error| error.to_string())?;
    Ok((images, time(long)?))
}

fn time(text: &str) -> Result<Duration, String> {
    duration(text).ok_or_else(|| "a time is written as 2s, 1.5s, 200ms or 1m30s".to_owned())
}

#[cfg(test)]
mod tests;
