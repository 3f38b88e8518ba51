//! Every order of events around one restart, explored: the protocol is safe, and wherever faults
//! leave it, it can still end.
//!
//! | property of the design | here |
//! |---|---|
//! | S1, S2, S6: the image stays what it was, is the user's, or the exit image | what is written is another name of what was there |
//! | W1, W2: no restart loses work | no stop for a restart is the end of the container, and what is refused is not touched |
//! | the admission policy | what `deploy/leash.yaml` denies is denied |
//! | S3 uid fence, S4 one change per request, S5 success is true | under these names |
//! | no trap states | from every state there is a way without faults to one where the request has its verdict and the container is as the spec says |

mod ending;
mod facts;
mod forger;
mod model;
mod mutants;
mod reads;
mod server;
mod state;
mod steps;
mod store;
mod webhooks;
mod world;

use std::collections::HashSet;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use self::forger::Forger;
use self::model::Restart;
use self::state::State;
use self::webhooks::Webhook;
use self::world::Mutant;

/// The properties that do not hold, sorted.
fn violated(model: &Restart, until: HasDiscoveries) -> Vec<&'static str> {
    let started = tokio::time::Instant::now();
    let checker = model
        .clone()
        .checker()
        .finish_when(until)
        .spawn_bfs()
        .join();
    assert!(checker.is_done());
    let states = checker.unique_state_count();
    assert!(states <= model.most_states, "{states} states");
    println!(
        "{} force={} parks={} {:?} {}x{}: {states} states {:?}",
        model.policy,
        model.force,
        model.parks,
        model.forger,
        model.controllers,
        model.faults,
        started.elapsed()
    );
    let found = checker.discoveries();
    let wrong = |property: &stateright::Property<Restart>| match property.expectation {
        Expectation::Sometimes => !found.contains_key(property.name),
        Expectation::Always | Expectation::Eventually => found.contains_key(property.name),
    };
    let mut names: Vec<_> = model
        .properties()
        .iter()
        .filter(|property| wrong(property))
        .map(|property| property.name)
        .collect();
    names.sort_unstable();
    for name in names.iter().filter(|name| found.contains_key(*name)) {
        println!("{name}: {:?}", found[name].clone().into_actions());
    }
    names
}

#[track_caller]
fn assert_safe_and_has_no_traps(model: &Restart) {
    assert_eq!(
        violated(model, HasDiscoveries::AnyFailures),
        [""; 0],
        "{} {} {}",
        model.policy,
        model.controllers,
        model.faults
    );
}

#[test]
fn one_controller_and_two_faults() {
    // `Always` is `OnFailure` without the one event that ends the container.
    for policy in ["OnFailure", "Never"] {
        assert_safe_and_has_no_traps(&Restart::new(1, 2, policy));
    }
}

#[test]
fn two_controllers_and_a_fault() {
    for policy in ["OnFailure", "Never"] {
        assert_safe_and_has_no_traps(&Restart::new(2, 1, policy));
    }
}

#[test]
fn by_force() {
    for (controllers, faults) in [(1, 2), (2, 1)] {
        assert_safe_and_has_no_traps(&Restart {
            force: true,
            ..Restart::new(controllers, faults, "OnFailure")
        });
    }
}

#[test]
fn parking_with_one_controller_and_two_faults() {
    for policy in ["OnFailure", "Never"] {
        assert_safe_and_has_no_traps(&Restart::parking(1, 2, policy));
    }
}

#[test]
fn parking_with_two_controllers_and_a_fault() {
    for policy in ["OnFailure", "Never"] {
        assert_safe_and_has_no_traps(&Restart::parking(2, 1, policy));
    }
}

/// The tag has moved, the registry has the manifest no more, and each start asks it: a policy that
/// does not let the image before come back is found out.
#[test]
fn d1c_an_alias_that_can_never_be_pulled() {
    let denied = Restart {
        moved: true,
        outlasts: true,
        mutant: Mutant::DeniesBack,
        ..Restart::new(1, 0, "Always")
    };
    assert!(violated(&denied, HasDiscoveries::AnyOf(["no trap"].into())).contains(&"no trap"));
}

