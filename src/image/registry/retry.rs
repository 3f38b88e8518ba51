//! Retries of requests after transient errors.

use std::future::Future;

use super::{LONGEST_WAIT, Registry};
use crate::registry_error::RegistryError;

impl Registry {
    pub(super) async fn again<T, F>(&self, request: impl Fn() -> F) -> Result<T, RegistryError>
    where
        F: Future<Output = Result<T, RegistryError>>,
    {
        let mut pauses = self.options.pauses.iter();
        loop {
            let error = match request().await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let asked = error.wait().unwrap_or_default();
            match pauses.next() {
                Some(pause) if error.problem().is_transient() && asked <= LONGEST_WAIT => {
                    let pause = asked.max(*pause);
                    (self.options.note)(&format!(
                        "{error}; trying again in {:.1} s",
                        pause.as_secs_f32()
                    ));
                    tokio::time::sleep(pause).await;
                }
                _ => return Err(error),
            }
        }
    }
}
