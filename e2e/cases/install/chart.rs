//! What the chart makes of its values, as the real Helm renders it.

use std::path::Path;

use serde_json::Value;
use tokio::process::Command;

use crate::restart::install_crd;
use crate::world::{kubectl, variable};

pub const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/chart");
const MANIFESTS: &str = include_str!("../../../deploy/swaplet.yaml");
/// The values of `deploy/swaplet.yaml`: those that must be set.
pub const VALUES: &str = "image=registry.example/swaplet/controller:v1,terminate.exitImage=registry.example/swaplet/exit:v1";

/// The program.
pub fn helm() -> String {
    let helm = variable("SWAPLET_E2E_HELM");
    assert!(
        Path::new(&helm).exists(),
        "{helm} is missing: run e2e/cluster build"
    );
    helm
}

/// What Helm prints, or what it complains of.
pub async fn run_helm(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(helm()).args(arguments).output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() {
        Ok(text(output.stdout))
    } else {
        Err(text(output.stderr))
    }
}

/// With these values, in the namespace `swaplet`.
pub async fn rendered(values: &str) -> Result<String, String> {
    run_helm(&[
        "template",
        "swaplet",
        CHART,
        "--namespace",
        "swaplet",
        "--set",
        values,
    ])
    .await
}

/// The names of all objects of a kind, sorted.
fn names<'a>(manifests: &'a str, kind: &str) -> Vec<&'a str> {
    let kind = format!("\nkind: {kind}\n");
    let objects = manifests
        .split("\n---\n")
        .filter(|object| object.contains(&kind));
    let mut names: Vec<_> = objects
        .map(|object| {
            object
                .split_once("\n  name: ")
                .unwrap()
                .1
                .lines()
                .next()
                .unwrap()
        })
        .collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn the_plain_manifests_are_what_the_chart_renders() {
    let (head, manifests) = MANIFESTS.split_once("---\n").unwrap();
    assert!(head.lines().all(|line| line.starts_with('#')), "{head}");
    // Who applies them is not Helm.
    let rendered = rendered(VALUES).await.unwrap();
    let is_by_helm = |line: &&str| line.contains("managed-by: Helm");
    assert!(rendered.lines().any(|line| is_by_helm(&line)));
    let plain = rendered
        .split_inclusive('\n')
        .filter(|line| !is_by_helm(line));
    assert!(
        plain.collect::<String>() == format!("---\n{manifests}"),
        "deploy/swaplet.yaml is not what the chart renders; its first lines say how to make it"
    );
}

/// The leash knows the controller by its account: another name of it has to be known there too.
#[tokio::test]
async fn names_and_labels_of_ones_own_are_used_everywhere() {
    let values = "image.repository=r.example/c,image.tag=v2,terminate.exitImage.repository=r.example/exit,\
        terminate.exitImage.tag=v3,parkImage=r.example/park:v1,fullnameOverride=ender,serviceAccount.create=false,\
        serviceAccount.name=theirs,podLabels.profile=fargate,extraVolumes[0].name=ca,extraVolumes[0].secret.secretName=ca,\
        extraVolumeMounts[0].name=ca,extraVolumeMounts[0].mountPath=/ca,restart.enabled=true";
    let all = rendered(values).await.unwrap();
    for wanted in [
        "image: \"r.example/c:v2\"",
        "--exit-image=r.example/exit:v3",
        "serviceAccountName: theirs",
        "profile: fargate",
        "secretName: ca",
        "mountPath: /ca",
        "\"system:serviceaccount:swaplet:theirs\"",
        "[\"r.example/exit:v3\"]",
    ] {
        assert!(all.contains(wanted), "{wanted}");
    }
    assert_eq!(names(&all, "ServiceAccount"), [""; 0]);
    assert_eq!(names(&all, "Deployment"), ["ender"]);
    for wrong in [
        "serviceaccount:swaplet:swaplet",
        "serviceAccountName: ender",
    ] {
        assert!(!all.contains(wrong), "{wrong}");
    }
}

