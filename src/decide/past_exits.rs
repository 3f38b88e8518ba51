//! How sidecars have ended before, in whatever pod: what a container answers to SIGTERM it will answer again.
//!
//! Kept by namespace, name and image, so that the second pod of a Job, and the next Job of a CronJob, are told by the first.

use std::collections::{BTreeMap, VecDeque};

use super::exit_images::ExitImages;
use super::roles::{self, Mains};
use crate::objects::pod::{Container, Pod};

/// How many are kept: more kinds of sidecars than a cluster has. Beyond it the oldest is forgotten.
const KEPT: usize = 4096;

type Key = (Box<str>, Box<str>, Box<str>);

/// The last exit code of each kind of sidecar.
#[derive(Clone, Debug, Default)]
pub struct PastExits {
    codes: BTreeMap<Key, i64>,
    order: VecDeque<Key>,
}

impl PastExits {
    /// None are known.
    #[must_use]
    pub const fn new() -> Self {
        Self { codes: BTreeMap::new(), order: VecDeque::new() }
    }

    /// Remembers the sidecars of a pod that ended when their mains were done: somebody stopped them.
    pub fn learn(&mut self, pod: &Pod, exit_images: &ExitImages) {
        if roles::mains_state(pod) != Mains::Done {
            return;
        }
        for sidecar in roles::sidecars(pod).filter(|sidecar| !exit_images.contains(&sidecar.image)) {
            if let Some(code) = sidecar.end().and_then(|end| end.exit_code) {
                self.remember(key(pod, sidecar), code);
            }
        }
    }

    fn remember(&mut self, key: Key, code: i64) {
        if self.codes.insert(key.clone(), code).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.codes.remove(&oldest);
        }
    }

    /// The exit code of the last sidecar like this one.
    #[must_use]
    pub fn of(&self, pod: &Pod, sidecar: &Container) -> Option<i64> {
        self.codes.get(&key(pod, sidecar)).copied()
    }
}

fn key(pod: &Pod, sidecar: &Container) -> Key {
    (pod.namespace.clone(), sidecar.name.clone(), sidecar.image.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten() {
        let mut exits = PastExits::new();
        let key = |number: usize| -> Key { ("ns".into(), "log".into(), number.to_string().into()) };
        for number in 0..=KEPT {
            exits.remember(key(number), 143);
            exits.remember(key(number), 0);
        }
        assert_eq!((exits.codes.len(), exits.order.len()), (KEPT, KEPT));
        assert_eq!((exits.codes.get(&key(0)), exits.codes.get(&key(KEPT))), (None, Some(&0)));
    }
}
