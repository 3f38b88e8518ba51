//! What the API server takes: guarded patches that change an image, and nothing else beside them.

use std::time::Duration;

use anyhow::Result;

use super::Session;
use crate::cluster::api::Request;
use crate::cluster::driver;
use crate::cluster::objects::{self, EXIT, SIDECAR};
use crate::cluster::server::User;
use crate::metrics::{CEILING, Unit};

impl Session<'_> {
    /// Measures each number of clients; tells the best one. The images go there and back, so every
    /// patch changes something.
    ///
    /// # Errors
    /// Where the API server refuses a patch.
    pub async fn ceiling(&mut self) -> Result<usize> {
        let endpoint = self.cluster.endpoint(User::Bare, "bare")?;
        self.results.pod_bytes = pod_bytes(self).await?;
        let pods = self.burst.clone();
        let mut changed = vec![false; pods.uids.len()];
        let mut next = 0;
        let mut best = (0, 0.0);
        for clients in self.options.clients.clone() {
            let request = || {
                let number = next % changed.len();
                next += 1;
                let (from, to) = if changed[number] {
                    (EXIT, SIDECAR)
                } else {
                    (SIDECAR, EXIT)
                };
                changed[number] = !changed[number];
                objects::swap(&pods.set, number, &pods.uids[number], from, to)
            };
            let time = Duration::from_secs(self.options.seconds);
            let rate = driver::rate_of(&endpoint, clients, time, request).await?;
            self.record(format!("ceiling: {clients} clients"), Unit::PerSecond, rate);
            if rate > best.1 {
                best = (clients, rate);
            }
        }
        self.record(CEILING, Unit::PerSecond, best.1);
        Ok(best.0)
    }
}

async fn pod_bytes(session: &Session<'_>) -> Result<usize> {
    let request = Request::get(objects::path(&session.burst.set, 0));
    let (_, body) = session.node()?.connect().await?.send(&request).await?;
    Ok(body.len())
}
