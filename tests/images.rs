//! Images, pushed by the real binary to a real registry, and to a fake one for everything that goes
//! wrong.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a step of a test that fails is a panic"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use oci_distribution::Reference;
use oci_distribution::client::{Client, ClientConfig, ClientProtocol, Config, ImageLayer};
use oci_distribution::secrets::RegistryAuth;
use swaplet::image::build::{Blob, build_standard, media_type};
use swaplet::image::{BuiltImage, Kind};
use tempfile::TempDir;
use tokio::time::Instant;

mod controller;
mod credentials;
mod derive;
mod digests;
mod fake;
mod guards;
mod lost;
mod park_exit;
mod public;
pub(crate) mod real;
mod troubles;

use fake::{Answer, FakeRegistry};
use real::RealRegistry;

struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    fn must_succeed(self) -> Self {
        assert_eq!(self.code, 0, "{}", self.err);
        self
    }

    fn must_fail_with(self, words: &[&str]) -> Self {
        assert_eq!(self.code, 1, "{}", self.out);
        assert_eq!(self.out, "");
        for word in words {
            assert!(self.err.contains(word), "{word:?} is not in {}", self.err);
        }
        self
    }
}

fn swaplet(docker_config: &Path, args: &[&str]) -> Ran {
    swaplet_with(&[], docker_config, args)
}

/// Runs the program with these variables besides.
fn swaplet_with(variables: &[(&str, &str)], docker_config: &Path, args: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_swaplet"));
    for proxy in [
        "http_proxy",
        "https_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "all_proxy",
    ] {
        command.env_remove(proxy);
    }
    command
        .env("DOCKER_CONFIG", docker_config)
        .envs(variables.iter().copied())
        .args(args)
        .output()
        .unwrap()
        .into()
}

fn push(kind: &str, reference: &str, more: &[&str]) -> Ran {
    let no_credentials = TempDir::new().unwrap();
    swaplet(
        no_credentials.path(),
        &[&[kind, "push", reference], more].concat(),
    )
}

fn push_exit(reference: &str) -> Ran {
    push("exit-image", reference, &[])
}

fn push_park(reference: &str) -> Ran {
    push("park-image", reference, &[])
}

/// A client that shares nothing with swaplet's own.
fn client() -> Client {
    swaplet::image::registry::install_crypto();
    Client::try_from(ClientConfig {
        protocol: ClientProtocol::Http,
        ..ClientConfig::default()
    })
    .unwrap()
}

async fn manifest(client: &Client, reference: &str) -> Option<(Vec<u8>, String)> {
    let reference: Reference = reference.parse().unwrap();
    let accepted = [media_type::INDEX, media_type::MANIFEST];
    let pulled = client
        .pull_manifest_raw(&reference, &RegistryAuth::Anonymous, &accepted)
        .await
        .ok()?;
    Some((pulled.0.to_vec(), pulled.1))
}

async fn blob(client: &Client, reference: &str, digest: &str) -> Vec<u8> {
    let reference: Reference = reference.parse().unwrap();
    let layer = oci_distribution::client::LayerDescriptor {
        digest,
        urls: &None,
    };
    let mut bytes = Vec::new();
    client
        .store_auth_if_needed(reference.resolve_registry(), &RegistryAuth::Anonymous)
        .await;
    client
        .pull_blob(&reference, &layer, &mut bytes)
        .await
        .unwrap();
    bytes
}

