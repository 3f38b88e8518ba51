//! What a tenant writes has any length: what is longer than its use is told, costs one pod, and is
//! not kept.

use serde_json::{Value, json};
use swaplet_core::objects::command::{Obstacle, StandardPaths, Verdict, resolve};
use swaplet_core::objects::pod::{ContainerState, Pod};
use swaplet_core::objects::values::env::WITH_IMAGE;
use swaplet_core::report::reason::Reason;

use crate::builder::{ContainerBuilder, PodBuilder, main_container, pod, sidecar};
use crate::expect::{swaps, warns};

fn with_sidecar(change: impl FnOnce(ContainerBuilder) -> ContainerBuilder) -> PodBuilder {
    let volumes = json!([{"name": "v", "emptyDir": {}}]);
    pod("Never")
        .set("/spec/volumes", volumes)
        .with(main_container("main").ended(0))
        .with(change(sidecar("log").running()))
}

fn mounts(paths: impl Iterator<Item = String>) -> Value {
    paths
        .map(|path| json!({"name": "v", "mountPath": path}))
        .collect()
}

fn verdict(pod: &PodBuilder) -> Verdict {
    resolve(
        pod.read().containers[1].facts.as_deref().unwrap(),
        &StandardPaths,
    )
}

fn obstacle(pod: &PodBuilder) -> Option<Obstacle> {
    match verdict(pod) {
        Verdict::NotSwappable { reason, .. } => Some(reason),
        Verdict::Runnable { .. } | Verdict::NeedsImage { .. } => None,
    }
}

#[test]
fn a7_more_mounts_than_are_looked_at_are_told_with_the_fix() {
    let with = |paths: Value| {
        with_sidecar(|side| {
            side.spec("command", json!(["/bin/sh"]))
                .spec("volumeMounts", paths)
        })
    };
    swaps(
        &with(mounts((0..1000).map(|nth| format!("/data/{nth}")))),
        &["log"],
    );
    for too_many in [
        mounts((0..1001).map(|nth| format!("/data/{nth}"))),
        mounts((0..700).map(|nth| format!("/data/{nth}{}", "a".repeat(100)))),
    ] {
        let note = warns(&with(too_many), Reason::NotSwappable);
        assert!(
            note.contains("more than 1000 volumes") && note.contains("mount fewer"),
            "{note}"
        );
    }
    assert_eq!(
        with(mounts((0..5_000).map(|nth| format!("/data/{nth}"))))
            .read()
            .containers[1]
            .facts
            .as_deref()
            .map(|facts| facts.weight() < 1_000),
        Some(true)
    );
}

#[test]
fn a7_a_derived_image_has_64_paths_at_most() {
    let with = |count: usize| {
        with_sidecar(|side| {
            side.spec("command", json!(["/bin/sleep"])).spec(
                "volumeMounts",
                mounts((0..count).map(|nth| format!("/bin/sh/{nth}"))),
            )
        })
    };
    assert!(matches!(verdict(&with(64)), Verdict::NeedsImage { paths, .. } if paths.len() == 64));
    assert_eq!(obstacle(&with(65)), Some(Obstacle::TooManyMounts));
    let own = with_sidecar(|side| {
        side.spec("command", json!(["/opt/own"])).spec(
            "volumeMounts",
            mounts((0..64).map(|nth| format!("/bin/sh/{nth}"))),
        )
    });
    assert_eq!(
        obstacle(&own),
        Some(Obstacle::TooManyMounts),
        "with its program they are 65"
    );
}

/// The places of mounts, each against each, as they were looked for before: the same answers.
#[test]
fn a7_mounts_are_looked_up_and_the_answers_stay_the_same() {
    let needs = |paths: &[&str]| match verdict(&with_sidecar(|side| {
        side.spec("command", json!(["/bin/sleep"])).spec(
            "volumeMounts",
            mounts(paths.iter().map(|path| (*path).to_owned())),
        )
    })) {
        Verdict::NeedsImage { paths, .. } => paths.join(" "),
        other => format!("{other:?}"),
    };
    assert_eq!(
        needs(&["/bin/sh", "/bin/bash/x"]),
        "/bin/bash/x/.swaplet /bin/sh/.swaplet"
    );
    assert_eq!(
        needs(&["/usr/bin", "/usr/bin/env", "/bin/sh"]),
        "/bin/sh/.swaplet",
        "nobody sees /usr/bin/env"
    );
    assert_eq!(
        needs(&["/usr", "/usr/bin/env/deep", "/bin/sh"]),
        "/bin/sh/.swaplet",
        "also not two above"
    );
    assert_eq!(needs(&["/bin/sh", "/bin/sh"]), "/bin/sh/.swaplet");
}

