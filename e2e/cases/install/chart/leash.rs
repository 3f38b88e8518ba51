//! The leash is that of the installation: its images, its namespaces, its name.

use std::collections::BTreeSet;

use super::{CHART, VALUES, names, rendered, run_helm};

async fn has_the_exit_images() {
    let all = rendered(&format!(
        "{VALUES},terminate.derivedRepository=r.example/derived,terminate.exitImages={{r.example/exit/*}}"
    ))
    .await
    .unwrap();
    let own = ["events", "pods", "pods-status", "state", "warmers"]
        .map(|policy| format!("swaplet-leash-{policy}"));
    assert_eq!(names(&all, "ValidatingAdmissionPolicy"), own);
    assert_eq!(names(&all, "ValidatingAdmissionPolicyBinding"), own);
    assert!(
        all.contains(
            r#"["registry.example/swaplet/exit:v1","r.example/exit/*","r.example/derived@*"]"#
        ),
        "the exit images"
    );
    assert!(
        !all.contains("registry.example/swaplet/park"),
        "a parameter that was not set"
    );
}

#[tokio::test]
async fn the_leash_is_that_of_the_installation() {
    let leash = |values: &'static str| async move {
        rendered(&format!("{VALUES},{values}")).await.unwrap()
    };
    has_the_exit_images().await;
    let parks = leash(
        "restart.enabled=true,parkImage=r.example/park:2,leash.parkImages={r.example/park:1}",
    )
    .await;
    assert!(
        parks.contains(r#"["r.example/park:2","r.example/park:1"]"#)
            && parks.contains("--park-image=r.example/park:2"),
        "the park images"
    );

    // Who may ask matters where it works, and nowhere else.
    let some = leash("restart.enabled=true,namespaces={a}").await;
    for policy in ["requests", "parked"] {
        let found = some
            .split("\n---\n")
            .find(|object| object.contains(&format!("name: swaplet-leash-{policy}\n")))
            .unwrap();
        assert!(found.contains("namespaceSelector"), "{found}");
    }
    for words in [
        "- --leash=swaplet-leash\n",
        "- swaplet-leash-pods\n",
        "- swaplet-leash-parked\n",
    ] {
        assert!(some.contains(words), "{words}");
    }
    let without = leash("restart.enabled=true,restart.withoutLeash=true,leash.enabled=false").await;
    assert!(without.contains("- --restart-without-leash\n") && !without.contains("- --leash="));
    assert_eq!(
        names(&without, "ClusterRoleBinding"),
        ["swaplet", "swaplet-nodes", "swaplet-restart"]
    );

    assert_eq!(
        names(
            &leash("leash.enabled=false").await,
            "ValidatingAdmissionPolicy"
        ),
        [""; 0]
    );
    has_the_name_of_its_installation().await;
}

/// Whatever the installation is called, its policies are for the account that its pods run as, and
/// no value becomes another one.
#[tokio::test]
async fn the_leash_is_for_the_account_that_runs_and_each_value_stays_what_it_is() {
    for (release, namespace, more) in [
        ("swaplet", "swaplet", ""),
        ("other", "teams", ""),
        ("swaplet-warm", "swaplet-warm", ""),
        ("swaplet", "swaplet-warm", ""),
        ("swaplet", "swaplet", ",serviceAccount.name=swaplet-warm"),
        ("swaplet", "elsewhere", ",warm.namespace=swaplet"),
        ("swaplet", "swaplet-leash-lab", ",restart.enabled=true"),
    ] {
        let values = format!("{VALUES},warm.enabled=true,parkImage=r.example/park:1{more}");
        let all = run_helm(&[
            "template",
            release,
            CHART,
            "--namespace",
            namespace,
            "--set",
            &values,
        ])
        .await
        .unwrap();
        let run_as = |line: &&str| line.trim().starts_with("serviceAccountName: ");
        let account = all.lines().find(run_as).unwrap();
        let account = account.trim().split_once(' ').unwrap().1.trim_matches('"');
        let expected = format!("\"system:serviceaccount:{namespace}:{account}\"");
        let mut of_accounts = BTreeSet::new();
        for object in all.split("\n---\n").filter(|object| {
            object.contains("\nkind: ValidatingAdmissionPolicy\n")
                && object.contains("\"system:serviceaccount:")
        }) {
            let name = names(object, "ValidatingAdmissionPolicy")[0].to_owned();
            assert!(object.contains(&expected), "{expected}: {object}");
            // That of `swaplet warm` may be there too.
            if !name.ends_with("-warmers") {
                let accounts = object.matches("\"system:serviceaccount:").count();
                assert_eq!(accounts, object.matches(&expected).count(), "{object}");
            }
            of_accounts.extend(name.rsplit_once("-leash-").map(|(_, part)| part.to_owned()));
        }
        for policy in ["pods", "pods-status", "events", "state", "warmers"] {
            assert!(of_accounts.contains(policy), "{policy}: {of_accounts:?}");
        }
        assert_eq!(of_accounts.contains("parked"), more.contains("restart"));
    }
    let caches = rendered(&format!(
        "{VALUES},warm.enabled=true,warm.jobs.enabled=true,parkImage=r.example/park:1,warm.jobs.imageCaches=true,warm.jobs.imageCacheDays=100,warm.jobs.imageCacheGiB=20"
    ))
    .await
    .unwrap();
    for (name, value) in [("mostDays", 100), ("mostGiB", 20)] {
        let words = format!("- expression: \"{value}\"\n    name: {name}\n");
        assert!(caches.replace('\'', "\"").contains(&words), "{words}");
    }
}

async fn has_the_name_of_its_installation() {
    let elsewhere = run_helm(&[
        "template",
        "other",
        CHART,
        "--namespace",
        "teams",
        "--set",
        VALUES,
    ])
    .await
    .unwrap();
    assert!(
        elsewhere.contains("system:serviceaccount:teams:other-swaplet\"")
            && !elsewhere.contains("serviceaccount:swaplet:")
    );
    assert_eq!(
        names(&elsewhere, "ValidatingAdmissionPolicy")[0],
        "teams-other-swaplet-leash-events"
    );
}
