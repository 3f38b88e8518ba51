//! Who leads: the steps of one process, and what two of them do together in any order of events.

use std::time::Duration;

use proptest::prelude::*;
use swaplet_core::cluster::lease::{Election, Lease, Step, Timing};
use swaplet_core::objects::moment::Moment;

use crate::expect::moment;

const TIMING: Timing = Timing {
    lasts: seconds(12),
    leads: seconds(8),
    every: seconds(2),
};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn lease(version: &str, holder: &str) -> Lease {
    Lease {
        version: version.into(),
        holder: holder.into(),
        lasts: Some(seconds(12)),
        transitions: 3,
    }
}

fn take(version: &str, transitions: i32) -> Step {
    Step::Take {
        version: version.into(),
        transitions,
    }
}

fn election() -> Election {
    Election::new("a".into(), TIMING)
}

/// One that has taken the lease at second 0.
fn leader() -> Election {
    let mut election = election();
    election.read(None, moment(0));
    election.wrote(lease("1", "a"), moment(0), moment(0));
    election
}

#[test]
fn the_first_process_reads_creates_and_leads() {
    let mut election = election();
    assert_eq!(election.step(moment(0)), Step::Read);
    election.read(None, moment(0));
    assert_eq!(
        (election.step(moment(0)), election.leads_until()),
        (Step::Create, None)
    );
    election.wrote(lease("1", "a"), moment(0), moment(1));
    assert_eq!(
        election.leads_until(),
        Some(moment(8)),
        "from when it was sent, not from when it was answered"
    );
    assert_eq!(election.step(moment(1)), Step::Wait(moment(2)));
    assert_eq!(election.step(moment(2)), take("1", 3));
}

#[test]
fn a_lease_of_somebody_else_is_taken_when_it_has_not_changed_for_as_long_as_it_lasts() {
    let mut election = election();
    election.read(Some(lease("1", "b")), moment(0));
    assert_eq!(election.step(moment(0)), Step::Wait(moment(2)));
    election.read(Some(lease("1", "b")), moment(2));
    election.read(Some(lease("2", "b")), moment(4));
    for now in [6, 8, 10, 12, 14] {
        assert_eq!(election.step(moment(now)), Step::Read, "at {now}");
        election.read(Some(lease("2", "b")), moment(now));
    }
    assert_eq!(election.step(moment(15)), Step::Wait(moment(16)));
    assert_eq!(election.step(moment(16)), take("2", 4));
    assert_eq!(election.leads_until(), None, "asking is not leading");
}

#[test]
fn a_lease_that_was_given_up_is_taken_at_once() {
    let mut election = election();
    election.read(Some(lease("1", "")), moment(0));
    assert_eq!(election.step(moment(0)), take("1", 4));
}

#[test]
fn a_holder_that_promises_more_is_believed_and_one_that_promises_less_is_not() {
    for (promised, expires) in [(Some(seconds(60)), 60), (Some(seconds(1)), 12), (None, 12)] {
        let mut election = election();
        election.read(
            Some(Lease {
                lasts: promised,
                ..lease("1", "b")
            }),
            moment(0),
        );
        assert_ne!(election.step(moment(expires - 1)), take("1", 4));
        election.read(
            Some(Lease {
                lasts: promised,
                ..lease("1", "b")
            }),
            moment(expires),
        );
        assert_eq!(election.step(moment(expires)), take("1", 4));
    }
}

#[test]
fn a_leader_whose_requests_fail_stops_before_its_lease_is_anybodys() {
    let mut election = leader();
    for now in [2, 4, 6] {
        election.failed(moment(now));
    }
    assert_eq!(election.leads_until(), Some(moment(8)));
    assert!(
        TIMING.leads + seconds(3) < TIMING.lasts,
        "a request that is under way ends before"
    );
    assert_eq!(election.step(moment(6)), Step::Wait(moment(7)));
    assert_eq!(
        election.step(moment(7)),
        Step::Read,
        "whether the last write was applied is read"
    );
    election.read(Some(lease("2", "a")), moment(7));
    assert_eq!(election.step(moment(7)), take("2", 3));
}

#[test]
fn whoever_sees_another_holder_does_not_lead() {
    let mut election = leader();
    assert!(!election.conflict(moment(2)));
    assert_eq!(election.step(moment(2)), Step::Read);
    election.read(Some(lease("9", "b")), moment(2));
    assert_eq!(
        (election.leads_until(), election.held(), election.holder()),
        (None, None, Some("b"))
    );
    election.read(None, moment(4));
    assert_eq!(
        (election.leads_until(), election.step(moment(4))),
        (None, Step::Wait(moment(16)))
    );
}

#[test]
fn u39_a_lease_that_was_deleted_is_created_once_its_holder_has_stopped() {
    let mut election = election();
    let longer = Lease {
        lasts: Some(seconds(60)),
        ..lease("1", "b")
    };
    for (seen, until) in [(lease("1", "b"), 112), (longer, 160)] {
        election.read(Some(seen), moment(98));
        election.read(None, moment(100));
        assert_eq!(election.step(moment(100)), Step::Wait(moment(until)));
        assert_eq!(election.step(moment(until)), Step::Create);
        election.failed(moment(until));
        election.read(None, moment(until + 1));
        assert_eq!(
            election.step(moment(until + 1)),
            Step::Create,
            "it has waited long enough"
        );
    }
    // Its own, and one that was given up.
    let mut election = leader();
    election.read(None, moment(2));
    assert_eq!(election.step(moment(2)), Step::Create);
    election.read(Some(lease("2", "")), moment(3));
    election.read(None, moment(4));
    assert_eq!(election.step(moment(4)), Step::Create);
}

