//! What a decision depends on besides the request: what is known of its pod, of the node and of the
//! time. Here is also how long the request has, by its own times and the time of day.

use std::time::Duration;

use super::memory::Memory;
use super::parking::image::ParkImage;
use crate::cluster::exit_images::ExitImages;
use crate::cluster::headroom::Headroom;
use crate::cluster::node_class::NodeClass;
use crate::objects::node::KubeletVersion;
use crate::restart::pod::RestartPod;
use crate::restart::request::RestartRequest;

/// What is known of the pod of a request.
#[derive(Clone, Copy, Debug)]
pub enum Sight<'a> {
    /// Nobody has looked yet.
    Unseen,
    /// The API server does not take the question for it, for this reason, and so nobody will ever
    /// see it.
    Refused(&'a str),
    /// There is no pod of that name.
    Absent,
    /// This is it.
    There(&'a RestartPod),
}

/// What a decision depends on besides the request and its pod.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    /// The exit images of the installation: a container that shows one was ended.
    pub exit_images: &'a ExitImages,
    /// The image in which containers are parked whose image has no alias; `None` where there is
    /// none.
    pub park: Option<&'a ParkImage>,
    /// The class of the pod's node; `None` where it is not known yet.
    pub node: Option<NodeClass>,
    /// The version of its kubelet, as far as the node says.
    pub kubelet: Option<KubeletVersion>,
    /// Whether so many restarts fit into what the pod's Job allows.
    pub room: &'a dyn Fn(u32) -> Headroom,
    /// Whether no other request for the pod comes before this one.
    pub is_first: bool,
    /// Whether requests with OpenKruise's label for virtual nodes are left to the vendor of the
    /// pod's node; `None` where only the node can tell, and is not known yet.
    pub left_to_vendor: Option<bool>,
    /// The time since the start of the process.
    pub now: Duration,
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
    /// Whether an image is the park image of this installation.
    pub(super) fn parks(&self, image: &str) -> bool {
        self.park.is_some_and(|park| park.is(image))
    }
}

pub(super) fn deadline(request: &RestartRequest, around: &Around<'_>) -> Option<Duration> {
    Some(in_time(
        request.created_at?,
        request.active_deadline_seconds?,
        around,
    ))
}

pub(super) fn is_late(request: &RestartRequest, around: &Around<'_>) -> bool {
    deadline(request, around).is_some_and(|at| at <= around.now)
}

/// So many seconds after a time of day, as time since the start of the process. Both times of day
/// are by the API server's clock.
pub(super) fn in_time(then: jiff::Timestamp, seconds: u32, around: &Around<'_>) -> Duration {
    let age = age(then, around);
    around
        .now
        .saturating_add(Duration::from_secs(seconds.into()))
        .saturating_sub(age)
}

/// How long ago a time of day was; nothing for one that is yet to come.
pub(super) fn age(then: jiff::Timestamp, around: &Around<'_>) -> Duration {
    Duration::try_from(around.today.duration_since(then)).unwrap_or_default()
}
