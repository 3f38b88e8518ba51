//! What `swaplet check` makes of SidecarPolicies, presets and annotations.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use super::push::push_for;
use super::{MARK, Ran, check, job, scaled_job, swaplet, unknown};

const POLICY: &str = "\
apiVersion: swaplet.io/v1alpha1
kind: SidecarPolicy
metadata: {name: mesh}
spec:
  sidecars:
  - {name: log, waitForExit: {deadlineSeconds: 30}}
  - {preset: istio, order: 1, delaySeconds: 5}
";

fn unmarked(name: &str) -> String {
    format!("      - {{name: {name}, image: \"side:1\", command: [/usr/local/bin/envoy]}}\n")
}

fn two() -> String {
    job("two", &(unmarked("istio-proxy") + &unmarked("log")))
}

/// Checks a manifest with these policies.
fn with(policies: &str, manifest: &str, more: &[&str]) -> Ran {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("policy.yaml");
    fs::write(&file, policies).unwrap();
    let file = file.to_str().unwrap().to_owned();
    check(manifest, &[&["--policy", &file], more].concat())
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}{}", ran.out, ran.err))
}

#[test]
fn sidecars_of_a_policy_are_judged_and_shown_with_rule_order_and_delay() {
    let ran = with(POLICY, &two(), &[]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let flat = ran.flat();
    for part in [
        "by SidecarPolicy mesh, sidecars[1] (preset istio), order 1, delay 5 s",
        "by SidecarPolicy mesh, sidecars[0], may end by itself for 30 s",
        "2 sidecars in 1 pod template: 2 end, 0 do not",
    ] {
        assert!(flat.contains(part), "{part}: {}", ran.out);
    }
    assert!(!ran.err.contains("looks like"), "{}", ran.err);
    let value = json(&with(POLICY, &two(), &["-o", "json"]));
    let row = &value["sidecars"][0];
    assert_eq!(
        (&row["container"], &row["by"], &row["verdict"]),
        (&"istio-proxy".into(), &"policy".into(), &"Runnable".into())
    );
    assert_eq!(row["policy"]["name"], "mesh");
    assert_eq!(row["policy"]["index"], 1);
    assert_eq!(
        (&row["rule"]["order"], &row["rule"]["delaySeconds"]),
        (&1.into(), &5.into())
    );
}

#[test]
fn without_a_policy_nothing_is_a_sidecar_and_a_preset_is_enough() {
    let ran = check(&two(), &[]);
    assert!(ran.err.contains("No sidecar in 1 pod template"));
    assert!(ran.err.contains("or a SidecarPolicy"), "{}", ran.err);
    let value = json(&check(&two(), &["--preset", "istio", "-o", "json"]));
    let rows = value["sidecars"].as_array().unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (&rows[0]["by"], &rows[0]["policy"]),
        (&"preset".into(), &Value::Null)
    );
    let unknown = check(&two(), &["--preset", "isto"]);
    assert_eq!(unknown.code, 2);
    assert!(
        unknown.err.contains("linkerd") && unknown.err.contains("isto"),
        "{}",
        unknown.err
    );
}

#[test]
fn annotations_name_sidecars_too_and_a_bad_one_is_noted() {
    let annotated = two().replace(
        "  template:\n",
        "  template:\n    metadata: {annotations: {swaplet.io/sidecars: \"log,nobody\", swaplet.io/delay: 5s}}\n",
    );
    let ran = check(&annotated, &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.flat().contains("by annotations of the pod, delay 5 s"),
        "{}",
        ran.out
    );
    assert!(ran.err.contains("no container \"nobody\""), "{}", ran.err);
    assert_eq!(check(&annotated, &["--strict"]).code, 1);
}

