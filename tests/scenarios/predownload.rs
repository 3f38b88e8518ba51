//! Pre-download by a whole controller: jobs come and go with the pods that have old images, and
//! nothing else is written.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Effect, Recorded, Verb};

use crate::harness::{World, is_of_watches};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const JOBS: &str = "imagepulljobs";
pub const OLD: &str = "registry.example/app:1";
pub const NEW: &str = "registry.example/app:2";

pub fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

pub async fn create_deployment(world: &World, annotations: &Value) {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "annotations": annotations},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template(OLD)},
    });
    world
        .request(Method::POST, DEPLOYMENTS, "application/json", &deployment)
        .await;
}

pub async fn create_pod(world: &World, name: &str, image: &str, revision: &str) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, "labels": {"app": "web", "pod-template-hash": revision}},
        "spec": {"nodeName": "n", "restartPolicy": "Always", "containers": [{"name": "main", "image": image}]},
    });
    world.create(&pod).await;
}

pub async fn edit_deployment(world: &World, patch: &Value) {
    world
        .request(
            Method::PATCH,
            &format!("{DEPLOYMENTS}/web"),
            "application/merge-patch+json",
            patch,
        )
        .await;
}

/// A Deployment that asks, two pods, and a controller that has nothing to do.
async fn at_rest(annotations: &Value) -> World {
    let world = World::new();
    create_deployment(&world, annotations).await;
    create_pod(&world, "a", OLD, "one").await;
    create_pod(&world, "b", OLD, "one").await;
    std::mem::forget(world.start_predownloading_controller());
    world.wait(60).await;
    assert!(writes(&world).is_empty());
    world
}

/// Every write of the controller but Events, as verb and resource.
fn writes(world: &World) -> Vec<(Verb, String)> {
    let is_read = |verb| matches!(verb, Verb::Get | Verb::List | Verb::Watch);
    let is_write = |request: &Recorded| !is_read(request.verb) && request.resource != "events";
    world
        .requests()
        .into_iter()
        .filter(is_write)
        .map(|request| (request.verb, request.resource.to_string()))
        .collect()
}

fn jobs(world: &World) -> Vec<Value> {
    world
        .server
        .peek_all("imagepulljobs.apps.kruise.io")
        .into_iter()
        .map(|job| (*job).clone())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_new_image_gets_a_job_until_no_old_pod_is_left() {
    let world = at_rest(&json!({"swaplet.io/predownload": "true"})).await;
    edit_deployment(&world, &json!({"spec": {"template": template(NEW)}})).await;
    world.wait(5).await;
    let made = jobs(&world);
    assert_eq!((made.len(), &made[0]["spec"]["image"]), (1, &json!(NEW)));
    assert_eq!(
        made[0]["spec"]["podSelector"],
        json!({"matchLabels": {"app": "web"}})
    );
    let note = format!(
        "{NEW} is pulled to the nodes of the old pods, by ImagePullJob {}",
        made[0]["metadata"]["name"].as_str().unwrap()
    );
    assert_eq!(
        world.notes("web"),
        [("CreatedImagePullJob".to_owned(), note)]
    );
    create_pod(&world, "c", NEW, "two").await;
    world.remove("a").await;
    world.wait(600).await;
    assert_eq!(
        writes(&world),
        [(Verb::Create, JOBS.to_owned())],
        "an old pod is left"
    );
    world.remove("b").await;
    world.wait(60).await;
    assert_eq!(
        writes(&world),
        [
            (Verb::Create, JOBS.to_owned()),
            (Verb::Delete, JOBS.to_owned())
        ]
    );
    assert!(jobs(&world).is_empty());
    let before = world.requests().len();
    world.wait(600).await;
    let since: Vec<_> = world
        .requests()
        .split_off(before)
        .into_iter()
        .filter(|request| !is_of_watches(request))
        .collect();
    assert!(since.is_empty(), "{since:#?}");
}

#[tokio::test(start_paused = true)]
async fn a9_a_template_of_many_images_gets_its_jobs_in_several_turns() {
    let world = at_rest(&json!({"swaplet.io/predownload": "true"})).await;
    let containers: Vec<_> = (0..60)
        .map(|number| {
            json!({"name": format!("c{number}"), "image": format!("registry.example/{number}:1")})
        })
        .collect();
    let mut many = template(NEW);
    many["spec"]["containers"] = containers.into();
    edit_deployment(&world, &json!({"spec": {"template": many}})).await;
    world.wait(5).await;
    assert_eq!(jobs(&world).len(), 50);
    world.wait(30).await;
    assert_eq!((jobs(&world).len(), writes(&world).len()), (60, 60));
}

/// As where a webhook does not answer for one namespace.
#[tokio::test(start_paused = true)]
async fn a9_workloads_whose_writes_hang_keep_another_namespace_waiting_for_one_of_them() {
    let world = World::new();
    world.create_namespace("a-greedy").await;
    world.fault(Effect::Hang, |rule| {
        rule.verb(Verb::Create).resource(JOBS).namespace("a-greedy")
    });
    let asks = json!({"swaplet.io/predownload": "true"});
    let spec = json!({"nodeName": "n", "containers": [{"name": "main", "image": OLD}]});
    let labels = json!({"app": "web"});
    let metadata = json!({"namespace": "a-greedy", "name": "a", "labels": labels});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    world.create(&pod).await;
    let path = "/apis/apps/v1/namespaces/a-greedy/deployments";
    for number in 0..30 {
        let metadata = json!({"name": format!("web-{number}"), "annotations": asks});
        let spec = json!({"selector": {"matchLabels": labels}, "template": template(NEW)});
        let mut deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
        deployment["metadata"] = metadata;
        deployment["spec"] = spec;
        world
            .request(Method::POST, path, "application/json", &deployment)
            .await;
    }
    create_deployment(&world, &asks).await;
    create_pod(&world, "a", OLD, "one").await;
    edit_deployment(&world, &json!({"spec": {"template": template(NEW)}})).await;
    let _life = world.start_predownloading_controller();
    world.wait(40).await;
    assert_eq!(jobs(&world).len(), 1);
}

/// Each page comes in time, and all of them take longer than a loop may stand still.
#[tokio::test(start_paused = true)]
async fn u213_a_workload_whose_pods_are_listed_slowly_ends_no_leader_and_holds_up_no_other() {
    let world = World::new();
    world.fault(Effect::Delay(Duration::from_secs(29)), |rule| {
        rule.verb(Verb::List).resource("pods").namespace("default")
    });
    let asks = json!({"swaplet.io/predownload": "true"});
    create_deployment(&world, &asks).await;
    // Five pages.
    for number in 0..2_001 {
        create_pod(&world, &format!("p{number}"), OLD, "one").await;
    }
    let life = world.start_predownloading_controller();
    world.wait(5).await;
    world.create_namespace("b").await;
    let labels = json!({"app": "web"});
    let spec = json!({"nodeName": "n", "containers": [{"name": "main", "image": OLD}]});
    let metadata = json!({"namespace": "b", "name": "a", "labels": labels});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    world.create(&pod).await;
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "annotations": asks},
        "spec": {"selector": {"matchLabels": labels}, "template": template(NEW)},
    });
    let path = "/apis/apps/v1/namespaces/b/deployments";
    world
        .request(Method::POST, path, "application/json", &deployment)
        .await;
    world.wait(70).await;
    let made = jobs(&world);
    assert_eq!(made.len(), 1, "{made:?}");
    assert_eq!(made[0]["metadata"]["namespace"], "b");
    for _ in 0..30 {
        world.wait(10).await;
        assert_eq!(life.health.alive(), Ok(()));
    }
}

