//! Which containers are sidecars: marked, named, native, and marked without effect.

use super::{MARK, check, good, job, json, sidecar, verdicts};

#[test]
fn an_unmarked_container_can_be_named() {
    let text = job(
        "injected",
        "      - {name: istio-proxy, image: \"i:1\", args: [proxy, sidecar]}\n",
    );
    let ran = check(&text, &["--sidecar", "istio-proxy"]);
    assert!(
        ran.code == 0 && ran.out.contains("Job/injected"),
        "{}",
        ran.out
    );
}

#[test]
fn marks_without_effect_are_found() {
    let marked = |entry: &str| {
        job(
            "m",
            &format!("      - {{name: side, image: \"s:1\", env: [{entry}]}}\n"),
        )
    };
    for (entry, words) in [
        (
            "{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT, value: \"yes\"}",
            "not the text true or false",
        ),
        (
            "{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT, value: true}",
            "write value: \"true\"",
        ),
        (
            "{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT, valueFrom: {configMapKeyRef: {name: c, key: k}}}",
            "valueFrom",
        ),
        (
            "{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE, value: \"\"}",
            "empty",
        ),
    ] {
        let ran = check(&marked(entry), &[]);
        assert!(
            ran.code == 1 && ran.out.contains("MarkInvalid") && ran.out.contains(words),
            "{}",
            ran.out
        );
    }
    assert_eq!(
        check(
            &marked("{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT, value: \"false\"}"),
            &[]
        )
        .code,
        0
    );
}

#[test]
fn a_pod_of_sidecars_only_would_never_end() {
    let text = format!(
        "kind: Pod\nmetadata: {{name: p}}\nspec: {{restartPolicy: Never, containers: [{{name: a, image: \"a:1\", {MARK}}}]}}\n"
    );
    let ran = check(&text, &[]);
    assert!(
        ran.code == 1 && ran.out.contains("OnlySidecars"),
        "{}",
        ran.out
    );
    assert!(!ran.out.contains("NAMESPACE"), "none is known");
}

#[test]
fn native_sidecars_and_pods_without_an_end_are_explained() {
    let native = job(
        "n",
        "      initContainers: [{name: proxy, image: \"p:1\", restartPolicy: Always}, {name: init, image: \"i:1\"}]\n",
    );
    let report = json(&native);
    assert_eq!(
        (verdicts(&report), &report["sidecars"][0]["ok"]),
        (vec!["Native"], &true.into())
    );
    let deployment = format!(
        "kind: Deployment\nmetadata: {{name: d}}\nspec: {{template: {{spec: {{containers: [{{name: m, image: \"m:1\"}}, {{name: s, image: \"s:1\", {MARK}}}]}}}}}}\n"
    );
    assert_eq!(verdicts(&json(&deployment)), ["NotAJob"]);
    assert_eq!(check(&deployment, &[]).code, 0);
    // The controller does not look at such a pod, whatever its containers say.
    let own = good()
        .replace("restartPolicy: Never", "restartPolicy: Always")
        .replace(MARK, &format!("{MARK}, restartPolicy: Never"));
    assert_eq!(verdicts(&json(&own)), ["NotAJob"]);
    assert!(check(&good(), &[]).err.contains("native sidecar"));
}

/// The controller takes its pod for one whose main containers run.
#[test]
fn u251_a_main_container_that_always_restarts_is_noted() {
    let with =
        |policy: &str| good().replace("image: \"app:1\"", &format!("image: \"app:1\"{policy}"));
    let ran = check(&with(", restartPolicy: Always"), &["--strict"]);
    let words =
        "note: Job/good, container main: its restartPolicy is Always, so it never counts as done";
    assert!(ran.code == 1 && ran.err.contains(words), "{}", ran.err);
    for policy in ["", ", restartPolicy: Never", ", restartPolicy: OnFailure"] {
        let ran = check(&with(policy), &["--strict"]);
        assert_eq!(ran.code, 0, "{policy}: {}", ran.err);
    }
    let of_sidecar = good().replace(MARK, &format!("{MARK}, restartPolicy: Always"));
    assert!(!check(&of_sidecar, &[]).err.contains("never counts as done"));
    // All of such a pod is to run for ever.
    let forever =
        with(", restartPolicy: Always").replace("restartPolicy: Never", "restartPolicy: Always");
    assert!(!check(&forever, &[]).err.contains("never counts as done"));
}

/// The controller swaps none of them (`NotSwappable`).
#[test]
fn no_sidecar_is_swapped_whose_pod_may_be_restarted_by_another_one() {
    let rules = "restartPolicy: Never, restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [88]}}]";
    let two = job(
        "two",
        &(sidecar("watch", rules) + &sidecar("proxy", "command: [sh]")),
    );
    let report = json(&two);
    assert_eq!(verdicts(&report), ["NotSwappable", "NotSwappable"]);
    let proxy = &report["sidecars"][1];
    assert_eq!(proxy["reason"], report["sidecars"][0]["reason"], "{proxy}");
    let words = proxy["whatToDo"].as_str().unwrap();
    assert!(words.contains("when watch ends"), "{words}");
}

#[test]
fn no_sidecar_is_swapped_whose_pod_a_native_sidecar_may_restart() {
    let rules = "[{action: RestartAllContainers, exitCodes: {operator: In, values: [88]}}]";
    let native = format!(
        "      initContainers: [{{name: watcher, image: \"w:1\", restartPolicy: Always, restartPolicyRules: {rules}}}]\n"
    );
    let one = job("one", &(sidecar("log", "command: [sh]") + &native));
    let report = json(&one);
    assert_eq!(verdicts(&report), ["NotSwappable", "Native"]);
    let words = report["sidecars"][0]["whatToDo"].as_str().unwrap();
    assert!(words.contains("when watcher ends"), "{words}");
}

#[test]
fn u53_an_exit_image_that_is_no_image_is_told_and_the_phase_ends_it() {
    let env =
        "env: [{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE, value: \"Not/An Image\"}]";
    let manifest = good().replace(MARK, env);
    let ran = check(&manifest, &[]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for words in ["ByPhase", "WITH_IMAGE is not an image"] {
        assert!(ran.flat().contains(words), "{words}: {}", ran.out);
    }
    let ran = check(&manifest, &["--finish", "never"]);
    assert_eq!(ran.code, 1, "{}", ran.out);
    for words in ["MarkInvalid", "is not an image", "without --finish=never"] {
        assert!(ran.flat().contains(words), "{words}: {}", ran.out);
    }
}

#[test]
fn u66_it_is_told_that_nothing_is_written_in_kube_system() {
    let manifest = good().replace("namespace: batch", "namespace: kube-system");
    let ran = check(&manifest, &[]);
    assert!(
        ran.code == 0 && ran.flat().contains("written to pods in kube-system"),
        "{}{}",
        ran.out,
        ran.err
    );
    assert!(!check(&good(), &[]).flat().contains("admission policies"));
}
