//! Predicates on a node that decide whether a step has to visit it.

use super::NodeProgress;
use crate::objects::moment::Moment;

impl NodeProgress {
    /// Returns true if every step has to visit it: it is under way, or a deadline is running.
    pub fn is_busy(&self) -> bool {
        !self.is_idle()
            || !self.left.is_empty()
            || self.kept.is_under_way()
            || self.untaken.is_some()
            || !self.is_in_order()
    }

    /// Returns from when on a pod can be created, given a slot; `None` if no image is open, a pod
    /// is there or on its way, or a defect has ended the work.
    pub fn begins_at(&self) -> Option<Moment> {
        if !self.is_idle() || self.is_broken {
            return None;
        }
        let open = self.images.iter().filter(|image| image.end.is_none());
        let first = open.map(|image| image.not_before).min()?;
        Some(first.max(self.not_before))
    }

    /// Returns true if all images are final, and the node may be checked again some day.
    pub fn is_settled(&self) -> bool {
        self.is_idle() && self.ready && self.is_done()
    }

    /// Returns true if there is something to report about the node.
    pub const fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// Returns true if nothing can be written now, and no deadline of its own is running.
    pub fn rests(&self, may_begin: bool) -> bool {
        !may_begin && self.is_idle() && self.is_in_order()
    }

    /// Returns when its last pod was created, or the node was added.
    pub const fn asked(&self) -> Moment {
        self.asked
    }

    /// Returns true if it has no pod, and none is on its way.
    const fn is_idle(&self) -> bool {
        self.pod.is_none() && !self.writing && self.unsure.is_none()
    }

    /// Returns true if it does not matter how long the node is not Ready.
    fn is_in_order(&self) -> bool {
        self.unready_since.is_none() || self.is_done()
    }
}
