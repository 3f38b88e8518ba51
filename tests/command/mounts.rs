//! Mounts beside and over the programs of the exit image. A runtime mounts no directory over a file
//! and none below one.

use serde_json::{Value, json};
use swaplet::image::build::derived_paths;

use crate::command::{facts, in_pod, words};

const VOLUMES: &str = r#"{"volumes": [
    {"name": "data", "emptyDir": {}}, {"name": "script", "configMap": {"name": "s"}}, {"name": "file", "hostPath": {"path": "/x", "type": "File"}},
    {"name": "directory", "hostPath": {"path": "/x", "type": "Directory"}}, {"name": "path", "hostPath": {"path": "/x"}}, {"name": "any", "hostPath": {"path": "/x", "type": ""}},
    {"name": "flat", "configMap": {"name": "s", "items": [{"key": "x", "path": "x"}]}}, {"name": "folders", "secret": {"secretName": "s", "items": [{"key": "x", "path": "dir/x"}]}},
    {"name": "all", "projected": {"sources": [{"configMap": {"name": "s"}}, {"secret": {"name": "s", "items": [{"key": "y", "path": "y"}]}}]}},
    {"name": "some", "projected": {"sources": [{"configMap": {"name": "s"}}, {"secret": {"name": "s", "items": [{"key": "y", "path": "dir/y"}]}}]}},
    {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "dir/token"}}]}}
]}"#;

fn volumes() -> Value {
    serde_json::from_str(VOLUMES).unwrap()
}

fn container(command: &[&str], mounts: &[(&str, &str, &str)]) -> Value {
    let mounts: Vec<Value> =
        mounts.iter().map(|(volume, path, sub_path)| json!({"name": volume, "mountPath": path, "subPath": sub_path})).collect();
    json!({"command": command, "volumeMounts": mounts})
}

fn verdict(command: &[&str], mounts: &[(&str, &str, &str)]) -> String {
    in_pod(&container(command, mounts), &volumes())
}

#[test]
fn a_directory_over_or_below_a_program_needs_another_image() {
    assert_eq!(
        verdict(&["/bin/sh"], &[("data", "/init", "")]),
        "NeedsImage /init/.swaplet"
    );
    assert_eq!(
        verdict(&["/bin/sh"], &[("data", "/init/scripts", "")]),
        "NeedsImage /init/scripts/.swaplet"
    );
    assert_eq!(
        verdict(&["/own"], &[("script", "/init", "")]),
        "NeedsImage /init/.swaplet,/own"
    );
    assert_eq!(
        verdict(&["/bin/sh"], &[("script", "/init/a.conf", "a.conf")]),
        "NeedsImage /init/.swaplet"
    );
}

/// runc makes it before it starts the program, and none where the image has a file.
#[test]
fn u190_a_working_directory_over_or_below_a_program_needs_another_image() {
    let verdict_in = |command: &[&str], working_dir: &str, mounts: &[(&str, &str, &str)]| {
        let mut container = container(command, mounts);
        container["workingDir"] = working_dir.into();
        in_pod(&container, &volumes())
    };
    for (working_dir, expected) in [
        ("/init", "NeedsImage /init/.swaplet"),
        ("//init/./", "NeedsImage /init/.swaplet"),
        ("/init/work", "NeedsImage /init/work/.swaplet"),
        ("/", "Runnable /bin/sh"),
        ("/usr/bin", "Runnable /bin/sh"),
        ("/srv/work", "Runnable /bin/sh"),
        ("/bin/sh/work", "NotSwappable MountOverProgram"),
    ] {
        let found = verdict_in(&["/bin/sh"], working_dir, &[]);
        assert_eq!(found, expected, "{working_dir}");
    }
    assert_eq!(
        verdict_in(&["/bin/sh"], "/init", &[("data", "/init", "")]),
        "NeedsImage /init/.swaplet",
        "for the volume"
    );
    assert_eq!(
        verdict_in(&["/bin/sh"], "/usr/bin/node", &[("data", "/usr/bin", "")]),
        "Runnable /bin/sh",
        "the volume has it, or the runtime makes it there"
    );
    assert_eq!(
        verdict_in(&["/init/run"], "/init", &[]),
        "NeedsImage /init/.swaplet,/init/run"
    );
}

/// A kubelet mounts a file there.
#[test]
fn u190_a_termination_message_below_a_program_needs_another_image() {
    for (path, expected) in [
        ("/init/ended.log", "NeedsImage /init/.swaplet"),
        ("/init", "Runnable /bin/sh"),
        ("/dev/termination-log", "Runnable /bin/sh"),
        ("/tmp/ended.log", "Runnable /bin/sh"),
        ("", "Runnable /bin/sh"),
        ("/bin/sh/ended.log", "NotSwappable MountOverProgram"),
    ] {
        let container = json!({"command": ["/bin/sh"], "terminationMessagePath": path});
        assert_eq!(in_pod(&container, &json!({})), expected, "{path}");
    }
}

