//! The real controller, as the demo runs it.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Client;
use prometheus_client::registry::Registry;
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::frame::connection::namespaces::Namespaces;
use swaplet_controller::frame::lease::Leadership;
use swaplet_controller::frame::metrics::Metrics;
use swaplet_controller::frame::serve::Health;
use swaplet_controller::restart::driver::RestartSettings;
use swaplet_controller::run::{CONCURRENCY, Settings, TimeOfDay, WRITE_SECONDS, run};
use swaplet_controller::warm::jobs::WarmSettings;
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::exit_images::public::Public;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::image::exit_paths::standard_paths;
use swaplet_core::image::path_set::PathSet;
use swaplet_core::image::reference::ImageReference;
use swaplet_core::restart::reconcile::ParkImage;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_core::terminate::openkruise::Coexist;
use swaplet_core::warm::pull_job::sandbox::SandboxKeys;

/// The image that ends sidecars.
pub(super) const EXIT_IMAGE: &str = "registry.example/swaplet/exit:v1";
const PARK_IMAGE: &str = "registry.example/swaplet/park:v1";
/// The namespace of the warmer pods.
const WARM_NAMESPACE: &str = "default";
/// The deadline of one pull of an image, the default of `swaplet run`.
const LONGEST_TRY: Duration = Duration::from_secs(1800);

/// Runs the controller of `swaplet run --restart --warm --sidecar-policies`, with its default
/// settings. No admission policies are required, because the demo's API server has none.
pub(super) async fn controller(client: Client, instance: &str) {
    let Some(settings) = settings(instance) else {
        return;
    };
    let metrics = Metrics::register(&mut Registry::default());
    let _ = run(
        client,
        settings,
        metrics,
        Health::default(),
        std::future::pending(),
    )
    .await;
}

fn settings(instance: &str) -> Option<Settings> {
    let exit_image = ImageReference::parse(EXIT_IMAGE).ok()?;
    Some(Settings {
        namespaces: Namespaces::default(),
        rules: Rules {
            exit_images: ExitImages::new(Some(exit_image), Vec::new()).said_public(Public::Yes),
            allowed: AllowedMethods {
                finish: true,
                ..AllowedMethods::default()
            },
            node_table: NodeTable::built_in(),
            coexist: Coexist::Own,
        },
        concurrency: CONCURRENCY.into(),
        write_deadline: Duration::from_secs(WRITE_SECONDS.into()),
        instance: instance.to_owned(),
        push: None,
        ask_public: None,
        restart: Some(restart()?),
        warm: Some(warm()),
        state_namespace: None,
        predownload: false,
        hot_upgrade: None,
        protect: false,
        sidecar_policies: true,
        time_of_day: TimeOfDay::default(),
        leadership: Leadership::undisputed(),
        selection: None,
    })
}

fn restart() -> Option<RestartSettings> {
    let paths = standard_paths().iter().map(|entry| entry.path);
    let image = ImageReference::parse(PARK_IMAGE).ok()?;
    Some(RestartSettings {
        time_of_day: TimeOfDay::default(),
        on_config: None,
        readiness_gates: false,
        park: Some(ParkImage::new(image, PathSet::new(paths).ok()?)),
        leash: None,
    })
}

fn warm() -> WarmSettings {
    WarmSettings {
        namespace: WARM_NAMESPACE.into(),
        park_image: PARK_IMAGE.into(),
        exit_image: None,
        startup_taint_timeout: None,
        startup_taint_namespaces: BTreeSet::new(),
        longest_try: LONGEST_TRY,
        coexist: Coexist::Own,
        image_caches: None,
        sandbox_keys: SandboxKeys::default(),
        time_of_day: TimeOfDay::default(),
    }
}
