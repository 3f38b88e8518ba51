//! The hazards of an exit image, one test each, by their numbers in the list of hazards (design,
//! 4.2): those that a spec shows are found, those that the image itself takes care of change no
//! verdict.

mod programs;

use serde_json::{Value, json};
use swaplet_core::objects::command::Note;

use crate::command::{facts, in_pod, notes, verdict};

const ENTRYPOINT: &str = "Runnable /swaplet/quick-exit";

fn in_plain_pod(container: &Value) -> String {
    in_pod(container, &json!({}))
}

#[test]
fn d12_references_that_have_to_be_there_are_noted() {
    let by = |source: Value| notes(&json!({"env": [{"name": "A", "valueFrom": source}]}));
    assert_eq!(
        by(json!({"secretKeyRef": {"name": "s", "key": "k"}})),
        [Note::EnvByReference]
    );
    assert_eq!(
        by(json!({"configMapKeyRef": {"name": "s", "key": "k", "optional": false}})),
        [Note::EnvByReference]
    );
    assert_eq!(
        by(json!({"configMapKeyRef": {"name": "s", "key": "k", "optional": true}})),
        []
    );
    assert_eq!(by(json!({"fieldRef": {"fieldPath": "metadata.name"}})), []);
    assert_eq!(
        notes(&json!({"envFrom": [{"configMapRef": {"name": "c"}}]})),
        [Note::EnvByReference]
    );
    assert_eq!(
        notes(&json!({"envFrom": [{"secretRef": {"name": "c", "optional": true}}]})),
        []
    );
}

#[test]
fn d13_to_d16_security_contexts_change_no_verdict() {
    for context in [
        json!({"runAsNonRoot": true}),
        json!({"runAsUser": 1_000_680_000, "runAsGroup": 0}),
        json!({"readOnlyRootFilesystem": true}),
        json!({"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": false, "seccompProfile": {"type": "RuntimeDefault"}}),
    ] {
        let container = json!({"command": ["/bin/sh"], "securityContext": context});
        assert_eq!(
            (verdict(&container).as_str(), notes(&container)),
            ("Runnable /bin/sh", vec![]),
            "{context}"
        );
    }
}

#[test]
fn d17_profiles_of_the_cluster_are_noted() {
    let runtime = json!({"type": "RuntimeDefault"});
    let own = json!({"type": "Localhost", "localhostProfile": "p"});
    for (kind, profile, other, note) in [
        ("seccompProfile", &own, &runtime, Note::SecurityProfile),
        ("appArmorProfile", &own, &runtime, Note::SecurityProfile),
        (
            "seLinuxOptions",
            &json!({"type": "own_t"}),
            &json!({"level": "s0"}),
            Note::SeLinuxType,
        ),
    ] {
        let context = json!({"securityContext": {kind: profile}});
        assert_eq!(notes(&context), [note], "{context}");
        let pod = facts(&json!({}), &context);
        assert!(pod.notes().has(note), "{context}");
        // What the container names replaces what the pod names, either way.
        let theirs = json!({"securityContext": {kind: other}});
        let replaced = facts(&theirs, &context);
        assert!(!replaced.notes().has(note), "{context}");
        let replaced = facts(&context, &theirs);
        assert!(replaced.notes().has(note), "{context}");
    }
}

#[test]
fn d18_limits_change_no_verdict() {
    assert_eq!(
        verdict(
            &json!({"command": ["/bin/sh"], "resources": {"limits": {"memory": "4Mi", "cpu": "10m"}}})
        ),
        "Runnable /bin/sh"
    );
}

#[test]
fn d19_sub_paths_are_noted() {
    assert_eq!(
        notes(&json!({"volumeMounts": [{"name": "v", "mountPath": "/etc/x", "subPath": "x"}]})),
        [Note::SubPath]
    );
    assert_eq!(
        notes(
            &json!({"volumeMounts": [{"name": "v", "mountPath": "/etc/x", "subPathExpr": "$(A)"}]})
        ),
        [Note::SubPath]
    );
}

#[test]
fn d20_pull_policy_never_gets_no_exit_image() {
    assert_eq!(
        verdict(&json!({"imagePullPolicy": "Never"})),
        "NotSwappable PullPolicyNever"
    );
}

#[test]
fn d21_pull_policy_always_needs_the_registry() {
    assert_eq!(
        notes(&json!({"imagePullPolicy": "Always"})),
        [Note::RegistryNeeded]
    );
    assert_eq!(
        notes(&json!({"image": "a"})),
        [Note::RegistryNeeded],
        "the API server sets it"
    );
    assert_eq!(
        notes(&json!({"image": "a", "imagePullPolicy": "IfNotPresent"})),
        []
    );
    assert_eq!(verdict(&json!({"imagePullPolicy": "Always"})), ENTRYPOINT);
}

#[test]
fn d22_pull_secrets_change_no_verdict() {
    assert_eq!(
        in_pod(&json!({}), &json!({"imagePullSecrets": [{"name": "s"}]})),
        ENTRYPOINT
    );
}

#[test]
fn d23_other_architectures_have_no_exit_image() {
    for (architecture, expected) in [
        ("amd64", ENTRYPOINT),
        ("arm64", ENTRYPOINT),
        ("s390x", "NotSwappable Architecture"),
    ] {
        for label in ["kubernetes.io/arch", "beta.kubernetes.io/arch"] {
            assert_eq!(
                in_pod(&json!({}), &json!({"nodeSelector": {label: architecture}})),
                expected
            );
        }
    }
}

