//! Pods that are wrong: one clear report, no write, and nothing else affected.

use serde_json::{Value, json};
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::values::env::{IGNORE_EXIT_CODE, WHEN_JOB_EXIT, WITH_IMAGE};
use swaplet_core::report::reason::Reason;

use crate::builder::{
    ContainerBuilder, PodBuilder, main_container, pod, read, sidecar, sidecar_with_image,
};
use crate::expect::{
    EXIT, LISTED, Life, UNLISTED, ask, assert_silent, rules_with, swaps, swaps_to, warns,
};

/// A main that is done beside the container in question.
fn beside_done_main(container: ContainerBuilder) -> PodBuilder {
    pod("Never")
        .with(main_container("main").ended(0))
        .with(container)
}

fn ready() -> PodBuilder {
    beside_done_main(sidecar("sidecar").running())
}

#[test]
fn an_empty_image_does_not_mark_and_is_told() {
    let note = warns(
        &beside_done_main(sidecar_with_image("sidecar", "").running()),
        Reason::MarkInvalid,
    );
    assert!(
        note.contains("container sidecar") && note.contains(WITH_IMAGE),
        "{note}"
    );
}

#[test]
fn an_empty_image_beside_the_plain_mark_means_the_default() {
    swaps(
        &beside_done_main(sidecar("sidecar").env(WITH_IMAGE, "").running()),
        &["sidecar"],
    );
}

#[test]
fn a_malformed_image_is_told_and_nothing_is_written() {
    for image in [
        "Not An Image",
        "registry.example/UPPER:v1",
        "http://registry.example/exit",
        " registry.example/exit/a ",
        "a@sha256:12",
    ] {
        for container in [
            sidecar_with_image("sidecar", image),
            sidecar("sidecar").env(WITH_IMAGE, image),
        ] {
            let note = warns(
                &beside_done_main(container.running()),
                Reason::ExitImageInvalid,
            );
            assert!(
                note.contains("container sidecar") && note.contains(WITH_IMAGE),
                "{note}"
            );
        }
    }
}

#[test]
fn a_very_long_image_is_told_in_a_short_note() {
    let pod = beside_done_main(sidecar_with_image("sidecar", &"a".repeat(1 << 20)).running());
    assert!(warns(&pod, Reason::ExitImageInvalid).len() < 1024);
}

#[test]
fn e1_19_one_bad_image_keeps_no_other_sidecar_and_is_told_after_them() {
    let pod = ready().with(sidecar_with_image("broken", "Not An Image").running());
    swaps(&pod, &["sidecar"]);
    warns(
        &pod.but("sidecar", |sidecar| sidecar.ended(0)),
        Reason::ExitImageInvalid,
    );
}

#[test]
fn a_bad_image_of_a_sidecar_that_has_ended_does_not_matter() {
    swaps(
        &ready().with(sidecar_with_image("broken", "Not An Image").ended(0)),
        &["sidecar"],
    );
}

