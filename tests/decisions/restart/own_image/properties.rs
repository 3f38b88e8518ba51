//! Any name, any policies and any deaths, played to the end. A node as in `docs/measured.md` does
//! with the pod what the spec says; the admission policy denies what the leash denies.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;
use swaplet::image::ImageReference;
use swaplet::image::alias::is_same_image;
use swaplet_core::objects::pod::{ContainerState, Terminated};
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::reconcile::Action;
use swaplet_core::restart::request::StatePhase;

use super::super::leash::admits;
use super::super::world::{DIGEST, PARK, World, park_image, pod, request};

/// Everything that a restart may depend on.
#[derive(Clone, Debug)]
struct Case {
    written: String,
    image_id: String,
    image: String,
    pulls: &'static str,
    policy: &'static str,
    /// A Job counts how the pod ends.
    job: bool,
    force: bool,
    /// What it exits with when it is stopped.
    exit: i64,
    /// Names besides those that the node reports.
    on_node: BTreeSet<String>,
    in_registry: BTreeSet<String>,
    /// Seconds after which the request is over, whatever has become of it.
    deadline: Option<u32>,
    /// Before which looks the controller begins a new life.
    dies: Vec<bool>,
}

/// What a runtime looks for: the tag beside a digest says nothing to it.
fn name_of(image: &str) -> String {
    let Ok(reference) = ImageReference::parse(image) else {
        return image.to_owned();
    };
    let repository = format!("{}/{}", reference.registry(), reference.repository());
    reference.digest().map_or_else(
        || reference.normalized(),
        |digest| format!("{repository}@{digest}"),
    )
}

