//! What is no whole manifest: patches of kustomize, templates of charts; marks and annotations
//! where nothing reads them; and the lines of it all.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::{MARK, Ran, check, good, job, json, sidecar, swaplet, unknown, write};

const PATCH: &str = "apiVersion: batch/v1
kind: CronJob
metadata: {name: sync}
spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: fluent-bit, env: [
  {name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT, value: \"true\"}]}]}}}}}
";

const FOR_JOBS: &str = "apiVersion: swaplet.io/v1alpha1
kind: SidecarPolicy
metadata: {name: mesh}
spec: {sidecars: [{preset: istio}]}
";

fn overlay() -> TempDir {
    let folder = TempDir::new().unwrap();
    write(
        folder.path(),
        "kustomization.yaml",
        "kind: Kustomization\npatches: []\n",
    );
    write(folder.path(), "mark.yaml", PATCH);
    write(
        folder.path(),
        "ops.yaml",
        "- {op: replace, path: /spec, value: 1}\n",
    );
    let part = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: part}\nspec: {suspend: true}\n";
    write(folder.path(), "part.yaml", part);
    write(folder.path(), "good.yaml", &good());
    folder
}

#[test]
fn a6_a_patch_of_kustomize_is_noted_and_not_judged() {
    let folder = overlay();
    let path = folder.path().to_str().unwrap();
    let ran = swaplet(&["check", path]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let advice = format!("`swaplet check -k {path}` checks what it makes");
    for file in ["mark.yaml", "ops.yaml", "part.yaml"] {
        let is_it = |line: &&str| line.contains(file) && line.contains(&advice);
        assert!(
            ran.err.lines().any(|line| is_it(&line)),
            "{file}: {}",
            ran.err
        );
    }
    assert!(
        ran.out.contains("1 sidecar in 1 pod template"),
        "{}",
        ran.out
    );
    // As pre-commit passes it.
    let alone = swaplet(&["check", "--allow-empty", &format!("{path}/mark.yaml")]);
    assert_eq!(alone.code, 0, "{}", alone.err);
    let piped = check(PATCH, &[]);
    assert!(
        piped.code == 0 && piped.err.contains("kubectl kustomize"),
        "{}",
        piped.err
    );
    // One that adds a container is none of which more is known than that the kustomization lists it.
    let adds = PATCH.replace(
        "name: fluent-bit,",
        "name: fluent-bit, image: \"fluent-bit:3\",",
    );
    fs::create_dir(folder.path().join("patches")).unwrap();
    write(folder.path(), "patches/adds.yaml", &adds);
    let file = format!("{path}/patches/adds.yaml");
    let alone = swaplet(&["check", &file]);
    assert_eq!(
        alone.code, 1,
        "nothing says that it is a patch: {}",
        alone.out
    );
    for listed in [
        "patches: [{path: patches/adds.yaml}]",
        "patchesStrategicMerge: [patches/adds.yaml]",
    ] {
        write(folder.path(), "kustomization.yaml", listed);
        let alone = swaplet(&["check", &file]);
        assert!(
            alone.code == 0
                && alone.err.contains("it is a patch of kustomize")
                && alone.err.contains(&advice),
            "{}{}",
            alone.out,
            alone.err
        );
    }
    // As RFC 6902 has them, they are lists.
    write(
        folder.path(),
        "patches/list.yaml",
        "- op: add\n  path: /x\n",
    );
    let list = format!("{path}/patches/list.yaml");
    assert_eq!(swaplet(&["check", &list]).code, 2);
    write(
        folder.path(),
        "kustomization.yaml",
        "patches: [{path: patches/list.yaml}]",
    );
    let alone = swaplet(&["check", "--allow-empty", &list]);
    assert!(
        alone.code == 0 && alone.err.contains("it is a patch of kustomize"),
        "{}{}",
        alone.out,
        alone.err
    );
    // Without a kustomization it is a broken manifest.
    fs::remove_file(folder.path().join("kustomization.yaml")).unwrap();
    assert_eq!(swaplet(&["check", path]).code, 2);
}

/// Several overlays may share one.
#[test]
fn a6_a_patch_in_a_folder_beside_its_overlay_is_not_judged() {
    let folder = TempDir::new().unwrap();
    for name in ["overlays/prod", "patches"] {
        fs::create_dir_all(folder.path().join(name)).unwrap();
    }
    let adds = PATCH.replace(
        "name: fluent-bit,",
        "name: fluent-bit, image: \"fluent-bit:3\",",
    );
    write(folder.path(), "patches/adds.yaml", &adds);
    let list = "- op: add\n  path: /x\n";
    write(folder.path(), "patches/list.yaml", list);
    write(
        folder.path(),
        "overlays/prod/kustomization.yaml",
        "patches: [{path: ../../patches/adds.yaml}, {path: ../../patches/list.yaml}]",
    );
    let path = folder.path().to_str().unwrap();
    let ran = swaplet(&["check", path]);
    let advice = format!("it is a patch of kustomize: `swaplet check -k {path}/overlays/prod`");
    let told = ran.err.lines().filter(|line| line.contains(&advice));
    assert!(ran.code == 0 && told.count() == 2, "{}{}", ran.out, ran.err);
}

/// What is in a text of another object is not judged, and that is said.
#[test]
fn containers_in_texts_are_noted() {
    let folder = TempDir::new().unwrap();
    let inline = "resources: [base.yaml]\npatches:\n- patch: |\n    kind: Job\n    spec: {template: {spec: {containers: []}}}\n";
    let application = format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: a}}\nspec:\n  source:\n    helm:\n      values: |\n        extraContainers:\n        - {{name: x, {MARK}}}\n"
    );
    let values = format!("extra:\n- {{name: a, {MARK}}}\n");
    write(folder.path(), "kustomization.yaml", inline);
    write(folder.path(), "application.yaml", &application);
    write(folder.path(), "Chart.yaml", "name: app\n");
    write(folder.path(), "values.yaml", &values);
    write(folder.path(), "good.yaml", &good());
    let path = folder.path().to_str().unwrap();
    let ran = swaplet(&["check", path, "-o", "github"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for (file, words) in [
        (
            "kustomization.yaml",
            format!("it has containers in a text, which is not judged: `swaplet check -k {path}`"),
        ),
        (
            "application.yaml",
            "Application/a: it has containers in a text, which is not judged: check the pods"
                .to_owned(),
        ),
        (
            "values.yaml",
            format!(
                "stands in an object without a kind; if these are values of a chart: `helm template {path} -f FILE"
            ),
        ),
    ] {
        let is_it =
            |line: &&str| line.contains(&format!("file={path}/{file},")) && line.contains(&words);
        assert!(
            ran.out.lines().any(|line| is_it(&line)),
            "{file}: {}",
            ran.out
        );
    }
    assert!(!ran.out.contains("?/?"), "{}", ran.out);
}

/// GitHub shows what has no file beside none.
#[test]
fn notes_and_problems_of_whole_files_name_them_for_github() {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("templates")).unwrap();
    write(folder.path(), "Chart.yaml", "name: app\n");
    write(folder.path(), "templates/job.yaml", "{{ .Values }}\n");
    write(folder.path(), "kustomization.yaml", "patches: []\n");
    write(folder.path(), "ops.yaml", "- {op: add}\n");
    write(folder.path(), "good.yaml", &good());
    let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (name, of) in ["b", "c", "d", "e", "f", "g"]
        .iter()
        .zip(["a", "b", "c", "d", "e", "f"])
    {
        bomb += &format!(
            "{name}: &{name} [{}]\n",
            vec![format!("*{of}"); 10].join(",")
        );
    }
    fs::create_dir(folder.path().join("other")).unwrap();
    write(folder.path(), "other/bomb.yaml", &bomb);
    let path = folder.path().to_str().unwrap();
    let ran = swaplet(&["check", path, "-o", "github"]);
    for start in [
        format!("::warning file={path}/templates/job.yaml,title="),
        format!("::warning file={path}/ops.yaml,line=1,title="),
        format!("::error file={path}/other/bomb.yaml,line=6,title="),
    ] {
        assert!(ran.out.contains(&start), "{start}: {}", ran.out);
    }
    assert!(
        ran.err
            .contains("line 6: more values, keys or aliases than a manifest has")
            && !ran.err.contains("Nodes {"),
        "{}",
        ran.err
    );
}

