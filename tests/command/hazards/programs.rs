//! Which program would run: paths, PATH, shells, volumes, references.

use serde_json::{Value, json};
use swaplet_core::objects::command::resolve;

use super::ENTRYPOINT;
use crate::command::{command, facts, in_pod, verdict, words};

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
