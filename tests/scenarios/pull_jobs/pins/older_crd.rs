//! An API server with an older CRD, which keeps no digests.

use swaplet_controller::frame::clock::Now;
use swaplet_controller::frame::connection::namespaces::Namespaces;
use swaplet_controller::frame::watch::Event;
use swaplet_controller::warm::jobs::{Happened, PullAnswer, PullJobs, PullWrite};
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::warm::pull_job::object::PullJob;

use super::*;

/// A list of one object, as a watch begins.
fn listed<K>(object: K) -> [Event<K>; 3] {
    [Event::ListStart, Event::Listed(object), Event::ListEnd]
}

fn pull_jobs() -> PullJobs {
    let settings = warm_settings(NAMESPACE, PARK, Arc::new(|| jiff::Timestamp::UNIX_EPOCH));
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
        moment: Moment::START,
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
        moment: Moment::after_start(Duration::from_secs(5)),
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
