//! The sharing of proofs between jobs.

use swaplet_core::objects::moment::Moment;
use swaplet_core::warm::warming::End;

use crate::warm::jobs::PullJobs;
use crate::warm::jobs::entry::Entry;

impl PullJobs {
    /// Reports what is final, and hands proved images to jobs whose pods would prove the same.
    pub(in crate::warm::jobs) fn share(&mut self, now: Moment) {
        let mut found = Vec::new();
        for (key, (fallbacks, news)) in self.jobs.each(now, |key, entry| {
            (key.clone(), (entry.fallbacks(), entry.news()))
        }) {
            let (namespace, name) = (&key.1, &key.2);
            for (node, why) in fallbacks {
                tracing::warn!(%namespace, job = %name, %node, %why, "the images of the job are pulled by pods of another shape on this node");
            }
            for ended in news {
                match &ended.end {
                    End::Succeeded => {
                        tracing::info!(%namespace, job = %name, node = %ended.node, image = %ended.image, "the image is on the node");
                        found.push((key.clone(), ended));
                    }
                    End::Failed(why) => match self
                        .jobs
                        .all
                        .get_mut(&key)
                        .and_then(|entry| entry.notice(&ended, why))
                    {
                        Some(notice) => self.notices.push(notice),
                        None => {
                            tracing::warn!(%namespace, job = %name, node = %ended.node, image = %ended.image, %why, "the image is not on the node");
                        }
                    },
                }
            }
        }
        for (key, ended) in found {
            let Some((prover, wishes)) = self.jobs.all.get(&key).and_then(Entry::prover) else {
                continue;
            };
            self.jobs.each(now, |other, entry| {
                if *other != key {
                    entry.found(&prover, &wishes, &ended);
                }
            });
        }
    }
}
