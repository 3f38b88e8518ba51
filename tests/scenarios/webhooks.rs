//! Webhooks of a cluster, by the kinds of writes: whatever they make of a write, nothing is lost,
//! nothing is written without end, and what was asked for ends in words.

use serde_json::{Value, json};
use swaplet_core::image::ImagePattern;
use swaplet_core::restart::hot_upgrade::sidecar_set::UpgradeImages;
use swaplet_core::restart::request::ACTIVE;
use swaplet_testbed::apiserver::{Effect, UpdateWebhook, Verb};

use super::harness::{CONCURRENCY, SWAPLET, World};
use super::hot_upgrade::{RECORD, Upgrades, image as mesh};
use super::node::Kubelet;
use super::objects::{PARK, pod, sidecar};
use super::policies;
use super::restart::parking;
use super::restart::world::{APP, Restarts, app, pod as restart_pod};

/// What the API server says where a webhook cannot be reached.
const DOWN: &str = "Internal error occurred: failed calling webhook \"w.example\": failed to call webhook: Post \"https://127.0.0.1:9/v\": dial tcp 127.0.0.1:9: connect: connection refused";
const NO_DRY_RUN: &str = "admission webhook \"w.example\" does not support dry run";
const NO: &str = "admission webhook \"w.example\" denied the request: not signed";

/// What a webhook does with a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Webhook {
    /// An image gets the name of a mirror of its registry.
    Renames,
    /// An image gets a name that says nothing of the one that was written.
    Replaces,
    /// An image gets a digest instead of its tag.
    Pins,
    /// Images stay as they were; the rest is stored.
    Undoes,
    /// Everything stays as it was.
    UndoesAll,
    Denies,
    /// It cannot be reached.
    Fails,
    /// The API server closes the connection, or does not answer.
    Gone,
    Hangs,
}

pub const ALL: [Webhook; 9] = [
    Webhook::Renames,
    Webhook::Replaces,
    Webhook::Pins,
    Webhook::Undoes,
    Webhook::UndoesAll,
    Webhook::Denies,
    Webhook::Fails,
    Webhook::Gone,
    Webhook::Hangs,
];

impl Webhook {
    /// From now on it is called for all changes of objects of this resource.
    pub fn install(self, world: &World, resource: &str) {
        let change: UpdateWebhook = match self {
            Self::Renames => |resource, old, new| images(resource, old, new, mirrored),
            Self::Replaces => |resource, old, new| images(resource, old, new, replaced),
            Self::Pins => |resource, old, new| images(resource, old, new, pinned),
            Self::Undoes => {
                |resource, old, new| images(resource, old, new, |before, _| before.to_owned())
            }
            Self::UndoesAll => undo,
            Self::Denies => return self.fault(world, resource, Effect::reply(403).message(NO)),
            Self::Fails => return self.fault(world, resource, Effect::reply(500).message(DOWN)),
            Self::Gone => return self.fault(world, resource, Effect::Drop),
            Self::Hangs => return self.fault(world, resource, Effect::Hang),
        };
        world.server.set_update_webhook(Some(change));
    }

    fn fault(self, world: &World, resource: &str, effect: impl Into<Effect>) {
        world.fault(effect, |rule| rule.verb(Verb::Patch).resource(resource));
    }

    /// Whether it lets a write be, and only has other images stored.
    fn changes(self) -> bool {
        matches!(self, Self::Renames | Self::Replaces | Self::Pins)
    }

    /// What of its words is to be told.
    fn words(self) -> &'static str {
        match self {
            Self::Renames | Self::Replaces | Self::Pins | Self::Undoes | Self::UndoesAll => {
                "webhook of the cluster"
            }
            Self::Denies => "not signed",
            Self::Fails => "failed calling webhook",
            Self::Gone => "the API server has not applied",
            Self::Hangs => "no answer in 10 s",
        }
    }
}

