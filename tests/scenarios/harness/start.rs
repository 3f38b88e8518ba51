//! Starts lives of the controller, with the settings that a test wants.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use prometheus_client::registry::Registry;
use swaplet::image::build::derived_paths;
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::cluster::verdict_store::AllKept;
use swaplet_controller::frame::metrics::Metrics;
use swaplet_controller::frame::serve::Health;
use swaplet_controller::restart::driver::RestartSettings;
use swaplet_controller::restart::on_config::RestartOnSettings;
use swaplet_controller::run::{Settings, TimeOfDay, run};
use swaplet_controller::terminate::derive::Push;
use swaplet_controller::terminate::selection::{Progress, Selection};
use swaplet_controller::warm::jobs::WarmSettings;
use swaplet_core::cluster::exit_images::derived::DerivedImages;
use swaplet_core::cluster::exit_images::{ExitImages, Public};
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::report::decision::Method;
use swaplet_core::restart::reconcile::ParkImage;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_core::terminate::openkruise::Coexist;
use tokio::sync::mpsc;

use super::{CONCURRENCY, Life, SWAPLET, World};
use crate::line::Line;
use crate::objects::{DERIVED, EXIT, PARK};
use crate::pull_jobs::warm_settings;

impl World {
    pub fn start_controller(&self) -> Life {
        self.start_controller_as(SWAPLET, CONCURRENCY)
    }

    /// Starts a controller that writes the phase of pods rather than their images.
    pub fn start_finishing_controller(&self) -> Life {
        self.start_controller_with(
            SWAPLET,
            CONCURRENCY,
            AllowedMethods {
                prefer: Some(Method::Finish),
                finish: true,
                ..AllowedMethods::default()
            },
        )
    }

    /// Starts another controller; `user_agent` has to start with `swaplet`.
    pub fn start_controller_as(&self, user_agent: &'static str, concurrency: usize) -> Life {
        self.start(user_agent, concurrency, |_| {})
    }

    /// Starts one that keeps what it learns of nodes in this namespace.
    pub fn start_controller_keeping(&self, state_namespace: &str) -> Life {
        self.start(SWAPLET, CONCURRENCY, |settings| {
            settings.state_namespace = Some(state_namespace.to_owned())
        })
    }

    /// Starts a controller under other rules.
    pub fn start_controller_under(
        &self,
        rules: Rules,
        user_agent: &'static str,
        concurrency: usize,
    ) -> Life {
        self.start(user_agent, concurrency, |settings| settings.rules = rules)
    }

    /// Starts a controller that swaps, and writes the phase where that does not do.
    pub fn start_controller_that_may_finish(&self) -> Life {
        self.start_controller_with(
            SWAPLET,
            CONCURRENCY,
            AllowedMethods {
                finish: true,
                ..AllowedMethods::default()
            },
        )
    }

    /// As [`start_controller_that_may_finish`](Self::start_controller_that_may_finish), keeping
    /// what it learns of nodes in this namespace.
    pub fn start_controller_that_may_finish_keeping(&self, state_namespace: &str) -> Life {
        self.start(SWAPLET, CONCURRENCY, |settings| {
            settings.rules.allowed = AllowedMethods {
                finish: true,
                ..AllowedMethods::default()
            };
            settings.state_namespace = Some(state_namespace.to_owned());
        })
    }

    fn start_controller_with(
        &self,
        user_agent: &'static str,
        concurrency: usize,
        allowed: AllowedMethods,
    ) -> Life {
        self.start(user_agent, concurrency, |settings| {
            settings.rules.allowed = allowed
        })
    }

    /// Starts a controller for these pods only; what it tells of them comes out of the channel.
    pub fn start_controller_for(
        &self,
        names: &[&str],
    ) -> (Life, mpsc::UnboundedReceiver<Progress>) {
        let (progress, news) = mpsc::unbounded_channel();
        let pods = names
            .iter()
            .map(|name| self.get(name)["metadata"]["uid"].as_str().unwrap().into())
            .collect();
        let selection = Selection {
            kept: AllKept::new(),
            pods,
            progress,
            ..Selection::nothing()
        };
        (self.start_controller_that_selects(selection), news)
    }

    /// Starts a controller for the pods of this selection.
    pub fn start_controller_that_selects(&self, selection: Selection) -> Life {
        self.start(SWAPLET, CONCURRENCY, |settings| {
            settings.selection = Some(selection)
        })
    }

    /// Starts a controller that works in these namespaces only.
    pub fn start_controller_in(&self, namespaces: &[&str]) -> Life {
        self.start(SWAPLET, CONCURRENCY, |settings| {
            settings.namespaces = namespaces.iter().copied().collect()
        })
    }

    /// Starts a controller that derives exit images; `push` stands for the registry.
    pub fn start_deriving_controller(&self, push: Push) -> Life {
        self.start(SWAPLET, CONCURRENCY, |settings| {
            let derived = DerivedImages::new(DERIVED.parse().unwrap());
            settings.rules.exit_images = settings.rules.exit_images.clone().with_derived(derived);
            settings.push = Some(push);
        })
    }

