//! `swaplet restart`: restarts containers of running pods.

mod member;
pub(super) mod parked;
mod results;
mod roll;
mod way;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::process::ExitCode;

use self::member::{status, was_started};
use super::client::{ClusterArgs, named_or_own, plain};
use super::exit::{FAILED, INTERRUPTED};
use super::print;
use super::program::process::stopped;
use super::program::rights::{may, may_patch};
use super::program::table::Output;
use anyhow::{Context, bail};
use clap::{ArgAction, Args};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ListParams;
use kube::core::{ApiResource, Object, Selector};
use kube::{Api, Client, Resource, ResourceExt};
use member::{Member, Outcome, State};
use roll::Roll;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use swaplet_controller::frame::clock::time_of_day;
use swaplet_controller::frame::connection::discovery::Discovery;
use swaplet_controller::frame::list::list_with;
use swaplet_controller::restart::on_config::disruption_budgets::DisruptionBudgets;
use swaplet_core::objects::recreate_request::{GROUP, PLURAL};
use swaplet_core::objects::values::amount::{Amount, Rounding};
use swaplet_core::objects::values::whole_object::WholeObject;
use swaplet_core::restart::rollout::{self, place};
use way::StrategyArgs;
use way::Way;
use way::asked::Asked;
use way::direct::Direct;

const EXAMPLES: &str = "\
Examples:
  # One container of a pod; the pod stays, with its node, address, volumes and other containers
  swaplet restart web-0 -c app

  # Two containers, one after the other, each followed until it is ready for 10 seconds
  swaplet restart pod/web-0 -c app,proxy --ordered --min-started-seconds 10

  # The same container of all pods of a workload, a quarter of them at a time
  swaplet restart deploy/web -c app --max-unavailable 25%
  swaplet restart -l app=web -n shop -c app

  # What would be done, and what prevents it
  swaplet restart sts/db -c exporter --dry-run

  # Create the request and return; check later
  swaplet restart web-0 -c app --wait=false
  kubectl get crr

How: each pod gets a ContainerRecreateRequest (apps.kruise.io/v1alpha1), which `swaplet run \
--restart` carries out, or, on nodes with its daemon, OpenKruise. It is deleted an hour after it \
was completed, and goes with its pod. Where the cluster has no such requests, or with --direct, \
this program does what `swaplet run --restart` does, with your own rights: it gives the container \
another spelling of the same image, with the digest that its node reports. That needs the right to \
get, list and patch pods; without the right to list nodes, nothing risky is done under \
restartPolicy Never.

Order: pods that are not ready first, then by name; those of a StatefulSet from the highest \
ordinal down. No ready pod is touched while --max-unavailable pods are unavailable, or while a \
PodDisruptionBudget allows no disruption. A percentage is rounded as Kubernetes does: up for a \
StatefulSet or DaemonSet, otherwise down, and never to 0.

Ctrl-C: requests that no controller has begun are deleted; those in progress continue, and are \
named. Without requests, nothing more is changed, and what has been changed is named with the \
command to undo it.

Exit codes:
  0    all pods were restarted (with --wait=false: requested)
  1    some were not
  2    nothing was done: bad usage, no such pod or container, no access
  130  interrupted";

