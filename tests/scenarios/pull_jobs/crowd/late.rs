//! Answers that take long, what happens meanwhile, and jobs for which there is no room yet.

use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::node::NodeWire;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::warming::Pulled;

use super::*;

fn node(number: usize) -> Event<NodeWire> {
    let metadata = json!({"name": format!("n{number}"), "uid": format!("node-{number}")});
    let info = json!({"operatingSystem": "linux", "architecture": "amd64"});
    let status = json!({"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": info});
    let node = json!({"metadata": metadata, "status": status});
    Event::Applied(serde_json::from_value(node).unwrap())
}

/// What the status of a job is to say.
fn message_of(writes: &[PullWrite], name: &str) -> Option<String> {
    writes.iter().find_map(|write| match write {
        PullWrite::Report { job, report } if *job.name == *name => {
            Some(json!(report.status)["message"].as_str()?.to_owned())
        }
        _ => None,
    })
}

fn completes(write: &PullWrite) -> bool {
    matches!(write, PullWrite::Report { report, .. } if report.completed_at.is_some())
}

impl Mock {
    fn shows_job(&mut self) {
        let job = serde_json::from_value(self.job.clone()).unwrap();
        self.takes(Happened::Job(LIST, Event::Applied(job)));
    }

    fn steps(&mut self) -> Vec<PullWrite> {
        let time = self.time();
        self.jobs.step(time, |_, _| usize::MAX)
    }

    fn next_due(&self) -> Option<Moment> {
        self.jobs.next_due(self.time())
    }

    /// Lets seconds pass until the completion of the job is to be written, which is not answered.
    fn completion(&mut self) -> PullWrite {
        for _ in 0..60 {
            for write in self.steps() {
                if completes(&write) {
                    return write;
                }
                let answer = self.answer(&write);
                self.takes(Happened::Written(Box::new((write, answer))));
            }
            self.now += Duration::from_secs(1);
            while let Some((_, name)) = self.due.pop_front_if(|(at, _)| *at <= self.now) {
                self.container_starts(&name);
            }
        }
        panic!("the job is not completed: {}", self.job)
    }
}

#[test]
fn the_completion_of_a_job_says_nothing_of_the_next_one_with_its_name() {
    let mut mock = Mock::new(1, 1, 1, "Always");
    mock.is_listed();
    let late = mock.completion();
    let job = serde_json::from_value(mock.job.clone()).unwrap();
    mock.takes(Happened::Job(LIST, Event::Deleted(job)));
    mock.job["metadata"]["uid"] = "another".into();
    mock.job["status"] = json!({});
    mock.shows_job();
    let answer = Ok(Stored::default());
    mock.takes(Happened::Written(Box::new((late, answer))));
    let completion = mock.completion();
    assert!(
        matches!(&completion, PullWrite::Report { job, .. } if *job.uid == *"another"),
        "{completion:?}"
    );
}

/// Labels and finalizers change without a new generation.
#[test]
fn u222_an_answer_brings_back_nothing_that_was_shown_to_change_after_it() {
    for (shown, kept) in [("10", "11"), ("12", "12")] {
        let mut mock = Mock::new(1, 1, 1, "Always");
        let is = |mock: &mut Mock, version: &str| {
            mock.job["metadata"]["resourceVersion"] = version.into();
        };
        is(&mut mock, "10");
        mock.is_listed();
        let report = mock.steps().remove(0);
        is(&mut mock, "11");
        let answer = mock.answer(&report);
        is(&mut mock, shown);
        mock.shows_job();
        mock.takes(Happened::Written(Box::new((report, answer))));
        let completion = mock.completion();
        assert!(
            matches!(&completion, PullWrite::Report { job, .. } if *job.version == *kept),
            "{completion:?}"
        );
    }
}

