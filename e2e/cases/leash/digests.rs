//! Exit images with a digest, as a webhook of the cluster makes them of what swaplet writes.

use serde_json::{Value, json};

use super::Leashed;
use super::legal::image;
use super::pods::DIGEST;

const TOLD: &str = "allow it by leash.exitImageDigests of the chart";

/// Brackets mean themselves in a list.
const BY_ADDRESS: &str = "[fd00::1]:5000/swaplet/exit:v1";

/// The image that it had, by its digest, and with its tag as well.
fn pinned(exit: &str) -> [String; 2] {
    let repository = exit.rsplit_once(':').unwrap().0;
    [format!("{exit}@{DIGEST}"), format!("{repository}@{DIGEST}")]
}

async fn written(leashed: &Leashed, pod: &str, exit: &str) -> Result<(), String> {
    let patch: Value = image("log", exit);
    leashed.patch(pod, "", &patch).await.map(drop)
}

#[tokio::test]
async fn a_digest_of_the_same_repository_is_for_those_who_allow_it() {
    let off = Leashed::new("leash-digests").await;
    off.pods_are_there().await;
    for exit in pinned(&off.world.images.exit) {
        let words = written(&off, "done", &exit).await.expect_err("it is off");
        assert!(words.contains(TOLD), "{words}");
    }
    off.done().await;

    let allow = |text: &str| {
        let listed = "[\"registry.example/swaplet/exit:v1\"";
        text.replace("expression: 'false'", "expression: 'true'")
            .replace(listed, &format!("{listed}, \"{BY_ADDRESS}\""))
    };
    let on = Leashed::with("leash-digests-on", allow).await;
    on.pods_are_there().await;
    let exit = &on.world.images.exit;
    written(&on, "done", BY_ADDRESS).await.unwrap();
    for exit in pinned(exit).into_iter().chain(pinned(BY_ADDRESS)) {
        written(&on, "done", &exit).await.unwrap();
        let words = written(&on, "running", &exit).await.expect_err("it runs");
        assert!(words.contains("whose main containers are done"), "{words}");
    }
    let repository = exit.rsplit_once(':').unwrap().0;
    for other in [
        format!("{repository}:other@{DIGEST}"),
        format!("{repository}:other"),
        format!("{repository}-other@{DIGEST}"),
        format!("evil.example/{exit}@{DIGEST}"),
        format!("{exit}@sha256:aa"),
        format!("{exit}@{DIGEST}@{DIGEST}"),
        format!("{exit}\n@{DIGEST}"),
    ] {
        let words = written(&on, "done", &other).await.expect_err("another one");
        let is_said = words.contains("neither an exit image of the list");
        assert!(is_said && !words.contains(TOLD), "{other}: {words}");
    }
    let two = json!({"spec": {"containers": [{"name": "main", "image": pinned(exit)[0]}]}});
    let words = on.patch("done", "", &two).await.expect_err("a main");
    assert!(words.contains("that their owner has marked"), "{words}");
    on.done().await;
}
