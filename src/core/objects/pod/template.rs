//! The pods that an object describes: a Pod itself, or an object of any kind that has pod
//! templates.

use serde::Deserialize;
use serde_json::{Value, json};

use super::RestartPolicy;
use super::container_spec::{ContainerSpec, PodSpec};
use super::view::{ContainerView, SpecView, VariableView};
use crate::objects::values::bounds;
use crate::objects::values::fields::FromText as _;

/// The deepest level of a template: `spec.template.spec.jobTemplate.spec.template.spec` with a list
/// of roles around it has 9 steps.
const DEPTH: usize = 12;
/// The end of the path of a pod's spec in a CronJob, and in kinds with the template of a Job.
const OF_CRON_JOB: &str = "jobTemplate.spec.template.spec";
/// The end of that path in a ScaledJob of KEDA.
const OF_SCALED_JOB: &str = "jobTargetRef.template.spec";
/// What follows the spec of a JobSet in the path of a pod's spec.
pub const OF_JOB_SET: &str = ".replicatedJobs[";
/// A part of the path of a pod's spec in a cluster of Ray: it is in several kinds.
const OF_RAY_CLUSTER: &str = "GroupSpec";

/// A pod, or the template of one, in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodTemplate {
    /// `kind` of the object; `?` where it has none.
    pub kind: Box<str>,
    /// Its [`object_name`].
    pub name: Box<str>,
    /// `metadata.namespace`
    pub namespace: Option<Box<str>>,
    /// Kind and name of the object's controller.
    pub owner: Option<(Box<str>, Box<str>)>,
    /// The path of the pod's spec in the object, for example `spec.template.spec`.
    pub place: String,
    /// True if the containers are injected into pods that are described elsewhere (OpenKruise's
    /// SidecarSet), with unknown main containers and restart policy.
    pub injected: bool,
    /// The pod's spec, with the restart policy that the object's kind sets where there is none.
    pub spec: PodSpec,
}

/// The place of a pod, or of a pod template, in an object.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    /// The object: of a list the item, and the inner one where an object has others inside.
    pub object: &'a Value,
    /// The path of the pod's spec, for example `spec.template.spec`; it begins at the outermost
    /// object.
    pub path: String,
    /// The pod's spec.
    pub spec: &'a Value,
    /// The parent of the spec, with the metadata of the pods: the template, or the pod itself.
    pub template: &'a Value,
    /// The parent of the template, for example the spec of a Job.
    pub around: Option<&'a Value>,
}

impl<'a> Place<'a> {
    /// Returns all pods and templates of an object, and of the items of a list, if any.
    pub fn all(object: &'a Value) -> Vec<Self> {
        let mut found = Vec::new();
        for item in items(object) {
            search(item, (item, None), &mut String::new(), 0, &mut found);
        }
        found
    }

    /// Reads the pod that is described here.
    pub fn read(&self) -> PodTemplate {
        let text = |value: &Value| value.as_str().map(Box::<str>::from);
        let metadata = &self.object["metadata"];
        let kind = text(&self.object["kind"]).unwrap_or_else(|| "?".into());
        let mut spec = pod_spec(self.spec);
        let policy = self.policy_of_replica(&kind).or(spec.restart_policy.take());
        spec.restart_policy = policy.or_else(|| self.default_policy(&kind));
        PodTemplate {
            name: object_name(self.object),
            namespace: text(&metadata["namespace"]).filter(|namespace| !namespace.is_empty()),
            owner: owner(metadata),
            injected: &*kind == "SidecarSet",
            place: self.path.clone(),
            spec,
            kind,
        }
    }

    /// Returns true if a Job of Kubernetes has the pods. Other groups have a Job of their own, and an
    /// `AdvancedCronJob` has the template of a Job, or none.
    pub fn is_of_job(&self) -> bool {
        let version = self.object["apiVersion"].as_str();
        let is_batch = version.is_none_or(|version| version.starts_with("batch/"));
        self.object["kind"] == "Job" && is_batch
            || self.path.ends_with(OF_CRON_JOB)
            || self.is_on_failure()
    }

