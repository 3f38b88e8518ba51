//! The rights that the manifests give are those that `docs/rights.md` explains, each of them, and
//! no others.

use std::collections::BTreeSet;

use swaplet_controller::frame::serve::rights::Right as Used;

use self::table::{Right, document, explained, given, heading, modes, of_manifests};

mod table;

#[test]
fn the_document_explains_the_rights_that_the_manifests_give_and_no_others() {
    let given: Vec<_> = of_manifests()
        .iter()
        .flat_map(|(_, role)| given(role))
        .collect();
    let explained = explained();
    let (given_once, explained_once): (BTreeSet<_>, BTreeSet<_>) =
        (given.iter().collect(), explained.iter().collect());
    let only = |one: &BTreeSet<_>, other: &BTreeSet<_>| {
        one.difference(other)
            .map(|right: &&Right| right.join(" "))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        only(&given_once, &explained_once),
        Vec::<String>::new(),
        "given by deploy/, not explained in docs/rights.md"
    );
    assert_eq!(
        only(&explained_once, &given_once),
        Vec::<String>::new(),
        "explained in docs/rights.md, not given by deploy/"
    );
    assert_eq!(
        (given.len(), explained.len()),
        (given_once.len(), explained_once.len()),
        "a right is given or explained twice"
    );
}

#[test]
fn the_document_says_where_each_role_is_and_names_no_role_that_is_not_there() {
    let text = document();
    for (file, role) in of_manifests() {
        let said = format!("\n## {}\n\n`deploy/{file}`", heading(&role));
        assert!(text.contains(&said), "docs/rights.md does not say {said:?}");
    }
    let names: BTreeSet<_> = of_manifests()
        .iter()
        .map(|(_, role)| role["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    let modes = modes();
    assert!(modes.len() >= 5);
    for role in modes.iter().flatten().flatten() {
        assert!(names.contains(role), "{role} is no role of deploy/");
    }
}

#[test]
fn each_right_that_the_controller_uses_is_given_by_the_role_that_it_names() {
    let roles = of_manifests();
    for used in Used::ALL {
        let [name, verb, group, resource] = used.rule();
        let is_given = roles
            .iter()
            .filter(|(_, role)| role["metadata"]["name"] == name)
            .flat_map(|(_, role)| given(role))
            .any(|rule| rule[1..4] == [group, resource, verb]);
        assert!(
            name.is_empty() || is_given,
            "{used:?}: no role {name} of deploy/ gives {verb} on {resource} of {group:?}"
        );
    }
}

#[test]
fn what_is_not_done_without_a_right_is_said_of_one_right_only() {
    let effects: BTreeSet<_> = Used::ALL.iter().map(|right| right.without()).collect();
    assert_eq!(effects.len(), Used::ALL.len());
}

/// Nothing is given that would be a way around every limit.
#[test]
fn no_role_gives_everything_or_what_makes_everything_possible() {
    for (file, role) in of_manifests() {
        for [_, group, resource, verb, name] in given(&role) {
            assert!(
                ![&group, &resource, &verb].contains(&&"*".to_owned()),
                "{file}: a wildcard"
            );
            let never = ["escalate", "bind", "impersonate", "deletecollection"];
            assert!(!never.contains(&verb.as_str()), "{file}: {verb} {resource}");
            let is_for_users = heading(&role).ends_with("-user")
                && ["apps.kruise.io", "swaplet.io"].contains(&group.as_str());
            assert!(
                verb != "update" || is_for_users,
                "{file}: {verb} {resource}"
            );
            let never = [
                "pods/exec",
                "pods/attach",
                "pods/ephemeralcontainers",
                "pods/binding",
                "pods/eviction",
                "serviceaccounts/token",
            ];
            assert!(!never.contains(&resource.as_str()), "{file}: {resource}");
            assert!(
                resource != "secrets" || verb != "get" || !name.is_empty(),
                "{file}: any Secret"
            );
        }
    }
}
