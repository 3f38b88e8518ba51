//! Credentials from a docker configuration file, and from nowhere else. Credential helpers are
//! programs; they are never executed, because everybody who can write the file decides what they
//! run.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::{env, fmt, fs};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use swaplet_core::image::reference::ImageReference;

/// The key under which `docker login` keeps the credentials of Docker Hub.
const DOCKER_HUB_KEY: &str = "index.docker.io";

/// The most bytes of a configuration file; a larger file is not one.
const MAX_FILE: u64 = 1024 * 1024;

/// The credentials to send to a registry.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// No credentials at all.
    Anonymous,
    /// None either; but a credential helper may have some, as this hint says.
    Unread(String),
    /// A user name and a password (or an access token used as one).
    Basic {
        /// The name of the user.
        user: String,
        /// The password or access token.
        password: String,
    },
    /// A bearer token, which is sent as it is.
    Token(String),
}

impl fmt::Debug for Credentials {
    /// Formats the kind of credentials, never a secret.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous => out.write_str("Anonymous"),
            Self::Unread(hint) => write!(out, "Unread({hint})"),
            Self::Basic { user, .. } => write!(out, "Basic({user}, ...)"),
            Self::Token(_) => out.write_str("Token(...)"),
        }
    }
}

/// The parts of a docker configuration file that name credentials.
#[derive(Default)]
pub struct DockerConfig {
    path: PathBuf,
    file: File,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct File {
    auths: BTreeMap<String, Entry>,
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
    registrytoken: String,
}

/// Why a configuration file cannot be used, as a message.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DockerConfigError(String);

impl DockerConfig {
    /// Reads `$DOCKER_CONFIG/config.json`, or `~/.docker/config.json`. A missing file means no
    /// credentials.
    ///
    /// # Errors
    /// [`DockerConfigError`] if the file exists and cannot be used.
    pub fn load() -> Result<Self, DockerConfigError> {
        let directory = env::var_os("DOCKER_CONFIG")
            .filter(|set| !set.is_empty())
            .map(PathBuf::from);
        let home = || env::var_os("HOME").map(|home| Path::new(&home).join(".docker"));
        match directory.or_else(home) {
            Some(directory) => Self::load_if_there(&directory.join("config.json")),
            None => Ok(Self::default()),
        }
    }

    /// Reads this file, which must exist because a user has named it.
    ///
    /// # Errors
    /// [`DockerConfigError`] if the file does not exist, or cannot be used.
    pub fn load_from(path: &Path) -> Result<Self, DockerConfigError> {
        let text = read(path).map_err(|error| unread(path, &error))?;
        Self::parse(path, &text)
    }

