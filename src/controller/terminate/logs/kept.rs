//! The pods whose logs were read and whose end is not reported yet. No namespace takes the places
//! of the others: a pod whose sidecar was ended may live on for long.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::Instant;

/// The maximum number of pods.
pub(super) const MOST_PODS: usize = 512;
/// The time after which the logs of a pod may be dropped: it was deleted, or others ended it.
pub(super) const FORGOTTEN: Duration = Duration::from_secs(600);

/// What is kept of each pod, by its uid.
pub(super) struct Kept<T>(HashMap<Box<str>, Place<T>>);

struct Place<T> {
    namespace: Box<str>,
    begun: Instant,
    of: T,
}

/// The answer to a pod that needs a place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Room<T> {
    /// There is one, or the pod has it.
    Free,
    /// It is that of a pod of the namespace that had most, of which this was kept.
    Instead(T),
    /// No namespace has more places than that of the pod.
    None,
}

impl<T: Default> Kept<T> {
    pub(super) fn new() -> Self {
        Self(HashMap::new())
    }

    /// Makes room for a pod.
    pub(super) fn make_room(&mut self, uid: &str, namespace: &str) -> Room<T> {
        if self.0.len() < MOST_PODS || self.0.contains_key(uid) {
            return Room::Free;
        }
        self.0.retain(|_, place| place.begun.elapsed() < FORGOTTEN);
        if self.0.len() < MOST_PODS {
            return Room::Free;
        }
        self.last_of_the_largest(namespace)
            .and_then(|uid| self.0.remove(&uid))
            .map_or(Room::None, |place| Room::Instead(place.of))
    }

    /// Returns the uid of the last pod of the namespace that has most places, if that has more than
    /// this one.
    fn last_of_the_largest(&self, namespace: &str) -> Option<Box<str>> {
        let mut counts = BTreeMap::<&str, usize>::new();
        for place in self.0.values() {
            *counts.entry(&*place.namespace).or_default() += 1;
        }
        let own = counts.get(namespace).copied().unwrap_or_default();
        let (largest, _) = counts
            .into_iter()
            .max_by_key(|(_, count)| *count)
            .filter(|(_, count)| *count > own)?;
        let places = self.0.iter();
        places
            .filter(|(_, place)| *place.namespace == *largest)
            .max_by_key(|(_, place)| place.begun)
            .map(|(uid, _)| uid.clone())
    }

    /// Returns what is kept of a pod, for which there is room.
    pub(super) fn of(&mut self, uid: &str, namespace: &str) -> &mut T {
        let place = self.0.entry(uid.into()).or_insert_with(|| Place {
            namespace: namespace.into(),
            begun: Instant::now(),
            of: T::default(),
        });
        &mut place.of
    }

    /// Returns what is kept of a pod, and forgets it.
    pub(super) fn take(&mut self, uid: &str) -> Option<T> {
        self.0.remove(uid).map(|place| place.of)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn keep(kept: &mut Kept<usize>, namespace: &str, pod: usize) -> Room<usize> {
        let uid = format!("{namespace}-{pod}");
        let room = kept.make_room(&uid, namespace);
        if room != Room::None {
            *kept.of(&uid, namespace) = pod;
        }
        room
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_with_many_pods_that_do_not_end_takes_no_place_of_others() {
        let mut kept = Kept::new();
        for pod in 0..MOST_PODS {
            assert_eq!(keep(&mut kept, "loud", pod), Room::Free);
            advance(Duration::from_millis(1)).await;
        }
        assert_eq!(keep(&mut kept, "loud", MOST_PODS), Room::None);
        assert_eq!(keep(&mut kept, "loud", 0), Room::Free, "it has its place");
        for pod in 0..MOST_PODS / 2 {
            let last = MOST_PODS - 1 - pod;
            assert_eq!(keep(&mut kept, "quiet", pod), Room::Instead(last));
            advance(Duration::from_millis(1)).await;
        }
        assert_eq!(keep(&mut kept, "quiet", MOST_PODS), Room::None);
        assert_eq!(
            keep(&mut kept, "other", 0),
            Room::Instead(MOST_PODS / 2 - 1)
        );
        assert_eq!((kept.take("loud-0"), kept.take("loud-0")), (Some(0), None));
        assert_eq!(keep(&mut kept, "loud", 1000), Room::Free);

        advance(FORGOTTEN).await;
        assert_eq!(keep(&mut kept, "loud", 2000), Room::Free);
        assert_eq!(kept.0.len(), 1);
    }
}