impl Case {
    fn world(&self) -> World {
        let mut object = pod(self.policy);
        let app = &mut object["spec"]["containers"][0];
        (app["image"], app["imagePullPolicy"]) = (json!(self.written), json!(self.pulls));
        let status = &mut object["status"]["containerStatuses"][0];
        (status["image"], status["imageID"]) = (json!(self.image), json!(self.image_id));
        if self.job {
            object["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "nightly", "uid": "ju", "controller": true}]);
        }
        let mut asked = request(&["app"], &json!({"forceRecreate": self.force}));
        asked["spec"]["activeDeadlineSeconds"] = json!(self.deadline);
        World::new(&asked, &object)
    }

    /// Whether the node can start the image now.
    fn can_start(&self, image: &str) -> bool {
        let name = name_of(image);
        let there = self.on_node.contains(&name) || self.reported().contains(&name);
        match self.pulls {
            "Never" => there,
            "IfNotPresent" => there || self.in_registry.contains(&name),
            _ => self.in_registry.contains(&name),
        }
    }

    /// What the node reports is there.
    fn reported(&self) -> BTreeSet<String> {
        [&self.image_id, &self.image]
            .into_iter()
            .filter(|name| !name.is_empty())
            .map(|name| name_of(name))
            .collect()
    }

    /// Until nothing happens any more; how often the image was changed, and whether swaplet has
    /// changed it last.
    fn play(&self, world: &mut World) {
        let mut spec_of_real = self.written.clone();
        let mut ours = false;
        for step in 0..60 {
            if self.dies.get(step) == Some(&true) {
                world.dies();
            }
            let decision = world.decide();
            if let Some(action) = decision.action {
                if let Action::Swap(change) = &action {
                    change.swaps.iter().for_each(|swap| {
                        assert!(
                            admits(world, swap, ours),
                            "the leash denies {swap:?} of {self:?}"
                        )
                    });
                    ours = true;
                }
                world.write(&action);
                world.told.extend(decision.done);
                continue;
            }
            if !self.sync(world, &mut spec_of_real) {
                if decision.reason == Reason::RequestOver {
                    return;
                }
                world.later(
                    decision
                        .again
                        .map_or(400, |at| at.since(world.now).as_secs().max(1)),
                );
            }
        }
        panic!("no end: {self:?} {:?}", world.request);
    }

    /// What the node does about the spec; whether it did anything.
    fn sync(&self, world: &mut World, real: &mut String) -> bool {
        let image = world.image("app").to_owned();
        let state = world
            .pod
            .as_ref()
            .unwrap()
            .find("app")
            .unwrap()
            .1
            .status
            .as_ref()
            .unwrap()
            .state
            .clone();
        let comes_again = self.policy == "Always" || self.policy == "OnFailure" && self.exit != 0;
        let again = comes_again && !matches!(state, ContainerState::Running { .. });
        if image == *real && !(again && self.can_start(&image)) {
            return false;
        }
        if image != *real && !matches!(state, ContainerState::Running { .. }) && !again {
            return false;
        }
        *real = image.clone();
        world.later(1);
        if self.can_start(&image) {
            world.restarts("app", true).node_says("app", |pod, index| {
                let status = pod.pod.containers[index].status.as_mut().unwrap();
                status.image = if image == PARK {
                    PARK.into()
                } else {
                    self.image.as_str().into()
                };
            });
            return true;
        }
        let end = Terminated {
            exit_code: Some(self.exit),
            ..Terminated::default()
        };
        let waiting = ContainerState::Waiting {
            reason: "ErrImagePull".into(),
            message: image.as_str().into(),
        };
        world.node_says("app", |pod, index| {
            pod.pod.containers[index].status.as_mut().unwrap().state = if comes_again {
                waiting
            } else {
                ContainerState::Terminated(Box::new(end))
            };
        });
        true
    }

    /// The container is as it should be at the end.
    fn judge(&self, world: &World) {
        let (_, container, _) = world.pod.as_ref().unwrap().find("app").unwrap();
        let status = container.status.as_ref().unwrap();
        if world.swaps == 0 {
            assert_eq!(
                (&*container.image, status.restart_count),
                (&*self.written, 0)
            );
            return;
        }
        let is_own = *container.image == *self.written || {
            is_same_image(&container.image, &self.written) || *container.image == *self.image_id
        };
        assert!(is_own, "{} of {self:?}", container.image);
        if matches!(status.state, ContainerState::Running { .. }) {
            return;
        }
        assert_eq!(
            world.request.state("app").phase,
            StatePhase::Failed,
            "nobody is told: {self:?}"
        );
        let waits_for_it = self.policy == "Always"
            && name_of(&container.image) == name_of(&self.written)
            && !self.can_start(&self.written);
        assert!(
            waits_for_it || self.force && self.policy != "Always",
            "it is lost ({:?}): {self:?}",
            status.state
        );
    }
}

fn pinned(name: &str) -> String {
    format!("{name}@{DIGEST}")
}

/// The image as the spec has it, its id and its name in the status.
fn images() -> impl Strategy<Value = (String, String, &'static str)> {
    let written = [
        "r.example/app:1".to_owned(),
        "r.example/app".to_owned(),
        pinned("r.example/app:1"),
        pinned("r.example/app"),
        "app:1".to_owned(),
        "docker.io/library/app:1".to_owned(),
        DIGEST.to_owned(),
    ];
    let ids = ["", DIGEST]
        .map(str::to_owned)
        .into_iter()
        .chain(["r.example/app", "docker.io/library/app", "import-2026"].map(pinned));
    let images = [
        "",
        "r.example/app:1",
        "r.example/app:latest",
        "docker.io/library/app:1",
        "r.example/other:1",
    ];
    (
        prop::sample::select(written.to_vec()),
        prop::sample::select(ids.collect::<Vec<_>>()),
        prop::sample::select(images.to_vec()),
    )
}

fn cases() -> impl Strategy<Value = Case> {
    let names = [
        "r.example/app:1",
        "r.example/app:latest",
        "docker.io/library/app:1",
        DIGEST,
        PARK,
    ]
    .map(name_of)
    .into_iter();
    let names: Vec<_> = names
        .chain(
            ["r.example/app", "docker.io/library/app", "import-2026"]
                .map(pinned)
                .map(|name| name_of(&name)),
        )
        .collect();
    let some = move || {
        prop::sample::subsequence(names.clone(), 0..names.len())
            .prop_map(|names| names.into_iter().collect())
    };
    let places = (some(), some());
    let policies = (
        prop::sample::select(vec!["Always", "IfNotPresent", "Never"]),
        prop::sample::select(vec!["Always", "OnFailure", "Never"]),
        any::<bool>(),
        any::<bool>(),
        prop::sample::select(vec![0, 143]),
    );
    let times = (
        prop::option::of(1..60_u32),
        prop::collection::vec(prop::bool::weighted(0.3), 20),
    );
    (images(), policies, places, times).prop_map(
        |(
            (written, image_id, image),
            (pulls, policy, job, force, exit),
            (on_node, in_registry),
            times,
        )| {
            let (deadline, dies) = times;
            Case {
                written,
                image_id,
                image: image.to_owned(),
                pulls,
                policy,
                job,
                force,
                exit,
                on_node,
                in_registry,
                deadline,
                dies,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn d1_a_container_ends_with_its_own_image_or_was_never_touched(case in cases(), parks in any::<bool>()) {
        let mut world = case.world();
        world.park = parks.then(park_image);
        case.play(&mut world);
        case.judge(&world);
        let is_main_of_job = case.job && case.policy != "Always";
        prop_assert!(!is_main_of_job || case.force || world.swaps == 0, "work is risked: {case:?}");
    }
}
