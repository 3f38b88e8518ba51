//! Requests that another controller carries out: OpenKruise's own to end sidecars, those for
//! virtual nodes whose vendor reads OpenKruise's label, and those of OpenKruise's daemon. None of
//! them waits for ever for a controller that is gone.

use std::time::Duration;

use super::decision::Decision;
use super::{Around, Memory, deadline};
use crate::cluster::node_class::NodeClass;
use crate::report::reason::Reason;
use crate::restart::request::RestartRequest;

/// How long a request for OpenKruise's daemon waits for the daemon, which comes back after an update
/// and continues.
const DAEMON_RETURNS: Duration = Duration::from_secs(600);
/// The message for a request that no controller continues.
const ABANDONED: &str = "another controller has begun it without a record, and no kruise-daemon is on the node to continue it";
/// The message for a request by the name of those that end sidecars, where OpenKruise is not.
const NO_DAEMON: &str = "its name makes it one for OpenKruise to end sidecars, and no kruise-daemon is on the node; give a request to restart containers another name";

/// Decides about a request that another controller carries out; `None` if swaplet carries it out.
/// Swaplet completes what it has begun, even if a daemon comes to the node, or the label of a
/// virtual node is added.
pub(crate) fn carry_out(
    request: &RestartRequest,
    memory: &Memory,
    around: &Around<'_>,
) -> Option<Decision> {
    let left = Some(Decision::quiet(Reason::RequestLeft));
    if request.ends_sidecars() {
        return Some(left_to_daemon(request, memory, around, NO_DAEMON));
    }
    if request.journal.is_some() {
        return None;
    }
    if request.is_taken() {
        return if request.on_virtual_node {
            left
        } else {
            Some(left_to_daemon(request, memory, around, ABANDONED))
        };
    }
    if request.on_virtual_node && around.left_to_vendor != Some(false) {
        return if around.left_to_vendor.is_none() {
            Some(Decision::quiet(Reason::RequestWaits))
        } else {
            left
        };
    }
    if around.node == Some(NodeClass::Daemon) {
        left
    } else {
        None
    }
}

/// Returns true if swaplet may have to carry the request out; see [`needs_pod`](super::needs_pod).
pub(crate) fn may_be_ours(request: &RestartRequest, nodes_tell: bool) -> bool {
    let is_vendors = request.on_virtual_node && !nodes_tell;
    !request.ends_sidecars() && (request.journal.is_some() || !(is_vendors || request.is_taken()))
}

/// Returns true if another controller deletes the request once it is completed.
pub(crate) fn delete(request: &RestartRequest, around: &Around<'_>) -> bool {
    let is_vendors = request.on_virtual_node && around.left_to_vendor == Some(true);
    request.journal.is_none() && is_vendors && !request.ends_sidecars()
}

/// Waits for OpenKruise's daemon, for some time after it is gone.
fn left_to_daemon(
    request: &RestartRequest,
    memory: &Memory,
    around: &Around<'_>,
    why: &str,
) -> Decision {
    let Some(since) = memory.without_daemon else {
        return Decision::quiet(Reason::RequestLeft);
    };
    let returns = since + DAEMON_RETURNS;
    let until = deadline(request, around).map_or(returns, |deadline| deadline.min(returns));
    if until > around.now {
        Decision::later(Reason::RequestLeft, until)
    } else {
        Decision::give_up(request, why)
    }
}
