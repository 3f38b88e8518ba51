//! What `docs/parity.md` says is tested, is.

use std::fs;
use std::path::{Path, PathBuf};

/// What OpenKruise tests of its SidecarTerminator, its requests, its jobs, its deletion protection and its hot
/// upgrades.
const IDS: [&str; 85] = [
    "ST-u1",
    "ST-u2",
    "ST-u3",
    "ST-u4",
    "ST-u5",
    "ST-u6",
    "ST-u7",
    "ST-u8",
    "ST-u9",
    "ST-u10",
    "ST-u11",
    "ST-u12",
    "ST-u13",
    "ST-v1",
    "ST-v2",
    "ST-v3",
    "ST-v4",
    "ST-v5",
    "ST-v6",
    "ST-v7",
    "ST-v8",
    "ST-v9",
    "CRR-e1",
    "CRR-e1b",
    "CRR-e2",
    "CRR-e2b",
    "CRR-e3",
    "CRR-e3b",
    "CRR-e3c",
    "CRR-e4",
    "CRR-e4b",
    "CRR-b1",
    "CRR-b2",
    "CRR-b3",
    "CRR-b4",
    "CRR-b5",
    "SnapshotEqual",
    "HasPreRecreateGraceCondition",
    "SyncContainerStatuses",
    "WaitRecreateGracePeriod",
    "PodReadiness",
    "Create_Valid",
    "Create_EmptyPodName",
    "Create_EmptyContainers",
    "Create_DeadlineTooShort",
    "Create_PodNotFound",
    "Update_SpecImmutable",
    "Update_ImmutableLabel",
    "FeatureGateDisabled",
    "VirtualKubeletLabel",
    "IPJ-e1",
    "IPJ-e2",
    "IPJ-e3",
    "IPJ-e4",
    "IPJ-e5",
    "IPJ-e6",
    "IPJ-e7",
    "ILP-e1",
    "ILP-e2",
    "ILP-e3",
    "ILP-e4",
    "AllNodesSucceeded",
    "NodesInDifferentStates",
    "InvalidImage",
    "ActiveDeadline",
    "AddImage",
    "DeleteImage",
    "ChangeTemplate",
    "Parallelism",
    "PullSecretsImmutability",
    "JustPatched",
    "Completed",
    "Reconcile",
    "NormalizeImageRef",
    "ParseRepositoryTag",
    "ContainsImage",
    "DP-e1",
    "DP-e2",
    "DP-e3",
    "DP-e4",
    "DP-e5",
    "DP-e6",
    "HU-e1",
    "HU-e2",
    "HU-e3",
];

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Everything of the sources that is written in Rust.
fn sources() -> String {
    let mut folders: Vec<PathBuf> = ["src", "tests", "e2e"]
        .map(|folder| repository().join(folder))
        .to_vec();
    let mut text = String::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text.push_str(&fs::read_to_string(path).unwrap());
            }
        }
    }
    text
}

#[test]
fn every_row_of_the_parity_table_names_a_test_that_is_there() {
    let document = fs::read_to_string(repository().join("docs/parity.md")).unwrap();
    // What follows is how OpenKruise's own tests ended (tests/docs/suite.rs).
    let table = document
        .split("\n## OpenKruise's own tests\n")
        .next()
        .unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("| "))
        .map(|line| line.split(" | ").collect())
        .collect();
    // Tests in modules of modules are indented.
    let sources = sources()
        .lines()
        .map(str::trim_start)
        .collect::<Vec<_>>()
        .join("\n");
    let mut names = 0;
    for row in rows.iter().filter(|row| row[1].starts_with('`')) {
        let test = row[1].trim_matches('`');
        let is_test = |attribute: &str| {
            sources.contains(&format!("{attribute}\nfn {test}("))
                || sources.contains(&format!("{attribute}\nasync fn {test}("))
        };
        let is_test = is_test("#[test]")
            || is_test("#[tokio::test]")
            || is_test("#[tokio::test(start_paused = true)]")
            || is_test("#[tokio::test(flavor = \"multi_thread\")]");
        assert!(is_test, "there is no test {test}, for {}", row[0]);
        names += 1;
    }
    let heads = rows.iter().filter(|row| row[0] == "| OpenKruise").count();
    assert_eq!(
        names,
        rows.len() - heads,
        "each row but the heads names one"
    );
    for id in IDS {
        let is_it = |word: &str| word.trim_matches(|mark: char| !mark.is_alphanumeric()) == id;
        assert!(
            rows.iter().any(|row| row[0].split(' ').any(is_it)),
            "{id} has no row"
        );
    }
}

/// What the table says of v1beta1 is what is shipped.
#[test]
fn b8_crr_b1_to_b5_do_not_apply_for_only_v1alpha1_is_served() {
    let crd = fs::read_to_string(repository().join("deploy/crds/containerrecreaterequests.yaml"))
        .unwrap();
    let versions: Vec<_> = crd
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- name: "))
        .collect();
    assert_eq!(versions, ["v1alpha1"]);
    assert!(!crd.contains("conversion:"));
}
