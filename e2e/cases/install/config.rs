//! The file of `--config` in an installation: what the chart puts into it, and what becomes of a
//! change.

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use serde_json::json;
use swaplet::image::Kind;
use swaplet::image::build::build;
use swaplet_core::objects::values::env::WITH_IMAGE;

use super::chart::{VALUES, rendered};
use super::installation::Installation;
use super::swapped_by;
use crate::commands::send;
use crate::pods::{EXITS_143, main_ok, pod, sidecar, spec};
use crate::world::{World, variable};

/// The file, and what stands in the template of the pods about it.
async fn config(values: &str) -> (String, String) {
    let all = rendered(&format!("{VALUES},{values}")).await.unwrap();
    let file = all
        .split_once("\n  config.yaml: |\n")
        .unwrap()
        .1
        .split_once("\n---\n")
        .unwrap()
        .0
        .to_owned();
    let template = all
        .split_once("\n  template:\n")
        .unwrap()
        .1
        .split_once("\n---\n")
        .unwrap()
        .0
        .to_owned();
    (file, template)
}

#[tokio::test]
async fn what_the_file_says_stands_in_the_template_as_well() {
    let (nothing, template) = config("replicas=2").await;
    assert_eq!(nothing.trim(), "{}");
    let lists =
        "namespaces={a,b},terminate.exitImages={r.example/exit/*},registry.plainHttp={r.example}";
    let (file, other) = config(lists).await;
    let expected = json!({
        "namespace": ["a", "b"], "exit-images": ["r.example/exit/*"], "plain-http": ["r.example"],
    });
    assert_eq!(
        serde_saphyr::from_str::<serde_json::Value>(&file).unwrap(),
        expected
    );
    assert_ne!(other, template, "it is read at the start");
    let (file, other) = config("config.exit-image-paths={/opt/own/server}").await;
    assert_eq!(file.trim(), "exit-image-paths:\n    - /opt/own/server");
    assert_ne!(other, template);

    let (file, one) = config("nodes.classes=one").await;
    assert!(file.contains("node-classes.yaml: \"one\""), "{file}");
    assert_ne!(config("nodes.classes=two").await.1, one);
    assert_eq!(
        config("nodes.classes=one").await.1,
        one,
        "the same values leave the pods"
    );
}

/// A flag beside the key would count more, without a word.
#[tokio::test]
async fn each_flag_is_a_key_or_has_a_value_of_its_own() {
    let command = swaplet::cli::definition();
    let run = command
        .get_subcommands()
        .find(|command| command.get_name() == "run")
        .unwrap();
    let flags = run
        .get_arguments()
        .filter_map(|flag| flag.get_long())
        .filter(|flag| !["config", "print-config", "help"].contains(flag));
    let mut keys = Vec::new();
    for flag in flags {
        let value = format!("config.{flag}=1");
        match rendered(&format!("{VALUES},{value}")).await {
            Ok(_) => keys.push(flag),
            Err(words) => assert!(
                words.contains(&format!("config.{flag} cannot be used: ")),
                "{words}"
            ),
        }
    }
    keys.sort_unstable();
    assert_eq!(
        keys,
        [
            "concurrency",
            "exit-image-paths",
            "restart-on-config-delay",
            "write-timeout"
        ]
    );
    let words = rendered(&format!("{VALUES},config.concurency=8"))
        .await
        .unwrap_err();
    assert!(
        words.contains("config.concurency: there is no such key; the keys are exit-image-paths,"),
        "{words}"
    );
}

#[tokio::test]
async fn another_list_takes_effect_in_other_pods() {
    let world = World::new("install-config").await;
    let installation = Installation::new(&world).await;
    let with = |images: &str| {
        format!("terminate.exitImage=,terminate.finish=never,terminate.exitImages={{{images}}}")
    };
    installation
        .helm("install", &["--set", &with(&world.images.exit)])
        .await;
    let (registry, process) = (variable("SWAPLET_E2E_REGISTRY"), std::process::id());
    let asked = format!("{registry}/swaplet/exit:e2e-listed-{process}");
    send(
        &asked,
        &build(Kind::Exit, [format!("/listed/{process}")]).unwrap(),
    )
    .await;
    let mut asks = sidecar(&world, "log", EXITS_143);
    asks["env"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": WITH_IMAGE, "value": asked}));
    world
        .create_pod(pod("asks", spec("Never", vec![main_ok(&world), asks])))
        .await;
    assert_eq!(world.events_of("asks", 1).await, ["ExitImageMissing"]);

    let replicas = async || {
        let pods: Api<Pod> = Api::namespaced(world.client.clone(), &installation.namespace);
        let mut uids: Vec<_> = pods
            .list(&ListParams::default())
            .await
            .unwrap()
            .into_iter()
            .filter_map(|pod| pod.uid())
            .collect();
        uids.sort_unstable();
        uids
    };
    let before = replicas().await;
    installation
        .helm(
            "upgrade",
            &["--set", &with(&format!("{},{asked}", world.images.exit))],
        )
        .await;
    let ended = world.pod_ends("asks", "Succeeded").await;
    assert_eq!(
        ended.spec.unwrap().containers[1].image.as_ref(),
        Some(&asked)
    );
    let after = replicas().await;
    assert!(
        after.iter().any(|uid| !before.contains(uid)),
        "{before:?} {after:?}"
    );
    assert_eq!(swapped_by(&installation, &world), ["asks"]);
    installation.uninstall().await;
    installation.done().await;
    world.done().await;
}