    fn load_if_there(path: &Path) -> Result<Self, DockerConfigError> {
        match read(path) {
            Ok(text) => Self::parse(path, &text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(unread(path, &error)),
        }
    }

    fn parse(path: &Path, text: &str) -> Result<Self, DockerConfigError> {
        // Only the place of the problem is reported: the message of the parser could quote a
        // secret.
        let file = serde_json::from_str(text).map_err(|error| {
            let problem = format!("line {}, column {}", error.line(), error.column());
            no_configuration(path, &problem)
        })?;
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    /// Returns the credentials for the registry and repository of a reference: those of the entry
    /// with the longest matching key. A key is a host, with or without scheme and `/v1/`, or a host
    /// and the start of a repository.
    ///
    /// # Errors
    /// [`DockerConfigError`] if the file names credentials that cannot be used.
    pub fn credentials(
        &self,
        reference: &ImageReference,
    ) -> Result<Credentials, DockerConfigError> {
        let registry = normalize(reference.registry());
        let mut helpers = self.file.cred_helpers.iter();
        if let Some((_, helper)) = helpers.find(|(key, _)| normalize(key) == registry) {
            return Err(self.behind_helper(&registry, helper));
        }
        let wanted = format!("{registry}/{}", reference.repository());
        let auths = self.file.auths.iter();
        let auths = auths.map(|(key, entry)| (normalize(key), entry));
        let covering = auths.filter(|(key, _)| covers(key, &wanted));
        match covering.max_by_key(|(key, _)| key.len()) {
            Some((_, entry)) => self.read_entry(&registry, entry),
            // No error: docker writes the store into files that it then uses for public images too.
            None => Ok(match &self.file.creds_store {
                Some(store) => {
                    Credentials::Unread(self.behind_helper(&registry, store).to_string())
                }
                None => Credentials::Anonymous,
            }),
        }
    }

    fn read_entry(&self, registry: &str, entry: &Entry) -> Result<Credentials, DockerConfigError> {
        if !entry.registrytoken.is_empty() {
            return Ok(Credentials::Token(entry.registrytoken.clone()));
        }
        if !entry.identitytoken.is_empty() {
            return Err(self.elsewhere(
                registry,
                "an identity token, which is not supported",
                "log in with a user name and a password or access token",
            ));
        }
        if !entry.auth.is_empty() {
            return self.decode(registry, &entry.auth);
        }
        if !entry.username.is_empty() {
            return Ok(Credentials::Basic {
                user: entry.username.clone(),
                password: entry.password.clone(),
            });
        }
        match &self.file.creds_store {
            // `docker login` leaves an empty entry where it gave the secret to a store.
            Some(store) => Err(self.behind_helper(registry, store)),
            None => Ok(Credentials::Anonymous),
        }
    }

    fn decode(&self, registry: &str, auth: &str) -> Result<Credentials, DockerConfigError> {
        let bytes = STANDARD.decode(auth.trim()).ok();
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        match text.as_deref().and_then(|text| text.split_once(':')) {
            Some((user, password)) => Ok(Credentials::Basic {
                user: user.to_owned(),
                password: password.trim_end_matches('\0').to_owned(),
            }),
            None => Err(no_configuration(
                &self.path,
                &format!("the auth of {registry} is not the base64 form of USER:PASSWORD"),
            )),
        }
    }

    fn behind_helper(&self, registry: &str, helper: &str) -> DockerConfigError {
        self.elsewhere(
            registry,
            &format!("kept by the credential helper {helper:?}, and swaplet does not execute helpers"),
            "write them into a separate file with `docker --config DIR login` where no credsStore is set, and set DOCKER_CONFIG=DIR",
        )
    }

    /// Returns the error that the credentials are behind a program or a protocol that is not used.
    fn elsewhere(&self, registry: &str, place: &str, fix: &str) -> DockerConfigError {
        let path = self.path.display();
        DockerConfigError(format!(
            "{path}: the credentials for {registry} are {place}; {fix}"
        ))
    }
}

/// Returns an error whose message never holds contents of the file.
fn no_configuration(path: &Path, problem: &str) -> DockerConfigError {
    let path = path.display();
    DockerConfigError(format!(
        "{path} is not a docker configuration file: {problem}"
    ))
}

fn unread(path: &Path, error: &io::Error) -> DockerConfigError {
    DockerConfigError(format!("cannot read {}: {error}", path.display()))
}

fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    // Of a pipe or a device the size is unknown before it was read.
    fs::File::open(path)?
        .take(MAX_FILE + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8 text"))
}

/// Normalizes a key or the name of a registry: `https://index.docker.io/v1/` becomes
/// `index.docker.io`.
fn normalize(key: &str) -> String {
    let key = key
        .strip_prefix("https://")
        .or_else(|| key.strip_prefix("http://"))
        .unwrap_or(key)
        .trim_end_matches('/');
    let key = key
        .strip_suffix("/v1")
        .or_else(|| key.strip_suffix("/v2"))
        .unwrap_or(key);
    match key {
        "docker.io" | "registry-1.docker.io" => DOCKER_HUB_KEY.to_owned(),
        key => key.to_owned(),
    }
}

/// Returns true if `key` is `wanted` or a directory above it.
fn covers(key: &str, wanted: &str) -> bool {
    wanted
        .strip_prefix(key)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(text: &str, reference: &str) -> Result<Credentials, DockerConfigError> {
        DockerConfig::parse(Path::new("config.json"), text)?
            .credentials(&ImageReference::parse(reference).unwrap())
    }

    fn basic(user: &str, password: &str) -> Credentials {
        Credentials::Basic {
            user: user.to_owned(),
            password: password.to_owned(),
        }
    }

    #[test]
    fn finds_the_entry_of_the_host() {
        let text = r#"{"auths": {"https://index.docker.io/v1/": {"auth": "aHViOnB3"}, "r.example:5000": {"username": "u", "password": "p:q"}}}"#;
        assert_eq!(find(text, "busybox").unwrap(), basic("hub", "pw"));
        assert_eq!(
            find(text, "r.example:5000/a/b:v1").unwrap(),
            basic("u", "p:q")
        );
        assert_eq!(find(text, "r.example/a").unwrap(), Credentials::Anonymous);
        assert_eq!(find("{}", "r.example/a").unwrap(), Credentials::Anonymous);
    }

    #[test]
    fn the_longest_key_wins_and_never_covers_half_a_name() {
        let text = r#"{"auths": {"r.example": {"username": "all"}, "r.example/team": {"username": "team"}}}"#;
        assert_eq!(
            find(text, "r.example/team/exit").unwrap(),
            basic("team", "")
        );
        assert_eq!(
            find(text, "r.example/teams/exit").unwrap(),
            basic("all", "")
        );
    }

    #[test]
    fn helpers_are_named_and_never_run() {
        let store = r#"{"auths": {"r.example": {}}, "credsStore": "desktop"}"#;
        let helper = r#"{"credHelpers": {"r.example": "ecr-login"}}"#;
        for (text, name) in [(store, "desktop"), (helper, "ecr-login")] {
            let error = find(text, "r.example/a").unwrap_err().to_string();
            assert!(
                error.contains(name) && error.contains("DOCKER_CONFIG"),
                "{error}"
            );
        }
        let unread = find(store, "other.example/a").unwrap();
        assert!(matches!(unread, Credentials::Unread(hint) if hint.contains("desktop")));
        assert_eq!(
            find(helper, "other.example/a").unwrap(),
            Credentials::Anonymous
        );
    }

    #[test]
    fn errors_hold_no_secrets() {
        for text in [
            r#"{"auths": {"r.example": {"auth": "c2VjcmV0"}}}"#,
            r#"{"auths": {"r.example": {"auth": "!secret"}}}"#,
            r#"{"auths": "secret"}"#,
        ] {
            let error = find(text, "r.example/a").unwrap_err();
            assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
        }
        assert_eq!(format!("{:?}", basic("u", "secret")), "Basic(u, ...)");
    }

    #[test]
    fn a_device_without_an_end_is_too_large() {
        let error = DockerConfig::load_from(Path::new("/dev/zero")).err();
        let error = error.unwrap().to_string();
        assert!(error.contains("larger than 1 MiB"), "{error}");
    }

    #[test]
    fn a_missing_file_means_no_credentials_unless_it_was_named() {
        let missing = Path::new("/nonexistent/config.json");
        let config = DockerConfig::load_if_there(missing).unwrap();
        assert_eq!(
            config
                .credentials(&ImageReference::parse("a").unwrap())
                .unwrap(),
            Credentials::Anonymous
        );
        let error = DockerConfig::load_from(missing).err().unwrap().to_string();
        assert!(error.contains("/nonexistent/config.json"), "{error}");
    }
}
