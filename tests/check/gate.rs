//! `swaplet check` as a gate: it is red when it should be.

use tempfile::TempDir;

use super::{
    MARK, check, good, job, job_set, json, scaled_job, sidecar, swaplet, template, unknown,
    verdicts, with_stdin, write,
};

#[test]
fn a9_a_sidecar_that_no_container_is_called_is_an_error_that_says_which_there_are() {
    let ran = check(&good(), &["--sidecar", "istio-proxi"]);
    assert_eq!(ran.code, 2, "{}", ran.out);
    assert!(
        ran.err.contains("--sidecar istio-proxi") && ran.err.contains("there are main, proxy"),
        "{}",
        ran.err
    );
    assert_eq!(
        check(&good(), &["--sidecar", "main", "--sidecar", "proxy"]).code,
        1
    );
    let allowed = check(&good(), &["--sidecar", "istio-proxi", "--allow-empty"]);
    assert_eq!(allowed.code, 0, "{}", allowed.err);
}

#[test]
fn a9_nothing_to_read_is_an_error() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), "empty/notes.txt", "x");
    write(folder.path(), "comments.yaml", "# nothing\n---\n# more\n");
    write(folder.path(), "good.yaml", &good());
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for (ran, words) in [
        (
            check("", &[]),
            "standard input has no manifest: did the command before it fail?",
        ),
        (
            check("---\n# Source: chart\n", &[]),
            "standard input has no manifest",
        ),
        (
            swaplet(&["check", &path("empty")]),
            "no manifest (.yaml, .yml, .json) in this folder",
        ),
        (
            swaplet(&["check", &path("comments.yaml")]),
            "only comments or nothing",
        ),
        (
            with_stdin(&["check", &path("good.yaml"), "-"], ""),
            "standard input has no manifest",
        ),
    ] {
        assert!(
            ran.code == 2 && ran.err.contains(words) && ran.err.contains("--allow-empty"),
            "{} {}",
            ran.code,
            ran.err
        );
    }
    let beside = swaplet(&["check", &path("good.yaml"), &path("comments.yaml")]);
    assert_eq!(beside.code, 0, "{}", beside.err);
    assert_eq!(check("", &["--allow-empty"]).code, 0);
}

#[test]
fn a9_an_object_whose_pods_cannot_be_read_is_an_error_that_names_the_field() {
    for (text, words) in [
        ("kind: Job\nmetadata: {name: j}\n", "Job/j: spec is missing"),
        (
            "kind: Job\nmetadata: {generateName: j-}\nspec: {template: {spec: {containers: {name: a}}}}\n",
            "Job/j-*: spec.template.spec.containers is a map, and has to be a list",
        ),
    ] {
        let ran = check(text, &[]);
        assert!(
            ran.code == 2 && ran.err.contains(words),
            "{} {}",
            ran.code,
            ran.err
        );
    }
}

#[test]
fn a9_a_name_that_nearly_marks_is_a_mark_without_effect() {
    let text = |name: &str| {
        job(
            "near",
            &format!(
                "      - {{name: side, image: \"s:1\", env: [{{name: {name}, value: \"true\"}}]}}\n"
            ),
        )
    };
    for name in [
        "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXITS",
        "kruise_terminate_sidecar_when_job_exit",
    ] {
        let ran = check(&text(name), &[]);
        assert!(
            ran.code == 1
                && ran.out.contains("MarkInvalid")
                && ran
                    .flat()
                    .contains("write KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT"),
            "{}",
            ran.out
        );
    }
    assert_eq!(check(&text("KRUISE_CONTAINER_PRIORITY"), &[]).code, 0);
}

fn counted(limit: &str) -> String {
    job("counted", &sidecar("side", "command: [sh]"))
        .replace("restartPolicy: Never", "restartPolicy: OnFailure")
        .replace(
            "spec:\n  template",
            &format!("spec:\n  backoffLimit: {limit}\n  template"),
        )
}

#[test]
fn a9_a_swap_that_does_not_fit_into_the_job_is_red_where_nothing_else_may_end_it() {
    for limit in ["0", "1"] {
        let ran = check(&counted(limit), &[]);
        assert!(
            ran.code == 0
                && ran
                    .flat()
                    .contains("the phase of the pod is written instead")
                && ran.flat().contains("at least 2"),
            "{}",
            ran.out
        );
        let ran = check(&counted(limit), &["--finish=never"]);
        assert!(
            ran.code == 1
                && ran.out.contains("NoHeadroom")
                && ran.flat().contains("set spec.backoffLimit to at least 2"),
            "{}",
            ran.out
        );
    }
    for more in [&[][..], &["--finish=never"]] {
        let ran = check(&counted("2"), more);
        assert!(ran.code == 0 && !ran.out.contains("note:"), "{}", ran.out);
    }
    let never = counted("0").replace("OnFailure", "Never");
    assert_eq!(check(&never, &["--finish=never"]).code, 0);
}

