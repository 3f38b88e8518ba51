//! What has to be known of a Job and its pods, and what is told where it is not.

use swaplet_core::cluster::headroom::{Headroom, Ledger, Need, Swapped};
use swaplet_core::objects::job::Job;
use swaplet_core::report::reason::Reason;

use super::{JOB, done, ledger, never_fits, of_job, reads, restarted};
use crate::builder::main_container;

#[test]
fn nothing_is_granted_until_all_pods_and_the_job_are_known() {
    let pod = done("a").read();
    let mut ledger = Ledger::default();
    ledger.pod_list_starts();
    ledger.observe(&pod, Swapped::default(), 1);
    assert_eq!(ledger.answer(&pod, 1), Headroom::TooEarly);
    ledger.jobs_trouble("list: forbidden");
    assert_eq!(
        ledger.answer(&pod, 1),
        Headroom::JobUnknown {
            trouble: Some("list: forbidden".into())
        }
    );
    ledger.job_list_starts();
    ledger.job_list_ends();
    assert_eq!(ledger.take_wakes(), ["a".into()]);
    assert_eq!(
        ledger.answer(&pod, 1),
        Headroom::JobUnknown { trouble: None }
    );
    ledger.job(&Job {
        uid: JOB.into(),
        namespace: Box::default(),
        backoff_limit: 2,
        failures_borne: 6,
    });
    assert_eq!(ledger.take_wakes(), ["a".into()]);
    assert_eq!(ledger.answer(&pod, 1), Headroom::TooEarly);
    ledger.need(&pod, Need::Waits(1));
    assert_eq!(ledger.take_wakes(), []);
    ledger.pod_list_ends(1);
    assert_eq!(ledger.take_wakes(), ["a".into()]);
    assert_eq!(ledger.answer(&pod, 1), Headroom::Fits);

    ledger.pod_list_starts();
    assert_eq!(ledger.answer(&pod, 1), Headroom::TooEarly);
    ledger.job_list_starts();
    ledger.job_list_ends();
    assert_eq!(
        ledger.answer(&pod, 1),
        Headroom::JobUnknown { trouble: None }
    );
}

/// Anybody may create a pod that names the Job of somebody else.
#[test]
fn pods_of_other_namespaces_do_not_count_once_the_job_is_known() {
    let stranger = restarted(done("stranger").set("/metadata/namespace", "other"), 9).read();
    let own = done("a").read();
    let mut ledger = Ledger::default();
    for pod in [&stranger, &own] {
        ledger.observe(pod, Swapped::default(), 0);
    }
    ledger.pod_list_ends(0);
    assert!(ledger.has("stranger") && ledger.has("a"));
    ledger.job(&Job {
        uid: JOB.into(),
        namespace: "batch".into(),
        backoff_limit: 3,
        failures_borne: 6,
    });
    assert!(!ledger.has("stranger") && ledger.has("a"));
    assert_eq!(ledger.answer(&own, 1), Headroom::Fits);
    ledger.observe(&stranger, Swapped::default(), 0);
    assert!(!ledger.has("stranger"));
}

/// What is told of a Job that is gone must not blame rights.
#[test]
fn watch_a_trouble_with_jobs_is_over_when_a_watch_was_opened_after_it() {
    let pod = done("a").read();
    let mut ledger = Ledger::default();
    ledger.job_list_starts();
    ledger.job_list_ends();
    ledger.observe(&pod, Swapped::default(), 1);
    ledger.jobs_trouble("watch: connection refused");
    assert_eq!(
        ledger.answer(&pod, 1),
        Headroom::JobUnknown {
            trouble: Some("watch: connection refused".into())
        }
    );
    ledger.jobs_watched();
    assert_eq!(
        ledger.answer(&pod, 1),
        Headroom::JobUnknown { trouble: None }
    );

    // Those of a namespace stay hidden, whatever is watched in others.
    ledger.jobs_hidden("jobs is forbidden");
    ledger.jobs_watched();
    assert_eq!(
        ledger.answer(&pod, 1),
        Headroom::JobUnknown {
            trouble: Some("jobs is forbidden".into())
        }
    );
    ledger.job_list_starts();
    ledger.job_list_ends();
    assert_eq!(
        ledger.answer(&pod, 1),
        Headroom::JobUnknown { trouble: None }
    );
}

