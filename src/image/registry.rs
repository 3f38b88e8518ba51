//! The client of one registry: it reads and writes manifests and blobs, with timeouts, retries and
//! errors in words.
//!
//! It reads by requests of its own and writes by the registry library: the library reads without
//! bounds, follows redirects anywhere, and drops the header that says when to come back.

mod ask;
mod client;
mod hosts;
mod login;
mod options;
mod reach;
mod retry;

use std::future::Future;
use std::time::Duration;

use http::{HeaderValue, Method};
use oci_distribution::client::Client;
use oci_distribution::errors::OciDistributionError;

use self::client::{asker, client_config, for_client, registry_auth};
use super::build::{Blob, digest_of, media_type};
use super::docker_config::Credentials;
use super::registry_error::{Problem, RegistryError};
use ask::{Answer, Asker};
use login::Login;
pub use options::{Access, RegistryOptions, TIMEOUT};
pub use reach::{Judged, Lookup, Reach};
use swaplet_core::image::reference::ImageReference;

/// The longest wait that a registry is granted. The error reports a longer one, and the caller has
/// to come back.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The most requests that one call of the client library makes (a version probe, and the steps of
/// an upload).
const REQUESTS_PER_CALL: u32 = 6;

/// The types of manifest that are understood, or at least recognised.
const ACCEPTED: [&str; 4] = [
    media_type::INDEX,
    media_type::MANIFEST,
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];