async fn push_foreign(client: &Client, reference: &str) {
    let reference: Reference = reference.parse().unwrap();
    let layers = [ImageLayer::oci_v1(b"somebody's application".to_vec(), None)];
    let config =
        Config::oci_v1(br#"{"architecture":"amd64","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":[]}}"#.to_vec(), None);
    client
        .push(&reference, &layers, config, &RegistryAuth::Anonymous, None)
        .await
        .unwrap();
}

async fn assert_holds(client: &Client, reference: &str, image: &BuiltImage) {
    let (index, digest) = manifest(client, reference).await.unwrap();
    assert_eq!(
        (index, digest.as_str()),
        (image.index.bytes.clone(), image.digest())
    );
    for platform in &image.platforms {
        let (bytes, _) = manifest(client, &format!("{reference}-{}", platform.platform))
            .await
            .unwrap();
        assert_eq!(bytes, platform.manifest.bytes);
        let same = async |expected: &Blob| {
            assert_eq!(
                blob(client, reference, &expected.digest).await,
                expected.bytes
            )
        };
        same(&platform.config).await;
        same(&platform.layer).await;
    }
}

#[tokio::test]
async fn what_is_pushed_is_what_was_built_and_the_second_push_changes_nothing() {
    let Some(registry) = RealRegistry::start() else {
        return;
    };
    let client = client();
    for (kind, command) in [(Kind::Exit, "exit-image"), (Kind::Park, "park-image")] {
        let reference = registry.reference(&format!("swaplet/{kind}:v1"));
        let image = build_standard(kind).unwrap();
        let start = Instant::now();
        let first = push(command, &reference, &[]).must_succeed();
        println!(
            "{kind}: pushed in {} ms: {}",
            start.elapsed().as_millis(),
            first.out
        );
        assert!(
            first
                .out
                .starts_with(&format!("{reference}  {}  pushed (amd64 ", image.digest())),
            "{}",
            first.out
        );
        assert_holds(&client, &reference, &image).await;
        let second = push(command, &reference, &[]).must_succeed();
        assert_eq!(second.out, first.out.replace("pushed", "unchanged"));
        let elsewhere = push(
            command,
            &registry.reference(&format!("elsewhere/{kind}:v2")),
            &[],
        )
        .must_succeed();
        assert!(elsewhere.out.contains(image.digest()));
    }
}

#[tokio::test]
async fn the_two_kinds_never_share_a_reference() {
    let Some(registry) = RealRegistry::start() else {
        return;
    };
    let client = client();
    let (exit, park) = (
        registry.reference("swaplet/exit:v1"),
        registry.reference("swaplet/park:v1"),
    );
    push_exit(&exit).must_succeed();
    push_park(&park).must_succeed();
    for more in [&[][..], &["--force"]] {
        push("park-image", &exit, more).must_fail_with(&[
            "holds the exit image",
            "never share",
            "another repository",
        ]);
        push("exit-image", &park, more).must_fail_with(&["holds the park image", "never share"]);
    }
    assert_holds(&client, &exit, &build_standard(Kind::Exit).unwrap()).await;
    assert_holds(&client, &park, &build_standard(Kind::Park).unwrap()).await;
}

#[tokio::test]
async fn a_foreign_image_is_only_overwritten_by_force() {
    let Some(registry) = RealRegistry::start() else {
        return;
    };
    let client = client();
    let reference = registry.reference("team/application:latest");
    push_foreign(&client, &reference).await;
    let before = manifest(&client, &reference).await;
    push_exit(&reference).must_fail_with(&["swaplet did not make", "--force"]);
    assert_eq!(manifest(&client, &reference).await, before);
    push("exit-image", &reference, &["--force"]).must_succeed();
    assert_holds(&client, &reference, &build_standard(Kind::Exit).unwrap()).await;
}

#[tokio::test]
async fn the_tags_of_the_platforms_are_guarded_too() {
    let Some(registry) = RealRegistry::start() else {
        return;
    };
    let client = client();
    let reference = registry.reference("team/application:v1");
    push_foreign(&client, &format!("{reference}-amd64")).await;
    push_exit(&reference)
        .must_fail_with(&["application:v1-amd64 holds an image that swaplet did not make"]);
    assert_eq!(manifest(&client, &reference).await, None);
}

#[tokio::test]
async fn a_dry_run_writes_nothing() {
    let Some(registry) = RealRegistry::start() else {
        return;
    };
    let client = client();
    let reference = registry.reference("swaplet/exit:v1");
    let ran = push("exit-image", &reference, &["--dry-run"]).must_succeed();
    assert!(
        ran.out
            .contains(build_standard(Kind::Exit).unwrap().digest())
            && ran.out.contains("dry run"),
        "{}",
        ran.out
    );
    assert_eq!(manifest(&client, &reference).await, None);
}

#[test]
fn a_dry_run_asks_nobody() {
    let registry = FakeRegistry::start(|_, _| Answer::status(500));
    push(
        "exit-image",
        &format!("{}/a:v1", registry.host),
        &["--dry-run"],
    )
    .must_succeed();
    assert!(registry.seen().is_empty());
}

#[test]
fn a_reference_pinned_to_another_digest_is_refused() {
    let pinned = format!("127.0.0.1:1/a:v1@sha256:{}", "a".repeat(64));
    push_exit(&pinned).must_fail_with(&["pinned", build_standard(Kind::Exit).unwrap().digest()]);
}

fn docker_config(contents: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("config.json"), contents).unwrap();
    folder
}

/// Pushes the exit image to a registry for which the docker configuration has a password.
fn push_with_password(registry: &FakeRegistry) -> Ran {
    let config = docker_config(&format!(
        r#"{{"auths": {{"{}": {{"auth": "dTpw"}}}}}}"#,
        registry.host
    ));
    let reference = format!("{}/a:v1", registry.host);
    swaplet(config.path(), &["exit-image", "push", &reference])
}

#[test]
fn an_export_is_the_same_image_as_a_folder_and_as_a_file() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    for target in ["layout", "image.tar"] {
        let ran = swaplet(
            folder.path(),
            &["exit-image", "export", "r.example/exit:v1", &path(target)],
        )
        .must_succeed();
        assert!(
            ran.out
                .contains(build_standard(Kind::Exit).unwrap().digest())
        );
    }
    let mut archive = tar::Archive::new(fs::File::open(path("image.tar")).unwrap());
    archive.unpack(path("unpacked")).unwrap();
    let image = build_standard(Kind::Exit).unwrap();
    for file in [
        "index.json".to_owned(),
        "manifest.json".to_owned(),
        format!("blobs/{}", image.digest().replace(':', "/")),
    ] {
        assert_eq!(
            fs::read(path(&format!("layout/{file}"))).unwrap(),
            fs::read(path(&format!("unpacked/{file}"))).unwrap()
        );
    }
    swaplet(
        folder.path(),
        &[
            "park-image",
            "export",
            "r.example/park:v1",
            "/nonexistent/park.tar",
        ],
    )
    .must_fail_with(&["cannot write /nonexistent"]);
}