/// Writes a kubectl that makes this of every folder.
fn write_kubectl(folder: &Path, made: &str) {
    write_program(folder, "kubectl", "kustomize", made);
}

/// Writes a program that does so if it is called with this word.
fn write_program(folder: &Path, program: &str, word: &str, made: &str) {
    let script = format!(
        "#!/bin/sh\nPATH=/usr/bin:/bin\n[ \"$1\" = {word} ] || exit 3\n[ -d \"$2\" ] || {{ echo no folder >&2; exit 4; }}\ncat <<'END'\n{made}END\n"
    );
    write(folder, program, &script);
    fs::set_permissions(folder.join(program), fs::Permissions::from_mode(0o755)).unwrap();
}

/// Checks what the kubectl, or the kustomize, of this folder makes.
fn kustomized(folder: &Path, args: &[&str]) -> Ran {
    Command::new(env!("CARGO_BIN_EXE_swaplet"))
        .args(["check", "-k"])
        .args(args)
        .env("PATH", folder)
        .env_remove("CI")
        .output()
        .unwrap()
        .into()
}

/// It is in no file: to read it again, it is made again.
#[test]
fn u181_what_kustomize_makes_is_named_by_its_folder() {
    let folder = TempDir::new().unwrap();
    write_kubectl(folder.path(), &unknown());
    let path = folder.path().to_str().unwrap();
    let run = |more: &[&str]| kustomized(folder.path(), &[&[path], more].concat());
    let advice = format!("kubectl kustomize {path} | swaplet exit-image push REF --for -\n");
    let ran = run(&[]);
    assert!(ran.out.contains(&advice), "{}{}", ran.out, ran.err);
    let report: Value = serde_json::from_str(&run(&["-o", "json"]).out).unwrap();
    assert_eq!(report["sidecars"][0]["file"], path, "{report}");
    let wide = run(&["-o", "wide"]).out;
    assert!(wide.contains(&format!(" {path} ")), "{wide}");
    let github = run(&["-o", "github"]).out;
    assert!(
        github.contains("::error title=NeedsImage own::") && !github.contains("file="),
        "{github}"
    );

    // Where there is no kubectl, kustomize makes it.
    fs::remove_file(folder.path().join("kubectl")).unwrap();
    write_program(folder.path(), "kustomize", "build", &unknown());
    let advice = format!("kustomize build {path} | swaplet exit-image push REF --for -\n");
    let ran = run(&[]);
    assert!(
        ran.out.contains(&advice) && !ran.out.contains("kubectl"),
        "{}{}",
        ran.out,
        ran.err
    );
}