/// Chooses the implementation of cryptography for TLS, once per process. Every connection needs it,
/// also those to the API server.
pub fn install_crypto() {
    // It fails only if a choice was made before, and then there is one.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A connection to the registry of one repository.
pub struct Registry {
    client: Client,
    asker: Asker,
    login: Login,
    options: RegistryOptions,
}

impl Registry {
    /// Logs in to the repository of `reference`, for the access that `options` name.
    ///
    /// # Errors
    /// [`RegistryError`] if the address is refused, the registry cannot be reached, or it does not
    /// accept the credentials.
    pub async fn connect(
        reference: &ImageReference,
        credentials: &Credentials,
        options: RegistryOptions,
    ) -> Result<Self, RegistryError> {
        install_crypto();
        let operation = format!("connecting to {}", reference.registry());
        let asker = asker(reference, &options, &operation)?;
        let client = Client::try_from(client_config(&asker.hosts, &options))
            .map_err(|error| RegistryError::from_client(&operation, options.timeout, &error))?;
        let mut registry = Self {
            client,
            asker,
            login: Login::Anonymous,
            options,
        };
        let login = || {
            Login::get(
                &registry.asker,
                &operation,
                reference.repository(),
                registry.options.access,
                credentials,
            )
        };
        registry.login = registry.again(login).await?;
        registry
            .client
            .store_auth_if_needed(
                &registry.asker.hosts.registry,
                &registry_auth(&registry.login),
            )
            .await;
        Ok(registry)
    }

    /// Returns the manifest or index under a reference, with its digest; `None` if there is none.
    ///
    /// # Errors
    /// [`RegistryError`], also for one that is larger than 4 MiB.
    pub async fn manifest(
        &self,
        reference: &ImageReference,
    ) -> Result<Option<(Vec<u8>, String)>, RegistryError> {
        let operation = format!("reading {reference}");
        let Some(answer) = self
            .read(&operation, Method::GET, &manifest_path(reference))
            .await?
        else {
            return Ok(None);
        };
        let digest = digest_of(&answer.body);
        check_digest(&operation, &digest, answer.digest())?;
        check_digest(&operation, &digest, reference.digest())?;
        Ok(Some((answer.body, digest)))
    }

    /// Returns the digest of what a reference names; `None` if there is nothing.
    ///
    /// # Errors
    /// [`RegistryError`] if the registry fails, or the digest is another one.
    pub async fn digest(
        &self,
        reference: &ImageReference,
    ) -> Result<Option<String>, RegistryError> {
        let operation = format!("reading the digest of {reference}");
        let Some(answer) = self
            .read(&operation, Method::HEAD, &manifest_path(reference))
            .await?
        else {
            return Ok(None);
        };
        match answer.digest() {
            Some(digest) => check_digest(&operation, digest, reference.digest())
                .map(|()| Some(digest.to_owned())),
            None => Ok(self.manifest(reference).await?.map(|(_, digest)| digest)),
        }
    }

    /// Returns a blob of the repository, checked against its digest; `None` if there is none.
    ///
    /// # Errors
    /// [`RegistryError`], also for a blob that is larger than 4 MiB.
    pub async fn blob(
        &self,
        reference: &ImageReference,
        digest: &str,
    ) -> Result<Option<Vec<u8>>, RegistryError> {
        let operation = format!("reading {digest} of {reference}");
        let Some(answer) = self
            .read(&operation, Method::GET, &blob_path(reference, digest))
            .await?
        else {
            return Ok(None);
        };
        check_digest(&operation, &digest_of(&answer.body), Some(digest))?;
        Ok(Some(answer.body))
    }

    /// Uploads a blob, unless the repository has it. Returns true if it was uploaded.
    ///
    /// # Errors
    /// [`RegistryError`] if the registry fails.
    pub async fn push_blob(
        &self,
        reference: &ImageReference,
        blob: &Blob,
    ) -> Result<bool, RegistryError> {
        let operation = format!("pushing {} to {reference}", blob.digest);
        if self
            .read(
                &operation,
                Method::HEAD,
                &blob_path(reference, &blob.digest),
            )
            .await?
            .is_some()
        {
            return Ok(false);
        }
        let target = &for_client(reference);
        self.write(&operation, || {
            self.client
                .push_blob(target, blob.bytes.clone(), &blob.digest)
        })
        .await?;
        Ok(true)
    }

    /// Writes a manifest or index under the tag of `reference` and checks that the registry then
    /// names the same digest.
    ///
    /// # Errors
    /// [`RegistryError`] if the registry fails, or names another digest.
    pub async fn push_manifest(
        &self,
        reference: &ImageReference,
        manifest: &Blob,
    ) -> Result<(), RegistryError> {
        let operation = format!("pushing {reference}");
        let content_type = HeaderValue::from_static(manifest.media_type);
        let target = &for_client(reference);
        self.write(&operation, || {
            self.client
                .push_manifest_raw(target, manifest.bytes.clone(), content_type.clone())
        })
        .await?;
        match self.digest(reference).await? {
            Some(digest) if digest == manifest.digest => Ok(()),
            other => Err(RegistryError::new(
                &operation,
                Problem::DigestMismatch,
                mismatch(&manifest.digest, other.as_deref()),
            )),
        }
    }

    /// Requests something of the repository, and retries while the registry is in trouble.
    async fn read(
        &self,
        operation: &str,
        method: Method,
        path: &str,
    ) -> Result<Option<Answer>, RegistryError> {
        let (url, accept, credentials) = (
            self.asker.hosts.url(path),
            ACCEPTED.join(", "),
            self.login.header(),
        );
        let ask = async || {
            let answer = self
                .asker
                .ask(
                    operation,
                    method.clone(),
                    &url,
                    &accept,
                    credentials.as_ref(),
                )
                .await?;
            answer.found(operation)
        };
        self.again(ask).await
    }

    /// Calls the client library, and retries while the registry is in trouble. The library drops
    /// the header with the time to wait, so another request reads it.
    async fn write<T, F>(
        &self,
        operation: &str,
        request: impl Fn() -> F,
    ) -> Result<T, RegistryError>
    where
        F: Future<Output = Result<T, OciDistributionError>>,
    {
        let call = async || match self.within_time(operation, request()).await {
            Err(error) if error.problem().is_transient() => {
                let base = self.asker.hosts.url("/v2/");
                let answer = self
                    .asker
                    .ask(
                        operation,
                        Method::GET,
                        &base,
                        "*/*",
                        self.login.header().as_ref(),
                    )
                    .await;
                Err(error.retry_after(
                    answer
                        .ok()
                        .filter(Answer::is_transient)
                        .and_then(|answer| answer.retry_after()),
                ))
            }
            done => done,
        };
        self.again(call).await
    }
}

fn manifest_path(reference: &ImageReference) -> String {
    let name = reference.digest().or(reference.tag()).unwrap_or_default();
    format!("/v2/{}/manifests/{name}", reference.repository())
}

fn blob_path(reference: &ImageReference, digest: &str) -> String {
    format!("/v2/{}/blobs/{digest}", reference.repository())
}

/// Checks a digest. Digests of two algorithms are not compared; images of ours have one.
fn check_digest(operation: &str, found: &str, expected: Option<&str>) -> Result<(), RegistryError> {
    let algorithm = |digest: &str| digest.split(':').next().map(str::to_owned);
    match expected {
        Some(expected) if expected != found && algorithm(expected) == algorithm(found) => {
            Err(RegistryError::new(
                operation,
                Problem::DigestMismatch,
                mismatch(expected, Some(found)),
            ))
        }
        _ => Ok(()),
    }
}

fn mismatch(ours: &str, theirs: Option<&str>) -> String {
    format!(
        "expected {ours}, the registry has {}",
        theirs.unwrap_or("nothing")
    )
}

#[cfg(test)]
mod tests;
