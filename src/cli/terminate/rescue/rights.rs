//! Whether the user may make the writes that are decided: a dry run says so before they are tried.

use std::collections::BTreeMap;

use kube::Client;

use super::rows::Stuck;
use crate::cli::program::rights::may_patch;
use crate::cli::program::table::counted;

/// The most namespaces that are asked about.
const MOST: usize = 20;

/// Returns a remark for each kind of write that the user may not make in a namespace.
pub(super) async fn lacking(client: &Client, stuck: &[Stuck]) -> Vec<String> {
    let mut writes = BTreeMap::<_, usize>::new();
    for stuck in stuck {
        if let Some(resource) = stuck.writes() {
            *writes.entry((&*stuck.pod.namespace, resource)).or_default() += 1;
        }
    }
    let mut lacking = Vec::new();
    for ((namespace, resource), pods) in writes.into_iter().take(MOST) {
        if may_patch(client, namespace, resource).await == Some(false) {
            let pods = counted(pods, "pod");
            lacking.push(format!(
                "your rights do not allow to patch {resource} in namespace {namespace}, which is decided for {pods}: ask for that right (docs/rights.md), or let a controller do it"
            ));
        }
    }
    lacking
}
