//! What the controller pushes: the image that `exit-image push` would push, once.

use std::collections::BTreeSet;
use std::sync::Mutex;

use swaplet::image::build::build_derived;
use swaplet::image::docker_config::Credentials;
use swaplet::image::for_controller::push_derived;
use swaplet::image::registry::RegistryOptions;
use swaplet::image::{ImageReference, Kind};
use swaplet_controller::terminate::derive::Pushed;

use crate::images::fake::{Answer, FakeRegistry};
use crate::images::real::RealRegistry;
use crate::images::{client, manifest, push};

const OWN: &str = "/opt/own/server";

async fn derive(repository: &str) -> Pushed {
    let repository = ImageReference::parse(repository).unwrap();
    let options = RegistryOptions {
        pauses: Vec::new(),
        ..RegistryOptions::default()
    };
    push_derived(
        &repository,
        Ok(Credentials::Anonymous),
        options,
        &[OWN.to_owned()],
    )
    .await
}

#[tokio::test]
async fn an_image_is_there_by_its_digest_after_the_push() {
    let Some(registry) = RealRegistry::start() else {
        return;
    };
    let repository = registry.reference("swaplet/derived");
    let image = build_derived(Kind::Exit, [OWN]).unwrap();
    let expected = format!("{repository}@{}", image.digest());
    for _ in 0..2 {
        assert_eq!(*derive(&repository).await.unwrap(), expected);
    }
    assert_eq!(
        manifest(&client(), &expected).await,
        Some((
            image.index.bytes,
            expected.split_once('@').unwrap().1.to_owned()
        ))
    );
}

/// Under any tag: an administrator pushes what the controller may not.
#[tokio::test]
async fn an_image_that_an_administrator_has_pushed_is_found() {
    let Some(registry) = RealRegistry::start() else {
        return;
    };
    let repository = registry.reference("swaplet/derived");
    push(
        "exit-image",
        &format!("{repository}:mine"),
        &["--path", OWN],
    )
    .must_succeed();
    let digest = build_derived(Kind::Exit, [OWN])
        .unwrap()
        .digest()
        .to_owned();
    assert_eq!(
        *derive(&repository).await.unwrap(),
        format!("{repository}@{digest}")
    );
    assert!(
        manifest(
            &client(),
            &format!("{repository}:{}", &digest["sha256:".len()..][..16])
        )
        .await
        .is_none(),
        "nothing was pushed"
    );
}

#[tokio::test]
async fn what_is_there_is_not_written_again() {
    let registry = FakeRegistry::start(|request, _| {
        let digest = request.path.rsplit('/').next().unwrap_or_default();
        Answer::status(200).header("docker-content-digest", digest)
    });
    derive(&format!("{}/derived", registry.host)).await.unwrap();
    let asked: Vec<_> = registry
        .seen()
        .into_iter()
        .map(|request| request.method)
        .collect();
    assert_eq!(
        asked,
        ["GET", "HEAD", "HEAD", "HEAD"],
        "the login, the index and its two platforms"
    );
}

/// On nodes of that platform it could not be pulled, and a swap to it could fail a Job.
#[tokio::test]
async fn an_image_that_has_lost_a_platform_is_pushed_again() {
    let image = build_derived(Kind::Exit, [OWN]).unwrap();
    let index = image.digest().to_owned();
    let platforms: Vec<_> = image
        .platforms
        .iter()
        .map(|each| (format!("-{}", each.platform), each.manifest.digest.clone()))
        .collect();
    let lost = platforms[1].1.clone();
    let pushed = Mutex::new(BTreeSet::new());
    let registry = FakeRegistry::start(move |request, _| {
        let at = request.path.rsplit('/').next().unwrap_or_default();
        let is_there = request.path.contains("/manifests/sha256:") && *at != *lost;
        let mut pushed = pushed.lock().unwrap();
        match &*request.method {
            "HEAD" if is_there => Answer::status(200).header("docker-content-digest", at),
            "HEAD" if pushed.contains(&request.path) => {
                let of = platforms.iter().find(|(end, _)| at.ends_with(end));
                let digest = of.map_or(&index, |(_, digest)| digest);
                Answer::status(200).header("docker-content-digest", digest)
            }
            "POST" => Answer::status(202).header("location", "/v2/derived/blobs/uploads/7"),
            "PUT" => {
                pushed.insert(request.path.clone());
                Answer::status(201)
            }
            _ if request.path == "/v2/" => Answer::status(200),
            _ => Answer::status(404),
        }
    });
    derive(&format!("{}/derived", registry.host)).await.unwrap();
    let seen = registry.seen();
    let manifests = seen
        .iter()
        .filter(|request| request.method == "PUT" && request.path.contains("/manifests/"));
    assert_eq!(manifests.count(), 3, "{seen:?}");
}

#[tokio::test]
async fn what_a_registry_refuses_comes_back_in_words_and_with_its_time() {
    let registry = FakeRegistry::start(|request, _| match request {
        upload if upload.is_upload() => Answer::status(403),
        probe if probe.path == "/v2/" => Answer::status(200),
        _ => Answer::status(404),
    });
    let trouble = derive(&format!("{}/derived", registry.host))
        .await
        .unwrap_err();
    assert!(
        trouble.words.contains("403") && trouble.words.contains("right to push"),
        "{}",
        trouble.words
    );
    let busy = FakeRegistry::start(|_, _| Answer::status(429).header("retry-after", "300"));
    let trouble = derive(&format!("{}/derived", busy.host)).await.unwrap_err();
    assert_eq!(
        trouble.retry_after,
        Some(std::time::Duration::from_secs(300))
    );
}