#[test]
fn a6_u67_what_kustomize_makes_is_checked() {
    let folder = TempDir::new().unwrap();
    write_kubectl(folder.path(), &unknown());
    let run = |folder_of_it: &str| kustomized(folder.path(), &[folder_of_it]);
    let ran = run(folder.path().to_str().unwrap());
    assert!(
        ran.code == 1 && ran.out.contains("NeedsImage"),
        "{}{}",
        ran.out,
        ran.err
    );
    let ran = run("/nosuch");
    assert!(
        ran.code == 2 && ran.err.contains("-k /nosuch: kustomize has failed"),
        "{}",
        ran.err
    );
    write_kubectl(folder.path(), "# nothing\n");
    let ran = run(folder.path().to_str().unwrap());
    assert!(
        ran.code == 2 && ran.err.contains("kustomize makes nothing of it"),
        "u67: {}",
        ran.err
    );
}

#[test]
fn a6_a_template_of_a_chart_is_noted_and_not_read() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), "chart/Chart.yaml", "name: app\n");
    write(
        folder.path(),
        "chart/templates/job.yaml",
        "{{- if .Values.on }}\nkind: Job\n{{- end }}\n",
    );
    write(folder.path(), "good.yaml", &good());
    let ran = swaplet(&["check", folder.path().to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err
            .contains("chart/templates/job.yaml: a template of a chart: `helm template "),
        "{}",
        ran.err
    );
}

