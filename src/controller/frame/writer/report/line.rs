//! The queue of Events: they are sent one after another, and behind all swaps.
//!
//! The queue is bounded in number by the reporter, and in time: an Event that has waited long is
//! sent although there are swaps, but no two at once then.

use jiff::Timestamp;
use swaplet_core::report::decision::Report;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Sender;
use super::places::Place;
use crate::frame::writer::Target;
use crate::frame::writer::precedence::Precedence;

/// The most Events in flight at once while there are no swaps.
const AT_ONCE: usize = 8;

/// An Event to send, with its place in the queue, which is free when it is sent.
pub(super) type InLine = (Waiting, Place);

/// The content of an Event.
pub(super) struct Waiting {
    pub(super) target: Target,
    pub(super) report: Report,
    /// The time of day of the report.
    pub(super) reported: Timestamp,
    pub(super) since: Instant,
}

/// Sends the queued Events until every reporter is dropped.
pub(super) async fn send_in_turn(
    sender: Sender,
    mut line: mpsc::UnboundedReceiver<InLine>,
    precedence: Precedence,
) {
    let mut under_way = JoinSet::new();
    while let Some((next, place)) = line.recv().await {
        while under_way.len() >= AT_ONCE {
            under_way.join_next().await;
        }
        if !precedence.yield_to_swaps(next.since).await {
            while under_way.join_next().await.is_some() {}
        }
        let sender = sender.clone();
        under_way.spawn(async move {
            sender.send(&next).await;
            drop(place);
        });
    }
    while under_way.join_next().await.is_some() {}
}
