//! The files that users download: the archives of the programs, the images, the manifest for krew.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{PLATFORMS, manifests_of_the_documents, ran, release, root, sha256, stand_in};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const URL: &str = "https://example.com/v1";

/// The contents of a tar archive, which may be compressed.
fn unpacked(archive: &Path) -> BTreeMap<String, Vec<u8>> {
    let names = ran(Command::new("tar").args(["--list", "--file"]).arg(archive));
    let folder = tempfile::tempdir().unwrap();
    ran(Command::new("tar")
        .args(["--extract", "--file"])
        .arg(archive)
        .arg("--directory")
        .arg(folder.path()));
    let contents = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    names
        .lines()
        .map(|name| (name.to_owned(), contents(name)))
        .collect()
}

/// The manifest for krew, for each platform its values.
fn platforms_of_krew(folder: &Path) -> BTreeMap<String, Value> {
    let text = std::fs::read_to_string(folder.join("krew.yaml")).unwrap();
    assert!(!text.contains("{{"), "{text}");
    let manifest: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(manifest["spec"]["version"], format!("v{VERSION}"));
    assert_eq!(manifest["spec"]["homepage"], "https://example.com");
    let platforms = manifest["spec"]["platforms"].as_array().unwrap().iter();
    let named = |platform: &Value| {
        let labels = &platform["selector"]["matchLabels"];
        assert_eq!(labels["os"], "linux");
        (
            labels["arch"].as_str().unwrap().to_owned(),
            platform.clone(),
        )
    };
    platforms.map(named).collect()
}

#[test]
fn the_archives_have_what_krew_and_the_documents_name() {
    let folder = tempfile::tempdir().unwrap();
    let more = ["--url", URL, "--homepage", "https://example.com"];
    let output = release(folder.path(), "made", "exit 0", &more);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let made = folder.path().join("made");
    let platforms = platforms_of_krew(&made);
    assert_eq!(platforms.len(), PLATFORMS.len());
    for (processor, platform) in PLATFORMS {
        let of_krew = &platforms[platform];
        let file = of_krew["uri"].as_str().unwrap().strip_prefix(URL).unwrap();
        let archive = made.join(file.trim_start_matches('/'));
        assert_eq!(of_krew["sha256"], sha256(&archive));
        let contents = unpacked(&archive);
        for wanted in of_krew["files"].as_array().unwrap() {
            let name = wanted["from"].as_str().unwrap();
            assert!(contents.contains_key(name), "{file} has no {name}");
        }
        assert!(
            contents[of_krew["bin"].as_str().unwrap()]
                == std::fs::read(stand_in(processor)).unwrap()
        );
        has_the_manifests_of_the_documents(&contents);
    }
    ran(Command::new("sh").arg("-c").arg(format!(
        "cd {} && sha256sum --check --strict SHA256SUMS",
        made.display()
    )));
    the_controller_image_is_for_both(&made);
}

fn has_the_manifests_of_the_documents(contents: &BTreeMap<String, Vec<u8>>) {
    let is_there = |path: &String| {
        contents.contains_key(path)
            || contents
                .keys()
                .any(|name| name.starts_with(&format!("{path}/")))
    };
    let missing: Vec<_> = manifests_of_the_documents()
        .into_iter()
        .filter(|path| !is_there(path))
        .collect();
    assert!(missing.is_empty(), "users are told to apply {missing:?}");
}

fn the_controller_image_is_for_both(made: &Path) {
    let name = format!("swaplet-v{VERSION}-image-controller.tar");
    let files = unpacked(&made.join(name));
    let parsed = |name: &str| serde_json::from_slice::<Value>(&files[name]).unwrap();
    let digest = parsed("index.json")["manifests"][0]["digest"]
        .as_str()
        .unwrap()
        .replace(':', "/");
    let index = parsed(&format!("blobs/{digest}"));
    let platforms = index["manifests"].as_array().unwrap().iter();
    let architectures: BTreeSet<_> = platforms
        .map(|entry| entry["platform"]["architecture"].as_str().unwrap())
        .collect();
    assert_eq!(
        architectures,
        PLATFORMS.map(|(_, platform)| platform).into()
    );
}

/// As Helm packages it: a folder of the name of the chart, in which no file is a link.
#[test]
fn the_chart_of_a_release_has_each_file_with_its_contents() {
    let folder = tempfile::tempdir().unwrap();
    assert!(
        release(folder.path(), "made", "exit 0", &[])
            .status
            .success()
    );
    let packed = unpacked(&folder.path().join(format!("made/swaplet-{VERSION}.tgz")));
    let chart = root().join("deploy/chart");
    for (name, contents) in &packed {
        let source = chart.join(name.strip_prefix("swaplet/").unwrap());
        assert!(&std::fs::read(source).unwrap() == contents, "{name}");
    }
    for name in [
        "Chart.yaml",
        "values.yaml",
        "templates/deployment.yaml",
        "files/leash.yaml",
    ] {
        assert!(packed.contains_key(&format!("swaplet/{name}")), "{name}");
    }
}

#[test]
fn nothing_is_made_that_would_be_of_another_version_or_among_other_files() {
    let folder = tempfile::tempdir().unwrap();
    let tag = release(folder.path(), "made", "exit 0", &["--tag", "v99.0.0"]);
    assert!(!tag.status.success() && !folder.path().join("made").exists());
    let homepage = release(folder.path(), "made", "exit 0", &["--url", URL]);
    assert!(String::from_utf8_lossy(&homepage.stderr).contains("--homepage"));
    std::fs::create_dir(folder.path().join("made")).unwrap();
    std::fs::write(folder.path().join("made/old"), "").unwrap();
    let tag = format!("v{VERSION}");
    let full = release(folder.path(), "made", "exit 0", &["--tag", &tag]);
    assert!(String::from_utf8_lossy(&full.stderr).contains("is not empty"));
}
