use super::*;

fn check(state: State) -> Check {
    Check {
        installation: String::new(),
        subject: "x",
        state,
        words: String::new(),
    }
}

#[test]
fn exit_codes_tell_well_from_attention_and_from_not_known() {
    for (states, code) in [
        (&[][..], 0),
        (&[State::Ok, State::Note], 0),
        (&[State::Ok, State::Unknown], 2),
        (&[State::Unknown, State::Attention], 1),
    ] {
        let checks: Vec<_> = states.iter().copied().map(check).collect();
        assert_eq!(exit_code(&checks), code, "{states:?}");
    }
}

#[test]
fn a_lease_is_held_while_it_is_renewed() {
    let at = |seconds| Timestamp::from_second(seconds).unwrap();
    let state = |holder: &str, renewed| {
        let held = Held {
            holder: holder.to_owned(),
            renewed,
        };
        held_by(&held, at(1000)).0
    };
    assert_eq!(state("a", Some(at(998))), State::Ok);
    assert_eq!(state("a", Some(at(1030))), State::Ok, "clocks differ");
    assert_eq!(state("a", Some(at(900))), State::Attention);
    assert_eq!(state("", Some(at(998))), State::Attention);
    assert_eq!(state("a", None), State::Attention);
}

#[test]
fn policies_are_missed_where_restarts_need_them_and_noted_elsewhere() {
    let leash = |parts: &[(&str, bool)]| {
        Ok(Leash {
            name: "l".to_owned(),
            opened: None,
            policies: parts
                .iter()
                .map(|(part, bound)| ((*part).to_owned(), *bound))
                .collect(),
        })
    };
    let none = leash(&[]);
    let all = [
        ("pods", true),
        ("pods-status", true),
        ("events", true),
        ("state", true),
    ];
    let plain = Flags::default();
    let restart = Flags::of(&[("restart", "true")]);
    assert_eq!(policies(&none, &plain).0, State::Note);
    assert_eq!(policies(&none, &restart).0, State::Attention);
    assert_eq!(policies(&leash(&all), &plain).0, State::Ok);
    assert_eq!(policies(&leash(&all), &restart).0, State::Attention);
    let mut unbound = all;
    unbound[2].1 = false;
    let (state, words) = policies(&leash(&unbound), &plain);
    assert!(
        state == State::Attention && words.contains("l-events"),
        "{words}"
    );
    assert_eq!(policies(&leash(&all[..2]), &plain).0, State::Attention);
    assert_eq!(policies(&Err("no".to_owned()), &plain).0, State::Unknown);
}