/// Gives each container whose image changes another one, made of the image before and the new one.
fn images(resource: &str, old: &Value, new: &mut Value, change: fn(&str, &str) -> String) {
    if resource != "pods" {
        return;
    }
    let containers = new["spec"]["containers"]
        .as_array_mut()
        .into_iter()
        .flatten();
    for (nth, container) in containers.enumerate() {
        let before = old["spec"]["containers"][nth]["image"].as_str().unwrap();
        let image = container["image"].as_str().unwrap();
        if image != before {
            container["image"] = change(before, image).into();
        }
    }
}

fn mirrored(_: &str, image: &str) -> String {
    image.replace("registry.example/", "mirror.example/")
}

fn replaced(_: &str, image: &str) -> String {
    let hash = swaplet_testbed::virtual_node::images::hash(image);
    let kind = if image.contains("/park") {
        "cache/park"
    } else {
        "cache/work"
    };
    format!("mirror.example/{kind}/{}:v1", &hash[..8])
}

fn pinned(_: &str, image: &str) -> String {
    let digest = swaplet_testbed::virtual_node::images::digest_of(&image.parse().unwrap());
    let name = image.split('@').next().unwrap();
    format!("{}@{digest}", name.rsplit_once(':').unwrap().0)
}

/// Leaves metadata and images as they were, and the count in a namespace; nodes may write statuses.
fn undo(resource: &str, old: &Value, new: &mut Value) {
    images(resource, old, new, |before, _| before.to_owned());
    if ["pods", "namespaces"].contains(&resource) {
        for field in ["labels", "annotations"] {
            let metadata = new["metadata"].as_object_mut().unwrap();
            match &old["metadata"][field] {
                Value::Null => drop(metadata.remove(field)),
                before => drop(metadata.insert(field.to_owned(), before.clone())),
            }
        }
    }
}

/// How many patches of objects of this resource controllers have sent.
fn patches(world: &World, resource: &str) -> usize {
    let is_patch = |verb, of: &str| verb == Verb::Patch && of == resource;
    let requests = world.requests();
    let patches = requests.iter().filter(|it| is_patch(it.verb, &it.resource));
    patches.count()
}

/// An hour in which objects of this resource get no more than a write a minute.
async fn assert_seldom(world: &World, resource: &str, when: &str) {
    let before = patches(world, resource);
    world.wait(3600).await;
    let sent = patches(world, resource) - before;
    assert!(sent <= 60, "{when}: {sent} writes in an hour");
}

/// The request has ended; its phase and the words that it, or an Event, has.
fn ended(world: &Restarts, when: &str) -> (String, String) {
    let request = world.get("r");
    assert_eq!(request["status"]["phase"], "Completed", "{when}: {request}");
    let state = &request["status"]["containerRecreateStates"][0];
    let words = format!("{} {:?}", request["status"], world.told_with_notes());
    (state["phase"].as_str().unwrap().to_owned(), words)
}

fn runs(world: &Restarts, when: &str) {
    let pod = world.pod();
    let status = Restarts::status(&pod, "app");
    let image = status["image"].as_str().unwrap();
    assert!(
        status["state"]["running"].is_object() && !image.contains("park"),
        "{when}: {status}"
    );
    assert!(!world.image("app").contains("park"), "{when}: {pod}");
}

