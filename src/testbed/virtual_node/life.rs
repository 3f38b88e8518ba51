//! One run of a container, from its start to its end. The end is known in advance, as long as
//! nothing more is done to it.

use jiff::Timestamp;

use super::behaviour::Behaviour;
use super::times::later;

/// The exit code of a process that SIGKILL ends.
const KILLED: i32 = 128 + 9;

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The time of the end.
    pub at: Timestamp,
    /// The exit code.
    pub code: i32,
}

/// A running container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    started: Timestamp,
    behaviour: Behaviour,
    code: i32,
    stop: Option<Stop>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stop {
    term: Timestamp,
    kill: Timestamp,
}

impl Life {
    /// Returns the `n`th start of a container, from 0.
    pub fn start(behaviour: Behaviour, n: usize, started: Timestamp) -> Self {
        Self {
            started,
            code: behaviour.exit_code(n),
            behaviour,
            stop: None,
        }
    }

    /// Sends SIGTERM and, later, SIGKILL. A second stop can only bring either forward.
    pub fn stop(&mut self, term: Timestamp, kill: Timestamp) {
        let before = self.stop.unwrap_or(Stop { term, kill });
        self.stop = Some(Stop {
            term: term.min(before.term),
            kill: kill.min(before.kill),
        });
    }

    /// Returns true if SIGTERM is scheduled.
    pub const fn is_stopping(&self) -> bool {
        self.stop.is_some()
    }

    /// Returns its end if nothing more is done to it; `None` if it has none.
    pub fn end(&self) -> Option<End> {
        let natural = self.behaviour.run.map(|run| End {
            at: later(self.started, run),
            code: self.code,
        });
        let stopped = self.stop.map(|stop| self.end_after(stop));
        match (natural, stopped) {
            (Some(natural), Some(stopped)) if natural.at <= stopped.at => Some(natural),
            (natural, stopped) => stopped.or(natural),
        }
    }

    fn end_after(&self, stop: Stop) -> End {
        let killed = End {
            at: stop.kill,
            code: KILLED,
        };
        let Some(code) = self.behaviour.term else {
            return killed;
        };
        let at = later(stop.term, self.behaviour.term_after);
        if at > stop.kill {
            killed
        } else {
            End { at, code }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn life(run: Option<u64>, term: Option<i32>, after: u64) -> Life {
        let behaviour = Behaviour {
            run: run.map(Duration::from_secs),
            exit: vec![7],
            term,
            term_after: Duration::from_secs(after),
        };
        Life::start(behaviour, 0, at(0))
    }

    #[test]
    fn ends_by_itself_by_sigterm_or_by_sigkill_whichever_is_first() {
        let stopped = |mut life: Life| {
            life.stop(at(10), at(14));
            life.end().map(|end| (end.at, end.code))
        };
        assert_eq!(life(None, None, 0).end(), None);
        assert_eq!(stopped(life(Some(5), Some(143), 0)), Some((at(5), 7)));
        assert_eq!(stopped(life(Some(50), Some(143), 1)), Some((at(11), 143)));
        assert_eq!(stopped(life(None, Some(0), 9)), Some((at(14), 137)));
        assert_eq!(stopped(life(None, None, 0)), Some((at(14), 137)));
        assert_eq!(stopped(life(Some(12), None, 0)), Some((at(12), 7)));
    }
}
