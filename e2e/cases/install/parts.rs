//! What an installation is made of besides its pods, as the chart renders it and as the API server
//! and the scheduler take it.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{EvictParams, ListParams};
use kube::{Api, Config, ResourceExt as _};
use serde_json::{Value, json};
use swaplet_controller::frame::connection::connect;

use super::chart::{VALUES, rendered};
use super::installation::Installation;
use crate::world::{World, eventually};

/// The only object of a kind.
fn one(manifests: &str, kind: &str) -> Value {
    let objects = manifests
        .split("\n---\n")
        .filter(|object| object.contains(&format!("\nkind: {kind}\n")));
    let mut objects: Vec<Value> = objects
        .map(|object| serde_saphyr::from_str(object).unwrap())
        .collect();
    assert_eq!(objects.len(), 1, "{kind}");
    objects.remove(0)
}

/// Whether all labels of a selector are among these.
fn selects(selector: &Value, labels: &Value) -> bool {
    let wanted = selector["matchLabels"]
        .as_object()
        .or_else(|| selector.as_object())
        .unwrap();
    !wanted.is_empty() && wanted.iter().all(|(label, value)| labels[label] == *value)
}

#[tokio::test]
async fn what_belongs_together_finds_each_other() {
    let all = rendered(&format!("{VALUES},serviceMonitor.enabled=true"))
        .await
        .unwrap();
    let deployment = one(&all, "Deployment");
    let (template, service, monitor) = (
        &deployment["spec"]["template"],
        one(&all, "Service"),
        one(&all, "ServiceMonitor"),
    );
    let labels = &template["metadata"]["labels"];
    let spread = &template["spec"]["topologySpreadConstraints"][0];
    let (budget, policy) = (one(&all, "PodDisruptionBudget"), one(&all, "NetworkPolicy"));
    for selector in [
        &deployment["spec"]["selector"],
        &service["spec"]["selector"],
        &budget["spec"]["selector"],
        &policy["spec"]["podSelector"],
        &spread["labelSelector"],
    ] {
        assert!(selects(selector, labels), "{selector}");
    }
    assert!(selects(
        &monitor["spec"]["selector"],
        &service["metadata"]["labels"]
    ));
    assert_eq!(
        monitor["spec"]["endpoints"][0]["port"],
        service["spec"]["ports"][0]["name"]
    );
    assert_eq!(
        service["spec"]["ports"][0]["targetPort"],
        template["spec"]["containers"][0]["ports"][0]["name"]
    );
    assert_eq!(
        (
            &deployment["spec"]["replicas"],
            &budget["spec"]["maxUnavailable"]
        ),
        (&json!(2), &json!(1))
    );
    assert_eq!(
        (&spread["topologyKey"], &spread["maxSkew"]),
        (&json!("kubernetes.io/hostname"), &json!(1))
    );
    speaks_to_nothing_else(&policy).await;
    let none = "podDisruptionBudget.enabled=false,networkPolicy.enabled=false,flowSchema.enabled=false,topologySpreadConstraints=null";
    let few = rendered(&format!("{VALUES},{none}")).await.unwrap();
    for left_away in [
        "PodDisruptionBudget",
        "NetworkPolicy",
        "FlowSchema",
        "topologySpreadConstraints",
    ] {
        assert!(!few.contains(left_away), "{left_away}");
    }
}

/// It is scraped, and speaks to names, API servers and registries.
async fn speaks_to_nothing_else(policy: &Value) {
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(
        policy["spec"]["ingress"],
        json!([{"ports": [{"port": "http"}], "from": [{"podSelector": {}}]}])
    );
    let monitoring = "networkPolicy.ingressFrom[0].namespaceSelector.matchLabels.team=monitoring";
    let scraped = one(
        &rendered(&format!("{VALUES},{monitoring}")).await.unwrap(),
        "NetworkPolicy",
    );
    let from = json!([{"podSelector": {}}, {"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}]);
    assert_eq!(scraped["spec"]["ingress"][0]["from"], from);
    let to = |port: u16| json!({"port": port});
    let names = json!([{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]);
    assert_eq!(
        policy["spec"]["egress"],
        json!([{"ports": names}, {"ports": [to(443), to(6443), to(8443), to(16443)]}])
    );
}

#[tokio::test]
async fn an_installation_is_what_its_values_say_and_its_budget_is_kept() {
    let world = World::new("install-parts").await;
    let installation = Installation::new(&world).await;
    let spread = r#"topologySpreadConstraints=[{"maxSkew":2,"topologyKey":"kubernetes.io/hostname","whenUnsatisfiable":"DoNotSchedule"}]"#;
    let more = [
        "--set",
        "priorityClassName=system-cluster-critical,resources.limits.memory=256Mi",
        "--set-json",
        spread,
    ];
    installation.helm("install", &more).await;

    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &installation.namespace);
    let replicas = pods.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(replicas.len(), 2);
    for replica in &replicas {
        let spec = replica.spec.as_ref().unwrap();
        assert_eq!(
            (spec.priority, spec.containers[0].args.is_some()),
            (Some(2_000_000_000), true)
        );
        let resources = serde_json::to_value(&spec.containers[0].resources).unwrap();
        assert_eq!(
            resources,
            json!({"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}})
        );
    }

    // Of two replicas one may be evicted at a time, or as many as the value says.
    let budgets: Api<PodDisruptionBudget> =
        Api::namespaced(world.client.clone(), &installation.namespace);
    let counts = async |allowed: i32| {
        eventually(&format!("{allowed} disruptions to be allowed"), || async {
            let status = budgets.get("swaplet").await.unwrap().status?;
            (status.expected_pods == 2 && status.disruptions_allowed == allowed).then_some(())
        })
        .await;
    };
    counts(1).await;
    installation
        .helm(
            "upgrade",
            &[
                &more[..],
                &["--set", "podDisruptionBudget.maxUnavailable=0"],
            ]
            .concat(),
        )
        .await;
    counts(0).await;
    is_not_evicted(&installation.namespace, &replicas[0].name_any()).await;
    installation.uninstall().await;
    installation.done().await;
    world.done().await;
}

async fn is_not_evicted(namespace: &str, pod: &str) {
    // By a client that takes the first answer: kube's own asks 15 times where it is told to come
    // back, which takes six minutes.
    let pods: Api<Pod> =
        Api::namespaced(connect(Config::infer().await.unwrap()).unwrap(), namespace);
    let refused = pods.evict(pod, &EvictParams::default()).await.unwrap_err();
    assert!(
        matches!(&refused, kube::Error::Api(status) if status.code == 429),
        "{refused}"
    );
}
