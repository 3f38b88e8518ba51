//! What the API server makes of a write, with the webhooks and proxies before it.

use swaplet_controller::frame::writer::Outcome;
use swaplet_controller::terminate::index::Write;
use swaplet_core::report::decision::{Action, Finish, Swap};
use swaplet_core::report::denial::UNDONE;
use swaplet_core::report::write_error::WriteError;

use super::world::{Event, World};

/// What becomes of all writes of a kind in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Applied,
    /// A webhook or a policy forbids them.
    Denied,
    /// Whoever answers has failed; nothing is written.
    Failed,
    /// The connection is closed; some are written.
    Silent,
    /// A webhook writes the name of a mirror.
    Renamed,
    /// A webhook puts the image back that was there.
    Undone,
}

impl Answer {
    pub const ALL: [Self; 6] = [
        Self::Applied,
        Self::Denied,
        Self::Failed,
        Self::Silent,
        Self::Renamed,
        Self::Undone,
    ];

    /// What is asked for is there sooner or later.
    pub const fn lets_through(self) -> bool {
        matches!(self, Self::Applied | Self::Silent | Self::Renamed)
    }
}

/// A namespace, and what becomes of writes in it.
#[derive(Clone, Debug)]
pub struct Namespace {
    pub name: String,
    pub to_swaps: Answer,
    pub to_finishes: Answer,
}

fn failed(error: &str) -> WriteError {
    WriteError::Failed {
        error: error.to_owned(),
        retry_after: None,
    }
}

impl World {
    /// A write reaches the API server.
    pub fn apply(&mut self, id: u64) {
        let Some(write) = self.writes.get(&id).map(|one| one.write.clone()) else {
            return;
        };
        let at = self
            .pods
            .iter()
            .position(|pod| *pod.uid == *write.target.uid);
        let outcome = self.answer(at.unwrap(), &write);
        if let Some(one) = self.writes.get_mut(&id) {
            one.outcome = Some(outcome);
        }
    }

    fn answer(&mut self, at: usize, write: &Write) -> Outcome {
        if self.pods[at].gone {
            return Err(WriteError::Gone);
        }
        match &write.action {
            Action::Swap(swaps) => self.answer_swap(at, swaps),
            Action::Finish(finish) => self.answer_finish(at, finish),
            Action::Recreate(_) => Err(WriteError::Denied("no daemon".to_owned())),
        }
    }

    fn answer_swap(&mut self, at: usize, swaps: &[Swap]) -> Outcome {
        let has_changed = |swap: &Swap| self.pods[at].containers[swap.index].image != *swap.from;
        if swaps.iter().any(has_changed) {
            return Err(WriteError::Conflict);
        }
        let answer = self.namespaces[self.pods[at].namespace].to_swaps;
        let as_stored = |swap: &Swap| match answer {
            Answer::Renamed => format!("mirror.example/{}", swap.to).into(),
            _ => swap.to.clone(),
        };
        let stored: Vec<Box<str>> = swaps.iter().map(as_stored).collect();
        // Also where the new name is the one that it had.
        let mut pairs = swaps.iter().zip(&stored);
        let is_undone =
            answer == Answer::Undone || pairs.all(|(swap, stored)| *stored == swap.from);
        match answer {
            Answer::Denied => return Err(WriteError::Denied("denied by policy".to_owned())),
            Answer::Failed => return Err(failed("503")),
            Answer::Silent if self.more.chance(700) => return Err(failed("closed")),
            // As the writer says it.
            _ if is_undone => {
                let words = format!("{UNDONE}: spec.containers.image is as it was");
                return Err(WriteError::Denied(words));
            }
            Answer::Applied | Answer::Renamed | Answer::Silent | Answer::Undone => {}
        }
        self.check_swap(at, &swaps.iter().map(|swap| swap.index).collect::<Vec<_>>());
        for (swap, image) in swaps.iter().zip(&stored) {
            let container = &mut self.pods[at].containers[swap.index];
            container.image = image.to_string();
            container.swapped_at = Some(self.now);
        }
        self.log(|| {
            let names = swaps.iter().map(|swap| &*swap.container);
            format!(
                "APPLIED swap pod-{at} {}",
                names.collect::<Vec<_>>().join(" ")
            )
        });
        self.changed(at);
        let ms = if self.dice.chance(100) {
            self.dice.between(1000, 40_000)
        } else {
            self.dice.between(50, 1500)
        };
        self.after(ms, Event::Syncs(at));
        if answer == Answer::Silent {
            return Err(failed("closed"));
        }
        Ok(stored)
    }

    fn answer_finish(&mut self, at: usize, finish: &Finish) -> Outcome {
        let version = self.pods[at].version.to_string();
        if finish.version.as_ref().is_some_and(|of| **of != *version) {
            return Err(WriteError::Conflict);
        }
        let answer = self.namespaces[self.pods[at].namespace].to_finishes;
        match answer {
            Answer::Denied => return Err(WriteError::Denied("denied by policy".to_owned())),
            Answer::Failed => return Err(failed("503")),
            Answer::Silent if self.more.chance(700) => return Err(failed("closed")),
            _ => {}
        }
        self.check_finish(at, finish);
        let now = self.now;
        let pod = &mut self.pods[at];
        if pod.phase == "Running" {
            pod.phase = finish.phase.as_str();
            (pod.written, pod.ended_at) = (true, Some(now));
        }
        self.log(|| format!("APPLIED finish pod-{at}"));
        self.changed(at);
        let ms = self.dice.between(50, 1500);
        self.after(ms, Event::IsTakenDown(at));
        if answer == Answer::Silent {
            return Err(failed("closed"));
        }
        Ok(Vec::new())
    }
}
