//! The inputs of a decision besides the request: what is known of its pod, of the node and of the
//! time. Also computes the deadline of a request, from its own times and the time of day.

use std::time::Duration;

use super::memory::Memory;
use super::parking::image::ParkImage;
use crate::cluster::exit_images::ExitImages;
use crate::cluster::headroom::Headroom;
use crate::cluster::node_class::NodeClass;
use crate::objects::moment::Moment;
use crate::objects::node::KubeletVersion;
use crate::objects::runs_on::RunsOn;
use crate::restart::pod::RestartPod;
use crate::restart::request::RestartRequest;

/// The knowledge of the pod of a request.
#[derive(Clone, Copy, Debug)]
pub enum Sight<'a> {
    /// The pod has not been requested or observed yet.
    Unseen,
    /// The API server rejects the request for the pod, for this reason, so it will never be
    /// observed.
    Refused(&'a str),
    /// There is no pod with that name.
    Absent,
    /// The pod as it was observed last.
    There(&'a RestartPod),
}

/// The inputs of a decision besides the request and its pod.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    /// The exit images of the installation: a container that has one was ended.
    pub exit_images: &'a ExitImages,
    /// The park image, for containers whose image has no alias; `None` if none is configured.
    pub park: Option<&'a ParkImage>,
    /// The class of the pod's node; `None` while it is unknown.
    pub node: Option<NodeClass>,
    /// The version of the node's kubelet; `None` if the node does not report it.
    pub kubelet: Option<KubeletVersion>,
    /// What the node says of its operating system and processor.
    pub runs_on: RunsOn,
    /// Returns whether this many restarts fit into what the pod's Job allows.
    pub room: &'a dyn Fn(u32) -> Headroom,
    /// True if no other request for the pod comes before this one.
    pub is_first: bool,
    /// True if requests with OpenKruise's label for virtual nodes are left to the vendor of the
    /// pod's node; `None` while that depends on a node that is not known yet.
    pub left_to_vendor: Option<bool>,
    /// The time of the decision.
    pub now: Moment,
    /// The time of day, by the API server's clock.
    pub today: jiff::Timestamp,
}

/// A request and its pod, with everything that a decision about the two depends on.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub request: &'a RestartRequest,
    pub pod: &'a RestartPod,
    pub memory: &'a Memory,
    pub around: &'a Around<'a>,
}

impl Around<'_> {
    /// Returns true if an image is the park image of this installation.
    pub(super) fn parks(&self, image: &str) -> bool {
        self.park.is_some_and(|park| park.is(image))
    }
}

pub(super) fn deadline(request: &RestartRequest, around: &Around<'_>) -> Option<Moment> {
    Some(in_time(
        request.created_at?,
        request.active_deadline_seconds?,
        around,
    ))
}

pub(super) fn is_late(request: &RestartRequest, around: &Around<'_>) -> bool {
    deadline(request, around).is_some_and(|at| at <= around.now)
}

/// Returns the point in time `seconds` after `then`. Both times of day are by the API server's
/// clock.
pub(super) fn in_time(then: jiff::Timestamp, seconds: u32, around: &Around<'_>) -> Moment {
    let age = age(then, around);
    around.now + Duration::from_secs(seconds.into()) - age
}

/// Returns how long ago `then` was; zero if it is in the future.
pub(super) fn age(then: jiff::Timestamp, around: &Around<'_>) -> Duration {
    Duration::try_from(around.today.duration_since(then)).unwrap_or_default()
}
