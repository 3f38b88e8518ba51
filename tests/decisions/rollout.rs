//! Which pods are restarted next, and which wait for what.

use proptest::prelude::*;
use swaplet_core::objects::values::amount::Rounding;
use swaplet_core::restart::rollout::{
    Budget, Covered, Hold, Member, Situation, Stage, limit, most, next, place,
};

/// One letter per pod: `w` waits and is ready, `u` waits and is not, `r` is being restarted and
/// still ready, `s` is being restarted and not ready, `o` is over and ready, `x` is over and not
/// ready.
fn members(letters: &str, budgets: &[usize]) -> Vec<Member> {
    let stage = |letter| match letter {
        'w' | 'u' => Stage::Waiting,
        'r' | 's' => Stage::Restarting,
        _ => Stage::Over,
    };
    let member = |(index, letter): (usize, char)| Member {
        name: format!("pod-{index}").into(),
        stage: stage(letter),
        ready: "wro".contains(letter),
        budgets: budgets.to_vec(),
    };
    letters.chars().enumerate().map(member).collect()
}

fn situation(letters: &str, desired: usize, max_unavailable: usize) -> Situation {
    Situation {
        members: members(letters, &[]),
        desired,
        max_unavailable,
        budgets: Vec::new(),
    }
}

fn started(letters: &str, desired: usize, max_unavailable: usize) -> Vec<usize> {
    let step = next(&situation(letters, desired, max_unavailable));
    let waiting = letters
        .chars()
        .filter(|letter| "wu".contains(*letter))
        .count();
    assert_eq!(
        step.start.len() + step.held.len(),
        waiting,
        "{letters}: each pod that waits is started or told why not"
    );
    step.start
}

#[test]
fn as_many_as_the_limit_says_and_no_more() {
    for (letters, desired, limit, wanted) in [
        ("www", 3, 1, &[0][..]),
        ("www", 3, 2, &[0, 1]),
        ("www", 3, 9, &[0, 1, 2]),
        ("", 3, 1, &[]),
        ("ooo", 3, 1, &[]),
        // One that is being restarted counts, whether it is still ready or not any more.
        ("rww", 3, 1, &[]),
        ("sww", 3, 1, &[]),
        ("sww", 3, 2, &[1]),
        ("oww", 3, 1, &[1]),
    ] {
        assert_eq!(
            started(letters, desired, limit),
            wanted,
            "{letters} {desired} {limit}"
        );
    }
}

#[test]
fn pods_that_are_not_ready_count_as_unavailable_and_come_first() {
    for (letters, desired, limit, wanted) in [
        // Its restart takes nothing away.
        ("wuw", 3, 1, &[1][..]),
        ("wuu", 3, 1, &[1]),
        ("wuu", 3, 2, &[1, 2]),
        ("wuu", 3, 3, &[1, 2, 0]),
        // A pod that came back not ready keeps the others from being touched.
        ("xww", 3, 1, &[]),
        ("xww", 3, 2, &[1]),
        ("xuw", 3, 1, &[1]),
        // The workload wants more pods than there are: the missing ones are unavailable, and
        // surplus ones make up for others.
        ("ww", 3, 1, &[]),
        ("wu", 3, 1, &[1]),
        ("ww", 3, 2, &[0]),
        ("wwu", 2, 1, &[2]),
        ("wwx", 2, 1, &[0]),
    ] {
        assert_eq!(
            started(letters, desired, limit),
            wanted,
            "{letters} {desired} {limit}"
        );
    }
}

