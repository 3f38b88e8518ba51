//! The flags of `swaplet run` that bound the jobs of tenants.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use swaplet_core::terminate::openkruise::Coexist;

use crate::cli::duration::seconds;

/// The default deadline of one pull of an image, in seconds.
const TRY_SECONDS: u32 = 1800;

#[derive(Debug, Args)]
pub(super) struct WarmBoundsArgs {
    /// How long one try of an image may take at most, whatever pullPolicy.timeoutSeconds of its job
    /// says
    #[arg(hide_short_help = true, long, value_name = "DURATION", env = "SWAPLET_WARM_TRY_SECONDS_MAX", default_value_t = TRY_SECONDS)]
    #[arg(value_parser = seconds(60..=86_400))]
    warm_try_seconds_max: u32,
    /// Who does ImagePullJobs and ImageListPullJobs where OpenKruise's CRDs are there
    #[arg(hide_short_help = true, long, value_enum, default_value_t = WarmCoexistArg::Auto, env = "SWAPLET_WARM_COEXIST")]
    warm_coexist: WarmCoexistArg,
    /// Let nodes with the startup taint wait for the jobs of this namespace, too (repeatable):
    /// anyone who may create jobs there can delay each new node. They always wait for
    /// --warm-exit-images, and for jobs of --state-namespace
    #[arg(
        hide_short_help = true,
        long,
        value_name = "NAMESPACE",
        env = "SWAPLET_WARM_STARTUP_TAINT_NAMESPACE",
        value_delimiter = ','
    )]
    #[arg(requires = "warm_startup_taint", value_parser = NonEmptyStringValueParser::new())]
    warm_startup_taint_namespace: Vec<String>,
}

/// [`Coexist`] as a flag, for jobs that pull images.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum WarmCoexistArg {
    /// OpenKruise while its manager does them; swaplet where that is gone, or runs with
    /// KruiseDaemon or ImagePullJobGate off
    Auto,
    /// OpenKruise
    Defer,
    /// Swaplet: OpenKruise's manager does none
    Own,
}

impl WarmBoundsArgs {
    /// Returns who handles jobs beside OpenKruise.
    pub(super) const fn coexist(&self) -> Coexist {
        match self.warm_coexist {
            WarmCoexistArg::Auto => Coexist::Auto,
            WarmCoexistArg::Defer => Coexist::Defer,
            WarmCoexistArg::Own => Coexist::Own,
        }
    }

    /// Returns the maximum deadline of one pull of an image.
    pub(super) fn longest_try(&self) -> Duration {
        Duration::from_secs(self.warm_try_seconds_max.into())
    }

    /// Returns the namespaces for whose jobs nodes wait.
    pub(super) fn startup_taint_namespaces(
        &self,
        state_namespace: Option<&str>,
    ) -> BTreeSet<Box<str>> {
        self.warm_startup_taint_namespace
            .iter()
            .map(String::as_str)
            .chain(state_namespace)
            .map(Box::from)
            .collect()
    }
}
