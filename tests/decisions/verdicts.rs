//! No swap is written that cannot work: what the exit image would execute is looked at first, and
//! told where it is nothing.

use std::time::Duration;

use serde_json::json;
use swaplet::image::build::derived_paths;
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::exit_images::derived::{DerivedImages, Trouble};
use swaplet_core::objects::command::Obstacle;
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::explain::explain;

use crate::builder::{
    ContainerBuilder, PodBuilder, main_container, pod, sidecar, sidecar_with_image,
};
use crate::expect::{
    DIGEST, EXIT, LISTED, Life, assert_silent, rules, rules_with, swaps, swaps_to, warns,
};

const OWN: &str = "/opt/own/server";
const DERIVED: &str = "registry.example/swaplet/derived@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

fn ready(policy: &str, sidecar: ContainerBuilder) -> PodBuilder {
    pod(policy)
        .with(main_container("main").ended(0))
        .with(sidecar.running())
}

fn calls(container: ContainerBuilder, command: &str) -> ContainerBuilder {
    container.spec("command", json!([command]))
}

/// Its program lies on an emptyDir.
fn on_volume(container: ContainerBuilder) -> ContainerBuilder {
    calls(container, "/work/tool").spec(
        "volumeMounts",
        json!([{"name": "work", "mountPath": "/work"}]),
    )
}

fn with_work_volume(pod: PodBuilder) -> PodBuilder {
    pod.set("/spec/volumes", json!([{"name": "work", "emptyDir": {}}]))
}

#[test]
fn what_the_exit_image_has_is_swapped() {
    for command in ["/bin/sh", "sh", "filebeat", "/usr/bin/fluent-bit"] {
        swaps(&ready("Never", calls(sidecar("side"), command)), &["side"]);
    }
    let script = sidecar("side")
        .spec("command", json!(["/scripts/run.sh"]))
        .spec(
            "volumeMounts",
            json!([{"name": "work", "mountPath": "/scripts"}]),
        );
    swaps(
        &ready("Never", script).set(
            "/spec/volumes",
            json!([{"name": "work", "configMap": {"name": "scripts"}}]),
        ),
        &["side"],
    );
}

#[test]
fn what_the_exit_image_does_not_have_is_told_with_the_command_that_pushes_it() {
    for policy in ["Never", "OnFailure"] {
        let note = warns(
            &ready(policy, calls(sidecar("side"), OWN)),
            Reason::NeedsImage,
        );
        assert!(
            note.contains("container side") && note.contains(EXIT),
            "{note}"
        );
        assert!(
            note.contains("swaplet exit-image push REF --path /opt/own/server"),
            "{note}"
        );
        assert!(note.len() <= 1024, "the API server refuses more");
    }
}

/// Somebody will paste it into a shell.
#[test]
fn the_command_that_is_told_is_one_command_whatever_the_path() {
    for (path, flag) in [
        ("/opt/x; rm -rf ~", "--path '/opt/x; rm -rf ~';"),
        ("/opt/$(id)'", r"--path '/opt/$(id)'\''';"),
        ("/opt/a\u{1b}[2Jb", "--path '/opt/a?[2Jb';"),
    ] {
        // `$$` is how Kubernetes is told not to expand.
        let note = warns(
            &ready("Never", calls(sidecar("side"), &path.replace('$', "$$"))),
            Reason::NeedsImage,
        );
        assert!(note.contains(flag), "{note}");
        assert!(!note.contains(char::is_control), "{note:?}");
    }
}

#[test]
fn a_program_on_a_volume_leaves_the_pod_as_it_is() {
    for policy in ["Never", "OnFailure"] {
        let note = warns(
            &with_work_volume(ready(policy, on_volume(sidecar("side")))),
            Reason::NotSwappable,
        );
        assert!(
            note.contains("container side") && note.contains("/work/tool"),
            "{note}"
        );
        assert!(
            note.contains(Obstacle::ProgramOnVolume.problem())
                && note.contains(Obstacle::ProgramOnVolume.fix()),
            "{note}"
        );
    }
}

