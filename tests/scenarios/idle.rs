//! What a controller asks for that has nothing to do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use swaplet_controller::frame::clock::TimeOfDay;
use swaplet_controller::restart::driver::RestartSettings;
use swaplet_controller::restart::on_config::RestartOnSettings;
use swaplet_controller::run::Settings;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_core::terminate::openkruise::Coexist;
use swaplet_testbed::apiserver::{Effect, Recorded, RuleId, Verb};

use super::harness::{CONCURRENCY, Life, SWAPLET, World};
use super::log::{keep_log, logged};
use super::openkruise::webhook_kind;
use super::pull_jobs::warm_settings;
use super::warm::PARK;

/// Which resources OpenKruise's group has.
const DISCOVERY: &str = "/apis/apps.kruise.io/v1alpha1";

impl World {
    /// Starts a controller with all that it can do without a registry.
    async fn start_controller_for_everything(&self) -> Life {
        self.create_namespace("state").await;
        let clock = self.server.clock();
        let time_of_day = TimeOfDay(Arc::new(move || clock.now()));
        self.start(SWAPLET, CONCURRENCY, |settings: &mut Settings| {
            settings.rules.coexist = Coexist::Auto;
            settings.rules.allowed = AllowedMethods {
                recreate: true,
                finish: true,
                ..AllowedMethods::default()
            };
            let on_config = RestartOnSettings {
                state_namespace: "state".to_owned(),
                mount_delay: Duration::from_secs(120),
                park: None,
            };
            settings.restart = Some(RestartSettings {
                time_of_day: time_of_day.clone(),
                on_config: Some(on_config),
                readiness_gates: false,
                park: None,
                leash: None,
            });
            settings.warm = Some(warm_settings("state", PARK, time_of_day));
            settings.predownload = true;
            settings.state_namespace = Some("state".to_owned());
        })
    }

    /// Nothing of OpenKruise may be seen, as where the chart was told nothing of it.
    fn forbid_openkruise(&self) -> Vec<RuleId> {
        let resources = [
            ("pods", "kruise-system"),
            ("deployments", "kruise-system"),
            ("leases", "kruise-system"),
        ];
        let of_cluster = ("mutatingwebhookconfigurations", "");
        let forbid = |(resource, namespace): (&str, &str)| {
            self.fault(Effect::reply(403).message(&forbidden(resource)), |rule| {
                rule.resource(resource).namespace(namespace)
            })
        };
        resources
            .into_iter()
            .chain([of_cluster])
            .map(forbid)
            .collect()
    }
}

/// In the words of an API server.
fn forbidden(resource: &str) -> String {
    format!("{resource} is forbidden: User \"swaplet\" cannot see resource \"{resource}\"")
}

/// How often each thing was asked for in these minutes, watches aside. Others write what nobody
/// here looks at, as nodes renew their Leases.
async fn asked_in(world: &World, life: &Life, minutes: u64) -> BTreeMap<String, usize> {
    let before = life.line.sent().len();
    for _ in 0..minutes * 3 {
        world
            .create_namespace(&format!("n{}", world.server.revision()))
            .await;
        world.wait(20).await;
    }
    let mut asked = BTreeMap::new();
    for sent in life.line.sent().split_off(before) {
        if !sent.uri.contains("watch=true") {
            *asked
                .entry(format!("{} {}", sent.method, sent.uri))
                .or_default() += 1;
        }
    }
    asked
}

#[tokio::test(start_paused = true)]
async fn where_nothing_happens_one_question_in_half_a_minute_is_all() {
    let world = World::new();
    world.forbid_openkruise();
    let life = world.start_controller_for_everything().await;
    world.wait(60).await;
    let asked = asked_in(&world, &life, 10).await;
    assert_eq!(asked, BTreeMap::from([(format!("GET {DISCOVERY}"), 20)]));
}

#[tokio::test(start_paused = true)]
async fn where_only_swaplets_crd_is_there_nobody_asks_for_a_daemon_that_may_not_be_seen() {
    keep_log();
    let world = World::new();
    let rules = world.forbid_openkruise();
    let life = world.start_controller_for_everything().await;
    world.wait(600).await;
    let of_daemons = || {
        world
            .requests()
            .iter()
            .filter(|sent| sent.resource == "pods" && sent.namespace == "kruise-system")
            .count()
    };
    assert_eq!(
        (of_daemons(), logged("")),
        (1, vec![]),
        "tried once, and told to nobody"
    );
    assert_eq!(life.health.ready(), Ok("ok".to_owned()));

    world.install_node_images().await;
    rules.into_iter().for_each(|rule| world.end_fault(rule));
    world.wait(35).await;
    let is_watch = |sent: &&Recorded| sent.verb == Verb::Watch && sent.namespace == "kruise-system";
    assert_eq!(
        world.requests().iter().filter(is_watch).count(),
        1,
        "the daemon is followed as soon as OpenKruise is there"
    );
    assert_eq!(
        (logged("forbidden"), life.health.ready()),
        (vec![], Ok("ok".to_owned()))
    );
}

#[tokio::test(start_paused = true)]
async fn where_openkruise_is_there_readiness_says_what_may_not_be_seen_of_it() {
    keep_log();
    let world = World::new();
    world.install_node_images().await;
    let rules = world.forbid_openkruise();
    let life = world.start_controller_for_everything().await;
    world.wait(600).await;
    let ready = life.health.ready().unwrap();
    for resource in ["pods", "deployments", "leases"] {
        let words = forbidden(resource);
        assert!(ready.contains(&words), "{words}: {ready}");
        assert_eq!(logged(&words).len(), 1, "{words}");
    }
    let asked = asked_in(&world, &life, 10).await;
    let most = asked.iter().max_by_key(|(_, times)| **times).unwrap();
    assert!(*most.1 <= 41, "{most:?}");

    rules.into_iter().for_each(|rule| world.end_fault(rule));
    world.wait(90).await;
    assert_eq!(life.health.ready(), Ok("ok".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn each_right_that_concerns_openkruise_is_said_by_itself() {
    let requests = "containerrecreaterequests";
    let rights = [
        (Verb::List, "pods", "kruise-system", 1),
        (Verb::Watch, "pods", "kruise-system", 1),
        (Verb::List, "deployments", "kruise-system", 1),
        (Verb::Get, "leases", "kruise-system", 1),
        (Verb::Get, "mutatingwebhookconfigurations", "", 1),
        // Those who restart containers say so too.
        (Verb::List, requests, "", 3),
        (Verb::Watch, requests, "", 3),
    ];
    for (verb, resource, namespace, times) in rights {
        keep_log();
        let world = World::new();
        world.install_node_images().await;
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        world
            .request(Method::POST, crds, "application/json", &webhook_kind())
            .await;
        let words = forbidden(resource);
        let fault = world.fault(Effect::reply(403).message(&words), |rule| {
            rule.verb(verb).resource(resource).namespace(namespace)
        });
        let life = world.start_controller_for_everything().await;
        world.wait(300).await;
        assert!(
            life.health.ready().unwrap().contains(&words),
            "{verb:?} {resource}: {:?}",
            life.health.ready()
        );
        assert_eq!(
            logged(&words).len(),
            times,
            "{verb:?} {resource}: {:#?}",
            logged(&words)
        );
        world.end_fault(fault);
        world.wait(120).await;
        assert_eq!(
            life.health.ready(),
            Ok("ok".to_owned()),
            "{verb:?} {resource}"
        );
    }
}
