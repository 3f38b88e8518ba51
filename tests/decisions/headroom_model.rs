//! The ledger against a small model of the Job controller, of nodes and of a watch that lags: every
//! order of events.
//!
//! What is explored: main containers end, nodes restart what was swapped, containers restart by
//! themselves, pods are deleted, writes are applied, refused or lost, the limit is raised, the
//! controller is killed and started, and each event of a pod is seen any time later, in order. What
//! must hold: no Job fails by swaps that the ledger granted, and at the end nobody waits who could
//! go on.

mod controller;
mod world;

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use proptest::prelude::*;

use self::world::{Left, World};

/// What was explored.
#[derive(Debug, Default)]
struct Explored {
    states: usize,
    /// Ends at which all pods had ended.
    complete: usize,
    /// Ends at which a pod had to be given up, and was.
    given_up: usize,
    /// Jobs that failed by restarts that no write could know of.
    failed_by_others: usize,
    /// Jobs that the swaps failed.
    failed_by_swaps: usize,
}

/// Goes through every state that can be reached.
fn explore(start: World) -> Explored {
    let started = tokio::time::Instant::now();
    let mut explored = Explored::default();
    let mut met = HashSet::new();
    let mut open = vec![start];
    while let Some(world) = open.pop() {
        if met.insert(fingerprint(&world)) {
            explored.states += 1;
            open.extend(visit(&world, &mut explored));
        }
    }
    println!("{explored:?} {:?}", started.elapsed());
    explored
}

fn fingerprint(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}

/// Judges a state, and gives those that come after it.
fn visit(world: &World, explored: &mut Explored) -> Vec<World> {
    let failed = world.fails(world.sum(true));
    if failed {
        let by_swaps = world.fails(world.sum(false));
        *if by_swaps {
            &mut explored.failed_by_swaps
        } else {
            &mut explored.failed_by_others
        } += 1;
        return Vec::new();
    }
    let steps = world.steps();
    if world.is_at_rest(&steps) {
        world.check_rest();
        *if world.all_ended() {
            &mut explored.complete
        } else {
            &mut explored.given_up
        } += 1;
    }
    steps.into_iter().map(|step| world.after(step)).collect()
}

const UNDISTURBED: Left = Left {
    restarts: 0,
    deletions: 0,
    refusals: 0,
    losses: 0,
    kills: 0,
    raises: 0,
    undoings: 0,
    bad_ends: 0,
};

/// Explores with each of the limits; no Job may fail by the swaps.
fn explore_all(
    limits: std::ops::RangeInclusive<u32>,
    pods: usize,
    sidecars: u8,
    left: Left,
) -> Vec<Explored> {
    let explore = |limit| {
        let explored = explore(World::new(limit, pods, sidecars, left));
        assert_eq!(
            explored.failed_by_swaps, 0,
            "limit {limit}, {pods} pods with {sidecars} sidecars, {left:?}: {explored:?}"
        );
        explored
    };
    limits.map(explore).collect()
}

#[test]
fn pods_end_wherever_the_limit_allows_one_swap() {
    for pods in [2, 3] {
        for (limit, explored) in explore_all(0..=3, pods, 1, UNDISTURBED).iter().enumerate() {
            let all_end = explored.complete > 0 && explored.given_up == 0;
            let none_ends = explored.complete == 0 && explored.given_up > 0;
            assert!(
                if limit < 2 { none_ends } else { all_end },
                "{pods} pods, limit {limit}: {explored:?}"
            );
        }
    }
}

#[test]
fn restarts_by_themselves_are_counted() {
    let explored = explore_all(
        0..=5,
        2,
        2,
        Left {
            restarts: 1,
            ..UNDISTURBED
        },
    );
    assert!(
        explored[2].complete == 0 && explored[2].given_up > 0,
        "{explored:?}"
    );
    assert!(
        explored[4].complete > 0 && explored[4].given_up == 0,
        "{explored:?}"
    );
}

/// While main containers run, half of the room is left to them; so one that fails at the moment of
/// a swap fails no Job with room for both.
#[test]
fn a_main_that_restarts_at_the_moment_of_a_swap_fails_no_job() {
    let start = World {
        only_mains_restart: true,
        ..World::new(
            3,
            3,
            1,
            Left {
                restarts: 1,
                ..UNDISTURBED
            },
        )
    };
    let explored = explore(start);
    assert_eq!(
        (explored.failed_by_others, explored.failed_by_swaps),
        (0, 0),
        "{explored:?}"
    );
    assert!(explored.complete > 0, "{explored:?}");
}

/// Where the phase ends a pod as well, not even the last restart is taken from a main that runs.
#[test]
fn a_main_that_restarts_fails_no_job_of_any_limit_where_the_phase_may_be_written() {
    let explored = |limit, finishes| {
        explore(World {
            only_mains_restart: true,
            finishes,
            ..World::new(
                limit,
                2,
                1,
                Left {
                    restarts: 1,
                    ..UNDISTURBED
                },
            )
        })
    };
    assert!(explored(2, false).failed_by_others > 0);
    for limit in 2..=4 {
        let explored = explored(limit, true);
        assert_eq!(
            (
                explored.failed_by_others,
                explored.failed_by_swaps,
                explored.given_up
            ),
            (0, 0, 0),
            "limit {limit}: {explored:?}"
        );
    }
}