/// Also where the request is deleted, at whatever moment: it is kept until that is seen.
#[test]
fn d1c_deleted_an_alias_that_can_never_be_pulled_is_taken_back_without_its_request() {
    let model = Restart {
        moved: true,
        outlasts: true,
        ..Restart::new(1, 1, "Always")
    };
    // All that is wrong is that nothing can succeed.
    assert_eq!(
        violated(&model, HasDiscoveries::AnyFailures),
        ["R1 a restart succeeds"]
    );
}

/// Where a user changes the image, the node acts after it was given up, or a change arrives after
/// both its sender and the request are gone, nobody takes the alias back; and that is all that can
/// go wrong.
#[test]
fn d1c_an_alias_that_can_never_be_pulled_stays_where_nobody_sees_what_the_node_does() {
    for (controllers, faults) in [(1, 2), (2, 1)] {
        let model = Restart {
            moved: true,
            ..Restart::new(controllers, faults, "Always")
        };
        assert_eq!(
            violated(&model, HasDiscoveries::All),
            ["no trap"],
            "{controllers}"
        );
    }
}

/// The node has the image by another repository: `kind load`, or a second tag.
#[test]
fn d1a_d1b_an_image_that_the_node_has_by_another_name() {
    for policy in ["Always", "OnFailure"] {
        for force in [false, true] {
            let known_as = Some(
                "import.example/work@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            );
            let model = Restart {
                known_as,
                force,
                ..Restart::new(1, 2, policy)
            };
            // Unless it is forced, one that has crashed since the request was made has been
            // restarted.
            let expected = if force {
                vec!["R1 a restart succeeds"]
            } else {
                Vec::new()
            };
            assert_eq!(
                violated(&model, HasDiscoveries::AnyFailures),
                expected,
                "{policy}"
            );
        }
    }
}

/// It exits with 0 when it is stopped, which is the end of its work if the node dies before it
/// starts the next one.
#[test]
fn d1d_the_main_of_a_job() {
    for policy in ["OnFailure", "Never"] {
        assert_safe_and_has_no_traps(&Restart {
            job: true,
            exits_0: true,
            ..Restart::new(1, 2, policy)
        });
        let risked = Restart {
            job: true,
            exits_0: true,
            force: true,
            ..Restart::new(1, 1, policy)
        };
        assert_eq!(
            violated(&risked, HasDiscoveries::All),
            ["W1 no stop is the end of the work"],
            "what forceRecreate overrules: {policy}"
        );
    }
}

/// Somebody makes the request, or changes it, with a journal of any form: no image is written but
/// the one that the container had, its alias and the park image, and no container stays parked
/// without a word. Some 25,000 and 218,000 states.
#[test]
fn a2_forged_journals() {
    for model in [
        Restart::new(1, 2, "Always"),
        Restart::parking(1, 2, "Always"),
    ] {
        assert_safe_and_has_no_traps(&model.forged(Forger::OfRequests, 300_000));
    }
}

/// Somebody writes into the pod what is swaplet's to say, or takes it away: the same holds. Some
/// 13,000 and 45,000 states.
#[test]
fn v1_bug13_bug14_forged_notes() {
    for model in [
        Restart::new(1, 2, "Always"),
        Restart::parking(1, 2, "Always"),
    ] {
        assert_safe_and_has_no_traps(&model.forged(Forger::OfNotes, 60_000));
    }
}

/// Each with the image that has an alias, and with the one that is parked.
fn both(faults: u8, policy: &'static str) -> [Restart; 2] {
    [
        Restart::new(1, faults, policy),
        Restart::parking(1, faults, policy),
    ]
}

/// The properties that do not hold where a webhook changes each image, or some.
fn violated_by_webhook(
    webhook: Webhook,
    always_changed: bool,
    model: Restart,
) -> Vec<&'static str> {
    println!("{webhook:?}, always: {always_changed}");
    let model = Restart {
        webhook,
        always_changed,
        ..model
    };
    violated(&model, HasDiscoveries::All)
}

