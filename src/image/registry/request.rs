//! Requests with the login, which is renewed when its token has expired.

use std::sync::{MutexGuard, PoisonError};

use http::Method;

use super::ask::{Answer, Content};
use super::login::Login;
use super::{ACCEPTED, Registry};
use crate::registry_error::RegistryError;

/// A request to the registry.
pub(super) struct Request<'a> {
    pub method: Method,
    pub url: &'a str,
    /// What is stored; `None` for a request that reads.
    pub content: Option<Content<'a>>,
}

impl Registry {
    /// Sends a request with the login. If it is refused (401) with a token that the registry has
    /// issued, which may be valid for a minute only, it is sent once more with another one.
    pub(super) async fn request(
        &self,
        operation: &str,
        request: &Request<'_>,
    ) -> Result<Answer, RegistryError> {
        let login = self.login().clone();
        let answer = self.send(operation, request, &login).await?;
        if !answer.is_unauthorized() {
            return Ok(answer);
        }
        let renewed = login.renewed(&self.asker, operation, &self.credentials);
        let Some(renewed) = renewed.await? else {
            return Ok(answer);
        };
        self.keep(renewed.clone());
        self.send(operation, request, &renewed).await
    }

    /// Sends a request with this login, once.
    pub(super) async fn send(
        &self,
        operation: &str,
        request: &Request<'_>,
        login: &Login,
    ) -> Result<Answer, RegistryError> {
        let (method, url, login) = (request.method.clone(), request.url, login.header());
        match &request.content {
            Some(content) => {
                self.asker
                    .send(operation, method, url, content, login.as_ref())
                    .await
            }
            None => {
                let accept = ACCEPTED.join(", ");
                self.asker
                    .ask(operation, method, url, &accept, login.as_ref())
                    .await
            }
        }
    }

    /// Keeps a login for the next requests.
    pub(super) fn keep(&self, login: Login) {
        *self.login() = login;
    }

    fn login(&self) -> MutexGuard<'_, Login> {
        self.login.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