/// `check-kinds-without-templates`.
#[test]
fn marks_where_no_template_is_known_are_noted() {
    let ran = check(
        include_str!("../cases/check-kinds-without-templates.yaml"),
        &[],
    );
    for object in ["SparkApplication/pi", "Workflow/wf"] {
        let words = format!("{object}: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT stands where");
        assert!(ran.err.contains(&words), "{}", ran.err);
    }
    for document in include_str!("../cases/check-kinds-without-templates.yaml").split("---\n") {
        assert_eq!(check(document, &["--strict"]).code, 1);
    }
    let of_pods = "swaplet.io/sidecars: proxy";
    let template = "{spec: {containers: [{name: a, image: a}]}}";
    for (kind, spec, mark) in [
        (
            "SparkApplication",
            format!("{{driver: {{annotations: {{{of_pods}}}}}}}"),
            "swaplet.io/sidecars",
        ),
        (
            "Workflow",
            format!("{{templates: [{{name: t, metadata: {{annotations: {{{of_pods}}}}}}}]}}"),
            "swaplet.io/sidecars",
        ),
        // One of its templates is known.
        (
            "SparkApplication",
            format!(
                "{{driver: {{template: {template}}}, executor: {{sidecars: [{{name: db, image: db, {MARK}}}]}}}}"
            ),
            "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT",
        ),
    ] {
        let text =
            format!("apiVersion: example/v1\nkind: {kind}\nmetadata: {{name: wf}}\nspec: {spec}\n");
        let words = format!("{kind}/wf: {mark} stands where swaplet check knows no pod template");
        let ran = check(&text, &[]);
        assert!(ran.err.contains(&words), "{text}: {}", ran.err);
    }
    let of_airflow = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: airflow}}\ndata:\n  pod_template_file.yaml: |\n{}",
        good()
            .lines()
            .map(|line| format!("    {line}\n"))
            .collect::<String>()
    );
    let ran = check(&of_airflow, &[]);
    let words = "ConfigMap/airflow: it has containers in a text, which is not judged";
    assert!(ran.err.contains(words), "{}", ran.err);
    let tekton = "apiVersion: tekton.dev/v1\nkind: Task\nmetadata: {name: t}\nspec: {steps: [{image: a, script: echo}]}\n";
    assert!(
        check(tekton, &[])
            .err
            .contains("Task/t: swaplet check knows no pod template")
    );
    let quoted = format!(
        "kind: ConfigMap\nmetadata: {{name: a}}\ndata: {{job.json: '{{\"name\":\"KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT\"}}'}}\n---\n{}",
        good()
    );
    assert!(!check(&quoted, &[]).err.contains("stands where"));
}

/// As controller-gen writes it for each kind that has containers.
#[test]
fn a_crd_that_describes_containers_has_none() {
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: crons.example.com}\nspec:\n  description: |-\n    Container image name.\n    More info: https://kubernetes.io/docs/concepts/containers/images\n    It goes to spec.containers: see there\n";
    let ran = check(&format!("{crd}---\n{}", good()), &["--strict"]);
    assert!(ran.code == 0 && !ran.err.contains("crons"), "{}", ran.err);
}