/// Restart single containers of running pods
///
/// TARGET is a pod (NAME or pod/NAME; several are one after another), or the workload whose pods it
/// is: deploy/NAME, sts/NAME, ds/NAME.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RestartArgs {
    /// What to restart
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Restart the pods that this label selector matches
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// The namespace [default: that of the kubeconfig context]
    #[arg(short, long)]
    namespace: Option<String>,
    /// The containers, in the order in which they are restarted [default: the only one]
    #[arg(short, long = "container", value_name = "NAME", value_delimiter = ',')]
    containers: Vec<String>,
    /// How many of the pods may be unavailable at once: a number, or a percentage of them
    #[arg(long, value_name = "N|N%", default_value = "1", value_parser = rollout::limit)]
    max_unavailable: Amount,
    /// Ignore PodDisruptionBudgets
    #[arg(long)]
    ignore_disruption_budgets: bool,
    #[command(flatten)]
    strategy: StrategyArgs,
    /// Create no requests, even where the cluster has them: change the images of the pods from here
    #[arg(long)]
    direct: bool,
    /// Check everything, change nothing, and show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Whether to wait until all pods are restarted
    #[arg(long, value_name = "true|false", default_value_t = true, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set)]
    wait: bool,
    /// How to print the results: a table, a table with all that is known, or for programs
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl RestartArgs {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let target =
            Target::read(&self.targets, self.selector.as_deref()).map_err(anyhow::Error::msg)?;
        let containers = distinct(&self.containers)?;
        let client = self.cluster.client().await?;
        let namespace = named_or_own(&client, self.namespace.as_deref());
        let group = Group {
            client: client.clone(),
            namespace: namespace.clone(),
            target,
        };
        let (members, left_out) = plan(&group.target, &containers, group.list_pods().await?)
            .map_err(|problems| anyhow::Error::msg(problems.join("\nerror: ")))?;
        left_out.iter().for_each(|pod| say!("left out: {pod}"));
        let way = self.way(&client, &namespace).await?;
        let budgets =
            (!self.ignore_disruption_budgets).then_some(DisruptionBudgets { client, namespace });
        let ignores_failures = self.strategy.ignores_failures();
        let limit = self.max_unavailable;
        let mut roll = Roll::new(group, budgets, way, limit, ignores_failures, members);
        if self.dry_run {
            print(&roll.dry_run(self.output).await?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let interrupted = if self.wait {
            roll.run(stopped()?).await?
        } else {
            roll.ask_for_all().await?;
            false
        };
        print(&results::show(&roll.members, self.output)?)?;
        say!("{}", results::summary(&roll.members));
        Ok(ExitCode::from(code(&roll.members, interrupted)))
    }

    /// Chooses requests where the API server serves them, else direct restarts.
    async fn way(&self, client: &Client, namespace: &str) -> anyhow::Result<Way> {
        let strategy = self.strategy.clone();
        let resources = Discovery::new(client.clone())
            .resources()
            .await
            .map_err(anyhow::Error::msg);
        let known = resources
            .and_then(|resources| resources.serve_if_known(PLURAL).map_err(anyhow::Error::msg));
        if !self.direct
            && known.context("cannot check whether the cluster has ContainerRecreateRequests")?
        {
            let may_be_direct = self.wait && strategy.unready_grace_period.is_none();
            may_request(client, namespace, may_be_direct).await?;
            let asked = Asked::new(client.clone(), namespace, strategy, time_of_day());
            return Ok(Way::Asked(Box::new(asked)));
        }
        if !self.direct {
            say!(
                "the cluster has no ContainerRecreateRequests: the images of the pods are changed directly"
            );
        }
        if strategy.unready_grace_period.is_some() {
            bail!(
                "--unready-grace-period needs ContainerRecreateRequests: without one, the pod would stay not ready if this program were killed; leave it out, or install them (deploy/crds) and `swaplet run --restart`"
            );
        }
        if !self.wait {
            bail!(
                "without requests this program restarts the containers itself, so it has to wait"
            );
        }
        Ok(Way::Direct(Box::new(Direct::new(
            client.clone(),
            namespace,
            strategy,
        ))))
    }
}

/// Fails where the user may not create requests; advises `--direct` where that `may_be_direct`.
async fn may_request(client: &Client, namespace: &str, may_be_direct: bool) -> anyhow::Result<()> {
    let create = ResourceAttributes {
        verb: Some("create".to_owned()),
        group: Some(GROUP.to_owned()),
        resource: Some(PLURAL.to_owned()),
        namespace: Some(namespace.to_owned()),
        ..ResourceAttributes::default()
    };
    if may(client, create).await != Some(false) {
        return Ok(());
    }
    let direct = match may_be_direct && may_patch(client, namespace, "pods").await == Some(true) {
        true => ", or pass --direct, which needs only the right to patch pods",
        false => "",
    };
    bail!(
        "your rights do not allow to create ContainerRecreateRequests in namespace {namespace}: ask for the ClusterRole swaplet-restart-user (docs/rights.md){direct}"
    )
}

fn code(members: &[Member], interrupted: bool) -> u8 {
    let fine = |member: &Member| {
        !matches!(
            member.state,
            State::Over(Outcome::Failed(_) | Outcome::NotStarted(_) | Outcome::Left(_))
        )
    };
    match interrupted {
        true => INTERRUPTED,
        false if members.iter().all(fine) => 0,
        false => FAILED,
    }
}

/// Checks that no container is named twice: the API server would refuse all of them.
fn distinct(containers: &[String]) -> anyhow::Result<Vec<String>> {
    let twice = containers
        .iter()
        .enumerate()
        .find(|(index, name)| containers[..*index].contains(name));
    match twice {
        Some((_, name)) => bail!("-c names {name} twice"),
        None if containers.iter().any(String::is_empty) => bail!("-c has an empty name"),
        None => Ok(containers.to_vec()),
    }
}

/// Returns an object, if it is there.
async fn get<K>(api: &Api<K>, kind: &str, name: &str) -> anyhow::Result<Option<K>>
where
    K: Clone + Debug + DeserializeOwned,
{
    let found = api.get_opt(name).await.map_err(plain);
    found.with_context(|| format!("cannot get {kind} {name}"))
}

// The pods to restart, checked before any request is made.

/// Returns the pods of a target in their order, and those that are left out, with the reason.
///
/// # Errors
/// Every pod for which the request would be refused, and what to do.
fn plan(
    target: &Target,
    containers: &[String],
    seen: Seen,
) -> Result<(Vec<Member>, Vec<String>), Vec<String>> {
    let (mut members, mut left_out) = (Vec::new(), Vec::new());
    let mut problems = missing(target, &seen.pods);
    for pod in seen.pods {
        match chosen(&pod, containers).map(|chosen| (not_started(&pod, &chosen), chosen)) {
            Err(problem) => problems.push(problem),
            Ok((Some(problem), _)) if target.is_named() => problems.push(problem),
            Ok((Some(problem), _)) => left_out.push(problem),
            Ok((None, chosen)) => members.push(Member::new(pod, &chosen)),
        }
    }
    if problems.is_empty() && members.is_empty() {
        problems.append(&mut left_out);
        problems.push("there is no pod to restart".to_owned());
    }
    let has_ordinals = matches!(target, Target::Workload(Workload::StatefulSet, _));
    members.sort_by_key(|member| place(&member.name, has_ordinals));
    if problems.is_empty() {
        Ok((members, left_out))
    } else {
        Err(problems)
    }
}

fn missing(target: &Target, pods: &[Pod]) -> Vec<String> {
    let Target::Pods(names) = target else {
        return Vec::new();
    };
    let missing = names
        .iter()
        .filter(|name| !pods.iter().any(|pod| pod.name_any() == **name));
    missing
        .map(|name| format!("there is no pod {name}, or it has finished or is being deleted"))
        .collect()
}

/// Returns the containers to restart; if none is named, the only one.
fn chosen(pod: &Pod, containers: &[String]) -> Result<Vec<String>, String> {
    let spec = || pod.spec.iter();
    let init = || spec().flat_map(|spec| spec.init_containers.iter().flatten());
    let own: Vec<_> = spec()
        .flat_map(|spec| &spec.containers)
        .map(|container| container.name.clone())
        .collect();
    let name = pod.name_any();
    if let ([only], []) = (own.as_slice(), containers) {
        return Ok(vec![only.clone()]);
    }
    let native = init().filter(|init| init.restart_policy.as_deref() == Some("Always"));
    let all: Vec<_> = own
        .into_iter()
        .chain(native.map(|init| init.name.clone()))
        .collect();
    if containers.is_empty() {
        return Err(format!(
            "pod {name} has several containers: choose with -c from {}",
            all.join(", ")
        ));
    }
    let Some(unknown) = containers.iter().find(|container| !all.contains(container)) else {
        return Ok(containers.to_vec());
    };
    Err(if init().any(|init| init.name == *unknown) {
        format!(
            "pod {name}: {unknown} is an init container; only containers and native sidecars (restartPolicy Always) can be restarted"
        )
    } else {
        format!(
            "pod {name} has no container {unknown}; it has {}",
            all.join(", ")
        )
    })
}

/// Returns an error for a container that was never started, because it has nothing to restart.
fn not_started(pod: &Pod, containers: &[String]) -> Option<String> {
    let name = pod.name_any();
    if pod
        .spec
        .as_ref()
        .is_none_or(|spec| spec.node_name.is_none())
    {
        return Some(format!("pod {name} is on no node yet"));
    }
    let never = |container: &&String| !status(pod, container).is_some_and(was_started);
    Some(format!(
        "pod {name}: {} has not been started yet",
        containers.iter().find(never)?
    ))
}

// The target that the command line names: pods, a workload, or a selector.

#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Pods(Vec<String>),
    Workload(Workload, String),
    /// The pods that a label selector matches.
    Selector(String),
}

