//! Pods that only the tables of writes are about: changed by others, done in the park image, known by
//! other names.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{DIGEST, main, pod, status};
use crate::leash::legal::{image as image_of, parking};
use crate::leash::{Leashed, closed};

impl Leashed {
    /// Those that the tables are about besides.
    pub async fn more_pods_are_there(&self) {
        self.changed_by_others_are_there().await;
        self.done_in_the_park_image_are_there().await;
        self.known_by_other_names_are_there().await;
        // An alias that swaplet has written, and one that somebody else has; the node knows the
        // image by another repository.
        self.aliases_are_there().await;
        self.applied_is_there().await;
        self.warmers_are_there().await;
        let mut elsewhere = pod(self, "done", "OnFailure", self.both());
        elsewhere["metadata"]["namespace"] = json!(closed(&self.world));
        self.make(&json!([elsewhere])).await;
    }

    async fn change(&self, name: &str, patch: Value) {
        self.world
            .api::<Pod>()
            .patch(name, &PatchParams::default(), &Patch::Strategic(patch))
            .await
            .unwrap();
    }

    async fn changed_by_others_are_there(&self) {
        let (image, park) = (&self.world.images.work, &self.world.images.park);
        // Somebody has changed the image, and the node still reports the one before.
        self.is_there(
            pod(self, "updated", "Always", self.both()),
            &[("main", None), ("log", None)],
            &[],
        )
        .await;
        self.change("updated", image_of("main", &image.replace(":v1", ":v2")))
            .await;
        // It was parked, and somebody has given it an image.
        self.is_there(
            pod(self, "given", "Always", self.both()),
            &[("main", None), ("log", None)],
            &[],
        )
        .await;
        let given = image_of("main", &image.replace(":v1", ":v2"));
        self.change(
            "given",
            parking(given, &self.uid("given").await, park, &[("main", image)]),
        )
        .await;
    }

    async fn done_in_the_park_image_are_there(&self) {
        let (image, park) = (&self.world.images.work, &self.world.images.park);
        // The main is in the park image, which has ended with 0.
        for name in ["parked-done", "unnoted-done"] {
            self.is_there(
                pod(self, name, "OnFailure", self.both()),
                &[("main", Some(0)), ("log", None)],
                &[],
            )
            .await;
        }
        self.change(
            "parked-done",
            parking(
                image_of("main", park),
                &self.uid("parked-done").await,
                park,
                &[("main", image)],
            ),
        )
        .await;
        self.change("unnoted-done", image_of("main", park)).await;
    }

    async fn known_by_other_names_are_there(&self) {
        let image = &self.world.images.work;
        // The node knows its image by another tag.
        self.is_there(
            pod(self, "retagged", "Always", self.both()),
            &[("main", None), ("log", None)],
            &[],
        )
        .await;
        let mut other_tag = status(self, "main", None);
        other_tag["image"] = json!(image.replace(":v1", ":another"));
        self.is_reported("retagged", other_tag).await;
        self.is_there(
            pod(
                self,
                "hub",
                "Always",
                json!([{"name": "main", "image": "busybox:1"}]),
            ),
            &[("main", None)],
            &[],
        )
        .await;
        let mut of_hub = status(self, "main", None);
        of_hub["image"] = json!("docker.io/library/busybox:1");
        of_hub["imageID"] = json!("");
        self.is_reported("hub", of_hub).await;
    }

    async fn applied_is_there(&self) {
        let mut applied = pod(self, "applied", "Always", json!([main(self)]));
        applied["metadata"]["labels"]["team"] = json!("a");
        self.is_there(applied, &[("main", None)], &[]).await;
        let gitops =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"team": "a"}}});
        self.world
            .api::<Pod>()
            .patch(
                "applied",
                &PatchParams::apply("gitops").force(),
                &Patch::Apply(gitops),
            )
            .await
            .unwrap();
    }

    async fn aliases_are_there(&self) {
        let image = &self.world.images.work;
        let tagless = image.strip_suffix(":v1").unwrap();
        let swaplet: Api<Pod> = Api::namespaced(self.swaplet.clone(), &self.world.namespace);
        for (name, before, alias, waits) in [
            (
                "pinned",
                image.as_str(),
                format!("{image}-restart-2@{DIGEST}"),
                true,
            ),
            (
                "pinned-runs",
                image,
                format!("{image}-restart-2@{DIGEST}"),
                false,
            ),
            (
                "pinned-latest",
                tagless,
                format!("{tagless}:latest-restart-2@{DIGEST}"),
                true,
            ),
            (
                "pinned-bare",
                &format!("{tagless}@{DIGEST}"),
                format!("{tagless}:restart-2@{DIGEST}"),
                false,
            ),
            (
                "pinned-by-user",
                image,
                format!("{image}-restart-2@{DIGEST}"),
                true,
            ),
        ] {
            self.is_there(
                pod(
                    self,
                    name,
                    "Always",
                    json!([{"name": "main", "image": before}]),
                ),
                &[("main", None)],
                &[],
            )
            .await;
            let (pods, manager) = if name == "pinned-by-user" {
                (&self.world.api::<Pod>(), "kubectl")
            } else {
                (&swaplet, "swaplet")
            };
            let params = PatchParams {
                field_manager: Some(manager.to_owned()),
                ..PatchParams::default()
            };
            pods.patch(name, &params, &Patch::Strategic(image_of("main", &alias)))
                .await
                .unwrap();
            let mut container = status(self, "main", None);
            if waits {
                container["state"] = json!({"waiting": {"reason": "ImagePullBackOff"}});
            }
            self.is_reported(name, container).await;
        }
        self.is_there(
            pod(self, "renamed", "Always", json!([main(self)])),
            &[("main", None)],
            &[],
        )
        .await;
        let mut renamed = status(self, "main", None);
        renamed["imageID"] = json!(format!("import.example/work@{DIGEST}"));
        self.is_reported("renamed", renamed).await;
    }

    pub(super) async fn is_reported(&self, pod: &str, container: Value) {
        let patch = Patch::Merge(json!({"status": {"containerStatuses": [container]}}));
        self.world
            .api::<Pod>()
            .patch_status(pod, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
}
