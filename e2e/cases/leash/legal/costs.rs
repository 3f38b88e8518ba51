//! What the expressions cost: a pod with a hundred containers is let through.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{brought_back, parking};
use crate::leash::pods::{DIGEST, pod, side};
use crate::leash::{Leashed, dry_post};
use crate::pods::MARK;

/// The `n`th of a hundred containers.
fn one_of_a_hundred(number: usize) -> String {
    format!("container-with-a-long-name-{number}")
}

/// 40 variables each are more than a pod has.
fn with_variables(leashed: &Leashed, number: usize, marked: bool) -> Value {
    let variables = (0..40).map(
        |number| json!({"name": format!("KRUISE_TERMINATE_{number}"), "value": "x".repeat(40)}),
    );
    let mut container = side(leashed, &one_of_a_hundred(number), "true");
    container["env"] = variables
        .chain(marked.then(|| json!({"name": MARK, "value": "true"})))
        .collect();
    container
}

/// Gives the containers from this one on other images.
fn patch_to(from: usize, to: &dyn Fn(usize) -> String) -> Value {
    let containers: Vec<_> = (from..100)
        .map(|number| json!({"name": one_of_a_hundred(number), "image": to(number)}))
        .collect();
    json!({"spec": {"containers": containers}})
}

/// Parks all of them.
async fn all_parked(leashed: &Leashed, pod: &str) -> Value {
    let (work, park) = (
        leashed.world.images.work.as_str(),
        leashed.world.images.park.as_str(),
    );
    let names: Vec<_> = (0..100).map(one_of_a_hundred).collect();
    let images: Vec<_> = names.iter().map(|name| (name.as_str(), work)).collect();
    let uid = leashed.uid(pod).await;
    parking(patch_to(0, &|_| park.to_owned()), &uid, park, &images)
}

/// Makes a pod with sidecars from this one on, whose main containers have ended or run.
async fn a_hundred_are_there(
    leashed: &Leashed,
    name: &str,
    sidecars_from: usize,
    code: Option<i32>,
) {
    let names: Vec<_> = (0..100).map(one_of_a_hundred).collect();
    let containers: Vec<_> = (0..100)
        .map(|number| with_variables(leashed, number, number >= sidecars_from))
        .collect();
    let states: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(number, name)| (name.as_str(), code.filter(|_| number < sidecars_from)))
        .collect();
    leashed
        .is_there(
            pod(leashed, name, "OnFailure", json!(containers)),
            &states,
            &[],
        )
        .await;
}

/// The sidecars are ended where the main containers are done, and only there.
async fn are_ended_where_they_may_be(
    leashed: &Leashed,
    name: &str,
    sidecars_from: usize,
    are_done: bool,
) {
    let exit = &leashed.world.images.exit;
    let ended = leashed
        .patch(name, "", &patch_to(sidecars_from, &|_| exit.clone()))
        .await;
    let finish = json!({"status": {"phase": "Succeeded", "conditions": [{"type": "SidecarTerminated", "status": "True"}]}});
    let finished = leashed.patch(name, "status", &finish).await;
    if are_done {
        ended.unwrap();
        finished.unwrap();
    } else {
        for answer in [ended, finished] {
            let words = answer.expect_err("it is denied");
            assert!(
                words.contains("main containers are done, and here these are not"),
                "{words}"
            );
        }
    }
}

/// Expressions may cost so much and no more; one that costs more is an error, which denies. 100
/// containers with 40 variables each are more than a pod has.
#[tokio::test]
async fn a_pod_with_a_hundred_containers() {
    let leashed = Leashed::new("leash-costs").await;
    let work = leashed.world.images.work.clone();
    for (name, sidecars_from, code) in [
        ("half", 50, Some(0)),
        ("busy", 50, None),
        ("one-main", 1, Some(0)),
    ] {
        a_hundred_are_there(&leashed, name, sidecars_from, code).await;
        are_ended_where_they_may_be(&leashed, name, sidecars_from, code.is_some()).await;
        leashed
            .patch(
                name,
                "",
                &patch_to(0, &|_| format!("{work}-restart-2@{DIGEST}")),
            )
            .await
            .unwrap();
        leashed
            .patch(name, "", &all_parked(&leashed, name).await)
            .await
            .unwrap();
        let words = leashed
            .patch(name, "", &patch_to(0, &|number| format!("{work}{number}")))
            .await
            .expect_err("it is denied");
        assert!(words.contains("neither an exit image"), "{words}");
    }
    let parked = Patch::Strategic(all_parked(&leashed, "busy").await);
    leashed
        .world
        .api::<Pod>()
        .patch("busy", &PatchParams::default(), &parked)
        .await
        .unwrap();
    leashed
        .patch("busy", "", &brought_back(patch_to(0, &|_| work.clone())))
        .await
        .unwrap();
    let pods: Api<Pod> = Api::namespaced(leashed.swaplet.clone(), &leashed.world.namespace);
    let all = serde_json::from_value(pod(
        &leashed,
        "made",
        "Never",
        json!([with_variables(&leashed, 0, true)]),
    ))
    .unwrap();
    assert!(pods.create(&dry_post(), &all).await.is_err());
    leashed.done().await;
}
