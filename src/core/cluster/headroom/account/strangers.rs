//! Pods that name a Job of another namespace. They are observed before the Job where pods are
//! listed first, and many of them never again.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::Account;

impl Account {
    /// Forgets the pods of all namespaces but the one with this digest; returns their uids.
    pub(crate) fn forget_strangers(&mut self, namespace: u64) -> Vec<Box<str>> {
        let strangers: Vec<_> = self
            .pods
            .iter()
            .filter(|(_, entry)| entry.seen.namespace != namespace)
            .map(|(uid, _)| uid.clone())
            .collect();
        strangers.iter().for_each(|uid| self.forget(uid));
        strangers
    }
}

/// Returns a digest of the name of a namespace.
pub(crate) fn digest(namespace: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    namespace.hash(&mut hasher);
    hasher.finish()
}
