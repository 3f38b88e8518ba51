//! What a release consists of: what `deploy/release` says of it, and the chart.

mod archives;
mod workflows;

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

const PROGRAMS: [&str; 2] = ["swaplet", "swaplet-demo"];
/// The processors with their platforms.
const PLATFORMS: [(&str, &str); 2] = [("x86_64", "amd64"), ("aarch64", "arm64")];

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

/// A release of programs that were built before, for both platforms, where `cargo-deny` does as this
/// script says.
fn release(folder: &Path, to: &str, cargo_deny: &str, more: &[&str]) -> Output {
    let (built, tools) = (folder.join("built"), folder.join("tools"));
    for (processor, _) in PLATFORMS {
        let of_target = built.join(format!("{processor}-unknown-linux-gnu"));
        std::fs::create_dir_all(&of_target).unwrap();
        for program in PROGRAMS {
            std::fs::copy(stand_in(processor), of_target.join(program)).unwrap();
        }
    }
    std::fs::create_dir_all(&tools).unwrap();
    let deny = tools.join("cargo-deny");
    std::fs::write(&deny, format!("#!/bin/sh\n{cargo_deny}\n")).unwrap();
    std::fs::set_permissions(&deny, Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    Command::new("python3")
        .arg("deploy/release")
        .arg(folder.join(to))
        .arg("--programs")
        .arg(&built)
        .args(["--swaplet", env!("CARGO_BIN_EXE_swaplet")])
        .args(more)
        .env("PATH", path)
        .env("CARGO_NET_OFFLINE", "true")
        .current_dir(root())
        .output()
        .unwrap()
}

/// A small program for this processor.
fn stand_in(processor: &str) -> PathBuf {
    root().join(format!("quick-exit-image/bin/park-{processor}"))
}

fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(
                files(&entry.path())
                    .iter()
                    .map(|file| format!("{name}/{file}")),
            ),
            false => found.push(name),
        }
    }
    found
}

#[test]
fn nothing_is_released_with_an_advisory_and_where_none_could_be_looked_up_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let found = release(folder.path(), "none", r#"[ "$1" = fetch ]"#, &[]);
    assert!(!found.status.success() && !folder.path().join("none").exists());
    assert!(String::from_utf8_lossy(&found.stderr).contains("a dependency has an advisory"));

    let unknown = release(folder.path(), "some", r#"[ "$1" != fetch ]"#, &[]);
    assert!(unknown.status.success() && folder.path().join("some/SHA256SUMS").exists());
    let said = String::from_utf8_lossy(&unknown.stderr);
    assert!(said.contains("ADVISORIES WERE NOT LOOKED UP"), "{said}");
}

#[test]
fn a_release_lists_each_crate_of_its_programs_and_the_digest_of_each_file() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    for to in ["first", "second"] {
        let output = release(folder.path(), to, "exit 0", &[]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && !said.contains("ADVISORIES"),
            "{said}"
        );
    }
    for program in PROGRAMS {
        for (processor, platform) in PLATFORMS {
            lists_its_crates(&first, program, processor, platform);
        }
    }
    says_how_it_was_made(&first);
    for file in files(&first) {
        assert!(
            sha256(&first.join(&file)) == sha256(&second.join(&file)),
            "the same programs give the same files, and not {file}"
        );
    }
}

/// What the documents name of `deploy`, but for the chart.
fn manifests_of_the_documents() -> BTreeSet<String> {
    let mut texts = vec![std::fs::read_to_string(root().join("README.md")).unwrap()];
    for file in files(&root().join("docs")) {
        if file.ends_with(".md") {
            texts.push(std::fs::read_to_string(root().join("docs").join(file)).unwrap());
        }
    }
    let named: BTreeSet<String> = texts
        .iter()
        .flat_map(|text| text.match_indices("deploy/").map(|(at, _)| &text[at..]))
        .filter_map(|text| {
            let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "/-_.".contains(c)))?;
            Some(text[..end].trim_end_matches(['.', '/']).to_owned())
        })
        .filter(|path| root().join(path).exists())
        .filter(|path| {
            !["deploy/chart", "deploy/release"]
                .iter()
                .any(|not| path.starts_with(not))
        })
        .collect();
    assert!(
        named.contains("deploy/rbac.yaml") && named.contains("deploy/crds"),
        "{named:?}"
    );
    named
}

fn lists_its_crates(folder: &Path, program: &str, processor: &str, platform: &str) {
    let bom = read(folder, &format!("{program}-linux-{platform}.cdx.json"));
    let target = format!("{processor}-unknown-linux-gnu");
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
        "tree", "--locked", "-p", program, "-e", "normal", "--target", &target, "--prefix", "none",
        "--format", "{p}",
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
        [
            "kube-client",
            "rustls",
            "ring",
            "tokio",
            "swaplet-core",
            program
        ]
        .into_iter()
        .all(has),
        "{listed:?}"
    );
    assert!(
        !["proptest", "tempfile"].into_iter().any(has)
            && has("swaplet-testbed") == (program == "swaplet-demo"),
        "what tests need is not shipped"
    );
    have_their_checksums(components);
}

/// Those of a registry have the checksum of Cargo.lock, by which cargo has checked them.
fn have_their_checksums(components: &[Value]) {
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
}

fn says_how_it_was_made(folder: &Path) {
    let statement = read(folder, "provenance.json");
    let subjects = statement["subject"].as_array().unwrap();
    let named: BTreeSet<_> = subjects
        .iter()
        .map(|subject| subject["name"].as_str().unwrap())
        .collect();
    let handed_out = files(folder);
    assert_eq!(
        named,
        handed_out
            .iter()
            .map(String::as_str)
            .filter(|file| !["provenance.json", "SHA256SUMS"].contains(file))
            .collect(),
        "every file that is handed out"
    );
    for subject in subjects {
        assert_eq!(
            subject["digest"]["sha256"],
            sha256(&folder.join(subject["name"].as_str().unwrap())),
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
