//! What holds for every container.

use proptest::prelude::*;
use serde_json::{Value, json};
use swaplet::image::Kind;
use swaplet::image::build::derived_paths;
use swaplet_core::objects::command::{Executes, StandardPaths, Verdict, resolve};

use crate::command::facts;

const DIRECTORIES: [&str; 12] = [
    "/",
    "/bin",
    "/bin/sh",
    "/usr",
    "/usr/local/bin",
    "/app",
    "/app/bin",
    "/init",
    "/init/x",
    "/scripts",
    "/swaplet",
    "/dev",
];
const NAMES: [&str; 8] = ["sh", "envoy", "server", "init", "", "..", "$(X)", "$$(X)"];
const VOLUMES: [&str; 4] = ["data", "script", "host", "missing"];

fn path() -> impl Strategy<Value = String> {
    let form = prop_oneof![
        Just("{d}/{n}"),
        Just("{n}"),
        Just("./{n}"),
        Just("../{n}"),
        Just("{d}"),
        Just("{d}//./{n}"),
        Just("{n}/{n}")
    ];
    (
        form,
        prop::sample::select(&DIRECTORIES[..]),
        prop::sample::select(&NAMES[..]),
    )
        .prop_map(|(form, directory, name)| form.replace("{d}", directory).replace("{n}", name))
}

fn mount() -> impl Strategy<Value = Value> {
    let volume = prop::sample::select(&VOLUMES[..]);
    (volume, path(), any::<bool>())
        .prop_map(|(volume, path, sub)| json!({"name": volume, "mountPath": path, "subPath": if sub { "x" } else { "" }}))
}

fn env() -> impl Strategy<Value = Value> {
    let value = prop_oneof![
        path().prop_map(|value| json!({"value": value})),
        prop::collection::vec(path(), 0..3).prop_map(|paths| json!({"value": paths.join(":")})),
        Just(json!({"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})),
        Just(json!({})),
    ];
    (prop::sample::select(&["X", "PATH", "Y"][..]), value).prop_map(|(name, mut value)| {
        value["name"] = name.into();
        value
    })
}

fn container() -> impl Strategy<Value = Value> {
    let working_dir = prop_oneof![Just(Value::Null), path().prop_map(Value::from)];
    (prop::collection::vec(path(), 0..2), prop::collection::vec(env(), 0..3), prop::collection::vec(mount(), 0..3), working_dir).prop_map(
        |(command, env, mounts, working_dir)| json!({"command": command, "env": env, "volumeMounts": mounts, "workingDir": working_dir}),
    )
}

fn volumes() -> Value {
    json!({"volumes": [
        {"name": "data", "emptyDir": {}}, {"name": "script", "configMap": {"name": "s"}}, {"name": "host", "hostPath": {"path": "/x", "type": "File"}},
    ]})
}

fn is_at_or_below(path: &str, directory: &str) -> bool {
    let directory = directory.trim_end_matches('/');
    path == directory
        || path
            .strip_prefix(directory)
            .is_some_and(|rest| rest.starts_with('/'))
}

/// A mount path without the forms that have to be normalised first.
fn plain_mounts<'a>(container: &'a Value, volume: &str) -> Vec<&'a str> {
    let mounts = container["volumeMounts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|mount| mount["name"] == volume);
    let paths = mounts.map(|mount| mount["mountPath"].as_str().unwrap());
    paths
        .filter(|path| path.starts_with('/') && !path.contains("//") && !path.contains(".."))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_program_below_an_empty_dir_is_runnable(container in container()) {
        if let Verdict::Runnable { executes } = resolve(&facts(&container, &volumes()), &StandardPaths) {
            // A ConfigMap may be mounted below the emptyDir.
            if plain_mounts(&container, "script").is_empty() {
                for mount in plain_mounts(&container, "data") {
                    prop_assert!(!is_at_or_below(executes.path(), mount), "{executes} in {container}");
                }
            }
        }
    }

    #[test]
    fn a_derived_image_makes_what_needs_it_runnable(container in container()) {
        let facts = facts(&container, &volumes());
        if let Verdict::NeedsImage { paths, executes } = resolve(&facts, &StandardPaths) {
            // Of a script, only the interpreter is the image's.
            let program = match executes {
                Executes::Program(path) if path != Kind::Exit.program_path() => Some(path),
                Executes::Program(_) | Executes::Script(_) | Executes::ReadScript { .. } => None,
            };
            let image = derived_paths(paths.into_iter().chain(program));
            prop_assert!(image.is_ok(), "{image:?} of {container}");
            prop_assert!(matches!(resolve(&facts, &image.unwrap()), Verdict::Runnable { .. }), "{container}");
        }
    }

    #[test]
    fn any_json_has_a_verdict(text in "\\PC{0,12}", number in any::<i64>()) {
        let strange = [json!(text), json!(number), json!([text]), json!([[text]]), json!({"name": text}), json!([{"name": text, "value": number}]), Value::Null];
        for key in ["command", "env", "envFrom", "workingDir", "volumeMounts", "imagePullPolicy", "restartPolicyRules", "lifecycle", "securityContext"] {
            for value in &strange {
                let _ = resolve(&facts(&json!({key: value}), &json!({})), &StandardPaths);
            }
        }
    }
}
