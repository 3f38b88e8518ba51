//! What is in flight beside a loop, such as its writes: at most so many at once, of which each
//! namespace has a share, and a panic costs no more than what it was for.

mod shares;

use futures::future::BoxFuture;
use swaplet_core::report::write_error::WriteError;
use tokio::task::JoinSet;

use self::shares::Shares;
use super::clock::Clock;
use super::isolated::isolated_task;
use super::writer::{broken, is_unanswered};

/// Tasks in flight: each has a key, which comes back with its result `T`.
pub(crate) struct InFlight<K, T> {
    /// The most that may be in flight.
    pub most: usize,
    /// The most of one namespace, whatever its share.
    most_each: usize,
    namespace: fn(&K) -> &str,
    shares: Shares,
    /// The clock of the shares alone.
    clock: Clock,
    tasks: JoinSet<(K, Result<T, String>)>,
}

/// Writes in flight.
pub(crate) type Writes<K, T> = InFlight<K, Result<T, WriteError>>;

impl<K: Send + Sync + 'static, T: Send + 'static> InFlight<K, T> {
    /// Returns a set of which nothing is in flight. `namespace` returns that whose share a task
    /// takes.
    pub fn new(most: usize, namespace: fn(&K) -> &str) -> Self {
        Self {
            most,
            most_each: usize::MAX,
            namespace,
            shares: Shares::default(),
            clock: Clock::start(),
            tasks: JoinSet::new(),
        }
    }

    /// Like [`new`](Self::new), for what takes several tasks, one after another. A namespace has one
    /// such at a time, which keeps its share from the first task until it [ends](Self::end).
    pub fn one_each(most: usize, namespace: fn(&K) -> &str) -> Self {
        Self {
            most_each: 1,
            ..Self::new(most, namespace)
        }
    }

    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Calls `next` for what is to begin next, of the namespaces that may begin something. Returns
    /// `None` if there is no room.
    pub fn turn<N>(&self, mut next: impl FnMut(&dyn Fn(&str) -> bool) -> Option<N>) -> Option<N> {
        if self.len() >= self.most {
            return None;
        }
        self.shares.next(self.most, self.clock.now(), |may_begin| {
            next(&|namespace| may_begin(namespace) && self.has_place(namespace))
        })
    }

    /// Returns how many of a namespace may begin now.
    pub fn room(&self, namespace: &str) -> usize {
        let of_all = self.most.saturating_sub(self.len());
        of_all.min(self.shares.room_of(namespace, self.most, self.clock.now()))
    }

    fn has_place(&self, namespace: &str) -> bool {
        self.shares.in_flight(namespace) < self.most_each
    }

    /// Begins `work` on the key, with what else it needs.
    pub fn begin<C: Send + Sync + 'static>(
        &mut self,
        with: C,
        key: K,
        work: impl for<'a> FnOnce(&'a C, &'a K) -> BoxFuture<'a, T> + Send + 'static,
    ) {
        let namespace = (self.namespace)(&key).to_owned();
        if self.has_place(&namespace) {
            self.shares.began(&namespace);
        }
        self.tasks.spawn(async move {
            let result = isolated_task(&namespace, work(&with, &key)).await;
            (key, result)
        });
    }

    /// Waits for the next task to finish. Returns its key, with the result or the message of a
    /// panic; `None` if none is in flight. The task keeps its share until it [ends](Self::end).
    pub async fn finished(&mut self) -> Option<(K, Result<T, String>)> {
        // A task ends in an error only when the whole process ends.
        self.tasks.join_next().await?.ok()
    }

    /// Gives a share back, if there is one. A namespace has less of what may be in flight after
    /// something has failed. Returns true if that may concern all namespaces.
    pub fn end(&mut self, key: &K, has_failed: bool) -> bool {
        let namespace = (self.namespace)(key);
        let is_held = self.shares.in_flight(namespace) > 0;
        if is_held && !has_failed {
            self.shares.answered(namespace);
        }
        is_held && has_failed && self.shares.failed(namespace, self.clock.now())
    }

    /// Returns the number in flight of namespaces whose last one failed.
    pub fn suspects(&self) -> usize {
        self.shares.suspects(self.clock.now())
    }

    /// Returns true if the last one of a namespace failed, and not long ago.
    pub fn is_suspect(&self, namespace: &str) -> bool {
        self.shares.is_suspect(namespace, self.clock.now())
    }
}

