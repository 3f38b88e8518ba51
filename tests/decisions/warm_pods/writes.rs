//! Writes that fail, are denied or are never answered, and what the API server makes of others.

use swaplet_core::objects::moment::Moment;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::pod::Shape;
use swaplet_core::warm::warming::{Action, Answer, Elsewhere, Limits};

use super::{create, unanswered};
use crate::warm::{A, B, LIMITS, Node, nothing, object, pod, read, refused, running, seconds};

#[test]
fn a_write_that_failed_is_decided_anew_after_the_time_that_the_server_asks() {
    let mut node = Node::new(&[A]);
    let create = create(0);
    assert_eq!(node.step(), Some(create.clone()));
    node.answers(
        &create,
        Err(WriteError::Failed {
            error: String::new(),
            retry_after: Some(seconds(7)),
        }),
    )
    .after(6)
    .assert_silent();
    assert_eq!(
        node.after(1).step(),
        Some(create.clone()),
        "the same name: two pods are impossible"
    );
    node.answers(&create, Err(WriteError::Conflict))
        .assert_silent();
    node.sees(pod("u", A, None, &running("c0", A)))
        .after(1)
        .deletes("u");
    assert_eq!(node.ends(), [Some(String::new())]);
}

/// Whoever may create pods in the namespace of a job with pull secrets knows the names of its pods.
#[test]
fn a9_a_name_that_a_pod_of_others_has_holds_the_node_for_two_minutes_and_not_for_ever() {
    let mut node = Node::new(&[A]);
    for number in 0..2 {
        for _ in 0..120 {
            assert_eq!(node.step(), Some(create(number)));
            node.answers(&create(number), Err(WriteError::Conflict));
            assert!(node.holds_a_slot(), "it may be the job's own");
            node.after(1);
        }
        assert_eq!(node.step(), Some(create(number)));
        node.answers(&create(number), Err(WriteError::Conflict));
        assert!(!node.holds_a_slot(), "others have their turn");
        node.after(59).assert_silent();
        node.after(1);
    }
    assert!(node.failure().contains("has the name of the warmer pod"));
    assert!(node.warming.is_over());
}

/// A webhook may make pods unreadable, which then stay.
#[test]
fn a9_not_more_than_four_names_are_tried_on_a_node_whatever_the_job_allows() {
    let limits = Limits {
        backoff_limit: u32::MAX,
        ..LIMITS
    };
    let mut node = Node::with(&[A], limits);
    for number in 0..4 {
        assert_eq!(node.step(), Some(create(number)));
        node.answers(&create(number), Ok(None)).after(120);
        assert_eq!(node.step(), Some(create(number)));
        node.answers(&create(number), Err(WriteError::Conflict))
            .after(60);
    }
    assert!(node.failure().contains("has the name of the warmer pod"));
    node.assert_silent();
}

const DOWN: &str =
    "Internal error occurred: failed calling webhook \"w.example\": connection refused";

fn webhook_is_down() -> Answer {
    Err(WriteError::Denied(DOWN.to_owned()))
}

/// The seconds at which a node is written to within some minutes, where this is the answer.
fn tried(node: &mut Node, answer: impl Fn() -> Answer) -> Vec<u64> {
    let mut tried = Vec::new();
    for second in 0..400 {
        if let Some(action) = node.step() {
            tried.push(second);
            node.answers(&action, answer());
        }
        node.after(1);
    }
    tried
}

/// The time of all tries of an image is 200 s here.
#[test]
fn r11_a_creation_that_is_not_taken_becomes_rarer_and_the_node_fails_with_the_answer() {
    for answer in [unanswered as fn() -> Answer, webhook_is_down] {
        let mut node = Node::new(&[A, B]);
        assert_eq!(
            tried(&mut node, answer),
            [0, 2, 6, 14, 30, 62, 122, 182, 242]
        );
        let Err(WriteError::Denied(told) | WriteError::Failed { error: told, .. }) = answer()
        else {
            unreachable!()
        };
        for end in node.ends() {
            assert!(told.contains(&end.unwrap()), "{told}");
        }
        assert!(node.warming.is_over());
        assert_eq!(node.warming.waits().untaken, 0);
        node.assert_silent();
    }
}

#[test]
fn r11_the_reason_is_told_from_the_first_answer_and_until_a_write_is_taken() {
    let mut node = Node::new(&[A]);
    let create = node.step().unwrap();
    node.answers(&create, webhook_is_down()).assert_silent();
    assert!(!node.holds_a_slot(), "no pod can be there");
    assert!(!node.warming.has_pod("n"));
    let waits = node.warming.waits();
    assert_eq!(
        (waits.untaken, waits.first_untaken.clone()),
        (1, Some(("n".into(), DOWN.into())))
    );
    node.after(2).creates(A, "u").assert_silent();
    assert_eq!(node.warming.waits().first_untaken, None);
}

