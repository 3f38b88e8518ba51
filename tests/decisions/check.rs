//! What `swaplet check` sees in manifests besides the verdicts.

use serde_json::{Value, json};
use swaplet_core::check::around::Described;
use swaplet_core::check::placement::Cost;
use swaplet_core::check::scripts::ConfigMaps;
use swaplet_core::check::{form, known, names};
use swaplet_core::cluster::headroom::fits_alone;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::command::FirstLine;
use swaplet_core::objects::node::{Node, NodeWire, Taint};
use swaplet_core::objects::values::env::{IGNORE_EXIT_CODE, WHEN_JOB_EXIT, WITH_IMAGE};

fn job(spec: Value) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": spec}}})
}

fn pod(more: Value) -> Value {
    let mut spec = json!({"containers": [{"name": "main", "image": "app:1"}]});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    spec
}

fn described(object: &Value) -> Described {
    Described::all(object).remove(0)
}

#[test]
fn a9_a_name_near_one_that_marks_is_told_and_no_other() {
    for (written, meant) in [
        ("KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXITS", WHEN_JOB_EXIT),
        ("kruise_terminate_sidecar_when_job_exit", WHEN_JOB_EXIT),
        ("KRUISE-TERMINATE-SIDECAR-WHEN-JOB-EXIT", WHEN_JOB_EXIT),
        ("KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT ", WHEN_JOB_EXIT),
        ("KURISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", WHEN_JOB_EXIT),
        ("KRUISE_TERMINATE_SIDECARS_WHEN_JOB_EXITED", WHEN_JOB_EXIT),
        (
            "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMG",
            WITH_IMAGE,
        ),
        ("KRUISE_TERMINATE_SIDECAR_IGNORE_EXITCODE", IGNORE_EXIT_CODE),
        ("KRUISE_TERMINATE_SIDECAR", WHEN_JOB_EXIT),
    ] {
        let told = names::meant_variable(written);
        assert!(told.is_some(), "{written}");
        if written != "KRUISE_TERMINATE_SIDECAR" {
            assert_eq!(told, Some(meant), "{written}");
        }
    }
    let long = "KRUISE_TERMINATE_SIDECAR".repeat(50_000);
    for other in [
        WHEN_JOB_EXIT,
        WITH_IMAGE,
        IGNORE_EXIT_CODE,
        "KRUISE_CONTAINER_PRIORITY",
        "ECI_CONTAINER_TYPE",
        "TERMINATE_ON_EXIT",
        "PATH",
        "",
        &long,
    ] {
        assert_eq!(names::meant_variable(other), None);
    }
}

#[test]
fn a9_a_field_that_no_container_has_is_told_with_the_one_that_was_meant() {
    let told = |name| names::UnknownField::of(name).map(|field| field.meant);
    assert_eq!(told("evn"), Some(Some("env")));
    assert_eq!(told("volumeMount"), Some(Some("volumeMounts")));
    assert_eq!(told("Command"), Some(Some("command")));
    assert_eq!(told("somethingElse"), Some(None));
    for right in ["env", "restartPolicyRules", "stdinOnce"] {
        assert_eq!(told(right), None, "{right}");
    }
    let found = described(&job(
        json!({"containers": [{"name": "a", "evn": []}, {"name": "b", "env": []}]}),
    ));
    let fields: Vec<_> = found
        .unknown_fields
        .iter()
        .map(|(name, _)| &**name)
        .collect();
    assert_eq!(fields, ["a"]);
}