/// A kind whose pods can be restarted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Workload {
    Deployment,
    StatefulSet,
    DaemonSet,
}

/// The words that kubectl accepts for pods.
const PODS: [&str; 3] = ["po", "pod", "pods"];

impl Workload {
    const fn kind(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
        }
    }

    fn resource(self) -> ApiResource {
        match self {
            Self::Deployment => ApiResource::erase::<Deployment>(&()),
            Self::StatefulSet => ApiResource::erase::<StatefulSet>(&()),
            Self::DaemonSet => ApiResource::erase::<DaemonSet>(&()),
        }
    }

    /// Parses the words that kubectl accepts for it.
    fn read(word: &str) -> Option<Self> {
        match word {
            "deploy" | "deployment" | "deployments" | "deployment.apps" | "deployments.apps" => {
                Some(Self::Deployment)
            }
            "sts" | "statefulset" | "statefulsets" | "statefulset.apps" | "statefulsets.apps" => {
                Some(Self::StatefulSet)
            }
            "ds" | "daemonset" | "daemonsets" | "daemonset.apps" | "daemonsets.apps" => {
                Some(Self::DaemonSet)
            }
            _ => None,
        }
    }
}

impl Target {
    /// Parses the command line.
    ///
    /// # Errors
    /// What is wrong with it, and the correct form.
    fn read(names: &[String], selector: Option<&str>) -> Result<Self, String> {
        let named = type_slash_name(names)
            .iter()
            .map(|name| one(name))
            .collect::<Result<Vec<_>, _>>()?;
        match (named.len(), selector) {
            (0, Some(selector)) if selector.trim().is_empty() => {
                Err("-l is empty: it would restart every pod of the namespace".to_owned())
            }
            (0, Some(selector)) => Ok(Self::Selector(selector.to_owned())),
            (0, None) => Err(
                "say what to restart: a pod, deploy/NAME, sts/NAME, ds/NAME, or -l SELECTOR"
                    .to_owned(),
            ),
            (_, Some(_)) => Err("name something or select it with -l, not both".to_owned()),
            (_, None) => match &named[..] {
                [(Some(kind), name)] => Ok(Self::Workload(*kind, name.clone())),
                _ => pods(named).map(Self::Pods),
            },
        }
    }

