//! A controller for selected pods only, which reports its progress.

use std::collections::{BTreeSet, HashMap};

use swaplet_core::objects::pod::Phase;
use swaplet_core::report::reason::Reason;
use tokio::sync::mpsc;

use crate::cluster::verdict_store::AllKept;
use crate::frame::writer::report::Notice;
use crate::terminate::snapshot::policies::Given;

/// The pods that a controller may write. It watches all others too, because their restarts count,
/// and leaves them alone.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The uids of the pods.
    pub pods: BTreeSet<Box<str>>,
    /// What was proved about nodes before.
    pub kept: AllKept,
    /// Policies that count beside those of the cluster.
    pub given: Given,
    /// The receiver of the progress.
    pub progress: mpsc::UnboundedSender<Progress>,
}

impl Selection {
    /// Selects no pod, for a controller that ends no sidecars.
    pub fn nothing() -> Self {
        Self {
            pods: BTreeSet::new(),
            kept: AllKept::new(),
            given: Given::default(),
            progress: mpsc::unbounded_channel().0,
        }
    }
}

/// The progress of a selected pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The decision differs from the one before.
    Decided {
        /// The pod.
        uid: Box<str>,
        /// The decision.
        reason: Reason,
    },
    /// An Event or log line about the pod or its Job.
    Reported(Notice),
    /// Nothing more will be done for the pod.
    Over {
        /// The pod.
        uid: Box<str>,
        /// Its last phase; not a terminal one if it is gone, or about to be.
        phase: Phase,
    },
}

/// The pods that may be written, and their progress.
#[derive(Debug, Default)]
pub(crate) struct Selected {
    /// The selected pods with their last decisions; `None` if every pod may be written.
    left: Option<HashMap<Box<str>, Option<Reason>>>,
    pub(crate) news: Vec<Progress>,
}

impl Selected {
    pub(crate) fn only(pods: &BTreeSet<Box<str>>) -> Self {
        Self {
            left: Some(pods.iter().map(|uid| (uid.clone(), None)).collect()),
            news: Vec::new(),
        }
    }

    /// Returns true if there are pods that may not be written.
    pub(crate) const fn are_some_only(&self) -> bool {
        self.left.is_some()
    }

    pub(crate) fn may_be_written(&self, uid: &str) -> bool {
        self.left.as_ref().is_none_or(|left| left.contains_key(uid))
    }

    pub(crate) fn decided(&mut self, uid: &str, reason: Reason) {
        if let Some(last) = self.left.as_mut().and_then(|left| left.get_mut(uid))
            && last.replace(reason) != Some(reason)
        {
            self.news.push(Progress::Decided {
                uid: uid.into(),
                reason,
            });
        }
    }

    pub(crate) fn over(&mut self, uid: &str, phase: Phase) {
        if self
            .left
            .as_mut()
            .is_some_and(|left| left.remove(uid).is_some())
        {
            self.news.push(Progress::Over {
                uid: uid.into(),
                phase,
            });
        }
    }

    /// Records the end of a list of all pods: those for which `is_there` is false are gone.
    pub(crate) fn listed(&mut self, is_there: impl Fn(&str) -> bool) {
        let gone: Vec<_> = self
            .left
            .iter()
            .flat_map(HashMap::keys)
            .filter(|uid| !is_there(uid))
            .cloned()
            .collect();
        gone.iter().for_each(|uid| self.over(uid, Phase::Unknown));
    }
}