    /// Returns true if `OnFailure` is set where there is no restart policy: by the webhook of JobSet
    /// (`jobset_webhook.go`) and by KEDA (`scale_jobs.go`).
    fn is_on_failure(&self) -> bool {
        self.path.contains(OF_JOB_SET) || self.path.ends_with(OF_SCALED_JOB)
    }

    /// Returns true if the pods are the launcher of an MPIJob, which is a Job of Kubernetes
    /// (`newLauncherJob` of mpi-operator).
    pub fn is_launcher(&self) -> bool {
        let version = &self.object["apiVersion"];
        version == "kubeflow.org/v2beta1" && self.path.contains("ReplicaSpecs.Launcher.")
    }

    /// Returns the restart policy that Kubeflow gives the pods of a replica, whatever their template
    /// says (`SetRestartPolicy` and `setDefaultRestartPolicy` of training-operator and mpi-operator).
    fn policy_of_replica(&self, kind: &str) -> Option<RestartPolicy> {
        let version = self.object["apiVersion"].as_str()?;
        let is_it = version.starts_with("kubeflow.org/") && self.path.contains("ReplicaSpecs.");
        let replica = self.around.filter(|_| is_it)?;
        let is_on_failure = || matches!(kind, "PyTorchJob" | "PaddleJob") || self.is_launcher();
        let written = replica["restartPolicy"].as_str();
        Some(match written.filter(|written| !written.is_empty()) {
            Some("ExitCode") => RestartPolicy::Never,
            Some(written) => RestartPolicy::from_text(written),
            None if is_on_failure() => RestartPolicy::OnFailure,
            None => RestartPolicy::Never,
        })
    }

    /// Returns the restart policy that the pods get where there is none; `None` if it has to be
    /// there, as in a Job, or is not known.
    fn default_policy(&self, kind: &str) -> Option<RestartPolicy> {
        let runs_for_ever = matches!(
            kind,
            "Pod"
                | "PodTemplate"
                | "Deployment"
                | "StatefulSet"
                | "DaemonSet"
                | "ReplicaSet"
                | "ReplicationController"
                | "CloneSet"
                | "UnitedDeployment"
                | "Rollout"
                | "DeploymentConfig"
                | "LeaderWorkerSet"
                // Those of Knative.
                | "Service"
                | "Configuration"
                | "Revision"
        ) || self.path.contains(OF_RAY_CLUSTER);
        if runs_for_ever {
            Some(RestartPolicy::Always)
        } else {
            self.is_on_failure().then_some(RestartPolicy::OnFailure)
        }
    }
}

impl PodTemplate {
    /// Returns all pods and templates of an object, and of the items of a list, if any.
    pub fn all(object: &Value) -> Vec<Self> {
        Place::all(object).iter().map(Place::read).collect()
    }

    /// Returns the containers that are marked as sidecars, named in `names`, or injected.
    pub fn sidecars<'a>(&'a self, names: &'a [String]) -> impl Iterator<Item = &'a ContainerSpec> {
        self.spec
            .containers
            .iter()
            .filter(|container| self.is_sidecar(container, names))
    }

    /// Returns true if a container of this template is one of [`Self::sidecars`].
    pub fn is_sidecar(&self, container: &ContainerSpec, names: &[String]) -> bool {
        self.injected
            || container.mark.is_sidecar()
            || names.iter().any(|name| **name == *container.name)
    }
}

/// Returns `metadata.name` of an object, `metadata.generateName` with a `*` behind it, or `?`.
pub fn object_name(object: &Value) -> Box<str> {
    let text = |field: &str| object["metadata"][field].as_str();
    match (text("name"), text("generateName")) {
        (None, Some(prefix)) => format!("{prefix}*").into(),
        (name, _) => name.unwrap_or("?").into(),
    }
}