#[test]
fn a_mark_by_reference_is_told() {
    for name in [WHEN_JOB_EXIT, WITH_IMAGE] {
        let entry = json!({"name": name, "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "secret-key"}}});
        let note = warns(
            &beside_done_main(main_container("sidecar").env_entry(entry).running()),
            Reason::MarkInvalid,
        );
        assert!(note.contains(name) && note.contains("valueFrom"), "{note}");
    }
}

#[test]
fn flag_values_other_than_true_and_false_are_told() {
    for value in ["yes", "1", "on", " true", "true ", "truе"] {
        let note = warns(
            &beside_done_main(
                main_container("sidecar")
                    .env(WHEN_JOB_EXIT, value)
                    .running(),
            ),
            Reason::MarkInvalid,
        );
        assert!(note.contains(WHEN_JOB_EXIT), "{note}");
    }
}

#[test]
fn false_is_no_mark_and_no_mistake() {
    for value in ["false", "False", ""] {
        assert_silent(
            &beside_done_main(main_container("other").env(WHEN_JOB_EXIT, value).running()),
            Reason::NoSidecar,
        );
    }
}

#[test]
fn the_exit_code_flag_alone_does_not_mark() {
    assert_silent(
        &beside_done_main(
            main_container("other")
                .env(IGNORE_EXIT_CODE, "true")
                .running(),
        ),
        Reason::NoSidecar,
    );
}

#[test]
fn names_of_variables_are_exact() {
    let lower = main_container("other")
        .env(&WHEN_JOB_EXIT.to_lowercase(), "true")
        .env("KRUISE_TERMINATE_SIDECAR", "true");
    assert_silent(&beside_done_main(lower.running()), Reason::NoSidecar);
}

#[test]
fn a_flag_of_another_json_type_is_told() {
    for value in [
        json!(true),
        json!(1),
        json!(["true"]),
        json!({"true": true}),
    ] {
        let entry = json!({"name": WHEN_JOB_EXIT, "value": value});
        warns(
            &beside_done_main(main_container("sidecar").env_entry(entry).running()),
            Reason::MarkInvalid,
        );
    }
}

#[test]
fn a_bad_mark_beside_a_good_one_is_told_while_the_mains_run() {
    let pod = pod("Never")
        .with(main_container("main").running())
        .with(sidecar("good").running())
        .with(main_container("bad").env(WHEN_JOB_EXIT, "yes").running());
    let mut life = Life::new();
    life.tells(&pod, Reason::MarkInvalid);
    life.assert_silent(&pod.but("main", |main| main.ended(0)), Reason::MainsRunning);
}

#[test]
fn a_pod_of_sidecars_only_is_refused() {
    let all = pod("OnFailure")
        .with(sidecar("a").running())
        .with(sidecar_with_image("b", LISTED).running());
    assert!(warns(&all, Reason::OnlySidecars).contains("every container"));
    assert_silent(&all.phase("Succeeded"), Reason::PodFinished);
}

#[test]
fn an_unknown_or_missing_restart_policy_is_told_for_marked_pods_only() {
    for policy in [json!("Sometimes"), json!("never"), json!(""), Value::Null] {
        let note = warns(
            &ready().set("/spec/restartPolicy", policy.clone()),
            Reason::RestartPolicyUnknown,
        );
        assert!(note.contains("spec.restartPolicy"), "{note}");
        assert_silent(
            &pod("Never")
                .with(main_container("main").ended(0))
                .set("/spec/restartPolicy", policy),
            Reason::NoSidecar,
        );
    }
}

#[test]
fn an_unknown_restart_policy_of_a_container_is_told() {
    let note = warns(
        &beside_done_main(
            sidecar("sidecar")
                .spec("restartPolicy", "Sometimes")
                .running(),
        ),
        Reason::RestartPolicyUnknown,
    );
    assert!(note.contains("container sidecar"), "{note}");
    let main = pod("Never")
        .with(
            main_container("main")
                .spec("restartPolicy", "Sometimes")
                .ended(0),
        )
        .with(sidecar("sidecar").running());
    assert!(warns(&main, Reason::RestartPolicyUnknown).contains("container main"));
}

#[test]
fn a_sidecar_that_restarts_always_is_told() {
    let note = warns(
        &beside_done_main(sidecar("sidecar").spec("restartPolicy", "Always").running()),
        Reason::SidecarRestartsAlways,
    );
    assert!(note.contains("container sidecar"), "{note}");
}

#[test]
fn a_main_that_restarts_always_is_never_done() {
    let pod = pod("Never")
        .with(
            main_container("main")
                .spec("restartPolicy", "Always")
                .ended(0),
        )
        .with(sidecar("sidecar").running());
    assert_silent(&pod, Reason::MainsRunning);
}

#[test]
fn the_policy_of_a_main_outranks_that_of_its_pod() {
    let failed = |pod_policy, own| {
        pod(pod_policy)
            .with(main_container("main").spec("restartPolicy", own).ended(1))
            .with(sidecar("sidecar").running())
    };
    swaps(&failed("OnFailure", "Never"), &["sidecar"]);
    assert_silent(&failed("Never", "OnFailure"), Reason::MainsRunning);
}

#[test]
fn a_missing_status_of_a_main_waits() {
    assert_silent(
        &pod("Never")
            .with(main_container("main").no_status())
            .with(sidecar("sidecar").running()),
        Reason::MainsRunning,
    );
    let one_of_two = ready().with(main_container("second").no_status());
    assert_silent(&one_of_two, Reason::MainsRunning);
}

#[test]
fn no_status_at_all_waits() {
    let pod = pod("Never")
        .with(main_container("main").no_status())
        .with(sidecar("sidecar").no_status());
    assert_silent(
        &pod.clone().set("/status", Value::Null),
        Reason::MainsRunning,
    );
    assert_silent(&pod.set("/status", json!({})), Reason::MainsRunning);
}

#[test]
fn a_missing_status_of_a_sidecar_does_not_hinder() {
    swaps(
        &beside_done_main(sidecar("sidecar").no_status()),
        &["sidecar"],
    );
}

#[test]
fn the_order_of_statuses_does_not_matter() {
    let pod = pod("OnFailure")
        .with(sidecar("a").running())
        .with(main_container("main").ended(0))
        .with(sidecar("b").ended(0))
        .with(sidecar("c").running());
    swaps(&pod, &["a", "c"]);
    swaps(&pod.statuses_reversed(), &["a", "c"]);
}

#[test]
fn statuses_of_other_containers_are_not_taken_for_those_of_the_pod() {
    let init = json!({"name": "init", "image": "i", "state": {"terminated": {"exitCode": 0}}});
    swaps(&ready().extra_status(init.clone()), &["sidecar"]);
    let unreported = pod("Never")
        .with(main_container("main").no_status())
        .with(sidecar("sidecar").running())
        .extra_status(init);
    assert_silent(&unreported, Reason::MainsRunning);
}

#[test]
fn the_first_of_two_statuses_of_one_name_counts() {
    let ended = json!({"name": "main", "state": {"terminated": {"exitCode": 0}}});
    let running = json!({"name": "main", "state": {"running": {}}});
    let two = pod("Never")
        .with(sidecar("sidecar").running())
        .with(main_container("main").no_status());
    swaps(
        &two.clone()
            .extra_status(ended.clone())
            .extra_status(running.clone()),
        &["sidecar"],
    );
    assert_silent(
        &two.extra_status(running.clone())
            .extra_status(ended.clone()),
        Reason::MainsRunning,
    );
    // Nor does the place of the other statuses change which is the first.
    let bare = pod("Never")
        .with(sidecar("sidecar").no_status())
        .with(main_container("main").no_status());
    let of_sidecar = json!({"name": "sidecar", "state": {"running": {}}});
    assert_silent(
        &bare
            .extra_status(of_sidecar)
            .extra_status(running)
            .extra_status(ended),
        Reason::MainsRunning,
    );
}

#[test]
fn native_sidecars_and_ephemeral_containers_are_neither_mains_nor_targets() {
    let marked = json!([{"name": "proxy", "image": "p", "restartPolicy": "Always", "env": [{"name": WHEN_JOB_EXIT, "value": "true"}]}]);
    let init_status = json!([{"name": "proxy", "state": {"running": {}}}]);
    let with_others = |pod: PodBuilder| {
        pod.set("/spec/initContainers", marked.clone())
            .set("/status/initContainerStatuses", init_status.clone())
            .set("/spec/ephemeralContainers", marked.clone())
            .set("/status/ephemeralContainerStatuses", init_status.clone())
    };
    swaps(&with_others(ready()), &["sidecar"]);
    assert_silent(
        &with_others(pod("Never").with(main_container("main").ended(0))),
        Reason::NoSidecar,
    );
    assert_silent(
        &with_others(beside_done_main(sidecar("sidecar").ended(0))),
        Reason::SidecarsEnded,
    );
}

#[test]
fn a_missing_exit_code_is_no_success() {
    let main = |policy| {
        pod(policy)
            .with(main_container("main").status("state", json!({"terminated": {}})))
            .with(sidecar("s").running())
    };
    assert_silent(&main("OnFailure"), Reason::MainsRunning);
    swaps(&main("Never"), &["s"]);
}

#[test]
fn an_exit_code_of_another_type_is_no_success() {
    for code in [
        json!("0"),
        json!(0.5),
        json!(false),
        Value::Null,
        json!([0]),
    ] {
        let main =
            main_container("main").status("state", json!({"terminated": {"exitCode": code}}));
        assert_silent(
            &pod("OnFailure")
                .with(main)
                .with(sidecar("sidecar").running()),
            Reason::MainsRunning,
        );
    }
}

#[test]
fn of_two_members_of_a_state_the_end_counts() {
    let both =
        json!({"running": {"startedAt": "2025-01-01T00:00:00Z"}, "terminated": {"exitCode": 0}});
    swaps(
        &pod("OnFailure")
            .with(main_container("main").status("state", both.clone()))
            .with(sidecar("sidecar").running()),
        &["sidecar"],
    );
    assert_silent(
        &beside_done_main(sidecar("sidecar").status("state", both)),
        Reason::SidecarsEnded,
    );
    let waits_too = json!({"waiting": {"reason": "Unknown"}, "running": {}});
    assert_silent(
        &pod("Never")
            .with(main_container("main").status("state", waits_too))
            .with(sidecar("s").running()),
        Reason::MainsRunning,
    );
}

#[test]
fn an_empty_state_is_no_end() {
    for state in [json!({}), Value::Null, json!({"terminated": null})] {
        let main = main_container("main").status("state", state.clone());
        assert_silent(
            &pod("Never").with(main).with(sidecar("sidecar").running()),
            Reason::MainsRunning,
        );
        swaps(
            &beside_done_main(sidecar("sidecar").status("state", state)),
            &["sidecar"],
        );
    }
}

#[test]
fn an_unlisted_image_is_replaced_by_the_default_and_the_event_says_so() {
    let pod = beside_done_main(sidecar_with_image("sidecar", UNLISTED).running());
    swaps_to(&pod, &[("sidecar", EXIT)]);
    let note = ask(&pod).done.unwrap().note;
    assert!(
        note.contains(UNLISTED) && note.contains("not on the list"),
        "{note}"
    );
}

#[test]
fn an_unlisted_image_without_a_default_is_told() {
    let pod = beside_done_main(sidecar_with_image("sidecar", UNLISTED).running());
    let note = Life::under(rules_with(None, &["registry.example/exit/*"]))
        .tells(&pod, Reason::ExitImageMissing);
    assert!(
        note.contains(UNLISTED) && note.contains("--exit-images"),
        "{note}"
    );
}

#[test]
fn the_plain_mark_without_a_default_is_told() {
    let note = Life::under(rules_with(None, &[])).tells(&ready(), Reason::ExitImageMissing);
    assert!(
        note.contains("container sidecar") && note.contains("--exit-image"),
        "{note}"
    );
}

#[test]
fn a_listed_image_needs_no_default() {
    let pod = beside_done_main(sidecar_with_image("sidecar", LISTED).running());
    let after = Life::under(rules_with(None, &["registry.example/exit/*"])).swaps(&pod);
    assert_eq!(after.image_of("sidecar"), LISTED);
}

#[test]
fn a_digest_that_a_tenant_adds_to_an_exactly_listed_image_is_not_listed() {
    let evil = format!("{EXIT}@{}", crate::expect::DIGEST);
    swaps_to(
        &beside_done_main(sidecar_with_image("sidecar", &evil).running()),
        &[("sidecar", EXIT)],
    );
}

#[test]
fn a_megabyte_of_annotations_changes_nothing() {
    let annotations = json!({"big": "x".repeat(1 << 20), "deep": "[".repeat(1 << 16)});
    let pod = ready().set("/metadata/annotations", annotations).set(
        "/metadata/managedFields",
        json!([{"fieldsV1": {"f:a": {}}}]),
    );
    swaps(&pod, &["sidecar"]);
}

#[test]
fn a_pod_without_an_address_is_not_read() {
    for place in ["/metadata/name", "/metadata/namespace", "/metadata/uid"] {
        for value in [Value::Null, json!(""), json!(1), json!({})] {
            assert_eq!(read(ready().set(place, value).json()), None, "{place}");
        }
    }
    assert_eq!(read(ready().set("/metadata", "none").json()), None);
}

#[test]
fn only_json_that_is_no_object_fails_to_decode() {
    for json in ["null", "1", "\"pod\"", "[]", "[[]]", "true"] {
        let read = serde_json::from_str::<PodWire>(json)
            .ok()
            .and_then(PodWire::read);
        assert_eq!(read, None, "{json}");
    }
    assert!(serde_json::from_str::<PodWire>("{}").is_ok());
}

#[test]
fn deep_nesting_in_a_field_that_is_not_read_is_skipped() {
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    let text = ready()
        .set("/metadata/annotations", "DEEP")
        .json()
        .to_string()
        .replace("\"DEEP\"", &deep);
    let pod = serde_json::from_str::<PodWire>(&text)
        .expect("it decodes")
        .read()
        .expect("it reads");
    assert_eq!(pod, ready().read());
}

/// A main of its own policy with one rule, ended with this code, beside a sidecar that runs.
fn with_rule(policy: &str, rules: &Value, code: i64) -> PodBuilder {
    let main = main_container("main")
        .spec("restartPolicy", policy)
        .spec("restartPolicyRules", rules.clone())
        .ended(code);
    pod("Never").with(main).with(sidecar("sidecar").running())
}

/// Kubernetes: `ContainerShouldRestart` in `pkg/api/v1/pod/util.go`.
#[test]
fn a18_a_main_with_restart_rules_is_done_after_a_code_that_no_rule_names() {
    let rule = |operator: &str, codes: Value| json!([{"action": "Restart", "exitCodes": {"operator": operator, "values": codes}}]);
    let all = |codes: Value| json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": codes}}]);
    // (policy, rules, codes after which it is done, codes after which it comes back)
    let table: [(&str, Value, &[i64], &[i64]); 7] = [
        (
            "Never",
            rule("In", json!([42, 43])),
            &[0, 1, 143],
            &[42, 43],
        ),
        ("Never", rule("NotIn", json!([0, 7])), &[0, 7], &[1, 42]),
        ("OnFailure", rule("In", json!([42])), &[0], &[1, 42]),
        ("OnFailure", rule("In", json!([0])), &[], &[0, 1]),
        ("Never", all(json!([42])), &[0, 1], &[42]),
        ("Never", json!([]), &[0, 1], &[]),
        ("Never", json!([{"action": "Restart"}]), &[0, 1], &[]),
    ];
    for (policy, rules, done, comes_back) in table {
        done.iter()
            .for_each(|code| swaps(&with_rule(policy, &rules, *code), &["sidecar"]));
        comes_back.iter().for_each(|code| {
            assert_silent(&with_rule(policy, &rules, *code), Reason::MainsRunning)
        });
    }
    let several = json!([rule("In", json!([3]))[0], rule("In", json!([5]))[0]]);
    [3, 5]
        .iter()
        .for_each(|code| assert_silent(&with_rule("Never", &several, *code), Reason::MainsRunning));
    swaps(&with_rule("Never", &several, 4), &["sidecar"]);
}

#[test]
fn a18_a_rule_that_cannot_be_read_may_bring_the_main_back() {
    let strange = [
        json!(5),
        json!([5]),
        json!([{"action": "Restart", "exitCodes": 5}]),
        json!([{"action": "Restart", "exitCodes": {"operator": "Between", "values": [1]}}]),
        json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": ["one"]}}]),
    ];
    for rules in strange {
        assert_silent(&with_rule("Never", &rules, 0), Reason::MainsRunning);
        assert_silent(&with_rule("Never", &rules, 1), Reason::MainsRunning);
    }
}
