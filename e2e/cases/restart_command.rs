//! `swaplet restart` with a user's rights: real Deployments, budgets and containers, and nothing of
//! swaplet installed.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{Patch, PostParams};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::audit::written_in;
use crate::images::push_work_as;
use crate::pods::{EXITS_0, container, is_ready, pod, spec, status_of};
use crate::world::{World, eventually, variable};

struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

/// `swaplet restart` as the account of the case, which has the rights of `deploy/rbac.yaml` and
/// these.
async fn restart(world: &World, arguments: &[&str]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_swaplet"))
        .args([
            "restart",
            "--direct",
            "-n",
            &world.namespace,
            "--kubeconfig",
        ])
        .arg(&world.kubeconfig)
        .args(arguments)
        .output()
        .await
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let ran = Ran {
        code: output.status.code(),
        out: text(&output.stdout),
        err: text(&output.stderr),
    };
    println!("{}{}", ran.err, ran.out);
    ran
}

/// What a user needs besides the right to get and patch pods: to see workloads and budgets.
async fn may_look_at_workloads(world: &World) {
    let rules = json!([
        {"apiGroups": ["apps"], "resources": ["deployments", "replicasets"], "verbs": ["get", "list"]},
        {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "patch"]},
    ]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "restart"}, "rules": rules});
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "restart"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "restart"},
        "subjects": [{"kind": "ServiceAccount", "name": "swaplet", "namespace": world.namespace}],
    });
    create::<k8s_openapi::api::rbac::v1::Role>(world, role).await;
    create::<k8s_openapi::api::rbac::v1::RoleBinding>(world, binding).await;
}

async fn create<K>(world: &World, object: Value)
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + serde::de::DeserializeOwned,
{
    world
        .api::<K>()
        .create(
            &PostParams::default(),
            &serde_json::from_value(object).unwrap(),
        )
        .await
        .unwrap();
}

fn containers(world: &World) -> Vec<Value> {
    ["app", "log"]
        .map(|name| container(world, name, EXITS_0))
        .to_vec()
}

fn started(pod: &Pod, name: &str) -> Timestamp {
    status_of(pod, name)
        .unwrap()
        .state
        .as_ref()
        .unwrap()
        .running
        .as_ref()
        .unwrap()
        .started_at
        .as_ref()
        .unwrap()
        .0
}

#[tokio::test]
async fn one_container_is_restarted_under_every_policy_with_the_rights_of_a_user() {
    let world = World::new("restart-cli").await;
    may_look_at_workloads(&world).await;
    for policy in ["Always", "OnFailure", "Never"] {
        let name = policy.to_lowercase();
        world
            .create_pod(pod(&name, spec(policy, containers(&world))))
            .await;
        let before = world.pod_is(&name, "ready", is_ready).await;
        let ran = restart(&world, &[&name, "-c", "app"]).await;
        assert_eq!(ran.code, Some(0));
        let after = world.api::<Pod>().get(&name).await.unwrap();
        assert_eq!(
            (
                status_of(&after, "app").unwrap().restart_count,
                status_of(&after, "log").unwrap().restart_count
            ),
            (1, 0),
            "{policy}"
        );
        assert_eq!(
            (&before.metadata.uid, started(&before, "log")),
            (&after.metadata.uid, started(&after, "log")),
            "{policy}"
        );
        assert!(
            started(&after, "app") >= started(&before, "app") && is_ready(&after),
            "{policy}"
        );
        assert!(
            ran.out.contains("Succeeded") && ran.err.contains("@sha256:"),
            "{policy}"
        );
    }
    let ours: Vec<_> = written_in(&world.namespace)
        .into_iter()
        .filter(|write| write.code < 400)
        .map(|write| write.resource)
        .collect();
    assert_eq!(ours, ["pods"; 3], "one patch per restart, and nothing else");
    world.done().await;
}