#[tokio::test(start_paused = true)]
async fn who_asks_no_more_gets_no_more() {
    let world = at_rest(&json!({"swaplet.io/predownload": "true"})).await;
    edit_deployment(&world, &json!({"spec": {"template": template(NEW)}})).await;
    world.wait(5).await;
    edit_deployment(
        &world,
        &json!({"metadata": {"annotations": {"swaplet.io/predownload": null}}}),
    )
    .await;
    world.wait(60).await;
    assert_eq!(
        writes(&world),
        [
            (Verb::Create, JOBS.to_owned()),
            (Verb::Delete, JOBS.to_owned())
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn who_does_not_ask_or_asks_wrongly_gets_nothing() {
    for annotations in [json!({}), json!({"swaplet.io/predownload": "yes"})] {
        let world = at_rest(&annotations).await;
        edit_deployment(&world, &json!({"spec": {"template": template(NEW)}})).await;
        world.wait(600).await;
        assert!(writes(&world).is_empty(), "{annotations}");
        let told: Vec<_> = world
            .notes("web")
            .into_iter()
            .map(|(reason, note)| format!("{reason}: {note}"))
            .collect();
        let wrong = "FailedCreateImagePullJob: annotation swaplet.io/predownload is \"yes\": write \"true\", or remove it";
        assert_eq!(
            told,
            if annotations == json!({}) {
                vec![]
            } else {
                vec![wrong]
            }
        );
    }
}

#[tokio::test(start_paused = true)]
async fn no_second_job_comes_of_a_creation_that_fails_or_whose_answer_is_lost() {
    for (effect, creations) in [
        (Effect::from(Effect::reply(500)), 2),
        (Effect::ApplyThenDrop, 1),
    ] {
        let world = at_rest(&json!({"swaplet.io/predownload": "true"})).await;
        world.fault(effect, |rule| {
            rule.verb(Verb::Create).resource(JOBS).times(1)
        });
        edit_deployment(&world, &json!({"spec": {"template": template(NEW)}})).await;
        world.wait(600).await;
        assert_eq!(
            writes(&world),
            vec![(Verb::Create, JOBS.to_owned()); creations]
        );
        assert_eq!(jobs(&world).len(), 1);
    }
}

/// As where a policy lets nobody delete them: the first edit's job stays.
#[tokio::test(start_paused = true)]
async fn u214_a_job_that_may_not_be_deleted_keeps_no_other_from_being_made() {
    let world = at_rest(&json!({"swaplet.io/predownload": "true"})).await;
    let words = "admission webhook \"w.example\" denied the request: nothing is deleted here";
    world.fault(Effect::reply(403).message(words), |rule| {
        rule.verb(Verb::Delete).resource(JOBS)
    });
    let newest = "registry.example/app:3";
    for image in [NEW, newest] {
        edit_deployment(&world, &json!({"spec": {"template": template(image)}})).await;
        world.wait(5).await;
    }
    let made = jobs(&world);
    let images = made
        .iter()
        .map(|job| job["spec"]["image"].as_str().unwrap());
    let mut images: Vec<_> = images.collect();
    images.sort_unstable();
    assert_eq!(images, [NEW, newest]);
    world.wait(600).await;
    let told = world.notes("web");
    let denials: Vec<_> = told
        .iter()
        .filter(|(reason, note)| reason == "WriteDenied" && note.contains(words))
        .collect();
    assert_eq!((denials.len(), told.len()), (1, 3), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn without_the_crd_it_is_tried_again_and_the_rest_goes_on() {
    let world = at_rest(&json!({"swaplet.io/predownload": "true"})).await;
    let missing = world.fault(Effect::reply(404), |rule| {
        rule.verb(Verb::List).resource(JOBS)
    });
    edit_deployment(&world, &json!({"spec": {"template": template(NEW)}})).await;
    let before = world.requests().len();
    world.wait(600).await;
    let tries = world.requests()[before..]
        .iter()
        .filter(|request| request.resource == JOBS)
        .count();
    assert!(
        writes(&world).is_empty() && (10..=21).contains(&tries),
        "{tries}"
    );
    assert_eq!(
        world.events("web"),
        ["FailedCreateImagePullJob"],
        "it is told once"
    );
    world.end_fault(missing);
    world.wait(31).await;
    assert_eq!(jobs(&world).len(), 1);
}

const CLONE_SETS: &str = "/apis/apps.kruise.io/v1alpha1/namespaces/default/clonesets";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

pub async fn install_clone_sets(world: &World) {
    let version = json!({"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "clonesets.apps.kruise.io"},
        "spec": {"group": "apps.kruise.io", "scope": "Namespaced", "names": {"kind": "CloneSet", "plural": "clonesets"}, "versions": [version]}});
    world
        .request(Method::POST, CRDS, "application/json", &crd)
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_clone_set_gets_a_job_where_its_crd_is_installed_also_while_the_controller_runs() {
    let world = World::new();
    let _life = world.start_predownloading_controller();
    world.wait(60).await;
    install_clone_sets(&world).await;
    for (name, image, revision) in [("a", OLD, "web-1"), ("b", NEW, "web-2")] {
        let labels = json!({"app": "web", "controller-revision-hash": revision});
        let spec = json!({"nodeName": "n", "restartPolicy": "Always", "containers": [{"name": "main", "image": image}]});
        world.create(&json!({"metadata": {"namespace": "default", "name": name, "labels": labels}, "spec": spec})).await;
    }
    let set = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
        "metadata": {"name": "web", "annotations": {"swaplet.io/predownload": "true"}},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template(NEW)},
    });
    world
        .request(Method::POST, CLONE_SETS, "application/json", &set)
        .await;
    world.wait(60).await;
    let made = jobs(&world);
    assert_eq!((made.len(), &made[0]["spec"]["image"]), (1, &json!(NEW)));
    let owner = &made[0]["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["apiVersion"], &owner["kind"]),
        (&json!("apps.kruise.io/v1alpha1"), &json!("CloneSet"))
    );
    let not_new =
        json!([{"key": "controller-revision-hash", "operator": "NotIn", "values": ["web-2"]}]);
    assert_eq!(made[0]["spec"]["podSelector"]["matchExpressions"], not_new);
    assert_eq!(world.events("web"), ["CreatedImagePullJob"]);
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_see_clone_sets_the_others_get_their_jobs() {
    let world = World::new();
    install_clone_sets(&world).await;
    world.fault(Effect::reply(403), |rule| rule.resource("clonesets"));
    create_deployment(&world, &json!({"swaplet.io/predownload": "true"})).await;
    create_pod(&world, "a", OLD, "one").await;
    let _life = world.start_predownloading_controller();
    edit_deployment(&world, &json!({"spec": {"template": template(NEW)}})).await;
    world.wait(60).await;
    assert_eq!(jobs(&world).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn u44_clone_sets_are_forgotten_and_not_asked_for_once_their_crd_is_gone() {
    let world = World::new();
    install_clone_sets(&world).await;
    let _life = world.start_predownloading_controller();
    world.wait(60).await;
    let crd = format!("{CRDS}/clonesets.apps.kruise.io");
    let gone = json!({"spec": {"versions": [{"name": "v1alpha1", "served": false, "storage": true, "schema": {}}]}});
    world
        .request(Method::PATCH, &crd, "application/merge-patch+json", &gone)
        .await;
    world.wait(120).await;
    let before = world.requests().len();
    world.wait(600).await;
    let since = world.requests().split_off(before);
    let asked: Vec<_> = since
        .iter()
        .filter(|request| request.resource == "clonesets")
        .collect();
    assert!(asked.is_empty(), "{asked:#?}");
}