    /// Returns how a percentage of its pods is rounded.
    const fn rounding(&self) -> Rounding {
        match self {
            Self::Workload(Workload::StatefulSet | Workload::DaemonSet, _) => Rounding::Up,
            Self::Workload(Workload::Deployment, _) | Self::Pods(_) | Self::Selector(_) => {
                Rounding::Down
            }
        }
    }

    /// Returns true if the pods were named one by one: then each must exist.
    const fn is_named(&self) -> bool {
        matches!(self, Self::Pods(_))
    }
}

/// Converts `TYPE NAME...` to `TYPE/NAME ...`: kubectl's users write both.
fn type_slash_name(words: &[String]) -> Vec<String> {
    match words.split_first() {
        Some((kind, names))
            if !names.is_empty()
                && (PODS.contains(&&**kind) || Workload::read(kind).is_some())
                && names.iter().all(|name| !name.contains('/')) =>
        {
            names.iter().map(|name| format!("{kind}/{name}")).collect()
        }
        _ => words.to_vec(),
    }
}

/// Returns the workload and its name; without a workload, the name of a pod.
fn one(text: &str) -> Result<(Option<Workload>, String), String> {
    let Some((kind, name)) = text.split_once('/') else {
        return Ok((None, text.to_owned()));
    };
    if name.is_empty() || name.contains('/') {
        return Err(format!("\"{text}\" is not of the form KIND/NAME"));
    }
    match (kind, Workload::read(kind)) {
        (kind, _) if PODS.contains(&kind) => Ok((None, name.to_owned())),
        (_, Some(workload)) => Ok((Some(workload), name.to_owned())),
        _ => Err(format!(
            "\"{text}\": containers of a {kind} cannot be restarted; name a pod, deploy/NAME, sts/NAME or ds/NAME"
        )),
    }
}

