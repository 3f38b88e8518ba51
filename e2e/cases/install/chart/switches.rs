//! Parts of the chart that a value switches on: policies of sidecars, deletion protection, and what
//! watches the controller.

use serde_json::Value;

use super::{CHART, VALUES, names, rendered, run_helm};

/// Only what is listed may be ended unmarked, and nothing where policies are off.
#[tokio::test]
async fn policies_of_sidecars_bring_their_rights_crds_and_list() {
    let off = rendered(VALUES).await.unwrap();
    assert!(off.contains(r#"'["-"]'"#) && !off.contains("swaplet.io/sidecarpolicies"));
    let on = rendered(&format!(
        "{VALUES},sidecarPolicies.enabled=true,sidecarPolicies.containers={{team-*}}"
    ))
    .await
    .unwrap();
    assert!(on.contains(r#"'["team-*"]'"#) && !on.contains(r#"'["-"]'"#));
    assert!(on.contains("- --sidecar-policies\n") && !off.contains("--sidecar-policies"));
    assert_eq!(
        names(&on, "CustomResourceDefinition"),
        [
            "namespacedsidecarpolicies.swaplet.io",
            "sidecarpolicies.swaplet.io"
        ]
    );
    assert!(names(&on, "ClusterRoleBinding").contains(&"swaplet-sidecar-policies"));
    assert!(on.contains("aggregate-to-edit: \"true\""));
    let refused = rendered(&format!("{VALUES},sidecarPolicies.containers={{*}}"))
        .await
        .expect_err("every container is no list");
    assert!(refused.contains("sidecarPolicies"), "{refused}");
}

/// Each feature may be the only one that is on.
#[tokio::test]
async fn hot_upgrades_need_nothing_else() {
    let all = rendered(
        "image=a,terminate.enabled=false,parkImage=p:1,hotUpgrade.enabled=true,hotUpgrade.images={r.example/proxy:*}",
    )
    .await
    .unwrap();
    for word in ["- --terminate=false\n", "- --hot-upgrade\n"] {
        assert!(all.contains(word), "{word}");
    }
}

/// A list of a user may be the text of a placeholder.
#[tokio::test]
async fn a_closed_namespace_may_have_the_name_of_the_namespace_of_warmer_pods() {
    let all = rendered(&format!("{VALUES},leash.closedNamespaces={{swaplet-warm}}"))
        .await
        .unwrap();
    assert!(all.contains(r#"["swaplet-warm"]"#), "it is closed");
}

/// For everybody where it is asked for, in the namespaces that are named, and nowhere else.
#[tokio::test]
async fn deletion_protection_is_policies_alone() {
    let off = rendered(VALUES).await.unwrap();
    assert!(!off.contains("delete-protection"));
    let on = rendered(&format!(
        "{VALUES},leash.enabled=false,protection.enabled=true"
    ))
    .await
    .unwrap();
    // Another installation may count, and this one is not to deny that.
    let wanted =
        ["contents", "network", "workloads"].map(|name| format!("swaplet-protection-{name}"));
    assert_eq!(names(&on, "ValidatingAdmissionPolicy"), wanted);
    assert_eq!(names(&on, "ValidatingAdmissionPolicyBinding"), wanted);
    assert_eq!(
        names(&on, "ClusterRoleBinding"),
        names(&off, "ClusterRoleBinding")
    );
    assert!(!on.contains("namespaceSelector:"));
    let some = rendered(&format!(
        "{VALUES},leash.enabled=false,protection.enabled=true,namespaces={{a,b}}"
    ))
    .await
    .unwrap();
    assert_eq!(some.matches("namespaceSelector:").count(), 3);
    // The contents of a CRD are judged elsewhere only where that was said.
    let elsewhere = "name: not-counted-elsewhere\n";
    assert!(!some.contains(elsewhere) && !on.contains(elsewhere));
    let second = format!(
        "{VALUES},leash.enabled=false,protection.enabled=true,protection.countedElsewhere=true,namespaces={{a}}"
    );
    assert!(rendered(&second).await.unwrap().contains(elsewhere));
    let counting =
        format!("{VALUES},protection.enabled=true,protection.count=true,namespaces={{a}}");
    assert!(!rendered(&counting).await.unwrap().contains(elsewhere));
    let both = rendered(&format!("{counting},protection.countedElsewhere=true"))
        .await
        .expect_err("one counts");
    assert!(both.contains("of several installations one"), "{both}");
    let counted = rendered(&format!(
        "{VALUES},protection.enabled=true,protection.count=true,protection.crds={{widgets.example.com}}"
    ))
    .await
    .unwrap();
    let bound = names(&counted, "ClusterRoleBinding");
    for role in ["swaplet-protect", "swaplet-protect-crds"] {
        assert!(bound.contains(&role), "{role}");
    }
    assert!(counted.contains("apiGroups: [\"example.com\"]\n    resources: [\"widgets\"]"));
    for words in [
        "- --protect\n",
        "name: swaplet-leash-protected\n",
        "name: swaplet-protection-counts\n",
    ] {
        assert!(counted.contains(words) && !on.contains(words), "{words}");
    }
    // What was counted before counts only where somebody still counts.
    let read = "string(oldObject.metadata.annotations[\"swaplet.io/holds\"])";
    assert_eq!([&on, &counted].map(|all| all.matches(read).count()), [0, 2]);
    let alone = format!("{VALUES},protection.count=true");
    let refused = rendered(&alone).await.expect_err("there are no policies");
    assert!(refused.contains("needs protection.enabled"), "{refused}");
    let values = format!("{VALUES},protection.enabled=true");
    let old = [
        "template",
        "swaplet",
        CHART,
        "--set",
        &values,
        "--kube-version",
        "1.29.0",
    ];
    let refused = run_helm(&old).await.expect_err("no policies before 1.30");
    assert!(
        refused.contains("protection.enabled needs Kubernetes 1.30"),
        "{refused}"
    );
}

#[tokio::test]
async fn what_watches_the_controller_is_what_deploy_has() {
    let none = rendered(VALUES).await.unwrap();
    for kind in ["ServiceMonitor", "PrometheusRule"] {
        assert_eq!(names(&none, kind), [""; 0]);
    }
    assert_eq!(
        names(&none, "ConfigMap"),
        ["swaplet-config"],
        "no dashboard"
    );
    let on = ["serviceMonitor", "prometheusRule", "dashboard"]
        .map(|part| format!(",{part}.enabled=true"))
        .concat();
    let all = rendered(&format!(
        "{VALUES}{on},prometheusRule.labels.release=prometheus"
    ))
    .await
    .unwrap();
    let of_kind = |kind: &str| {
        let object = all
            .split("\n---\n")
            .filter(|object| object.contains(&format!("\nkind: {kind}\n")))
            .last()
            .unwrap();
        serde_saphyr::from_str::<Value>(object).unwrap()
    };
    let rules = of_kind("PrometheusRule");
    assert_eq!(
        rules["spec"],
        serde_saphyr::from_str::<Value>(include_str!("../../../../deploy/alerts.yaml")).unwrap()
    );
    assert_eq!(rules["metadata"]["labels"]["release"], "prometheus");
    let dashboard = of_kind("ConfigMap");
    assert_eq!(
        dashboard["data"]["swaplet.json"],
        include_str!("../../../../deploy/dashboard.json")
    );
    assert_eq!(dashboard["metadata"]["labels"]["grafana_dashboard"], "1");
    assert_eq!(
        of_kind("ServiceMonitor")["spec"]["endpoints"][0]["path"],
        "/metrics"
    );
}
