use std::time::Duration;

use swaplet_controller::terminate::probe::Way;
use swaplet_core::report::reason::Reason;

use super::*;

fn tried(way: Way, answer: Answer, seconds: f32, evidence: &[&str], note: &str) -> Tried {
    let evidence = evidence.iter().map(|part| (*part).to_owned()).collect();
    let proved = (answer == Answer::Fails(Reason::SwapRejected)).then_some(Proved::Rejects);
    Tried {
        way,
        answer,
        took: Some(Duration::from_secs_f32(seconds)),
        evidence,
        note: note.to_owned(),
        proved,
    }
}

fn rejects() -> Probed {
    let reported = ["same containerID", "pod Pending (ProviderFailed)"];
    let rejected = tried(
        Way::SwapOnFailure,
        Answer::Fails(Reason::SwapRejected),
        0.42,
        &reported,
        "the provider has \u{1b}failed",
    );
    let works = tried(
        Way::Finish,
        Answer::Works,
        0.3,
        &["pod Succeeded"],
        "the pod is Succeeded",
    );
    Probed {
        tried: vec![rejected, works],
        ..Probed::default()
    }
}

fn unknown() -> Shown {
    Shown {
        class: NodeClass::Unknown,
        why: "label type=virtual-kubelet".to_owned(),
        problems: Vec::new(),
    }
}

fn findings<'a>(probed: &'a Probed, verdict: Option<NodeClass>, shown: &'a Shown) -> Findings<'a> {
    let node = Node {
        name: "vk".into(),
        ..Node::default()
    };
    let command = verdict
        .filter(|class| *class != shown.class)
        .map(|class| command(&node, class));
    Findings {
        probed,
        node: "vk",
        verdict,
        shown,
        command,
    }
}

#[test]
fn the_table_says_what_works_what_does_not_and_what_to_do() {
    let (probed, shown) = (rejects(), unknown());
    let text = findings(&probed, Some(NodeClass::VirtualRejects), &shown)
        .show(Output::Table)
        .unwrap();
    let expected = [
        "WAY                    RESULT         SECONDS   EVIDENCE",
        "swap under OnFailure   SwapRejected   0.4       same containerID, pod Pending (ProviderFailed)",
        "finish                 Works          0.3       pod Succeeded",
        "",
        "swap under OnFailure: the provider has ?failed",
        "Verdict: node vk is VirtualRejects; swaplet nodes says Unknown (label type=virtual-kubelet). Make it known:",
        "  kubectl label node vk swaplet.io/node-class=VirtualRejects",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{text}");
}

#[test]
fn what_is_known_already_or_was_not_proved_needs_no_label() {
    let (probed, shown) = (rejects(), unknown());
    let same = Shown {
        class: NodeClass::VirtualRejects,
        ..unknown()
    };
    let known = findings(&probed, Some(NodeClass::VirtualRejects), &same)
        .show(Output::Table)
        .unwrap();
    assert!(
        known.ends_with("so there is nothing to do.\n") && !known.contains("kubectl"),
        "{known}"
    );
    let nothing = findings(&probed, None, &shown).show(Output::Table).unwrap();
    assert!(
        nothing.contains("Nothing was proved about node vk") && !nothing.contains("kubectl"),
        "{nothing}"
    );
    let none = Probed::default();
    assert_eq!(
        findings(&none, None, &shown).show(Output::Table).unwrap(),
        ""
    );
}

#[test]
fn an_ordinary_node_that_did_not_react_is_not_judged_and_the_way_out_is_named() {
    let mut probed = rejects();
    probed.tried[0].answer = Answer::Fails(Reason::SwapWithoutEffect);
    probed.tried[0].proved = Some(Proved::Inert);
    assert_eq!(verdict(&probed, NodeClass::Kubelet), None);
    assert_eq!(
        verdict(&probed, NodeClass::VirtualInert),
        Some(NodeClass::VirtualInert)
    );
    let ordinary = Shown {
        class: NodeClass::Kubelet,
        ..unknown()
    };
    let text = findings(&probed, None, &ordinary)
        .show(Output::Table)
        .unwrap();
    assert!(
        text.contains("Not judged")
            && text.ends_with("kubectl label node vk swaplet.io/node-class=VirtualInert\n"),
        "{text}"
    );
}

#[test]
fn a_label_that_is_there_is_overwritten() {
    let labels = [(OVERRIDE.into(), "VirtualUpdates".into())].into();
    let node = Node {
        name: "vk".into(),
        labels,
        ..Node::default()
    };
    assert!(command(&node, NodeClass::VirtualInert).ends_with("=VirtualInert --overwrite"));
}

#[test]
fn programs_get_the_same() {
    let (probed, shown) = (rejects(), unknown());
    let json: Value = serde_json::from_str(
        &findings(&probed, Some(NodeClass::VirtualRejects), &shown)
            .show(Output::Json)
            .unwrap(),
    )
    .unwrap();
    assert_eq!(
        (
            &json["ways"][0]["result"],
            &json["ways"][0]["works"],
            &json["ways"][0]["proved"]
        ),
        (&json!("SwapRejected"), &json!(false), &json!("Rejects"))
    );
    assert_eq!(
        (&json["verdict"], &json["nodes"]["class"], &json["stopped"]),
        (&json!("VirtualRejects"), &json!("Unknown"), &Value::Null)
    );
}
