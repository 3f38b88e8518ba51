//! What bounds the jobs of tenants: the flags of `swaplet run`.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

/// What one try of an image may take at most, if nothing else is said.
const TRY_SECONDS: u32 = 1800;

#[derive(Debug, Args)]
pub(super) struct WarmBoundsArgs {
    /// Seconds that one try of an image may take at most, whatever pullPolicy.timeoutSeconds of its job says: its node does nothing for other
    /// jobs meanwhile
    #[arg(long, value_name = "SECONDS", env = "SWAPLET_WARM_TRY_SECONDS_MAX", default_value_t = TRY_SECONDS)]
    #[arg(value_parser = clap::value_parser!(u32).range(60..=86_400))]
    warm_try_seconds_max: u32,
    /// Let nodes with the startup taint wait for the jobs of this namespace, too (repeatable): whoever may make jobs there can delay each new
    /// node. They always wait for --warm-exit-images, and for jobs of --state-namespace
    #[arg(long, value_name = "NAMESPACE", env = "SWAPLET_WARM_STARTUP_TAINT_NAMESPACE", value_delimiter = ',')]
    #[arg(requires = "warm_startup_taint", value_parser = NonEmptyStringValueParser::new())]
    warm_startup_taint_namespace: Vec<String>,
}

impl WarmBoundsArgs {
    /// What one try of an image may take at most.
    pub(super) fn longest_try(&self) -> Duration {
        Duration::from_secs(self.warm_try_seconds_max.into())
    }

    /// The namespaces for whose jobs nodes wait.
    pub(super) fn startup_taint_namespaces(&self, state_namespace: Option<&str>) -> BTreeSet<Box<str>> {
        self.warm_startup_taint_namespace.iter().map(String::as_str).chain(state_namespace).map(Box::from).collect()
    }
}
