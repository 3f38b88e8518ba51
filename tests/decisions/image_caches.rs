//! Image caches of a provider: which one a job wants, and what its status proves.

use serde_json::{Value, json};
use swaplet_core::warm::image_cache::{
    CacheOptions, CacheState, ImageCache, NewImageCache, patience, state, wanted,
};
use swaplet_core::warm::pull_job::object::{JobKind, PullJob};

use super::warm::{A, B, seconds};

fn job(spec: Value) -> PullJob {
    let job = json!({"metadata": {"name": "j", "namespace": "team", "uid": "u"}, "spec": spec});
    PullJob::read(
        JobKind::ImageListPullJob,
        serde_json::from_value(job).unwrap(),
    )
    .unwrap()
}

fn options(exit_image: Option<&str>) -> CacheOptions {
    CacheOptions {
        exit_image: exit_image.map(Into::into),
        size: 20,
        retention_days: 7,
    }
}

fn wants(spec: Value, options: &CacheOptions) -> Option<NewImageCache> {
    let job = job(spec);
    wanted(&job, job.spec.as_ref().unwrap(), options).ok()
}

#[test]
fn the_same_images_are_the_same_cache_and_others_another_one() {
    let plain = options(None);
    let name = |spec: Value, options: &CacheOptions| wants(spec, options).unwrap().name;
    let one = name(json!({"images": [A, B]}), &plain);
    assert_eq!(
        one,
        name(json!({"images": [B, A], "parallelism": "10%"}), &plain)
    );
    assert!(one.len() == 28 && one.starts_with("swaplet-"), "{one}");
    let mut names = vec![
        one,
        name(json!({"images": [A]}), &plain),
        name(json!({"images": [A, B], "pullSecrets": ["s"]}), &plain),
        name(
            json!({"images": [A, B]}),
            &options(Some("r.example/exit:1")),
        ),
        name(
            json!({"images": [A, B]}),
            &CacheOptions { size: 40, ..plain },
        ),
    ];
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 5);
}

#[test]
fn it_has_the_exit_image_too_and_secrets_are_named_with_their_namespace() {
    let cache = wants(
        json!({"images": [B], "pullSecrets": ["s"]}),
        &options(Some(A)),
    )
    .unwrap();
    let object = cache.object();
    assert_eq!(
        object["spec"],
        json!({"images": [A, B], "imagePullSecrets": ["team:s"], "imageCacheSize": 20, "retentionDays": 7})
    );
    assert_eq!(
        (&object["apiVersion"], &object["kind"]),
        (&json!("eci.alibabacloud.com/v1"), &json!("ImageCache"))
    );
}

#[test]
fn none_is_wanted_while_paused() {
    for paused in [json!(0), json!("0%")] {
        let spec = json!({"images": [A], "parallelism": paused});
        assert_eq!(wants(spec, &options(None)), None);
    }
}

/// The provider accepts no more images, and the admission policy no more of either.
#[test]
fn a_job_with_more_images_or_secrets_than_a_cache_can_have_has_failed_at_once() {
    let many = |name: &str, count: usize| -> Vec<String> {
        (0..count).map(|number| format!("{name}{number}")).collect()
    };
    let state = |images: usize, secrets: usize, options: &CacheOptions| {
        let job = job(json!({"images": many("i", images), "pullSecrets": many("s", secrets)}));
        wanted(&job, job.spec.as_ref().unwrap(), options)
            .err()
            .map(|state| format!("{state:?}"))
    };
    let exit = options(Some(A));
    assert_eq!(state(20, 20, &options(None)), None);
    assert_eq!(state(19, 20, &exit), None);
    let images = state(20, 20, &exit).unwrap();
    assert!(
        images.starts_with("Failed") && images.contains("would have 21, the exit image included"),
        "{images}"
    );
    let secrets = state(1, 21, &exit).unwrap();
    assert!(
        secrets.starts_with("Failed") && secrets.contains("spec.pullSecrets has 21"),
        "{secrets}"
    );
}

#[test]
fn only_ready_is_a_proof() {
    let cache = wants(json!({"images": [A]}), &options(None)).unwrap();
    let found = |status: Value| {
        let mut object = cache.object();
        object["status"] = status;
        ImageCache::read(serde_json::from_value(object).unwrap()).unwrap()
    };
    assert!(matches!(state(&cache, None), CacheState::Waits(_)));
    for phase in ["", "Preparing", "Creating", "Updating", "ready", "Unknown"] {
        assert!(
            matches!(
                state(&cache, Some(&found(json!({"phase": phase})))),
                CacheState::Waits(_)
            ),
            "{phase}"
        );
    }
    assert_eq!(
        state(&cache, Some(&found(json!({"phase": "Ready"})))),
        CacheState::Ready
    );
    for phase in ["Failed", "UpdateFailed"] {
        let words =
            json!({"phase": phase, "events": [{"message": "first"}, {"message": "x".repeat(999)}]});
        let CacheState::Failed(why) = state(&cache, Some(&found(words))) else {
            panic!("{phase}")
        };
        assert!(
            why.contains("xxx") && why.contains("delete it") && why.len() < 450,
            "{why}"
        );
    }
    let mut leaving = found(json!({"phase": "Ready"}));
    leaving.deleting = true;
    assert!(matches!(
        state(&cache, Some(&leaving)),
        CacheState::Waits(_)
    ));
    let mut other = found(json!({"phase": "Ready"}));
    other.images = [B.into()].into();
    assert!(
        matches!(state(&cache, Some(&other)), CacheState::Failed(why) if why.contains("other images"))
    );
}

#[test]
fn it_is_waited_for_as_for_a_node_with_all_its_tries() {
    let limit = |spec: Value| patience(job(spec).spec.as_ref().unwrap());
    assert_eq!(limit(json!({"images": [A]})), Some(seconds(2400)));
    assert_eq!(
        limit(json!({"images": [A], "pullPolicy": {"timeoutSeconds": 10, "backoffLimit": 0}})),
        Some(seconds(10))
    );
    assert_eq!(
        limit(json!({"images": [A], "completionPolicy": {"activeDeadlineSeconds": 9}})),
        None
    );
    assert_eq!(
        limit(json!({"images": [A], "completionPolicy": {"type": "Never"}})),
        None
    );
}