#[test]
fn a9_known_sidecars_are_told_by_image_or_name() {
    for (name, image) in [
        ("istio-proxy", "auto"),
        ("x", "docker.io/istio/proxyv2:1.22.0"),
        ("x", "cr.l5d.io/linkerd/proxy@sha256:00"),
        ("x", "gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.11"),
        ("x", "registry.example:5000/mirror/fluent/fluent-bit"),
        ("vault-agent", "hashicorp/vault:1.16"),
        ("x", "gcr.io/datadoghq/agent:7"),
        ("x", "otel/opentelemetry-collector-contrib:0.100.0"),
    ] {
        assert!(known::sidecar(name, image).is_some(), "{name} {image}");
    }
    for (name, image) in [
        ("main", "app:1"),
        ("proxy", "registry.example/my-fluent-bit:1"),
        ("agent", "jenkins/agent"),
        ("vault", "hashicorp/vault:1.16"),
        ("x", ""),
    ] {
        assert_eq!(known::sidecar(name, image), None, "{name} {image}");
    }
}

#[test]
fn a9_what_has_a_sidecar_injected_is_told_unless_it_is_switched_off() {
    let injected = |marks: Value| {
        let mut object = job(pod(json!({})));
        object["spec"]["template"]["metadata"] = marks;
        described(&object)
            .injections
            .iter()
            .map(|injection| injection.container)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        injected(
            json!({"labels": {"sidecar.istio.io/inject": "true"}, "annotations": {"linkerd.io/inject": "enabled"}})
        ),
        ["istio-proxy", "linkerd-proxy"]
    );
    assert!(
        injected(json!({"labels": {"sidecar.istio.io/inject": "false", "app": "x"}})).is_empty()
    );
    assert!(injected(json!({"annotations": {"linkerd.io/inject": "disabled"}})).is_empty());
    assert!(injected(json!({"labels": 3})).is_empty());
}

#[test]
fn a9_an_object_whose_pods_cannot_be_read_is_named_by_its_field() {
    let cron = |job: Value| json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"jobTemplate": job}});
    for (object, field) in [
        (json!({"kind": "Job"}), "spec is missing"),
        (
            json!({"kind": "Job", "spec": {}}),
            "spec.template is missing",
        ),
        (
            job(json!({"containers": {"name": "a"}})),
            "spec.template.spec.containers is a map",
        ),
        (
            job(json!({})),
            "spec.template.spec.containers has no container",
        ),
        (
            job(json!({"containers": []})),
            "spec.template.spec.containers has no container",
        ),
        (
            job(json!({"containers": [{"name": "a"}, {"image": "b"}]})),
            "spec.template.spec.containers[1].name",
        ),
        (json!({"kind": "Pod", "spec": []}), "spec is a list"),
        (
            cron(json!({"spec": {"template": "x"}})),
            "spec.jobTemplate.spec.template is a text",
        ),
    ] {
        let problems = form::problems(&object);
        assert!(
            problems.len() == 1 && problems[0].starts_with(field),
            "{problems:?} for {object}"
        );
    }
    for fine in [
        job(pod(json!({}))),
        json!({"kind": "Service", "spec": {}}),
        json!({"kind": "Job", "apiVersion": "jobs.example/v1", "spec": {}}),
        json!({"kind": "Trial", "spec": {"containers": {}}}),
        json!({"kind": "List", "items": [job(pod(json!({})))]}),
    ] {
        assert_eq!(form::problems(&fine), Vec::<String>::new(), "{fine}");
    }
    assert_eq!(
        form::problems(&json!({"kind": "List", "items": [{"kind": "Job"}]})).len(),
        1
    );
}

#[test]
fn a9_swaps_of_one_pod_fit_alone_as_readme_says() {
    for (swaps, limit, fits) in [
        (1, 0, false),
        (1, 1, false),
        (1, 2, true),
        (2, 2, false),
        (2, 3, true),
        (1, 6, true),
        (u32::MAX, 6, false),
        (0, 0, true),
    ] {
        assert_eq!(fits_alone(swaps, limit), fits, "{swaps} of {limit}");
    }
    let limit = |spec: Value| described(&spec).job.unwrap().backoff_limit;
    let mut object = job(pod(json!({})));
    assert_eq!(limit(object.clone()), 6);
    object["spec"]["backoffLimit"] = json!(0);
    assert_eq!(limit(object.clone()), 0);
    object["spec"]["backoffLimit"] = json!("0");
    assert_eq!(
        limit(object),
        6,
        "what is no number is told by the API server"
    );
    assert_eq!(
        described(&json!({"kind": "Pod", "spec": pod(json!({}))})).job,
        None
    );
}