/// A PyTorchJob with these fields of a replica and of its pods.
fn py_torch_job(of_replica: &str, of_pods: &str) -> String {
    format!(
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {{name: train, namespace: batch}}\nspec: {{pytorchReplicaSpecs: {{Worker: {{{of_replica}{}}}}}}}\n",
        template(of_pods)
    )
}

#[test]
fn u249_a_swap_that_another_owner_counts_is_red_where_nothing_else_may_end_it() {
    let broadcast_job = |policy: &str| {
        let owner = "apps.kruise.io/v1alpha1\nkind: BroadcastJob";
        let policy = format!("restartPolicy: {policy}");
        let manifest = good().replace("batch/v1\nkind: Job", owner);
        manifest.replace("restartPolicy: Never", &policy)
    };
    let py_torch_job = |policy: &str| {
        let policy = format!("restartPolicy: {policy}, ");
        py_torch_job(&policy, &policy)
    };
    for kind in ["BroadcastJob", "PyTorchJob"] {
        let owned = |policy: &str| match kind {
            "BroadcastJob" => broadcast_job(policy),
            _ => py_torch_job(policy),
        };
        let ran = check(&owned("OnFailure"), &["--finish=never"]);
        let words = format!("the owner of the pod, a {kind}, counts restarts");
        assert!(
            ran.code == 1 && ran.out.contains("NoHeadroom") && ran.flat().contains(&words),
            "{}",
            ran.out
        );
        let ran = check(&owned("OnFailure"), &[]);
        let words = "until then the phase of the pod is written instead";
        assert!(
            ran.code == 0 && ran.out.contains("Runnable") && ran.flat().contains(words),
            "{}",
            ran.out
        );
        let ran = check(&owned("Never"), &["--finish=never", "--strict"]);
        assert!(ran.code == 0 && ran.out.contains("Runnable"), "{}", ran.out);
    }
}

#[test]
fn u250_the_restart_policy_of_a_replica_of_kubeflow_counts_and_not_that_of_its_template() {
    let always = py_torch_job("restartPolicy: Always, ", "restartPolicy: Never, ");
    assert_eq!(verdicts(&json(&always)), ["NotAJob"]);
    let never = py_torch_job("restartPolicy: Never, ", "restartPolicy: OnFailure, ");
    let private = [
        "--finish=never",
        "--exit-image=r.example/e:1",
        "--exit-image-is-public=false",
    ];
    let ran = check(&never, &private);
    assert!(
        ran.code == 1 && ran.out.contains("NotPublic"),
        "{}",
        ran.out
    );
    // A Job of Kubernetes counts the restarts of a launcher.
    let launcher = py_torch_job("", "")
        .replace("kubeflow.org/v1", "kubeflow.org/v2beta1")
        .replace("PyTorchJob", "MPIJob")
        .replace("Worker", "Launcher");
    let ran = check(&launcher, &["--finish=never"]);
    assert!(ran.code == 0 && ran.out.contains("Runnable"), "{}", ran.out);
}

