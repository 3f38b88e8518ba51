//! Sidecars that nobody has marked, and the policies that name them.

mod examples;
pub mod injected;
mod left;
mod on_virtual_nodes;

use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, PostParams};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::audit::{Written, swapped_in, written_in};
use crate::of_cluster::OfCluster;
use crate::world::{World, create_crd};

/// The collector and the proxy of these cases: both have presets, so the chart opens them.
pub const COLLECTOR: &str = "fluent-bit";
pub const PROXY: &str = "istio-proxy";

/// So late a busy machine may be. Nothing else ends these sidecars, which hang for an hour; a later
/// end would come from something that happens to the pod, and not from its time.
const LATE: i64 = 120;

static CRDS: OnceCell<()> = OnceCell::const_new();

/// The API server knows both kinds of policies.
pub async fn crds_are_there() {
    CRDS.get_or_init(|| async {
        create_crd("sidecarpolicies").await;
        create_crd("namespacedsidecarpolicies").await;
    })
    .await;
}

fn resource(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: "swaplet.io".to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: "swaplet.io/v1alpha1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

fn of_cluster() -> ApiResource {
    resource("SidecarPolicy", "sidecarpolicies")
}

fn of_namespace() -> ApiResource {
    resource("NamespacedSidecarPolicy", "namespacedsidecarpolicies")
}

impl World {
    /// A policy for the pods of this namespace that have the label `case` with its name.
    pub async fn policy(&self, name: &str, sidecars: Value) {
        let resource = of_namespace();
        let selector = json!({"matchLabels": {"case": name}});
        let spec =
            json!({"podSelector": selector, "ownerKinds": ["Job", "None"], "sidecars": sidecars});
        Api::<DynamicObject>::namespaced_with(self.client.clone(), &self.namespace, &resource)
            .create(
                &PostParams::default(),
                &DynamicObject::new(name, &resource).data(json!({"spec": spec})),
            )
            .await
            .unwrap();
    }

    /// A policy of the cluster that looks at this namespace only, and has its name. The namespace does
    /// not take it along.
    pub async fn cluster_policy(&self, sidecars: Value) -> OfCluster {
        let goes = OfCluster::new(&["sidecarpolicy"], &self.namespace);
        let resource = of_cluster();
        let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": self.namespace}});
        let spec = json!({"namespaceSelector": selector, "sidecars": sidecars});
        self.cluster_policies()
            .create(
                &PostParams::default(),
                &DynamicObject::new(&self.namespace, &resource).data(json!({"spec": spec})),
            )
            .await
            .unwrap();
        goes
    }

    /// The policies of this namespace.
    pub fn namespaced_policies(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &of_namespace())
    }

    pub fn cluster_policies(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &of_cluster())
    }

    /// When these writes to a pod came in.
    fn written_at(&self, pod: &str, which: impl Fn(&Written) -> bool) -> Vec<Timestamp> {
        let writes = written_in(&self.namespace).into_iter();
        writes
            .filter(|write| write.pod == pod && which(write))
            .map(|write| write.at)
            .collect()
    }

    /// Asserts that the proxy of a pod was ended by a second write, when the collector had, which
    /// takes 2 s to stop.
    pub fn assert_in_order(&self, pod: &Pod) {
        let (collector, proxy) = (end_of(pod, COLLECTOR), end_of(pod, PROXY));
        assert!(
            collector.finished() <= proxy.finished(),
            "{collector:?} {proxy:?}"
        );
        let name = pod.metadata.name.as_deref().unwrap();
        let ended = self.written_at(name, Written::is_applied_swap);
        assert_eq!(ended.len(), 2, "one for each step");
        let between = ended[1].duration_since(ended[0]);
        assert!(between >= SignedDuration::from_secs(2), "{between:?}");
    }

    /// Asserts that the pod was ended so long after its main container, and not before: its node
    /// says in which second that ended.
    pub fn assert_ended_after(&self, pod: &Pod, seconds: i64) {
        let name = pod.metadata.name.as_deref().unwrap();
        let is_end = |write: &Written| write.is_applied_swap() || write.is_applied_finish();
        let first = self.written_at(name, is_end)[0];
        let after = first.duration_since(end_of(pod, "main").finished());
        println!("{name} was ended {after:?} after its main container");
        assert!(
            (seconds..seconds + LATE).contains(&after.as_secs()),
            "{name} was ended {after:?} after its main container"
        );
    }

    /// Asserts that the collector of a pod has ended by itself after the main container: nothing was
    /// done to it.
    pub fn assert_ended_by_itself(&self, pod: &Pod) {
        let (main, collector) = (end_of(pod, "main"), end_of(pod, COLLECTOR));
        assert!(
            collector.finished() > main.finished() && collector.exit_code == 0,
            "{main:?} {collector:?}"
        );
        let name = pod.metadata.name.as_ref().unwrap();
        assert!(!swapped_in(&self.namespace).contains(name));
    }
}

