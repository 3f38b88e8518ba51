//! Beside OpenKruise: one actor per pod, never both.

use serde_json::json;
use swaplet_core::cluster::daemon_pod::DaemonPod;
use swaplet_core::cluster::exit_images::derived::DerivedImages;
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::recreate_request::{RecreateRequest, RecreateRequestWire};
use swaplet_core::objects::values::env::{IGNORE_EXIT_CODE, WHEN_JOB_EXIT};
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::openkruise::{
    Coexist, Daemon, Daemons, Seen, Signals, Terminator, gate_is_on, leaves_pull_jobs,
};

use crate::builder::{
    ContainerBuilder, PodBuilder, main_container, pod, sidecar, sidecar_with_image,
};
use crate::expect::{LISTED, Life, moment};

/// A controller beside OpenKruise, on an ordinary node with its daemon.
fn beside(coexist: Coexist, terminator: Terminator) -> Life {
    let mut life = Life::new();
    life.node = NodeClass::Daemon;
    life.openkruise.coexist = coexist;
    life.openkruise.terminator = terminator;
    life.openkruise.daemon = Daemon::Ready;
    life
}

fn done(sidecar: ContainerBuilder) -> PodBuilder {
    pod("OnFailure")
        .with(main_container("main").ended(0))
        .with(sidecar)
}

#[track_caller]
fn takes(mut life: Life, pod: &PodBuilder) {
    let decision = life.sees(pod);
    assert_eq!(
        (decision.reason, decision.swaps().len()),
        (Reason::SidecarSwapped, 1),
        "{decision:?}"
    );
}

#[track_caller]
fn leaves(mut life: Life, pod: &PodBuilder) {
    let note = life.tells(pod, Reason::LeftToOpenKruise);
    assert!(note.contains("OpenKruise"), "{note}");
}

#[test]
fn who_takes_a_pod_that_openkruise_would_act_on() {
    use Coexist::{Auto, Defer, Own};
    use Terminator::{Absent, Off, On, Unknown};
    let pod = done(sidecar("log").running());
    for (coexist, terminator) in [
        (Auto, Absent),
        (Auto, Off),
        (Defer, Absent),
        (Own, Absent),
        (Own, Off),
        (Own, On),
        (Own, Unknown),
    ] {
        takes(beside(coexist, terminator), &pod);
    }
    for (coexist, terminator) in [(Auto, On), (Defer, Off), (Defer, On), (Defer, Unknown)] {
        leaves(beside(coexist, terminator), &pod);
    }
    for coexist in [Auto, Defer, Own] {
        let mut life = beside(coexist, Absent);
        life.openkruise.unseen = true;
        life.assert_silent(&pod, Reason::OpenKruiseUnseen);
    }
    let note = beside(Auto, Unknown).tells(&pod, Reason::OpenKruiseUnclear);
    assert!(note.contains("--coexist=own"), "{note}");
}

#[test]
fn what_openkruise_silently_leaves_alone_is_taken() {
    let plain = sidecar("log").running();
    let image = sidecar_with_image("log", LISTED).running();
    let both = sidecar_with_image("log", LISTED)
        .env(WHEN_JOB_EXIT, "true")
        .running();
    let virtual_node = || {
        let mut life = beside(Coexist::Auto, Terminator::On);
        (
            life.node,
            life.openkruise.daemon,
            life.facts.labelled_virtual,
        ) = (NodeClass::VirtualUpdates, Daemon::None, true);
        life
    };
    let ordinary = || beside(Coexist::Auto, Terminator::On);
    leaves(virtual_node(), &done(image.clone()));
    leaves(virtual_node(), &done(both.clone()));
    takes(virtual_node(), &done(plain.clone()));
    leaves(ordinary(), &done(plain));
    leaves(ordinary(), &done(both));
    takes(ordinary(), &done(image));
}

#[test]
fn without_the_daemon_its_request_ends_nothing() {
    let pod = done(sidecar("log").running());
    let mut life = beside(Coexist::Auto, Terminator::On);
    life.openkruise.daemon = Daemon::NotReady;
    leaves(life, &pod);
    let mut life = beside(Coexist::Auto, Terminator::On);
    (life.openkruise.daemon, life.node) = (Daemon::None, NodeClass::Kubelet);
    takes(life, &pod);
}

#[test]
fn a_pod_that_stays_pending_is_taken() {
    let pod = done(sidecar("log").waiting("ImagePullBackOff", "")).phase("Pending");
    let mut life = beside(Coexist::Auto, Terminator::On);
    let decision = life.assert_silent(&pod, Reason::LeftToOpenKruise);
    assert_eq!(decision.again, Some(moment(60)));
    life.later(60);
    takes(life, &pod);
}

#[test]
fn a_pod_that_was_begun_is_finished() {
    let pod = done(sidecar("log").running());
    let mut life = beside(Coexist::Auto, Terminator::Off);
    let swapped = life.swaps(&pod);
    life.openkruise.terminator = Terminator::On;
    life.assert_silent(&swapped, Reason::SwapPending);
}

