//! One registry: reading and writing manifests and blobs, with timeouts, retries and errors in words.

use std::future::Future;
use std::net::Ipv4Addr;
use std::time::Duration;

use futures::TryStreamExt;
use http::HeaderValue;
use oci_distribution::RegistryOperation;
use oci_distribution::client::{Client, ClientConfig, ClientProtocol, LayerDescriptor};
use oci_distribution::errors::OciDistributionError;
use oci_distribution::secrets::RegistryAuth;

use super::build::{Blob, media_type};
use super::docker_config::Credentials;
use super::reference::ImageReference;
use super::registry_error::{Problem, RegistryError};

/// How long one request may take: a registry that needs longer for a few kilobytes is not there.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// The waits before the second, third and fourth try: together under four seconds, so that a person at a terminal does not give up first.
const PAUSES: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];

/// One call of the client library makes up to this many requests (a version probe, a token, and the steps of an upload).
const REQUESTS_PER_CALL: u32 = 6;

/// The largest blob that is ever read: only configurations are.
const MAX_BLOB: usize = 4 * 1024 * 1024;

/// The types of manifest that are understood, or at least told apart.
const ACCEPTED: [&str; 4] = [
    media_type::INDEX,
    media_type::MANIFEST,
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];

/// Chooses the implementation of cryptography for TLS, once per process. Every connection needs it, also those to the API server.
pub fn install_crypto() {
    // It fails only if a choice was made before, and then there is one.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// How to talk to registries.
#[derive(Debug, Clone)]
pub struct RegistryOptions {
    /// Hosts, with or without port, that are spoken to without TLS. Loopback addresses need not be listed.
    pub plain_http: Vec<String>,
    /// How long one request may take.
    pub timeout: Duration,
    /// The waits between tries of a request that failed with 429 or 5xx; their number is the number of further tries.
    pub pauses: Vec<Duration>,
    /// Told about each retry.
    pub note: fn(&str),
}

impl Default for RegistryOptions {
    fn default() -> Self {
        Self { plain_http: Vec::new(), timeout: TIMEOUT, pauses: PAUSES.to_vec(), note: |text| tracing::warn!("{text}") }
    }
}

/// A connection to the registry of one repository.
pub struct Registry {
    client: Client,
    auth: RegistryAuth,
    options: RegistryOptions,
}

impl Registry {
    /// Logs in for reading and writing the repository of `reference`.
    ///
    /// # Errors
    /// [`RegistryError`] if the address is refused, the registry cannot be reached, or it does not accept the credentials.
    pub async fn connect(reference: &ImageReference, credentials: &Credentials, options: RegistryOptions) -> Result<Self, RegistryError> {
        install_crypto();
        let operation = format!("connecting to {}", reference.registry());
        refuse_address(reference.registry(), &options.plain_http).map_err(|why| RegistryError::new(&operation, Problem::Refused, why))?;
        let client = Client::try_from(client_config(reference, &options))
            .map_err(|error| RegistryError::from_client(&operation, options.timeout, &error))?;
        let registry = Self { client, auth: registry_auth(credentials), options };
        let (target, auth) = (reference.as_client_reference(), &registry.auth);
        registry.call(&operation, || registry.client.auth(target, auth, RegistryOperation::Push)).await?;
        Ok(registry)
    }

    /// The manifest or index under a reference, with its digest; `None` if there is none. The client library reads it whole; only the timeout
    /// bounds how much that is.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn manifest(&self, reference: &ImageReference) -> Result<Option<(Vec<u8>, String)>, RegistryError> {
        let operation = format!("reading {reference}");
        let read = || self.client.pull_manifest_raw(reference.as_client_reference(), &self.auth, &ACCEPTED);
        let found = absent_is_none(self.call(&operation, read).await)?;
        Ok(found.map(|(bytes, digest)| (bytes.to_vec(), digest)))
    }

    /// The digest of what a reference names; `None` if there is nothing.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn digest(&self, reference: &ImageReference) -> Result<Option<String>, RegistryError> {
        let operation = format!("reading the digest of {reference}");
        let read = || self.client.fetch_manifest_digest(reference.as_client_reference(), &self.auth);
        absent_is_none(self.call(&operation, read).await)
    }

    /// A blob of the repository, checked against its digest; `None` if there is none.
    ///
    /// # Errors
    /// [`RegistryError`], also for a blob that is larger than 4 MiB.
    pub async fn blob(&self, reference: &ImageReference, digest: &str) -> Result<Option<Vec<u8>>, RegistryError> {
        let operation = format!("reading {digest} of {reference}");
        let read = || self.read_blob(reference, digest);
        let bytes = absent_is_none(self.call(&operation, read).await)?;
        match bytes {
            Some(bytes) if bytes.len() > MAX_BLOB => Err(RegistryError::new(&operation, Problem::TooLarge, "")),
            bytes => Ok(bytes),
        }
    }

    /// Uploads a blob, unless the repository has it. Says whether it was uploaded.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn push_blob(&self, reference: &ImageReference, blob: &Blob) -> Result<bool, RegistryError> {
        let operation = format!("pushing {} to {reference}", blob.digest);
        let target = reference.as_client_reference();
        if self.call(&operation, || self.client.blob_exists(target, &blob.digest)).await? {
            return Ok(false);
        }
        self.call(&operation, || self.client.push_blob(target, blob.bytes.clone(), &blob.digest)).await?;
        Ok(true)
    }

    /// Writes a manifest or index under the tag of `reference` and checks that the registry then names the same digest.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn push_manifest(&self, reference: &ImageReference, manifest: &Blob) -> Result<(), RegistryError> {
        let operation = format!("pushing {reference}");
        let content_type = HeaderValue::from_static(manifest.media_type);
        let target = reference.as_client_reference();
        self.call(&operation, || self.client.push_manifest_raw(target, manifest.bytes.clone(), content_type.clone())).await?;
        match self.digest(reference).await? {
            Some(digest) if digest == manifest.digest => Ok(()),
            other => Err(RegistryError::new(&operation, Problem::DigestMismatch, mismatch(&manifest.digest, other))),
        }
    }

    async fn read_blob(&self, reference: &ImageReference, digest: &str) -> Result<Vec<u8>, OciDistributionError> {
        let blob = LayerDescriptor { digest, urls: &None };
        let mut stream = self.client.pull_blob_stream(reference.as_client_reference(), &blob).await?;
        let mut bytes = Vec::new();
        // One chunk more than allowed is enough to see that it is too large.
        while bytes.len() <= MAX_BLOB {
            match stream.try_next().await? {
                Some(chunk) => bytes.extend_from_slice(&chunk),
                None => break,
            }
        }
        Ok(bytes)
    }

    /// Calls the client library, within time, again while the registry is in trouble.
    async fn call<T, F>(&self, operation: &str, request: impl Fn() -> F) -> Result<T, RegistryError>
    where
        F: Future<Output = Result<T, OciDistributionError>>,
    {
        let mut pauses = self.options.pauses.iter();
        loop {
            let error = match self.within_time(operation, request()).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            match pauses.next() {
                Some(pause) if error.problem().is_transient() => {
                    (self.options.note)(&format!("{error}; trying again in {:.1} s", pause.as_secs_f32()));
                    tokio::time::sleep(*pause).await;
                }
                _ => return Err(error),
            }
        }
    }

    async fn within_time<T>(
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

fn client_config(reference: &ImageReference, options: &RegistryOptions) -> ClientConfig {
    let host = reference.registry();
    let plain = is_loopback(host) || is_listed(host, &options.plain_http);
    ClientConfig {
        protocol: if plain { ClientProtocol::HttpsExcept(vec![host.to_owned()]) } else { ClientProtocol::Https },
        read_timeout: Some(options.timeout),
        connect_timeout: Some(options.timeout),
        user_agent: concat!("swaplet/", env!("CARGO_PKG_VERSION")),
        platform_resolver: None,
        ..ClientConfig::default()
    }
}

fn registry_auth(credentials: &Credentials) -> RegistryAuth {
    match credentials {
        Credentials::Anonymous => RegistryAuth::Anonymous,
        Credentials::Basic { user, password } => RegistryAuth::Basic(user.clone(), password.clone()),
        Credentials::Token(token) => RegistryAuth::Bearer(token.clone()),
    }
}

fn absent_is_none<T>(result: Result<T, RegistryError>) -> Result<Option<T>, RegistryError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.problem() == Problem::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn mismatch(ours: &str, theirs: Option<String>) -> String {
    format!("ours is {ours}, the registry says {}", theirs.as_deref().unwrap_or("that there is nothing"))
}

fn without_port(host: &str) -> &str {
    host.split_once(':').map_or(host, |(name, _)| name)
}

fn is_loopback(host: &str) -> bool {
    let name = without_port(host);
    name == "localhost" || name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

fn is_listed(host: &str, listed: &[String]) -> bool {
    listed.iter().any(|entry| entry == host || entry == without_port(host))
}

/// Link-local addresses are where clouds answer with the credentials of the machine; nobody keeps a registry there by intention.
fn refuse_address(host: &str, allowed: &[String]) -> Result<(), &'static str> {
    let link_local = without_port(host).parse::<Ipv4Addr>().is_ok_and(|address| address.is_link_local());
    if link_local && !is_listed(host, allowed) {
        return Err("it is a link-local address; allow it with --plain-http HOST if a registry is really there");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheme_is_plain(host: &str, listed: &[&str]) -> bool {
        let options = RegistryOptions { plain_http: listed.iter().map(|host| (*host).to_owned()).collect(), ..RegistryOptions::default() };
        let reference = ImageReference::parse(&format!("{host}/a:v1")).unwrap();
        matches!(client_config(&reference, &options).protocol, ClientProtocol::HttpsExcept(_))
    }

    #[test]
    fn plain_http_only_for_loopback_and_listed_hosts() {
        assert!(scheme_is_plain("127.0.0.1:5000", &[]));
        assert!(scheme_is_plain("localhost:5000", &[]));
        assert!(scheme_is_plain("r.example:5000", &["r.example"]));
        assert!(scheme_is_plain("r.example:5000", &["r.example:5000"]));
        assert!(!scheme_is_plain("r.example:5001", &["r.example:5000"]));
        assert!(!scheme_is_plain("r.example", &[]));
        assert!(!scheme_is_plain("localhost.example:5000", &[]));
    }

    #[test]
    fn link_local_addresses_are_refused_unless_listed() {
        assert!(refuse_address("169.254.169.254", &[]).is_err());
        assert!(refuse_address("169.254.1.1:5000", &["169.254.1.1".to_owned()]).is_ok());
        assert!(refuse_address("10.0.0.1:5000", &[]).is_ok());
    }
}