#[test]
fn each_obstacle_is_told_with_its_fix() {
    let side = || sidecar("side");
    for (pod, obstacle) in [
        (
            ready("Never", side().spec("imagePullPolicy", "Never")),
            Obstacle::PullPolicyNever,
        ),
        (
            ready(
                "Never",
                calls(side(), "$(TOOL)")
                    .env_entry(json!({"name": "TOOL", "valueFrom": {"fieldRef": {}}})),
            ),
            Obstacle::CommandUnknown,
        ),
        (
            ready("Never", calls(side(), "..")),
            Obstacle::CommandInvalid,
        ),
        (
            ready("Never", side()).set("/spec/os", json!({"name": "windows"})),
            Obstacle::Windows,
        ),
        (
            ready("Never", side().spec("volumeMounts", "text")),
            Obstacle::Malformed,
        ),
        (
            ready(
                "Never",
                side().spec(
                    "restartPolicyRules",
                    json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [0]}}]),
                ),
            ),
            Obstacle::RestartRuleOnSuccess,
        ),
    ] {
        let note = warns(&pod, Reason::NotSwappable);
        assert!(
            note.contains(obstacle.problem()) && note.contains(obstacle.fix()),
            "{note}"
        );
    }
}

#[test]
fn e1_19_a_sidecar_that_cannot_be_swapped_keeps_no_other_from_being_swapped() {
    let pod =
        with_work_volume(ready("Never", sidecar("good")).with(on_volume(sidecar("bad")).running()));
    swaps(&pod, &["good"]);
    assert!(
        warns(
            &pod.clone().but("good", |good| good.ended(0)),
            Reason::NotSwappable
        )
        .contains("container bad")
    );
    swaps(&pod.but("bad", |bad| bad.ended(0)), &["good"]);
}

#[test]
fn nothing_is_told_while_a_main_runs() {
    assert_silent(
        &ready("Never", calls(sidecar("side"), OWN)).but("main", ContainerBuilder::running),
        Reason::MainsRunning,
    );
}

#[test]
fn an_explanation_says_what_was_looked_at() {
    let life = Life::new();
    let pod = ready("Never", calls(sidecar("own"), OWN))
        .with(sidecar("other").running())
        .read();
    let findings = explain(&pod, &life.memory, &life.around(), "").findings;
    let seen = |subject: &str| {
        findings
            .iter()
            .find(|finding| finding.subject == subject)
            .map(|finding| &*finding.seen)
    };
    assert_eq!(seen("exit image for own"), Some("none (NeedsImage)"));
    assert_eq!(
        seen("exit image for other"),
        Some(format!("{EXIT} would end it").as_str())
    );
}

// Images that the administrator lists.

#[test]
fn an_image_of_the_list_is_taken_at_its_word() {
    let side = || sidecar_with_image("side", LISTED);
    let mounted = side().spec(
        "volumeMounts",
        json!([{"name": "work", "mountPath": "/swaplet"}]),
    );
    for container in [
        calls(side(), OWN),
        calls(side(), "$(TOOL)").env_entry(json!({"name": "TOOL", "valueFrom": {"fieldRef": {}}})),
        mounted,
    ] {
        swaps_to(
            &with_work_volume(ready("Never", container)),
            &[("side", LISTED)],
        );
    }
}

#[test]
fn no_image_of_the_list_cures_what_no_image_can_cure() {
    let side = || sidecar_with_image("side", LISTED);
    for container in [
        on_volume(side()),
        side().spec("imagePullPolicy", "Never"),
        calls(side(), ""),
    ] {
        warns(
            &with_work_volume(ready("Never", container)),
            Reason::NotSwappable,
        );
    }
}

#[test]
fn the_default_asked_for_by_name_is_no_other_image() {
    warns(
        &ready("Never", calls(sidecar_with_image("side", EXIT), OWN)),
        Reason::NeedsImage,
    );
}

