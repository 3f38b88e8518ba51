//! Indexed Jobs, as the real Job controller runs them.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use swaplet_testbed::virtual_node::Profile;

use super::node;

/// As the real Job controller: each index has one pod at a time, which knows its index from a
/// label, an annotation, its host name and a variable.
#[tokio::test(start_paused = true)]
async fn a3_an_indexed_job_runs_each_index_to_its_end() {
    let cluster = node(Profile::kubelet());
    let containers = json!([{"name": "main", "image": "work:1", "args": ["run=2s"]},
        {"name": "two", "image": "work:1", "args": ["run=1s"], "env": [{"name": "JOB_COMPLETION_INDEX", "value": "own"}]}]);
    let job = json!({"metadata": {"name": "job"}, "spec": {"completionMode": "Indexed", "completions": 4, "parallelism": 2,
        "template": {"spec": {"restartPolicy": "Never", "containers": containers}}}});
    let jobs: Api<Job> = Api::default_namespaced(cluster.client.clone());
    let job = serde_json::from_value(job).unwrap();
    jobs.create(&PostParams::default(), &job).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(cluster.server.peek_all("pods").len(), 2, "parallelism");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(cluster.job_condition().as_deref(), Some("Complete"));
    let status = &cluster.server.peek("jobs.batch", "default", "job").unwrap()["status"];
    assert_eq!(
        (&status["completedIndexes"], &status["succeeded"]),
        (&json!("0-3"), &json!(4))
    );
    let mut seen = BTreeSet::new();
    for pod in cluster.server.peek_all("pods") {
        const INDEX: &str = "batch.kubernetes.io/job-completion-index";
        let index = pod["metadata"]["labels"][INDEX]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(pod["metadata"]["annotations"][INDEX], json!(index));
        let name = pod["metadata"]["name"].as_str().unwrap();
        assert!(name.starts_with(&format!("job-{index}-")), "{name}");
        assert_eq!(pod["spec"]["hostname"], json!(format!("job-{index}")));
        let env = |container: usize| &pod["spec"]["containers"][container]["env"];
        let from = &env(0)[0]["valueFrom"]["fieldRef"]["fieldPath"];
        assert_eq!(*from, json!(format!("metadata.labels['{INDEX}']")));
        assert_eq!(
            env(1).as_array().unwrap().len(),
            1,
            "what the user set stays"
        );
        seen.insert(index);
    }
    assert_eq!(seen.len(), 4);
}

/// A pod of an index that fails is replaced by another of that index.
#[tokio::test(start_paused = true)]
async fn a3_a_failed_index_is_tried_again() {
    let cluster = node(Profile::kubelet());
    let job = json!({"metadata": {"name": "job"}, "spec": {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimit": 3,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work:1", "args": ["run=1s", "exit=1"]}]}}}});
    let jobs: Api<Job> = Api::default_namespaced(cluster.client.clone());
    let job = serde_json::from_value(job).unwrap();
    jobs.create(&PostParams::default(), &job).await.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(cluster.job_condition().as_deref(), Some("Failed"));
    let pods = cluster.server.peek_all("pods");
    let of = |index: &str| {
        let name = |pod: &&std::sync::Arc<Value>| {
            let name = pod["metadata"]["name"].as_str().unwrap();
            name.starts_with(&format!("job-{index}-"))
        };
        pods.iter().filter(name).count()
    };
    assert_eq!((of("0"), of("1"), pods.len()), (2, 2, 4));
}