#[test]
fn sidecars_that_openkruise_does_not_end_are_told() {
    let pod = done(sidecar("log").running()).with(sidecar_with_image("proxy", LISTED).running());
    let note = beside(Coexist::Auto, Terminator::On).tells(&pod, Reason::OpenKruiseIncomplete);
    assert!(
        note.contains("not on proxy")
            && note.contains(WHEN_JOB_EXIT)
            && note.contains("--coexist=own"),
        "{note}"
    );
}

/// OpenKruise then writes the phase, which ends everything in the pod.
#[test]
fn a_sidecar_whose_exit_code_is_ignored_ends_the_others_too() {
    let ignored = || sidecar("log").env(IGNORE_EXIT_CODE, "true").running();
    let pod = done(ignored()).with(sidecar_with_image("proxy", LISTED).running());
    for finish in [true, false] {
        let mut life = beside(Coexist::Auto, Terminator::On);
        life.allowed.finish = finish;
        leaves(life, &pod);
    }
}

#[test]
fn no_exit_image_is_derived_for_a_pod_that_is_left() {
    let calls = |sidecar: ContainerBuilder| {
        sidecar
            .running()
            .spec("command", json!(["/opt/own/server"]))
    };
    for (terminator, derived) in [(Terminator::Off, 1), (Terminator::On, 0)] {
        let mut life = beside(Coexist::Auto, terminator);
        life.rules = life.rules.with_derived(DerivedImages::new(
            "registry.example/derived".parse().unwrap(),
        ));
        let pod = pod("OnFailure")
            .with(main_container("main").running())
            .with(calls(sidecar("log")));
        assert_eq!(life.sees(&pod).wants.len(), derived, "{terminator:?}");
    }
}

fn request(status: serde_json::Value) -> RecreateRequest {
    let request = json!({
        "metadata": {"name": "sidecar-termination-uid-1"}, "spec": {"containers": [{"name": "log"}]}, "status": status,
    });
    serde_json::from_value::<RecreateRequestWire>(request)
        .unwrap()
        .read()
        .unwrap()
}

#[test]
fn a_request_of_openkruise_that_has_failed_is_told() {
    let pod = done(sidecar("log").running());
    for (message, words) in [
        ("", "started it again"),
        (
            "daemon has not responded for a long time",
            "has not responded",
        ),
    ] {
        let mut life = beside(Coexist::Auto, Terminator::On);
        leaves_once(&mut life, &pod);
        life.openkruise.request = Some(request(json!({"phase": "Recreating"})));
        life.assert_silent(&pod, Reason::LeftToOpenKruise);
        life.openkruise.request = Some(request(json!({"phase": "Completed", "message": message})));
        let note = life.tells(&pod, Reason::OpenKruiseIncomplete);
        assert!(note.contains(words), "{note}");
        life.assert_silent(
            &done(sidecar("log").ended(0)).phase("Succeeded"),
            Reason::PodFinished,
        );
    }
}

fn leaves_once(life: &mut Life, pod: &PodBuilder) {
    life.tells(pod, Reason::LeftToOpenKruise);
}

#[test]
fn the_feature_gate_as_openkruise_reads_it() {
    let on = |line: &[&str]| {
        gate_is_on(
            &line
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>(),
        )
    };
    for line in [
        &["/manager", "--feature-gates=SidecarTerminator=true"][..],
        &[
            "--feature-gates",
            "ImagePullJobGate=true,SidecarTerminator=True",
        ],
        &["-feature-gates=SidecarTerminator=t"],
        &["--feature-gates=AllAlpha=true,AllBeta=true,EnableExternalCerts=false"],
        &[
            "--feature-gates=SidecarTerminator=false",
            "--feature-gates=SidecarTerminator=true",
        ],
        &["--feature-gates=SidecarTerminator=true,AllBeta=false,KruiseDaemon=true"],
    ] {
        assert!(on(line), "{line:?}");
    }
    for line in [
        &[][..],
        &["/manager", "--enable-leader-election"],
        &["--feature-gates=SidecarTerminator=false"],
        &["--feature-gates=SidecarTerminator=yes"],
        &["--feature-gates=AllAlpha=true,SidecarTerminator=false"],
        &["--feature-gates=SidecarTerminator=true,KruiseDaemon=false"],
        &["--feature-gates=SidecarTerminator=true,AllBeta=false"],
        &[
            "--other=SidecarTerminator=true",
            "feature-gates=SidecarTerminator=true",
        ],
    ] {
        assert!(!on(line), "{line:?}");
    }
}

