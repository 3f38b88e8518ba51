//! The decision about a pod whose Job lacks room for the restarts of its swaps.

use std::time::Duration;

use super::time::{graces, patience};
use crate::cluster::headroom::{Headroom, Shortage};
use crate::objects::moment::Moment;
use crate::report::decision::{Decision, Report};
use crate::report::reason::Reason;
use crate::terminate::circumstances::Case;
use crate::terminate::memory::Memory;
use crate::terminate::methods::{AllowedMethods, Step, finish};

/// How long a Job may stay unobserved until that is reported: a list of a large cluster, or a new
/// Job whose pod ends at once.
const JOB_APPEARS: Duration = Duration::from_secs(30);
/// How long a pod waits for others of its Job, besides the time that one of them may take to end:
/// these do not end (their node is dead, or somebody keeps them), or others are served again and
/// again.
const WAITS: Duration = Duration::from_secs(120);
/// How long a pod waits for pods that are being deleted, besides their grace period.
const DELETED: Duration = Duration::from_secs(30);
/// The most that a pod's own grace periods add to these waits.
const LONGEST: Duration = Duration::from_secs(600);

/// Decides what to do if this many restarts do not fit into what the pod's Job allows; `None` if
/// they do. A wait has an end: then the next method is tried, and room that comes is still taken.
pub(crate) fn no_room(case: Case<'_>, restarts: u32) -> Option<Step> {
    let (pod, memory, around) = (case.pod, case.memory, case.around);
    let wait = |until| {
        Step::Here(Decision {
            swaps_wanted: restarts,
            ..Decision::later(Reason::HeadroomWait, until)
        })
    };
    let next = |report| Step::Next {
        reports: vec![report],
        again: None,
    };
    let done_at = memory.mains_done_at.unwrap_or(around.now);
    match headroom(case, restarts) {
        Headroom::Free | Headroom::Fits => None,
        Headroom::Wait(shortage) => {
            let patience = if shortage.under_way > 0 {
                patience(pod).min(LONGEST) + WAITS
            } else {
                graces(pod).min(LONGEST) + DELETED
            };
            let until = done_at + patience;
            Some(if around.now < until {
                wait(until)
            } else {
                next(waited(case, &shortage, patience))
            })
        }
        Headroom::TooEarly => {
            let until = done_at + patience(pod).min(LONGEST) + WAITS;
            Some(if around.now < until {
                wait(until)
            } else {
                next(too_early())
            })
        }
        Headroom::NeverFits(shortage) => Some(next(no_headroom(case, &shortage))),
        Headroom::JobUnknown { trouble } => {
            Some(job_unknown(trouble.as_deref(), memory, around.now))
        }
    }
}

/// Returns the answer of the ledger to a pod whose swaps may cause this many restarts. Where the
/// phase ends it too, the last restart is left to main containers of the Job that run.
pub(crate) fn headroom(case: Case<'_>, restarts: u32) -> Headroom {
    let ledger = case.around.headroom;
    if finish::may_end(case) {
        ledger.answer_sparing(case.pod, restarts)
    } else {
        ledger.answer(case.pod, restarts)
    }
}

/// Reports that the swaps never fit, in words that hold for all pods of the Job.
fn no_headroom(case: Case<'_>, shortage: &Shortage) -> Report {
    let mut note = format!(
        "the main containers of a pod are done, but swapping its sidecars {} fail the Job: {shortage}",
        shortage.may(),
    );
    // Where the phase ends the pod nothing is to be done.
    if !finish::may_end(case) {
        let raise = raise(shortage, case.around.allowed);
        note.push_str(&format!(". {raise}, or end the sidecars yourself"));
    }
    Report {
        reason: Reason::NoHeadroom,
        note,
    }
}

/// Reports that no room has come for this pod.
fn waited(case: Case<'_>, shortage: &Shortage, patience: Duration) -> Report {
    let mut note = format!(
        "the main containers of a pod are done, but swapping its sidecars would fail the Job: {shortage}. It has waited {} s for the pods with these restarts to end: \
         check them (is a node dead?)",
        patience.as_secs(),
    );
    if !finish::may_end(case) {
        let raise = raise(shortage, case.around.allowed);
        note.push_str(&format!(", delete them with force, or: {raise}"));
    }
    Report {
        reason: Reason::NoHeadroom,
        note,
    }
}

fn raise(shortage: &Shortage, allowed: &AllowedMethods) -> String {
    let finish = if allowed.finish {
        ""
    } else {
        ", start the controller without --finish=never"
    };
    format!(
        "Raise spec.backoffLimit to at least {}{finish}",
        shortage.limit_needed()
    )
}

fn too_early() -> Report {
    let note =
        "the main containers of a pod are done, but it is not known how many restarts the Job allows, because pods or Jobs are still being listed: \
                /readyz of the controller says what prevents it"
            .to_owned();
    Report {
        reason: Reason::JobUnknown,
        note,
    }
}

/// Waits for the Job to appear, then reports what is missing: no swap is made on a guess.
fn job_unknown(trouble: Option<&str>, memory: &Memory, now: Moment) -> Step {
    let until = memory.mains_done_at.unwrap_or(now) + JOB_APPEARS;
    if now < until {
        return Step::Here(Decision::later(Reason::JobUnknown, until));
    }
    let fix = trouble.map_or_else(
        || "was deleted without its pods: delete these too, or end their sidecars yourself".to_owned(),
        |trouble| format!("cannot be read ({trouble}): allow the controller to list and watch jobs of the group batch"),
    );
    let note = format!(
        "the main containers of a pod are done, but it is not known how many restarts the Job allows, because it {fix}"
    );
    Step::Next {
        reports: vec![Report {
            reason: Reason::JobUnknown,
            note,
        }],
        again: None,
    }
}