/// Before, the fourth stopped the container and did not start it again.
#[tokio::test]
async fn l1_the_command_repeated_loses_nothing() {
    let world = World::new("restart-cli-six").await;
    may_look_at_workloads(&world).await;
    let mut native = container(&world, "native", EXITS_0);
    native["restartPolicy"] = json!("Always");
    let mut spec = spec("Never", containers(&world));
    spec["initContainers"] = json!([native]);
    world.create_pod(pod("p", spec)).await;
    world.pod_is("p", "ready", is_ready).await;
    for nth in 1..=6 {
        let ran = restart(&world, &["p", "-c", "app"]).await;
        assert_eq!(ran.code, Some(0), "{nth}");
    }
    let after = world.api::<Pod>().get("p").await.unwrap();
    assert_eq!(status_of(&after, "app").unwrap().restart_count, 6);
    // What requests restart, the command restarts (R17).
    let ran = restart(&world, &["p", "-c", "native"]).await;
    assert_eq!(ran.code, Some(0));
    world.done().await;
}

/// Somebody updates the image, and restarts the container while the old one stops.
#[tokio::test]
async fn g2_a_restart_does_not_bring_back_the_image_that_was_just_replaced() {
    let world = World::without_leash("restart-cli-updated").await;
    may_look_at_workloads(&world).await;
    let registry = variable("SWAPLET_E2E_REGISTRY");
    let [one, two] = [1, 3].map(|tag| format!("{registry}/e2e/g2-{}:{tag}", std::process::id()));
    push_work_as(&registry, &one, "one").await;
    push_work_as(&registry, &two, "two").await;
    let slow = "trap 'sleep 8; exit 143' TERM; sleep 3600 & wait";
    let mut app = container(&world, "app", slow);
    app["image"] = json!(one);
    let mut spec = spec("Always", vec![app, container(&world, "log", EXITS_0)]);
    spec["terminationGracePeriodSeconds"] = json!(30);
    world.create_pod(pod("p", spec)).await;
    let before = world.pod_is("p", "ready", is_ready).await;
    let id = |pod: &Pod| status_of(pod, "app").unwrap().image_id.clone();
    let update = json!({"spec": {"containers": [{"name": "app", "image": two}]}});
    world
        .api::<Pod>()
        .patch("p", &Default::default(), &Patch::Strategic(update))
        .await
        .unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let ran = restart(&world, &["p", "-c", "app"]).await;
    assert_eq!(ran.code, Some(0));
    let after = world.pod_is("p", "ready", is_ready).await;
    assert_ne!(id(&before), id(&after), "the new bytes run");
    let image = after.spec.as_ref().unwrap().containers[0].image.as_deref();
    let (_, digest) = id(&after)
        .split_once('@')
        .map(|(name, digest)| (name.to_owned(), digest.to_owned()))
        .unwrap();
    assert!(
        image.is_some_and(
            |image| image == two || image.starts_with(&two) && image.ends_with(&digest)
        ),
        "{image:?}"
    );
    world.done().await;
}

#[tokio::test]
async fn a_deployment_is_restarted_pod_by_pod_as_its_budget_allows() {
    let world = World::new("restart-deploy").await;
    may_look_at_workloads(&world).await;
    let labels = json!({"app": "web"});
    let budget = json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": labels}}});
    create::<PodDisruptionBudget>(&world, budget).await;
    let template =
        json!({"metadata": {"labels": labels}, "spec": spec("Always", containers(&world))});
    let web = json!({"metadata": {"name": "web"}, "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}});
    create::<Deployment>(&world, web).await;
    eventually("the budget to allow one disruption", || async {
        let budget = world.api::<PodDisruptionBudget>().get("web").await.unwrap();
        budget
            .status
            .filter(|status| status.disruptions_allowed == 1 && status.current_healthy == 3)
    })
    .await;
    // More than the budget allows.
    let ran = restart(
        &world,
        &["deploy/web", "-c", "app", "--max-unavailable", "100%"],
    )
    .await;
    assert_eq!(ran.code, Some(0));
    let pods: Api<Pod> = world.api();
    for pod in pods.list(&Default::default()).await.unwrap() {
        assert_eq!(
            (
                status_of(&pod, "app").unwrap().restart_count,
                status_of(&pod, "log").unwrap().restart_count
            ),
            (1, 0)
        );
    }
    // Not by the times of starts, which are whole seconds.
    let told = ran.err.lines().filter_map(|line| {
        let ends = line.contains(": restarted in ");
        (ends || line.ends_with(" app: Recreating")).then_some(ends)
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [false, true, false, true, false, true],
        "one after another: {}",
        ran.err
    );
    assert!(
        ran.err
            .contains("PodDisruptionBudget web allows no disruption")
    );
    world.done().await;
}
