//! Scripts in ConfigMaps, which are read where they are in the input.

use super::push::push_for;
use super::{check, job, sidecar};

fn with_script() -> String {
    job(
        "script",
        &sidecar(
            "side",
            "command: [/scripts/run.sh], volumeMounts: [{name: scripts, mountPath: /scripts}]",
        ),
    )
    .replace(
        "{name: work, emptyDir: {}}",
        "{name: scripts, configMap: {name: scripts, defaultMode: 493}}",
    )
}

fn with_map(first_line: &str) -> String {
    format!(
        "{}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: scripts, namespace: batch}}\ndata:\n  run.sh: |\n    {first_line}\n    exec x\n",
        with_script()
    )
}

#[test]
fn a10_a_script_whose_config_map_is_there_is_read() {
    for (first_line, code, words) in [
        ("#!/bin/sh", 0, "/scripts/run.sh (script of /bin/sh)"),
        ("#!/usr/bin/env python3", 0, "(script of /usr/bin/env)"),
        (
            "#!/opt/python/bin/python3",
            1,
            "push an exit image that has /opt/python/bin/python3",
        ),
        ("#!/scripts/own", 1, "is on a volume"),
        (
            "echo hello",
            1,
            "the first line of /scripts/run.sh is not #!",
        ),
    ] {
        let ran = check(&with_map(first_line), &[]);
        assert!(
            ran.code == code && ran.flat().contains(words) && !ran.out.contains("assumed"),
            "{first_line}: {} {}",
            ran.code,
            ran.out
        );
    }
}

#[test]
fn a10_a_script_that_was_not_read_is_said_to_be_assumed() {
    let ran = check(&with_script(), &[]);
    assert!(
        ran.code == 0
            && ran.out.contains("/scripts/run.sh (assumed script)")
            && ran.flat().contains("note: /scripts/run.sh is assumed")
            && ran.flat().contains("ConfigMap scripts is not in the input"),
        "{}",
        ran.out
    );
    let other = with_map("#!/bin/sh").replace("run.sh: |", "other.sh: |");
    let ran = check(&other, &[]);
    assert!(
        ran.flat().contains("ConfigMap scripts has no text run.sh"),
        "{}",
        ran.out
    );
}

#[test]
fn a10_the_image_for_a_script_has_its_interpreter() {
    let ran = push_for(&with_map("#!/opt/python/bin/python3"), &[]);
    assert!(
        ran.out
            .contains("has besides the standard paths: /opt/python/bin/python3"),
        "{}{}",
        ran.out,
        ran.err
    );
}
