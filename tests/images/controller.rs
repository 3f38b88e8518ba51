//! The image of the controller: the program of these tests, pushed by itself.

use std::collections::BTreeMap;
use std::io::Read;

use tempfile::TempDir;

use super::real::RealRegistry;
use super::{blob, client, manifest, push, push_exit, swaplet};

fn digest_in(line: &str) -> &str {
    line.split_whitespace()
        .find(|word| word.starts_with("sha256:"))
        .unwrap()
}

/// The names in the only layer, with the contents.
async fn files(reference: &str) -> BTreeMap<String, Vec<u8>> {
    let client = client();
    let (bytes, _) = manifest(&client, &format!("{reference}-{}", architecture()))
        .await
        .unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let layer = blob(
        &client,
        reference,
        manifest["layers"][0]["digest"].as_str().unwrap(),
    )
    .await;
    let mut archive = tar::Archive::new(layer.as_slice());
    let read = |entry: std::io::Result<tar::Entry<'_, &[u8]>>| {
        let mut entry = entry.unwrap();
        let mut contents = Vec::new();
        entry.read_to_end(&mut contents).unwrap();
        (entry.path().unwrap().display().to_string(), contents)
    };
    archive.entries().unwrap().map(read).collect()
}

fn architecture() -> &'static str {
    if cfg!(target_arch = "x86_64") {
        "amd64"
    } else {
        "arm64"
    }
}

#[tokio::test]
async fn the_controller_image_holds_this_program_and_is_always_the_same() {
    let Some(registry) = RealRegistry::start() else {
        return;
    };
    let folder = TempDir::new().unwrap();
    let certificates = folder.path().join("company.pem");
    let company = "-----BEGIN CERTIFICATE-----\nof the company\n-----END CERTIFICATE-----\n";
    std::fs::write(&certificates, company).unwrap();
    let reference = registry.reference("swaplet/controller:v1");
    let more = ["--ca-certificates", certificates.to_str().unwrap()];
    let pushed = push("image", &reference, &more).must_succeed();
    assert!(
        pushed.out.contains(&format!("pushed ({} ", architecture())),
        "{}",
        pushed.out
    );
    let again = push("image", &reference, &[&more[..], &["--dry-run"]].concat()).must_succeed();
    assert_eq!(digest_in(&again.out), digest_in(&pushed.out));

    let files = files(&reference).await;
    assert_eq!(
        files["etc/ssl/certs/ca-certificates.crt"],
        company.as_bytes()
    );
    assert!(
        files["swaplet/swaplet"] == std::fs::read(env!("CARGO_BIN_EXE_swaplet")).unwrap(),
        "another program"
    );

    push_exit(&reference).must_fail_with(&["holds the controller image of swaplet", "never share"]);
}

/// A program of each platform in one image, in the order of the platforms.
#[test]
fn programs_of_several_platforms_make_one_image() {
    let folder = TempDir::new().unwrap();
    let program = |platform: &str| {
        format!(
            "{}/quick-exit-image/bin/park-{platform}",
            env!("CARGO_MANIFEST_DIR")
        )
    };
    let (amd64, arm64) = (program("x86_64"), program("aarch64"));
    let packed = |programs: &[&str]| {
        let reference = [
            "image",
            "push",
            "registry.example/controller:v1",
            "--dry-run",
        ];
        let named = programs.iter().flat_map(|program| ["--program", program]);
        let arguments: Vec<_> = reference.into_iter().chain(named).collect();
        swaplet(folder.path(), &arguments)
    };
    let both = packed(&[&arm64, &amd64]).must_succeed().out;
    let platforms: Vec<_> = both.lines().skip(1).map(str::trim).collect();
    assert!(
        platforms.len() == 2
            && platforms[0].starts_with("amd64: ")
            && platforms[1].starts_with("arm64: "),
        "{both}"
    );
    assert_eq!(both, packed(&[&amd64, &arm64]).must_succeed().out);
    packed(&[&arm64, &arm64]).must_fail_with(&["two programs are for arm64"]);
}

#[test]
fn u51_certificates_that_are_not_there_or_none_are_an_error_that_names_the_file() {
    let folder = TempDir::new().unwrap();
    let push = |file: &str| {
        let args = [
            "image",
            "push",
            "registry.example/controller:v1",
            "--dry-run",
            "--ca-certificates",
            file,
        ];
        swaplet(folder.path(), &args)
    };
    push("/not/there.pem").must_fail_with(&["cannot read /not/there.pem"]);
    let der = folder.path().join("company.der");
    std::fs::write(&der, [0x30, 0x82, 0x01, 0x0a]).unwrap();
    push(der.to_str().unwrap()).must_fail_with(&["company.der: it holds no certificate in PEM"]);
}

#[test]
fn u63_a_program_of_the_folder_needs_no_slash() {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_swaplet"));
    let ran = std::process::Command::new(program)
        .current_dir(program.parent().unwrap())
        .args(["image", "push", "r.example/a:v1", "--dry-run", "--program"])
        .arg(program.file_name().unwrap())
        .output()
        .unwrap();
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}
