//! The admission policies that `swaplet run --restart` requires before it restarts anything.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

#[derive(Debug, Args)]
pub(super) struct LeashArgs {
    /// The leash without which --restart restarts nothing: the ValidatingAdmissionPolicyBindings
    /// NAME-pods (deploy/leash.yaml) and NAME-parked (deploy/leash-parked.yaml). Reading them needs
    /// the role swaplet-restart-leash of deploy/restart.yaml
    #[arg(hide_short_help = true, long, value_name = "NAME", default_value = "swaplet-leash", env = "SWAPLET_LEASH", value_parser = NonEmptyStringValueParser::new())]
    leash: String,
    /// Restart containers even without the leash. Then anyone who may write
    /// ContainerRecreateRequests, or statuses of pods, may restart containers, and anyone who may
    /// write statuses of pods chooses the image of a container that is in the park image, without
    /// any request
    #[arg(
        hide_short_help = true,
        long,
        env = "SWAPLET_RESTART_WITHOUT_LEASH",
        requires = "restart"
    )]
    restart_without_leash: bool,
}

impl LeashArgs {
    /// Returns the name of the required admission policies; `None` if none are required.
    pub(super) fn needed(self) -> Option<String> {
        (!self.restart_without_leash).then_some(self.leash)
    }
}