#[test]
fn d24_windows_has_no_exit_image() {
    for pod in [
        json!({"os": {"name": "windows"}}),
        json!({"nodeSelector": {"kubernetes.io/os": "windows"}}),
        json!({"nodeSelector": {"beta.kubernetes.io/os": "windows"}}),
    ] {
        assert_eq!(in_pod(&json!({}), &pod), "NotSwappable Windows", "{pod}");
    }
    assert_eq!(
        in_pod(&json!({}), &json!({"os": {"name": "linux"}})),
        ENTRYPOINT
    );
}

#[test]
fn d25_a_shared_process_namespace_changes_no_verdict() {
    assert_eq!(
        in_pod(&json!({}), &json!({"shareProcessNamespace": true})),
        ENTRYPOINT
    );
}

#[test]
fn d26_hooks_and_probes_are_noted() {
    assert_eq!(
        notes(&json!({"lifecycle": {"postStart": {"exec": {"command": ["x"]}}}})),
        [Note::PostStartFails]
    );
    assert_eq!(
        notes(&json!({"lifecycle": {"postStart": {"sleep": {"seconds": 5}}}})),
        [Note::PostStartSleeps]
    );
    assert_eq!(
        notes(&json!({"lifecycle": {"preStop": {"exec": {"command": ["x"]}}}})),
        [],
        "it belongs to the old container"
    );
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        assert_eq!(
            notes(&json!({probe: {"exec": {"command": ["x"]}}})),
            [Note::ProbesFail],
            "{probe}"
        );
    }
}

#[test]
fn d27_and_d28_terminals_and_logs_change_no_verdict() {
    let container = json!({"tty": true, "stdin": true, "terminationMessagePath": "/tmp/message", "terminationMessagePolicy": "FallbackToLogsOnError"});
    assert_eq!(verdict(&container), ENTRYPOINT);
}

#[test]
fn d29_a_policy_of_the_container_comes_first() {
    let policy = |pod: &str, own: &str| {
        in_pod(
            &json!({"restartPolicy": own}),
            &json!({"restartPolicy": pod}),
        )
    };
    assert_eq!(policy("Never", "Always"), "NotSwappable RestartsAlways");
    assert_eq!(policy("Always", "OnFailure"), ENTRYPOINT);
    assert_eq!(policy("OnFailure", "Never"), ENTRYPOINT);
    assert_eq!(
        policy("Never", "Sometimes"),
        "NotSwappable RestartPolicyUnknown"
    );
    assert_eq!(
        in_pod(&json!({}), &json!({"restartPolicy": "Always"})),
        "NotSwappable RestartsAlways"
    );
    assert_eq!(
        in_pod(&json!({}), &json!({"restartPolicy": null})),
        ENTRYPOINT,
        "some kinds set it later"
    );
}

#[test]
fn d29_rules_must_not_restart_a_success() {
    let rules = |rules: Value| {
        in_plain_pod(&json!({"restartPolicy": "Never", "restartPolicyRules": rules}))
    };
    let codes = |operator: &str, values: Value| {
        rules(json!([{"action": "Restart", "exitCodes": {"operator": operator, "values": values}}]))
    };
    assert_eq!(codes("In", json!([42, 143])), ENTRYPOINT);
    assert_eq!(codes("NotIn", json!([0, 1])), ENTRYPOINT);
    for (operator, values) in [
        ("In", json!([0])),
        ("NotIn", json!([1])),
        ("NotIn", json!([])),
        ("Else", json!([1])),
    ] {
        assert_eq!(
            codes(operator, values.clone()),
            "NotSwappable RestartRuleOnSuccess",
            "{operator} {values}"
        );
    }
    assert_eq!(
        rules(json!([{"action": "Restart"}])),
        ENTRYPOINT,
        "it matches no code (Kubernetes: ContainerShouldRestart)"
    );
    for action in ["RestartAllContainers", "WhateverComesLater"] {
        let rule = json!([{"action": action, "exitCodes": {"operator": "In", "values": [42]}}]);
        assert_eq!(
            rules(rule),
            "NotSwappable RestartsAllContainers",
            "{action}"
        );
    }
    assert_eq!(rules(json!([])), ENTRYPOINT);
    let rule = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [143]}}]);
    assert_eq!(
        notes(&json!({"restartPolicyRules": rule})),
        [Note::RestartRules]
    );
}

#[test]
fn d30_args_that_look_like_flags_change_no_verdict() {
    assert_eq!(verdict(&json!({"args": ["--help", "-", ""]})), ENTRYPOINT);
}

#[test]
fn fields_of_wrong_types_are_not_guessed_at() {
    for container in [
        json!({"command": "sh"}),
        json!({"command": [1]}),
        json!({"env": {}}),
        json!({"volumeMounts": [{"name": "v"}]}),
        json!({"workingDir": 1}),
    ] {
        assert_eq!(verdict(&container), "NotSwappable Malformed", "{container}");
    }
    assert_eq!(
        in_pod(&json!({}), &json!({"volumes": {}})),
        "NotSwappable Malformed"
    );
}
