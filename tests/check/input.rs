//! What is read: folders, several files, nothing, what is broken, and a wrong command line.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;
use tempfile::TempDir;

use super::{check, good, job, swaplet, unknown, verdicts, write};

#[test]
fn folders_are_read_with_all_that_is_in_them() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), "a.yaml", &good());
    write(folder.path(), "deeper/b.yml", &unknown());
    write(folder.path(), "c.json", "{\"kind\": \"ConfigMap\"}");
    write(folder.path(), ".hidden/d.yaml", "{{ not yaml");
    write(folder.path(), "notes.txt", "{{ not yaml");
    let ran = swaplet(&["check", "-f", folder.path().to_str().unwrap(), "-o", "json"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(verdicts(&report), ["Runnable", "NeedsImage"]);
    assert!(
        report["sidecars"][1]["file"]
            .as_str()
            .unwrap()
            .ends_with("deeper/b.yml")
    );
}

#[test]
fn what_cannot_be_read_of_a_folder_is_said_and_the_rest_is_read() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("a.yaml"), b"\xff").unwrap();
    write(folder.path(), "b.yaml", &good());
    symlink("nowhere", folder.path().join("c.yaml")).unwrap();
    write(folder.path(), "deeper/d.yaml", &unknown());
    let ran = swaplet(&["check", folder.path().to_str().unwrap(), "-o", "json"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(verdicts(&report), ["Runnable", "NeedsImage"]);
    let problems = report["problems"].as_array().unwrap();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(
        ran.err.contains("a.yaml: not UTF-8 text") && ran.err.contains("c.yaml: No such file"),
        "{}",
        ran.err
    );
}

#[test]
fn several_files_follow_one_flag_as_pre_commit_passes_them() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), "a.yaml", &good());
    write(folder.path(), "b.yaml", &good());
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let ran = swaplet(&["check", "-f", &file("a.yaml"), &file("b.yaml")]);
    assert_eq!((ran.code, ran.out.lines().count()), (0, 4), "{}", ran.err);
    assert!(ran.out.contains("FILE"), "which of them is what one needs");
}

#[test]
fn what_cannot_be_read_is_exit_code_2_and_the_rest_is_still_shown() {
    let ran = check(&format!("{}---\nkind: Job\nspec: [\n", good()), &[]);
    assert_eq!(ran.code, 2);
    assert!(ran.out.contains("Job/good"), "{}", ran.out);
    assert!(ran.err.contains("-: document 2, line "), "{}", ran.err);
    let missing = swaplet(&["check", "-f", "/does/not/exist.yaml"]);
    assert_eq!(missing.code, 2);
    assert!(
        missing.err.contains("/does/not/exist.yaml: No such file"),
        "{}",
        missing.err
    );
    assert!(
        check("spec:\n  {{- toYaml . }}\n", &[])
            .err
            .contains("helm template")
    );
}

#[test]
fn nothing_to_check_is_said() {
    let ran = check("kind: Service\n", &[]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""));
    assert!(
        ran.err.contains("No pod and no pod template"),
        "{}",
        ran.err
    );
    let ran = check(&job("plain", ""), &[]);
    assert!(
        ran.code == 0 && ran.err.contains("No sidecar in 1 pod template;"),
        "{}",
        ran.err
    );
}

#[test]
fn wrong_usage_is_exit_code_2() {
    let ran = swaplet(&["check"]);
    assert!(
        ran.code == 2 && ran.err.contains("FILE") && ran.err.contains("--live"),
        "{}",
        ran.err
    );
    assert_eq!(swaplet(&["check", "-A", "x"]).code, 2, "-A is for --live");
}

#[test]
fn no_cluster_is_exit_code_2() {
    let ran = swaplet(&["check", "--live", "--kubeconfig", "/does/not/exist"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err
            .contains("--kubeconfig /does/not/exist: No such file"),
        "{}",
        ran.err
    );
}