/// Returns the names of the pods, each once.
fn pods(named: Vec<(Option<Workload>, String)>) -> Result<Vec<String>, String> {
    let mut pods: Vec<String> = Vec::new();
    for (workload, name) in named {
        if let Some(workload) = workload {
            let kind = workload.kind();
            return Err(format!(
                "one workload at a time: {kind}/{name} is not the only target"
            ));
        }
        if !pods.contains(&name) {
            pods.push(name);
        }
    }
    Ok(pods)
}

// The current pods of a target.

/// The target, and where its pods are.
struct Group {
    client: Client,
    namespace: String,
    target: Target,
}

/// The pods of a group, and the desired number.
struct Seen {
    pods: Vec<Pod>,
    desired: usize,
}

/// The fields of a workload about its pods.
#[derive(Clone, Debug, Deserialize)]
struct WorkloadSpec {
    selector: LabelSelector,
    replicas: Option<i32>,
}

/// The pods that a `DaemonSet` is to have.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WorkloadStatus {
    desired_number_scheduled: Option<i32>,
}

impl Group {
    /// Lists the pods, without those that have finished or are being deleted, because a workload
    /// replaces them.
    async fn list_pods(&self) -> anyhow::Result<Seen> {
        let mut pods = Vec::new();
        match &self.target {
            Target::Pods(names) => {
                for name in names {
                    let found = get(&self.api::<Pod>(), "pod", name).await?;
                    pods.extend(found.filter(is_live));
                }
            }
            Target::Selector(selector) => {
                pods = self.list(ListParams::default().labels(selector)).await?;
            }
            Target::Workload(kind, name) => return self.of_workload(*kind, name).await,
        }
        Ok(Seen {
            desired: pods.len(),
            pods,
        })
    }