/// How a container of a pod ended.
pub fn end_of(pod: &Pod, container: &str) -> ContainerStateTerminated {
    let statuses = pod.status.as_ref().unwrap().container_statuses.iter();
    let status = statuses.flatten().find(|status| status.name == container);
    let state = status.and_then(|status| status.state.clone());
    state
        .and_then(|state| state.terminated)
        .unwrap_or_else(|| panic!("{container} has not ended"))
}

/// The time of an end, in whole seconds.
pub trait Times {
    fn finished(&self) -> Timestamp;
}

impl Times for ContainerStateTerminated {
    fn finished(&self) -> Timestamp {
        self.finished_at.clone().unwrap().0
    }
}

/// A pod or a Job for the policy of this name.
pub fn labelled(mut object: Value, case: &str) -> Value {
    let labels = json!({"case": case});
    if object["kind"] == "Job" {
        object["spec"]["template"]["metadata"]["labels"] = labels;
    } else {
        object["metadata"]["labels"] = labels;
    }
    object
}

/// What the API server makes of a policy, without keeping it.
async fn tried(world: &World, spec: &Value) -> Result<DynamicObject, String> {
    let resource = of_namespace();
    let policies: Api<DynamicObject> =
        Api::namespaced_with(world.client.clone(), &world.namespace, &resource);
    let policy = DynamicObject::new("tried", &resource).data(json!({"spec": spec}));
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    policies
        .create(&params, &policy)
        .await
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn the_crd_refuses_what_no_policy_can_mean_and_fills_in_the_rest() {
    crds_are_there().await;
    let world = World::new("policy-crd").await;
    let rule = |rule: Value| json!({"sidecars": [rule]});
    for (spec, word) in [
        (json!({"sidecars": []}), "spec.sidecars"),
        (rule(json!({})), "either a preset, or name or image or both"),
        (
            rule(json!({"preset": "istio", "name": "a"})),
            "either a preset, or name or image or both",
        ),
        (rule(json!({"name": "UPPER"})), "sidecars[0].name"),
        (
            rule(json!({"name": "a", "method": "Kill"})),
            "sidecars[0].method",
        ),
        (
            rule(json!({"name": "a", "method": "Finish", "exitImage": "e:1"})),
            "an exitImage is for the methods Auto and Swap",
        ),
        (
            rule(json!({"name": "a", "delaySeconds": 86_401})),
            "delaySeconds",
        ),
        (
            rule(json!({"name": "a", "waitForExit": {"deadlineSeconds": 0}})),
            "deadlineSeconds",
        ),
        (rule(json!({"name": "a", "order": 1_001})), "order"),
        (
            json!({"ownerKinds": ["batch/v1 Job"], "sidecars": [{"name": "a"}]}),
            "ownerKinds",
        ),
        (
            json!({"podSelector": {"matchLabels": {"a": "not a value"}}, "sidecars": [{"name": "a"}]}),
            "podSelector",
        ),
    ] {
        let refused = tried(&world, &spec).await.expect_err("it is refused");
        assert!(refused.contains(word), "{spec}: {refused}");
    }
    let accepted = tried(&world, &rule(json!({"preset": "istio", "order": 1})))
        .await
        .unwrap();
    let spec = &accepted.data["spec"];
    assert_eq!(spec["ownerKinds"], json!(["Job"]));
    assert_eq!(spec["sidecars"][0]["method"], "Auto");
    world.done().await;
}