#[test]
fn a8_a_text_that_is_longer_than_its_use_is_told_and_not_kept() {
    let long = |bytes: usize| "a".repeat(bytes);
    let image = with_sidecar(|side| side.image(&format!("r.example/{}", long(1_300_000))));
    assert!(
        warns(&image, Reason::PodMalformed)
            .contains("spec.containers[*] is too long, or a part of it is missing or too long")
    );
    assert_eq!(&*image.read().containers[1].image, "");
    let with_image =
        with_sidecar(|side| side.env(WITH_IMAGE, &format!("r.example/{}", long(1_100_000))));
    assert_eq!(obstacle(&with_image), Some(Obstacle::Malformed));
    assert!(warns(&with_image, Reason::ExitImageInvalid).contains("more than 1024"));
    let with_image =
        with_sidecar(|side| side.env(WITH_IMAGE, &format!("r.example/{}", long(100_000))));
    assert!(warns(&with_image, Reason::ExitImageInvalid).contains("more than 1024"));
    assert!(
        with_image.read().containers[1]
            .mark
            .with_image
            .as_ref()
            .is_some_and(|image| image.len() < 1_100)
    );
    for (field, value, told) in [
        (
            "command",
            json!([format!("/x/{}", long(5_000))]),
            Obstacle::CommandInvalid,
        ),
        ("command", json!([long(256)]), Obstacle::CommandInvalid),
        ("command", json!([long(200_000)]), Obstacle::Malformed),
        (
            "workingDir",
            json!(format!("/{}", long(5_000))),
            Obstacle::Malformed,
        ),
        (
            "volumeMounts",
            mounts([format!("/{}", long(5_000))].into_iter()),
            Obstacle::Malformed,
        ),
    ] {
        assert_eq!(
            obstacle(&with_sidecar(|side| side.spec(field, value))),
            Some(told),
            "{field}"
        );
    }
    for path in [format!("/x/{}", long(40_000)), "/a:".repeat(200)] {
        let side = with_sidecar(|side| side.spec("command", json!(["sleep"])).env("PATH", &path));
        assert_eq!(obstacle(&side), Some(Obstacle::CommandUnknown));
    }
}

#[test]
fn a8_what_is_kept_of_a_pod_is_bounded_whatever_it_is_made_of() {
    let heavy = |name: String| {
        let paths = mounts((0..900).map(|nth| format!("/data/{nth}{}", "a".repeat(60))));
        sidecar(&name)
            .running()
            .spec("command", json!(["/bin/sh"]))
            .spec("volumeMounts", paths)
    };
    let one = pod("Never")
        .with(main_container("main").ended(0))
        .with(heavy("a".to_owned()));
    swaps(&one, &["a"]);
    let many = (0..10).fold(one, |pod, nth| pod.with(heavy(format!("b{nth}"))));
    warns(&many, Reason::PodMalformed);
    assert!(many.read().containers.is_empty());
    let messages = (0..1_500).fold(pod("Never"), |pod, nth| {
        pod.with(main_container(&format!("c{nth}")).waiting("ImagePullBackOff", &"x".repeat(5_000)))
    });
    assert!(
        messages.read().containers.is_empty(),
        "more than anybody has"
    );
}

#[test]
fn a8_what_a_node_says_is_cut() {
    let pod = pod("Never")
        .with(main_container("main").waiting("ErrImagePull", &"\u{e9}".repeat(50_000)))
        .read();
    let ContainerState::Waiting { message, .. } = &pod.containers[0].status.as_ref().unwrap().state
    else {
        panic!("{pod:?}")
    };
    assert!(
        message.len() <= 1024 && message.ends_with("..."),
        "{}",
        message.len()
    );
}

/// The restarts of a pod that is too large to be kept count for its Job.
#[test]
fn a8_restarts_count_also_where_the_containers_are_not_kept() {
    let all = (0..1_200).map(|nth| {
        main_container(&format!("c{nth}"))
            .waiting(&"x".repeat(500), "")
            .status("restartCount", 1)
    });
    let read: Pod = all.take(1_000).fold(pod("Never"), PodBuilder::with).read();
    assert_eq!((read.containers.len(), read.restarts()), (0, 1_000));
}

#[test]
fn a10_a_grace_period_of_a_century_is_one_of_a_year() {
    for seconds in [i64::from(i32::MAX), i64::MAX] {
        assert_eq!(
            with_sidecar(|side| side)
                .grace(seconds)
                .read()
                .grace_seconds,
            Some(365 * 24 * 3600)
        );
    }
    assert_eq!(
        with_sidecar(|side| side).grace(-1).read().grace_seconds,
        None
    );
}