#[test]
fn a_default_with_other_paths_is_looked_at_with_those() {
    let own = || {
        Life::under(rules().with_default_paths(derived_paths([OWN, "/entrypoint/run"]).unwrap()))
    };
    own().swaps(&ready("Never", calls(sidecar("side"), OWN)));
    own().swaps(&ready("Never", calls(sidecar("side"), "/bin/sh")));
    let note = own().tells(
        &ready("Never", calls(sidecar("side"), "/entrypoint")),
        Reason::NeedsImage,
    );
    assert!(note.contains("--path /entrypoint"), "it gave way: {note}");
}

// Derived images.

fn deriving() -> ExitImages {
    rules().with_derived(DerivedImages::new(
        "registry.example/swaplet/derived".parse().unwrap(),
    ))
}

fn own_path() -> Vec<String> {
    vec![OWN.to_owned()]
}

#[test]
fn an_image_that_is_being_derived_is_waited_for_in_silence() {
    let mut life = Life::under(deriving());
    let pod = ready("Never", calls(sidecar("side"), OWN));
    let decision = life.assert_silent(&pod, Reason::ExitImageAwaited);
    assert_eq!((decision.wants, decision.again), (vec![own_path()], None));
    assert!(life.rules.ask_derived("batch", &own_path(), life.now));
    life.assert_silent(&pod, Reason::ExitImageAwaited);
    life.rules
        .derived_came(&own_path(), Ok(DERIVED.into()), life.now);
    let decision = life.sees(&pod);
    assert_eq!(
        (&*decision.swaps()[0].to, &decision.wants),
        (DERIVED, &vec![])
    );
}

/// Then it is there when it is needed.
#[test]
fn an_image_is_wanted_as_soon_as_the_pod_is_seen() {
    let pod = ready("Never", calls(sidecar("side"), OWN)).but("main", ContainerBuilder::running);
    assert_eq!(
        Life::under(deriving())
            .assert_silent(&pod, Reason::MainsRunning)
            .wants,
        vec![own_path()]
    );
    assert_eq!(
        Life::new().assert_silent(&pod, Reason::MainsRunning).wants,
        Vec::<Vec<String>>::new(),
        "nothing is derived"
    );
    let standard = ready("Never", sidecar("side")).but("main", ContainerBuilder::running);
    assert_eq!(
        Life::under(deriving())
            .assert_silent(&standard, Reason::MainsRunning)
            .wants,
        Vec::<Vec<String>>::new()
    );
}

#[test]
fn each_sidecar_gets_the_image_that_fits_it() {
    let mut life = Life::under(deriving());
    let pod = ready("OnFailure", calls(sidecar("own"), OWN))
        .with(calls(sidecar("shell"), "sh").running());
    life.assert_silent(&pod, Reason::ExitImageAwaited);
    assert!(life.rules.ask_derived("batch", &own_path(), life.now));
    life.rules
        .derived_came(&own_path(), Ok(DERIVED.into()), life.now);
    let after = life.swaps(&pod);
    assert_eq!(
        (after.image_of("own"), after.image_of("shell")),
        (DERIVED, EXIT)
    );
    life.assert_silent(&after, Reason::SwapPending);
    Life::under(deriving()).assert_silent(&after, Reason::SwapPending);
}

#[test]
fn a_push_that_fails_is_told_and_tried_again() {
    let mut life = Life::under(deriving());
    let pod = ready("Never", calls(sidecar("side"), OWN));
    assert!(life.rules.ask_derived("batch", &own_path(), life.now));
    let trouble = Trouble {
        words: "pushing: 403, these credentials may not do that".to_owned(),
        retry_after: None,
    };
    life.rules.derived_came(&own_path(), Err(trouble), life.now);
    let note = life.tells(&pod, Reason::NeedsImage);
    assert!(
        note.contains("403")
            && note.contains(
                "exit-image push registry.example/swaplet/derived --path /opt/own/server"
            ),
        "{note}"
    );
    let decision = life.assert_silent(&pod, Reason::NeedsImage);
    assert_eq!(
        (decision.again, decision.wants),
        (Some(Duration::from_secs(10)), vec![own_path()])
    );
    assert!(
        life.later(10)
            .rules
            .ask_derived("batch", &own_path(), Duration::from_secs(10))
    );
    life.rules
        .derived_came(&own_path(), Ok(DERIVED.into()), life.now);
    life.swaps(&pod);
}

