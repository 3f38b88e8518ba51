//! The hazards of an exit image, one test each, by their numbers in the list of hazards (design,
//! 4.2): those that a spec shows are found, those that the image itself takes care of change no
//! verdict.

use serde_json::{Value, json};
use swaplet_core::objects::command::{Note, resolve};

use crate::command::{command, facts, in_pod, notes, verdict, words};

const ENTRYPOINT: &str = "Runnable /swaplet/quick-exit";

fn in_plain_pod(container: &Value) -> String {
    in_pod(container, &json!({}))
}

fn mounted(command: &str, path: &str, volume: &Value) -> String {
    let container =
        json!({"command": [command], "volumeMounts": [{"name": "v", "mountPath": path}]});
    let mut volume = volume.clone();
    volume["name"] = "v".into();
    in_pod(&container, &json!({"volumes": [volume]}))
}

#[test]
fn d01_without_a_command_the_entrypoint_runs_whatever_the_args() {
    assert_eq!(verdict(&json!({})), ENTRYPOINT);
    assert_eq!(verdict(&json!({"command": []})), ENTRYPOINT);
    assert_eq!(
        verdict(&json!({"command": null, "args": ["/bin/sh", "-c", "sleep 1"]})),
        ENTRYPOINT
    );
}

#[test]
fn d02_an_absolute_path_has_to_be_in_the_image() {
    assert_eq!(
        command(&["/usr/local/bin/envoy", "-c", "x"]),
        "Runnable /usr/local/bin/envoy"
    );
    assert_eq!(command(&["/opt/own/server"]), "NeedsImage /opt/own/server");
    assert_eq!(
        command(&["//usr/./local/bin//envoy"]),
        "Runnable /usr/local/bin/envoy"
    );
}

#[test]
fn d03_a_bare_name_is_looked_up_in_path() {
    assert_eq!(command(&["envoy"]), "Runnable /usr/local/bin/envoy");
    assert_eq!(command(&["own"]), "NeedsImage /usr/local/sbin/own");
    for nothing in ["", ".", "..", "a\0b"] {
        assert_eq!(
            command(&[nothing]),
            "NotSwappable CommandInvalid",
            "{nothing:?}"
        );
    }
}

#[test]
fn d04_a_relative_path_starts_in_the_working_directory() {
    let relative = |program: &str, working_dir: Value| {
        verdict(&json!({"command": [program], "workingDir": working_dir}))
    };
    assert_eq!(
        relative("./filebeat", "/usr/share/filebeat".into()),
        "Runnable /usr/share/filebeat/filebeat"
    );
    assert_eq!(relative("bin/sh", Value::Null), "Runnable /bin/sh");
    assert_eq!(relative("bin/sh", "".into()), "Runnable /bin/sh");
    assert_eq!(
        relative("./run.sh", "/app".into()),
        "NeedsImage /app/run.sh"
    );
    assert_eq!(relative("../bin/sh", "/app".into()), "Runnable /bin/sh");
    assert_eq!(
        relative("./run.sh", "app".into()),
        "NotSwappable CommandInvalid"
    );
    assert_eq!(
        relative("lib/../bin/sh", "/".into()),
        "NotSwappable CommandInvalid",
        "nobody knows whether there is a directory lib"
    );
}

fn with_path(path: Value) -> String {
    let mut entry = path;
    entry["name"] = "PATH".into();
    verdict(&json!({"command": ["envoy"], "env": [entry]}))
}

