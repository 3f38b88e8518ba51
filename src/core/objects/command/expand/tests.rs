use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn literal(name: &str, value: &str) -> EnvVar {
    EnvVar {
        name: name.into(),
        value: EnvValue::Literal(value.into()),
    }
}

fn reference(name: &str) -> EnvVar {
    EnvVar {
        name: name.into(),
        value: EnvValue::Reference { required: true },
    }
}

fn container(env: Vec<EnvVar>) -> ContainerSpec {
    ContainerSpec {
        env,
        ..ContainerSpec::default()
    }
}

fn expanded(text: &str) -> Option<String> {
    let env = vec![
        literal("A", "a"),
        literal("B", "$$(A)"),
        literal("EMPTY", ""),
        reference("U"),
    ];
    Environment::of(&container(env)).expand(text)
}

/// The cases of the kubelet's own test (`expand_test.go`), with the results that it expects.
#[test]
fn as_the_kubelet_does() {
    for (text, expected) in [
        ("", ""),
        ("x", "x"),
        ("$(A)", "a"),
        ("/$(A)/$(A)", "/a/a"),
        ("$(B)", "$(A)"),
        ("$(EMPTY)", ""),
        ("$(MISSING)", "$(MISSING)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$a"),
        ("$$$$(A)", "$$(A)"),
        ("$$$$$$$(A)", "$$$a"),
        ("$A", "$A"),
        ("${A}", "${A}"),
        ("$(A", "$(A"),
        ("$(A)$(", "a$("),
        ("--$($($($($--", "--$($($($($--"),
        ("$($($$", "$($($"),
        ("$(foo$$var)", "$(foo$$var)"),
        ("$", "$"),
        ("a$", "a$"),
        ("$()", "$()"),
        ("\\$(A)", "\\a"),
        ("$(A))", "a)"),
        ("$($(A))", "$($(A))"),
        ("$(A)$$", "a$"),
        ("$?", "$?"),
        ("$\u{4e2d}(A)", "$\u{4e2d}(A)"),
        (")$(A)", ")a"),
        (")$(A", ")$(A"),
    ] {
        assert_eq!(expanded(text).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn one_unknown_reference_makes_the_whole_unknown() {
    assert_eq!(expanded("/bin/$(U)"), None);
    assert_eq!(expanded("/bin/$$(U)").as_deref(), Some("/bin/$(U)"));
}

#[test]
fn a_value_sees_what_stands_before_it_as_it_is_there() {
    let env = vec![
        literal("A", "1"),
        literal("B", "$(A)$(C)"),
        literal("A", "$(A)2"),
        literal("C", "$(B)"),
        literal("PATH", "/$(A)"),
        literal("A", "$(A)3"),
    ];
    let container = container(env);
    let environment = Environment::of(&container);
    assert_eq!(
        environment.expand("$(A) $(B) $(C)").as_deref(),
        Some("123 1$(C) 1$(C)")
    );
    assert_eq!(environment.search_path(), Variable::Known("/12".to_owned()));
}

#[test]
fn variables_of_services_are_not_taken_for_unset() {
    for name in [
        "KUBERNETES_SERVICE_HOST",
        "DB_SERVICE_PORT_SQL",
        "DB_PORT",
        "DB_PORT_53_UDP_ADDR",
    ] {
        assert!(is_of_a_service(name), "{name}");
    }
    assert!(!is_of_a_service("HOME"));
}

/// Each value is the one before it twice: the pod of finding A1, which ended the controller in 1.7
/// kB.
fn doubling(levels: usize, first: &str) -> ContainerSpec {
    let doubled = (1..=levels)
        .map(|level| literal(&format!("A{level}"), &format!("$(A{0})$(A{0})", level - 1)));
    container(
        std::iter::once(literal("A0", first))
            .chain(doubled)
            .collect(),
    )
}

#[test]
fn a1_what_doubles_with_each_variable_is_given_up_and_not_made() {
    let container = doubling(64, "aaaaaaaa");
    let environment = Environment::of(&container);
    assert_eq!(
        environment.expand("/bin/sleep").as_deref(),
        Some("/bin/sleep"),
        "nobody asks for them"
    );
    assert_eq!(
        environment.left.get(),
        MOST_WORK - "/bin/sleep".len(),
        "so nothing of them is made"
    );
    assert_eq!(
        environment.expand("$(A14)").map(|text| text.len()),
        Some(MOST_TEXT)
    );
    assert_eq!(environment.expand("$(A15)"), None);
    assert_eq!(environment.expand("$(A64)"), None);
}

#[test]
fn a1_a_long_chain_is_no_deep_recursion() {
    let chain = (1..8_000).map(|nth| literal(&format!("A{nth}"), &format!("$(A{})", nth - 1)));
    let container = container(std::iter::once(literal("A0", "x")).chain(chain).collect());
    assert_eq!(
        Environment::of(&container).expand("$(A7999)").as_deref(),
        Some("x")
    );
}

#[test]
fn a1_the_work_for_one_container_is_bounded_also_where_each_text_is_short_enough() {
    let values = (0..64).map(|nth| literal(&format!("A{nth}"), &"x".repeat(100_000)));
    let container = container(values.collect());
    let environment = Environment::of(&container);
    let made = (0..64)
        .filter(|nth| environment.expand(&format!("$(A{nth})")).is_some())
        .count();
    assert_eq!(
        made,
        MOST_WORK / 200_000,
        "each is put together twice: as a value, and in the text"
    );
}

/// The kubelet's rule in its plainest form, without a bound: byte by byte, and every value in its
/// turn.
fn plain(text: &str, known: &BTreeMap<String, Option<String>>, open: bool) -> Option<String> {
    let (mut made, mut rest) = (String::new(), text);
    while let Some(sign) = rest.chars().next() {
        rest = &rest[sign.len_utf8()..];
        if sign != '$' || rest.is_empty() {
            made.push(sign);
        } else if let Some(escaped) = rest.strip_prefix('$') {
            made.push('$');
            rest = escaped;
        } else if let Some(end) = rest.find(')').filter(|_| rest.starts_with('(')) {
            let name = &rest[1..end];
            match known.get(name) {
                Some(value) => made.push_str(value.as_deref()?),
                None if open || is_of_a_service(name) => return None,
                None => made.push_str(&format!("$({name})")),
            }
            rest = &rest[end + 1..];
        } else {
            made.push('$');
        }
    }
    Some(made)
}

fn plain_environment(container: &ContainerSpec) -> BTreeMap<String, Option<String>> {
    let mut known = BTreeMap::new();
    for entry in &container.env {
        let value = match &entry.value {
            EnvValue::Literal(text) => plain(text, &known, container.has_env_from),
            EnvValue::Reference { .. } => None,
        };
        known.insert(entry.name.to_string(), value);
    }
    known
}

fn text() -> impl Strategy<Value = String> {
    let part = prop::sample::select(
        &[
            "$(A)",
            "$(B)",
            "$(PATH)",
            "$(C)",
            "$$",
            "$",
            "(",
            ")",
            "$(",
            "x",
            "/",
            "\u{e9}",
            "$(X_PORT)",
            "$$(A)",
            "$($(A))",
        ][..],
    );
    prop::collection::vec(part, 0..6).prop_map(|parts| parts.concat())
}

fn environment() -> impl Strategy<Value = ContainerSpec> {
    let value = prop_oneof![6 => text().prop_map(|text| EnvValue::Literal(text.into())), 1 => Just(EnvValue::Reference { required: false })];
    let entry = (
        prop::sample::select(&["A", "B", "C", "PATH", "", "X_PORT"][..]),
        value,
    );
    let entry = entry.prop_map(|(name, value)| EnvVar {
        name: name.into(),
        value,
    });
    (prop::collection::vec(entry, 0..8), any::<bool>()).prop_map(|(env, has_env_from)| {
        ContainerSpec {
            env,
            has_env_from,
            ..ContainerSpec::default()
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a1_what_is_asked_for_is_what_the_kubelet_makes_of_everything(container in environment(), text in text()) {
        let (environment, known) = (Environment::of(&container), plain_environment(&container));
        prop_assert_eq!(environment.expand(&text), plain(&text, &known, container.has_env_from), "{} in {:?}", text, known);
        let path = match known.get("PATH") {
            Some(Some(path)) => Variable::Known(path.clone()),
            Some(None) => Variable::Unknown,
            None => Variable::Unset,
        };
        prop_assert_eq!(environment.search_path(), path);
    }

    #[test]
    fn a1_nothing_longer_than_the_bounds_is_ever_made(levels in 0_usize..40, first in "[a$()]{0,40}", asked in 0_usize..40) {
        let container = doubling(levels, &first);
        let environment = Environment::of(&container);
        for text in [format!("$(A{asked})"), format!("$(A{asked})$(A{asked})/$(A0)")] {
            let made = environment.expand(&text);
            prop_assert!(made.is_none_or(|made| made.len() <= MOST_TEXT && made.capacity() <= 2 * MOST_TEXT));
        }
    }
}
