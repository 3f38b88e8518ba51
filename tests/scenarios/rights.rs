//! A right that is missing costs what it is for, and nothing else: it is said once, readiness says
//! it for as long as it lasts, it is asked for at a bounded rate, and what had to wait is done when
//! it is given.

use std::sync::Arc;

use serde_json::json;
use swaplet_controller::frame::clock::TimeOfDay;
use swaplet_controller::restart::driver::RestartSettings;
use swaplet_core::objects::values::env::IGNORE_EXIT_CODE;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_testbed::apiserver::{Effect, RuleId, Verb};
use swaplet_testbed::virtual_node::Profile;

use super::harness::{CONCURRENCY, Life, SWAPLET, World};
use super::log::{keep_log, logged};
use super::objects::{pod_of, sidecar};
use super::restart::leash::bind;
use super::restart::world::{Restarts, pod as pod_to_restart};

/// Of each thing that the right is needed for: a watch that fails asks at most every 15 s, a denied
/// write is tried again after a minute.
pub const MOST_IN_FIVE_MINUTES: usize = 21;

/// What is done without a right.
#[derive(Clone, Copy)]
pub struct Done {
    swap: bool,
    finish: bool,
    restart: bool,
}

pub const ALL: Done = Done {
    swap: true,
    finish: true,
    restart: true,
};
const NONE: Done = Done {
    swap: false,
    finish: false,
    restart: false,
};
const REQUESTS: &str = "containerrecreaterequests";

