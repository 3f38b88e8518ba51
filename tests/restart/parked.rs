//! `swaplet parked`: what a controller that is gone has left behind comes back.

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Effect, Rule, Verb};

use crate::restart::world::{Ran, World};

const PARK: &str = "registry.example/swaplet/park:v1";

/// A pod as a controller leaves it that dies after it has put `app` into the park image.
async fn parked(world: &World, name: &str) {
    parked_from(world, name, "app:1").await;
}

/// The same, with this image on record.
async fn parked_from(world: &World, name: &str, image: &str) {
    world.pod(name).await;
    let uid = world.pods().get(name).await.unwrap().uid().unwrap();
    let parked = json!({"pod": uid, "name": "again", "request": "ru", "park": PARK, "images": {"app": image}}).to_string();
    let metadata = json!({"labels": {"swaplet.io/parked": "app"}, "annotations": {"swaplet.io/parked": parked, "mine": "stays"}});
    let change =
        json!({"metadata": metadata, "spec": {"containers": [{"name": "app", "image": PARK}]}});
    world
        .pods()
        .patch(name, &PatchParams::default(), &Patch::Strategic(change))
        .await
        .unwrap();
}

impl World {
    async fn parked(&self, arguments: &[&str]) -> Ran {
        let mut command = self.command(
            env!("CARGO_BIN_EXE_swaplet"),
            &[&["parked"], arguments].concat(),
        );
        self.end_of(command.spawn().unwrap()).await
    }

    /// Makes a binding of an admission policy.
    async fn bind(&self, name: &str, actions: &[&str]) {
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(self.client.clone());
        let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": actions}});
        let binding = serde_json::from_value(binding).unwrap();
        bindings
            .create(&PostParams::default(), &binding)
            .await
            .unwrap();
    }

    /// The admission policies that keep everybody but swaplet from writing what pods say of their
    /// images.
    async fn leash(&self) {
        for part in ["swaplet-leash-pods", "swaplet-leash-parked"] {
            self.bind(part, &["Deny"]).await;
        }
    }

    /// Labels and annotations, and the images of its containers.
    async fn look(&self, name: &str) -> (Value, Vec<String>) {
        let pod = self.pods().get(name).await.unwrap();
        let images = pod
            .spec
            .iter()
            .flat_map(|spec| &spec.containers)
            .filter_map(|container| container.image.clone())
            .collect();
        (json!([pod.labels(), pod.annotations()]), images)
    }
}

#[tokio::test]
async fn parked_containers_are_listed_and_brought_back() {
    let world = World::new().await;
    world.leash().await;
    parked(&world, "p").await;
    world.pod("other").await;
    let other = world.look("other").await;
    let ran = world.parked(&[]).await;
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let row: Vec<_> = ran.out.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row, ["default", "p", "app", "app:1", "again"]);
    assert_eq!(
        world.look("p").await.1,
        [PARK, "log:1"],
        "nothing is written without --restore"
    );

    let ran = world.parked(&["-A", "--restore", "--wait", "0"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""), "{ran:?}");
    assert!(
        ran.err.contains("default/p: app has app:1 again")
            && ran.err.contains("No container is parked."),
        "{}",
        ran.err
    );
    assert_eq!(
        world.look("p").await,
        (
            json!([{"app": "web"}, {"mine": "stays"}]),
            vec!["app:1".to_owned(), "log:1".to_owned()]
        )
    );
    assert_eq!(world.look("other").await, other);
}

#[tokio::test]
async fn what_a_controller_brings_back_is_waited_for() {
    let world = World::new().await;
    world.leash().await;
    parked(&world, "p").await;
    let mut command = world.command(
        env!("CARGO_BIN_EXE_swaplet"),
        &[
            "parked",
            "--restore",
            "--wait",
            "600",
            "-n",
            "default",
            "-n",
            "none",
        ],
    );
    let child = command.spawn().unwrap();
    world
        .until("it has looked", |server| {
            server
                .recorded()
                .iter()
                .any(|request| request.verb == Verb::List)
        })
        .await;
    let back = json!({"metadata": {"labels": {"swaplet.io/parked": null}, "annotations": {"swaplet.io/parked": null}},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]}});
    world
        .pods()
        .patch("p", &PatchParams::default(), &Patch::Strategic(back))
        .await
        .unwrap();
    let ran = world.end_of(child).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!ran.err.contains("again"), "{}", ran.err);
    let ours = world
        .server
        .recorded()
        .into_iter()
        .filter(|request| request.user_agent.starts_with("swaplet/"));
    assert_eq!(
        ours.filter(|request| !matches!(request.verb, Verb::Get | Verb::List))
            .count(),
        0,
        "it has written nothing"
    );
}

