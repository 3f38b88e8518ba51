//! The client of one registry: it reads and writes manifests and blobs, with timeouts, retries and
//! errors in words.
//!
//! Its requests are its own: registry libraries read without bounds, follow redirects and uploads
//! anywhere, and drop the header that says when to come back.

mod ask;
mod digests;
mod hosts;
mod login;
mod options;
mod public;
mod request;
mod retry;

use std::sync::Mutex;
use std::time::Duration;

use http::Method;
use reqwest::Url;

use super::build::{Blob, digest_of, media_type};
use super::docker_config::Credentials;
use super::registry_error::{Problem, RegistryError};
use ask::{Answer, Asker, Content};
use digests::{are_comparable, check_bytes, is_known, mismatch};
use hosts::Hosts;
use login::Login;
pub use options::{Access, RegistryOptions, TIMEOUT};
pub use public::is_public;
use request::Request;
use swaplet_core::image::reference::ImageReference;

/// The longest wait that a registry is granted. The error reports a longer one, and the caller has
/// to come back.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The media type of blobs on their way.
const OCTETS: &str = "application/octet-stream";

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
    asker: Asker,
    /// The present login, and the credentials to renew it.
    login: Mutex<Login>,
    credentials: Credentials,
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
        let registry = Self {
            asker,
            login: Mutex::new(Login::Anonymous),
            credentials: credentials.clone(),
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
        let login = registry.again(login).await?;
        registry.keep(login);
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
        let reported = answer.digest().filter(|digest| is_known(digest));
        for expected in reported.into_iter().chain(reference.digest()) {
            check_bytes(&operation, &answer.body, expected)?;
        }
        let digest = digest_of(&answer.body);
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
        match (answer.digest(), reference.digest()) {
            (Some(found), Some(expected)) if found == expected => Ok(Some(found.to_owned())),
            (Some(found), Some(expected)) if are_comparable(found, expected) => {
                Err(mismatch(&operation, expected, Some(found)))
            }
            (Some(found), None) => Ok(Some(found.to_owned())),
            // Only the bytes show it.
            _ => Ok(self.manifest(reference).await?.map(|(_, digest)| digest)),
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
        check_bytes(&operation, &answer.body, digest)?;
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
        let upload = async || self.upload(&operation, reference, blob).await;
        self.again(upload).await?;
        Ok(true)
    }

    /// Uploads a blob by two requests (`POST`, then `PUT`, in the specification of the OCI): the
    /// registry names the address of the second.
    async fn upload(
        &self,
        operation: &str,
        reference: &ImageReference,
        blob: &Blob,
    ) -> Result<(), RegistryError> {
        let start = self.asker.hosts.url(&uploads_path(reference));
        let begin = Request {
            method: Method::POST,
            url: &start,
            content: Some(octets(&[])),
        };
        let begun = self.request(operation, &begin).await?.granted(operation)?;
        let mut address = self.upload_address(operation, &begun)?;
        // Storage elsewhere has an address that is signed, and must not learn the password.
        let is_own = Url::parse(&start).is_ok_and(|start| start.origin() == address.origin());
        address
            .query_pairs_mut()
            .append_pair("digest", &blob.digest);
        let put = Request {
            method: Method::PUT,
            url: address.as_str(),
            content: Some(octets(&blob.bytes)),
        };
        let stored = if is_own {
            self.request(operation, &put).await?
        } else {
            self.send(operation, &put, &Login::Anonymous).await?
        };
        stored.granted(operation).map(drop)
    }

    /// Returns the address to which an upload goes, which is trusted as little as a redirect.
    fn upload_address(&self, operation: &str, begun: &Answer) -> Result<Url, RegistryError> {
        let absent = "it returned no valid address for the upload";
        let address = begun
            .location()
            .ok_or_else(|| RegistryError::new(operation, Problem::Rejected, absent))?;
        let refuse = |why: String| RegistryError::new(operation, Problem::Refused, why);
        self.asker.hosts.check(&address).map_err(refuse)?;
        Ok(address)
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
        let url = self.asker.hosts.url(&manifest_path(reference));
        let request = Request {
            method: Method::PUT,
            url: &url,
            content: Some(Content {
                media_type: manifest.media_type,
                bytes: &manifest.bytes,
            }),
        };
        let put = async || {
            self.request(&operation, &request)
                .await?
                .granted(&operation)
        };
        self.again(put).await?;
        match self.digest(reference).await? {
            Some(digest) if digest == manifest.digest => Ok(()),
            other => Err(mismatch(&operation, &manifest.digest, other.as_deref())),
        }
    }

    /// Requests something of the repository, and retries while the registry is in trouble.
    async fn read(
        &self,
        operation: &str,
        method: Method,
        path: &str,
    ) -> Result<Option<Answer>, RegistryError> {
        let url = self.asker.hosts.url(path);
        let request = Request {
            method,
            url: &url,
            content: None,
        };
        let ask = async || self.request(operation, &request).await?.found(operation);
        self.again(ask).await
    }
}

/// Returns the sender of requests to the registry of an image.
fn asker(
    reference: &ImageReference,
    options: &RegistryOptions,
    operation: &str,
) -> Result<Asker, RegistryError> {
    let hosts = Hosts {
        plain_http: options.plain_http.clone(),
        registry: host_of(reference).to_owned(),
    };
    if hosts.address().is_none() {
        let why = format!("{} is not a host", hosts.registry);
        return Err(RegistryError::new(operation, Problem::Refused, why));
    }
    Asker::new(hosts, options.timeout)
        .map_err(|error| RegistryError::from_http(operation, options.timeout, &error))
}

/// Returns the host that has the images of a registry: that of Docker Hub is not named like it.
fn host_of(reference: &ImageReference) -> &str {
    match reference.registry() {
        "docker.io" => "index.docker.io",
        registry => registry,
    }
}

fn octets(bytes: &[u8]) -> Content<'_> {
    Content {
        media_type: OCTETS,
        bytes,
    }
}

fn manifest_path(reference: &ImageReference) -> String {
    let name = reference.digest().or(reference.tag()).unwrap_or_default();
    format!("/v2/{}/manifests/{name}", reference.repository())
}

fn uploads_path(reference: &ImageReference) -> String {
    format!("/v2/{}/blobs/uploads/", reference.repository())
}

fn blob_path(reference: &ImageReference, digest: &str) -> String {
    format!("/v2/{}/blobs/{digest}", reference.repository())
}

#[cfg(test)]
mod tests;