impl<K: Send + Sync + 'static, T: Send + 'static> Writes<K, T> {
    /// Waits for the next write to finish, and ends it. Returns it with its outcome, and true if it
    /// failed and that may concern all namespaces; `None` if none is in flight. One that panics has
    /// failed.
    pub async fn next(&mut self) -> Option<(K, Result<T, WriteError>, bool)> {
        let (write, outcome) = self.finished().await?;
        let outcome = outcome.unwrap_or_else(|defect| Err(broken(&defect)));
        let has_failed = outcome.as_ref().is_err_and(is_unanswered);
        // What denies without an answer is a webhook, which may be that of this namespace.
        let is_denied = matches!(outcome, Err(WriteError::Denied(_)));
        let concerns_all = self.end(&write, has_failed) && !is_denied;
        Some((write, outcome, concerns_all))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use super::*;

    type Tested = Writes<&'static str, u8>;

    /// Begins a write of the namespace that takes a second, and panics where that is asked for.
    fn begin(writes: &mut Tested, namespace: &'static str, panics: bool) {
        writes.begin(panics, namespace, |panics, _| {
            Box::pin(async move {
                sleep(Duration::from_secs(1)).await;
                assert!(!panics, "index out of bounds");
                Ok(1)
            })
        });
    }

    /// Begins as many of the namespace as may be, and returns how many these are.
    fn fill(writes: &mut Tested, namespace: &'static str) -> usize {
        let before = writes.len();
        while writes
            .turn(|may_begin| may_begin(namespace).then_some(()))
            .is_some()
        {
            begin(writes, namespace, false);
        }
        writes.len() - before
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_costs_its_write_alone_and_counts_against_its_namespace() {
        let mut writes = Tested::new(8, |namespace| namespace);
        begin(&mut writes, "bad", true);
        begin(&mut writes, "good", false);
        let mut ended = Vec::new();
        while let Some((namespace, outcome, concerns_all)) = writes.next().await {
            ended.push((namespace, outcome, concerns_all));
        }
        ended.sort_by_key(|(namespace, ..)| *namespace);
        assert_eq!(ended[0], ("bad", Err(broken("index out of bounds")), true));
        assert_eq!(ended[1], ("good", Ok(1), false));
        assert!(writes.is_suspect("bad") && !writes.is_suspect("good"));
        assert_eq!((fill(&mut writes, "bad"), writes.suspects()), (1, 1));
        assert_eq!(fill(&mut writes, "good"), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_are_in_flight_than_may_be_and_what_ends_makes_room() {
        let mut writes = Tested::new(4, |namespace| namespace);
        assert_eq!((fill(&mut writes, "a"), fill(&mut writes, "b")), (3, 1));
        assert_eq!(fill(&mut writes, "c"), 0);
        let start = Instant::now();
        assert!(writes.next().await.is_some());
        assert_eq!(start.elapsed(), Duration::from_secs(1));
        assert_eq!((fill(&mut writes, "c"), writes.len()), (1, 4));
        while writes.next().await.is_some() {}
        writes.most = 1;
        assert_eq!(fill(&mut writes, "a"), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_takes_several_tasks_has_one_share_until_it_ends() {
        let mut rounds = Tested::one_each(8, |namespace| namespace);
        let other = |rounds: &Tested| rounds.turn(|may_begin| Some(may_begin("a")));
        for panics in [false, false, true] {
            begin(&mut rounds, "a", panics);
            let (namespace, result) = rounds.finished().await.unwrap();
            assert_eq!((namespace, result.is_err()), ("a", panics));
            assert_eq!((rounds.len(), other(&rounds)), (0, Some(false)));
        }
        rounds.end(&"a", true);
        assert_eq!((other(&rounds), rounds.is_suspect("a")), (Some(true), true));
        rounds.end(&"a", false);
        assert!(rounds.is_suspect("a"), "that was no task");
    }
}
