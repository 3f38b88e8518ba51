//! Reports about images that are final on a node.

use swaplet_core::objects::moment::Moment;
use swaplet_core::warm::warming::End;

use crate::warm::jobs::PullJobs;

impl PullJobs {
    /// Reports what is final.
    pub(in crate::warm::jobs) fn report_ended(&mut self, now: Moment) {
        let notices = self.jobs.each(now, |(_, namespace, name), entry| {
            let mut notices = Vec::new();
            for ended in entry.news() {
                let (node, image) = (&ended.node, &ended.image);
                match &ended.end {
                    End::Succeeded => {
                        tracing::info!(%namespace, job = %name, %node, %image, "the image is on the node");
                    }
                    End::Failed(why) => match entry.notice(&ended, why) {
                        Some(notice) => notices.push(notice),
                        None => {
                            tracing::warn!(%namespace, job = %name, %node, %image, %why, "the image is not on the node");
                        }
                    },
                }
            }
            notices
        });
        self.notices.extend(notices.into_iter().flatten());
    }
}
