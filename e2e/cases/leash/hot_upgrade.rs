//! What a hot upgrade may write to a pod, and nothing beside it.

use serde_json::json;

use super::Leashed;
use super::pods::pod;
use super::table::{Accounts, Filling};

/// The images of hot upgrades in the policies of these cases.
pub const LISTED: &str = "registry.example/mesh:*\", \"registry.example/untagged\", \
    \"registry.example/digest@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\", \
    \"registry.example/pinned:v1@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
/// The digest of two of them, and of containers that were restarted.
const DIGEST: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const WORKING: &str = "kruise.io/sidecarset-working-hotupgrade-container";

impl Leashed {
    /// A pod with a pair of containers, of which one works.
    async fn pair_is_there(&self, name: &str, policy: &str, images: [&str; 2], working: &str) {
        let container = |name: &str, image: &str| json!({"name": name, "image": image});
        let containers = json!([
            container("main", &self.world.images.work),
            container("mesh-1", images[0]),
            container("mesh-2", images[1]),
            container("lone-1", images[0]),
        ]);
        let mut pod = pod(self, name, policy, containers);
        let annotations = &mut pod["metadata"]["annotations"];
        annotations[WORKING] = json!(working);
        annotations["version.sidecarset.kruise.io/mesh-1"] = json!("1");
        self.is_there(pod, &[("main", None)], &[]).await;
    }
}

#[tokio::test]
async fn of_a_pair_an_image_of_the_list_and_the_empty_image_beside_one_that_works() {
    let leashed = Leashed::new("leash-hot").await;
    let park = leashed.world.images.park.clone();
    let (old, new) = ("registry.example/mesh:1", "registry.example/mesh:2");
    let (first, second) = (r#"{"mesh":"mesh-1"}"#, r#"{"mesh":"mesh-2"}"#);
    for (name, policy, images, working) in [
        ("rests", "Always", [old, &*park], first),
        ("named", "Always", [old, &*park], second),
        ("ends", "OnFailure", [old, &*park], second),
        ("upgrades", "Always", [old, new], second),
        // Containers that are called as a pair and are none.
        (
            "no-pair",
            "Always",
            ["registry.example/other:1", old],
            second,
        ),
        ("upgrades-first", "Always", [old, new], first),
    ] {
        leashed.pair_is_there(name, policy, images, working).await;
    }
    for (name, tag) in [
        ("untagged", "latest-restart-2"),
        ("digest", "restart-2"),
        ("pinned", "v1-restart-2"),
    ] {
        for (pod, tag) in [("restarted", tag), ("other", "v2-restart-2")] {
            let (pod, old) = (
                format!("{pod}-{name}"),
                format!("registry.example/{name}:{tag}@{DIGEST}"),
            );
            leashed
                .pair_is_there(&pod, "Always", [&old, new], second)
                .await;
        }
    }
    let namespace = leashed.world.namespace.clone();
    let words: [(&str, String); 4] = [
        ("park", park),
        ("work", leashed.world.images.work.clone()),
        ("exit", leashed.world.images.exit.clone()),
        ("ns", namespace.clone()),
    ];
    let words = words.map(|(word, value)| (word.to_owned(), value));
    let filling = Filling {
        words: words.into(),
        made: [].into(),
    };
    let accounts = Accounts::of(&namespace).await;
    let table = include_str!("tables/pods.hot-upgrade.yaml");
    let denied = leashed.all_writes_of(table, &accounts, &filling).await;
    println!("{denied} writes of pairs were denied");
    leashed.done().await;
}