fn owner(metadata: &Value) -> Option<(Box<str>, Box<str>)> {
    let owners = metadata["ownerReferences"].as_array()?;
    let controller = owners.iter().find(|owner| owner["controller"] == true)?;
    Some((
        controller["kind"].as_str()?.into(),
        controller["name"].as_str()?.into(),
    ))
}

/// Reads `spec` of a pod, which no API server has checked. Never fails: see [`PodSpec::malformed`].
pub fn pod_spec(spec: &Value) -> PodSpec {
    let view = SpecView::deserialize(spec);
    let malformed = view.as_ref().err().map(|error| error.to_string().into());
    let mut view = view.unwrap_or_else(|_| known_containers(spec));
    let containers = std::mem::take(&mut view.containers.items);
    let init_containers = std::mem::take(&mut view.init_containers.items);
    let read = view.read().with(containers, init_containers);
    PodSpec {
        malformed: malformed.or(read.malformed),
        ..read
    }
}

/// Returns what can be said of a spec that cannot be read: its containers and their marks, and
/// when they are restarted. A
/// variable with a value that is no text marks nothing, and is told.
fn known_containers(spec: &Value) -> SpecView {
    let variable = |written: &Value| match VariableView::deserialize(written) {
        Ok(_) => written.clone(),
        Err(_) => json!({"name": written["name"].as_str(), "value": "?"}),
    };
    let container = |written: &Value| {
        let env = written["env"].as_array().into_iter().flatten();
        let env: Vec<_> = env.map(variable).collect();
        let text = |field: &str| written[field].as_str();
        let known = json!({"name": text("name"), "image": text("image"), "env": env,
            "restartPolicy": text("restartPolicy")});
        let read = ContainerView::deserialize(written);
        read.unwrap_or_else(|_| ContainerView::deserialize(known).unwrap_or_default())
    };
    let containers = |field: &str| {
        let containers = spec[field].as_array().into_iter().flatten();
        containers.take(bounds::ITEMS).map(container).collect()
    };
    let mut view = SpecView::default();
    let policy = Option::deserialize(&spec["restartPolicy"]);
    view.restart_policy = policy.unwrap_or_default();
    view.containers.items = containers("containers");
    view.init_containers.items = containers("initContainers");
    view
}

/// Returns the items of a list, and of lists in it; any other object is its only item.
pub fn items(object: &Value) -> Vec<&Value> {
    let is_list = object["kind"]
        .as_str()
        .is_none_or(|kind| kind.ends_with("List"));
    match object.get("items").and_then(Value::as_array) {
        Some(items) if is_list => items.iter().flat_map(items_of_item).collect(),
        _ => vec![object],
    }
}

/// Returns the items of a nested list; deeper ones are not opened.
fn items_of_item(item: &Value) -> Vec<&Value> {
    match item.get("items").and_then(Value::as_array) {
        Some(items) if item["kind"] == "List" => items.iter().collect(),
        _ => vec![item],
    }
}