#[test]
fn a_policy_that_leaves_no_main_container_is_red() {
    let all = POLICY.replace("name: log", "name: \"*\"");
    let ran = with(&all, &two(), &[]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(
        ran.out.contains("OnlySidecars")
            && ran.flat().contains("SidecarPolicy mesh, sidecars[0]")
            && ran.flat().contains("would leave no main container"),
        "{}",
        ran.out
    );
}

#[test]
fn methods_of_a_rule_say_how_it_ends() {
    let method = |method: &str, more: &[&str]| {
        let policy = POLICY.replace("{name: log,", &format!("{{name: log, method: {method},"));
        let manifest = two();
        let ran = with(&policy, &manifest, &[more, &["-o", "json"]].concat());
        let value = json(&ran);
        let rows = value["sidecars"].as_array().unwrap().clone();
        rows.into_iter()
            .find(|row| row["container"] == "log")
            .unwrap()
    };
    assert_eq!(method("Finish", &[])["verdict"], "ByPhase");
    let not_allowed = method("Finish", &["--finish=never"]);
    assert_eq!(not_allowed["verdict"], "Runnable");
    assert!(not_allowed["warnings"].to_string().contains("not allowed"));
    let left = method("Leave", &[]);
    assert_eq!(
        (&left["verdict"], &left["ok"]),
        (&"LeftAlone".into(), &true.into())
    );
    let swapped = method("Swap", &[]);
    assert_eq!(swapped["rule"]["method"], "Swap");
}

#[test]
fn where_a_rule_allows_a_swap_alone_the_phase_is_not_promised() {
    let counted = two()
        .replace("restartPolicy: Never", "restartPolicy: OnFailure")
        .replace("spec:\n  template", "spec:\n  backoffLimit: 2\n  template");
    let ran = with(POLICY, &counted, &[]);
    let flat = ran.flat();
    assert!(
        ran.code == 0 && flat.contains("the phase of the pod is written instead"),
        "{flat}"
    );
    let policy = POLICY.replace("{name: log,", "{name: log, method: Swap,");
    let ran = with(&policy, &counted, &[]);
    let words = "set spec.backoffLimit to at least 3, or let no rule of the pod have method Swap";
    assert!(
        ran.code == 1 && ran.flat().contains(words),
        "{}{}",
        ran.out,
        ran.err
    );
}

/// An order or a delay that is misspelt would be dropped by the API server in silence.
#[test]
fn what_is_wrong_with_a_policy_names_file_field_and_fix() {
    for (policy, part) in [
        (
            POLICY.replace("delaySeconds", "delaySecond"),
            "SidecarPolicy mesh: spec.sidecars[1] has no field \"delaySecond\"",
        ),
        (
            POLICY.replace("order: 1", "order: first"),
            "spec.sidecars[1].order: write a whole number",
        ),
        (
            POLICY.replace("preset: istio", "preset: isto"),
            "preset \"isto\" is not known: write one of istio, linkerd",
        ),
        (
            POLICY.replace("{name: mesh}", "{}"),
            "metadata.name is missing: write it",
        ),
        (
            POLICY.replace("kind: SidecarPolicy", "kind: NamespacedSidecarPolicy"),
            "metadata.namespace is missing: write it, or pass -n",
        ),
        (
            POLICY.replace("kind: SidecarPolicy", "kind: ConfigMap"),
            "it has no SidecarPolicy or NamespacedSidecarPolicy of swaplet.io/v1alpha1",
        ),
    ] {
        let ran = with(&policy, &two(), &[]);
        assert_eq!(ran.code, 2, "{part}: {}{}", ran.out, ran.err);
        assert!(
            ran.err.contains("policy.yaml") && ran.err.contains(part),
            "{part}: {}",
            ran.err
        );
    }
    let missing = check(&two(), &["--policy", "/nowhere.yaml"]);
    assert_eq!(missing.code, 2);
    assert!(missing.err.contains("/nowhere.yaml"), "{}", missing.err);
}

#[test]
fn a_policy_or_preset_that_is_about_nothing_is_said() {
    let nothing = job("one", "");
    let ran = check(&nothing, &["--preset", "istio"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err
            .contains("--preset istio: no container of a pod that ends is called istio-proxy"),
        "{}",
        ran.err
    );
    let empty = ["--preset", "istio", "--allow-empty"];
    assert_eq!(check(&nothing, &empty).code, 0);
    assert_eq!(with(POLICY, &nothing, &[]).code, 2);
    // One of two: it is noted, and --strict minds it.
    let other = POLICY.replace("name: mesh", "name: other")
        + "  namespaceSelector: {matchLabels: {team: a}}\n";
    let both = format!("{POLICY}---\n{other}");
    let ran = with(&both, &two(), &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err
            .contains("SidecarPolicy/other: it makes no container of the input a sidecar"),
        "{}",
        ran.err
    );
    assert_eq!(with(&both, &two(), &["--strict"]).code, 1);
}

/// The labels of a namespace come from its manifest, and its name is one by itself.
#[test]
fn u67_namespaces_are_selected_by_the_labels_of_their_manifests() {
    let selecting = |labels: &str| {
        POLICY.to_owned() + &format!("  namespaceSelector: {{matchLabels: {{{labels}}}}}\n")
    };
    let by_name = selecting("kubernetes.io/metadata.name: batch");
    assert_eq!(with(&by_name, &two(), &["--require", "2"]).code, 0);
    let by_team = selecting("team: a");
    assert_eq!(with(&by_team, &two(), &[]).code, 2);
    let namespace =
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: batch, labels: {team: a}}\n---\n";
    let all = namespace.to_owned() + &two();
    assert_eq!(with(&by_team, &all, &["--require", "2"]).code, 0);
    // As `kubectl get namespaces -o json`, of another client.
    let listed = "kind: NamespaceList\nitems:\n- {kind: Namespace, metadata: {name: batch, labels: {team: a}}}\n---\n";
    let ran = with(&by_team, &(listed.to_owned() + &two()), &["--require", "2"]);
    assert_eq!(ran.code, 0, "u67: {}{}", ran.out, ran.err);
}

#[test]
fn policies_are_about_owners_of_their_kinds() {
    let bare = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: batch}\nspec:\n  restartPolicy: Never\n  containers:\n  \
        - {name: main, image: \"app:1\"}\n  - {name: log, image: \"side:1\", command: [/usr/local/bin/envoy]}\n";
    assert_eq!(with(POLICY, bare, &[]).code, 2, "only Jobs");
    let any = POLICY.to_owned() + "  ownerKinds: [None]\n";
    assert_eq!(with(&any, bare, &["--require", "1"]).code, 0);
    let cron = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: c, namespace: batch}\nspec:\n  jobTemplate:\n    spec:\n      template:\n        spec:\n          \
        restartPolicy: Never\n          containers:\n          - {name: main, image: \"app:1\"}\n          \
        - {name: log, image: \"side:1\", command: [/usr/local/bin/envoy]}\n";
    assert_eq!(with(POLICY, cron, &["--require", "1"]).code, 0);
}

#[test]
fn u233_policies_for_jobs_are_about_those_of_a_scaled_job() {
    let scaled = scaled_job("", "").replace(MARK, "workingDir: /");
    assert_eq!(with(POLICY, &scaled, &["--require", "1"]).code, 0);
}

#[test]
fn an_exit_image_that_is_not_listed_is_noted() {
    let policy = POLICY.replace("order: 1", "order: 1, exitImage: registry.example/exit:v2");
    let listed = ["--exit-images", "registry.example/exit:*"];
    assert_eq!(with(&policy, &two(), &listed).code, 0);
    let other = ["--exit-images", "registry.example/other:*"];
    let ran = with(&policy, &two(), &other);
    assert!(
        ran.err.contains(
            "spec.sidecars[1].exitImage: registry.example/exit:v2 is not in --exit-images"
        ),
        "{}",
        ran.err
    );
}

#[test]
fn u57_the_default_exit_image_may_be_named_and_its_paths_are_known() {
    let policy = POLICY.replace("order: 1", "order: 1, exitImage: registry.example/exit:v2");
    let more = [
        "--exit-images",
        "registry.example/other:*",
        "--exit-image",
        "registry.example/exit:v2",
        "--exit-image-is-public",
        "true",
        "--finish=never",
    ];
    let ran = with(&policy, &two(), &more);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(!ran.err.contains("is not in --exit-images"), "{}", ran.err);
}

#[test]
fn u57_a_policy_among_manifests_has_no_pods_and_what_is_left_out_of_its_files_is_noted() {
    let image = POLICY.replace("name: log", "name: log, image: \"*/log:*\"");
    let ran = with(POLICY, &format!("{image}---\n{}", two()), &[]);
    assert!(!ran.err.contains("knows no pod template"), "{}", ran.err);
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("Chart.yaml"), "name: c").unwrap();
    fs::create_dir(path("templates")).unwrap();
    fs::write(path("templates/policy.yaml"), "{{ .Values.policy }}").unwrap();
    fs::write(path("policy.yaml"), POLICY).unwrap();
    let ran = check(&two(), &["--policy", folder.path().to_str().unwrap()]);
    assert!(ran.err.contains("a template of a chart"), "{}", ran.err);
}

