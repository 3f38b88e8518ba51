//! Resolves whether SidecarPolicies apply, for commands that decide outside the installation.

use clap::Args;
use kube::Client;
use serde_json::{Value, json};
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::terminate::snapshot::policies::PodPolicies;
use swaplet_core::objects::pod::rule::{PolicyRule, SidecarRule};
use swaplet_core::objects::sidecar_policy::PolicyKind;

use crate::cli::status::installation::Found;

/// What is said by hand.
#[derive(Debug, Args)]
pub(in crate::cli) struct PoliciesArgs {
    /// Whether SidecarPolicies and NamespacedSidecarPolicies count [default: as in the
    /// installation; false where none is found, true where none can be looked for]
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        env = "SWAPLET_SIDECAR_POLICIES"
    )]
    sidecar_policies: Option<bool>,
}

impl PoliciesArgs {
    /// Returns whether they apply; `None` if that is not known.
    fn are_on(&self, found: &Found) -> Option<bool> {
        self.sidecar_policies.or_else(|| found.reads_policies())
    }

    /// Reads the policies for pods of a namespace, or of all.
    pub(in crate::cli) async fn read(
        &self,
        found: &Found,
        client: &Client,
        namespace: Option<&str>,
        rules: &Rules,
    ) -> PodPolicies {
        let are_on = self.are_on(found);
        PodPolicies::read(client, namespace, &rules.exit_images, are_on).await
    }

    /// Returns a remark that they do not apply, and why; `None` if they do.
    pub(in crate::cli) fn remark_off(&self, found: &Found) -> Option<String> {
        if self.are_on(found) != Some(false) {
            return None;
        }
        let why = match (&found.installation, self.sidecar_policies) {
            (_, Some(_)) => "--sidecar-policies=false is given".to_owned(),
            (Some(installation), _) => format!(
                "Deployment {} runs without --sidecar-policies",
                installation.place()
            ),
            (None, _) => "there is no installation".to_owned(),
        };
        Some(format!(
            "SidecarPolicies are not read ({why}): --sidecar-policies makes them count here"
        ))
    }
}

/// Returns the policy of a rule, as JSON.
pub(in crate::cli) fn policy(rule: &PolicyRule) -> Value {
    let kind = match rule.namespace {
        Some(_) => PolicyKind::Namespaced.kind(),
        None => PolicyKind::Cluster.kind(),
    };
    json!({
        "kind": kind,
        "namespace": rule.namespace,
        "name": rule.name,
        "index": rule.nth,
    })
}

/// Returns a rule, as JSON.
pub(in crate::cli) fn rule(rule: &SidecarRule) -> Value {
    json!({
        "preset": rule.policy().and_then(|policy| policy.preset.as_ref()),
        "method": rule.method.as_str(),
        "exitImage": rule.exit_image,
        "delaySeconds": rule.delay.as_secs(),
        "waitForExitSeconds": rule.wait_for_exit.as_secs(),
        "order": rule.order,
        "mainMustSucceed": rule.main_must_succeed,
    })
}