/// Collects the values of an object under a key `spec` that have a list of containers; none has
/// another inside.
fn search<'a>(
    object: &'a Value,
    (value, around): (&'a Value, Option<&'a Value>),
    path: &mut String,
    depth: usize,
    found: &mut Vec<Place<'a>>,
) {
    if depth > DEPTH {
        return;
    }
    let length = path.len();
    match value {
        Value::Object(members) => {
            // A controller makes its own pods of what is in such a field (Flink).
            let is_template = path.ends_with("odTemplate");
            let object = match is_whole(value) && !is_template {
                true => value,
                false => object,
            };
            for (key, member) in members {
                let dot = if path.is_empty() { "" } else { "." };
                path.extend([dot, key]);
                if key == "spec" && has_containers(member) {
                    found.push(Place {
                        object,
                        path: path.clone(),
                        spec: member,
                        template: value,
                        around,
                    });
                } else {
                    search(object, (member, Some(value)), path, depth + 1, found);
                }
                path.truncate(length);
            }
        }
        Value::Array(list) => {
            for (index, item) in list.iter().enumerate() {
                path.push_str(&format!("[{index}]"));
                search(object, (item, around), path, depth + 1, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

/// Returns true for a whole object, as a Template of OpenShift, a ManifestWork or an Object of
/// Crossplane has inside.
fn is_whole(value: &Value) -> bool {
    let has_type = value["kind"].is_string() && value["apiVersion"].is_string();
    has_type && (value["metadata"].is_object() || value["spec"].is_object())
}

fn has_containers(spec: &Value) -> bool {
    spec["containers"].as_array().is_some_and(|containers| {
        containers
            .iter()
            .any(|container| container["name"].is_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(object: &Value) -> Vec<String> {
        PodTemplate::all(object)
            .into_iter()
            .map(|found| found.place)
            .collect()
    }

    fn pod() -> Value {
        json!({"containers": [{"name": "a", "command": ["/bin/a"]}]})
    }

    #[test]
    fn templates_are_found_in_every_kind() {
        assert_eq!(places(&json!({"kind": "Pod", "spec": pod()})), ["spec"]);
        assert_eq!(
            places(&json!({"kind": "Job", "spec": {"template": {"spec": pod()}}})),
            ["spec.template.spec"]
        );
        assert_eq!(
            places(&json!({"kind": "PodTemplate", "template": {"spec": pod()}})),
            ["template.spec"]
        );
        let job = json!({"spec": {"template": {"spec": pod()}}});
        assert_eq!(
            places(&json!({"kind": "CronJob", "spec": {"jobTemplate": job}})),
            ["spec.jobTemplate.spec.template.spec"]
        );
        assert_eq!(
            places(
                &json!({"kind": "JobSet", "spec": {"replicatedJobs": [{"template": job}, {"template": job}]}})
            ),
            [
                "spec.replicatedJobs[0].template.spec.template.spec",
                "spec.replicatedJobs[1].template.spec.template.spec"
            ]
        );
        assert!(places(&json!({"kind": "Service", "spec": {"ports": []}})).is_empty());
        assert!(places(&json!("text")).is_empty());
    }

    #[test]
    fn u56_kinds_whose_pods_run_for_ever_are_known() {
        let always = |kind: &str| {
            let object = json!({"kind": kind, "spec": {"template": {"spec": pod()}}});
            PodTemplate::all(&object)[0].spec.restart_policy == Some(RestartPolicy::Always)
        };
        assert!(
            ["ReplicationController", "UnitedDeployment", "Rollout"]
                .into_iter()
                .all(always)
        );
        assert!(
            [
                "DeploymentConfig",
                "LeaderWorkerSet",
                "Service",
                "Configuration",
                "Revision"
            ]
            .into_iter()
            .all(always)
        );
        assert!(
            !["Job", "CronJob", "AdvancedCronJob"]
                .into_iter()
                .any(always)
        );
        // A RayJob has a pod that ends beside its cluster.
        let cluster = json!({"headGroupSpec": {"template": {"spec": pod()}}, "workerGroupSpecs": [{"template": {"spec": pod()}}]});
        let job = json!({"kind": "RayJob", "spec": {"rayClusterSpec": cluster, "submitterPodTemplate": {"spec": pod()}}});
        let policies = PodTemplate::all(&job).into_iter();
        let policies: Vec<_> = policies.map(|found| found.spec.restart_policy).collect();
        let always = Some(RestartPolicy::Always);
        assert_eq!(policies, [always.clone(), always, None]);
    }

    #[test]
    fn u250_the_restart_policy_of_a_replica_of_kubeflow_replaces_that_of_its_template() {
        let read = |version: &str, kind: &str, replica: &str, written: Value, template: &str| {
            let mut spec = pod();
            spec["restartPolicy"] = template.into();
            let replica = json!({replica: {"restartPolicy": written, "template": {"spec": spec}}});
            let object =
                json!({"apiVersion": version, "kind": kind, "spec": {"aReplicaSpecs": replica}});
            PodTemplate::all(&object)[0].spec.restart_policy.clone()
        };
        let (always, on_failure, never) = (
            Some(RestartPolicy::Always),
            Some(RestartPolicy::OnFailure),
            Some(RestartPolicy::Never),
        );
        for (written, template, expected) in [
            ("Always", "Never", &always),
            ("OnFailure", "Never", &on_failure),
            ("Never", "Always", &never),
            ("ExitCode", "Always", &never),
        ] {
            let read = read(
                "kubeflow.org/v1",
                "TFJob",
                "Worker",
                written.into(),
                template,
            );
            assert_eq!(read, *expected, "{written}");
        }
        // Where there is none, each kind has its own.
        for (version, kind, replica, expected) in [
            ("v1", "TFJob", "Worker", &never),
            ("v1", "PyTorchJob", "Worker", &on_failure),
            ("v1", "PaddleJob", "Worker", &on_failure),
            ("v1", "MPIJob", "Launcher", &never),
            ("v2beta1", "MPIJob", "Launcher", &on_failure),
            ("v2beta1", "MPIJob", "Worker", &never),
        ] {
            let version = format!("kubeflow.org/{version}");
            for none in [Value::Null, "".into()] {
                let read = read(&version, kind, replica, none, "Always");
                assert_eq!(read, *expected, "{version} {kind} {replica}");
            }
        }
        let other = read("a.example/v1", "TFJob", "Worker", "Always".into(), "Never");
        assert_eq!(other, never, "of another group nothing is known");
    }

    #[test]
    fn u234_what_is_in_another_object_is_read_as_what_it_is() {
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"},
            "spec": {"template": {"spec": pod()}}});
        let outer = json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": {"name": "w", "namespace": "cluster-1"},
            "spec": {"workload": {"manifests": [deployment]}}});
        let inner = &PodTemplate::all(&deployment)[0];
        let place = "spec.workload.manifests[0].spec.template.spec".to_owned();
        let expected = PodTemplate {
            place,
            ..inner.clone()
        };
        assert_eq!(PodTemplate::all(&outer), [expected]);
        // A reference is none.
        let reference =
            json!({"apiVersion": "v1", "kind": "Reference", "template": {"spec": pod()}});
        let outer = json!({"kind": "Outer", "spec": {"part": reference}});
        assert_eq!(&*PodTemplate::all(&outer)[0].kind, "Outer");
        // What a controller makes of it is not said.
        let template = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": pod()});
        let outer = json!({"kind": "FlinkDeployment", "spec": {"podTemplate": template}});
        assert_eq!(&*PodTemplate::all(&outer)[0].kind, "FlinkDeployment");
    }

    #[test]
    fn lists_are_opened() {
        let list = json!({"kind": "List", "items": [{"kind": "Pod", "metadata": {"name": "p"}, "spec": pod()}, {"kind": "JobList", "items": []}]});
        let found = PodTemplate::all(&list);
        assert_eq!(
            (found.len(), &*found[0].kind, &*found[0].name),
            (1, "Pod", "p")
        );
    }

    /// What is written here nobody has checked: it is told, and the sidecars in it are known.
    #[test]
    fn what_has_a_wrong_type_is_told_and_its_sidecars_are_known() {
        let env = json!([{"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": "true"}]);
        let spec = pod_spec(
            &json!({"containers": [{"name": "a", "command": "sh", "env": env}, {"name": "b", "env": [1]}, "c"]}),
        );
        assert_eq!(
            spec.malformed.as_deref(),
            Some("invalid type: string \"sh\", expected a list")
        );
        let containers = spec.containers.iter();
        let known: Vec<_> = containers
            .map(|one| (&*one.name, one.mark.is_sidecar()))
            .collect();
        assert_eq!(known, [("a", true), ("b", false), ("", false)]);
        let mark = json!({"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": true});
        let spec = pod_spec(&json!({"containers": [{"name": "a", "env": [mark]}]}));
        let mark = &spec.containers[0].mark;
        assert!(!mark.is_sidecar() && mark.problem.is_some());
        assert!(pod_spec(&json!({"containers": {}})).malformed.is_some());
    }
}