#[test]
fn a10_a_file_is_looked_for_where_it_is_mounted() {
    let spec = json!({
        "containers": [{"name": "c", "volumeMounts": [
            {"name": "all", "mountPath": "/scripts/"},
            {"name": "some", "mountPath": "/some"},
            {"name": "all", "mountPath": "/bin/one", "subPath": "one.sh"},
            {"name": "work", "mountPath": "/scripts/work"},
            {"name": "both", "mountPath": "/both"},
            {"name": "all", "mountPath": "/expr", "subPathExpr": "$(A)"},
        ]}],
        "volumes": [
            {"name": "all", "configMap": {"name": "m"}},
            {"name": "some", "configMap": {"name": "m", "items": [{"key": "one.sh", "path": "bin/run"}]}},
            {"name": "work", "emptyDir": {}},
            {"name": "both", "projected": {"sources": [{"secret": {"name": "s"}}, {"configMap": {"name": "m"}}]}},
        ],
    });
    let files = described(&job(spec)).config_files;
    let key = |path: &str| files.at("c", path).first().map(|file| file.key.to_string());
    for (path, found) in [
        ("/scripts/one.sh", Some("one.sh")),
        ("/some/bin/run", Some("one.sh")),
        ("/some/one.sh", None),
        ("/bin/one", Some("one.sh")),
        ("/scripts/work/one.sh", None),
        ("/both/one.sh", Some("one.sh")),
        ("/expr/one.sh", None),
        ("/elsewhere", None),
    ] {
        assert_eq!(key(path).as_deref(), found, "{path}");
    }
    assert!(files.at("other", "/scripts/one.sh").is_empty());
}

#[test]
fn a10_the_first_line_is_that_of_the_map_of_the_namespace() {
    let mut maps = ConfigMaps::default();
    maps.add(
        &json!({"kind": "ConfigMap", "metadata": {"name": "m", "namespace": "n"},
            "data": {"run.sh": "#!/bin/sh\n", "n": 1}, "binaryData": {"tool": "f0VMRgIBAQ=="}}),
        "other",
    );
    maps.add(&json!({"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"run.sh": "#!/bin/sh"}}), "n");
    let spec = json!({"containers": [{"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
        "volumes": [{"name": "v", "configMap": {"name": "m"}}]});
    let files = described(&job(spec)).config_files;
    let line = |namespace, path| maps.first_line(namespace, &files.at("c", path));
    assert_eq!(
        line("n", "/v/run.sh"),
        Some(FirstLine::Interpreter("/bin/sh".into()))
    );
    assert_eq!(line("n", "/v/tool"), Some(FirstLine::Program));
    assert_eq!(line("n", "/v/n"), None);
    assert_eq!(line("other", "/v/run.sh"), None);
    assert!(!maps.has("n", "s"), "Secrets are not read");
}

#[test]
fn money_the_nodes_that_a_template_points_to_are_recognised() {
    let table = NodeTable::built_in();
    let row = |spec: Value, labels: Value| {
        let mut object = job(pod(spec));
        object["spec"]["template"]["metadata"] = json!({"labels": labels});
        let row = described(&object).placement.row(&table);
        row.map(|(row, _)| (row.name.to_string(), Cost::on(&row)))
    };
    let eci = Some(("alibaba-eci".to_owned(), Some(Cost::Containers)));
    assert_eq!(row(json!({}), json!({"alibabacloud.com/eci": "true"})), eci);
    assert_eq!(
        row(
            json!({"tolerations": [{"key": "virtual-kubelet.io/provider", "value": "alibabacloud"}]}),
            json!({})
        ),
        eci
    );
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "eks.amazonaws.com/compute-type", "operator": "In", "values": ["fargate"]}]}]}}});
    assert_eq!(
        row(json!({"affinity": affinity}), json!({})),
        Some(("eks-fargate".to_owned(), Some(Cost::Machine)))
    );
    assert_eq!(
        row(
            json!({"nodeSelector": {"type": "virtual-kubelet"}}),
            json!({})
        )
        .map(|found| found.1),
        Some(Some(Cost::Containers))
    );
    for silent in [
        json!({}),
        json!({"nodeSelector": {"kubernetes.io/os": "linux"}}),
        json!({"tolerations": [{"operator": "Exists"}]}),
        json!({"tolerations": [{"key": "dedicated", "value": "x"}], "nodeSelector": 3}),
    ] {
        assert_eq!(row(silent.clone(), json!({})), None, "{silent}");
    }
}