#[test]
fn a_pod_that_waits_is_told_for_what() {
    let held = |letters, limit| next(&situation(letters, letters.len(), limit)).held;
    assert_eq!(held("rw", 1), [(1, Hold::AtOnce(1))]);
    assert_eq!(
        held("xw", 1),
        [(
            1,
            Hold::Unavailable {
                unavailable: 1,
                limit: 1
            }
        )]
    );
    assert_eq!(held("ww", 1), [(1, Hold::AtOnce(1))]);
    assert_eq!(
        Hold::AtOnce(2).to_string(),
        "2 of --max-unavailable 2 are being restarted"
    );
    assert_eq!(
        Hold::Unavailable {
            unavailable: 2,
            limit: 1
        }
        .to_string(),
        "2 unavailable, --max-unavailable is 1"
    );
    assert_eq!(
        Hold::Budget("web".into()).to_string(),
        "PodDisruptionBudget web allows no disruption"
    );
}

/// Pods covered by budgets, of which so many disruptions are left.
fn budgeted(
    letters: &str,
    limit: usize,
    left: &[(usize, bool)],
) -> (Vec<usize>, Vec<(usize, Hold)>) {
    let budget = |(index, (allowed, allows_unready)): (usize, &(usize, bool))| Budget {
        name: format!("budget-{index}").into(),
        allowed: *allowed,
        allows_unready: *allows_unready,
    };
    let all: Vec<_> = (0..left.len()).collect();
    let budgets = left.iter().enumerate().map(budget).collect();
    let step = next(&Situation {
        members: members(letters, &all),
        desired: letters.len(),
        max_unavailable: limit,
        budgets,
    });
    (step.start, step.held)
}

#[test]
fn every_budget_of_a_pod_has_to_allow_it() {
    let wait = |index, budget: &str| (index, Hold::Budget(budget.into()));
    assert_eq!(budgeted("ww", 2, &[(2, true)]), (vec![0, 1], vec![]));
    assert_eq!(
        budgeted("ww", 2, &[(1, true)]),
        (vec![0], vec![wait(1, "budget-0")])
    );
    assert_eq!(
        budgeted("ww", 2, &[(0, true)]),
        (vec![], vec![wait(0, "budget-0"), wait(1, "budget-0")])
    );
    assert_eq!(
        budgeted("ww", 2, &[(2, true), (1, true)]),
        (vec![0], vec![wait(1, "budget-1")])
    );
    // A pod that is not ready takes nothing from a budget that lets it go, and waits where it does
    // not.
    assert_eq!(budgeted("uw", 2, &[(1, true)]), (vec![0, 1], vec![]));
    assert_eq!(budgeted("u", 1, &[(0, true)]), (vec![0], vec![]));
    assert_eq!(
        budgeted("u", 1, &[(0, false)]),
        (vec![], vec![wait(0, "budget-0")])
    );
}

/// A budget with five healthy pods, of which two may go.
const FIVE: Covered = Covered {
    is_outdated: false,
    sync_failed: false,
    always_allows_unready: false,
    disruptions_allowed: 2,
    desired_healthy: 3,
    disrupted: 0,
    healthy: 5,
    restarting: 0,
};

/// How many restarts a budget allows, and whether also those of pods that are not ready.
const BUDGETS: &[(&str, Covered, (usize, bool))] = &[
    ("as it says", FIVE, (2, true)),
    (
        "a status that says less, for a reason of its own, is believed",
        Covered {
            disruptions_allowed: 0,
            ..FIVE
        },
        (0, true),
    ),
    (
        "what we see counts where the status lags",
        Covered { healthy: 4, ..FIVE },
        (1, true),
    ),
    (
        "while a pod is being restarted only what we see",
        Covered {
            disruptions_allowed: 0,
            healthy: 4,
            restarting: 1,
            ..FIVE
        },
        (1, true),
    ),
    (
        "and not twice",
        Covered {
            disruptions_allowed: 2,
            healthy: 3,
            restarting: 2,
            ..FIVE
        },
        (0, true),
    ),
    (
        "evictions on their way",
        Covered {
            disrupted: 1,
            ..FIVE
        },
        (1, true),
    ),
    (
        "about another spec",
        Covered {
            is_outdated: true,
            ..FIVE
        },
        (0, false),
    ),
    (
        "its controller cannot count",
        Covered {
            sync_failed: true,
            ..FIVE
        },
        (0, false),
    ),
    (
        "too few healthy: those that are not stay, too",
        Covered {
            healthy: 2,
            disruptions_allowed: 0,
            ..FIVE
        },
        (0, false),
    ),
    (
        "unless it always lets them go",
        Covered {
            healthy: 2,
            always_allows_unready: true,
            ..FIVE
        },
        (0, true),
    ),
    (
        "none is wanted",
        Covered {
            desired_healthy: 0,
            disruptions_allowed: 5,
            ..FIVE
        },
        (5, false),
    ),
];

