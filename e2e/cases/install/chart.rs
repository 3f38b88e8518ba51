//! What the chart makes of its values, as the real Helm renders it.

mod leash;
mod rights;
mod starts;
mod switches;
mod told;
mod values;

use std::path::Path;

use tokio::process::Command;

use crate::crds::requests_are_served;
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

/// Else one stays Pending where a profile, a taint or a quota asks for it, and `helm uninstall` fails.
#[tokio::test]
async fn u231_each_pod_of_the_chart_has_what_it_needs_to_be_scheduled() {
    let values = format!(
        "{VALUES},parkImage=r.example/park:v1,restart.enabled=true,podLabels.profile=fargate,imagePullSecrets[0].name=theirs,\
        priorityClassName=high,nodeSelector.pool=ours,tolerations[0].key=ours,affinity.nodeAffinity.ours=true,affinity.podAntiAffinity.ours=true"
    );
    let all = rendered(&values).await.unwrap();
    let pods: Vec<_> = all
        .split("\n---\n")
        .filter(|object| object.contains("\n  template:\n"))
        .collect();
    assert_eq!(pods.len(), 3, "the controller, and two Jobs");
    for pod in pods {
        for wanted in [
            "\n        profile: fargate\n",
            "\n      imagePullSecrets:\n",
            "\n      priorityClassName: high\n",
            "\n      nodeSelector:\n",
            "\n      tolerations:\n",
            "\n      affinity:\n",
        ] {
            assert_eq!(pod.matches(wanted).count(), 1, "{wanted}: {pod}");
        }
        let is_controller = pod.contains("kind: Deployment");
        // The Service and the PodDisruptionBudget select by these.
        let is_selected = pod.contains("\n        app.kubernetes.io/name:");
        assert_eq!(is_selected, is_controller, "{pod}");
        // Replicas that keep apart keep no Job from their nodes.
        assert_eq!(pod.contains("podAntiAffinity"), is_controller, "{pod}");
    }
}

/// YAML takes such names for numbers and truth values where they have no quotes.
#[tokio::test]
async fn namespaces_may_have_every_name_that_kubernetes_allows() {
    let on = format!(
        "{VALUES},parkImage=r.example/park:1,restart.enabled=true,restart.onConfig.enabled=true,warm.enabled=true,warm.jobs.enabled=true"
    );
    for odd in ["2024", "1e3", "no", "true"] {
        let lists = [
            "namespaces",
            "restart.onConfig.secretNamespaces",
            "warm.jobs.secretNamespaces",
        ];
        let given = lists.map(|list| format!("{list}[0]={odd}")).join(",");
        let arguments = ["template", odd, CHART, "--namespace", odd, "--set", &on];
        let all = run_helm(&[&arguments[..], &["--set-string", given.as_str()]].concat())
            .await
            .unwrap();
        for unquoted in [
            format!("namespace: {odd}\n"),
            format!("namespace: {odd}}}"),
            format!("namespaces: [{odd}]"),
            format!("app.kubernetes.io/instance: {odd}\n"),
        ] {
            assert!(!all.contains(&unquoted), "{unquoted}");
        }
        let quoted = format!("namespace: \"{odd}\"");
        assert!(all.matches(&quoted).count() > 10, "{odd}");
    }
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

#[tokio::test]
async fn a_second_release_in_a_namespace_is_refused() {
    let namespace = format!("e2e-releases-{}", std::process::id());
    kubectl(&["create", "namespace", &namespace]).await;
    let deployment = ["create", "deployment", "one", "--replicas=0"];
    let image = ["--image=none.example/none:1", "-n", &namespace];
    kubectl(&[&deployment[..], &image].concat()).await;
    let name = "app.kubernetes.io/name=swaplet";
    let label = ["label", "deployment", "one", "--overwrite", name];
    let instance = ["app.kubernetes.io/instance=one", "-n", &namespace];
    kubectl(&[&label[..], &instance].concat()).await;
    let template = async |release: &str| {
        let release = ["template", release, CHART, "--namespace", &namespace];
        let values = ["--dry-run=server", "--set", VALUES];
        run_helm(&[&release[..], &values].concat()).await
    };
    template("one").await.unwrap();
    let refused = template("two").await.expect_err("they share one Lease");
    assert!(
        refused.contains("has the release one of swaplet already"),
        "{refused}"
    );
    kubectl(&["delete", "namespace", &namespace, "--wait=false"]).await;
}

/// What Helm writes into an object of a release is all that tells whose it is.
#[tokio::test]
async fn a_crd_is_upgraded_by_its_own_release_and_left_alone_by_all_others() {
    const CRD: &str = "crd/containerrecreaterequests.apps.kruise.io";
    requests_are_served().await;
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