#[test]
fn b9_annotations_that_nothing_reads_are_noted() {
    let side = "      - {name: log, image: \"log:1\"}\n";
    let hint = |text: &str| {
        let report = json(text);
        let hints = report["hints"].as_array().unwrap();
        hints
            .iter()
            .map(|hint| hint["text"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let at_the_job = job("a", side).replace(
        "namespace: batch",
        "namespace: batch, annotations: {swaplet.io/sidecars: log}",
    );
    let hints = hint(&at_the_job);
    assert_eq!(
        hints,
        [
            "swaplet.io/sidecars is read from pods, and has no effect here: write it into spec.template.metadata.annotations"
        ]
    );
    let in_pods = |key: &str| {
        job("a", side).replace(
            "  template:\n",
            &format!("  template:\n    metadata: {{annotations: {{{key}: log}}}}\n"),
        )
    };
    for (key, meant) in [
        ("swaplet.io/sidecar", ": is it swaplet.io/sidecars?"),
        ("swaplet.io/ordering", ": is it swaplet.io/order?"),
        ("swapelt.io/sidecars", ": is it swaplet.io/sidecars?"),
        ("swaplet.oi/sidecar", ": is it swaplet.io/sidecars?"),
        ("swaplet.io/quite-other", ""),
    ] {
        let hints = hint(&in_pods(key));
        assert_eq!(
            hints,
            [format!("the annotation {key} means nothing{meant}")]
        );
    }
    assert!(hint(&in_pods("swaplet.io/sidecars")).is_empty());
    let label = job("a", side).replace(
        "  template:\n",
        "  template:\n    metadata: {labels: {swaplet.io/sidecars: log}}\n",
    );
    let words = "swaplet.io/sidecars is an annotation, and has no effect as a label: write it into spec.template.metadata.annotations";
    assert_eq!(hint(&label), [words]);
    let in_between = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly}\nspec: {jobTemplate: {metadata: {annotations: {swaplet.io/sidecars: log}}, \
        spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: main}, {name: log, image: log}]}}}}}\n";
    let words = "swaplet.io/sidecars is read from pods, and has no effect here: write it into spec.jobTemplate.spec.template.metadata.annotations";
    assert_eq!(hint(in_between), [words]);
    assert!(hint(&in_pods("swaplet.io/restart-on")).is_empty());
    assert!(hint(&in_pods("other.io/order")).is_empty());
    let on = |kind: &str, key: &str| {
        let text = format!(
            "apiVersion: v1\nkind: {kind}\nmetadata: {{name: batch, annotations: {{{key}: log}}}}\n"
        );
        hint(&format!("{text}---\n{}", good()))
    };
    for (kind, key, words) in [
        (
            "Namespace",
            "swaplet.io/sidecar",
            "means nothing: is it swaplet.io/sidecars?",
        ),
        (
            "Service",
            "swaplet.io/order",
            "is read from pods, and has no effect here",
        ),
    ] {
        let hints = on(kind, key);
        assert!(hints.len() == 1 && hints[0].contains(words), "{hints:?}");
    }
    // For the admission policies.
    assert!(on("Namespace", "swaplet.io/sidecars").is_empty());
}

/// Whatever folder the command runs in.
#[test]
fn what_comes_by_standard_input_is_no_patch() {
    let folder = overlay();
    let input = fs::File::open(folder.path().join("part.yaml")).unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_swaplet"))
        .args(["check", "-f", "-"])
        .current_dir(folder.path())
        .stdin(input)
        .output()
        .unwrap();
    let ran: Ran = ran.into();
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
}

/// GitHub refuses a file in which one result has no place.
#[test]
fn each_result_of_sarif_has_a_place() {
    let ran = check(&unknown(), &["-o", "sarif"]);
    let sarif: Value = serde_json::from_str(&ran.out).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    assert!(!results.is_empty());
    for result in results {
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(
            place["artifactLocation"]["uri"], "swaplet-check",
            "{result}"
        );
    }
}

#[test]
fn b11_annotations_and_sarif_name_the_line() {
    let folder = TempDir::new().unwrap();
    let text = format!("# first\n{}---\n{}", good(), unknown());
    write(folder.path(), "night's jobs.yaml", &text);
    let file = folder.path().join("night's jobs.yaml");
    let file = file.to_str().unwrap();
    let line = text
        .lines()
        .position(|line| line.contains("name: own"))
        .unwrap()
        + 1;
    let ran = swaplet(&["check", file, "-o", "github"]);
    let expected = format!("::error file={file},line={line},title=NeedsImage own::");
    assert!(ran.out.contains(&expected), "{expected}: {}", ran.out);
    let ran = swaplet(&["check", file, "-o", "sarif"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    let sarif: Value = serde_json::from_str(&ran.out).unwrap();
    let result = &sarif["runs"][0]["results"][0];
    assert_eq!(
        (&sarif["version"], &result["ruleId"], &result["level"]),
        (&"2.1.0".into(), &"NeedsImage".into(), &"error".into())
    );
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(
        (
            &place["artifactLocation"]["uri"],
            &place["region"]["startLine"]
        ),
        (
            &file.replace("night's jobs", "night%27s%20jobs").into(),
            &line.into()
        )
    );
}

/// A volume, the Job itself and the container of another object may have the name as well.
#[test]
fn b11_the_line_is_that_of_the_container() {
    let folder = TempDir::new().unwrap();
    let text = "apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: own}
- apiVersion: batch/v1
  kind: Job
  metadata:
    name: own
    namespace: batch
  spec:
    template:
      spec:
        restartPolicy: Never
        containers:
        - name: main
          image: main:1
          volumeMounts:
          - name: own
            mountPath: /own
        - command: [/opt/own]
          name: own
          image: own:1
          env:
          - name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT
            value: \"true\"
        volumes:
        - name: own
          emptyDir: {}
";
    write(folder.path(), "jobs.yaml", text);
    let json = r#"{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "b", "namespace": "batch"},
 "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [
  {"name": "main", "image": "main"},
  {"name": "own", "image": "own:1", "command": ["/opt/own"],
   "env": [{"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": "true"}]}]}}}}"#;
    write(folder.path(), "job.json", json);
    for (file, line) in [("jobs.yaml", 23), ("job.json", 4)] {
        let file = folder.path().join(file);
        let ran = swaplet(&["check", file.to_str().unwrap(), "-o", "github"]);
        let expected = format!("line={line},title=NeedsImage own::");
        assert!(ran.out.contains(&expected), "{expected}: {}", ran.out);
    }
}