#[test]
fn what_a_budget_allows() {
    let of = |covered: Covered| {
        let budget = Budget::of("b", &covered);
        (budget.allowed, budget.allows_unready)
    };
    for &(what, covered, wanted) in BUDGETS {
        assert_eq!(of(covered), wanted, "{what}");
    }
}

#[test]
fn percentages_round_as_in_kubernetes() {
    for (text, pods, down, up) in [
        ("1", 10, 1, 1),
        ("3", 2, 3, 3),
        ("25%", 4, 1, 1),
        ("25%", 10, 2, 3),
        ("33%", 3, 1, 1),
        ("34%", 3, 1, 2),
        ("1%", 10, 1, 1),
        ("25%", 0, 1, 1),
        ("100%", 7, 7, 7),
    ] {
        let limit = limit(text).unwrap();
        assert_eq!(
            (
                most(limit, pods, Rounding::Down),
                most(limit, pods, Rounding::Up)
            ),
            (down, up),
            "{text} of {pods}"
        );
    }
    for (text, words) in [
        ("0", "write at least 1"),
        ("0%", "write at least 1"),
        ("101%", "more than all"),
        ("", "25%"),
        ("%", "25%"),
        ("-1", "25%"),
        ("+1", "25%"),
        ("1.5", "25%"),
    ] {
        let problem = limit(text).unwrap_err();
        assert!(problem.contains(words), "{text}: {problem}");
    }
}

#[test]
fn pods_of_a_stateful_set_go_from_the_highest_ordinal_down_and_others_by_name() {
    let sorted = |names: &[&'static str], by_ordinal| {
        let mut names = names.to_vec();
        names.sort_by_key(|name| place(name, by_ordinal));
        names
    };
    assert_eq!(
        sorted(&["db-2", "db-10", "db-0"], true),
        ["db-10", "db-2", "db-0"]
    );
    assert_eq!(sorted(&["web-x", "web-a"], false), ["web-a", "web-x"]);
    assert_eq!(sorted(&["db-10", "db-2"], false), ["db-10", "db-2"]);
}

proptest! {
    /// Carried on until nothing can be started, and with every restart going well, all pods are
    /// restarted, and never more of them are unavailable than allowed.
    #[test]
    fn a_rollout_of_restarts_that_go_well_comes_to_its_end(waiting in "[wu]{1,12}", limit in 1..5_usize, allowed in 1..4_usize) {
        let pods = waiting.len();
        let mut members = members(&waiting, &[0]);
        for _ in 0..pods {
            let healthy = members.iter().filter(|member| member.ready).count();
            let unavailable_before = pods - healthy;
            let covered = Covered { disruptions_allowed: allowed, healthy: pods, desired_healthy: pods - allowed.min(pods), always_allows_unready: true, ..Covered::default() };
            let budgets = vec![Budget::of("b", &covered)];
            let step = next(&Situation { members: members.clone(), desired: pods, max_unavailable: limit, budgets });
            prop_assert!(step.start.len() <= limit);
            let disrupted = step.start.iter().filter(|index| members[**index].ready).count();
            prop_assert!(disrupted <= allowed.min(limit));
            prop_assert!(disrupted == 0 || unavailable_before + disrupted <= limit);
            for index in step.start {
                members[index].stage = Stage::Over;
                members[index].ready = true;
            }
        }
        prop_assert!(members.iter().all(|member| member.stage == Stage::Over));
    }
}
