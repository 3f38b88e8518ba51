//! What a release consists of: what `deploy/release` says of it, and the chart.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn ran(command: &mut Command) -> String {
    let output = command
        .current_dir(root())
        .env("CARGO_NET_OFFLINE", "true")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn read(folder: &Path, file: &str) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join(file)).unwrap()).unwrap()
}

fn sha256(file: &Path) -> String {
    Sha256::digest(std::fs::read(file).unwrap())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[test]
fn a_release_lists_each_crate_of_the_program_and_the_digest_of_each_file() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("built");
    std::fs::write(&program, "the program").unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    for folder in [&first, &second] {
        ran(Command::new("python3")
            .arg("deploy/release")
            .arg(folder)
            .arg("--program")
            .arg(&program));
    }

    let bom = read(&first, "sbom.cdx.json");
    let components = bom["components"].as_array().unwrap();
    let name = |of: &Value| {
        format!(
            "{} v{}",
            of["name"].as_str().unwrap(),
            of["version"].as_str().unwrap()
        )
    };
    let listed: BTreeSet<String> = components
        .iter()
        .chain([&bom["metadata"]["component"]])
        .map(name)
        .collect();
    let tree = ran(Command::new(env!("CARGO")).args([
        "tree", "--locked", "-p", "swaplet", "-e", "normal", "--prefix", "none", "--format", "{p}",
    ]));
    let is_line = |line: &&str| !line.is_empty();
    let shipped: BTreeSet<String> = tree
        .lines()
        .filter(is_line)
        .map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(listed, shipped, "the crates of the program, and no others");
    let has = |crate_name: &str| {
        listed
            .iter()
            .any(|listed| listed.starts_with(&format!("{crate_name} v")))
    };
    assert!(
        ["kube-client", "rustls", "ring", "tokio", "swaplet-core"]
            .into_iter()
            .all(has),
        "{listed:?}"
    );
    assert!(
        !["proptest", "tempfile", "swaplet-testbed"]
            .into_iter()
            .any(has),
        "what tests need is not shipped"
    );

    // Those of a registry have the checksum of Cargo.lock, by which cargo has checked them.
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let of_registry = |name: &str, version: &str| {
        let entry = lock.split("[[package]]").find(|entry| {
            entry.contains(&format!("\nname = \"{name}\"\nversion = \"{version}\"\n"))
        });
        entry.unwrap().lines().find_map(|line| {
            Some(
                line.strip_prefix("checksum = \"")?
                    .trim_end_matches('"')
                    .to_owned(),
            )
        })
    };
    for component in components {
        let checksum = of_registry(
            component["name"].as_str().unwrap(),
            component["version"].as_str().unwrap(),
        );
        assert_eq!(
            component["hashes"][0]["content"].as_str(),
            checksum.as_deref(),
            "{component}"
        );
    }

    let statement = read(&first, "provenance.json");
    let subjects = statement["subject"].as_array().unwrap();
    let named: BTreeSet<_> = subjects
        .iter()
        .map(|subject| subject["name"].as_str().unwrap())
        .collect();
    let files: BTreeSet<_> = std::fs::read_dir(&first)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(
        named,
        files
            .iter()
            .map(String::as_str)
            .filter(|file| *file != "provenance.json")
            .collect(),
        "every file that is handed out"
    );
    for subject in subjects {
        assert_eq!(
            subject["digest"]["sha256"],
            sha256(&first.join(subject["name"].as_str().unwrap())),
            "{subject}"
        );
    }
    let sources = &statement["predicate"]["buildDefinition"]["resolvedDependencies"];
    let of = |uri: &str| {
        sources
            .as_array()
            .unwrap()
            .iter()
            .find(|source| source["uri"] == uri)
            .unwrap()["digest"]
            .clone()
    };
    assert_eq!(
        of("Cargo.lock")["sha256"],
        sha256(&root().join("Cargo.lock"))
    );
    assert_eq!(
        of("git")["gitCommit"],
        ran(Command::new("git").args(["rev-parse", "HEAD"])).trim()
    );

    for file in ["sbom.cdx.json", "provenance.json"] {
        assert_eq!(
            read(&first, file),
            read(&second, file),
            "the same sources give the same documents"
        );
    }
}

/// A copy of such a file would go its own way, and one that says only where it leads is no
/// manifest.
#[test]
fn the_files_of_the_chart_are_links_to_what_is_applied_without_it() {
    let folder = root().join("deploy/chart/files");
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let leads_to =
            std::fs::read_link(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(
            leads_to.starts_with("../.."),
            "{}: {}",
            path.display(),
            leads_to.display()
        );
        assert!(path.canonicalize().unwrap().is_file());
    }
}
