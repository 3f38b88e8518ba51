//! Exit images that are kept on all nodes, without an object that asks for it.

use serde_json::json;
use swaplet_controller::run::Settings;
use swaplet_controller::terminate::derive::Push;
use swaplet_core::cluster::exit_images::derived::DerivedImages;
use swaplet_testbed::apiserver::Effect;
use swaplet_testbed::virtual_node::{ImageOptions, NodeOptions, Profile};

use super::*;
use crate::objects::{DERIVED, EXIT, main_container, pod_of, sidecar_that_calls};

impl Jobs {
    fn keeps_exit_images(&self, change: impl FnOnce(&mut Settings)) -> Life {
        self.cluster
            .world
            .start_warming(PARK, NAMESPACE, |settings| {
                settings.warm.as_mut().unwrap().exit_image = Some(EXIT.into());
                change(settings);
            })
    }

    /// On which nodes an image was pulled.
    fn pulled(&self, image: &str) -> Vec<String> {
        let pulls = self.pulls();
        assert!(
            pulls.values().all(|count| *count == 1),
            "each node pulls an image once: {pulls:?}"
        );
        pulls
            .into_keys()
            .filter(|(_, pulled)| pulled == image)
            .map(|(node, _)| node)
            .collect()
    }
}

/// No object stands for them.
#[tokio::test(start_paused = true)]
async fn u120_exit_images_are_kept_where_nobody_may_ask_whether_jobs_are_served() {
    let jobs = Jobs::on(2, &ImageOptions::default()).await;
    let world = &jobs.cluster.world;
    world.fault(Effect::reply(403), |rule| {
        rule.outside("/apis/apps.kruise.io")
    });
    let _life = jobs.keeps_exit_images(|_| ());
    jobs.wait(60).await;
    assert_eq!(jobs.pulled(EXIT).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_exit_image_comes_to_every_node_that_keeps_images_and_then_nothing_is_written() {
    let mut jobs = Jobs::on(3, &ImageOptions::default()).await;
    jobs.cluster
        .start(NodeOptions::new("vk", Profile::updates()));
    jobs.wait(5).await;
    let most = watch_nodes(&jobs.cluster);
    let life = jobs.keeps_exit_images(|_| ());
    jobs.wait(60).await;
    assert_eq!(
        (jobs.pulled(EXIT), jobs.writes().len()),
        (vec!["n0".into(), "n1".into(), "n2".into()], 3 * 2)
    );
    assert_eq!(
        *most.lock().unwrap(),
        (1, 1),
        "a tenth of the nodes at a time"
    );
    assert_eq!(
        (jobs.reports(), life.pull_jobs()),
        (0, 0),
        "no object stands for it"
    );
    jobs.assert_quiet().await;

    jobs.cluster
        .start(NodeOptions::new("new", Profile::kubelet()));
    jobs.wait(15).await;
    assert_eq!(
        (jobs.pulled(EXIT).len(), jobs.writes().len()),
        (4, 4 * 2),
        "at once"
    );
    jobs.assert_quiet().await;

    life.kill();
    let _next = jobs.keeps_exit_images(|_| ());
    jobs.wait(60).await;
    assert_eq!(
        (jobs.pulled(EXIT).len(), jobs.writes().len()),
        (4, 8 * 2),
        "another life asks each node again, which pulls nothing"
    );
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn images_that_are_derived_meanwhile_come_too() {
    let jobs = Jobs::on(2, &ImageOptions::default()).await;
    let digest = "a".repeat(64);
    let reference = format!("{DERIVED}@sha256:{digest}");
    let pushed = reference.clone();
    let _life = jobs.keeps_exit_images(|settings| {
        let derived = DerivedImages::new(DERIVED.parse().unwrap());
        settings.rules.exit_images = settings.rules.exit_images.clone().with_derived(derived);
        settings.push = Some(Push::by(move |_| {
            std::future::ready(Ok(pushed.as_str().into()))
        }));
    });
    jobs.wait(60).await;
    assert_eq!(
        (
            jobs.pulled(EXIT).len(),
            jobs.pulled(&reference).len(),
            jobs.writes().len()
        ),
        (2, 0, 2 * 2)
    );
    let pod = pod_of(
        "p",
        "Never",
        vec![
            main_container(),
            sidecar_that_calls("side", "/opt/own/server"),
        ],
    );
    jobs.cluster.world.run_pod(&pod).await;
    jobs.wait(60).await;
    assert_eq!(
        (
            jobs.pulled(EXIT).len(),
            jobs.pulled(&reference).len(),
            jobs.writes().len()
        ),
        (2, 2, 4 * 2)
    );
    jobs.cluster.world.remove("p").await;
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_on_which_it_fails_is_tried_again_after_half_an_hour() {
    let jobs = Jobs::on(1, &missing("registry.example/swaplet/exit:*")).await;
    let _life = jobs.keeps_exit_images(|_| ());
    jobs.wait(300).await;
    let written = jobs.writes().len();
    assert_eq!(
        (jobs.pulled(EXIT).len(), jobs.cluster.pods().len(), written),
        (0, 0, 2)
    );
    jobs.wait(1400).await;
    assert_eq!(jobs.writes().len(), written, "nothing meanwhile");
    jobs.cluster.nodes["n0"].set_missing_images(Vec::new());
    jobs.wait(400).await;
    assert_eq!(
        (jobs.pulled(EXIT).len(), jobs.writes().len()),
        (1, written + 2)
    );
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_life_that_is_not_asked_for_it_deletes_the_pods_of_one_that_was() {
    let slow = ImageOptions {
        pull: Duration::from_secs(20),
        ..ImageOptions::default()
    };
    for namespaces in [vec![], vec!["default"]] {
        let jobs = Jobs::on(1, &slow).await;
        let works_in =
            |settings: &mut Settings| settings.namespaces = namespaces.iter().copied().collect();
        let life = jobs.keeps_exit_images(works_in);
        jobs.wait(10).await;
        life.kill();
        assert_eq!(jobs.cluster.pods().len(), 1);
        let _next = jobs.cluster.world.start_warming(PARK, NAMESPACE, works_in);
        jobs.assert_quiet().await;
        assert_eq!(jobs.writes().len(), 2, "it is made and deleted");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_and_the_exit_image_share_the_pods_turns_and_what_they_prove() {
    let jobs = Jobs::on(2, &ImageOptions::default()).await;
    let most = watch_nodes(&jobs.cluster);
    let _life = jobs.keeps_exit_images(|_| ());
    jobs.create(
        LIST,
        "l",
        json!({"images": [EXIT, image(0)], "parallelism": 1}),
    )
    .await;
    assert_eq!(jobs.completed(LIST, "l").await["succeeded"], 2);
    jobs.wait(30).await;
    assert_eq!(
        (jobs.pulled(EXIT).len(), jobs.pulled(&image(0)).len()),
        (2, 2)
    );
    assert!(most.lock().unwrap().1 <= 2, "one pod per node");
    jobs.delete(LIST, "l").await;
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_make_pods_each_node_is_asked_once_in_half_an_hour() {
    let jobs = Jobs::on(2, &ImageOptions::default()).await;
    let why = "pods is forbidden: User \"swaplet\" cannot create resource \"pods\" in API group \"\" in the namespace \"warm\"";
    jobs.cluster
        .world
        .fault(Effect::reply(403).message(why), |rule| {
            rule.verb(Verb::Create).resource("pods")
        });
    let _life = jobs.keeps_exit_images(|_| ());
    jobs.wait(3700).await;
    assert!(
        (4..=6).contains(&jobs.writes().len()),
        "{}",
        jobs.writes().len()
    );
}