/// A mirror of registries, and what gives tags their digests: nothing is lost, nothing is trapped,
/// and no image is written but the user's, whether each image is changed or one of them. Some 9,000
/// states at most.
#[test]
fn w_a_webhook_that_gives_images_other_names() {
    for webhook in [Webhook::Renames, Webhook::Pins] {
        for policy in ["OnFailure", "Never"] {
            for always_changed in [true, false] {
                for model in both(1, policy) {
                    let parks = model.parks;
                    // A park image by another name may be any image: it is taken back.
                    let is_taken_back = parks && always_changed && webhook != Webhook::Pins;
                    let expected = Vec::from_iter(is_taken_back.then_some("R1 a restart succeeds"));
                    assert_eq!(
                        violated_by_webhook(webhook, always_changed, model),
                        expected,
                        "{webhook:?} {policy} {parks} {always_changed}"
                    );
                }
            }
        }
    }
}

/// A cache, whose names say nothing. Who sees the pod and not its request takes the park image for
/// one that somebody has set, and takes away the record of the image before: where the request is
/// deleted, or not read yet, the container stays parked. Nothing else goes wrong.
#[test]
fn w_a_webhook_that_gives_images_names_that_say_nothing() {
    for policy in ["OnFailure", "Never"] {
        for always_changed in [true, false] {
            for model in both(1, policy) {
                // Else the new name is the one thing that goes wrong.
                let is_parked = model.parks && always_changed;
                let wrong = ["R1 a restart succeeds", "no trap"];
                let expected: Vec<_> = wrong.into_iter().filter(|_| is_parked).collect();
                assert_eq!(
                    violated_by_webhook(Webhook::Replaces, always_changed, model),
                    expected,
                    "{policy} {always_changed}"
                );
            }
        }
        let undisturbed = Restart::parking(1, 0, policy);
        assert_eq!(
            violated_by_webhook(Webhook::Replaces, true, undisturbed),
            ["R1 a restart succeeds"],
            "{policy}"
        );
    }
}

/// All that is wrong where each change is undone is that none can succeed. Some 7,500 states at
/// most.
#[test]
fn w_a_webhook_that_undoes_changes() {
    for webhook in [Webhook::UndoesImages, Webhook::UndoesAll] {
        for policy in ["OnFailure", "Never"] {
            for always_changed in [true, false] {
                for model in both(1, policy) {
                    // Else one that has crashed since the request was made has been restarted.
                    let model = Restart {
                        force: true,
                        ..model
                    };
                    let parks = model.parks;
                    let expected =
                        Vec::from_iter(always_changed.then_some("R1 a restart succeeds"));
                    assert_eq!(
                        violated_by_webhook(webhook, always_changed, model),
                        expected,
                        "{webhook:?} {policy} {parks} {always_changed}"
                    );
                }
            }
        }
    }
}

/// One change is undone, but for the record of the image before, and then a user sets another image,
/// which stays.
#[test]
fn u141_what_a_user_sets_after_a_webhook_has_undone_a_change_stays() {
    for policy in ["OnFailure", "Never"] {
        for model in both(2, policy) {
            let model = Restart {
                force: true,
                ..model
            };
            assert_eq!(
                violated_by_webhook(Webhook::UndoesImages, false, model),
                [""; 0],
                "{policy}"
            );
        }
    }
}

/// Of two controllers one remembers what was stored.
#[test]
fn w_two_controllers_and_a_webhook() {
    for webhook in [Webhook::Renames, Webhook::UndoesAll] {
        for model in [Restart::new(2, 0, "Never"), Restart::parking(2, 0, "Never")] {
            let parks = model.parks;
            let succeeds = !parks && webhook != Webhook::UndoesAll;
            let expected = Vec::from_iter((!succeeds).then_some("R1 a restart succeeds"));
            assert_eq!(
                violated_by_webhook(webhook, true, model),
                expected,
                "{webhook:?} {parks}"
            );
        }
    }
}