/// The answer to a status write has what the user wrote, as the watch has.
#[test]
fn u240_no_label_that_jobs_may_not_give_comes_by_an_answer() {
    let mut mock = Mock::new(1, 1, 1, "Always");
    mock.job["spec"]["sandboxConfig"] = json!({"labels": {"team": "a"}});
    mock.is_listed();
    let report = mock.steps().remove(0);
    mock.job["metadata"]["resourceVersion"] = "2".into();
    let answer = mock.answer(&report);
    mock.takes(Happened::Written(Box::new((report, answer))));
    mock.second();
    let labels = |pod: &Value| pod["metadata"]["labels"]["team"].clone();
    let labels: Vec<_> = mock.pods.values().map(labels).collect();
    assert_eq!(labels, [Value::Null]);
}

#[test]
fn what_cannot_be_done_yet_is_not_due() {
    let mut mock = Mock::new(1, 1, 1, "Always");
    mock.job["spec"]["completionPolicy"]["ttlSecondsAfterFinished"] = json!(0);
    mock.job["status"] = json!({"observedGeneration": 1, "completionTime": "1970-01-01T00:00:00Z"});
    mock.shows_job();
    assert_eq!(mock.next_due(), None, "nodes and pods are not listed yet");
    mock.is_listed();
    assert_eq!(mock.next_due(), Some(mock.now));
    let writes = mock.steps();
    assert!(matches!(&*writes, [PullWrite::DeleteJob(_)]), "{writes:?}");
    assert_eq!(mock.next_due(), None, "its answer is waited for");
}

#[test]
fn a_node_that_joins_after_the_deadline_is_not_begun() {
    let mut mock = Mock::new(1, 1, 2, "Always");
    mock.job["spec"]["completionPolicy"]["activeDeadlineSeconds"] = json!(10);
    mock.is_listed();
    mock.second();
    assert_eq!(mock.pods.len(), 1, "it pulls");
    mock.now += Duration::from_secs(10);
    let leaves = |write: &PullWrite| {
        matches!(
            write,
            PullWrite::Warm {
                action: Action::Delete { .. },
                ..
            }
        )
    };
    assert!(mock.steps().iter().any(leaves));
    mock.takes(Happened::Node(node(1)));
    let writes = mock.steps();
    let warms = |write: &PullWrite| matches!(write, PullWrite::Warm { .. });
    assert!(!writes.iter().any(warms), "{writes:?}");
}

/// A pod of a job that is gone: its deletion is requested once, however long the answer takes, and
/// again when it has failed, although nothing else happens.
#[test]
fn the_deletion_of_a_pod_is_not_requested_again_before_its_answer() {
    let mut mock = Mock::new(1, 1, 1, "Always");
    mock.is_listed();
    mock.second();
    let pod = wire(mock.pods.values().next().unwrap());
    mock.takes(Happened::Pod(Event::Applied(pod)));
    let job = serde_json::from_value(mock.job.clone()).unwrap();
    mock.takes(Happened::Job(LIST, Event::Deleted(job)));
    let mut writes = mock.steps();
    assert!(matches!(&*writes, [PullWrite::DeletePod(_)]), "{writes:?}");
    mock.now += Duration::from_secs(60);
    assert!(mock.steps().is_empty());
    let failed = WriteError::Failed {
        error: "no answer".to_owned(),
        retry_after: None,
    };
    let answer = Err(failed);
    mock.takes(Happened::Written(Box::new((writes.remove(0), answer))));
    let again = mock.now + Duration::from_secs(60);
    assert_eq!((mock.steps().len(), mock.next_due()), (0, Some(again)));
    mock.now = again;
    let writes = mock.steps();
    assert!(matches!(&*writes, [PullWrite::DeletePod(_)]), "{writes:?}");
}