#[test]
fn r11_ten_minutes_are_the_most_and_a_job_that_never_ends_goes_on() {
    let long = Limits {
        timeout: seconds(3600),
        ..LIMITS
    };
    let never = Limits {
        ask_again: Some(seconds(86_400)),
        ..LIMITS
    };
    for (limits, is_over) in [(long, true), (never, false)] {
        let mut node = Node::with(&[A], limits);
        tried(&mut node, webhook_is_down);
        assert!(!node.warming.is_over());
        tried(&mut node, webhook_is_down);
        assert_eq!(node.warming.is_over(), is_over);
    }
}

#[test]
fn r11_a_swap_that_is_not_taken_gives_way_to_another_pod() {
    let mut node = Node::new(&[A, B]);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)));
    for _ in 0..5 {
        let swap = node.step().unwrap();
        assert!(matches!(&swap, Action::Swap { .. }), "{swap:?}");
        node.answers(&swap, unanswered()).after(60);
    }
    node.deletes("u").creates(B, "v");
    assert_eq!(node.ends(), [Some(String::new()), None]);
}

#[test]
fn r11_a_deletion_that_is_not_taken_holds_up_no_job() {
    let mut node = Node::new(&[A]);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)));
    assert_eq!(tried(&mut node, unanswered).last(), Some(&242));
    assert_eq!(node.ends(), [Some(String::new())]);
    assert!(node.warming.is_over());
}

#[test]
fn a9_creations_that_are_never_answered_leave_the_node_to_others_after_two_minutes() {
    let mut node = Node::new(&[A]);
    for wait in [2, 4, 8, 16, 32, 60] {
        assert_eq!(node.step(), Some(create(0)));
        node.answers(&create(0), unanswered());
        assert!(node.holds_a_slot());
        node.after(wait);
    }
    assert_eq!(node.step(), Some(create(0)));
    node.answers(&create(0), unanswered());
    assert!(!node.holds_a_slot());
    node.after(59).assert_silent();
    node.after(1).creates(A, "u");
}

#[test]
fn a_creation_that_was_never_answered_holds_no_node_once_the_job_is_given_up() {
    let mut node = Node::new(&[A]);
    let create = node.step().unwrap();
    node.answers(&create, unanswered());
    assert!(node.holds_a_slot());
    node.warming.give_up("late");
    node.assert_silent();
    assert!(!node.holds_a_slot());
    node.sees(pod("u", A, None, &nothing()))
        .after(2)
        .deletes("u");
}

/// The watch may be faster than the answer.
#[test]
fn a_swap_has_its_whole_time_whatever_is_seen_of_it_first() {
    for answer_is_first in [true, false] {
        let mut node = Node::new(&[A, B]);
        node.creates(A, "u")
            .after(90)
            .sees(pod("u", A, None, &running("c0", A)));
        let swap = node.step().unwrap();
        let swapped = pod("u", B, Some("c0"), &running("c0", A));
        if !answer_is_first {
            node.sees(swapped.clone());
        }
        node.answers(&swap, Ok(Some(Box::new(swapped))))
            .after(99)
            .assert_silent();
        assert!(matches!(node.after(1).step(), Some(Action::Delete { .. })));
    }
}

/// Of a pod that runs there is no other event: what is forgotten never comes back.
#[test]
fn u110_an_answer_that_comes_after_the_node_has_acted_takes_nothing_back() {
    let of = |generation: i64, image: &str, before: Option<&str>, said: &crate::warm::Said| {
        let mut object = object("u", image, before, said);
        object["metadata"]["generation"] = generation.into();
        read(object)
    };
    let mut node = Node::new(&[A, B]);
    let create = node.step().unwrap();
    node.sees(of(1, A, None, &running("c0", A)));
    node.answers(&create, Ok(Some(Box::new(of(1, A, None, &nothing())))));
    let swap = node.step().unwrap();
    assert!(
        matches!(&swap, Action::Swap { to, .. } if **to == *B),
        "{swap:?}"
    );
    node.sees(of(2, B, Some("c0"), &running("c1", B)));
    let stored = of(2, B, Some("c0"), &running("c0", A));
    node.answers(&swap, Ok(Some(Box::new(stored)))).deletes("u");
    assert_eq!(node.ends(), [Some(String::new()), Some(String::new())]);
}

