//! The flags of `swaplet run` for restarts of containers.

use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use swaplet_controller::frame::clock::TimeOfDay;
use swaplet_controller::restart::driver::RestartSettings;
use swaplet_controller::restart::on_config::{MOUNT_DELAY_SECONDS, RestartOnSettings};
use swaplet_core::restart::reconcile::ParkImage;

use crate::cli::duration::seconds;

#[derive(Debug, Args)]
#[command(next_help_heading = "Restarting containers")]
pub(super) struct RestartArgs {
    /// Restart containers on request, by a ContainerRecreateRequest; needs deploy/restart.yaml, the
    /// leash (--leash), and the CRD where OpenKruise is not installed
    #[arg(long)]
    pub(super) restart: bool,
    /// The leash without which --restart restarts nothing: the ValidatingAdmissionPolicyBindings
    /// NAME-pods (deploy/leash.yaml) and NAME-parked (deploy/leash-parked.yaml). Reading them needs
    /// the role swaplet-restart-leash of deploy/restart.yaml
    #[arg(hide_short_help = true, long, value_name = "NAME", default_value = "swaplet-leash", value_parser = NonEmptyStringValueParser::new())]
    leash: String,
    /// Restart containers even without the leash. Then anyone who may write
    /// ContainerRecreateRequests, or statuses of pods, may restart containers, and anyone who may
    /// write statuses of pods chooses the image of a container that is in the park image, without
    /// any request
    #[arg(hide_short_help = true, long, requires = "restart")]
    restart_without_leash: bool,
    /// Restart containers also when a ConfigMap or Secret changes: one that the annotation
    /// swaplet.io/restart-on of their pod names, as in
    /// `app=configmap/app-settings,secret-metadata/app-tls; log=configmap/log-settings`. Of Secrets
    /// only the metadata is read. `pod-metadata` stands for the labels and annotations of the pod that
    /// the environment of the container takes. Needs --state-namespace, and the role
    /// swaplet-restart-on of deploy/restart.yaml
    #[arg(long, requires = "restart", requires = "state_namespace")]
    restart_on_config: bool,
    /// How long after a change containers are restarted that mount the object: nodes may take so
    /// long to bring the files up to date. Others are restarted after 5 s without a further change
    #[arg(hide_short_help = true, long, value_name = "DURATION", default_value_t = MOUNT_DELAY_SECONDS.into())]
    #[arg(value_parser = seconds(5..=3600))]
    restart_on_config_delay: u32,
    /// Give new pods with the label swaplet.io/readiness-gate the first True of their readiness gate
    /// KruisePodReady, as OpenKruise's manager does: without it they are never Ready. So
    /// unreadyGracePeriodSeconds works without OpenKruise. deploy/readiness-gate.yaml gives gate and
    /// label to new pods of namespaces
    #[arg(hide_short_help = true, long, requires = "restart")]
    restart_readiness_gates: bool,
}

impl RestartArgs {
    /// Returns the settings of restarts, if they are on; the state of `--restart-on-config` is kept
    /// in this namespace.
    pub fn settings(
        self,
        state_namespace: Option<&str>,
        park: Option<ParkImage>,
    ) -> Option<RestartSettings> {
        let on_config = state_namespace.filter(|_| self.restart_on_config);
        let mount_delay = Duration::from_secs(self.restart_on_config_delay.into());
        self.restart.then(|| RestartSettings {
            time_of_day: TimeOfDay::default(),
            on_config: on_config.map(|state_namespace| RestartOnSettings {
                state_namespace: state_namespace.to_owned(),
                mount_delay,
                park: park.clone(),
            }),
            readiness_gates: self.restart_readiness_gates,
            park,
            leash: (!self.restart_without_leash).then_some(self.leash),
        })
    }
}