#[test]
fn u38_conflicts_with_nobody_become_failures() {
    let mut election = election();
    election.read(Some(lease("1", "")), moment(0));
    assert!(!election.conflict(moment(0)));
    assert_eq!(election.step(moment(0)), Step::Read, "somebody was faster");
    election.read(Some(lease("1", "")), moment(0));
    assert!(election.conflict(moment(0)));
    assert_eq!(election.step(moment(0)), Step::Wait(moment(1)));
    election.read(Some(lease("2", "b")), moment(1));
    assert!(!election.conflict(moment(20)), "that one was");
}

/// A failure does not make a lease young again that was seen to stand still.
#[test]
fn failures_do_not_put_off_a_take_over() {
    let mut election = election();
    election.read(Some(lease("1", "b")), moment(0));
    for now in [2, 5, 8] {
        election.failed(moment(now));
        election.read(Some(lease("1", "b")), moment(now + 1));
    }
    election.failed(moment(11));
    election.read(Some(lease("1", "b")), moment(12));
    assert_eq!(election.step(moment(12)), take("1", 4));
}

/// The server, and processes whose clocks run at different rates.
struct World {
    stored: Option<Lease>,
    version: u32,
    processes: Vec<(Election, u64)>,
}

/// What happens in one step: which process has its turn, what becomes of its request, and how much
/// time passes.
#[derive(Clone, Copy, Debug)]
struct Turn {
    process: usize,
    fate: Fate,
    millis: u64,
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Answered,
    /// Applied, and nobody learns it.
    AnswerLost,
    Lost,
}

impl World {
    fn new() -> Self {
        let process = |name: &str, rate| (Election::new(name.into(), TIMING), rate);
        Self {
            stored: None,
            version: 0,
            processes: vec![process("a", 95), process("b", 105), process("c", 100)],
        }
    }

    fn clock(rate: u64, now: u64) -> Moment {
        Moment::after_start(Duration::from_millis(now * rate / 100))
    }

    fn take_turn(&mut self, turn: Turn, now: u64) {
        let (election, rate) = self.processes[turn.process].clone();
        let (clock, name) = (Self::clock(rate, now), ["a", "b", "c"][turn.process]);
        let mut after = election.clone();
        match (election.step(clock), turn.fate) {
            (Step::Wait(_), _) => {}
            (_, Fate::Lost) => after.failed(clock),
            (Step::Read, Fate::AnswerLost) => after.failed(clock),
            (Step::Read, Fate::Answered) => after.read(self.stored.clone(), clock),
            (step, fate) => match (self.write(&step, name), fate) {
                (Some(written), Fate::Answered) => after.wrote(written, clock, clock),
                (None, Fate::Answered) => drop(after.conflict(clock)),
                _ => after.failed(clock),
            },
        }
        self.processes[turn.process].0 = after;
    }

    fn write(&mut self, step: &Step, holder: &str) -> Option<Lease> {
        let transitions = match step {
            Step::Take {
                version,
                transitions,
            } if self
                .stored
                .as_ref()
                .is_some_and(|stored| stored.version == *version) =>
            {
                *transitions
            }
            Step::Create if self.stored.is_none() => 0,
            _ => return None,
        };
        self.version += 1;
        let written = Lease {
            version: self.version.to_string().into(),
            holder: holder.into(),
            lasts: Some(TIMING.lasts),
            transitions,
        };
        self.stored = Some(written.clone());
        Some(written)
    }

    fn leaders(&self, now: u64) -> usize {
        let leads = |(election, rate): &&(Election, u64)| {
            election
                .leads_until()
                .is_some_and(|until| Self::clock(*rate, now) < until)
        };
        self.processes.iter().filter(leads).count()
    }
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let fate =
        prop_oneof![6 => Just(Fate::Answered), 1 => Just(Fate::AnswerLost), 1 => Just(Fate::Lost)];
    let turn = (0..3usize, fate, 1..4000u64).prop_map(|(process, fate, millis)| Turn {
        process,
        fate,
        millis,
    });
    prop::collection::vec(turn, 0..200)
}

proptest! {
    /// Clocks may drift by a tenth of their rate.
    #[test]
    fn never_do_two_lead_whatever_is_lost(turns in turns()) {
        let (mut world, mut now) = (World::new(), 0);
        for turn in turns {
            // Whoever has led until now may have stopped meanwhile; nobody new may have begun.
            now += turn.millis;
            prop_assert!(world.leaders(now) <= 1);
            world.take_turn(turn, now);
            prop_assert!(world.leaders(now) <= 1, "{:?}", world.processes);
        }
    }

    #[test]
    fn somebody_leads_soon_after_everything_works_again(turns in turns()) {
        let (mut world, mut now) = (World::new(), 0);
        for turn in turns {
            now += turn.millis;
            world.take_turn(turn, now);
        }
        let end = now + 16_000;
        while now < end {
            now += 100;
            for process in 0..3 {
                world.take_turn(Turn { process, fate: Fate::Answered, millis: 0 }, now);
            }
        }
        prop_assert_eq!(world.leaders(now), 1);
    }
}
