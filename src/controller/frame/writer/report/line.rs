//! The queue of Events: they are sent in turns by namespace, and behind all swaps. So very many of
//! one tenant, or those that hang behind a webhook, keep no others waiting.
//!
//! The queue is bounded in number by the reporter, and in time: an Event that has waited long is
//! sent although there are swaps, but no two at once then.

use std::collections::BTreeMap;

use jiff::Timestamp;
use swaplet_core::report::decision::Report;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Sender;
use super::places::Place;
use crate::frame::queue::FairQueue;
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

/// The Events that wait, by the number of their arrival.
#[derive(Default)]
struct Queue {
    turns: FairQueue<u64>,
    waiting: BTreeMap<u64, InLine>,
    arrived: u64,
}

impl Queue {
    fn push(&mut self, next: InLine) {
        self.arrived += 1;
        self.turns.push(&next.0.target.namespace, self.arrived);
        self.waiting.insert(self.arrived, next);
    }

    /// Removes and returns the Event whose turn it is, with the time since when any has waited.
    fn pop(&mut self) -> Option<(InLine, Instant)> {
        let (_, (first, _)) = self.waiting.first_key_value()?;
        let oldest = first.since;
        let next = self.waiting.remove(&self.turns.pop()?)?;
        Some((next, oldest))
    }
}

/// Sends the queued Events until every reporter is dropped.
pub(super) async fn send_in_turn(
    sender: Sender,
    mut line: mpsc::UnboundedReceiver<InLine>,
    precedence: Precedence,
) {
    let (mut queue, mut under_way) = (Queue::default(), JoinSet::new());
    loop {
        while let Ok(next) = line.try_recv() {
            queue.push(next);
        }
        let Some(((next, place), oldest)) = queue.pop() else {
            let Some(next) = line.recv().await else {
                break;
            };
            queue.push(next);
            continue;
        };
        while under_way.len() >= AT_ONCE {
            under_way.join_next().await;
        }
        if !precedence.yield_with(next.since, oldest).await {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use swaplet_core::report::reason::Reason;
    use tokio::time::advance;

    use super::super::places::Places;
    use super::*;
    use crate::frame::writer::TargetKind;

    fn event(places: &Places, namespace: &str, name: &str) -> InLine {
        let waiting = Waiting {
            target: Target {
                kind: TargetKind::Pod,
                namespace: namespace.into(),
                name: name.into(),
                uid: "u".into(),
            },
            report: Report {
                reason: Reason::SidecarEnded,
                note: String::new(),
            },
            reported: Timestamp::UNIX_EPOCH,
            since: Instant::now(),
        };
        (waiting, places.take(namespace).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_with_very_many_events_keeps_no_other_waiting() {
        let (places, mut queue, start) = (Places::new(), Queue::default(), Instant::now());
        for name in ["a1", "a2", "a3"] {
            queue.push(event(&places, "loud", name));
        }
        advance(Duration::from_secs(1)).await;
        queue.push(event(&places, "modest", "b1"));
        let mut sent = Vec::new();
        while let Some(((next, _), oldest)) = queue.pop() {
            sent.push((next.target.name.into_string(), oldest));
        }
        let names: Vec<_> = sent.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a1", "b1", "a2", "a3"]);
        assert!(sent.iter().all(|(_, oldest)| *oldest == start));
    }
}