#[test]
fn pods_that_a_list_does_not_name_count_no_more() {
    let gone = restarted(of_job("gone").with(main_container("main").running()), 5).read();
    let pod = done("a").read();
    let mut ledger = ledger(6, &[pod.clone(), gone]);
    ledger.need(&pod, Need::Waits(1));
    assert_eq!(never_fits(&ledger.answer(&pod, 1)), 7);
    ledger.take_wakes();
    ledger.pod_list_starts();
    ledger.observe(&pod, Swapped::default(), 1);
    ledger.pod_list_ends(1);
    assert_eq!(ledger.take_wakes(), ["a".into()]);
    assert_eq!(ledger.answer(&pod, 1), Headroom::Fits);
}

/// Whoever may read the uid of a Job can write it into pods of another namespace.
#[test]
fn a_pod_of_another_namespace_takes_no_room_of_a_job() {
    let pod = done("a").read();
    let stranger = restarted(done("b"), 5).set("/metadata/namespace", "other");
    let stranger = stranger.read();
    let mut ledger = Ledger::default();
    ledger.observe(&stranger, Swapped::default(), 0);
    ledger.job(&Job {
        uid: JOB.into(),
        namespace: "batch".into(),
        backoff_limit: 2,
        failures_borne: 6,
    });
    for pod in [&pod, &stranger] {
        ledger.observe(pod, Swapped::default(), 0);
    }
    ledger.pod_list_ends(0);
    ledger.need(&pod, Need::Waits(1));
    assert_eq!(ledger.answer(&pod, 1), Headroom::Fits);
    assert_eq!(ledger.answer(&stranger, 1), Headroom::TooEarly);
    assert!(!ledger.first_time(&stranger, Reason::NoHeadroom));
    assert!(ledger.first_time(&pod, Reason::NoHeadroom));
}

#[test]
fn what_is_true_of_a_job_is_told_once_for_each_limit() {
    let pods = reads(&[done("a"), done("b")]);
    let mut ledger = ledger(0, &pods);
    assert!(ledger.first_time(&pods[0], Reason::NoHeadroom));
    assert!(!ledger.first_time(&pods[1], Reason::NoHeadroom));
    ledger.job(&Job {
        uid: JOB.into(),
        namespace: Box::default(),
        backoff_limit: 0,
        failures_borne: 6,
    });
    assert!(!ledger.first_time(&pods[1], Reason::NoHeadroom));
    ledger.job(&Job {
        uid: JOB.into(),
        namespace: Box::default(),
        backoff_limit: 1,
        failures_borne: 6,
    });
    assert!(ledger.first_time(&pods[1], Reason::NoHeadroom));
}

/// One that tests its node; a rule that may end the Job leaves no failure.
#[test]
fn t1_a_job_bears_a_failure_that_leaves_it_half_of_its_limit() {
    for (backoff_limit, failures_borne, expected) in [
        (0, 0, false),
        (1, 1, false),
        (2, 2, true),
        (3, 2, false),
        (4, 3, true),
        (6, 4, true),
        (6, 3, false),
        (6, 0, false),
    ] {
        let mut ledger = ledger(0, &[]);
        ledger.job(&Job {
            uid: JOB.into(),
            namespace: Box::default(),
            backoff_limit,
            failures_borne,
        });
        let pod = done("a").read();
        let borne = ledger.bears_failure(&pod);
        assert_eq!(borne, expected, "{backoff_limit} {failures_borne}");
        ledger.pod_list_starts();
        assert!(!ledger.bears_failure(&pod));
    }
}