/// Only what is listed may be ended unmarked, and nothing where policies are off.
#[tokio::test]
async fn policies_of_sidecars_bring_their_rights_crds_and_list() {
    let off = rendered(VALUES).await.unwrap();
    assert!(off.contains(r#"'["-"]'"#) && !off.contains("swaplet.io/sidecarpolicies"));
    let on = rendered(&format!(
        "{VALUES},sidecarPolicies.enabled=true,sidecarPolicies.containers={{team-*}}"
    ))
    .await
    .unwrap();
    assert!(on.contains(r#"'["team-*"]'"#) && !on.contains(r#"'["-"]'"#));
    assert!(on.contains("- --sidecar-policies\n") && !off.contains("--sidecar-policies"));
    assert_eq!(
        names(&on, "CustomResourceDefinition"),
        [
            "namespacedsidecarpolicies.swaplet.io",
            "sidecarpolicies.swaplet.io"
        ]
    );
    assert!(names(&on, "ClusterRoleBinding").contains(&"swaplet-sidecar-policies"));
    assert!(on.contains("aggregate-to-edit: \"true\""));
    let refused = rendered(&format!("{VALUES},sidecarPolicies.containers={{*}}"))
        .await
        .expect_err("every container is no list");
    assert!(refused.contains("sidecarPolicies"), "{refused}");
}

/// What is said after an installation. Helm prints that only to those who install, and by the version
/// of their cluster: so the text is rendered as a manifest of a copy of the chart.
async fn notes(values: &str, kubernetes: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let chart = folder.path().join("chart");
    let copied = Command::new("cp")
        .arg("-rL")
        .arg(CHART)
        .arg(&chart)
        .status()
        .await;
    assert!(copied.unwrap().success());
    let notes = std::fs::read_to_string(chart.join("templates/NOTES.txt")).unwrap();
    let manifest = format!(
        "{{{{- define \"notes\" }}}}{notes}{{{{ end }}}}\nkind: Notes\nsaid: {{{{ include \"notes\" . | toJson }}}}\n"
    );
    std::fs::write(chart.join("templates/said.yaml"), manifest).unwrap();
    let values = format!("{VALUES},{values}");
    let arguments = [
        "template",
        "swaplet",
        chart.to_str().unwrap(),
        "--set",
        &values,
    ];
    let only = [
        "--show-only",
        "templates/said.yaml",
        "--kube-version",
        kubernetes,
    ];
    run_helm(&[&arguments[..], &only].concat()).await.unwrap()
}

#[tokio::test]
async fn a2_who_installs_is_told_that_nothing_is_restarted_without_the_leash() {
    const NOTHING: &str = "BUT IT RESTARTS NOTHING";
    let old = notes("restart.enabled=true", "1.29.0").await;
    assert!(
        old.contains(NOTHING) && old.contains("older than 1.30"),
        "{old}"
    );
    let off = notes("restart.enabled=true,leash.enabled=false", "1.34.0").await;
    assert!(
        off.contains(NOTHING) && off.contains("leash.enabled is false"),
        "{off}"
    );
    for (values, kubernetes) in [
        ("restart.enabled=true", "1.30.0"),
        ("restart.enabled=true,restart.withoutLeash=true", "1.29.0"),
        ("leash.enabled=false", "1.29.0"),
    ] {
        let others = notes(values, kubernetes).await;
        assert!(
            others.contains("swaplet works in") && !others.contains(NOTHING),
            "{others}"
        );
    }
}

async fn rights_follow_restart_on_config() {
    let config = rendered(&format!(
        "{VALUES},restart.enabled=true,restart.onConfig.enabled=true"
    ))
    .await
    .unwrap();
    let bound = names(&config, "ClusterRoleBinding");
    assert!(
        bound.contains(&"swaplet-restart-on") && !bound.contains(&"swaplet-restart-on-secrets"),
        "{bound:?}"
    );
    assert!(config.contains("--restart-on-config"));
}

#[tokio::test]
async fn rights_follow_what_is_on() {
    let all = rendered(VALUES).await.unwrap();
    assert_eq!(
        names(&all, "ClusterRoleBinding"),
        ["swaplet", "swaplet-nodes"]
    );
    assert_eq!(names(&all, "RoleBinding"), ["swaplet-state"]);
    assert_eq!(names(&all, "CustomResourceDefinition"), [""; 0]);

    let some = rendered(&format!(
        "{VALUES},namespaces={{a,b}},nodes.watch=false,restart.enabled=true,leash.enabled=false"
    ))
    .await
    .unwrap();
    assert_eq!(
        names(&some, "ClusterRoleBinding"),
        ["swaplet-restart-leash"]
    );
    assert_eq!(
        names(&some, "RoleBinding"),
        [
            "swaplet",
            "swaplet",
            "swaplet-restart",
            "swaplet-restart",
            "swaplet-state"
        ]
    );
    assert_eq!(
        names(&some, "CustomResourceDefinition"),
        ["containerrecreaterequests.apps.kruise.io"]
    );
    rights_follow_jobs().await;
    rights_follow_restart_on_config().await;
    assert!(some.contains("helm.sh/resource-policy: keep"));

    assert!(some.contains("- pods/status\n"));
    let phase_is_not_written = rendered(&format!(
        "{VALUES},terminate.finish=never,leash.enabled=false"
    ))
    .await
    .unwrap();
    assert!(!phase_is_not_written.contains("- pods/status\n"));

    let more = rendered(&format!(
        "{VALUES},warm.enabled=true,openkruise.enabled=true"
    ))
    .await
    .unwrap();
    for role in [
        "swaplet-warm",
        "swaplet-warm-nodes",
        "swaplet-requests",
        "swaplet-openkruise",
    ] {
        assert!(names(&more, "ClusterRole").contains(&role), "{role}");
    }
}

async fn rights_follow_jobs() {
    let jobs = rendered(&format!(
        "{VALUES},parkImage=r.example/park:1,warm.enabled=true,warm.namespace=w,warm.jobs.enabled=true,warm.jobs.secretNamespaces={{a}},warm.jobs.exitImages=true,\
         warm.jobs.shape=impossible-command,\
         warm.jobs.startupTaint=true,warm.jobs.startupTaintSeconds=60,\
         warm.jobs.imageCaches=true,warm.jobs.imageCacheDays=3,warm.jobs.imageCacheGiB=40,\
         predownload.enabled=true,namespaces={{a}}"
    ))
    .await
    .unwrap();
    let bound = names(&jobs, "RoleBinding");
    let expected = [
        "swaplet",
        "swaplet-predownload",
        "swaplet-pull-jobs",
        "swaplet-pull-jobs-with-secrets",
        "swaplet-state",
        "swaplet-warm",
    ];
    assert_eq!(bound, expected);
    for role in ["swaplet-warm-startup-taint", "swaplet-warm-image-caches"] {
        assert!(names(&jobs, "ClusterRoleBinding").contains(&role), "{role}");
    }
    for policy in ["swaplet-leash-nodes", "swaplet-leash-image-caches"] {
        assert!(
            names(&jobs, "ValidatingAdmissionPolicy").contains(&policy),
            "{policy}"
        );
    }
    let crds = [
        "imagelistpulljobs.apps.kruise.io",
        "imagepulljobs.apps.kruise.io",
    ];
    assert_eq!(names(&jobs, "CustomResourceDefinition"), crds);
    for word in [
        "- --warm\n",
        "- --warm-namespace=w\n",
        "- --warm-shape=impossible-command\n",
        "- --warm-exit-images\n",
        "- --warm-startup-taint\n",
        "- --warm-startup-taint-timeout=60\n",
        "- --warm-image-caches\n",
        "- --warm-image-cache-days=3\n",
        "- --warm-image-cache-size=40\n",
        "- --predownload\n",
        "- --park-image=r.example/park:1\n",
        r#"["w","a"]"#,
    ] {
        assert!(jobs.contains(word), "{word}");
    }
}

/// For everybody where it is asked for, in the namespaces that are named, and nowhere else.
#[tokio::test]
async fn deletion_protection_is_policies_alone() {
    let off = rendered(VALUES).await.unwrap();
    assert!(!off.contains("delete-protection"));
    let on = rendered(&format!(
        "{VALUES},leash.enabled=false,protection.enabled=true"
    ))
    .await
    .unwrap();
    let wanted = ["contents", "counts", "network", "workloads"]
        .map(|name| format!("swaplet-protection-{name}"));
    assert_eq!(names(&on, "ValidatingAdmissionPolicy"), wanted);
    assert_eq!(names(&on, "ValidatingAdmissionPolicyBinding"), wanted);
    assert_eq!(
        names(&on, "ClusterRoleBinding"),
        names(&off, "ClusterRoleBinding")
    );
    assert!(!on.contains("namespaceSelector:"));
    let some = rendered(&format!(
        "{VALUES},leash.enabled=false,protection.enabled=true,namespaces={{a,b}}"
    ))
    .await
    .unwrap();
    assert_eq!(some.matches("namespaceSelector:").count(), 4);
    let counted = rendered(&format!(
        "{VALUES},protection.enabled=true,protection.count=true,protection.crds={{widgets.example.com}}"
    ))
    .await
    .unwrap();
    let bound = names(&counted, "ClusterRoleBinding");
    for role in ["swaplet-protect", "swaplet-protect-crds"] {
        assert!(bound.contains(&role), "{role}");
    }
    assert!(counted.contains("apiGroups: [\"example.com\"]\n    resources: [\"widgets\"]"));
    for words in ["- --protect\n", "name: swaplet-leash-protected\n"] {
        assert!(counted.contains(words) && !on.contains(words), "{words}");
    }
    let alone = format!("{VALUES},protection.count=true");
    let refused = rendered(&alone).await.expect_err("there are no policies");
    assert!(refused.contains("needs protection.enabled"), "{refused}");
    let values = format!("{VALUES},protection.enabled=true");
    let old = [
        "template",
        "swaplet",
        CHART,
        "--set",
        &values,
        "--kube-version",
        "1.29.0",
    ];
    let refused = run_helm(&old).await.expect_err("no policies before 1.30");
    assert!(
        refused.contains("protection.enabled needs Kubernetes 1.30"),
        "{refused}"
    );
}

#[tokio::test]
async fn what_watches_the_controller_is_what_deploy_has() {
    let none = rendered(VALUES).await.unwrap();
    for kind in ["ServiceMonitor", "PrometheusRule"] {
        assert_eq!(names(&none, kind), [""; 0]);
    }
    assert_eq!(
        names(&none, "ConfigMap"),
        ["swaplet-config"],
        "no dashboard"
    );
    let on = ["serviceMonitor", "prometheusRule", "dashboard"]
        .map(|part| format!(",{part}.enabled=true"))
        .concat();
    let all = rendered(&format!(
        "{VALUES}{on},prometheusRule.labels.release=prometheus"
    ))
    .await
    .unwrap();
    let of_kind = |kind: &str| {
        let object = all
            .split("\n---\n")
            .filter(|object| object.contains(&format!("\nkind: {kind}\n")))
            .last()
            .unwrap();
        serde_saphyr::from_str::<Value>(object).unwrap()
    };
    let rules = of_kind("PrometheusRule");
    assert_eq!(
        rules["spec"],
        serde_saphyr::from_str::<Value>(include_str!("../../../deploy/alerts.yaml")).unwrap()
    );
    assert_eq!(rules["metadata"]["labels"]["release"], "prometheus");
    let dashboard = of_kind("ConfigMap");
    assert_eq!(
        dashboard["data"]["swaplet.json"],
        include_str!("../../../deploy/dashboard.json")
    );
    assert_eq!(dashboard["metadata"]["labels"]["grafana_dashboard"], "1");
    assert_eq!(
        of_kind("ServiceMonitor")["spec"]["endpoints"][0]["path"],
        "/metrics"
    );
}

async fn has_the_exit_images() {
    let all = rendered(&format!(
        "{VALUES},terminate.derivedRepository=r.example/derived,terminate.exitImages={{r.example/exit/*}}"
    ))
    .await
    .unwrap();
    let own = ["events", "pods", "pods-status", "state", "warmers"]
        .map(|policy| format!("swaplet-leash-{policy}"));
    assert_eq!(names(&all, "ValidatingAdmissionPolicy"), own);
    assert_eq!(names(&all, "ValidatingAdmissionPolicyBinding"), own);
    assert!(
        all.contains(
            r#"["registry.example/swaplet/exit:v1","r.example/exit/*","r.example/derived@*"]"#
        ),
        "the exit images"
    );
    assert!(
        !all.contains("registry.example/swaplet/park"),
        "a parameter that was not set"
    );
}

#[tokio::test]
async fn the_leash_is_that_of_the_installation() {
    let leash = |values: &'static str| async move {
        rendered(&format!("{VALUES},{values}")).await.unwrap()
    };
    has_the_exit_images().await;
    let parks = leash(
        "restart.enabled=true,parkImage=r.example/park:2,leash.parkImages={r.example/park:1}",
    )
    .await;
    assert!(
        parks.contains(r#"["r.example/park:2","r.example/park:1"]"#)
            && parks.contains("--park-image=r.example/park:2"),
        "the park images"
    );

    // Who may ask matters where it works, and nowhere else.
    let some = leash("restart.enabled=true,namespaces={a}").await;
    for policy in ["requests", "parked"] {
        let found = some
            .split("\n---\n")
            .find(|object| object.contains(&format!("name: swaplet-leash-{policy}\n")))
            .unwrap();
        assert!(found.contains("namespaceSelector"), "{found}");
    }
    for words in [
        "- --leash=swaplet-leash\n",
        "- swaplet-leash-pods\n",
        "- swaplet-leash-parked\n",
    ] {
        assert!(some.contains(words), "{words}");
    }
    let without = leash("restart.enabled=true,restart.withoutLeash=true,leash.enabled=false").await;
    assert!(without.contains("- --restart-without-leash\n") && !without.contains("- --leash="));
    assert_eq!(
        names(&without, "ClusterRoleBinding"),
        ["swaplet", "swaplet-nodes", "swaplet-restart"]
    );

    assert_eq!(
        names(
            &leash("leash.enabled=false").await,
            "ValidatingAdmissionPolicy"
        ),
        [""; 0]
    );
    has_the_name_of_its_installation().await;
}

async fn has_the_name_of_its_installation() {
    let elsewhere = run_helm(&[
        "template",
        "other",
        CHART,
        "--namespace",
        "teams",
        "--set",
        VALUES,
    ])
    .await
    .unwrap();
    assert!(
        elsewhere.contains("system:serviceaccount:teams:other-swaplet\"")
            && !elsewhere.contains("serviceaccount:swaplet:")
    );
    assert_eq!(
        names(&elsewhere, "ValidatingAdmissionPolicy")[0],
        "teams-other-swaplet-leash-events"
    );
}

/// What would let one who may warm images make pods with the account of the controller.
#[tokio::test]
async fn a6_the_account_that_warms_has_a_namespace_of_its_own_under_pod_security() {
    let all = rendered(&format!("{VALUES},warm.enabled=true"))
        .await
        .unwrap();
    let namespace = all
        .split("\n---\n")
        .find(|object| object.contains("kind: Namespace\n"))
        .unwrap();
    let namespace: Value = serde_saphyr::from_str(namespace).unwrap();
    assert_eq!(namespace["metadata"]["name"], "swaplet-warm");
    assert_eq!(
        namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"],
        "restricted"
    );
    let account = "\"system:serviceaccount:swaplet-warm:swaplet-warm\"";
    assert!(
        all.contains(account) && all.contains(r#"["swaplet-warm"]"#),
        "it is on the leash of warmer pods"
    );
    let elsewhere = run_helm(&[
        "template",
        "other",
        CHART,
        "--namespace",
        "teams",
        "--set",
        &format!("{VALUES},warm.enabled=true"),
    ])
    .await;
    let elsewhere = elsewhere.unwrap();
    assert!(
        elsewhere.contains("kind: Namespace\nmetadata:\n  name: teams-other-swaplet-warm\n"),
        "no two releases share it"
    );
    let named = rendered(&format!("{VALUES},warm.enabled=true,warm.namespace=w"))
        .await
        .unwrap();
    assert!(
        !named.contains("kind: Namespace\n"),
        "one that is named is there"
    );
}

/// Who may list Secrets everywhere may do everything.
#[tokio::test]
async fn a11_no_values_give_the_right_to_list_all_secrets() {
    for on in [
        "restart.enabled=true,restart.onConfig.enabled=true,openkruise.enabled=true",
        "restart.enabled=true,restart.onConfig.enabled=true,restart.onConfig.secretNamespaces={a,b}",
        "restart.enabled=true,restart.onConfig.enabled=true,restart.onConfig.secretNamespaces={a},namespaces={a,b}",
        "warm.enabled=true,warm.jobs.enabled=true,parkImage=p:1,predownload.enabled=true,warm.jobs.secretNamespaces={a}",
    ] {
        let all = rendered(&format!("{VALUES},{on}")).await.unwrap();
        let objects: Vec<Value> = serde_saphyr::from_multiple(&all).unwrap();
        let reads_secrets = |role: &Value| {
            role["rules"].as_array().into_iter().flatten().any(|rule| {
                rule["resources"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|of| of == "secrets")
            })
        };
        let roles: Vec<_> = objects
            .iter()
            .filter(|object| reads_secrets(object))
            .map(|role| &role["metadata"]["name"])
            .collect();
        let bound = objects
            .iter()
            .filter(|object| object["kind"] == "ClusterRoleBinding")
            .map(|binding| &binding["roleRef"]["name"]);
        assert!(bound.clone().count() > 0 || on.contains("namespaces={a,b}"));
        for role in bound {
            assert!(
                !roles.contains(&role),
                "{on}: {role} is bound for the whole cluster"
            );
        }
        assert_eq!(
            roles.is_empty(),
            !on.contains("secretNamespaces={a,b}") && !on.contains("onConfig.secretNamespaces"),
            "{on}"
        );
    }
}

/// Logs are read by nobody who has not asked for it.
#[tokio::test]
async fn the_right_to_read_logs_is_given_where_it_is_switched_on() {
    let reads_logs = async |values: &str| {
        let all = rendered(values).await.unwrap();
        let (right, flag) = ("- pods/log", "- --sidecar-log-bytes=200\n");
        assert_eq!(all.contains(right), all.contains(flag), "{values}");
        all.contains(right)
    };
    assert!(!reads_logs(VALUES).await);
    let off = "image=a,terminate.enabled=false,restart.enabled=true,terminate.sidecarLogBytes=200";
    assert!(!reads_logs(off).await);
    let on = format!("{VALUES},terminate.sidecarLogBytes=200,namespaces={{a}}");
    assert!(reads_logs(&on).await);
    let all = rendered(&on).await.unwrap();
    assert!(names(&all, "RoleBinding").contains(&"swaplet-sidecar-logs"));
    assert!(!names(&all, "ClusterRoleBinding").contains(&"swaplet-sidecar-logs"));
    let too_many = format!("{VALUES},terminate.sidecarLogBytes=1025");
    assert!(rendered(&too_many).await.is_err());
}

/// Where no pod is changed, the right to change pods is not given.
#[tokio::test]
async fn a11_who_only_pulls_images_may_not_change_pods() {
    let may_patch = async |values: &str| {
        let all = rendered(values).await.unwrap();
        let role = all.split("\n---\n").find(|object| {
            object.contains("kind: ClusterRole\n") && object.contains("\n  name: swaplet\n")
        });
        let role: Value = serde_saphyr::from_str(role.unwrap()).unwrap();
        let rules = role["rules"].as_array().unwrap().clone();
        rules.iter().any(|rule| {
            rule["resources"][0] == "pods"
                && rule["verbs"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|verb| verb == "patch")
        })
    };
    assert!(may_patch(VALUES).await);
    assert!(may_patch("image=a,terminate.enabled=false,restart.enabled=true").await);
    assert!(!may_patch("image=a,terminate.enabled=false,predownload.enabled=true").await);
    assert!(
        !may_patch(
            "image=a,terminate.enabled=false,parkImage=p:1,warm.enabled=true,warm.jobs.enabled=true"
        )
        .await
    );
}

/// A push to a tag changes nothing that runs.
#[tokio::test]
async fn every_image_of_the_chart_may_be_named_by_its_digest() {
    let digest = |letter: &str| format!("sha256:{}", letter.repeat(64));
    let (image, exit, park) = (digest("a"), digest("b"), digest("c"));
    let values = format!(
        "{VALUES},imageDigest={image},terminate.exitImageDigest={exit},parkImage=r.example/park:1,parkImageDigest={park},restart.enabled=true"
    );
    let all = rendered(&values).await.unwrap();
    for image in [
        format!("registry.example/swaplet/controller:v1@{image}"),
        format!("registry.example/swaplet/exit:v1@{exit}"),
        format!("r.example/park:1@{park}"),
    ] {
        assert!(
            all.matches(&image).count() >= 2,
            "{image}: where it runs, and on the leash or before the removal"
        );
        let tag = image.split('@').next().unwrap();
        assert_eq!(
            all.matches(tag).count(),
            all.matches(&image).count(),
            "{tag} is nowhere without its digest"
        );
    }
}

#[tokio::test]
async fn values_that_are_wrong_are_refused_with_a_reason() {
    for (values, reason) in [
        (
            "image=a,terminate.exitImage=b,warm.enabled=true,warm.namespace=swaplet",
            "warm.namespace is the namespace of the release",
        ),
        (
            "image=a,terminate.exitImage=b,restart.onConfig.secrets=true",
            "restart.onConfig.secretNamespaces",
        ),
        (
            "image=a,terminate.exitImage=b,restart.onConfig.secretNamespaces=true",
            "secretNamespaces",
        ),
        (
            "image=a,terminate.exitImage=b,imageDigest=sha256:1",
            "imageDigest",
        ),
        ("terminate.exitImage=a", "image is not set"),
        ("image=a", "terminate.exitImage is not set"),
        ("image=a,terminate.enabled=false", "nothing is on"),
        (
            "image=a,terminate.exitImage=b,warm.enabled=true,warm.jobs.enabled=true",
            "parkImage is not set",
        ),
        (
            "image=a,terminate.exitImage=b,warm.jobs.enabled=true,parkImage=c",
            "warm.enabled",
        ),
        (
            "image=a,terminate.enabled=false,warm.enabled=true,warm.jobs.enabled=true,warm.jobs.exitImages=true,parkImage=c",
            "warm.jobs.exitImages needs an exit image",
        ),
        (
            "image=a,terminate.exitImage=b,restart.parkImage=c",
            "parkImage",
        ),
        ("image=a,terminate.exitImage=b,replica=3", "replica"),
        (
            "image=a,terminate.exitImage=b,namespaces={UPPER}",
            "namespaces",
        ),
        (
            "image=a,terminate.exitImage=b,terminate.finish=sometimes",
            "finish",
        ),
    ] {
        let words = rendered(values).await.unwrap_err();
        assert!(words.contains(reason), "{values}: {words}");
    }
}

/// The names of the CRDs that an installation in this namespace would write, as the API server is
/// now.
async fn crds_of(namespace: &str) -> Vec<String> {
    let values = format!("{VALUES},restart.enabled=true");
    let arguments = [
        "template",
        "swaplet",
        CHART,
        "--namespace",
        namespace,
        "--dry-run=server",
        "--set",
        &values,
    ];
    names(
        &run_helm(&arguments).await.unwrap(),
        "CustomResourceDefinition",
    )
    .into_iter()
    .map(str::to_owned)
    .collect()
}

/// What Helm writes into an object of a release is all that tells whose it is.
#[tokio::test]
async fn a_crd_is_upgraded_by_its_own_release_and_left_alone_by_all_others() {
    const CRD: &str = "crd/containerrecreaterequests.apps.kruise.io";
    install_crd().await;
    let owner = format!("e2e-crd-{}", std::process::id());
    let annotate = async |name: &str, namespace: &str| {
        let names = [
            format!("meta.helm.sh/release-name{name}"),
            format!("meta.helm.sh/release-namespace{namespace}"),
        ];
        kubectl(&["annotate", "--overwrite", CRD, &names[0], &names[1]]).await;
    };
    annotate("-", "-").await;
    assert_eq!(crds_of(&owner).await, [""; 0]);
    annotate("=swaplet", &format!("={owner}")).await;
    assert_eq!(crds_of(&owner).await, [CRD.trim_start_matches("crd/")]);
    assert_eq!(crds_of("swaplet").await, [""; 0]);
    annotate("-", "-").await;
}
