//! The decision what to write on a protected object.
//!
//! The policy allows a deletion by one text alone, which states for this very object (by its uid)
//! that it is empty. So that text is written late, and removed at once when it may not hold any
//! more.

use std::time::Duration;

use super::object::{Guarded, GuardedKind, Mode};
use crate::objects::moment::Moment;

/// How long an object has to be empty before that is written, so that short-lived contents do not
/// cost two writes each time.
pub const SETTLED: Duration = Duration::from_secs(1);
/// The shortest interval between writes of counts, while both the old and the new one keep the
/// object.
pub const RENEWED: Duration = Duration::from_secs(30);
/// How long the contents may be unknown before it is withdrawn that there are none. A list, or a
/// watch that is opened anew, takes less: where something ends silent watches, that comes again and
/// again, and the object stays as it is.
pub const UNKNOWN: Duration = Duration::from_secs(2);
/// The shortest interval after which an object is said to be empty again, if that was withdrawn and
/// nothing was seen in it: with the withdrawal that is one write a minute.
pub const AGAIN: Duration = Duration::from_secs(120);

/// The counted contents of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// The pods of a namespace that have not ended, or the objects of a CRD; none of them is being
    /// deleted.
    pub objects: usize,
    /// The PersistentVolumeClaims of a namespace that are bound, and not being deleted.
    pub claims: usize,
}

impl Counts {
    const NONE: Self = Self {
        objects: 0,
        claims: 0,
    };
}

/// Returns the value of the annotation for these counts.
pub fn text(object: &Guarded, counts: Counts) -> String {
    let Counts { objects, claims } = counts;
    let uid = &object.uid;
    match object.kind {
        GuardedKind::Namespace => format!("pods={objects},pvcs={claims},uid={uid}"),
        GuardedKind::CustomResourceDefinition => format!("objects={objects},uid={uid}"),
    }
}

/// Returns true if the present annotation allows the deletion.
pub fn lets_go(object: &Guarded) -> bool {
    let said = object.holds.as_deref();
    said.is_some_and(|said| says_nothing(object, said))
}

/// Returns true if a text states that the object is empty.
pub fn says_nothing(object: &Guarded, said: &str) -> bool {
    said == text(object, Counts::NONE)
}

/// The memory of an object, which may be lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The time since when the object has been empty.
    pub empty_since: Option<Moment>,
    /// When a count was written last.
    pub written: Option<Moment>,
    /// When it was written that the object is empty; `None` if that failed, or does not hold any more.
    pub said_empty: Option<Moment>,
    /// The time since when its contents have been unknown while it is said to be empty.
    pub unknown_since: Option<Moment>,
    /// When it may be said to be empty again.
    pub again: Moment,
}

/// The next step for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Do nothing until something changes.
    Rest,
    /// Do nothing before this time.
    Wait(Moment),
    /// Write this text; `None` removes the annotation.
    Write(Option<String>),
}

/// Decides what to do about an object; `counts` is `None` while its contents are unknown.
pub fn decide(object: &Guarded, counts: Option<Counts>, memory: &mut Memory, now: Moment) -> Step {
    if counts != Some(Counts::NONE) {
        memory.empty_since = None;
    }
    if counts.is_some() {
        memory.unknown_since = None;
    }
    if counts.is_some_and(|counts| counts != Counts::NONE) {
        (memory.said_empty, memory.again) = (None, Moment::START);
    }
    if object.deleting {
        return Step::Rest;
    }
    if object.mode != Some(Mode::Cascading) {
        return match object.holds {
            Some(_) => Step::Write(None),
            None => Step::Rest,
        };
    }
    match counts {
        None if lets_go(object) => unknown(memory, now),
        None => Step::Rest,
        Some(Counts::NONE) => empty(object, memory, now),
        Some(counts) => busy(object, counts, memory, now),
    }
}

/// Withdraws that the object is empty: after a moment, or at once what an earlier life has said.
fn unknown(memory: &mut Memory, now: Moment) -> Step {
    if let Some(said) = memory.said_empty {
        let until = *memory.unknown_since.get_or_insert(now) + UNKNOWN;
        if now < until {
            return Step::Wait(until);
        }
        (memory.said_empty, memory.again) = (None, said + AGAIN);
    }
    Step::Write(None)
}

fn empty(object: &Guarded, memory: &mut Memory, now: Moment) -> Step {
    if lets_go(object) {
        return Step::Rest;
    }
    let settled = *memory.empty_since.get_or_insert(now) + SETTLED;
    let until = settled.max(memory.again);
    if now < until {
        return Step::Wait(until);
    }
    memory.said_empty = Some(now);
    Step::Write(Some(text(object, Counts::NONE)))
}

fn busy(object: &Guarded, counts: Counts, memory: &mut Memory, now: Moment) -> Step {
    let wanted = text(object, counts);
    match object.holds.as_deref() {
        Some(said) if said == wanted => return Step::Rest,
        Some(_) if !lets_go(object) => {
            let again = memory.written.map_or(now, |written| written + RENEWED);
            if now < again {
                return Step::Wait(again);
            }
        }
        Some(_) | None => {}
    }
    memory.written = Some(now);
    Step::Write(Some(wanted))
}
