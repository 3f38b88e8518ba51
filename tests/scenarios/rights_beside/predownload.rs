//! Rights to pull images of workloads before they are needed.

use serde_json::json;
use swaplet_testbed::apiserver::Verb;
use swaplet_testbed::virtual_node::ImageOptions;

use super::{Feature, all, costs, nothing, to};
use crate::harness::{Life, World};
use crate::predownload::{
    NEW, OLD, create_deployment, create_pod, edit_deployment, install_clone_sets, template,
};
use crate::warm::Cluster;

/// A Deployment that gets another image.
struct Predownload(Cluster);

impl Feature for Predownload {
    const NODE: &str = "n0";

    async fn new() -> Self {
        let cluster = Cluster::with_kubelets(1, &ImageOptions::default()).await;
        install_clone_sets(&cluster.world).await;
        create_deployment(&cluster.world, &json!({"swaplet.io/predownload": "true"})).await;
        create_pod(&cluster.world, "a", OLD, "one").await;
        Self(cluster)
    }

    fn world(&self) -> &World {
        &self.0.world
    }

    async fn start(&self) -> Life {
        let life = self.world().start_predownloading_controller();
        self.world().wait(60).await;
        edit_deployment(self.world(), &json!({"spec": {"template": template(NEW)}})).await;
        life
    }

    fn is_done(&self) -> bool {
        self.world()
            .notes("web")
            .iter()
            .any(|(reason, _)| reason == "CreatedImagePullJob")
    }
}

#[tokio::test(start_paused = true)]
async fn to_pull_images_of_workloads_beforehand() {
    costs::<Predownload>(all(to(Verb::List, "deployments"))).await;
    costs::<Predownload>(nothing(to(Verb::Watch, "deployments"))).await;
    costs::<Predownload>(nothing(to(Verb::List, "statefulsets"))).await;
    costs::<Predownload>(nothing(to(Verb::Watch, "statefulsets"))).await;
    costs::<Predownload>(nothing(to(Verb::List, "clonesets"))).await;
    costs::<Predownload>(nothing(to(Verb::Watch, "clonesets"))).await;
    costs::<Predownload>(all(to(Verb::List, "imagepulljobs"))).await;
    // The Deployment is told as well.
    costs::<Predownload>(all(to(Verb::Create, "imagepulljobs").told(2))).await;
}

/// A Deployment that asks no more after it got another image.
struct NoMore(Predownload);

impl Feature for NoMore {
    const NODE: &str = Predownload::NODE;

    async fn new() -> Self {
        Self(Predownload::new().await)
    }

    fn world(&self) -> &World {
        self.0.world()
    }

    async fn start(&self) -> Life {
        let life = self.0.start().await;
        self.world().wait(60).await;
        assert!(self.0.is_done());
        edit_deployment(
            self.world(),
            &json!({"metadata": {"annotations": {"swaplet.io/predownload": null}}}),
        )
        .await;
        life
    }

    fn is_done(&self) -> bool {
        let is_gone = self
            .world()
            .server
            .peek_all("imagepulljobs.apps.kruise.io")
            .is_empty();
        assert!(
            is_gone
                || self
                    .world()
                    .events("web")
                    .contains(&"WriteDenied".to_owned())
        );
        is_gone
    }
}

#[tokio::test(start_paused = true)]
async fn to_delete_the_jobs_of_workloads() {
    // The Deployment is told as well.
    costs::<NoMore>(all(to(Verb::Delete, "imagepulljobs").told(2))).await;
}
