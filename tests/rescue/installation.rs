//! Beside an installation: its exit image is taken, what it has swapped is left alone.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use swaplet_testbed::apiserver::Verb;

use super::{Cluster, EXIT, Ran, WITH_EXIT_IMAGE, job, start};

/// A pod whose sidecar a controller has swapped, which the node does not end yet.
async fn with_swapped() -> Cluster {
    let mut slow = job("slow", "Never");
    slow["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 120.into();
    slow["spec"]["template"]["spec"]["containers"][1]["args"] =
        json!(["run=forever", "term=ignore"]);
    let cluster = Cluster::with_stuck(&[slow]).await;
    let mut child = start(&cluster, WITH_EXIT_IMAGE).await;
    let is_told = |event: &Value| event["reason"] == "SidecarSwapped";
    cluster
        .eventually("the Event", || {
            let events = cluster.server.peek_all("events");
            events.iter().any(|event| is_told(event))
        })
        .await;
    child.kill().await.unwrap();
    assert_eq!(cluster.images("slow"), [EXIT]);
    cluster
}

fn pod_writes(cluster: &Cluster) -> usize {
    let writes = cluster.writes();
    writes
        .iter()
        .filter(|write| write.resource == "pods")
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a7_a_dry_run_and_explain_say_the_same_of_a_pod_that_is_swapped_already() {
    let cluster = with_swapped().await;
    for flags in [&[][..], &["--exit-image", "registry.example/other/exit:v2"]] {
        let dry = cluster
            .rescue(&[&["--dry-run", "-o", "json"], flags].concat())
            .await
            .exits(0);
        let dry: Value = serde_json::from_str(&dry.out).unwrap();
        let pod = cluster.pod_of("slow");
        let said = cluster
            .explain(&[&[&*pod, "-o", "json"], flags].concat())
            .await
            .exits(0);
        let said: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(dry["pods"][0]["decision"]["reason"], "SwapPending", "{dry}");
        assert_eq!(
            dry["pods"][0]["decision"]["reason"],
            said["decision"]["reason"]
        );
        assert!(
            said["remarks"]
                .to_string()
                .contains("an Event of swaplet names it"),
            "{said}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_what_a_controller_has_swapped_is_not_swapped_again_to_another_exit_image() {
    let cluster = with_swapped().await;
    let other = ["--exit-image", "registry.example/other/exit:v2"];
    let ran = cluster.rescue(&other).await.exits(1);
    assert!(ran.err.contains("is left alone"), "{}", ran.err);
    assert_eq!(
        (cluster.images("slow"), pod_writes(&cluster)),
        (vec![EXIT.to_owned()], 1)
    );
    let forced = [&other[..], &["--force", "--timeout", "2"]].concat();
    cluster.rescue(&forced).await.exits(1);
    assert_eq!(cluster.images("slow"), [other[1]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_beside_a_controller_its_exit_image_is_taken_and_no_other_without_force() {
    let cluster = Cluster::with_stuck(&[job("report", "Never"), job("later", "Never")]).await;
    cluster.install(&["--exit-image", EXIT]).await;
    cluster.lead().await;
    let other = ["--exit-image", "registry.example/other/exit:v2"];
    let ran = cluster.rescue(&other).await.exits(2);
    for words in [
        "swaplet-7d_1 holds the Lease default/swaplet",
        EXIT,
        "--force",
    ] {
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
    assert_eq!(pod_writes(&cluster), 0);
    let ran = cluster.rescue(&["job/report"]).await.exits(0);
    assert!(
        ran.err.contains(&format!(
            "flags of Deployment default/swaplet: --exit-image={EXIT}"
        )),
        "{}",
        ran.err
    );
    assert_eq!(
        (cluster.images("report"), cluster.images("later")),
        (vec![EXIT.to_owned()], vec!["log:1".to_owned()]),
        "only the Job that is named"
    );
    let ran = cluster.explain(&["job/later", "-o", "json"]).await.exits(0);
    let said: Value = serde_json::from_str(&ran.out).unwrap();
    assert!(
        said["pods"][0]["remarks"].to_string().contains(EXIT),
        "{said}"
    );
    let ran = cluster.rescue(&["job/report"]).await.exits(2);
    assert!(
        ran.err.contains("Job report does not wait for sidecars"),
        "{}",
        ran.err
    );
    let none = ["-l", "job-name=other", "--dry-run"];
    assert!(!cluster.rescue(&none).await.exits(0).out.contains("later"));
    let one = ["-l", "job-name=later", "--dry-run"];
    assert!(cluster.rescue(&one).await.exits(0).out.contains("later"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_where_the_lease_cannot_be_read_that_is_said_and_nothing_is_done_without_force() {
    let cluster = Cluster::with_stuck(&[job("report", "Never")]).await;
    cluster.install(&["--exit-image", EXIT]).await;
    cluster.lead().await;
    cluster.forbid(|rule| rule.resource("leases"));
    let other = ["--exit-image", "registry.example/other/exit:v2"];
    let ran = cluster.rescue(&other).await.exits(2);
    for words in [
        "the Lease default/swaplet cannot be read (",
        "that is forbidden for jane",
        "--force",
    ] {
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
    assert_eq!(pod_writes(&cluster), 0);
    // With its own exit image both do the same.
    cluster.rescue(&[]).await.exits(0);
    assert_eq!(cluster.images("report"), [EXIT]);
}

/// It is stopped before it makes a pod: what it would run with is told by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_probe_and_a_warmer_take_their_images_from_the_installation() {
    let cluster = Cluster::start().await;
    let warm = async || {
        let images = ["registry.example/app:v1"];
        Ran::of(cluster.command("warm", &images).output().await.unwrap())
    };
    let ran = warm().await.exits(2);
    assert!(
        ran.err.contains("--park-image is not given")
            && ran.err.contains("swaplet park-image push"),
        "{}",
        ran.err
    );
    let node = || cluster.server.peek_all("nodes").len() == 1;
    cluster.eventually("the node", node).await;
    let park = "registry.example/swaplet/park:v1";
    cluster
        .install(&["--exit-image", EXIT, "--restart", "--park-image", park])
        .await;
    cluster.forbid(|rule| rule.resource("pods").verb(Verb::Create));
    let probe = async |given: &[&str]| {
        let arguments = [&["node-1"], given].concat();
        let ran = Ran::of(cluster.command("probe", &arguments).output().await.unwrap());
        ran.out + &ran.err
    };
    let of_the_installation = |said: &str, flag: &str, image: &str| {
        said.contains(&format!("--{flag} {image} comes from the installation"))
    };
    let said = probe(&[]).await;
    assert!(of_the_installation(&said, "exit-image", EXIT), "{said}");
    assert!(of_the_installation(&said, "park-image", park), "{said}");
    assert!(said.contains("that is forbidden for jane"), "{said}");
    let said = warm().await.err;
    assert!(of_the_installation(&said, "park-image", park), "{said}");

    let said = probe(&["--exit-image", "registry.example/mine:v1"]).await;
    assert!(
        !of_the_installation(&said, "exit-image", EXIT)
            && of_the_installation(&said, "park-image", park),
        "what is given by hand counts more: {said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_that_does_not_end_a_pod_is_not_said_to_end_it() {
    for (flags, why) in [
        (
            ["--exit-image", EXIT, "--terminate=false"],
            "--terminate=false",
        ),
        (
            ["--exit-image", EXIT, "--namespace=other"],
            "without namespace default",
        ),
        (["--exit-image", EXIT, "--namespace=default"], ""),
    ] {
        let cluster = Cluster::with_stuck(&[job("report", "Never")]).await;
        cluster.install(&flags).await;
        let ran = cluster
            .explain(&["job/report", "-o", "json"])
            .await
            .exits(0);
        let said: Value = serde_json::from_str(&ran.out).unwrap();
        let pod = &said["pods"][0];
        let next = pod["next"].to_string();
        let is_idle = !why.is_empty();
        assert_eq!(
            (
                next.contains("a running controller does this"),
                next.contains("the installation does not do this"),
                pod["remarks"].to_string().contains("ends no sidecars"),
            ),
            (!is_idle, is_idle, is_idle),
            "{flags:?}: {pod:#}"
        );
        assert!(pod["remarks"].to_string().contains(why), "{pod:#}");
        let dry = cluster.rescue(&["--dry-run"]).await.exits(0);
        assert_eq!(dry.err.contains("ends no sidecars"), is_idle, "{}", dry.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_of_other_namespaces_keeps_nobody_from_another_exit_image() {
    let cluster = Cluster::with_stuck(&[job("report", "Never")]).await;
    let flags = ["--exit-image", EXIT, "--namespace=other"];
    cluster.install(&flags).await;
    cluster.lead().await;
    let other = ["--exit-image", "registry.example/other/exit:v2"];
    cluster.rescue(&other).await.exits(0);
    assert_eq!(cluster.images("report"), [other[1]]);
}

/// Whoever may make Deployments somewhere must not choose what is written to the pods of others.
#[tokio::test(flavor = "multi_thread")]
async fn flags_of_a_deployment_count_only_if_its_account_may_change_the_pods() {
    let cluster = Cluster::with_stuck(&[job("report", "Never")]).await;
    cluster
        .install(&["--exit-image", "evil.example/exit:v1"])
        .await;
    cluster.server.set_webhook(|resource, object| {
        if resource == "subjectaccessreviews" {
            object["status"] = json!({"allowed": false});
        }
    });
    let ran = cluster.rescue(&[]).await.exits(2);
    let not_for = "may not change pods in namespace default; -n with a namespace that it is for";
    assert!(ran.err.contains(not_for), "{}", ran.err);
    // There is one, and it sets an image.
    for words in [["probe", "node-1"], ["warm", "app:1"]] {
        let ran = cluster
            .command(words[0], &words[1..])
            .output()
            .await
            .unwrap();
        let err = String::from_utf8(ran.stderr).unwrap();
        assert!(
            err.contains(not_for)
                && err.contains("no installation of swaplet counts here, as the note says"),
            "{err}"
        );
    }
    // Nobody who could be asked is no yes.
    cluster.forbid(|rule| rule.resource("subjectaccessreviews"));
    let ran = cluster.rescue(&[]).await.exits(2);
    assert!(ran.err.contains("--state-namespace"), "{}", ran.err);
    assert_eq!(pod_writes(&cluster), 0);
    let ran = cluster.rescue(&["--dry-run"]).await.exits(0);
    assert!(ran.out.contains("evil.example/exit:v1"), "{}", ran.out);
}

/// Whoever may write ConfigMaps somewhere must not choose how the pods of others are ended.
#[tokio::test(flavor = "multi_thread")]
async fn what_anybody_claims_to_have_proved_on_a_node_does_not_count() {
    let cluster = Cluster::with_stuck(&[job("report", "Never")]).await;
    let node = cluster.server.peek("nodes", "", "node-1").unwrap();
    let claim = json!({
        "uid": node["metadata"]["uid"], "proved": "Rejects",
        "provedAt": "2026-01-01T00:00:00Z", "until": "2199-01-01T00:00:00Z",
    });
    let map = json!({"metadata": {"name": "swaplet-node-verdicts"}, "data": {"node-1": claim.to_string()}});
    let map: ConfigMap = serde_json::from_value(map).unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "default");
    maps.create(&PostParams::default(), &map).await.unwrap();
    let ran = cluster.rescue(WITH_EXIT_IMAGE).await.exits(0);
    assert!(ran.err.contains("does not count"), "{}", ran.err);
    assert_eq!(cluster.images("report"), [EXIT], "{}", ran.err);
}