/// As the controller decides: the phase is written, which is no restart.
#[test]
fn a9_a_doubtful_exit_image_is_not_tried_on_ordinary_nodes() {
    let script = |limit| {
        counted(limit)
            .replace(
                "command: [sh]",
                "command: [/scripts/run.sh], volumeMounts: [{name: scripts, mountPath: /scripts}]",
            )
            .replace(
                "{name: work, emptyDir: {}}",
                "{name: scripts, configMap: {name: scripts, defaultMode: 493}}",
            )
    };
    let own = |limit| {
        counted(limit).replace(
            "env: [",
            "env: [{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE, value: \"r.example/own:v1\"}, ",
        )
    };
    let confined = |limit| {
        counted(limit).replace(
            "command: [sh]",
            "command: [sh], securityContext: {seccompProfile: {type: Localhost, localhostProfile: own.json}}",
        )
    };
    for doubtful in [script("0"), own("0"), confined("0")] {
        let ran = check(&doubtful, &[]);
        assert!(
            ran.code == 0
                && ran.flat().contains("it is not tried on ordinary nodes")
                && !ran.out.contains("backoffLimit"),
            "{}",
            ran.out
        );
        let never = check(&doubtful, &["--finish=never"]);
        assert!(
            never.code == 1
                && never.out.contains("Doubtful")
                && !never.out.contains("backoffLimit"),
            "{}",
            never.out
        );
    }
    // What the container names replaces what its pod names, and an SELinux type is none of these.
    let replaced = counted("2")
        .replace(
            "command: [sh]",
            "command: [sh], securityContext: {seccompProfile: {type: RuntimeDefault}, seLinuxOptions: {type: spc_t}}",
        )
        .replace(
            "      restartPolicy: OnFailure",
            "      securityContext: {seccompProfile: {type: Localhost, localhostProfile: own.json}}\n      restartPolicy: OnFailure",
        );
    assert!(replaced.contains("type: Localhost"), "{replaced}");
    let ran = check(&replaced, &["--finish=never", "-o", "wide"]);
    assert!(
        ran.code == 0 && !ran.out.contains("Doubtful") && ran.flat().contains("SELinux type"),
        "{}",
        ran.out
    );
    let unlisted = check(&own("4"), &["--exit-images", "r.example/other:v1"]);
    let words = "its own exit image r.example/own:v1 is not on the list of --exit-images: the default exit image is used";
    assert!(unlisted.flat().contains(words), "{}", unlisted.out);
    assert!(!unlisted.out.contains("backoffLimit"), "{}", unlisted.out);
}

#[test]
fn u229_a_sidecar_that_mounts_an_image_volume_is_doubtful() {
    let mounts = counted("2")
        .replace(
            "command: [sh]",
            "command: [sh], volumeMounts: [{name: models, mountPath: /models}]",
        )
        .replace(
            "{name: work, emptyDir: {}}",
            "{name: models, image: {reference: \"r.example/models:v1\"}}",
        );
    let ran = check(&mounts, &[]);
    let words = "mount the image volume in main containers only";
    assert!(ran.code == 0 && ran.flat().contains(words), "{}", ran.out);
    let never = check(&mounts, &["--finish=never"]);
    assert!(
        never.code == 1 && never.out.contains("Doubtful"),
        "{}",
        never.out
    );
}

#[test]
fn a9_a_number_of_sidecars_can_be_required() {
    let plain = job("plain", "");
    assert_eq!(check(&good(), &["--require", "1"]).code, 0);
    for (text, more) in [
        (&good(), &["--require", "2"][..]),
        (&plain, &["--require", "1"]),
        (&plain, &["--strict"]),
        (&"kind: Service\n".to_owned(), &["--strict"]),
    ] {
        let ran = check(text, more);
        assert!(
            ran.code == 1 && ran.err.contains("or more, and"),
            "{} {}",
            ran.code,
            ran.err
        );
    }
}

#[test]
fn a9_strict_fails_on_what_is_noted() {
    let noted = job(
        "noted",
        &format!(
            "{}      - {{name: logs, image: \"fluent/fluent-bit:3\"}}\n",
            sidecar("side", "command: [sh]")
        ),
    );
    assert_eq!(check(&noted, &[]).code, 0);
    let strict = check(&noted, &["--strict"]);
    assert!(
        strict.code == 1 && strict.err.contains("--strict allows no notes"),
        "{}",
        strict.err
    );
    assert_eq!(check(&good(), &["--strict"]).code, 0);
    assert_eq!(check(&counted("0"), &["--strict"]).code, 1);
}

#[test]
fn c_files_are_taken_as_kubectl_takes_them() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), "a.yaml", &good());
    let (all, file) = (folder.path(), folder.path().join("a.yaml"));
    let (all, file) = (all.to_str().unwrap(), file.to_str().unwrap());
    for args in [
        &["check", file][..],
        &["check", "--filename", file],
        &["check", "--file", file],
        &["check", "-R", "-f", all],
        &["check", "-f", file, "-n", "batch"],
    ] {
        let ran = swaplet(args);
        assert!(
            ran.code == 0 && ran.out.contains("Job/good"),
            "{args:?}: {}",
            ran.err
        );
    }
}

#[test]
fn c_a_namespace_is_that_of_manifests_without_one() {
    let text = good().replace(", namespace: batch", "");
    let ran = check(&text, &["-n", "reports"]);
    assert!(ran.out.contains("reports"), "{}", ran.out);
    assert!(check(&good(), &["-n", "reports"]).out.contains("batch"));
}