#[test]
fn the_derived_image_has_a_directory_there() {
    let container = container(&["/bin/sh"], &[("data", "/init", "")]);
    let image = derived_paths(["/init/.swaplet"]).unwrap();
    assert!(!image.contains("/init"));
    let facts = facts(&container, &volumes());
    assert_eq!(
        words(&swaplet_core::objects::command::resolve(&facts, &image)),
        "Runnable /bin/sh"
    );
}

#[test]
fn a_file_over_a_program_is_mounted() {
    assert_eq!(
        verdict(
            &["/bin/sh"],
            &[("script", "/entrypoint.sh", "entrypoint.sh")]
        ),
        "Runnable /bin/sh"
    );
    assert_eq!(
        verdict(&["/bin/sh"], &[("file", "/entrypoint.sh", "")]),
        "Runnable /bin/sh"
    );
    assert_eq!(
        verdict(
            &["/entrypoint.sh"],
            &[("script", "/entrypoint.sh", "entrypoint.sh")]
        ),
        "Script /entrypoint.sh"
    );
    assert_eq!(
        verdict(&["/bin/sh"], &[("data", "/entrypoint.sh", "x")]),
        "NotSwappable MountOverProgram",
        "a file or a directory"
    );
}

/// A runtime mounts a file where the image has a file, and a folder where it has a folder.
#[test]
fn u195_what_may_be_a_file_or_a_folder_is_not_mounted_over_a_program() {
    let over = |volume, sub_path| verdict(&["/bin/sh"], &[(volume, "/entrypoint.sh", sub_path)]);
    for (volume, sub_path) in [("file", ""), ("flat", "x"), ("all", "y")] {
        assert_eq!(over(volume, sub_path), "Runnable /bin/sh", "{volume}");
    }
    let folder = "NeedsImage /entrypoint.sh/.swaplet";
    assert_eq!(over("directory", ""), folder);
    for (volume, sub_path) in [
        ("path", ""),
        ("any", ""),
        ("folders", "dir"),
        ("some", "dir"),
        ("token", "dir"),
    ] {
        let refused = "NotSwappable MountOverProgram";
        assert_eq!(over(volume, sub_path), refused, "{volume}");
    }
    assert_eq!(
        verdict(&["/bin/sh"], &[("path", "/init/x", "")]),
        "NeedsImage /init/.swaplet",
        "either may be mounted into a folder"
    );
}

#[test]
fn a_mount_below_what_is_executed_cannot_be() {
    assert_eq!(
        verdict(&["/opt/app"], &[("data", "/opt/app/data", "")]),
        "NotSwappable MountOverProgram"
    );
}

#[test]
fn a_mount_over_the_entrypoint_hides_it() {
    for path in ["/swaplet", "/swaplet/quick-exit", "/"] {
        assert_eq!(
            verdict(&[], &[("data", path, "")]),
            "NotSwappable MountOverProgram",
            "{path}"
        );
    }
    assert_eq!(
        verdict(&["/bin/sh"], &[("data", "/swaplet", "")]),
        "Runnable /bin/sh"
    );
    assert_eq!(
        verdict(&["/bin/sh"], &[("data", "/swaplet/quick-exit", "")]),
        "NotSwappable MountOverProgram"
    );
}

#[test]
fn the_innermost_mount_counts() {
    let script_in_data = [("data", "/app", ""), ("script", "/app/scripts", "")];
    assert_eq!(
        verdict(&["/app/scripts/run"], &script_in_data),
        "Script /app/scripts/run"
    );
    let data_in_script = [("script", "/app", ""), ("data", "/app/bin", "")];
    assert_eq!(
        verdict(&["/app/bin/run"], &data_in_script),
        "NotSwappable ProgramOnVolume"
    );
}

#[test]
fn a_program_below_another_mount_is_in_nobodys_way() {
    assert_eq!(
        verdict(
            &["/usr/bin/env"],
            &[
                ("data", "/usr/local/bin", ""),
                ("data", "/usr/local/bin/envoy", "")
            ]
        ),
        "Runnable /usr/bin/env"
    );
}

#[test]
fn a_hidden_interpreter_is_no_interpreter() {
    assert_eq!(
        verdict(
            &["/s/run"],
            &[("script", "/s", ""), ("data", "/usr/bin", "")]
        ),
        "NotSwappable ProgramOnVolume"
    );
}

#[test]
fn mount_paths_are_normalised() {
    assert_eq!(
        verdict(&["/work/run"], &[("data", "//work/./", "")]),
        "NotSwappable ProgramOnVolume"
    );
    assert_eq!(
        verdict(&["/work/run"], &[("data", "work", "")]),
        "NotSwappable ProgramOnVolume"
    );
}
