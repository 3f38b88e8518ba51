//! The line in which Events wait: one after another, and behind all swaps.
//!
//! It is bounded in number, by who puts into it, and in time: one that has waited long is sent
//! although there are swaps, but no two at once then.

use jiff::Timestamp;
use swaplet_core::report::decision::Report;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Sender;
use crate::frame::writer::Target;
use crate::frame::writer::precedence::Precedence;

/// Events under way at once while there are no swaps.
const AT_ONCE: usize = 8;

/// An Event that is to be sent, with its place in the line, which is free when it is sent.
pub(super) type InLine = (Waiting, OwnedSemaphorePermit);

/// What an Event is to say.
pub(super) struct Waiting {
    pub(super) target: Target,
    pub(super) report: Report,
    /// The time of day when it was told.
    pub(super) told: Timestamp,
    pub(super) since: Instant,
}

/// Sends what comes, until nobody can tell anything any more.
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
        if !precedence.give_way(next.since).await {
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
