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
/// How long a pod waits for those queued before it, besides the time these may take to end: if the
/// queue has not moved in that time, they do not end (their node is dead, or somebody keeps them).
const LINE_STANDS: Duration = Duration::from_secs(120);
/// How long a pod waits for pods that are being deleted, besides their grace period.
const DELETED: Duration = Duration::from_secs(30);
/// The most that a pod's own grace periods add to these waits.
const LONGEST: Duration = Duration::from_secs(600);

/// Decides what to do if this many restarts do not fit into what the pod's Job allows; `None` if
/// they do. A wait has an end: then the next method is tried, and the pod stays queued.
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
    let moved = memory
        .mains_done_at
        .max(around.line_moved)
        .unwrap_or(around.now);
    match headroom(case, restarts) {
        Headroom::Free | Headroom::Fits => None,
        Headroom::Wait(shortage) => {
            let patience = if shortage.under_way > 0 {
                patience(pod).min(LONGEST) + LINE_STANDS
            } else {
                graces(pod).min(LONGEST) + DELETED
            };
            let until = moved + patience;
            Some(if around.now < until {
                wait(until)
            } else {
                next(stands(&shortage, patience, around.allowed))
            })
        }
        Headroom::TooEarly => {
            let until = moved + patience(pod).min(LONGEST) + LINE_STANDS;
            Some(if around.now < until {
                wait(until)
            } else {
                next(too_early())
            })
        }
        Headroom::NeverFits(shortage) => Some(next(no_headroom(&shortage, around.allowed))),
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
fn no_headroom(shortage: &Shortage, allowed: &AllowedMethods) -> Report {
    let note = format!(
        "the main containers of a pod are done, but swapping its sidecars {} fail the Job: {shortage}. {}, or end the sidecars yourself",
        shortage.may(),
        raise(shortage, allowed)
    );
    Report {
        reason: Reason::NoHeadroom,
        note,
    }
}

/// Reports that the pods that this one waits for do not end.
fn stands(shortage: &Shortage, patience: Duration, allowed: &AllowedMethods) -> Report {
    let note = format!(
        "the main containers of a pod are done, but swapping its sidecars would fail the Job: {shortage}. The pods with these restarts have not ended in {} s: \
         check them (is a node dead?), delete them with force, or: {}",
        patience.as_secs(),
        raise(shortage, allowed)
    );
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