/// What an operator makes of it is not known; that nothing was looked at is.
#[test]
fn b9_a_kind_whose_pods_are_not_known_is_noted() {
    let workflow = "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {name: nightly}\nspec: {templates: [{name: a, container: {name: main, image: main}, \
        sidecars: [{name: fluent-bit, image: fluent-bit}]}]}\n";
    let ran = check(workflow, &["--allow-empty"]);
    assert!(
        ran.code == 0
            && ran
                .err
                .contains("Workflow/nightly: swaplet check knows no pod template in this kind"),
        "{}{}",
        ran.out,
        ran.err
    );
    let map =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {image: main, name: a}\n";
    let service = check(&format!("{map}---\n{}", good()), &[]);
    assert!(
        !service.err.contains("knows no pod template"),
        "{}",
        service.err
    );
}

#[test]
fn a10_a_mark_that_is_no_text_is_told_once() {
    let text =
        job("a", &sidecar("log", "command: [/bin/sh]")).replace("value: \"true\"", "value: true");
    let ran = check(&text, &[]);
    assert!(
        ran.out.contains("is not the text true or false"),
        "{}",
        ran.out
    );
    assert!(!ran.err.contains("has no value"), "{}", ran.err);
}

#[test]
fn u234_a_job_in_another_object_is_judged_like_the_job() {
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, namespace: batch}\nspec: "
        .to_owned()
        + "{backoffLimit: 0, template: {spec: {restartPolicy: OnFailure, containers: [{name: main, image: a}, \
        {name: istio-proxy, image: b, command: [sh]}]}}}\n";
    let inner = job.replace('\n', "\n    ");
    let around = [
        "apiVersion: template.openshift.io/v1\nkind: Template\nmetadata: {name: t}\nobjects:\n  - ",
        "apiVersion: work.open-cluster-management.io/v1\nkind: ManifestWork\nmetadata: {name: w}\nspec:\n workload:\n  manifests:\n  - ",
        "apiVersion: kubernetes.crossplane.io/v1alpha2\nkind: Object\nmetadata: {name: o}\nspec:\n  forProvider:\n   manifest:\n    ",
    ];
    let folder = TempDir::new().unwrap();
    write(folder.path(), "policy.yaml", FOR_JOBS);
    let policy = folder.path().join("policy.yaml");
    let args = ["--policy", policy.to_str().unwrap(), "--finish=never"];
    let rows = |manifest: &str| {
        let ran = check(manifest, &[&args[..], &["-o", "json"]].concat());
        let mut report: Value = serde_json::from_str(&ran.out).unwrap();
        let row = &mut report["sidecars"][0];
        for path in ["place", "reason", "whatToDo", "warnings"] {
            row[path].take();
        }
        (ran.code, row.take())
    };
    let plain = rows(&job);
    assert_eq!((plain.0, &plain.1["verdict"]), (1, &"NoHeadroom".into()));
    for outer in around {
        let manifest = format!("{outer}{inner}");
        assert_eq!(rows(&manifest), plain, "{manifest}");
    }
    let pods = job
        .replace("batch/v1", "apps/v1")
        .replace("kind: Job", "kind: Deployment")
        .replace("restartPolicy: OnFailure, ", "");
    let in_template = format!("{}{}", around[0], pods.replace('\n', "\n    "));
    let ran = check(
        &in_template,
        &["--strict", "--sidecar", "istio-proxy", "--require", "0"],
    );
    assert!(
        ran.code == 0 && ran.out.contains("NotAJob"),
        "{}{}",
        ran.out,
        ran.err
    );
}