    /// Starts a controller that goes by SidecarPolicies, with a clock that is so many seconds ahead
    /// of the API server's.
    pub fn start_controller_with_policies(&self, ahead: i64) -> Life {
        self.start_with_policies(ahead, false)
    }

    /// The same, where the phase may be written, too, if that is `allowed`.
    pub fn start_with_policies(&self, ahead: i64, allowed: bool) -> Life {
        let clock = self.server.clock();
        self.start(SWAPLET, CONCURRENCY, |settings| {
            settings.sidecar_policies = true;
            settings.rules.allowed.finish = allowed;
            settings.time_of_day = TimeOfDay(Arc::new(move || {
                clock.now() + jiff::SignedDuration::from_secs(ahead)
            }));
        })
    }

    /// Starts a controller that restarts containers for those who ask for it.
    pub fn start_restarting_controller(&self) -> Life {
        self.start_restarting(0, |_| ())
    }

    /// The same with a clock that is so many seconds ahead of the API server's, and with settings
    /// that differ by `change`.
    pub fn start_restarting(&self, ahead: i64, change: impl FnOnce(&mut Settings)) -> Life {
        let clock = self.server.clock();
        self.start(SWAPLET, CONCURRENCY, |settings| {
            settings.restart = Some(RestartSettings {
                time_of_day: TimeOfDay(Arc::new(move || {
                    clock.now() + jiff::SignedDuration::from_secs(ahead)
                })),
                on_config: None,
                readiness_gates: false,
                park: Some(park_image()),
                leash: None,
            });
            change(settings);
        })
    }

    /// Starts one that restarts containers also when their configuration changes, and keeps in the
    /// namespace `state` what they have seen.
    pub fn start_controller_on_config(&self) -> Life {
        let clock = self.server.clock();
        self.start(SWAPLET, CONCURRENCY, |settings| {
            let on_config = RestartOnSettings {
                state_namespace: "state".to_owned(),
                mount_delay: Duration::from_secs(120),
                park: None,
            };
            settings.restart = Some(RestartSettings {
                time_of_day: TimeOfDay(Arc::new(move || clock.now())),
                on_config: Some(on_config),
                readiness_gates: false,
                park: None,
                leash: None,
            });
        })
    }

    /// Starts a controller that pulls images for those who ask for it by jobs.
    pub fn start_warming_controller(&self, park_image: &str, namespace: &str) -> Life {
        self.start_warming(park_image, namespace, |_| ())
    }

    /// The same with settings that differ by `change`.
    pub fn start_warming(
        &self,
        park_image: &str,
        namespace: &str,
        change: impl FnOnce(&mut Settings),
    ) -> Life {
        let clock = self.server.clock();
        self.start(SWAPLET, CONCURRENCY, |settings| {
            let time_of_day = TimeOfDay(Arc::new(move || clock.now()));
            settings.warm = Some(WarmSettings {
                sandbox_keys: swaplet_core::warm::pull_job::sandbox::SandboxKeys::new(
                    ["team", "note"].map(str::to_owned),
                ),
                ..warm_settings(namespace, park_image, time_of_day)
            });
            change(settings);
        })
    }

    /// Starts a controller that pre-downloads the images of workloads that ask for it.
    pub fn start_predownloading_controller(&self) -> Life {
        self.start(SWAPLET, CONCURRENCY, |settings| settings.predownload = true)
    }

    /// Starts a controller that counts what is in protected objects.
    pub fn start_protecting_controller(&self) -> Life {
        self.start(SWAPLET, CONCURRENCY, |settings| settings.protect = true)
    }

    /// Starts a controller with settings that differ by `change` from [`settings`].
    pub fn start(
        &self,
        user_agent: &'static str,
        concurrency: usize,
        change: impl FnOnce(&mut Settings),
    ) -> Life {
        let line = Line::new(self.server.clone(), user_agent);
        let client = Client::new(line.clone(), "default");
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        // As the command does for a process that is alone.
        metrics.leads.set(1);
        let mut settings = settings(user_agent, concurrency);
        change(&mut settings);
        let health = Health::default();
        let controller = run(
            client,
            settings,
            metrics.clone(),
            health.clone(),
            std::future::pending(),
        );
        let task = tokio::spawn(async move { controller.await.unwrap() });
        Life {
            line,
            health,
            metrics,
            registry: Arc::new(registry),
            task,
        }
    }
}

fn park_image() -> ParkImage {
    ParkImage::new(PARK.parse().unwrap(), derived_paths([""; 0]).unwrap())
}

/// What a controller is told that is to swap, all by itself.
pub fn settings(user_agent: &str, concurrency: usize) -> Settings {
    Settings {
        concurrency,
        ..Settings::new(rules(), user_agent.to_owned())
    }
}

/// A default exit image, and nothing that is allowed or preferred besides.
pub fn rules() -> Rules {
    Rules {
        exit_images: ExitImages::new(Some(EXIT.parse().unwrap()), Vec::new())
            .said_public(Public::Yes),
        allowed: AllowedMethods::default(),
        node_table: NodeTable::built_in(),
        coexist: Coexist::Own,
    }
}