#[test]
fn refused_and_lost_writes_neither_leak_nor_block() {
    for explored in explore_all(
        2..=3,
        2,
        1,
        Left {
            losses: 1,
            refusals: 1,
            ..UNDISTURBED
        },
    ) {
        assert!(
            explored.complete > 0 && explored.given_up == 0,
            "{explored:?}"
        );
    }
    explore_all(
        2..=2,
        2,
        1,
        Left {
            restarts: 1,
            losses: 2,
            ..UNDISTURBED
        },
    );
}

#[test]
fn a_killed_controller_takes_up_where_it_was() {
    for explored in explore_all(
        2..=3,
        2,
        1,
        Left {
            kills: 1,
            losses: 1,
            ..UNDISTURBED
        },
    ) {
        assert!(
            explored.complete > 0 && explored.given_up == 0,
            "{explored:?}"
        );
    }
    explore_all(
        2..=2,
        2,
        1,
        Left {
            kills: 1,
            restarts: 1,
            deletions: 1,
            ..UNDISTURBED
        },
    );
}

#[test]
fn a_raised_limit_lets_those_go_on_that_were_given_up() {
    for explored in explore_all(
        0..=1,
        2,
        1,
        Left {
            raises: 1,
            ..UNDISTURBED
        },
    ) {
        assert!(explored.complete > 0, "{explored:?}");
    }
}

/// A webhook that undoes a write, or all of it but one swap, once or twice: what was stored counts
/// before the watch shows it, and the rest is written once there is room.
#[test]
fn what_a_webhook_undoes_neither_leaks_nor_blocks() {
    let undoings = |undoings| Left {
        undoings,
        ..UNDISTURBED
    };
    for (sidecars, limits) in [(1, 2..=3), (2, 3..=4)] {
        for explored in explore_all(limits, 2, sidecars, undoings(2)) {
            assert!(explored.complete > 0, "{explored:?}");
        }
    }
    for left in [
        Left {
            restarts: 1,
            ..undoings(1)
        },
        Left {
            losses: 1,
            ..undoings(1)
        },
        Left {
            kills: 1,
            ..undoings(1)
        },
    ] {
        explore_all(3..=4, 2, 2, left);
    }
}

/// Whose swaps are undone for good ends by its phase, or else waits and is told so; the others go
/// on. What was stored of its swaps is the last restart that it causes.
#[test]
fn a_webhook_that_undoes_a_swap_for_good_stops_nobody_else() {
    for (pods, sidecars, limit) in [(3, 1, 2), (3, 1, 3), (2, 2, 3), (2, 2, 4)] {
        for finishes in [false, true] {
            let explored = explore(World {
                undoes: true,
                finishes,
                ..World::new(limit, pods, sidecars, UNDISTURBED)
            });
            assert_eq!(explored.failed_by_swaps, 0, "{explored:?}");
            assert_eq!(
                explored.complete > 0 && explored.given_up == 0,
                finishes,
                "{pods} pods with {sidecars} sidecars, limit {limit}: {explored:?}"
            );
        }
    }
}

/// An exit image that ends badly is started once more, after a back-off: that counts from when its
/// end is shown, and where it was to be feared it is reserved.
#[test]
fn an_exit_image_that_ends_badly_once_fails_no_job_where_that_can_be_known() {
    let left = Left {
        bad_ends: 1,
        ..UNDISTURBED
    };
    for (pods, sidecars, limits) in [(2, 2, 0..=5), (3, 1, 0..=3)] {
        explore_all(limits, pods, sidecars, left);
    }
    for (pods, sidecars, limit) in [(2, 1, 3), (2, 1, 5), (2, 2, 5), (3, 1, 3)] {
        let explored = explore(World {
            doubtful: true,
            ..World::new(limit, pods, sidecars, left)
        });
        assert_eq!(
            (explored.failed_by_others, explored.failed_by_swaps),
            (0, 0),
            "{explored:?}"
        );
        assert!(
            explored.complete > 0 && explored.given_up == 0,
            "{pods} pods with {sidecars} sidecars, limit {limit}: {explored:?}"
        );
    }
}

/// The model can tell: without the ledger the Job fails.
#[test]
fn without_the_ledger_the_swaps_fail_the_job() {
    for limit in 1..=2 {
        let explored = explore(World {
            naive: true,
            ..World::new(limit, 2, 1, UNDISTURBED)
        });
        assert!(explored.failed_by_swaps > 0, "{explored:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 300 } else { 5000 }))]

    /// The same with more pods and every disturbance, along random paths to their end.
    #[test]
    fn random_paths(limit in 0..9_u32, pods in 1..6_usize, sidecars in 1..4_u8, choices in prop::collection::vec(any::<u16>(), 400)) {
        let left = Left { restarts: 2, deletions: 1, refusals: 2, losses: 2, kills: 1, raises: 1, undoings: 2, bad_ends: 1 };
        let mut world = World::new(limit, pods, sidecars, left);
        let mut explored = Explored::default();
        for choice in choices {
            let mut next = visit(&world, &mut explored);
            if next.is_empty() {
                break;
            }
            world = next.swap_remove(usize::from(choice) % next.len());
        }
        prop_assert_eq!(explored.failed_by_swaps, 0, "{:#?}", world);
    }
}