#[tokio::test]
async fn what_cannot_be_brought_back_is_listed_with_the_reason() {
    let world = World::new().await;
    world.leash().await;
    parked(&world, "p").await;
    let forbidden = Rule::new(Effect::reply(403).message("that is forbidden for jane"))
        .verb(Verb::Patch)
        .user_agent("swaplet/");
    world.server.faults().add(forbidden);
    let ran = world.parked(&["--restore", "--wait", "0"]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.err.contains("default/p: that is forbidden for jane") && ran.out.contains("app:1"),
        "{ran:?}"
    );

    world.server.faults().add(
        Rule::new(Effect::reply(403).message("no list for jane"))
            .verb(Verb::List)
            .user_agent("swaplet/"),
    );
    let ran = world.parked(&["-A"]).await;
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(
        ran.err
            .contains("cannot list the pods of all namespaces: no list for jane"),
        "{}",
        ran.err
    );
}

/// Nobody can tell what it had.
#[tokio::test]
async fn u205_a_container_whose_record_cannot_be_trusted_is_listed_and_stays() {
    let world = World::new().await;
    world.leash().await;
    parked_from(&world, "p", "No Image").await;
    let words = "default/p: app stays in the park image";
    let ran = world.parked(&[]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let row: Vec<_> = ran.out.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row, ["default", "p", "app", "-", "again"]);
    let is_told = |ran: &Ran| ran.err.contains(words) && !ran.err.contains("No container");
    assert!(is_told(&ran), "{}", ran.err);

    let ran = world.parked(&["-A", "--restore", "--wait", "0"]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(is_told(&ran) && ran.out.contains("again"), "{ran:?}");
    // Where nothing is restored at all it is told as well.
    let leash = ["-A", "--restore", "--wait", "0", "--leash", "none"];
    let ran = world.parked(&leash).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        is_told(&ran) && ran.err.contains("nothing was restored"),
        "{ran:?}"
    );
    assert_eq!(world.look("p").await.1, [PARK, "log:1"]);
}

/// A webhook of the cluster has given the park image a name that says nothing, and the controller is
/// gone: nobody else knows what the container had.
#[tokio::test]
async fn u224_a_container_that_may_be_parked_under_another_name_is_listed_and_stays() {
    const REPLACED: &str = "mirror.example/cache/0a1b:v1";
    let world = World::new().await;
    world.leash().await;
    parked(&world, "p").await;
    let change = json!({"spec": {"containers": [{"name": "app", "image": REPLACED}]}});
    world
        .pods()
        .patch("p", &PatchParams::default(), &Patch::Strategic(change))
        .await
        .unwrap();
    let is_told = |ran: &Ran| {
        let words = format!("It has {REPLACED}, and had app:1");
        ran.err.contains("default/p: app has another image")
            && ran.err.contains(&words)
            && !ran.err.contains("No container")
    };
    let ran = world.parked(&[]).await;
    assert!(ran.code == Some(0) && is_told(&ran), "{ran:?}");
    let row: Vec<_> = ran.out.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row, ["default", "p", "app", "-", "again"]);
    let ran = world.parked(&["-A", "--restore", "--wait", "0"]).await;
    assert!(ran.code == Some(1) && is_told(&ran), "{ran:?}");
    assert_eq!(world.look("p").await.1, [REPLACED, "log:1"]);
    // Its own image, by whatever name, is not parked.
    let change =
        json!({"spec": {"containers": [{"name": "app", "image": "mirror.example/app:1"}]}});
    world
        .pods()
        .patch("p", &PatchParams::default(), &Patch::Strategic(change))
        .await
        .unwrap();
    let ran = world.parked(&["-A", "--restore", "--wait", "0"]).await;
    assert!(
        ran.code == Some(0) && ran.err.contains("No container"),
        "{ran:?}"
    );
}

#[tokio::test]
async fn a13_nothing_is_restored_without_the_policies_that_make_a_record_swaplets_own() {
    let world = World::new().await;
    let ran = world.parked(&["--restore", "--wait", "0"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""), "{ran:?}");

    parked(&world, "p").await;
    let before = world.look("p").await;
    let refused = async |says: &str, arguments: &[&str]| {
        let ran = world
            .parked(&[&["--restore", "--wait", "0"], arguments].concat())
            .await;
        assert_eq!(ran.code, Some(1), "{ran:?}");
        for words in ["nothing was restored", says, "--without-leash"] {
            assert!(ran.err.contains(words), "{words}: {}", ran.err);
        }
        assert!(ran.out.contains("app:1"), "what it would be: {}", ran.out);
        assert_eq!(world.look("p").await, before);
    };
    refused("swaplet-leash-pods", &[]).await;
    world.bind("swaplet-leash-pods", &["Deny"]).await;
    refused("swaplet-leash-parked", &[]).await;
    world.bind("swaplet-leash-parked", &["Audit"]).await;
    let forbidden =
        Rule::new(Effect::reply(403).message("binding is forbidden: User jane cannot get it"))
            .verb(Verb::Get)
            .resource("validatingadmissionpolicybindings");
    refused("--leash", &["--leash", "of-another-release"]).await;
    let rule = world.server.faults().add(forbidden);
    refused("grant the right to get", &[]).await;
    world.server.faults().remove(rule);

    let ran = world
        .parked(&["--restore", "--wait", "0", "--without-leash"])
        .await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(world.look("p").await.1, ["app:1", "log:1"]);
}
