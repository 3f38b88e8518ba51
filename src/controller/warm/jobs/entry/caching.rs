//! The image cache of a job, for nodes whose provider has image caches.

use swaplet_core::objects::moment::Moment;
use swaplet_core::warm::image_cache::object::NewImageCache;
use swaplet_core::warm::image_cache::{CacheState, patience, wanted};

use super::Entry;
use crate::warm::jobs::caches::Caches;

impl Entry {
    /// Updates the state of the job's cache. Returns the cache if it is to be created, which is
    /// never the case for a job without an object, because it has no status.
    pub fn cache(&mut self, caches: &mut Caches, now: Moment) -> Option<NewImageCache> {
        let may_begin = self.has_object && self.may_begin();
        let run = self
            .run
            .as_mut()
            .filter(|run| !run.cached.nodes.is_empty() && !run.gave_up)?;
        let cache = match wanted(&self.job, &run.spec, &caches.options) {
            Ok(cache) => cache,
            Err(state) => {
                self.has_news |= state != run.cached.state;
                run.cached.state = state;
                return None;
            }
        };
        let (name, since) = run
            .cache_since
            .take()
            .filter(|(name, _)| *name == cache.name)
            .unwrap_or_else(|| (cache.name.clone(), now));
        run.cache_since = Some((name, since));
        let limit = patience(&run.spec).filter(|limit| now >= since + *limit);
        let state = match (caches.state(&cache, now), limit) {
            (CacheState::Waits(why), Some(limit)) => {
                CacheState::Failed(format!("not Ready within {} s: {why}", limit.as_secs()))
            }
            (state, _) => state,
        };
        self.has_news |= state != run.cached.state;
        run.cached.state = state;
        // Checked last, because it counts the cache as in flight.
        (may_begin && limit.is_none() && caches.is_to_be_made(&cache, now)).then_some(cache)
    }
}
