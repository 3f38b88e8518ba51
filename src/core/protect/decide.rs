//! What is written on a protected object.
//!
//! The policy lets a deletion through by one text alone, which says of this very object (by its
//! uid) that there is nothing in it. So that text is written late and taken back at once, and
//! wherever it is not known whether it still holds.

use std::time::Duration;

use super::object::{Guarded, GuardedKind, Mode};

/// There has to be nothing for so long before that is said: what comes and goes costs no two writes
/// each time.
pub const SETTLED: Duration = Duration::from_secs(1);
/// Another number than the one that is said, as long as both keep the object, is written so often at
/// most.
pub const RENEWED: Duration = Duration::from_secs(30);

/// How many are in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Of a namespace its pods that have not ended, of a CRD its objects; none of them is being
    /// deleted.
    pub objects: usize,
    /// Of a namespace its PersistentVolumeClaims that are bound, and not being deleted.
    pub claims: usize,
}

impl Counts {
    const NONE: Self = Self {
        objects: 0,
        claims: 0,
    };
}

/// What the annotation says of these counts.
#[must_use]
pub fn text(object: &Guarded, counts: Counts) -> String {
    let Counts { objects, claims } = counts;
    let uid = &object.uid;
    match object.kind {
        GuardedKind::Namespace => format!("pods={objects},pvcs={claims},uid={uid}"),
        GuardedKind::CustomResourceDefinition => format!("objects={objects},uid={uid}"),
    }
}

/// Whether what it says lets the object be deleted.
#[must_use]
pub fn lets_go(object: &Guarded) -> bool {
    let said = object.holds.as_deref();
    said.is_some_and(|said| says_nothing(object, said))
}

/// Whether a text says that there is nothing in the object.
#[must_use]
pub fn says_nothing(object: &Guarded, said: &str) -> bool {
    said == text(object, Counts::NONE)
}

/// What was done about an object so far; it may be lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Since when there is nothing in it.
    pub empty_since: Option<Duration>,
    /// When a number was written last.
    pub written: Option<Duration>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing, until something changes.
    Rest,
    /// Nothing before this time.
    Wait(Duration),
    /// Write this text; without one, take the annotation away.
    Write(Option<String>),
}

/// What is to be done about an object of which this much is known.
pub fn decide(
    object: &Guarded,
    counts: Option<Counts>,
    memory: &mut Memory,
    now: Duration,
) -> Step {
    if counts != Some(Counts::NONE) {
        memory.empty_since = None;
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
        None if lets_go(object) => Step::Write(None),
        None => Step::Rest,
        Some(Counts::NONE) => empty(object, memory, now),
        Some(counts) => busy(object, counts, memory, now),
    }
}

fn empty(object: &Guarded, memory: &mut Memory, now: Duration) -> Step {
    if lets_go(object) {
        return Step::Rest;
    }
    let settled = *memory.empty_since.get_or_insert(now) + SETTLED;
    if now < settled {
        return Step::Wait(settled);
    }
    Step::Write(Some(text(object, Counts::NONE)))
}

fn busy(object: &Guarded, counts: Counts, memory: &mut Memory, now: Duration) -> Step {
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