#[test]
fn a9_json_has_what_the_table_has() {
    let report = json(&format!(
        "{}---\n{}---\n{}",
        good(),
        unknown(),
        counted("0")
    ));
    assert_eq!(verdicts(&report), ["Runnable", "NeedsImage", "Runnable"]);
    assert_eq!(
        (&report["summary"]["end"], &report["summary"]["doNotEnd"]),
        (&2.into(), &1.into())
    );
    let warning = report["sidecars"][2]["warnings"][0].as_str().unwrap();
    assert!(warning.contains("backoffLimit"), "{warning}");
}

#[test]
fn u55_nodes_on_which_nothing_ends_a_sidecar_without_its_phase_are_red() {
    let on = |labels: &str, policy: &str| {
        good().replace(
            "restartPolicy: Never",
            &format!("restartPolicy: {policy}\n      nodeSelector: {{{labels}}}"),
        )
    };
    let (liqo, vci, eci) = (
        "liqo.io/type: virtual-node",
        "vci.vke.volcengine.com/node-type: vci",
        "type: virtual-kubelet",
    );
    for (labels, policy, code) in [
        (liqo, "Never", 1),
        (liqo, "OnFailure", 1),
        (vci, "Never", 1),
        (vci, "OnFailure", 0),
        (eci, "OnFailure", 0),
    ] {
        let manifest = on(labels, policy);
        let ran = check(&manifest, &["--finish", "never"]);
        assert_eq!(ran.code, code, "{labels} {policy}: {}", ran.out);
        assert_eq!(check(&manifest, &[]).code, 0, "{labels} {policy}");
    }
    let ran = check(&on(liqo, "Never"), &["--finish", "never"]);
    for words in ["NotSwappable", "nodes of Liqo", "without --finish=never"] {
        assert!(ran.flat().contains(words), "{words}: {}", ran.out);
    }
}

#[test]
fn u56_the_limits_of_a_job_in_an_advanced_cron_job_count() {
    let spec = format!(
        "backoffLimit: 0, template: {{spec: {{restartPolicy: OnFailure, containers: [{{name: main, image: a}}, {{name: log, image: a, command: [/usr/bin/env], {MARK}}}]}}}}"
    );
    for template in ["jobTemplate", "broadcastJobTemplate"] {
        let manifest = format!(
            "apiVersion: apps.kruise.io/v1beta1\nkind: AdvancedCronJob\nmetadata: {{name: a}}\nspec: {{template: {{{template}: {{spec: {{{spec}}}}}}}}}\n"
        );
        let value = json(&manifest);
        let warnings = value["sidecars"][0]["warnings"].to_string();
        let is_counted = warnings.contains("jobTemplate.spec.backoffLimit to at least 2");
        assert_eq!(is_counted, template == "jobTemplate", "{value}");
    }
}

/// Its webhook sets `OnFailure`.
#[test]
fn u232_a_template_of_a_job_set_without_a_restart_policy_is_under_on_failure() {
    let without = job_set("", "backoffLimit: 0, ", "");
    for (set, code) in [
        (without.clone(), 1),
        (without.replace("backoffLimit: 0, ", ""), 0),
        (
            job_set("", "backoffLimit: 0, ", "restartPolicy: Never, "),
            0,
        ),
    ] {
        let ran = check(&set, &["--finish=never"]);
        assert_eq!(ran.code, code, "{set}{}", ran.out);
    }
    let ran = check(&without, &["--finish=never"]);
    let words = "set spec.replicatedJobs[0].template.spec.backoffLimit to at least 2";
    assert!(
        ran.out.contains("NoHeadroom") && ran.flat().contains(words),
        "{}",
        ran.out
    );
    // Where only under OnFailure an image is swapped.
    let vci = "nodeSelector: {vci.vke.volcengine.com/node-type: vci}, ";
    let ran = check(&job_set("", "", vci), &["--finish=never"]);
    assert_eq!(ran.code, 0, "{}", ran.out);
}

#[test]
fn u233_a_scaled_job_of_keda_makes_jobs() {
    for policy in ["", "restartPolicy: OnFailure, "] {
        let scaled = scaled_job("backoffLimit: 0, ", policy);
        let ran = check(&scaled, &["--finish=never"]);
        let words = "set spec.jobTargetRef.backoffLimit to at least 2";
        assert!(
            ran.code == 1 && ran.out.contains("NoHeadroom") && ran.flat().contains(words),
            "{scaled}{}",
            ran.out
        );
    }
    let never = scaled_job("backoffLimit: 0, ", "restartPolicy: Never, ");
    assert_eq!(check(&never, &["--finish=never"]).code, 0);
}
