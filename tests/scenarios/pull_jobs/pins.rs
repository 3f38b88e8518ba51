//! Tags that are pinned to a digest when a job begins.

use std::collections::BTreeSet;
use std::sync::Mutex;

use swaplet_controller::frame::clock::Now;
use swaplet_controller::frame::connection::namespaces::Namespaces;
use swaplet_controller::frame::watch::Event;
use swaplet_controller::warm::jobs::{Happened, PullAnswer, PullJobs, PullWrite, WarmSettings};
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::warm::pull_job::object::PullJob;
use swaplet_core::warm::pull_job::pins::{Resolved, Unresolved};
use swaplet_core::warm::warming::shape::ShapeChoice;

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
async fn a_registry_that_does_not_answer_is_asked_again_and_the_message_says_so() {
    let jobs = Jobs::on(1, &ImageOptions::default()).await;
    let tags = Tags::with(1);
    let _life = tags.controller(&jobs);
    jobs.create_pinned(
        LIST,
        "l",
        json!({"images": images(3), "completionPolicy": {"activeDeadlineSeconds": 3600}}),
    )
    .await;
    jobs.wait(1200).await;
    let status = jobs.status(LIST, "l");
    assert!(
        status["startTime"].is_string() && status["completionTime"].is_null(),
        "{status}"
    );
    assert_eq!(
        (
            &status["pinned"],
            &status["completed"],
            &status["succeeded"]
        ),
        (&json!([pin(0, 'a')]), &json!(1), &json!(1))
    );
    let message = status["message"].as_str().unwrap();
    let words = "2 image(s) are not pulled yet, for their tags are not pinned: the registry is away; trying again";
    assert!(message.contains(words), "{message}");
    assert!((5..14).contains(&tags.asked()), "backoff: {}", tags.asked());
    assert_eq!(
        jobs.given(),
        [pinned(0, 'a')],
        "what is known is pulled, and nothing else"
    );
    tags.point(1, 'c');
    tags.point(2, 'c');
    let status = jobs.completed(LIST, "l").await;
    assert_eq!(
        (
            &status["succeeded"],
            &status["pinned"][2],
            &status["message"]
        ),
        (&json!(3), &pin(2, 'c'), &json!("job has completed"))
    );
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_ends_also_when_no_registry_ever_answers() {
    let jobs = Jobs::on(2, &ImageOptions::default()).await;
    let _life = Tags::default().controller(&jobs);
    jobs.create_pinned(ONE, "plain", json!({"image": image(0)}))
        .await;
    let status = jobs.completed(ONE, "plain").await;
    let why = status["failures"][0]["message"].as_str().unwrap();
    assert!(
        why.contains("no answer within 600 s: the registry is away")
            && why.contains("write the digest into the image"),
        "{why}"
    );
    assert_eq!(counts(&status), [2, 0, 0, 2, 0]);
    jobs.create_pinned(
        ONE,
        "late",
        json!({"image": image(0), "completionPolicy": {"activeDeadlineSeconds": 900}}),
    )
    .await;
    let status = jobs.completed(ONE, "late").await;
    assert_eq!(
        (counts(&status), &status["message"]),
        (
            vec![2, 0, 0, 2, 0],
            &json!("job exceeds activeDeadlineSeconds")
        )
    );
    jobs.create_pinned(
        ONE,
        "never",
        json!({"image": image(0), "completionPolicy": {"type": "Never"}}),
    )
    .await;
    jobs.wait(7200).await;
    assert_eq!(
        counts(&jobs.status(ONE, "never")),
        [2, 0, 0, 0, 0],
        "it waits"
    );
    assert!(
        jobs.given().is_empty(),
        "nothing is pulled by a tag that is not pinned"
    );
}

#[tokio::test(start_paused = true)]
async fn a_tag_that_is_not_there_and_an_image_that_may_not_be_read_have_failed_on_all_nodes() {
    let jobs = Jobs::on(2, &ImageOptions::default()).await;
    let tags = Tags::with(1);
    tags.answer(1, "registry.example has no app1:v1");
    let _life = tags.controller(&jobs);
    jobs.create_pinned(LIST, "l", json!({"images": images(2), "parallelism": 2}))
        .await;
    let status = jobs.completed(LIST, "l").await;
    assert_eq!(
        [
            &status["desired"],
            &status["completed"],
            &status["succeeded"]
        ],
        [2, 2, 1],
        "{status}"
    );
    let failed = status["failedImageStatuses"][0]["message"]
        .as_str()
        .unwrap();
    assert!(failed.starts_with("2 of 2 node(s) failed: n0: not pulled, for its tag cannot be pinned: registry.example has no"), "{failed}");
    assert_eq!((jobs.given(), tags.asked()), (vec![pinned(0, 'a')], 2));

    tags.answer(2, "401, the registry does not accept the credentials");
    jobs.create_pinned(
        ONE,
        "private",
        json!({"image": image(2), "pullSecrets": ["login"]}),
    )
    .await;
    let why = jobs.completed(ONE, "private").await["failures"][0]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    for words in [
        "401",
        "with the credentials of swaplet itself, not with pullSecrets",
        "write the digest into the image yourself",
    ] {
        assert!(why.contains(words), "{why}");
    }
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_never_job_finds_a_tag_that_is_pushed_later() {
    let jobs = Jobs::on(1, &ImageOptions::default()).await;
    let tags = Tags::default();
    tags.answer(0, "no such tag");
    let _life = tags.controller(&jobs);
    jobs.create_pinned(
        ONE,
        "j",
        json!({"image": image(0), "completionPolicy": {"type": "Never"}}),
    )
    .await;
    jobs.wait(60).await;
    assert_eq!(counts(&jobs.status(ONE, "j")), [1, 0, 0, 1, 0]);
    tags.point(0, 'd');
    jobs.wait(600).await;
    assert_eq!(counts(&jobs.status(ONE, "j")), [1, 0, 1, 0, 0]);
    assert_eq!(jobs.given(), [pinned(0, 'd')]);
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

/// A list of one object, as a watch begins.
fn listed<K>(object: K) -> [Event<K>; 3] {
    [Event::ListStart, Event::Listed(object), Event::ListEnd]
}

fn pull_jobs() -> PullJobs {
    let settings = WarmSettings {
        namespace: NAMESPACE.into(),
        park_image: PARK.into(),
        exit_image: None,
        shape: ShapeChoice::Auto,
        startup_taint_timeout: None,
        startup_taint_namespaces: BTreeSet::new(),
        longest_try: Duration::from_secs(1800),
        coexist: swaplet_core::terminate::openkruise::Coexist::default(),
        image_caches: None,
        sandbox_keys: swaplet_core::warm::pull_job::sandbox::SandboxKeys::default(),
        resolve: no_registry(),
        time_of_day: Arc::new(|| jiff::Timestamp::UNIX_EPOCH),
    };
    PullJobs::new(settings, Namespaces::default(), NodeTable::built_in())
}

/// One node and one job are there, and nothing else.
fn begin(jobs: &mut PullJobs, job: &BoundedObject, now: Now) {
    let node = json!({"metadata": {"name": "n0", "uid": "n0"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    listed(serde_json::from_value(node).unwrap())
        .into_iter()
        .for_each(|event| {
            jobs.take(Happened::Node(event), now);
        });
    listed(job.clone()).into_iter().for_each(|event| {
        jobs.take(Happened::Job(ONE, event), now);
    });
    for event in [Event::ListStart, Event::ListEnd] {
        jobs.take(Happened::Job(LIST, event), now);
    }
    for event in [Event::ListStart, Event::ListEnd] {
        jobs.take(Happened::Pod(event), now);
    }
}

/// As the API server does where an older CRD is installed.
#[test]
fn where_the_status_keeps_no_digests_nothing_is_pulled() {
    let mut jobs = pull_jobs();
    let now = Now {
        since_start: Duration::ZERO,
        today: jiff::Timestamp::UNIX_EPOCH,
    };
    let annotations = json!({"swaplet.io/pin-tags": "true"});
    let metadata = json!({"name": "j", "namespace": "default", "uid": "u", "resourceVersion": "1", "generation": 1, "annotations": annotations});
    let job = json!({"metadata": metadata, "spec": {"image": image(0)}, "status": {}});
    let job: BoundedObject = serde_json::from_value(job).unwrap();
    begin(&mut jobs, &job, now);
    assert!(
        jobs.step(now).is_empty(),
        "the job begins when the registry has answered"
    );
    let (asked, images) = jobs.questions(now).remove(0);
    assert!(jobs.questions(now).is_empty(), "it is asked once");
    jobs.take(
        Happened::Resolved(asked, vec![(images[0].clone(), Ok(digest('a').into()))]),
        now,
    );
    let write = jobs.step(now).remove(0);
    assert!(
        matches!(&write, PullWrite::Report { report, .. } if json!(report.status)["pinned"] == json!([pin(0, 'a')])),
        "{write:?}"
    );
    let mut stored = PullJob::read(ONE, job).unwrap();
    stored.started_at = Some(now.today);
    jobs.take(
        Happened::Written(Box::new((
            write,
            PullAnswer::Reported(Ok(Some(Box::new(stored)))),
        ))),
        now,
    );
    let later = Now {
        since_start: Duration::from_secs(5),
        ..now
    };
    let writes = jobs.step(later);
    let [PullWrite::Report { report, .. }] = &*writes else {
        panic!("nothing but a report: {writes:?}")
    };
    let why = json!(report.status)["failures"][0]["message"].to_string();
    assert!(
        why.contains(
            "the installed CRD of the job has no status.pinned; apply the one of this release"
        ),
        "{why}"
    );
    assert!(jobs.questions(later).is_empty());
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
