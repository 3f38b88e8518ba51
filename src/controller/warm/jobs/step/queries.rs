//! The queries for the pods by which jobs select nodes. Each is a watch with a connection of its
//! own, and any tenant creates jobs, so their number is bounded.

use std::collections::BTreeSet;

use crate::frame::watch::shared;
use crate::warm::jobs::PodQuery;
use crate::warm::jobs::PullJobs;
use crate::warm::jobs::entry::Entry;

/// The most queries that are followed at once, as with the pods of requests for restarts.
const AT_ONCE: usize = 256;
/// The most of them in one namespace, so that eight have room beside each other.
const EACH: usize = 32;

impl PullJobs {
    /// Returns the queries to follow, of jobs that are not completed. The other jobs wait, and their
    /// status says so.
    pub fn queries(&mut self) -> &BTreeSet<PodQuery> {
        let wanted: BTreeSet<&PodQuery> = self.jobs.all.values().filter_map(Entry::query).collect();
        let followed = shared(
            wanted,
            (AT_ONCE, EACH),
            |query| &query.1,
            |query| self.queries.contains(*query),
        );
        self.queries = followed.into_iter().cloned().collect();
        for entry in self.jobs.all.values_mut() {
            entry.are_followed(&self.queries);
        }
        &self.queries
    }
}