#[test]
fn d05_the_path_of_the_container_replaces_that_of_the_image() {
    assert_eq!(
        with_path(json!({"value": "/opt/x:/usr/local/bin"})),
        "Runnable /usr/local/bin/envoy"
    );
    assert_eq!(
        with_path(json!({"value": "/opt/x:/opt/y"})),
        "NeedsImage /opt/x/envoy"
    );
    assert_eq!(
        with_path(json!({"value": ":bin:.:/proc:/opt/y"})),
        "NeedsImage /opt/y/envoy",
        "only absolute directories that an image can have"
    );
    assert_eq!(
        with_path(json!({"value": "/opt/x:$PATH"})),
        "NeedsImage /opt/x/envoy",
        "no shell reads it"
    );
    assert_eq!(
        with_path(json!({"valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}})),
        "NotSwappable CommandUnknown"
    );
    for nowhere in ["", ":", "bin", "/proc:/dev"] {
        assert_eq!(
            with_path(json!({"value": nowhere})),
            "NotSwappable CommandInvalid",
            "{nowhere:?}"
        );
    }
}

#[test]
fn d06_the_image_has_a_path_of_its_own() {
    assert_eq!(command(&["haproxy"]), "Runnable /usr/local/sbin/haproxy");
    assert_eq!(
        verdict(&json!({"command": ["envoy"], "envFrom": [{"configMapRef": {"name": "c"}}]})),
        "Runnable /usr/local/bin/envoy"
    );
}

#[test]
fn d07_shells_are_exit_programs_too() {
    for shell in [
        "/bin/sh",
        "/bin/bash",
        "/bin/ash",
        "/bin/dash",
        "/usr/bin/sh",
        "/usr/bin/bash",
        "/busybox/sh",
    ] {
        assert_eq!(
            command(&[shell, "-c", "sleep infinity"]),
            format!("Runnable {shell}")
        );
    }
    for shell in ["sh", "bash", "ash", "busybox"] {
        assert!(
            command(&[shell, "-c", "sleep infinity"]).starts_with("Runnable /"),
            "{shell}"
        );
    }
}

#[test]
fn d08_a_program_on_a_volume_would_run_again() {
    for volume in [
        json!({"emptyDir": {}}),
        json!({"persistentVolumeClaim": {"claimName": "c"}}),
        json!({"hostPath": {"path": "/x"}}),
        json!({"csi": {"driver": "d"}}),
        json!({"image": {"reference": "i:1"}}),
        json!({"ephemeral": {}}),
        json!({"nfs": {}}),
    ] {
        assert_eq!(
            mounted("/work/run", "/work", &volume),
            "NotSwappable ProgramOnVolume",
            "{volume}"
        );
        assert_eq!(
            mounted("/work/bin/run", "/work/", &volume),
            "NotSwappable ProgramOnVolume",
            "{volume}"
        );
    }
    assert_eq!(
        mounted("/workshop/run", "/work", &json!({"emptyDir": {}})),
        "NeedsImage /workshop/run"
    );
}

#[test]
fn d09_a_file_of_a_config_map_is_taken_for_a_script() {
    for volume in [
        json!({"configMap": {"name": "c"}}),
        json!({"secret": {}}),
        json!({"projected": {}}),
        json!({"downwardAPI": {}}),
    ] {
        assert_eq!(
            mounted("/scripts/run.sh", "/scripts", &volume),
            "Script /scripts/run.sh",
            "{volume}"
        );
    }
    let container =
        json!({"command": ["/s/run"], "volumeMounts": [{"name": "v", "mountPath": "/s"}]});
    let facts = facts(
        &container,
        &json!({"volumes": [{"name": "v", "configMap": {}}]}),
    );
    let no_env = |path: &str| path.starts_with("/bin/");
    assert_eq!(
        words(&resolve(&facts, &no_env)),
        "NeedsImage /usr/bin/env",
        "the interpreter has to be in the image"
    );
}

#[test]
fn d10_a_mount_hides_the_program_of_the_image() {
    assert_eq!(
        mounted(
            "/usr/local/bin/envoy",
            "/usr/local/bin",
            &json!({"emptyDir": {}})
        ),
        "NotSwappable ProgramOnVolume"
    );
    assert_eq!(
        mounted("envoy", "/usr/local/bin", &json!({"emptyDir": {}})),
        "NeedsImage /usr/local/sbin/envoy",
        "an earlier directory of PATH"
    );
    assert_eq!(
        mounted("/bin/sh", "/bin/other", &json!({"emptyDir": {}})),
        "Runnable /bin/sh"
    );
}

#[test]
fn d11_references_are_expanded_as_the_kubelet_does() {
    let expanded = |program: &str, env: Value| verdict(&json!({"command": [program], "env": env}));
    let home = json!([{"name": "HOME_DIR", "value": "/opt"}, {"name": "TOOL", "value": "$(HOME_DIR)/t"}, {"name": "EARLY", "value": "$(LATE)"}, {"name": "LATE", "value": "x"}]);
    assert_eq!(
        expanded("$(TOOL)/run", home.clone()),
        "NeedsImage /opt/t/run"
    );
    assert_eq!(
        expanded("/$(EARLY)/run", home.clone()),
        "NeedsImage /$(LATE)/run",
        "a value sees only what stands before it"
    );
    assert_eq!(
        expanded("/$$(TOOL)/run", home.clone()),
        "NeedsImage /$(TOOL)/run"
    );
    assert_eq!(
        expanded("/$(NOBODY)/run", home),
        "NeedsImage /$(NOBODY)/run"
    );
    let twice = json!([{"name": "A", "value": "/bin"}, {"name": "A", "value": "/usr/bin"}]);
    assert_eq!(
        expanded("$(A)/sh", twice),
        "Runnable /usr/bin/sh",
        "the last one counts"
    );
    let unknown = json!([{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "B", "value": "/x/$(A)"}]);
    assert_eq!(expanded("$(B)/run", unknown), "NotSwappable CommandUnknown");
    assert_eq!(
        verdict(&json!({"command": ["$(A)/run"], "envFrom": [{"secretRef": {"name": "s"}}]})),
        "NotSwappable CommandUnknown"
    );
    assert_eq!(
        verdict(&json!({"command": ["/$(DB_SERVICE_HOST)/run"]})),
        "NotSwappable CommandUnknown"
    );
    assert_eq!(
        expanded("$(A)", json!([{"name": "A", "value": ""}])),
        "NotSwappable CommandInvalid"
    );
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
    for context in [
        json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "p"}}),
        json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": "p"}}),
        json!({"seLinuxOptions": {"type": "own_t"}}),
    ] {
        assert_eq!(
            notes(&json!({"securityContext": context})),
            [Note::SecurityProfile],
            "{context}"
        );
        let pod = facts(&json!({}), &json!({"securityContext": context}));
        assert!(pod.notes().has(Note::SecurityProfile), "{context}");
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
        "NotSwappable RestartRuleOnSuccess",
        "what cannot be read"
    );
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