#[tokio::test(start_paused = true)]
async fn a_restart_by_an_alias_ends_whatever_a_webhook_makes_of_it() {
    for webhook in ALL {
        let when = format!("{webhook:?}");
        let world = Restarts::with_pod("Always").await;
        let _life = world.start_controller();
        webhook.install(&world, "pods");
        world.request("r", &app()).await;
        world.wait(900).await;
        let (phase, words) = ended(&world, &when);
        runs(&world, &when);
        if webhook.changes() {
            assert_eq!(phase, "Succeeded", "{when}: {words}");
        } else {
            assert!(
                phase == "Failed" && words.contains(webhook.words()),
                "{when}: {words}"
            );
            assert!(words.contains("WriteDenied"), "{when}: {words}");
        }
        assert!(
            patches(&world, "pods") <= 22,
            "{when}: {}",
            patches(&world, "pods")
        );
        let before = patches(&world, "pods");
        world.wait(3600).await;
        assert_eq!(patches(&world, "pods"), before, "{when}: it is over");
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_parked_comes_back_whatever_a_webhook_makes_of_it() {
    for webhook in ALL {
        for kill in [false, true] {
            if kill
                && !matches!(
                    webhook,
                    Webhook::Renames | Webhook::Replaces | Webhook::Undoes
                )
            {
                continue;
            }
            let when = format!("{webhook:?}, {kill}");
            let world = parking::world("Always").await;
            let life = world.start_controller();
            webhook.install(&world, "pods");
            world.request("r", &parking::forced()).await;
            if kill {
                for _ in 0..6_000 {
                    if patches(&world, "pods") > 1 {
                        break;
                    }
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                }
                assert!(patches(&world, "pods") > 1, "{when}");
                life.kill();
            }
            let _next = kill.then(|| world.start_controller());
            world.wait(900).await;
            let (phase, words) = ended(&world, &when);
            runs(&world, &when);
            assert!(parking::is_unmarked(&world), "{when}: {}", world.pod());
            if webhook == Webhook::Pins {
                assert_eq!(phase, "Succeeded", "{when}: {words}");
            } else {
                assert!(
                    phase == "Failed" && words.contains(webhook.words()),
                    "{when}: {words}"
                );
            }
            // A dry run, the write, and where that is undone, its record again.
            assert!(
                patches(&world, "pods") <= 66,
                "{when}: {}",
                patches(&world, "pods")
            );
            let before = patches(&world, "pods");
            world.wait(300).await;
            assert_eq!(patches(&world, "pods"), before, "{when}: it is over");
        }
    }
}

/// It is older than the webhook, which lets the park image through.
#[tokio::test(start_paused = true)]
async fn u150_a_container_whose_image_could_not_be_put_back_is_not_parked() {
    let world = parking::world("Always").await;
    let _life = world.start_controller();
    let denial = world.fault(Effect::reply(403).message(NO), |rule| {
        let pods = rule.verb(Verb::Patch).resource("pods");
        pods.body(&format!("{APP:?}"))
    });
    world.request("r", &parking::forced()).await;
    world.wait(900).await;
    let (phase, words) = ended(&world, "denied");
    assert!(
        phase == "Failed" && words.contains("its image could not be put back"),
        "{words}"
    );
    assert!(
        words.contains("not signed") && words.contains("WriteDenied"),
        "{words}"
    );
    assert_eq!((world.restarts("app"), world.image_changes("p")), (0, 0));
    // Two dry runs each.
    let sent = patches(&world, "pods");
    assert!(sent <= 44, "{sent}");
    world.end_fault(denial);
    world.wait(600).await;
    assert_eq!(patches(&world, "pods"), sent, "it is over");
    // A webhook that cannot be asked so says nothing of what it would do.
    world.next_patch_fault(Effect::reply(400).message(NO_DRY_RUN));
    world.request("r2", &parking::forced()).await;
    world.wait(60).await;
    assert_eq!(world.get("r2")["status"]["phase"], "Completed");
    assert_eq!((world.restarts("app"), world.image_changes("p")), (2, 2));
}

/// The webhook comes when the container is parked: what was begun is ended when it is gone again.
#[tokio::test(start_paused = true)]
async fn a_container_whose_way_back_is_barred_keeps_its_record_and_comes_back_later() {
    for webhook in [
        Webhook::Undoes,
        Webhook::UndoesAll,
        Webhook::Denies,
        Webhook::Fails,
        Webhook::Hangs,
    ] {
        let when = format!("{webhook:?}");
        let world = parking::world("Always").await;
        let _life = world.start_controller();
        world.request("r", &parking::forced()).await;
        while world.image("app") != PARK {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        webhook.install(&world, "pods");
        world.wait(900).await;
        let (phase, words) = ended(&world, &when);
        assert!(
            phase == "Failed" && words.contains("stays in the park image"),
            "{when}: {words}"
        );
        assert!(words.contains(webhook.words()), "{when}: {words}");
        assert!(
            world.image("app") == PARK && !parking::is_unmarked(&world),
            "{when}"
        );
        assert_seldom(&world, "pods", &when).await;
        world.server.set_update_webhook(None);
        world.server.faults().clear();
        world.wait(120).await;
        runs(&world, &when);
        assert!(parking::is_unmarked(&world), "{when}: {}", world.pod());
    }
}

#[tokio::test(start_paused = true)]
async fn a_hot_upgrade_has_one_pod_at_a_time_whatever_a_webhook_makes_of_it() {
    for webhook in ALL {
        let when = format!("{webhook:?}");
        let world = Upgrades::with_pods(4).await;
        let _life = world.world.start(SWAPLET, CONCURRENCY, |settings| {
            let listed = [
                "registry.example/mesh:*",
                "registry.example/mesh@*",
                "mirror.example/*",
            ];
            settings.hot_upgrade = Some(UpgradeImages {
                listed: listed.map(|one| ImagePattern::parse(one).unwrap()).into(),
                park: Some(PARK.parse().unwrap()),
                empty: vec![ImagePattern::parse("mirror.example/cache/park/*").unwrap()],
            });
        });
        world.wait(5).await;
        webhook.install(&world, "pods");
        world.upgrade_to(2).await;
        let pods = ["p0", "p1", "p2", "p3"];
        world.serve_for(60, &pods).await;
        world.wait(900).await;
        let works = |image: &&String| !image.contains("/park");
        for pod in pods {
            assert!(world.serves(pod), "{when}: {:#}", world.get(pod)["status"]);
            let images = world.images(pod);
            assert_eq!(images.iter().filter(works).count(), 1, "{when}: {images:?}");
        }
        let begun = pods
            .iter()
            .filter(|pod| !world.annotation(pod, RECORD).is_empty());
        assert!(begun.count() <= 1, "{when}");
        let told: Vec<_> = pods.iter().flat_map(|pod| world.notes(pod)).collect();
        let told = format!("{told:?}");
        assert!(
            ["HotUpgradeFailed", "WriteDenied"]
                .iter()
                .any(|reason| told.contains(reason)),
            "{when}: {told}"
        );
        assert_eq!(world.works_with(&mesh(1)), 4, "{when}");
        let before = pods.map(|pod| world.patches(pod));
        world.wait(600).await;
        for (pod, before) in pods.iter().zip(before) {
            let sent = world.patches(pod) - before;
            assert!(sent <= 10, "{when}: {sent} writes of {pod} in ten minutes");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_count_of_a_namespace_is_not_written_more_than_once_a_minute() {
    for webhook in [
        Webhook::UndoesAll,
        Webhook::Denies,
        Webhook::Fails,
        Webhook::Gone,
        Webhook::Hangs,
    ] {
        let world = World::new();
        world.create_namespace("shop").await;
        world.pod_of_the_shop("web").await;
        world.protect_the_shop().await;
        webhook.install(&world, "namespaces");
        let _life = world.start_protecting_controller();
        world.wait(300).await;
        assert_seldom(&world, "namespaces", &format!("{webhook:?}")).await;
        assert_eq!(world.shop(), None, "{webhook:?}");
        world.server.set_update_webhook(None);
        world.server.faults().clear();
        world.wait(61).await;
        assert_eq!(
            world.shop().as_deref(),
            Some("pods=1,pvcs=0"),
            "{webhook:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_sidecar_whose_swap_is_undone_is_ended_by_the_phase() {
    for webhook in [
        Webhook::Undoes,
        Webhook::UndoesAll,
        Webhook::Denies,
        Webhook::Fails,
    ] {
        let when = format!("{webhook:?}");
        let world = World::new();
        world.run_pod(&pod("p", "OnFailure")).await;
        let _life = world.start_controller_that_may_finish();
        world.wait(1).await;
        webhook.install(&world, "pods");
        // The webhook is for pods, and not for their statuses.
        if !matches!(webhook, Webhook::Undoes | Webhook::UndoesAll) {
            world.server.faults().clear();
            let effect = match webhook {
                Webhook::Fails => Effect::reply(500).message(DOWN),
                _ => Effect::reply(403).message(NO),
            };
            world.fault(effect, |rule| {
                rule.verb(Verb::Patch).resource("pods").subresource("")
            });
        }
        world.ends("p", "main", 0).await;
        world.wait(120).await;
        let told = format!("{:?}", world.notes("p"));
        assert!(
            told.contains("WriteDenied") && told.contains(webhook.words()),
            "{when}: {told}"
        );
        assert_eq!(world.phase("p"), "Succeeded", "{when}");
        assert!(world.patches("p") <= 40, "{when}: {}", world.patches("p"));
    }
}

/// Nobody tells the next leader what was stored for the image that its predecessor wrote: it writes
/// the same again, and sees by the answer that this is there already.
#[tokio::test(start_paused = true)]
async fn an_exit_image_under_another_name_starts_once_also_under_the_next_leader() {
    for webhook in [Webhook::Renames, Webhook::Replaces, Webhook::Pins] {
        for policy in ["OnFailure", "Never"] {
            for finishes in [true, false] {
                let when = format!("{webhook:?} {policy} {finishes}");
                let world = World::new();
                world.run_pod(&pod("p", policy)).await;
                let start = || {
                    if finishes {
                        world.start_controller_that_may_finish()
                    } else {
                        world.start_controller()
                    }
                };
                let life = start();
                world.wait(1).await;
                webhook.install(&world, "pods");
                world.ends("p", "main", 0).await;
                world.wait(1).await;
                assert_eq!(world.image_changes("p"), 1, "{when}");
                life.kill();

                let _next = start();
                world.wait(3).await;
                world.start_kubelet(Kubelet {
                    stop_code: 143,
                    ..Kubelet::default()
                });
                world.wait(120).await;
                let told = world.notes("p");
                assert_eq!(world.phase("p"), "Succeeded", "{when}: {told:?}");
                assert_eq!(world.image_changes("p"), 1, "{when}: {told:?}");
                assert!(world.patches("p") <= 2, "{when}: {}", world.patches("p"));
                assert!(
                    told.len() == 1 && told[0].0 == "SidecarEnded",
                    "{when}: {told:?}"
                );
            }
        }
    }
}

/// What it stores of the write is no exit image, and no record says that it is one.
#[tokio::test(start_paused = true)]
async fn u17_a_swap_that_is_undone_for_one_of_two_sidecars_is_ended_by_the_phase() {
    let world = World::new();
    let mut two = pod("p", "OnFailure");
    let other = sidecar("other");
    two["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .push(other);
    world.run_pod(&two).await;
    world.start_kubelet(Kubelet::default());
    let _life = world.start_controller_that_may_finish();
    world.wait(1).await;
    let keeps: UpdateWebhook = |resource, old, new| {
        if resource == "pods" {
            new["spec"]["containers"][2] = old["spec"]["containers"][2].clone();
        }
    };
    world.server.set_update_webhook(Some(keeps));
    world.ends("p", "main", 0).await;
    world.wait(120).await;
    let told = format!("{:?}", world.notes("p"));
    assert_eq!(world.phase("p"), "Succeeded", "{told}");
    assert!(!told.contains("has not reacted"), "{told}");
}

/// The rest of the write is stored, and ends no pod.
#[tokio::test(start_paused = true)]
async fn u122_a_phase_that_a_webhook_sets_back_is_denied_and_comes_when_that_is_over() {
    let world = World::new();
    world.run_pod(&pod("p", "OnFailure")).await;
    world.start_kubelet(Kubelet::default());
    let _life = world.start_finishing_controller();
    world.wait(1).await;
    let sets_back: UpdateWebhook = |resource, old, new| {
        let nudge = |pod: &Value| pod["metadata"]["annotations"]["swaplet.io/finished"].clone();
        if resource == "pods" && nudge(new) != nudge(old) {
            new["status"]["phase"] = old["status"]["phase"].clone();
        }
    };
    world.server.set_update_webhook(Some(sets_back));
    world.ends("p", "main", 0).await;
    world.wait(600).await;
    let told = format!("{:?}", world.notes("p"));
    assert!(told.contains("status.phase is Running"), "{told}");
    assert!(!told.contains("PhaseWritten"), "{told}");
    assert!(world.patches("p") <= 20, "{}", world.patches("p"));
    world.server.set_update_webhook(None);
    world.wait(1800).await;
    let told = format!("{:?}", world.notes("p"));
    assert_eq!(world.phase("p"), "Succeeded", "{told}");
}

/// Its rule is for an image that it has no more.
#[tokio::test(start_paused = true)]
async fn u18_a_container_of_a_policy_by_image_stays_a_sidecar_under_another_name() {
    for webhook in [Webhook::Renames, Webhook::Replaces, Webhook::Pins] {
        let world = World::new();
        policies::install(&world).await;
        policies::apply(&world, "rules", json!([{"image": "log:*"}])).await;
        world.start_kubelet(Kubelet {
            pulls: false,
            stop_code: 143,
            ..Kubelet::default()
        });
        let _life = world.start_with_policies(0, true);
        world.wait(5).await;
        let mut pod = policies::pod("p", &["log"]);
        pod["spec"]["restartPolicy"] = "OnFailure".into();
        world.run_pod(&pod).await;
        world.wait(1).await;
        webhook.install(&world, "pods");
        world.ends("p", "main", 0).await;
        world.wait(240).await;
        let told = format!("{:?}", world.notes("p"));
        assert_eq!(world.image_changes("p"), 1, "{webhook:?}: {told}");
        assert_eq!(world.phase("p"), "Succeeded", "{webhook:?}: {told}");
    }
}

/// OpenKruise's own webhook is called for requests and not for their status, and refuses all changes
/// while its manager is away.
#[tokio::test(start_paused = true)]
async fn u115_a_request_that_cannot_be_changed_ends_and_what_it_has_parked_comes_back() {
    for passing in [0, 2] {
        let world = parking::world("Always").await;
        let _life = world.start_controller();
        world.fault(Effect::reply(500).message(DOWN), |rule| {
            let requests = rule.verb(Verb::Patch).resource("containerrecreaterequests");
            requests.subresource("").after(passing)
        });
        world.request("r", &parking::forced()).await;
        world.wait(10).await;
        let is_parked = world.image("app") == PARK;
        assert_eq!(is_parked, passing == 2, "{}", world.pod());
        world.wait(900).await;
        let (phase, words) = ended(&world, &format!("after {passing}"));
        assert!(
            phase == "Failed" && words.contains("failed calling webhook"),
            "{words}"
        );
        runs(&world, &format!("after {passing}"));
    }
}

/// A webhook for requests takes two seconds, and somebody writes their metadata each second.
#[tokio::test(start_paused = true)]
async fn u226_a_request_that_keeps_changing_ends_and_what_it_has_parked_comes_back() {
    for deadline in [None, Some(60)] {
        let when = format!("{deadline:?}");
        let world = parking::world("Always").await;
        let _life = world.start_controller();
        let mut spec = parking::forced();
        spec["activeDeadlineSeconds"] = json!(deadline);
        world.request("r", &spec).await;
        while world.image("app") != PARK {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        world.fault(Effect::reply(409), |rule| {
            let requests = rule.verb(Verb::Patch).resource("containerrecreaterequests");
            requests.subresource("")
        });
        world.wait(900).await;
        let (phase, words) = ended(&world, &when);
        assert!(
            phase == "Failed" && words.contains("it keeps changing"),
            "{when}: {words}"
        );
        runs(&world, &when);
        assert_eq!(world.image_changes("p"), 2, "{when}");
        assert!(parking::is_unmarked(&world), "{when}: {}", world.pod());
    }
}

/// What swaplet writes into the metadata of a request is not stored, although the rest is.
#[tokio::test(start_paused = true)]
async fn u26_a_request_whose_metadata_is_not_stored_is_written_seldom_and_ends_in_words() {
    const REQUESTS: &str = "containerrecreaterequests";
    const JOURNAL: &str = "swaplet.io/restart-journal";
    let webhooks: [(&str, UpdateWebhook); 3] = [
        ("labels", |resource, _, new| {
            if resource == REQUESTS {
                new["metadata"]["labels"] = Value::Null;
            }
        }),
        ("journal", |resource, _, new| {
            if resource == REQUESTS {
                new["metadata"]["annotations"] = Value::Null;
            }
        }),
        ("changes of the journal", |resource, old, new| {
            let before = &old["metadata"]["annotations"][JOURNAL];
            if resource == REQUESTS && before.is_string() {
                new["metadata"]["annotations"][JOURNAL] = before.clone();
            }
        }),
    ];
    for (when, webhook) in webhooks {
        let world = Restarts::with_pod("Always").await;
        let _life = world.start_controller();
        world.server.set_update_webhook(Some(webhook));
        world.request("r", &app()).await;
        world.wait(900).await;
        let sent = patches(&world, REQUESTS);
        assert!(sent <= 20, "{when}: {sent}");
        let (phase, words) = ended(&world, when);
        assert!(
            phase == "Failed" && words.contains("webhook of the cluster"),
            "{when}: {words}"
        );
        assert!(words.contains("WriteDenied"), "{when}: {words}");
        assert_eq!(patches(&world, "pods"), 0, "{when}");
        runs(&world, when);
        world.wait(3600).await;
        assert!(patches(&world, REQUESTS) <= sent + 60, "{when}");
    }
}

/// Nothing but the clean-up is left of it.
#[tokio::test(start_paused = true)]
async fn u204_a_request_whose_label_cannot_be_removed_is_written_seldom_and_deleted_in_its_time() {
    const REQUESTS: &str = "containerrecreaterequests";
    let world = Restarts::with_pod("Always").await;
    let _life = world.start_controller();
    world.fault(Effect::reply(403).message(NO), |rule| {
        let requests = rule.verb(Verb::Patch).resource(REQUESTS);
        requests.body(&format!("{ACTIVE:?}:null"))
    });
    let mut spec = app();
    spec["ttlSecondsAfterFinished"] = json!(7200);
    world.request("r", &spec).await;
    world.wait(60).await;
    assert_eq!(ended(&world, "denied").0, "Succeeded");
    let before = patches(&world, REQUESTS);
    world.wait(3600).await;
    let sent = patches(&world, REQUESTS) - before;
    assert!((1..=10).contains(&sent), "{sent} writes in an hour");
    world.wait(4500).await;
    assert!(world.find("r").is_none(), "{}", world.get("r"));
}

/// A namespace whose writes fail has one under way at a time, so each request has its turn seldom.
#[tokio::test(start_paused = true)]
async fn u131_many_requests_behind_a_webhook_that_hangs_end_in_words() {
    let world = Restarts::with_pod("Always").await;
    let names: Vec<_> = (0..25).map(|nth| format!("q{nth}")).collect();
    for name in &names {
        let mut pod = restart_pod("Always");
        pod["metadata"]["name"] = json!(name);
        world.create(&pod).await;
    }
    world.wait(30).await;
    let _life = world.start_controller();
    Webhook::Hangs.install(&world, "pods");
    for name in &names {
        let mut spec = app();
        spec["podName"] = json!(name);
        world.request(name, &spec).await;
    }
    world.wait(1500).await;
    for name in &names {
        let status = &world.get(name)["status"];
        let state = &status["containerRecreateStates"][0];
        assert_eq!(
            (&status["phase"], &state["phase"]),
            (&json!("Completed"), &json!("Failed")),
            "{name}: {status}"
        );
        let words = state["message"].as_str().unwrap();
        assert!(words.contains(Webhook::Hangs.words()), "{name}: {words}");
        assert_eq!(world.image_changes(name), 0, "{name}");
    }
}

/// A container that is stopped there comes back only if its node has the image.
#[tokio::test(start_paused = true)]
async fn u132_a_restart_that_may_be_the_last_is_not_begun_with_an_image_that_a_webhook_names() {
    for policy in ["OnFailure", "Never"] {
        for webhook in [Webhook::Renames, Webhook::Replaces, Webhook::Pins] {
            let when = format!("{policy}, {webhook:?}");
            let world = Restarts::with_pod(policy).await;
            let _life = world.start_controller();
            webhook.install(&world, "pods");
            world.request("r", &app()).await;
            world.wait(900).await;
            let (phase, words) = ended(&world, &when);
            runs(&world, &when);
            if webhook == Webhook::Pins {
                assert_eq!(phase, "Succeeded", "{when}: {words}");
                assert_eq!((world.restarts("app"), world.image_changes("p")), (1, 1));
                continue;
            }
            assert_eq!(
                (&*phase, world.restarts("app"), world.image_changes("p")),
                ("Failed", 0, 0),
                "{when}: {words}"
            );
            assert!(
                words.contains("a webhook of the cluster would make mirror.example/"),
                "{when}: {words}"
            );
        }
    }
}

/// A webhook that cannot be asked may make another image of what is written.
#[tokio::test(start_paused = true)]
async fn u223_what_no_dry_run_shows_is_restarted_by_force_only() {
    for (parks, policy) in [(true, "Always"), (false, "OnFailure"), (false, "Never")] {
        let when = format!("{parks}, {policy}");
        let world = match parks {
            true => parking::world(policy).await,
            false => Restarts::with_pod(policy).await,
        };
        let _life = world.start_controller();
        let fault = world.fault(Effect::reply(400).message(NO_DRY_RUN), |rule| {
            rule.verb(Verb::Patch).resource("pods")
        });
        world.request("r", &app()).await;
        world.wait(900).await;
        let (phase, words) = ended(&world, &when);
        assert!(
            phase == "Failed"
                && words.contains("does not support dry run")
                && words.contains("forceRecreate"),
            "{when}: {words}"
        );
        assert_eq!((world.restarts("app"), world.image_changes("p")), (0, 0));
        world.end_fault(fault);
        // The two dry runs of a parking.
        for _ in 0..if parks { 2 } else { 0 } {
            world.next_patch_fault(Effect::reply(400).message(NO_DRY_RUN));
        }
        world.request("r2", &parking::forced()).await;
        world.wait(60).await;
        let changes = if parks { 2 } else { 1 };
        assert_eq!(
            (world.restarts("app"), world.image_changes("p")),
            (changes.into(), changes.into()),
            "{when}"
        );
    }
}

/// Whether its request is deleted meanwhile, and whatever the name says.
#[tokio::test(start_paused = true)]
async fn u223_a_container_is_not_parked_where_a_webhook_would_rename_the_park_image() {
    for webhook in [Webhook::Renames, Webhook::Replaces] {
        for deletes in [false, true] {
            let when = format!("{webhook:?}, {deletes}");
            let world = parking::world("Always").await;
            let _life = world.start_controller();
            webhook.install(&world, "pods");
            world.request("r", &parking::forced()).await;
            while patches(&world, "pods") == 0 {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            if deletes {
                world.delete_request("r").await;
            }
            world.wait(900).await;
            runs(&world, &when);
            assert_eq!((world.restarts("app"), world.image_changes("p")), (0, 0));
            assert!(parking::is_unmarked(&world), "{when}: {}", world.pod());
            if !deletes {
                let (phase, words) = ended(&world, &when);
                assert!(
                    phase == "Failed"
                        && words.contains("a webhook of the cluster would make mirror.example/"),
                    "{when}: {words}"
                );
            }
        }
    }
}

/// It does not support dry run, and the request is forced and deleted: what the container had is told
/// before its record goes.
#[tokio::test(start_paused = true)]
async fn u223_a_record_does_not_go_without_a_word() {
    let world = parking::world("Always").await;
    let _life = world.start_controller();
    Webhook::Replaces.install(&world, "pods");
    for _ in 0..2 {
        world.next_patch_fault(Effect::reply(400).message(NO_DRY_RUN));
    }
    world.request("r", &parking::forced()).await;
    while world.image("app") == APP {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    world.delete_request("r").await;
    world.wait(900).await;
    let has = world.image("app");
    assert!(parking::is_unmarked(&world), "{}", world.pod());
    if has != APP {
        let told = format!("{:?}", world.told_with_notes());
        assert!(
            told.contains(&format!("It has {has}, and had {APP}")),
            "{told}"
        );
    }
}
