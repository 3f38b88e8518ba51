//! Every order of events around one restart, explored: the protocol is safe, and wherever faults leave it, it can still end.
//!
//! | property of the design | here |
//! |---|---|
//! | S1, S2, S6: the image stays what it was, is the user's, or the exit image | what is written is another name of what was there |
//! | S3 uid fence, S4 one change per request, S5 success is true | under these names |
//! | no trap states | from every state there is a way without faults to one where the request has its verdict and the container is as the spec says |

mod model;
mod state;
mod world;

use std::collections::{HashMap, VecDeque};
use std::thread::available_parallelism;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use self::model::Restart;
use self::world::Mutant;

/// The properties that do not hold, sorted.
fn violated(model: &Restart, until: HasDiscoveries) -> Vec<&'static str> {
    let threads = available_parallelism().map_or(1, usize::from).min(2);
    let checker = model.clone().checker().threads(threads).finish_when(until).spawn_bfs().join();
    let found = checker.discoveries();
    let wrong = |property: &stateright::Property<Restart>| match property.expectation {
        Expectation::Sometimes => !found.contains_key(property.name),
        Expectation::Always | Expectation::Eventually => found.contains_key(property.name),
    };
    let mut names: Vec<_> = model.properties().iter().filter(|property| wrong(property)).map(|property| property.name).collect();
    names.sort_unstable();
    for name in names.iter().filter(|name| found.contains_key(*name)) {
        println!("{name}: {:?}", found[name].clone().into_actions());
    }
    names
}

/// How many states there are, and from how many of them no way without faults leads to the end.
fn traps(model: &Restart) -> (usize, usize) {
    let mut states = model.init_states();
    let mut known = HashMap::from([(states[0].clone(), 0)]);
    let mut before: Vec<Vec<usize>> = vec![Vec::new()];
    let mut queue = VecDeque::from([0]);
    while let Some(from) = queue.pop_front() {
        let state = states[from].clone();
        let mut events = Vec::new();
        model.actions(&state, &mut events);
        for event in events {
            let Some(next) = model.next_state(&state, event) else { continue };
            let to = *known.entry(next.clone()).or_insert_with(|| {
                states.push(next);
                before.push(Vec::new());
                queue.push_back(states.len() - 1);
                states.len() - 1
            });
            if event.is_fair() {
                before[to].push(from);
            }
        }
    }
    let mut good: Vec<bool> = states.iter().map(|state| model.is_settled(state)).collect();
    let mut work: Vec<usize> = (0..states.len()).filter(|at| good[*at]).collect();
    while let Some(to) = work.pop() {
        for &from in &before[to] {
            if !std::mem::replace(&mut good[from], true) {
                work.push(from);
            }
        }
    }
    (states.len(), good.iter().filter(|good| !**good).count())
}

#[track_caller]
fn is_safe_and_has_no_traps(model: &Restart) {
    let started = tokio::time::Instant::now();
    assert_eq!(violated(model, HasDiscoveries::All), [""; 0], "{} {} {}", model.policy, model.controllers, model.faults);
    let (states, traps) = traps(model);
    println!("{} force={} {}x{}: {states} states {:?}", model.policy, model.force, model.controllers, model.faults, started.elapsed());
    assert_eq!(traps, 0, "of {states} states, {} {}x{}", model.policy, model.controllers, model.faults);
}

#[test]
fn one_controller_and_two_faults() {
    // `Always` is `OnFailure` without the one event that ends the container.
    for policy in ["OnFailure", "Never"] {
        is_safe_and_has_no_traps(&Restart::new(1, 2, policy));
    }
}

#[test]
fn one_controller_and_one_fault_by_force() {
    is_safe_and_has_no_traps(&Restart { force: true, ..Restart::new(1, 1, "OnFailure") });
}

#[test]
fn two_controllers() {
    // With a fault these are millions of states: too many for every run of the tests.
    is_safe_and_has_no_traps(&Restart::new(2, 0, "OnFailure"));
}

#[test]
fn parking_with_one_controller_and_one_fault() {
    // `Always` is `OnFailure` without the one event that ends the container.
    for policy in ["OnFailure", "Never"] {
        is_safe_and_has_no_traps(&Restart::parking(1, 1, policy));
    }
}

/// Each mistake is found: the test of the test.
#[test]
fn mutants_are_caught() {
    for (mutant, controllers, faults, found) in [
        (Mutant::RequestUnguarded, 2, 1, "S4 one change per request"),
        (Mutant::PodUnguarded, 1, 2, "S3 no write meets another pod"),
        (Mutant::GenerationUnguarded, 1, 2, "S4 one change per request"),
        (Mutant::Lies, 1, 1, "S5 success is true"),
        (Mutant::LostIsRefused, 1, 2, "S4 one change per request"),
    ] {
        let model = Restart { mutant, ..Restart::new(controllers, faults, "Always") };
        let violated = violated(&model, HasDiscoveries::AnyOf([found].into()));
        assert!(violated.contains(&found), "{mutant:?}: {violated:?}");
    }
    let forgets = Restart { mutant: Mutant::Forgets, ..Restart::new(1, 0, "Always") };
    let violated = violated(&forgets, HasDiscoveries::All);
    assert!(violated.contains(&"R1 a restart succeeds"), "{violated:?}");
}

/// The mistakes that parking can be built with.
#[test]
fn mutants_of_parking_are_caught() {
    let parking = |mutant, faults, policy| Restart { mutant, ..Restart::parking(1, faults, policy) };
    for (mutant, faults, found) in [
        (Mutant::PodUnguarded, 2, "S1 what is written is the same image"),
        (Mutant::GenerationUnguarded, 2, "S4 one change per request"),
        (Mutant::Lies, 1, "S5 success is true"),
    ] {
        let violated = violated(&parking(mutant, faults, "Always"), HasDiscoveries::AnyOf([found].into()));
        assert!(violated.contains(&found), "{mutant:?}: {violated:?}");
    }
    for (mutant, policy) in
        [(Mutant::Forgets, "Always"), (Mutant::ForgetsBack, "Always"), (Mutant::ParkEnds, "OnFailure"), (Mutant::ParkEnds, "Never")]
    {
        let violated = violated(&parking(mutant, 0, policy), HasDiscoveries::All);
        assert!(violated.contains(&"R1 a restart succeeds"), "{mutant:?} {policy}: {violated:?}");
    }
    for mutant in [Mutant::ParksWithoutNote, Mutant::NoOrphans] {
        let (states, traps) = traps(&parking(mutant, 1, "Never"));
        assert!(traps > 0, "{mutant:?}: none of {states} states is a trap");
    }
}

/// Without `observedGeneration` a container that crashes in the moment of the change looks restarted because of it. It was restarted since
/// the request, but `forceRecreate` asks for more.
#[test]
fn what_a_node_without_observed_generation_cannot_tell() {
    let model = Restart { force: true, observes: false, ..Restart::new(1, 1, "Always") };
    assert_eq!(violated(&model, HasDiscoveries::All), ["S5 success is true"]);
    let model = Restart { observes: false, ..Restart::new(1, 1, "Always") };
    assert_eq!(violated(&model, HasDiscoveries::All), [""; 0]);
}
