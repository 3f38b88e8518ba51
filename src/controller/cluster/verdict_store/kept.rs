//! A verdict as it is stored in the ConfigMap.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use swaplet_core::cluster::node_verdicts::{NodeVerdict, Proved, VERDICT_LASTS};
use swaplet_core::objects::moment::Moment;

/// A stored verdict: one value of the ConfigMap, under the name of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// The uid of the node.
    pub uid: Box<str>,
    /// The behaviour that was proved, in the words of [`Proved::as_str`].
    pub proved: Box<str>,
    /// The time at which it was proved.
    pub proved_at: Timestamp,
    /// The time until which it counts.
    pub until: Timestamp,
    /// See [`NodeVerdict::times`].
    #[serde(default)]
    pub times: u32,
    /// The pod that proved it, as `namespace/name`.
    #[serde(default)]
    pub pod: Box<str>,
    /// See [`NodeVerdict::provider`].
    #[serde(default)]
    pub provider: Box<str>,
}

/// All stored verdicts, by their key: the name of the node, see [`node_of`].
pub type AllKept = BTreeMap<String, Kept>;

impl Kept {
    /// Converts a verdict. `now` and `today` are the same moment, by the process's own clock and
    /// by the wall clock.
    #[must_use]
    pub fn of(verdict: &NodeVerdict, now: Moment, today: Timestamp) -> Self {
        let until = shift(today, verdict.until.since_start(), now.since_start());
        Self {
            uid: verdict.uid.clone(),
            proved: verdict.proved.as_str().into(),
            proved_at: shift(until, Duration::ZERO, verdict.lasts),
            until,
            times: verdict.times,
            pod: verdict.pod.clone(),
            provider: verdict.provider.clone(),
        }
    }

    /// Returns the verdict in the time of this process; `None` if it expired long ago or makes no
    /// sense. It never counts longer than a verdict can, whatever clocks or users have made of it.
    #[must_use]
    pub fn restore(&self, now: Moment, today: Timestamp) -> Option<NodeVerdict> {
        let seconds = |from: Timestamp, to: Timestamp| {
            Duration::from_secs(
                u64::try_from(from.duration_until(to).as_secs()).unwrap_or_default(),
            )
        };
        if seconds(self.until, today) >= VERDICT_LASTS {
            return None;
        }
        let proved = Proved::from_word(&self.proved)?;
        Some(NodeVerdict {
            uid: self.uid.clone(),
            proved,
            until: now + seconds(today, self.until).min(proved.lasts()),
            lasts: seconds(self.proved_at, self.until).min(proved.lasts()),
            times: self.times,
            pod: self.pod.clone(),
            provider: self.provider.clone(),
        })
    }
}

/// Returns `time + plus - minus`, to the second; `time` itself if no calendar has the result.
fn shift(time: Timestamp, plus: Duration, minus: Duration) -> Timestamp {
    let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let shifted = time
        .as_second()
        .saturating_add(seconds(plus))
        .saturating_sub(seconds(minus));
    Timestamp::from_second(shifted).unwrap_or(time)
}