/// A pod to restart a container of, one whose sidecar is swapped, and one whose phase is written.
async fn with_work_for_everything() -> Restarts {
    let world = Restarts::on(Profile::kubelet(), &pod_to_restart("Always")).await;
    world.create_namespace("state").await;
    for binding in ["leash-pods", "leash-parked"] {
        bind(&world, binding, json!(["Deny"])).await;
    }
    let main = json!({"name": "main", "image": "main:1", "args": ["run=1s"]});
    let side = |name: &str| {
        let mut side = sidecar(name);
        side["args"] = json!(["run=forever"]);
        side
    };
    let mut ignored = side("side");
    ignored["env"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": IGNORE_EXIT_CODE, "value": "true"}));
    for (name, side) in [("swap", side("side")), ("finish", ignored)] {
        let mut pod = pod_of(name, "OnFailure", vec![main.clone(), side]);
        pod["spec"]["nodeName"] = json!("virtual");
        world.create(&pod).await;
    }
    world
        .request(
            "r",
            // Without a deadline a request that is denied ends after ten minutes.
            &json!({"podName": "p", "containers": [{"name": "app"}], "ttlSecondsAfterFinished": 5, "activeDeadlineSeconds": 7200}),
        )
        .await;
    world
}

fn assert_done(world: &Restarts, done: Done, when: &str) {
    assert_eq!(
        world.phase("swap") == "Succeeded",
        done.swap,
        "{when}: the swap"
    );
    assert_eq!(
        world.phase("finish") == "Succeeded",
        done.finish,
        "{when}: the phase"
    );
    assert_eq!(
        world.restarts("app") == 1,
        done.restart,
        "{when}: the restart"
    );
}

pub struct Missing {
    verb: Verb,
    resource: &'static str,
    subresource: &'static str,
    /// Of how many objects, or of how many things that it is needed for, it is told.
    pub times: usize,
    /// Whether `/readyz` goes on saying so until it is needed again.
    pub lingers: bool,
    /// Whether `/readyz` fails.
    fails: bool,
    done: Done,
}

impl Missing {
    pub const fn new(verb: Verb, resource: &'static str, done: Done) -> Self {
        Self {
            verb,
            resource,
            subresource: "",
            times: 1,
            lingers: false,
            fails: false,
            done,
        }
    }

    pub const fn of(self, subresource: &'static str) -> Self {
        Self {
            subresource,
            ..self
        }
    }

    pub const fn lingers(self) -> Self {
        Self {
            lingers: true,
            ..self
        }
    }

    pub const fn told(self, times: usize) -> Self {
        Self { times, ..self }
    }

    const fn fails(self) -> Self {
        Self {
            fails: true,
            ..self
        }
    }

    /// In the words of an API server.
    pub fn words(&self) -> String {
        let Self {
            verb,
            resource,
            subresource,
            ..
        } = self;
        let verb = format!("{verb:?}").to_lowercase();
        let slash = if subresource.is_empty() { "" } else { "/" };
        format!(
            "{resource} is forbidden: User \"swaplet\" cannot {verb} resource \"{resource}{slash}{subresource}\" at the cluster scope"
        )
    }

    /// Takes the right from the controllers.
    pub fn begins(&self, world: &World) -> RuleId {
        let Self {
            verb,
            resource,
            subresource,
            ..
        } = *self;
        world.fault(Effect::reply(403).message(&self.words()), |rule| {
            rule.verb(verb).resource(resource).subresource(subresource)
        })
    }

    pub fn asked(&self, world: &World) -> usize {
        let is_it = |resource: &str| resource == self.resource;
        world
            .requests()
            .iter()
            .filter(|sent| {
                sent.verb == self.verb
                    && is_it(&sent.resource)
                    && *sent.subresource == *self.subresource
            })
            .count()
    }

    async fn costs_what_it_is_for(self) {
        let words = self.words();
        keep_log();
        let world = with_work_for_everything().await;
        let fault = self.begins(&world);
        let clock = world.server.clock();
        let life = world.start(SWAPLET, CONCURRENCY, |settings| {
            settings.rules.allowed = AllowedMethods {
                finish: true,
                ..AllowedMethods::default()
            };
            settings.restart = Some(RestartSettings {
                time_of_day: TimeOfDay(Arc::new(move || clock.now())),
                on_config: None,
                readiness_gates: false,
                park: None,
                leash: Some("leash".into()),
            });
            settings.state_namespace = Some("state".to_owned());
        });
        world.wait(600).await;
        assert_done(&world, self.done, &words);
        let said = logged(&words);
        assert_eq!(said.len(), self.times, "{words}: {said:#?}");
        self.readiness_says(&life, &words);
        let before = self.asked(&world);
        world.wait(300).await;
        let asked = self.asked(&world) - before;
        assert!(
            asked <= MOST_IN_FIVE_MINUTES * self.times,
            "{words}: asked {asked} times in five minutes"
        );

        world.end_fault(fault);
        world.wait(16 * 60).await;
        assert_done(&world, ALL, &format!("after {words}"));
        assert!(
            world.find("r").is_none(),
            "{words}: the request is deleted when its time is over"
        );
        assert_eq!(logged(&words).len(), self.times, "{words}");
        assert!(
            self.lingers || life.health.ready() == Ok("ok".to_owned()),
            "{words}: {:?}",
            life.health.ready()
        );
    }

    pub fn readiness_says(&self, life: &Life, words: &str) {
        let ready = life.health.ready();
        let said = ready.clone().unwrap_or_else(|why| why);
        assert!(said.contains(words), "{words}: {said}");
        assert_eq!(self.fails, ready.is_err(), "{words}: {said}");
    }
}

#[tokio::test(start_paused = true)]
async fn to_see_pods_and_jobs() {
    Missing::new(Verb::List, "pods", NONE)
        .told(3)
        .fails()
        .costs_what_it_is_for()
        .await;
    Missing::new(Verb::Watch, "pods", ALL)
        .told(3)
        .fails()
        .costs_what_it_is_for()
        .await;
    Missing::new(Verb::List, "jobs", ALL)
        .fails()
        .costs_what_it_is_for()
        .await;
    Missing::new(Verb::Watch, "jobs", ALL)
        .fails()
        .costs_what_it_is_for()
        .await;
}

#[tokio::test(start_paused = true)]
async fn to_see_nodes() {
    Missing::new(Verb::List, "nodes", ALL)
        .costs_what_it_is_for()
        .await;
    Missing::new(Verb::Watch, "nodes", ALL)
        .costs_what_it_is_for()
        .await;
}

#[tokio::test(start_paused = true)]
async fn to_change_pods_and_to_tell_of_it() {
    // What may not be swapped is finished.
    Missing::new(
        Verb::Patch,
        "pods",
        Done {
            restart: false,
            ..ALL
        },
    )
    .told(2)
    .costs_what_it_is_for()
    .await;
    // The swap ends that pod, too.
    Missing::new(Verb::Patch, "pods", ALL)
        .of("status")
        .lingers()
        .costs_what_it_is_for()
        .await;
    Missing::new(Verb::Create, "events", ALL)
        .lingers()
        .costs_what_it_is_for()
        .await;
}

#[tokio::test(start_paused = true)]
async fn to_restart_containers() {
    Missing::new(
        Verb::Get,
        "validatingadmissionpolicybindings",
        Done {
            restart: false,
            ..ALL
        },
    )
    .costs_what_it_is_for()
    .await;
    Missing::new(
        Verb::List,
        REQUESTS,
        Done {
            restart: false,
            ..ALL
        },
    )
    .costs_what_it_is_for()
    .await;
    Missing::new(Verb::Watch, REQUESTS, ALL)
        .costs_what_it_is_for()
        .await;
    Missing::new(
        Verb::Patch,
        REQUESTS,
        Done {
            restart: false,
            ..ALL
        },
    )
    .costs_what_it_is_for()
    .await;
    Missing::new(
        Verb::Patch,
        REQUESTS,
        Done {
            restart: false,
            ..ALL
        },
    )
    .of("status")
    .costs_what_it_is_for()
    .await;
    Missing::new(Verb::Delete, REQUESTS, ALL)
        .costs_what_it_is_for()
        .await;
}
