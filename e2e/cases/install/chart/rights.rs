//! Rights follow what is on, and nobody has one that nothing needs.

use serde_json::Value;

use super::{CHART, VALUES, names, rendered, run_helm};

async fn rights_follow_restart_on_config() {
    let config = rendered(&format!(
        "{VALUES},restart.enabled=true,restart.onConfig.enabled=true"
    ))
    .await
    .unwrap();
    let bound = names(&config, "ClusterRoleBinding");
    assert!(
        bound.contains(&"swaplet-restart-on") && !bound.contains(&"swaplet-restart-on-secrets"),
        "{bound:?}"
    );
    assert!(config.contains("--restart-on-config"));
}

#[tokio::test]
async fn rights_follow_what_is_on() {
    let all = rendered(VALUES).await.unwrap();
    assert_eq!(
        names(&all, "ClusterRoleBinding"),
        ["swaplet", "swaplet-nodes"]
    );
    assert_eq!(names(&all, "RoleBinding"), ["swaplet-state"]);
    assert_eq!(names(&all, "CustomResourceDefinition"), [""; 0]);

    let some = rendered(&format!(
        "{VALUES},namespaces={{a,b}},nodes.watch=false,restart.enabled=true,leash.enabled=false"
    ))
    .await
    .unwrap();
    assert_eq!(
        names(&some, "ClusterRoleBinding"),
        ["swaplet-restart-leash"]
    );
    assert_eq!(
        names(&some, "RoleBinding"),
        [
            "swaplet",
            "swaplet",
            "swaplet-restart",
            "swaplet-restart",
            "swaplet-state"
        ]
    );
    assert_eq!(
        names(&some, "CustomResourceDefinition"),
        ["containerrecreaterequests.apps.kruise.io"]
    );
    rights_follow_jobs().await;
    rights_follow_restart_on_config().await;
    assert!(some.contains("helm.sh/resource-policy: keep"));

    assert!(some.contains("- pods/status\n"));
    let phase_is_not_written = rendered(&format!(
        "{VALUES},terminate.finish=never,leash.enabled=false"
    ))
    .await
    .unwrap();
    assert!(!phase_is_not_written.contains("- pods/status\n"));

    let more = rendered(&format!(
        "{VALUES},warm.enabled=true,openkruise.enabled=true"
    ))
    .await
    .unwrap();
    for role in [
        "swaplet-warm",
        "swaplet-warm-nodes",
        "swaplet-requests",
        "swaplet-openkruise",
    ] {
        assert!(names(&more, "ClusterRole").contains(&role), "{role}");
    }
}

async fn rights_follow_jobs() {
    let jobs = rendered(&format!(
        "{VALUES},parkImage=r.example/park:1,warm.enabled=true,warm.namespace=w,warm.jobs.enabled=true,warm.jobs.secretNamespaces={{a}},warm.jobs.exitImages=true,\
         warm.jobs.startupTaint=true,warm.jobs.startupTaintSeconds=60,\
         warm.jobs.imageCaches=true,warm.jobs.imageCacheDays=3,warm.jobs.imageCacheGiB=40,\
         predownload.enabled=true,namespaces={{a}}"
    ))
    .await
    .unwrap();
    let bound = names(&jobs, "RoleBinding");
    let expected = [
        "swaplet",
        "swaplet-predownload",
        "swaplet-pull-jobs",
        "swaplet-pull-jobs-with-secrets",
        "swaplet-state",
        "swaplet-warm",
    ];
    assert_eq!(bound, expected);
    for role in ["swaplet-warm-startup-taint", "swaplet-warm-image-caches"] {
        assert!(names(&jobs, "ClusterRoleBinding").contains(&role), "{role}");
    }
    for policy in ["swaplet-leash-nodes", "swaplet-leash-image-caches"] {
        assert!(
            names(&jobs, "ValidatingAdmissionPolicy").contains(&policy),
            "{policy}"
        );
    }
    let crds = [
        "imagelistpulljobs.apps.kruise.io",
        "imagepulljobs.apps.kruise.io",
    ];
    assert_eq!(names(&jobs, "CustomResourceDefinition"), crds);
    for word in [
        "- --warm\n",
        "- --warm-namespace=w\n",
        "- --warm-exit-images\n",
        "- --warm-startup-taint\n",
        "- --warm-startup-taint-timeout=60\n",
        "- --warm-image-caches\n",
        "- --warm-image-cache-days=3\n",
        "- --warm-image-cache-size=40\n",
        "- --predownload\n",
        "- --park-image=r.example/park:1\n",
        r#"["w","a"]"#,
    ] {
        assert!(jobs.contains(word), "{word}");
    }
}

