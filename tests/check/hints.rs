//! What is noted besides the sidecars, and how it looks.

use serde_json::Value;
use tempfile::TempDir;

use super::{
    check, good, job, job_set, json, on_a_volume, scaled_job, sidecar, swaplet, unknown, write,
};

fn hints(text: &str) -> Vec<String> {
    let report = json(text);
    let hints = report["hints"].as_array().unwrap().iter();
    hints
        .map(|hint| hint["text"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a9_sidecars_that_nothing_marks_are_noted() {
    let text = job(
        "logs",
        "      - {name: logs, image: \"fluent/fluent-bit:3.1\"}\n",
    );
    let ran = check(&text, &[]);
    assert_eq!(ran.code, 0);
    assert!(
        ran.err
            .contains("note: Job/logs, container logs: it looks like Fluent Bit"),
        "{}",
        ran.err
    );
    assert!(hints(&good()).is_empty());
    let alone = "kind: Pod\nspec: {restartPolicy: Never, containers: [{name: logs, image: \"fluent/fluent-bit:3.1\"}]}\n";
    assert!(hints(alone).is_empty(), "it is what the pod is for");
    let forever = text
        .replace("kind: Job", "kind: Deployment")
        .replace("      restartPolicy: Never\n", "");
    assert!(hints(&forever).is_empty(), "nothing there is to end");
}

#[test]
fn a9_what_is_injected_is_noted() {
    let text = job("mesh", "").replace(
        "  template:\n",
        "  template:\n    metadata: {labels: {sidecar.istio.io/inject: \"true\"}}\n",
    );
    assert!(
        hints(&text)[0].contains("istio-proxy"),
        "{:?}",
        hints(&text)
    );
    let off = text.replace("\"true\"", "\"false\"");
    assert!(hints(&off).is_empty());
}

#[test]
fn u188_an_init_container_that_is_injected_is_no_sidecar() {
    let with = |more: &str| {
        let marks = format!("vault.hashicorp.com/agent-inject: \"true\"{more}");
        let metadata = format!("  template:\n    metadata: {{annotations: {{{marks}}}}}\n");
        hints(&job("secret", "").replace("  template:\n", &metadata))
    };
    assert!(with("")[0].contains("vault-agent"), "{:?}", with(""));
    let only = ", vault.hashicorp.com/agent-pre-populate-only: ";
    assert!(with(&format!("{only}\"true\"")).is_empty());
    let both = with(&format!("{only}\"false\", dapr.io/enabled: \"true\""));
    assert_eq!(both.len(), 2, "{both:?}");
}

/// The API server would refuse it; until then nothing is guessed about it.
#[test]
fn a_template_with_a_field_of_a_wrong_type_is_noted_with_what_is_wrong() {
    let text = job("odd", &sidecar("proxy", "command: sh"));
    assert_eq!(json(&text)["sidecars"][0]["verdict"], "NotSwappable");
    assert_eq!(
        hints(&text),
        ["the spec of its pods cannot be read: invalid type: string \"sh\", expected a list"]
    );
}

/// A Pod without a restart policy would be one that runs for ever.
#[test]
fn u121_a_pod_with_a_field_of_a_wrong_type_is_still_one_that_ends() {
    let marked = "env: [{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT, value: \"true\"}]";
    let odd = format!(
        "kind: Pod\nmetadata: {{name: odd}}\nspec: {{restartPolicy: Never, initContainers: [{{name: native, image: \"n:1\", restartPolicy: Always, {marked}}}], containers: [{{name: main, image: \"m:1\", env: [{{name: A, value: 5}}]}}, {{name: log, image: \"l:1\", {marked}}}]}}\n"
    );
    let rows = json(&odd)["sidecars"].as_array().unwrap().clone();
    let verdicts: Vec<_> = rows
        .iter()
        .map(|row| (row["container"].as_str(), row["verdict"].as_str()))
        .collect();
    assert!(
        verdicts.contains(&(Some("log"), Some("NotSwappable"))),
        "{verdicts:?}"
    );
    assert!(
        verdicts.iter().any(|(name, _)| *name == Some("native")),
        "{verdicts:?}"
    );
}

#[test]
fn a9_fields_that_mean_nothing_are_noted() {
    let text = job(
        "typo",
        "      - {name: side, image: \"s:1\", evn: [{name: A, value: b}]}\n",
    );
    assert_eq!(
        hints(&text),
        ["evn is not a field of a container: did you mean env?"]
    );
    let empty = job(
        "empty",
        "      - {name: side, image: \"s:1\", env: [{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT, value: \"\"}]}\n",
    );
    assert!(
        hints(&empty)[0].contains("has no value"),
        "{:?}",
        hints(&empty)
    );
}

#[test]
fn money_a_job_that_costs_until_it_is_deleted_is_noted() {
    let on = |text: String, selector: &str| {
        text.replace(
            "      restartPolicy: Never\n",
            &format!("      restartPolicy: Never\n      nodeSelector: {selector}\n"),
        )
    };
    let eci = on(good(), "{type: virtual-kubelet}");
    let fargate = on(
        job("plain", ""),
        "{eks.amazonaws.com/compute-type: fargate}",
    );
    for text in [&eci, &fargate] {
        let told = hints(text);
        assert!(
            told.len() == 1 && told[0].contains("set spec.ttlSecondsAfterFinished"),
            "{told:?}"
        );
        let kept = text.replace(
            "spec:\n  template",
            "spec:\n  ttlSecondsAfterFinished: 60\n  template",
        );
        assert!(hints(&kept).is_empty(), "{kept}");
    }
    let plain = on(job("plain", ""), "{type: virtual-kubelet}");
    assert!(
        hints(&plain).is_empty(),
        "without a sidecar nothing runs on"
    );
    assert!(
        hints(&good()).is_empty(),
        "nothing points to a virtual node"
    );
    let ran = check(&good(), &["--virtual-nodes"]);
    assert!(
        ran.err.contains("ttlSecondsAfterFinished") && !ran.err.contains("native"),
        "{}",
        ran.err
    );
}

#[test]
fn u232_finished_jobs_of_a_job_set_are_deleted_with_it() {
    let of = |own, of_job| {
        let set = job_set(own, of_job, "nodeSelector: {type: virtual-kubelet}, ");
        hints(&set)
    };
    let time = "ttlSecondsAfterFinished: 60, ";
    let told = of("", "");
    assert!(
        told.len() == 1 && told[0].contains("; set spec.ttlSecondsAfterFinished"),
        "{told:?}"
    );
    assert_eq!(of(time, ""), [""; 0]);
    for (own, hints) in [("", 2), (time, 1)] {
        let told = of(own, time);
        let words = "by spec.replicatedJobs[0].template.spec.ttlSecondsAfterFinished a Job may be deleted before its JobSet has ended, \
            which then makes it again: set spec.ttlSecondsAfterFinished instead";
        assert!(
            told.len() == hints && told[0].contains(words),
            "{own}: {told:?}"
        );
    }
}

/// Volcano has a Job of its own, with other fields.
#[test]
fn u233_what_is_said_of_a_job_is_said_of_no_job_of_another_group() {
    let scaled = scaled_job("", "nodeSelector: {type: virtual-kubelet}, ");
    let told = hints(&scaled);
    assert!(
        told.len() == 1 && told[0].contains("; set spec.jobTargetRef.ttlSecondsAfterFinished"),
        "{told:?}"
    );
    let volcano = scaled
        .replace("keda.sh/v1alpha1", "batch.volcano.sh/v1alpha1")
        .replace("ScaledJob", "Job")
        .replace("jobTargetRef: {", "tasks: [{")
        .replace("}}\n", "}]}\n");
    assert_eq!(hints(&volcano), [""; 0], "{volcano}");
}

#[test]
fn u239_nothing_is_noted_of_services_of_knative() {
    let service = "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: web}\n\
        spec: {template: {spec: {containers: [{name: user, image: a}, {name: istio-proxy, image: b}]}}}\n";
    assert_eq!(hints(service), [""; 0]);
    assert_eq!(check(service, &["--strict", "--require", "0"]).code, 0);
}

#[test]
fn u252_what_gets_its_name_later_is_called_alike_everywhere() {
    let workflow = "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {generateName: wf-}\n\
        spec: {templates: [{name: a, container: {name: main, image: a, command: [b]}}]}\n";
    let text = good().replace("name: good", "generateName: good-") + "---\n" + workflow;
    let ran = check(&text, &[]);
    assert!(ran.out.contains("Job/good-*"), "{}", ran.out);
    let words = "note: Workflow/wf-*: swaplet check knows no pod template";
    assert!(ran.err.contains(words), "{}", ran.err);
}

#[test]
fn c_the_table_fits_a_terminal_and_says_below_what_to_do() {
    let folder = TempDir::new().unwrap();
    write(
        folder.path(),
        "jobs/a.yaml",
        &format!("{}---\n{}---\n{}", good(), unknown(), on_a_volume()),
    );
    let ran = swaplet(&["check", folder.path().to_str().unwrap()]);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].ends_with("FILE"), "{}", ran.out);
    assert!(
        lines.contains(&"    push an exit image that has /opt/own/server:"),
        "{}",
        ran.out
    );
    let in_folder = |line: &str| line.contains(folder.path().to_str().unwrap());
    assert!(
        lines
            .iter()
            .all(|line| line.len() <= 100 || in_folder(line)),
        "{}",
        ran.out
    );
    let wide = swaplet(&["check", folder.path().to_str().unwrap(), "-o", "wide"]);
    assert_eq!(wide.out.lines().count(), 5, "a line each: {}", wide.out);
    assert!(
        wide.out.lines().next().unwrap().ends_with("WHAT TO DO"),
        "{}",
        wide.out
    );
}

#[test]
fn c_a_container_without_a_command_executes_its_entrypoint() {
    let text = job("plain", &sidecar("side", "args: [x]"));
    let ran = check(&text, &[]);
    assert!(
        ran.out.contains("(entrypoint)") && !ran.out.contains("quick-exit"),
        "{}",
        ran.out
    );
}

#[test]
fn c_native_sidecars_are_proposed_where_that_helps() {
    let ran = check(&good(), &[]);
    assert!(
        ran.err.contains("it could be a native sidecar"),
        "{}",
        ran.err
    );
    assert!(
        !check(&on_a_volume(), &[]).err.contains("native"),
        "it would not end either"
    );
    let virtual_node = good().replace(
        "      restartPolicy: Never\n",
        "      restartPolicy: Never\n      nodeSelector: {type: virtual-kubelet}\n",
    );
    assert!(
        !check(&virtual_node, &[]).err.contains("native"),
        "no kubelet is there"
    );
    let folder = TempDir::new().unwrap();
    write(folder.path(), "a.yaml", &good());
    let quiet = std::process::Command::new(env!("CARGO_BIN_EXE_swaplet"))
        .arg("check")
        .arg(folder.path())
        .env("CI", "true")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&quiet.stderr), "");
}

#[test]
fn c_the_summary_is_beside_what_programs_read() {
    let ran = check(&good(), &["-o", "json"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["summary"]["end"], 1);
    assert_eq!(
        ran.err.trim(),
        "1 sidecar in 1 pod template: 1 ends, 0 do not"
    );
}
