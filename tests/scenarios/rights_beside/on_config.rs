//! Rights to restart containers when their configuration changes.

use swaplet_testbed::apiserver::Verb;

use super::{Feature, all, costs, nothing, to, what_was_asked};
use crate::harness::{Life, World};
use crate::restart::config::{Configured, web};

/// A pod that names a ConfigMap, which changes.
struct OnConfig(Configured);

impl Feature for OnConfig {
    const NODE: &str = "virtual";

    async fn new() -> Self {
        Self(Configured::pods(1, "app=configmap/settings,secret-metadata/tls").await)
    }

    fn world(&self) -> &World {
        &self.0.0.world
    }

    async fn start(&self) -> Life {
        let life = self.0.start().await;
        self.world().wait(60).await;
        self.0.set_color("blue").await;
        life
    }

    fn is_done(&self) -> bool {
        self.0.restarts_of("web-0") == (1, 0)
    }
}

/// A second pod of the owner, which comes before the change: whatever of the first pod was recorded
/// when its objects became known, in one write or in two, this one changes the record.
struct OnConfigOfTwo(OnConfig);

impl Feature for OnConfigOfTwo {
    const NODE: &str = OnConfig::NODE;

    async fn new() -> Self {
        Self(OnConfig::new().await)
    }

    fn world(&self) -> &World {
        self.0.world()
    }

    async fn start(&self) -> Life {
        let configured = &self.0.0;
        let life = configured.start().await;
        self.world().wait(60).await;
        self.world().create(&web(1, "app=configmap/settings")).await;
        self.world().wait(5).await;
        configured.set_color("blue").await;
        life
    }

    fn is_done(&self) -> bool {
        self.0.is_done()
    }
}

#[tokio::test(start_paused = true)]
async fn to_see_objects_change_and_to_record_it() {
    // The pod is told as well, in other words; and the change came before the object was seen.
    costs::<OnConfig>(what_was_asked(to(Verb::List, "configmaps"))).await;
    costs::<OnConfig>(nothing(to(Verb::Watch, "configmaps"))).await;
    costs::<OnConfigOfTwo>(all(to(Verb::Patch, "configmaps"))).await;
    // Two tasks see requests; and the change came before anything was recorded.
    costs::<OnConfig>(what_was_asked(
        to(Verb::List, "containerrecreaterequests").told(2),
    ))
    .await;
}

#[tokio::test(start_paused = true)]
async fn to_restart_containers_when_objects_change() {
    costs::<OnConfig>(nothing(to(Verb::List, "secrets"))).await;
    costs::<OnConfig>(nothing(to(Verb::Watch, "secrets"))).await;
    // The pod is told as well.
    costs::<OnConfig>(all(to(Verb::List, "poddisruptionbudgets").told(2))).await;
    costs::<OnConfig>(all(to(Verb::Create, "containerrecreaterequests").told(2))).await;
    costs::<OnConfig>(all(to(Verb::Create, "configmaps"))).await;
    // What the containers had seen before the change, nobody knows then.
    costs::<OnConfig>(what_was_asked(to(Verb::Get, "configmaps"))).await;
}