#[test]
fn a_swap_that_was_done_and_never_answered_goes_on() {
    let mut node = Node::new(&[A, B]);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)));
    let swap = node.step().unwrap();
    node.answers(&swap, unanswered());
    node.sees(pod("u", B, Some("c0"), &running("c0", A)))
        .after(2)
        .assert_silent();
    node.sees(pod("u", B, Some("c0"), &running("c1", B)))
        .deletes("u");
    assert_eq!(node.ends(), [Some(String::new()), Some(String::new())]);
}

#[test]
fn w2_a_swap_that_met_a_change_looks_again_and_a_foreign_image_proves_nothing() {
    let mut node = Node::new(&[A, B]);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)))
        .swaps("u", A, B, "c0");
    let mut foreign = object("u", B, Some("c0"), &running("c1", "r.example/evil:1"));
    foreign["spec"]["containers"][0]["image"] = "r.example/evil:1".into();
    node.sees(read(foreign)).deletes("u").creates(B, "v");
    assert_eq!(node.ends(), [Some(String::new()), None]);
}

#[test]
fn an_image_that_a_webhook_rewrites_is_judged_by_what_is_stored() {
    let mut node = Node::new(&[A, B]);
    let create = node.step().unwrap();
    let stored = |image: &str, mirror: &str, before: Option<&str>, said: &crate::warm::Said| {
        let mut object = object("u", image, before, said);
        object["spec"]["containers"][0]["image"] = mirror.into();
        read(object)
    };
    node.answers(
        &create,
        Ok(Some(Box::new(stored(
            A,
            "mirror.example/a:1",
            None,
            &nothing(),
        )))),
    );
    node.sees(stored(
        A,
        "mirror.example/a:1",
        None,
        &running("c0", "mirror.example/a:1"),
    ));
    let swap = node.step().unwrap();
    assert!(
        matches!(&swap, Action::Swap { from, to, .. } if &**from == "mirror.example/a:1" && &**to == B),
        "{swap:?}"
    );
    let old = running("c0", "mirror.example/a:1");
    node.answers(
        &swap,
        Ok(Some(Box::new(stored(
            B,
            "mirror.example/b:1",
            Some("c0"),
            &old,
        )))),
    )
    .assert_silent();
    node.sees(stored(
        B,
        "mirror.example/b:1",
        Some("c0"),
        &running("c1", "mirror.example/b:1"),
    ))
    .deletes("u");
    assert_eq!(node.ends(), [Some(String::new()), Some(String::new())]);
}

#[test]
fn w20_a_denial_is_final_for_the_image_or_for_the_node() {
    let create = |image: &str| Action::Create {
        shape: Shape::InPlace,
        images: vec![image.into()],
        number: 0,
    };
    let denied = |why: &str| Err(WriteError::Denied(why.to_owned()));
    let mut node = Node::new(&[A, B]);
    assert_eq!(node.step(), Some(create(A)));
    node.answers(
        &create(A),
        denied("admission webhook \"policy\" denied the request: unsigned"),
    )
    .creates(B, "u");
    assert!(node.failure().contains("unsigned") && node.ends()[1].is_none());
    for why in [
        "pods is forbidden: User \"u\" cannot create resource \"pods\"",
        "violates PodSecurity \"restricted:latest\"",
    ] {
        let mut node = Node::new(&[A, B]);
        assert_eq!(node.step(), Some(create(A)));
        node.answers(&create(A), denied(why)).assert_silent();
        assert_eq!(node.ends(), [Some(why.to_owned()), Some(why.to_owned())]);
        assert!(node.warming.is_over());
    }
}

/// A quota limits how many pull at a time, whatever the job says of failures.
#[test]
fn u241_a_full_quota_is_waited_for_and_told_while_pods_of_the_job_are_in_it() {
    const FULL: &str = "pods \"w\" is forbidden: exceeded quota: few, requested: pods=1";
    let full = || -> Answer { Err(WriteError::Denied(FULL.to_owned())) };
    let limits = Limits {
        backoff_limit: 0,
        parallelism: 2,
        timeout: seconds(600),
        ..LIMITS
    };
    let mut node = Node::with(&[A], limits);
    node.warming
        .add("full", Shape::InPlace, true, Moment::START);
    let (mut tried, mut failed_at) = (0, 0);
    for second in 0..1500 {
        for (name, action) in node.warming.step(node.now, |_| Elsewhere::default()) {
            let answer = match &action {
                Action::Create { .. } if *name == *"full" => full(),
                Action::Create { .. } => Ok(Some(Box::new(pod("u", A, None, &nothing())))),
                _ => Ok(None),
            };
            tried += u32::from(answer.is_err());
            let is_gone = matches!(action, Action::Delete { .. });
            node.warming.written(&name, &action, answer, node.now);
            if is_gone {
                node.warming.pod_is_gone("u", node.now);
            }
        }
        let is_told = node.warming.waits().first_untaken.is_some();
        if failed_at == 0 && !is_told {
            failed_at = second;
        }
        node.after(1);
    }
    // The other node pulls for ten minutes; after that nothing of the job is in the quota.
    assert!((1100..=1300).contains(&failed_at), "{failed_at}");
    assert!(tried < 40, "{tried}");
    assert!(node.failure().contains("exceeded quota"));
}

