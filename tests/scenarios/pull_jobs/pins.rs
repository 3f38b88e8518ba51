//! Tags that are pinned to a digest when a job begins.

mod older_crd;
mod registries;

use std::sync::Mutex;

use swaplet_core::warm::pull_job::pins::{Resolved, Unresolved};

use super::*;
use crate::line::Patches;

/// A registry whose tags tests move. What is not there has no answer.
#[derive(Clone, Default)]
struct Tags {
    tags: Arc<Mutex<BTreeMap<String, Resolved>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Tags {
    fn with(count: usize) -> Self {
        let tags = Self::default();
        (0..count).for_each(|number| tags.point(number, 'a'));
        tags
    }

    /// From now on the tag of this image stands for the digest of this letter.
    fn point(&self, number: usize, letter: char) {
        self.tags
            .lock()
            .unwrap()
            .insert(image(number), Ok(digest(letter).into()));
    }

    fn answer(&self, number: usize, words: &str) {
        self.tags
            .lock()
            .unwrap()
            .insert(image(number), Err(unresolved(words, true)));
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    fn resolve(&self) -> Resolve {
        let tags = self.clone();
        Resolve::by(move |image| {
            let tags = tags.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(100)).await;
                tags.asked.lock().unwrap().push(image.to_string());
                let known = tags.tags.lock().unwrap().get(image.as_str()).cloned();
                known.unwrap_or_else(|| Err(unresolved("the registry is away", false)))
            }
        })
    }

    fn controller(&self, jobs: &Jobs) -> Life {
        let resolve = self.resolve();
        jobs.cluster
            .world
            .start_warming(PARK, NAMESPACE, |settings| {
                settings.warm.as_mut().unwrap().resolve = resolve
            })
    }
}

fn unresolved(words: &str, is_answer: bool) -> Unresolved {
    Unresolved {
        words: words.into(),
        is_answer,
        retry_after: None,
    }
}

fn digest(letter: char) -> String {
    format!("sha256:{}", letter.to_string().repeat(64))
}

fn pinned(number: usize, letter: char) -> String {
    format!("{}@{}", image(number), digest(letter))
}

fn pin(number: usize, letter: char) -> Value {
    json!({"image": image(number), "digest": digest(letter)})
}

impl Jobs {
    async fn create_pinned(&self, kind: JobKind, name: &str, spec: Value) {
        self.create_with(
            kind,
            &json!({"name": name, "annotations": {"swaplet.io/pin-tags": "true"}}),
            spec,
        )
        .await;
    }

    /// Which images pods of jobs have had, each once.
    fn given(&self) -> Vec<String> {
        let images = self
            .writes()
            .into_iter()
            .filter_map(|write| match write.verb {
                Verb::Create => write.body["spec"]["containers"][0]["image"]
                    .as_str()
                    .map(str::to_owned),
                Verb::Patch => write.body[3]["value"].as_str().map(str::to_owned),
                _ => None,
            });
        images
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect()
    }
}

fn slow() -> ImageOptions {
    ImageOptions {
        pull: Duration::from_secs(20),
        ..ImageOptions::default()
    }
}

