//! Retries of requests after transient errors, and the time limit of a call of the client library.

use std::future::Future;

use oci_distribution::errors::OciDistributionError;

use super::{LONGEST_WAIT, REQUESTS_PER_CALL, Registry};
use crate::registry_error::{Problem, RegistryError};

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

    pub(super) async fn within_time<T>(
        &self,
        operation: &str,
        request: impl Future<Output = Result<T, OciDistributionError>>,
    ) -> Result<T, RegistryError> {
        let limit = self.options.timeout;
        match tokio::time::timeout(limit * REQUESTS_PER_CALL, request).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(RegistryError::from_client(operation, limit, &error)),
            Err(_) => Err(RegistryError::new(operation, Problem::Timeout(limit), "")),
        }
    }
}