/// Three restarts, one soon after another: each has a name that the node has not seen, so it starts
/// at once. Some 1,400 states each.
#[test]
fn b_a_node_that_keeps_a_back_off_for_each_name() {
    for policy in ["Always", "OnFailure", "Never"] {
        for exits_0 in [false, true] {
            assert_safe_and_has_no_traps(&Restart {
                requests: 3,
                backs_off: true,
                exits_0,
                ..Restart::new(1, 0, policy)
            });
        }
    }
}

/// What somebody has read of the pod before the second request counts for the first one only: a
/// restart from before the request does not look like theirs.
#[test]
fn b_what_an_old_pod_tells_of_the_request_before() {
    for policy in ["OnFailure", "Never"] {
        assert_safe_and_has_no_traps(&Restart {
            requests: 2,
            backs_off: true,
            ..Restart::new(1, 1, policy)
        });
    }
}

/// A second restart by parking comes back to the name of the first one: that is refused, unless it
/// is forced. Then the container is down for a while, and lost where it does not come back by
/// itself: what forceRecreate overrules. Some 15,000 states at most.
#[test]
fn b_a_container_that_is_parked_twice_comes_back_to_a_name() {
    let twice = |policy, force| Restart {
        requests: 2,
        backs_off: true,
        force,
        ..Restart::parking(1, 0, policy)
    };
    for force in [false, true] {
        assert_safe_and_has_no_traps(&twice("Always", force));
    }
    assert_safe_and_has_no_traps(&twice("OnFailure", true));
    let lost = [
        twice("Never", true),
        Restart {
            exits_0: true,
            ..twice("OnFailure", true)
        },
    ];
    for model in lost {
        assert_safe_and_has_no_traps(&Restart {
            requests: 1,
            ..model.clone()
        });
        assert_eq!(
            violated(&model, HasDiscoveries::All),
            ["W1 no stop is the end of the work"],
            "{}",
            model.policy
        );
    }
}

/// All that the API server and the node can come to.
fn outcomes(model: &Restart) -> HashSet<State> {
    let mut known: HashSet<State> = model.init_states().into_iter().collect();
    let mut work: Vec<State> = known.iter().cloned().collect();
    while let Some(state) = work.pop() {
        let mut events = Vec::new();
        model.actions(&state, &mut events);
        let next = events
            .into_iter()
            .filter_map(|event| model.next_state(&state, event));
        work.extend(next.filter(|next| known.insert(next.clone())));
    }
    known
        .into_iter()
        .map(Restart::without_controllers)
        .collect()
}

/// The orders that are left out lead to nothing that the others do not lead to.
#[test]
fn what_is_left_out_is_nothing_new() {
    for model in [
        Restart::new(1, 2, "OnFailure"),
        Restart::new(2, 0, "Never"),
        Restart::parking(1, 1, "OnFailure"),
        Restart::parking(2, 0, "Never"),
    ] {
        let all = outcomes(&Restart {
            all_orders: true,
            ..model.clone()
        });
        assert_eq!(
            outcomes(&model),
            all,
            "{} {}",
            model.controllers,
            model.parks
        );
    }
}

/// Nor where webhooks change what is stored, and where there are several requests.
#[test]
fn what_is_left_out_is_nothing_new_with_webhooks_and_back_offs() {
    let by = |webhook, model| Restart {
        webhook,
        always_changed: true,
        ..model
    };
    for model in [
        by(Webhook::Renames, Restart::new(1, 1, "OnFailure")),
        by(Webhook::Renames, Restart::parking(1, 0, "Never")),
        by(Webhook::UndoesImages, Restart::parking(1, 0, "Never")),
        by(Webhook::UndoesAll, Restart::parking(1, 1, "Never")),
        Restart {
            requests: 2,
            backs_off: true,
            ..Restart::new(1, 0, "Never")
        },
    ] {
        let all = outcomes(&Restart {
            all_orders: true,
            ..model.clone()
        });
        println!("{:?} {} outcomes", model.webhook, all.len());
        assert_eq!(outcomes(&model), all, "{:?}", model.webhook);
    }
}

