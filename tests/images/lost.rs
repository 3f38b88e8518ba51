//! An image of which the registry has the index, and not all that the index names.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use swaplet::image::Kind;
use swaplet::image::build::build_standard;

use crate::images::fake::{Answer, FakeRegistry};
use crate::images::push_exit;

/// A registry that holds the exit image as `a:v1`, but for the second platform unless it `has_all`.
fn registry(has_all: bool) -> FakeRegistry {
    let image = build_standard(Kind::Exit).unwrap();
    let index = image.digest().to_owned();
    let [kept, lost] = [0, 1].map(|number| image.platforms[number].manifest.digest.clone());
    let tag = format!("/manifests/v1-{}", image.platforms[1].platform);
    let has_lost = AtomicBool::new(has_all);
    let named = |digest: &str| Answer::status(200).header("docker-content-digest", digest);
    FakeRegistry::start(move |request, _| {
        let is_at = |end: &str| request.path.ends_with(end);
        match &*request.method {
            "HEAD" if is_at("/manifests/v1") => named(&index),
            "HEAD" if is_at(&kept) => named(&kept),
            "HEAD" if has_lost.load(Ordering::Relaxed) && (is_at(&lost) || is_at(&tag)) => {
                named(&lost)
            }
            "POST" => Answer::status(202).header("location", "/v2/a/blobs/uploads/7"),
            "PUT" => {
                if is_at(&tag) {
                    has_lost.store(true, Ordering::Relaxed);
                }
                Answer::status(201)
            }
            _ if request.path == "/v2/" => Answer::status(200),
            _ => Answer::status(404),
        }
    })
}

#[test]
fn a_platform_that_the_registry_has_lost_is_pushed_again() {
    let registry = registry(false);
    let ran = push_exit(&format!("{}/a:v1", registry.host)).must_succeed();
    assert!(ran.out.contains("  pushed ("), "{}", ran.out);
    let seen = registry.seen();
    let puts = seen.iter().filter(|request| request.method == "PUT");
    let (manifests, blobs): (Vec<_>, Vec<_>) =
        puts.partition(|put| put.path.contains("/manifests/"));
    let lost = build_standard(Kind::Exit).unwrap().platforms[1].platform;
    assert!(
        matches!(&manifests[..], [one] if one.path == format!("/v2/a/manifests/v1-{lost}")),
        "{manifests:?}"
    );
    assert_eq!(blobs.len(), 2, "its layer and its configuration");
}

#[test]
fn an_image_that_is_all_there_is_unchanged() {
    let registry = registry(true);
    let ran = push_exit(&format!("{}/a:v1", registry.host)).must_succeed();
    assert!(ran.out.contains("  unchanged ("), "{}", ran.out);
    let methods: Vec<_> = registry
        .seen()
        .into_iter()
        .map(|request| request.method)
        .collect();
    assert_eq!(
        methods,
        ["GET", "HEAD", "HEAD", "HEAD"],
        "the login, the index and its two platforms"
    );
}

/// A registry that writes each tag once, and in which a push has ended before the last platform.
#[test]
fn u50_an_interrupted_push_is_completed_where_tags_are_written_once() {
    let image = build_standard(Kind::Exit).unwrap();
    let there = image.platforms[0].manifest.digest.clone();
    let tag = format!("/manifests/v1-{}", image.platforms[0].platform);
    let put = Mutex::new(HashMap::new());
    let digests = HashMap::from([
        ("v1".to_owned(), image.digest().to_owned()),
        (
            format!("v1-{}", image.platforms[1].platform),
            image.platforms[1].manifest.digest.clone(),
        ),
    ]);
    let registry = FakeRegistry::start(move |request, _| {
        let name = request.path.rsplit('/').next().unwrap_or_default();
        let named = |digest: &str| Answer::status(200).header("docker-content-digest", digest);
        let is_there = request.path.ends_with(&tag);
        match &*request.method {
            "HEAD" if is_there => named(&there),
            "PUT" if is_there => Answer::status(400).body("the tag is immutable"),
            "POST" => Answer::status(202).header("location", "/v2/a/blobs/uploads/7"),
            "PUT" => {
                if let Some(digest) = digests.get(name) {
                    put.lock().unwrap().insert(name.to_owned(), digest.clone());
                }
                Answer::status(201)
            }
            "HEAD" => match put.lock().unwrap().get(name) {
                Some(digest) => named(digest),
                None => Answer::status(404),
            },
            _ if request.path == "/v2/" => Answer::status(200),
            _ => Answer::status(404),
        }
    });
    let ran = push_exit(&format!("{}/a:v1", registry.host)).must_succeed();
    assert!(ran.out.contains("  pushed ("), "{}", ran.out);
}
