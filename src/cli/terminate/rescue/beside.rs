//! Checks whether a controller works on the same pods by other rules: then both would change the
//! images of the same sidecars, one after the other.

use kube::Client;
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::frame::clock::time_of_day;
use swaplet_controller::frame::lease::LEASE;
use swaplet_controller::terminate::snapshot::Snapshot;

use super::rows::Stuck;
use crate::cli::status::ask::lease;
use crate::cli::status::installation::{Found, Installation};

/// Returns why nothing may be written beside the controller of the installation, or of one that
/// may be for these pods; `None` if there is no objection.
pub(super) async fn refusal(client: &Client, found: &Found, rules: &Rules) -> Option<String> {
    for installation in found.installation.iter().chain(&found.unchosen) {
        if let Some(words) = refusal_of(client, installation, rules).await {
            return Some(words);
        }
    }
    None
}

async fn refusal_of(client: &Client, installation: &Installation, rules: &Rules) -> Option<String> {
    let (ours, theirs) = disagreement(installation, rules)?;
    let namespace = installation.state_namespace()?;
    let place = installation.place();
    match lease(client, namespace).await {
        Ok(held) if !held.is_held(time_of_day()) => None,
        Ok(held) => {
            let holder = held.holder;
            Some(format!(
                "{holder} holds the Lease {namespace}/{LEASE}: the controller of Deployment {place} ends these pods by itself, and would change \
                 {ours} to its own exit image {theirs} again. Leave --exit-image out, wait for it (swaplet explain POD says what it waits for), \
                 or pass --force"
            ))
        }
        // It is unknown whether a controller works there.
        Err(error) => Some(format!(
            "the Lease {namespace}/{LEASE} cannot be read ({}), so it is not known whether the controller of Deployment {place} runs: it would \
             change {ours} to its own exit image {theirs} again. Leave --exit-image out, ask for the right to get this Lease, or pass --force",
            error
        )),
    }
}

/// Returns our exit image and theirs, if they would not accept ours as one.
fn disagreement(installation: &Installation, rules: &Rules) -> Option<(String, String)> {
    let ours = rules.exit_images.default_image()?;
    let flags = installation.flags.as_ref().ok()?;
    if !flags.is_on("terminate") || flags.exit_images().contains(ours.as_str()) {
        return None;
    }
    let theirs = flags.one("exit-image")?;
    Some((ours.to_string(), theirs.to_owned()))
}

/// Removes pods whose sidecars show an exit image of others, according to swaplet's Events: another
/// change would be useless. Returns remarks about them.
pub(super) fn leave_to_others(stuck: Vec<Stuck>, snapshot: &Snapshot) -> (Vec<Stuck>, Vec<String>) {
    let (mut ours, mut remarks) = (Vec::new(), Vec::new());
    for stuck in stuck {
        match snapshot.unknown_exit_image(&stuck.pod) {
            None => ours.push(stuck),
            Some(image) => remarks.push(format!(
                "{}/{} is left alone: swaplet has changed the image of a sidecar to {image} already, and the node has not shown its end yet. \
                 Pass --exit-image {image} if that is an exit image of yours, or --force to change it once more",
                stuck.pod.namespace, stuck.pod.name
            )),
        }
    }
    (ours, remarks)
}
