//! What stops a probe, or one way of it: images that are not right, and rights that are missing.

use swaplet_controller::terminate::probe::{Answer, Images};
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::report::reason::Reason;
use swaplet_testbed::apiserver::{Effect, Verb};
use swaplet_testbed::virtual_node::{NodeOptions, Profile};
use tokio::sync::watch;

use super::{Bed, EXIT, PARK, WORKS, answers, stopped};

#[tokio::test(start_paused = true)]
async fn an_image_that_cannot_be_pulled_is_said_with_the_fix() {
    let mut options = NodeOptions::new("n", Profile::kubelet());
    options.images.missing = vec![PARK.parse().unwrap()];
    let (probed, _) = Bed::of(options).await.run().await;
    assert!(probed.tried.is_empty());
    let words = stopped(probed);
    assert!(
        words.contains("ImagePullBackOff")
            && words.contains("--park-image")
            && words.contains(PARK),
        "{words}"
    );
}

#[tokio::test(start_paused = true)]
async fn images_that_are_not_what_they_are_taken_for_are_told_apart() {
    for (exit, park, words) in [
        (PARK, "registry.example/2/park:v1", "has not ended: is"),
        (EXIT, "r.example/2/exit:v1", "ended by itself"),
    ] {
        let bed = Bed::with(Profile::kubelet()).await;
        let (_keep, interrupt) = watch::channel(false);
        let mut probe = bed.probe();
        probe.images = Images {
            exit: exit.parse().unwrap(),
            park: park.parse().unwrap(),
        };
        let told = stopped(probe.run(interrupt, &|_| {}).await);
        bed.assert_clean();
        assert!(told.contains(words), "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_api_server_refuses_is_said_and_nothing_is_tried() {
    let bed = Bed::with(Profile::kubelet()).await;
    bed.fault(
        Effect::reply(403).message("pods is forbidden: User \"u\" cannot create resource \"pods\""),
        |rule| rule.verb(Verb::Create),
    );
    let (probed, _) = bed.run().await;
    assert!(stopped(probed).contains("cannot create resource"));
    assert!(
        bed.requests(Verb::Delete).is_empty(),
        "somebody else's pod of this name must not be deleted"
    );
}

#[tokio::test(start_paused = true)]
async fn a_way_that_may_not_be_tried_fails_and_the_others_are_tried() {
    let bed = Bed::with(Profile::kubelet()).await;
    bed.fault(Effect::reply(403), |rule| {
        rule.verb(Verb::Patch).subresource("status")
    });
    let (probed, class) = bed.run().await;
    assert_eq!(
        answers(&probed),
        [WORKS, WORKS, Answer::Fails(Reason::WriteDenied)],
        "{probed:#?}"
    );
    assert_eq!(class, NodeClass::Kubelet);
}