#[test]
fn what_the_signals_say() {
    use Seen::{Found, Hidden, Missing};
    let on = || Found(vec!["--feature-gates=SidecarTerminator=true".to_owned()]);
    let off = || Found(vec!["/manager".to_owned()]);
    let table = [
        (Missing, Missing, Missing, Terminator::Absent),
        // A Deployment and a Lease that nobody renews are what is left of it.
        (on(), Missing, Found(false), Terminator::Absent),
        (on(), Found(()), Found(true), Terminator::On),
        (on(), Missing, Found(true), Terminator::On),
        (off(), Found(()), Missing, Terminator::Off),
        (Missing, Found(()), Found(true), Terminator::Unknown),
        (Hidden, Found(()), Hidden, Terminator::Unknown),
        (Hidden, Hidden, Hidden, Terminator::Unknown),
        (off(), Hidden, Hidden, Terminator::Off),
        (on(), Hidden, Hidden, Terminator::On),
    ];
    for (command_lines, webhooks, lease, expected) in table {
        let signals = Signals {
            command_lines,
            webhooks,
            lease,
            other_kinds: true,
        };
        assert_eq!(signals.terminator(), expected, "{signals:?}");
    }
}

#[test]
fn the_crds_that_swaplet_brings_are_no_openkruise() {
    use Seen::{Found, Hidden, Missing};
    let table = [
        (Hidden, Hidden, Hidden, Terminator::Absent),
        (Missing, Missing, Missing, Terminator::Absent),
        // What is seen counts.
        (Hidden, Found(()), Hidden, Terminator::Unknown),
        (Hidden, Hidden, Found(true), Terminator::Unknown),
    ];
    for (command_lines, webhooks, lease, expected) in table {
        let signals = Signals {
            command_lines,
            webhooks,
            lease,
            other_kinds: false,
        };
        assert_eq!(signals.terminator(), expected, "{signals:?}");
    }
}

#[test]
fn a_node_has_the_daemon_while_a_ready_pod_of_it_is_there() {
    let pod = |name: &str, node: &str, ready| DaemonPod {
        name: name.into(),
        node: node.into(),
        ready,
    };
    let mut daemons = Daemons::default();
    assert_eq!(daemons.on("n"), Daemon::None);
    assert_eq!(daemons.apply(pod("a", "", false)), None);
    assert_eq!(
        (daemons.on(""), daemons.on("n")),
        (Daemon::None, Daemon::None)
    );
    assert_eq!(daemons.apply(pod("a", "n", false)).as_deref(), Some("n"));
    assert_eq!(daemons.on("n"), Daemon::NotReady);
    assert_eq!(daemons.apply(pod("a", "n", true)).as_deref(), Some("n"));
    assert_eq!(daemons.apply(pod("a", "n", true)), None);
    // While it is replaced there are two.
    assert_eq!(daemons.apply(pod("b", "n", false)), None);
    assert_eq!(
        (daemons.on("n"), daemons.on("other")),
        (Daemon::Ready, Daemon::None)
    );
    assert_eq!(daemons.remove("a").as_deref(), Some("n"));
    assert_eq!(daemons.on("n"), Daemon::NotReady);
    assert_eq!(daemons.remove("b").as_deref(), Some("n"));
    assert_eq!((daemons.on("n"), daemons.remove("b")), (Daemon::None, None));
}

#[test]
fn i1_jobs_that_pull_images_are_left_to_openkruise_only_while_its_manager_does_them() {
    use Coexist::{Auto, Defer, Own};
    let manager = |gates: &str| Signals {
        command_lines: Seen::Found(vec![format!("--feature-gates={gates}")]),
        webhooks: Seen::Found(()),
        lease: Seen::Found(true),
        other_kinds: true,
    };
    let is_left = |coexist, signals: &Signals| leaves_pull_jobs(coexist, signals).is_some();
    for off in [
        "KruiseDaemon=false",
        "AllBeta=false",
        "ImagePullJobGate=false",
    ] {
        assert_eq!(
            (is_left(Auto, &manager(off)), is_left(Defer, &manager(off))),
            (false, true),
            "{off}"
        );
    }
    // Before the gate came the manager did them without, and with the gate off by default its
    // webhook lets none be made.
    for on in [
        "ImagePullJobGate=true",
        "",
        "AllBeta=false,KruiseDaemon=true",
        "ImagePullJobGate=false,PreDownloadImageForInPlaceUpdate=true",
    ] {
        assert_eq!(
            (is_left(Auto, &manager(on)), is_left(Own, &manager(on))),
            (true, false),
            "{on}"
        );
    }
    let gone = Signals {
        webhooks: Seen::Missing,
        lease: Seen::Found(false),
        command_lines: Seen::Missing,
        ..manager("")
    };
    assert!(!is_left(Auto, &gone), "its CRDs were kept");
    let hidden = Signals {
        webhooks: Seen::Hidden,
        command_lines: Seen::Hidden,
        ..gone
    };
    let why = leaves_pull_jobs(Auto, &hidden).unwrap();
    assert!(
        why.contains("--warm-coexist=own") && why.contains("deploy/openkruise.yaml"),
        "{why}"
    );
}
