//! Creating and changing objects.

mod deletions;
mod lists;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::common::{create, pod, pods, refusal, server, set_status, swap};

#[tokio::test(start_paused = true)]
async fn a_failed_test_is_422_and_changes_nothing() {
    let (server, client) = server();
    create(&client, "p").await;
    let before = server.revision();
    assert_eq!(
        swap(&client, "p", "side:1", "exit:1")
            .await
            .unwrap()
            .metadata
            .generation,
        Some(2)
    );
    let (code, reason, message) = refusal(swap(&client, "p", "side:1", "exit:1").await);
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    assert_eq!(
        message,
        "the server rejected our request due to an error in our request"
    );
    assert_eq!(server.revision(), before + 1);
    // A patch that changes nothing makes no new version.
    swap(&client, "p", "exit:1", "exit:1").await.unwrap();
    assert_eq!(server.revision(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn pods_change_only_where_the_real_server_lets_them() {
    let (_server, client) = server();
    create(&client, "p").await;
    let merge = async |patch| {
        pods(&client)
            .patch("p", &PatchParams::default(), &Patch::Merge(patch))
            .await
    };
    let smp = async |patch| {
        pods(&client)
            .patch("p", &PatchParams::default(), &Patch::Strategic(patch))
            .await
    };
    let (code, _, message) =
        refusal(smp(json!({"spec": {"containers": [{"name": "side", "command": ["x"]}]}})).await);
    assert_eq!(code, 422);
    assert!(
        message
            .starts_with("Pod \"p\" is invalid: spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`")
    );
    assert!(message.contains("spec.containers[1].command"), "{message}");
    let (_, _, message) =
        refusal(smp(json!({"spec": {"containers": [{"name": "new", "image": "x"}]}})).await);
    assert_eq!(
        message,
        "Pod \"p\" is invalid: spec.containers: Forbidden: pod updates may not add or remove containers"
    );
    let (_, _, message) = refusal(swap(&client, "p", "side:1", " x").await);
    assert_eq!(
        message,
        "Pod \"p\" is invalid: spec.containers[1].image: Invalid value: \" x\": must not have leading or trailing whitespace"
    );
    merge(json!({"spec": {"activeDeadlineSeconds": 100}}))
        .await
        .unwrap();
    let (_, _, message) = refusal(merge(json!({"spec": {"activeDeadlineSeconds": 200}})).await);
    assert_eq!(
        message,
        "Pod \"p\" is invalid: spec.activeDeadlineSeconds: Invalid value: 200: must be less than or equal to previous value"
    );
    let grown = smp(json!({"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}}))
        .await
        .unwrap();
    assert_eq!(grown.spec.unwrap().tolerations.unwrap().len(), 3);
    let (_, _, message) = refusal(merge(json!({"spec": {"tolerations": []}})).await);
    assert!(
        message.ends_with("existing toleration can not be modified except its tolerationSeconds")
    );
}

#[tokio::test(start_paused = true)]
async fn preconditions_in_bodies() {
    let (_server, client) = server();
    let old = create(&client, "p").await;
    let merge = async |metadata| {
        pods(&client)
            .patch(
                "p",
                &PatchParams::default(),
                &Patch::Merge(json!({"metadata": metadata})),
            )
            .await
    };
    merge(json!({"labels": {"a": "b"}})).await.unwrap();
    let (code, reason, message) = refusal(
        merge(json!({"resourceVersion": old.resource_version(), "labels": {"a": "c"}})).await,
    );
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert_eq!(
        message,
        "Operation cannot be fulfilled on pods \"p\": the object has been modified; please apply your changes to the latest version and try again"
    );
    let (code, _, message) = refusal(merge(json!({"uid": "zzz"})).await);
    assert_eq!(
        (code, message.as_str()),
        (
            422,
            "Pod \"p\" is invalid: metadata.uid: Invalid value: \"zzz\": field is immutable"
        )
    );
}

#[tokio::test(start_paused = true)]
async fn status_writes_keep_the_spec_and_obey_transitions() {
    let (_server, client) = server();
    create(&client, "p").await;
    let ended = json!([{"name": "main", "image": "m", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": {"exitCode": 1}}}]);
    let patch = json!({"metadata": {"labels": {"via": "status"}}, "spec": {"nodeName": "x"}, "status": {"phase": "Running", "containerStatuses": ended}});
    let pod = pods(&client)
        .patch_status("p", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    assert_eq!(
        (pod.labels()["via"].clone(), pod.spec.unwrap().node_name),
        ("status".to_owned(), None)
    );
    let running = json!([{"name": "main", "image": "m", "imageID": "", "ready": false, "restartCount": 1, "state": {"running": {}}}]);
    let (code, _, message) =
        refusal(set_status(&client, "p", json!({"containerStatuses": running})).await);
    assert_eq!(
        (code, message.as_str()),
        (
            422,
            "Pod \"p\" is invalid: status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"
        )
    );
    // Also of an init container that the spec does not have, whatever the pod's policy.
    let mut other = super::common::pod("q");
    other.spec.as_mut().unwrap().restart_policy = Some("OnFailure".to_owned());
    pods(&client)
        .create(&PostParams::default(), &other)
        .await
        .unwrap();
    let mut strange = ended.clone();
    for state in [
        json!({"terminated": {"exitCode": 1}}),
        json!({"waiting": {}}),
    ] {
        strange[0]["state"] = state;
        let status = json!({"initContainerStatuses": strange});
        let answer = set_status(&client, "q", status).await;
        assert_eq!(answer.is_ok(), strange[0]["state"]["waiting"].is_null());
    }
    // The main resource does not touch the status.
    let patch = Patch::Merge(json!({"status": {"phase": "Failed"}}));
    let pod = pods(&client)
        .patch("p", &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Running"));
}

#[tokio::test(start_paused = true)]
async fn creates_are_validated_and_completed() {
    let (_server, client) = server();
    let api = pods(&client);
    let mut unnamed = pod("x");
    unnamed.metadata.name = None;
    unnamed.metadata.generate_name = Some("gen-".to_owned());
    let first = api.create(&PostParams::default(), &unnamed).await.unwrap();
    let second = api.create(&PostParams::default(), &unnamed).await.unwrap();
    assert_ne!(first.name_any(), second.name_any());
    assert_eq!(first.name_any().len(), 9);
    assert_eq!(
        first.spec.unwrap().termination_grace_period_seconds,
        Some(30)
    );
    assert_eq!(
        first.status.unwrap().qos_class.as_deref(),
        Some("BestEffort")
    );
    let (code, reason, message) = refusal(
        api.create(&PostParams::default(), &pod(&second.name_any()))
            .await,
    );
    assert_eq!((code, reason.as_str()), (409, "AlreadyExists"));
    assert_eq!(
        message,
        format!("pods \"{}\" already exists", second.name_any())
    );
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}}});
    let jobs: Api<Job> = Api::default_namespaced(client.clone());
    let (_, _, message) = refusal(
        jobs.create(
            &PostParams::default(),
            &serde_json::from_value(job).unwrap(),
        )
        .await,
    );
    assert_eq!(
        message,
        "Job.batch \"j\" is invalid: spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""
    );
    let elsewhere: Api<Pod> = Api::namespaced(client, "nowhere");
    assert_eq!(
        refusal(elsewhere.create(&PostParams::default(), &pod("x")).await).2,
        "namespaces \"nowhere\" not found"
    );
}

#[tokio::test(start_paused = true)]
async fn server_side_apply_creates_merges_and_removes() {
    let (_server, client) = server();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let apply = async |data: serde_json::Value| {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data});
        maps.patch("c", &PatchParams::apply("swaplet"), &Patch::Apply(body))
            .await
            .unwrap()
            .data
            .unwrap()
    };
    assert_eq!(apply(json!({"a": "1", "b": "2"})).await.len(), 2);
    let data = apply(json!({"a": "3"})).await;
    assert_eq!((data.len(), data["a"].as_str()), (1, "3"));
}

#[tokio::test(start_paused = true)]
async fn events_show_in_both_apis() {
    let (_server, client) = server();
    let pod = create(&client, "p").await;
    let reporter = kube::runtime::events::Reporter {
        controller: "swaplet".to_owned(),
        instance: None,
    };
    let recorder = kube::runtime::events::Recorder::new(client.clone(), reporter);
    let event = kube::runtime::events::Event {
        type_: kube::runtime::events::EventType::Normal,
        reason: "Swapped".to_owned(),
        note: Some("done".to_owned()),
        action: "Swap".to_owned(),
        secondary: None,
    };
    let reference = kube::Resource::object_ref(&pod, &());
    recorder.publish(&event, &reference).await.unwrap();
    recorder.publish(&event, &reference).await.unwrap();
    let core: Api<Event> = Api::default_namespaced(client.clone());
    let listed = core
        .list(&ListParams::default().fields("involvedObject.name=p,reason=Swapped"))
        .await
        .unwrap()
        .items;
    assert_eq!(listed[0].message.as_deref(), Some("done"));
    assert_eq!(listed[0].series.as_ref().unwrap().count, Some(2));
}