/// As where the API server, or the namespace, has just come.
#[test]
fn u215_a_denial_that_is_no_verdict_is_final_for_nothing() {
    for why in [
        "pods \"w\" is forbidden: not yet ready to handle request",
        "pods \"w\" is forbidden: status unknown for quota: few, resources: pods",
        "pods \"w\" is forbidden: error looking up service account warm/default: serviceaccount \"default\" not found",
    ] {
        let denied = || -> Answer { Err(WriteError::Denied(why.to_owned())) };
        let mut node = Node::new(&[A, B]);
        let create = node.step().unwrap();
        node.answers(&create, denied()).assert_silent();
        assert_eq!(node.ends(), [None, None], "{why}");
        node.after(12)
            .creates(A, "u")
            .sees(pod("u", A, None, &running("c0", A)))
            .swaps("u", A, B, "c0")
            .sees(pod("u", B, Some("c0"), &running("c1", B)));
        let delete = node.step().unwrap();
        assert!(matches!(&delete, Action::Delete { .. }), "{delete:?}");
        node.answers(&delete, denied()).after(12).deletes("u");
        assert_eq!(node.ends(), [Some(String::new()), Some(String::new())]);
    }
    // It is not waited for without end.
    let denial = "pods \"w\" is forbidden: not yet ready to handle request";
    let mut node = Node::new(&[A]);
    tried(&mut node, || Err(WriteError::Denied(denial.to_owned())));
    assert_eq!(node.failure(), denial);
    assert!(node.warming.is_over());
}

#[test]
fn a_namespace_that_is_not_there_and_a_deletion_that_is_forbidden_end_the_node() {
    let mut node = Node::new(&[A]);
    let create = node.step().unwrap();
    node.answers(&create, Err(WriteError::Gone)).assert_silent();
    assert_eq!(
        node.failure(),
        "the namespace for warmer pods does not exist"
    );
    let mut node = Node::new(&[A]);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)));
    let delete = node.step().unwrap();
    node.answers(&delete, Err(WriteError::Denied("no".to_owned())))
        .assert_silent();
    assert!(node.warming.is_over() && node.ends() == [Some(String::new())]);
}

#[test]
fn an_older_state_of_the_pod_changes_nothing() {
    let mut node = Node::new(&[A, B]);
    let generation =
        |generation: i64, image: &str, before: Option<&str>, said: &crate::warm::Said| {
            let mut object = object("u", image, before, said);
            object["metadata"]["generation"] = generation.into();
            read(object)
        };
    let create = node.step().unwrap();
    node.answers(
        &create,
        Ok(Some(Box::new(generation(1, A, None, &nothing())))),
    );
    node.sees(generation(1, A, None, &running("c0", A)));
    let swap = node.step().unwrap();
    node.answers(
        &swap,
        Ok(Some(Box::new(generation(
            2,
            B,
            Some("c0"),
            &running("c0", A),
        )))),
    );
    node.sees(generation(1, A, None, &running("c0", A)))
        .assert_silent();
    node.sees(generation(2, B, Some("c0"), &refused("c0", A, B)))
        .assert_silent();
}

/// What a webhook has made of an image is lost with the memory.
#[test]
fn r19_another_life_takes_a_pod_over_whose_image_a_webhook_has_renamed() {
    const RENAMED: &str = "mirror.example/a:1";
    let renamed = |generation: i64, before: Option<&str>| {
        let mut pod = object("u", A, before, &running("c1", RENAMED));
        pod["metadata"]["generation"] = generation.into();
        pod["spec"]["containers"][0]["image"] = RENAMED.into();
        read(pod)
    };
    let limits = Limits {
        backoff_limit: 0,
        ..LIMITS
    };
    let mut node = Node::with(&[A], limits.clone());
    node.sees(renamed(1, None)).deletes("u");
    assert_eq!(node.ends(), [Some(String::new())]);
    // After a swap it may be the image of somebody else: another pod shows it.
    let mut node = Node::with(&[A], limits);
    node.sees(renamed(2, Some("c0")))
        .deletes("u")
        .creates(A, "v");
    assert_eq!(node.ends(), [None]);
}