#[tokio::test(start_paused = true)]
async fn all_nodes_get_the_digest_that_the_tag_had_when_the_job_began() {
    let jobs = Jobs::on(3, &slow()).await;
    let tags = Tags::with(2);
    let _life = tags.controller(&jobs);
    jobs.create_pinned(LIST, "l", json!({"images": images(2)}))
        .await;
    jobs.wait(15).await;
    assert_eq!(
        jobs.status(LIST, "l")["pinned"],
        json!([pin(0, 'a'), pin(1, 'a')])
    );
    let first = jobs
        .cluster
        .world
        .requests()
        .into_iter()
        .find(|request| request.subresource == "status")
        .unwrap();
    assert!(
        first.body["status"]["startTime"].is_string()
            && first.body["status"]["pinned"][1] == pin(1, 'a'),
        "{first:?}"
    );
    (0..2).for_each(|number| tags.point(number, 'b'));
    let status = jobs.completed(LIST, "l").await;
    assert_eq!(
        [
            &status["desired"],
            &status["completed"],
            &status["succeeded"]
        ],
        [2, 2, 2],
        "{status}"
    );
    assert_eq!(
        (
            &status["imageStatuses"][1]["name"],
            &status["imageStatuses"][1]["succeeded"]
        ),
        (&json!(image(1)), &json!(3))
    );
    assert_eq!(jobs.given(), [pinned(0, 'a'), pinned(1, 'a')]);
    assert_eq!(tags.asked(), 2, "each tag once, not for each node");
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_does_not_ask_for_it_and_an_image_with_a_digest_are_taken_as_they_are() {
    let jobs = Jobs::on(1, &ImageOptions::default()).await;
    let tags = Tags::with(1);
    let _life = tags.controller(&jobs);
    jobs.create(ONE, "plain", json!({"image": image(0)})).await;
    assert_eq!(jobs.completed(ONE, "plain").await["pinned"], json!(null));
    jobs.create_pinned(ONE, "digest", json!({"image": pinned(1, 'c')}))
        .await;
    let status = jobs.completed(ONE, "digest").await;
    assert_eq!(
        (counts(&status), &status["pinned"]),
        (vec![1, 0, 1, 0, 0], &json!([]))
    );
    assert_eq!(
        (jobs.given(), tags.asked()),
        (vec![image(0), pinned(1, 'c')], 0)
    );
    jobs.create_with(
        ONE,
        &json!({"name": "bad", "annotations": {"swaplet.io/pin-tags": "yes"}}),
        json!({"image": image(0)}),
    )
    .await;
    let message = jobs.completed(ONE, "bad").await["message"].to_string();
    assert!(
        message.contains("annotation swaplet.io/pin-tags is") && message.contains("write"),
        "{message}"
    );
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn an_edit_pins_the_images_that_are_new_only_and_a_never_job_stays_at_its_pins() {
    let jobs = Jobs::on(1, &ImageOptions::default()).await;
    let tags = Tags::with(3);
    let _life = tags.controller(&jobs);
    jobs.create_pinned(
        LIST,
        "l",
        json!({"images": images(2), "completionPolicy": {"type": "Never"}}),
    )
    .await;
    jobs.wait(30).await;
    (0..3).for_each(|number| tags.point(number, 'b'));
    jobs.edit(LIST, "l", &json!({"images": [image(1), image(2)]}))
        .await;
    jobs.wait(30).await;
    let status = jobs.status(LIST, "l");
    assert_eq!(
        (&status["pinned"], &status["succeeded"]),
        (&json!([pin(1, 'a'), pin(2, 'b')]), &json!(2))
    );
    jobs.wait(3600).await;
    assert_eq!(
        jobs.given(),
        [pinned(0, 'a'), pinned(1, 'a'), pinned(2, 'b')]
    );
    assert_eq!(tags.asked(), 3);
}

#[tokio::test(start_paused = true)]
async fn killed_at_each_write_the_next_life_pulls_what_is_written_down() {
    for passing in 0..4 {
        for patches in [
            Patches::PassBeforeOneArrives(passing),
            Patches::PassBeforeAllStay(passing),
        ] {
            let jobs = Jobs::on(1, &slow()).await;
            let tags = Tags::with(2);
            let life = tags.controller(&jobs);
            life.line.patches(patches);
            jobs.create_pinned(LIST, "l", json!({"images": images(2)}))
                .await;
            jobs.wait(60).await;
            life.kill();
            let known = jobs.status(LIST, "l")["pinned"].clone();
            (0..2).for_each(|number| tags.point(number, 'b'));
            let _next = tags.controller(&jobs);
            let status = jobs.completed(LIST, "l").await;
            let letter = if known.is_null() { 'b' } else { 'a' };
            assert_eq!(
                status["pinned"],
                json!([pin(0, letter), pin(1, letter)]),
                "{patches:?}"
            );
            assert_eq!(
                (&status["succeeded"], jobs.given()),
                (&json!(2), vec![pinned(0, letter), pinned(1, letter)]),
                "{patches:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_image_cache_has_the_digests_and_none_is_made_where_no_tag_has_one() {
    let jobs = Jobs::beside_eci(0).await;
    jobs.serve_image_caches().await;
    let tags = Tags::with(1);
    tags.answer(1, "there is no such tag");
    let _life = jobs.caching_controller_with(tags.resolve());
    jobs.create_pinned(ONE, "bad", json!({"image": image(1)}))
        .await;
    let status = jobs.completed(ONE, "bad").await;
    assert_eq!(
        (counts(&status), jobs.caches().len()),
        (vec![2, 0, 0, 2, 0], 0)
    );
    assert!(
        status["failures"][0]["message"]
            .as_str()
            .unwrap()
            .contains("there is no such tag"),
        "{status}"
    );
    assert!(
        !status["message"].as_str().unwrap().contains("wait"),
        "{status}"
    );
    jobs.create_pinned(LIST, "half", json!({"images": images(2)}))
        .await;
    jobs.wait(30).await;
    let cached = &jobs.caches()[0]["spec"]["images"];
    assert!(
        cached.as_array().unwrap().contains(&json!(pinned(0, 'a')))
            && cached.as_array().unwrap().len() == 2,
        "{cached}"
    );
}