/// What would let one who may warm images make pods with the account of the controller.
#[tokio::test]
async fn a6_the_account_that_warms_has_a_namespace_of_its_own_under_pod_security() {
    let all = rendered(&format!("{VALUES},warm.enabled=true"))
        .await
        .unwrap();
    let namespace = all
        .split("\n---\n")
        .find(|object| object.contains("kind: Namespace\n"))
        .unwrap();
    let namespace: Value = serde_saphyr::from_str(namespace).unwrap();
    assert_eq!(namespace["metadata"]["name"], "swaplet-warm");
    assert_eq!(
        namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"],
        "restricted"
    );
    let account = "\"system:serviceaccount:swaplet-warm:swaplet-warm\"";
    assert!(
        all.contains(account) && all.contains(r#"["swaplet-warm"]"#),
        "it is on the leash of warmer pods"
    );
    let elsewhere = run_helm(&[
        "template",
        "other",
        CHART,
        "--namespace",
        "teams",
        "--set",
        &format!("{VALUES},warm.enabled=true"),
    ])
    .await;
    let elsewhere = elsewhere.unwrap();
    assert!(
        elsewhere.contains("kind: Namespace\nmetadata:\n  name: teams-other-swaplet-warm\n"),
        "no two releases share it"
    );
    let named = rendered(&format!("{VALUES},warm.enabled=true,warm.namespace=w"))
        .await
        .unwrap();
    assert!(
        !named.contains("kind: Namespace\n"),
        "one that is named is there"
    );
}

/// Who may list Secrets everywhere may do everything.
#[tokio::test]
async fn a11_no_values_give_the_right_to_list_all_secrets() {
    for on in [
        "restart.enabled=true,restart.onConfig.enabled=true,openkruise.enabled=true",
        "restart.enabled=true,restart.onConfig.enabled=true,restart.onConfig.secretNamespaces={a,b}",
        "restart.enabled=true,restart.onConfig.enabled=true,restart.onConfig.secretNamespaces={a},namespaces={a,b}",
        "warm.enabled=true,warm.jobs.enabled=true,parkImage=p:1,predownload.enabled=true,warm.jobs.secretNamespaces={a}",
    ] {
        let all = rendered(&format!("{VALUES},{on}")).await.unwrap();
        let objects: Vec<Value> = serde_saphyr::from_multiple(&all).unwrap();
        let reads_secrets = |role: &Value| {
            role["rules"].as_array().into_iter().flatten().any(|rule| {
                rule["resources"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|of| of == "secrets")
            })
        };
        let roles: Vec<_> = objects
            .iter()
            .filter(|object| reads_secrets(object))
            .map(|role| &role["metadata"]["name"])
            .collect();
        let bound = objects
            .iter()
            .filter(|object| object["kind"] == "ClusterRoleBinding")
            .map(|binding| &binding["roleRef"]["name"]);
        assert!(bound.clone().count() > 0 || on.contains("namespaces={a,b}"));
        for role in bound {
            assert!(
                !roles.contains(&role),
                "{on}: {role} is bound for the whole cluster"
            );
        }
        assert_eq!(
            roles.is_empty(),
            !on.contains("secretNamespaces={a,b}") && !on.contains("onConfig.secretNamespaces"),
            "{on}"
        );
    }
}

/// Where no pod is changed, the right to change pods is not given.
#[tokio::test]
async fn a11_who_only_pulls_images_may_not_change_pods() {
    let may_patch = async |values: &str| {
        let all = rendered(values).await.unwrap();
        let role = all.split("\n---\n").find(|object| {
            object.contains("kind: ClusterRole\n") && object.contains("\n  name: swaplet\n")
        });
        let role: Value = serde_saphyr::from_str(role.unwrap()).unwrap();
        let rules = role["rules"].as_array().unwrap().clone();
        rules.iter().any(|rule| {
            rule["resources"][0] == "pods"
                && rule["verbs"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|verb| verb == "patch")
        })
    };
    assert!(may_patch(VALUES).await);
    assert!(may_patch("image=a,terminate.enabled=false,restart.enabled=true").await);
    assert!(!may_patch("image=a,terminate.enabled=false,predownload.enabled=true").await);
    assert!(
        !may_patch(
            "image=a,terminate.enabled=false,parkImage=p:1,warm.enabled=true,warm.jobs.enabled=true"
        )
        .await
    );
}