#[test]
fn a_namespace_that_asks_for_too_many_images_is_told() {
    let mut life = Life::under(deriving());
    for number in 0..20 {
        assert!(
            life.rules
                .ask_derived("batch", &[format!("/{number}")], life.now)
        );
    }
    let pod = ready("Never", calls(sidecar("side"), OWN));
    assert!(life.tells(&pod, Reason::NeedsImage).contains("too many"));
    assert_eq!(life.sees(&pod).wants, Vec::<Vec<String>>::new());
}

#[test]
fn a_tenant_cannot_ask_for_a_derived_image_by_name() {
    let pod = ready("Never", sidecar_with_image("side", DERIVED));
    let decision = Life::under(deriving()).sees(&pod);
    assert_eq!(&*decision.swaps()[0].to, EXIT);
}

// Pods that are stuck on a wrong exit image.

/// An earlier life, or another version, wrote the default, which cannot run.
fn stuck(policy: &str, change: impl FnOnce(ContainerBuilder) -> ContainerBuilder) -> PodBuilder {
    ready(policy, calls(sidecar("side"), OWN)).but("side", |side| change(side.image(EXIT)))
}

fn ready_to_derive() -> Life {
    let mut life = Life::under(deriving());
    assert!(life.rules.ask_derived("batch", &own_path(), life.now));
    life.rules
        .derived_came(&own_path(), Ok(DERIVED.into()), life.now);
    life
}

/// containerd, then CRI-O, then what both show when the image is gone.
#[test]
fn a_pod_that_is_stuck_on_a_wrong_exit_image_is_swapped_once_to_the_right_one() {
    let old = "registry.example/app/side:v1";
    let pull = format!("Back-off pulling image \"{EXIT}\"");
    for waiting in [
        stuck("OnFailure", |side| {
            side.waiting("RunContainerError", "exec: no such file")
                .restarted_as(EXIT, 1)
                .last_ended(128)
        }),
        stuck("OnFailure", |side| {
            side.waiting("CrashLoopBackOff", "back-off")
                .restarted_as(EXIT, 3)
                .last_ended(128)
        }),
        stuck("OnFailure", |side| {
            side.waiting("CrashLoopBackOff", "back-off")
                .restarted_as(EXIT, 3)
                .last_ended(127)
        }),
        stuck("OnFailure", |side| {
            side.waiting("CreateContainerError", "container create failed")
                .restarted_as(old, 0)
                .last_ended(143)
        }),
        stuck("OnFailure", |side| {
            side.waiting("ErrImagePull", &pull).last_ended(143)
        }),
        stuck("OnFailure", |side| {
            side.waiting("ImagePullBackOff", &pull).last_ended(143)
        }),
    ] {
        let mut life = ready_to_derive();
        let repaired = life.swaps(&waiting);
        assert_eq!(repaired.image_of("side"), DERIVED);
        let still = repaired.clone().but("side", |side| {
            side.waiting("RunContainerError", "exec")
                .restarted_as(DERIVED, 4)
                .last_ended(128)
        });
        life.tells(&still, Reason::ExitImageNotStarted);
        ready_to_derive().assert_silent(
            &repaired.but("side", ContainerBuilder::running),
            Reason::SwapPending,
        );
    }
}

