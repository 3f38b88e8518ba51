//! How it stands with a node, by which is known whether a step has to look at it.

use std::time::Duration;

use super::NodeProgress;

impl NodeProgress {
    /// Whether a step has to look at it, whoever may begin: it is under way, or a time runs for it.
    pub fn is_busy(&self) -> bool {
        !self.is_idle() || !self.left.is_empty() || self.kept.is_under_way() || !self.is_in_order()
    }

    /// From when on a pod can be made for it, once there is a slot; `None` where none is needed, or
    /// one is there.
    pub fn begins_at(&self) -> Option<Duration> {
        if !self.is_idle() || self.is_broken {
            return None;
        }
        let open = self.images.iter().filter(|image| image.end.is_none());
        let first = open.map(|image| image.not_before).min()?;
        Some(first.max(self.not_before))
    }

    /// Whether all is known, and may be asked again some day.
    pub fn is_settled(&self) -> bool {
        self.is_idle() && self.ready && self.is_done()
    }

    /// Whether something is to be told of it.
    pub fn has_news(&self) -> bool {
        !self.news.is_empty() || self.fell_back.is_some()
    }

    /// Whether nothing can be written for it now, and no time of its own runs.
    pub fn rests(&self, may_begin: bool) -> bool {
        !may_begin && self.is_idle() && self.is_in_order()
    }

    /// When a pod was made for it the last time, or it was begun with.
    pub const fn asked(&self) -> Duration {
        self.asked
    }

    /// Whether it has no pod, and none is on its way.
    const fn is_idle(&self) -> bool {
        self.pod.is_none() && !self.writing && !self.unsure
    }

    /// Whether it does not matter how long its node is not Ready.
    fn is_in_order(&self) -> bool {
        self.unready_since.is_none() || self.is_done()
    }
}