/// Each mistake is found: the test of the test.
#[test]
fn mutants_are_caught() {
    for (mutant, controllers, faults, found) in [
        (Mutant::RequestUnguarded, 2, 1, "S4 one change per request"),
        (Mutant::PodUnguarded, 1, 2, "S3 no write meets another pod"),
        (
            Mutant::GenerationUnguarded,
            1,
            2,
            "S4 one change per request",
        ),
        (Mutant::ForgetsGeneration, 1, 1, "S4 one change per request"),
        (Mutant::Lies, 1, 1, "S5 success is true"),
    ] {
        let model = Restart {
            mutant,
            // Else one restart, by whatever it was caused, is enough.
            force: mutant == Mutant::ForgetsGeneration,
            ..Restart::new(controllers, faults, "Always")
        };
        let violated = violated(&model, HasDiscoveries::AnyOf([found].into()));
        assert!(violated.contains(&found), "{mutant:?}: {violated:?}");
    }
    let forgets = Restart {
        mutant: Mutant::Forgets,
        ..Restart::new(1, 0, "Always")
    };
    let violated = violated(&forgets, HasDiscoveries::All);
    assert!(violated.contains(&"R1 a restart succeeds"), "{violated:?}");
}

/// The names of a build that comes back to them.
#[test]
fn names_that_come_back_are_caught() {
    let mutant = |policy| Restart {
        requests: 3,
        backs_off: true,
        mutant: Mutant::NamesComeBack,
        ..Restart::new(1, 0, policy)
    };
    let lost = "W1 no stop is the end of the work";
    let violated_by = |policy| violated(&mutant(policy), HasDiscoveries::All);
    assert_eq!(violated_by("Never"), [lost]);
    assert_eq!(violated_by("Always"), [""; 0], "it is down for a while");
}

/// The mistakes that parking can be built with.
#[test]
fn mutants_of_parking_are_caught() {
    let parking = |mutant, faults, policy| Restart {
        mutant,
        ..Restart::parking(1, faults, policy)
    };
    for (mutant, faults, found) in [
        (
            Mutant::PodUnguarded,
            2,
            "S1 what is written is the same image",
        ),
        (Mutant::GenerationUnguarded, 2, "S4 one change per request"),
        (Mutant::Lies, 1, "S5 success is true"),
    ] {
        let violated = violated(
            &parking(mutant, faults, "Always"),
            HasDiscoveries::AnyOf([found].into()),
        );
        assert!(violated.contains(&found), "{mutant:?}: {violated:?}");
    }
    for (mutant, policy) in [
        (Mutant::Forgets, "Always"),
        (Mutant::ForgetsBack, "Always"),
        (Mutant::ParkEnds, "OnFailure"),
        (Mutant::ParkEnds, "Never"),
    ] {
        let violated = violated(&parking(mutant, 0, policy), HasDiscoveries::All);
        assert!(
            violated.contains(&"R1 a restart succeeds"),
            "{mutant:?} {policy}: {violated:?}"
        );
    }
    for mutant in [Mutant::ParksWithoutNote, Mutant::NoOrphans] {
        let violated = violated(
            &parking(mutant, 1, "Never"),
            HasDiscoveries::AnyOf(["no trap"].into()),
        );
        assert!(violated.contains(&"no trap"), "{mutant:?}: {violated:?}");
    }
}

/// Without `observedGeneration` a container that has crashed in the moment before the change, as is
/// told after it, looks restarted because of it. Only the clock of the node could tell, which may
/// be wrong.
#[test]
fn what_a_node_without_observed_generation_cannot_tell() {
    for force in [true, false] {
        let model = Restart {
            force,
            observes: false,
            ..Restart::new(1, 1, "Always")
        };
        assert_eq!(
            violated(&model, HasDiscoveries::All),
            ["S5 success is true"]
        );
    }
}