/// The node goes on about the wrong one until it reacts; what it says then is about the right one.
#[test]
fn the_trouble_of_the_wrong_exit_image_is_not_taken_for_one_of_the_right_one() {
    let mut life = ready_to_derive();
    let wrong = |pod: &PodBuilder, reason: &str, nth| {
        pod.clone().but("side", |side| {
            side.waiting(reason, "exec: no such file")
                .restarted_as(EXIT, nth)
                .last_ended(128)
        })
    };
    let repaired = life.swaps(&wrong(
        &stuck("OnFailure", |side| side),
        "RunContainerError",
        1,
    ));
    life.assert_silent(
        &wrong(&repaired, "CrashLoopBackOff", 1),
        Reason::SwapPending,
    );
    life.assert_silent(
        &wrong(&repaired, "RunContainerError", 2),
        Reason::SwapPending,
    );
    life.tells(
        &repaired.but("side", |side| {
            side.waiting("RunContainerError", "exec")
                .restarted_as(DERIVED, 3)
        }),
        Reason::ExitImageNotStarted,
    );
}

#[test]
fn a_stuck_pod_waits_for_the_right_image() {
    let mut life = Life::under(deriving());
    let pod = stuck("OnFailure", |side| {
        side.waiting("RunContainerError", "exec")
            .restarted_as(EXIT, 1)
            .last_ended(128)
    });
    assert_eq!(
        life.assert_silent(&pod, Reason::ExitImageAwaited).wants,
        vec![own_path()]
    );
    let note = Life::new().tells(&pod, Reason::NeedsImage);
    assert!(note.contains("--path /opt/own/server"), "{note}");
}

/// No image is started after one that failed.
#[test]
fn under_never_a_stuck_pod_is_told_only() {
    let pull = format!("Back-off pulling image \"{EXIT}\"");
    ready_to_derive().tells(
        &stuck("Never", |side| side.waiting("ImagePullBackOff", &pull)),
        Reason::ExitImageNotPulled,
    );
    let waits = stuck("Never", |side| {
        side.waiting("RunContainerError", "exec")
            .restarted_as(EXIT, 1)
            .last_ended(128)
    });
    ready_to_derive().tells(&waits, Reason::ExitImageNotStarted);
}

#[test]
fn a_pod_that_is_stuck_on_the_right_image_is_not_swapped_again() {
    let waits = |image: &str| {
        ready("OnFailure", sidecar("side")).but("side", |side| {
            side.image(image)
                .waiting("CreateContainerError", "no space left")
                .restarted_as(image, 1)
                .last_ended(128)
        })
    };
    ready_to_derive().tells(&waits(EXIT), Reason::ExitImageNotStarted);
    ready_to_derive().tells(
        &waits(&format!("{EXIT}@{DIGEST}")),
        Reason::ExitImageNotStarted,
    );
}

#[test]
fn an_exit_image_that_only_takes_its_time_is_left_alone() {
    for change in [
        |side: ContainerBuilder| side.waiting("ContainerCreating", ""),
        |side: ContainerBuilder| side.running(),
        |side: ContainerBuilder| side.waiting("CrashLoopBackOff", "").last_ended(1),
        |side: ContainerBuilder| side.no_status(),
    ] {
        let decision = ready_to_derive().sees(&stuck("OnFailure", change));
        assert_eq!(decision.action, None, "{decision:?}");
    }
}

/// This life looked first, so what it wrote was right by then; somebody else has to find out what
/// is wrong.
#[test]
fn what_this_life_has_written_is_not_repaired() {
    let mut life = ready_to_derive();
    let listed = ready("OnFailure", calls(sidecar_with_image("side", LISTED), OWN));
    let after = life.swaps(&listed);
    life.rules = rules_with(Some(EXIT), &[]).with_derived(DerivedImages::new(
        "registry.example/swaplet/derived".parse().unwrap(),
    ));
    let stuck = after.but("side", |side| {
        side.waiting("RunContainerError", "exec")
            .restarted_as(LISTED, 1)
            .last_ended(128)
    });
    assert_eq!(life.sees(&stuck).action, None);
}
