//! The bound of reports about containers that stay parked. Pods and requests of a tenant decide what
//! is said, and the tenant may change them as often as they like.

use std::collections::BTreeMap;
use std::time::Duration;

use swaplet_core::objects::moment::Moment;

/// The maximum number of reports about the pods of a namespace in one period.
const MOST: usize = 64;
/// The length of a period.
const PERIOD: Duration = Duration::from_secs(600);

/// The periods in which namespaces have reports.
#[derive(Default)]
pub(super) struct Told(BTreeMap<Box<str>, Period>);

struct Period {
    end: Moment,
    left: usize,
}

impl Told {
    /// Takes the room of one report about a pod of this namespace.
    ///
    /// # Errors
    /// The time when there is room again.
    pub(super) fn take(&mut self, namespace: &str, now: Moment) -> Result<(), Moment> {
        self.0.retain(|_, period| now < period.end);
        let period = self.0.entry(namespace.into()).or_insert(Period {
            end: now + PERIOD,
            left: MOST,
        });
        if period.left == 0 {
            return Err(period.end);
        }
        period.left -= 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_with_very_many_leaves_room_to_others_and_nothing_behind() {
        let (mut told, now) = (Told::default(), Moment::START);
        let loud = (0..1000).filter(|_| told.take("loud", now).is_ok());
        assert_eq!(loud.count(), MOST);
        assert_eq!(told.take("loud", now), Err(now + PERIOD));
        assert_eq!(told.take("quiet", now), Ok(()));
        assert_eq!(told.take("loud", now + PERIOD), Ok(()));
        assert_eq!(told.0.len(), 1);
    }
}
