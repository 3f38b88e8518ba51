//! Each value of the chart is rendered.

use serde_json::Value;

use super::{CHART, run_helm};

/// Everything is on.
const ALL: &str = "image=r.example/swaplet:v1,terminate.exitImage=r.example/exit:v1,parkImage=r.example/park:v1,sidecarPolicies.enabled=true,\
    restart.enabled=true,restart.onConfig.enabled=true,restart.onConfig.secretNamespaces={secrets-a},restart.readinessGates.enabled=true,\
    hotUpgrade.enabled=true,hotUpgrade.images={r.example/proxy:*},warm.enabled=true,warm.jobs.enabled=true,warm.jobs.exitImages=true,\
    warm.jobs.startupTaint=true,warm.jobs.imageCaches=true,predownload.enabled=true,protection.enabled=true,protection.count=true,\
    openkruise.enabled=true,serviceMonitor.enabled=true,prometheusRule.enabled=true,dashboard.enabled=true,terminate.swapUnderNever=true";

/// Each value that is no switch, another one for it, and what is rendered because of that.
const OTHERS: &[(&str, &str, &str)] = &[
    (
        "image",
        "r.example/other:v1",
        "image: \"r.example/other:v1@sha256:aa",
    ),
    ("imageDigest", "sha256:@a", "other:v1@sha256:aaaa"),
    ("imagePullPolicy", "Always", "imagePullPolicy: Always"),
    ("imagePullSecrets[0].name", "puller", "- name: puller"),
    ("replicas", "3", "replicas: 3"),
    ("namespaces", "{team-a}", "- team-a"),
    (
        "terminate.exitImage",
        "r.example/left:v1",
        "- --exit-image=r.example/left:v1",
    ),
    (
        "terminate.exitImageDigest",
        "sha256:@b",
        "left:v1@sha256:bbbb",
    ),
    (
        "terminate.exitImages",
        "{r.example/exits/*}",
        "- r.example/exits/*",
    ),
    (
        "terminate.derivedRepository",
        "r.example/derived",
        "- --derived-repository=r.example/derived",
    ),
    (
        "terminate.exitImageIsPublic",
        "false",
        "- --exit-image-is-public=false",
    ),
    ("terminate.finish", "never", "- --finish=never"),
    ("terminate.prefer", "crr", "- --prefer=crr"),
    ("sidecarPolicies.containers", "{team-*}", r#"["team-*"]"#),
    (
        "restart.onConfig.secretNamespaces",
        "{secrets-b}",
        "namespace: secrets-b",
    ),
    (
        "hotUpgrade.images",
        "{r.example/mesh:*}",
        "- r.example/mesh:*",
    ),
    (
        "hotUpgrade.emptyImages",
        "{r.example/empty:*}",
        "- r.example/empty:*",
    ),
    (
        "parkImage",
        "r.example/rest:v1",
        "- --park-image=r.example/rest:v1",
    ),
    ("parkImageDigest", "sha256:@c", "rest:v1@sha256:cccc"),
    ("parkImagePaths", "{/opt/own/server}", "- /opt/own/server"),
    ("warm.namespace", "warming", "- --warm-namespace=warming"),
    (
        "warm.jobs.startupTaintSeconds",
        "61",
        "- --warm-startup-taint-timeout=61",
    ),
    ("warm.jobs.startupTaintNamespaces", "{taints}", "- taints"),
    (
        "warm.jobs.trySecondsMax",
        "62",
        "- --warm-try-seconds-max=62",
    ),
    (
        "warm.jobs.imageCacheDays",
        "3",
        "- --warm-image-cache-days=3",
    ),
    (
        "warm.jobs.imageCacheGiB",
        "63",
        "- --warm-image-cache-size=63",
    ),
    (
        "warm.jobs.sandboxKeys",
        "{boxes.example/*}",
        "- --warm-sandbox-keys=boxes.example/*",
    ),
    ("warm.jobs.secretNamespaces", "{pulls}", "namespace: pulls"),
    (
        "protection.crds",
        "{widgets.example.com}",
        "resources: [\"widgets\"]",
    ),
    ("nodes.classes", "- {}", "- --node-classes="),
    ("openkruise.coexist", "own", "- --coexist=own"),
    ("openkruise.warmCoexist", "own", "- --warm-coexist=own"),
    ("registry.secret", "pusher", "secretName: pusher"),
    ("registry.plainHttp", "{plain.example}", "- plain.example"),
    ("log.format", "text", "- --log-format=text"),
    ("log.level", "debug", "value: \"debug\""),
    ("port", "8081", "- --listen=:8081"),
    ("serviceMonitor.interval", "31s", "interval: 31s"),
    ("serviceMonitor.labels.monitor", "one", "monitor: one"),
    ("prometheusRule.labels.rules", "two", "rules: two"),
    (
        "dashboard.labels.grafana_dashboard",
        "three",
        "grafana_dashboard: three",
    ),
    (
        "networkPolicy.ingressFrom[0].podSelector.matchLabels.from",
        "prometheus",
        "from: prometheus",
    ),
    ("networkPolicy.egressPorts", "{5000}", "{port: 5000}"),
    ("leash.closedNamespaces", "{closed}", r#"["closed"]"#),
    ("leash.warmerKeys", "{keys.example/*}", "keys.example/*\"]"),
    (
        "leash.parkImages",
        "{r.example/park:v0}",
        "r.example/park:v0\"",
    ),
    (
        "podDisruptionBudget.maxUnavailable",
        "2",
        "maxUnavailable: 2",
    ),
    ("priorityClassName", "high", "priorityClassName: high"),
    ("resources.requests.cpu", "21m", "cpu: 21m"),
    ("resources.requests.memory", "65Mi", "memory: 65Mi"),
    ("resources.limits.memory", "257Mi", "memory: 257Mi"),
    ("nodeSelector.pool", "system", "pool: system"),
    ("tolerations[0].key", "dedicated", "- key: dedicated"),
    ("affinity.nodeAffinity.note", "near", "note: near"),
    ("topologySpreadConstraints[0].maxSkew", "4", "maxSkew: 4"),
    ("podAnnotations.noted", "here", "noted: here"),
    ("podLabels.profile", "fargate", "profile: fargate"),
    (
        "extraVolumes[0].name",
        "certificates",
        "- name: certificates",
    ),
    (
        "extraVolumeMounts[0].name",
        "mounted,extraVolumeMounts[0].mountPath=/mounted",
        "name: mounted",
    ),
    ("fullnameOverride", "ender", "name: ender\n"),
    (
        "serviceAccount.name",
        "theirs",
        "serviceAccountName: theirs",
    ),
    ("serviceAccount.annotations.role", "arn", "role: arn"),
    ("config.concurrency", "8", "concurrency: 8"),
    ("env[0].name", "RUST_BACKTRACE", "name: RUST_BACKTRACE"),
    ("args", "{--concurrency=3}", "- --concurrency=3"),
];

/// Each switch, what is rendered while it is on and not while it is off, and what cannot be on without it.
const SWITCHES: &[(&str, &str, &str)] = &[
    (
        "terminate.enabled",
        "- --finish=",
        "warm.jobs.exitImages=false",
    ),
    ("terminate.swapUnderNever", "- --swap-under-never", ""),
    ("sidecarPolicies.enabled", "- --sidecar-policies\n", ""),
    (
        "restart.enabled",
        "- --restart\n",
        "restart.readinessGates.enabled=false",
    ),
    ("restart.withoutLeash", "- --restart-without-leash\n", ""),
    ("restart.onConfig.enabled", "- --restart-on-config\n", ""),
    (
        "restart.readinessGates.enabled",
        "- --restart-readiness-gates\n",
        "",
    ),
    ("hotUpgrade.enabled", "- --hot-upgrade\n", ""),
    (
        "warm.enabled",
        "name: swaplet-warm\n",
        "warm.jobs.enabled=false",
    ),
    ("warm.jobs.enabled", "- --warm\n", ""),
    ("warm.jobs.exitImages", "- --warm-exit-images\n", ""),
    ("warm.jobs.startupTaint", "- --warm-startup-taint\n", ""),
    ("warm.jobs.imageCaches", "- --warm-image-caches\n", ""),
    ("predownload.enabled", "- --predownload\n", ""),
    (
        "protection.enabled",
        "name: swaplet-protection-contents\n",
        "protection.count=false",
    ),
    ("protection.count", "- --protect\n", ""),
    (
        "protection.countedElsewhere",
        "name: not-counted-elsewhere\n",
        "protection.count=false",
    ),
    (
        "nodes.watch",
        "name: swaplet-nodes\n",
        "warm.jobs.enabled=false",
    ),
    ("openkruise.enabled", "name: swaplet-openkruise\n", ""),
    ("crds.enabled", "kind: CustomResourceDefinition\n", ""),
    (
        "bringBackParked.enabled",
        "name: swaplet-bring-back-parked\n",
        "",
    ),
    ("serviceMonitor.enabled", "kind: ServiceMonitor\n", ""),
    ("prometheusRule.enabled", "kind: PrometheusRule\n", ""),
    ("dashboard.enabled", "swaplet.json: ", ""),
    (
        "networkPolicy.enabled",
        "  policyTypes: [Ingress, Egress]\n  ingress:",
        "",
    ),
    ("leash.enabled", "name: swaplet-leash-pods\n", ""),
    (
        "leash.exitImageDigests",
        "expression: \"true\"\n    name: exitImageDigests",
        "",
    ),
    (
        "podDisruptionBudget.enabled",
        "kind: PodDisruptionBudget\n",
        "",
    ),
    ("flowSchema.enabled", "kind: FlowSchema\n", ""),
    (
        "serviceAccount.create",
        "kind: ServiceAccount\nmetadata:\n  name: swaplet\n",
        "",
    ),
];

/// The paths of the values that have no members of their own.
fn leaves(path: &str, value: &Value, found: &mut Vec<String>) {
    match value.as_object().filter(|members| !members.is_empty()) {
        Some(members) => {
            for (name, member) in members {
                let dot = if path.is_empty() { "" } else { "." };
                leaves(&format!("{path}{dot}{name}"), member, found);
            }
        }
        None => found.push(path.to_owned()),
    }
}

/// With everything on, and these values.
async fn rendered_with(values: &str) -> String {
    let mut all = format!("{ALL},{values}");
    for letter in ["a", "b", "c"] {
        all = all.replace(&format!("@{letter}"), &letter.repeat(64));
    }
    let gates = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy";
    let arguments = [
        "template",
        "swaplet",
        CHART,
        "--namespace",
        "swaplet",
        "--api-versions",
        gates,
        "--set",
        &all,
    ];
    run_helm(&arguments)
        .await
        .unwrap_or_else(|error| panic!("{values}: {error}"))
}

#[tokio::test]
async fn each_value_is_rendered() {
    let (before, others) = (rendered_with("").await, OTHERS.iter());
    let others: Vec<_> = others
        .map(|(key, value, _)| format!("{key}={value}"))
        .collect();
    let after = rendered_with(&others.join(",")).await;
    for (key, _, text) in OTHERS {
        assert!(
            after.contains(text) && !before.contains(text),
            "{key}: {text}"
        );
    }
    for (key, text, without) in SWITCHES {
        let is_on = before.contains(text);
        let turned = rendered_with(&format!("{key}={},{without}", !is_on)).await;
        assert_eq!(turned.contains(text), !is_on, "{key}: {text}");
    }

    let values = std::fs::read_to_string(format!("{CHART}/values.yaml")).unwrap();
    let mut all = Vec::new();
    leaves("", &serde_saphyr::from_str(&values).unwrap(), &mut all);
    let keys = OTHERS
        .iter()
        .map(|(key, ..)| *key)
        .chain(SWITCHES.iter().map(|(key, ..)| *key));
    let keys: Vec<_> = keys.collect();
    all.retain(|value| !keys.iter().any(|key| key.starts_with(value.as_str())));
    assert_eq!(all, [""; 0], "no row says what these values render");
}