    async fn of_workload(&self, kind: Workload, name: &str) -> anyhow::Result<Seen> {
        let (client, resource) = (self.client.clone(), kind.resource());
        let workloads: Api<Object<WorkloadSpec, WorkloadStatus>> =
            Api::namespaced_with(client, &self.namespace, &resource);
        let Some(found) = get(&workloads, kind.kind(), name).await? else {
            bail!(
                "there is no {} {name} in namespace {}",
                kind.kind(),
                self.namespace
            )
        };
        let desired = match kind {
            Workload::Deployment | Workload::StatefulSet => found.spec.replicas.unwrap_or(1),
            Workload::DaemonSet => found
                .status
                .and_then(|status| status.desired_number_scheduled)
                .unwrap_or(0),
        };
        let selected = ListParams::default().labels_from(&Selector::try_from(found.spec.selector)?);
        let mut owners = BTreeSet::from_iter(found.metadata.uid);
        if kind == Workload::Deployment {
            owners = self.replica_sets(selected.clone(), &owners).await?;
        }
        let mut pods = self.list(selected).await?;
        pods.retain(|pod| is_controlled_by(pod, &owners));
        Ok(Seen {
            pods,
            desired: usize::try_from(desired).unwrap_or_default(),
        })
    }

    /// Returns the uids of the `ReplicaSet`s of a Deployment, to which its pods belong.
    async fn replica_sets(
        &self,
        selected: ListParams,
        deployment: &BTreeSet<String>,
    ) -> anyhow::Result<BTreeSet<String>> {
        let uid = |set: WholeObject<ReplicaSet>| {
            let set = set.read()?;
            set.uid().filter(|_| is_controlled_by(&set, deployment))
        };
        let found = list_with(&self.api(), selected, uid).await.map_err(plain);
        Ok(BTreeSet::from_iter(
            found.context("cannot list ReplicaSets")?,
        ))
    }

    async fn list(&self, parameters: ListParams) -> anyhow::Result<Vec<Pod>> {
        list_with(&self.api::<WholeObject<Pod>>(), parameters, |pod| {
            pod.read().filter(is_live)
        })
        .await
        .map_err(plain)
        .context("cannot list pods")
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

fn is_controlled_by<K: Resource>(object: &K, uids: &BTreeSet<String>) -> bool {
    object
        .owner_references()
        .iter()
        .any(|owner| owner.controller == Some(true) && uids.contains(&owner.uid))
}

fn is_live(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && !matches!(phase, Some("Succeeded" | "Failed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(names: &[&str], selector: Option<&str>) -> Result<Target, String> {
        Target::read(
            &names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>(),
            selector,
        )
    }

    #[test]
    fn targets_are_written_as_for_kubectl() {
        let pods = |names: &[&str]| {
            Ok(Target::Pods(
                names.iter().map(|name| (*name).to_owned()).collect(),
            ))
        };
        assert_eq!(read(&["web"], None), pods(&["web"]));
        assert_eq!(read(&["pod/web", "po/b", "web"], None), pods(&["web", "b"]));
        assert_eq!(read(&["pod", "web", "b"], None), pods(&["web", "b"]));
        assert_eq!(
            read(&["deployment.apps/web"], None),
            Ok(Target::Workload(Workload::Deployment, "web".to_owned()))
        );
        assert_eq!(
            read(&["deployment", "web"], None),
            Ok(Target::Workload(Workload::Deployment, "web".to_owned()))
        );
        assert_eq!(
            read(&["sts/db"], None),
            Ok(Target::Workload(Workload::StatefulSet, "db".to_owned()))
        );
        assert_eq!(
            read(&["daemonsets/log"], None),
            Ok(Target::Workload(Workload::DaemonSet, "log".to_owned()))
        );
        assert_eq!(
            read(&[], Some("app=web")),
            Ok(Target::Selector("app=web".to_owned()))
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_how_to_write_it() {
        for (names, selector, words) in [
            (&[][..], None, "deploy/NAME"),
            (&["web"], Some("a=b"), "not both"),
            (&[], Some(" "), "every pod"),
            (&["job/x"], None, "containers of a job cannot be restarted"),
            (&["deploy/"], None, "KIND/NAME"),
            (&["pod/a/b"], None, "KIND/NAME"),
            (&["deploy/a", "pod/b"], None, "one workload at a time"),
        ] {
            let problem = read(names, selector).unwrap_err();
            assert!(problem.contains(words), "{names:?}: {problem}");
        }
    }
}