/// Whoever may create pods can do so any number of times: each pod would take memory, and requests.
#[test]
fn a8_a_deleted_pod_is_forgotten_although_it_has_lost_its_annotations() {
    let mut mock = Mock::new(1, 1, 1, "Always");
    mock.is_listed();
    mock.second();
    let mut pod = mock.pods.values().next().unwrap().clone();
    mock.takes(Happened::Pod(Event::Applied(wire(&pod))));
    let job = serde_json::from_value(mock.job.clone()).unwrap();
    mock.takes(Happened::Job(LIST, Event::Deleted(job)));
    let mut writes = mock.steps();
    assert!(matches!(&*writes, [PullWrite::DeletePod(_)]), "{writes:?}");
    pod["metadata"]["annotations"] = json!({});
    mock.takes(Happened::Pod(Event::Applied(wire(&pod))));
    mock.takes(Happened::Pod(Event::Deleted(wire(&pod))));
    let answer = Err(WriteError::Gone);
    mock.takes(Happened::Written(Box::new((writes.remove(0), answer))));
    mock.now += Duration::from_secs(60);
    assert!(mock.steps().is_empty(), "it is not deleted for ever");
}

/// Who knows the uid of a pod may write Events about it, but not in its namespace.
#[test]
fn what_events_of_another_namespace_report_of_a_pull_counts_for_nothing() {
    let mut mock = Mock::new(1, 1, 1, "Always");
    mock.is_listed();
    mock.second();
    let message = format!("Successfully pulled image \"{}\" in 2s", image(0));
    let reported = |mock: &mut Mock, namespace: &str| {
        let pulled = Pulled::read(&message).unwrap();
        let event = Happened::Pulled(namespace.to_owned(), "uid-1".into(), pulled);
        mock.takes(event);
        std::mem::take(&mut mock.jobs.pulls).len()
    };
    assert_eq!(reported(&mut mock, "default"), 0);
    assert_eq!(reported(&mut mock, NAMESPACE), 1);
}

/// Each image on each node takes memory, and any tenant creates jobs.
#[test]
fn a12_a_job_for_which_its_namespace_has_no_room_waits_and_says_so() {
    let mut mock = Mock::new(2000, 255, 1, "Never");
    mock.is_listed();
    let first = serde_json::from_value(mock.job.clone()).unwrap();
    mock.job["metadata"]["name"] = "m".into();
    mock.job["metadata"]["uid"] = "second".into();
    mock.shows_job();
    let writes = mock.steps();
    let waits = |writes: &[PullWrite], name: &str| {
        let message = message_of(writes, name).unwrap();
        message.contains("waits until other jobs")
    };
    assert_eq!((waits(&writes, "l"), waits(&writes, "m")), (false, true));
    let is_second =
        |write: &PullWrite| matches!(write, PullWrite::Report { job, .. } if *job.name == *"m");
    let report = writes.into_iter().find(is_second).unwrap();
    let answer = Ok(Stored::default());
    mock.takes(Happened::Written(Box::new((report, answer))));
    mock.takes(Happened::Job(LIST, Event::Deleted(first)));
    mock.now += Duration::from_secs(5);
    let writes = mock.steps();
    assert!(!waits(&writes, "m"));
    let warms = |write: &PullWrite| matches!(write, PullWrite::Warm { .. });
    assert!(writes.iter().any(warms), "there is room now");
}

/// Each namespace is a watch of Events.
#[test]
fn a9_pulls_are_watched_in_so_many_namespaces_and_always_in_that_of_the_installation() {
    let mut mock = Mock::new(1, 1, 1, "Never");
    mock.is_listed();
    mock.job["spec"]["pullSecrets"] = json!(["login"]);
    for number in 0..300 {
        mock.job["metadata"]["namespace"] = format!("a{number:03}").into();
        mock.job["metadata"]["uid"] = format!("job-{number}").into();
        mock.shows_job();
    }
    mock.steps();
    let namespaces = mock.jobs.pod_namespaces();
    assert_eq!(
        (namespaces.len(), namespaces.contains(NAMESPACE)),
        (257, true)
    );
}