/// As the controller takes them (`node_classes.rs`).
#[test]
fn u189_pods_that_ask_for_acs_by_a_class_are_not_taken_for_those_of_eci() {
    let table = NodeTable::built_in();
    let row = |labels: Value| {
        let on_vnode = json!({"nodeSelector": {"k8s.aliyun.com/vnode": "true"}});
        let mut object = job(pod(on_vnode));
        object["spec"]["template"]["metadata"] = json!({"labels": labels});
        let (row, _) = described(&object).placement.row(&table).unwrap();
        row.name.to_string()
    };
    let class = "alibabacloud.com/compute-class";
    for labels in [
        json!({class: "general-purpose"}),
        json!({class: "performance", "alibabacloud.com/eci": "true"}),
        json!({"alibabacloud.com/acs": "true"}),
    ] {
        assert_eq!(row(labels.clone()), "alibaba-acs", "{labels}");
    }
    for labels in [
        json!({}),
        json!({class: null}),
        json!({"alibabacloud.com/eci": "true"}),
    ] {
        assert_eq!(row(labels.clone()), "alibaba-eci", "{labels}");
    }
}

#[test]
fn money_a_pod_may_be_on_a_node_that_it_selects_and_tolerates() {
    let node = Node {
        name: "vk".into(),
        labels: [("type".into(), "virtual-kubelet".into())].into(),
        taints: [
            ("virtual-kubelet.io/provider", "azure"),
            ("node.kubernetes.io/not-ready", ""),
        ]
        .map(|(key, value)| Taint {
            key: key.into(),
            value: value.into(),
            only_preferred: false,
        })
        .into(),
        ..Node::default()
    };
    let may = |spec: Value| described(&job(pod(spec))).placement.may_be_on(&node);
    let tolerates = json!([{"key": "virtual-kubelet.io/provider", "operator": "Exists"}]);
    assert!(may(json!({"tolerations": tolerates})));
    assert!(may(
        json!({"tolerations": [{"operator": "Exists"}], "nodeSelector": {"type": "virtual-kubelet"}})
    ));
    assert!(may(json!({"nodeName": "vk"})));
    assert!(!may(json!({})));
    assert!(!may(
        json!({"tolerations": [{"key": "virtual-kubelet.io/provider", "value": "aws"}]})
    ));
    assert!(!may(
        json!({"tolerations": tolerates, "nodeSelector": {"disk": "ssd"}})
    ));
    assert!(!may(json!({"tolerations": tolerates, "nodeName": "other"})));
}

#[test]
fn a_taint_that_is_only_preferred_keeps_no_pod_away() {
    let node = |effect: &str| {
        let taints = json!([{"key": "spot", "value": "true", "effect": effect}]);
        let node = json!({"metadata": {"name": "n"}, "spec": {"taints": taints}});
        serde_json::from_value::<NodeWire>(node).unwrap().read()
    };
    let may = |effect: &str| {
        let placement = described(&job(pod(json!({})))).placement;
        placement.may_be_on(&node(effect).unwrap())
    };
    assert!(may("PreferNoSchedule"));
    assert!(!may("NoSchedule") && !may("NoExecute"));
}