/// What is injected is not in the manifest: the note says which policy ends it.
#[test]
fn an_injected_container_is_known_to_a_policy() {
    let injected = job("injected", "").replace(
        "  template:\n",
        "  template:\n    metadata: {labels: {sidecar.istio.io/inject: \"true\"}}\n",
    );
    let ran = with(POLICY, &injected, &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.contains(
            "has a container istio-proxy injected, which is a sidecar by SidecarPolicy mesh, sidecars[1]"
        ),
        "{}",
        ran.err
    );
}

/// `--for` reads variables, so the command that helps has to name the container.
#[test]
fn what_is_to_be_done_names_the_container_that_nothing_marks() {
    let own = two().replace("/usr/local/bin/envoy", "/opt/own/server");
    let ran = with(POLICY, &own, &["--namespace", "batch"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.flat()
            .contains("swaplet exit-image push REF --for - --sidecar log"),
        "{}",
        ran.out
    );
}

/// `--sidecar` of the check is no mark for `--for` either, nor is a variable without effect.
#[test]
fn u180_what_is_to_be_done_names_the_container_that_a_flag_names() {
    let plain = job("one", &unmarked("log")).replace("/usr/local/bin/envoy", "/opt/own/server");
    let wrong = "command: [/opt/own/server], env: [{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT, value: \"yes\"}]";
    let invalid = plain.replace("command: [/opt/own/server]", wrong);
    for manifest in [plain, invalid] {
        let ran = check(&manifest, &["--sidecar", "log"]);
        assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
        let advice = "swaplet exit-image push REF --for - --sidecar log";
        assert!(ran.flat().contains(advice), "{}", ran.out);
        let pushed = push_for(&manifest, &["--sidecar", "log"]);
        assert_eq!(pushed.code, 0, "{}", pushed.err);
    }
    let marked = check(&unknown(), &["--sidecar", "own"]);
    let flat = marked.flat();
    assert!(
        flat.contains("--for -") && !flat.contains("--for - --sidecar"),
        "{flat}"
    );
}

#[test]
fn folders_and_lists_of_policies_are_read() {
    let folder = TempDir::new().unwrap();
    let list = "apiVersion: swaplet.io/v1alpha1\nkind: SidecarPolicyList\nitems:\n- {apiVersion: swaplet.io/v1alpha1, kind: SidecarPolicy, \
        metadata: {name: a}, spec: {sidecars: [{name: log}]}}\n";
    fs::write(folder.path().join("list.yaml"), list).unwrap();
    let job = folder.path().join("job.yaml");
    fs::write(&job, two()).unwrap();
    let folder = folder.path().to_str().unwrap();
    let ran = swaplet(&["check", job.to_str().unwrap(), "--policy", folder]);
    assert!(
        ran.code == 0 && ran.out.contains("by SidecarPolicy a, sidecars[0]"),
        "{}{}",
        ran.out,
        ran.err
    );
}
