//! The login to a registry, which names its way of authentication itself (`WWW-Authenticate`), and
//! where it issues tokens.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use http_auth::parser::ChallengeParser;
use reqwest::Url;

use super::ask::{Answer, Asker, Request};
use super::{Access, Registry, json_in};
use crate::docker_config::Credentials;
use crate::registry_error::{Problem, RegistryError};

/// The longest answer with a token: registries give a few kilobytes, and web servers take no longer
/// headers. A token is kept, and sent with each request.
const MAX_TOKEN: usize = 64 * 1024;

/// The authorisation of requests.
#[derive(Clone)]
pub(super) enum Login {
    /// Credentials of the docker configuration, or none at all.
    Own(Credentials),
    /// A bearer token that was issued at this address.
    Issued { token: String, place: Url },
}

/// The authentication that a registry requires.
enum Challenge {
    None,
    Basic,
    Bearer {
        realm: String,
        service: Option<String>,
    },
}

impl Login {
    /// Reads which authentication the registry requires, from an answer that requires one, or else
    /// from its own address; gets a token if it requires one.
    pub(super) async fn get(
        registry: &Registry,
        operation: &str,
        refusal: Option<&Answer>,
    ) -> Result<Self, RegistryError> {
        let (asker, credentials) = (&registry.asker, &registry.credentials);
        if let Credentials::Token(token) = credentials {
            valid(operation, token.clone())?;
            return Ok(Self::Own(credentials.clone()));
        }
        let url = asker.hosts.url("/v2/");
        let asked = match refusal {
            Some(_) => None,
            None => Some(
                asker
                    .send(operation, &Request::get(&url), "*/*", None)
                    .await?,
            ),
        };
        if let Some(answer) = asked.as_ref().filter(|answer| answer.is_transient()) {
            return Err(answer.error(operation));
        }
        let challenge = refusal
            .or(asked.as_ref())
            .map_or(Challenge::None, challenge);
        match (challenge, credentials) {
            (Challenge::Bearer { realm, service }, _) => {
                let mut url = token_url(asker, operation, &realm)?;
                url.query_pairs_mut()
                    .extend_pairs(service.map(|service| ("service", service)))
                    .append_pair(
                        "scope",
                        &scope(&registry.repository, registry.options.access),
                    );
                fetch(asker, operation, url, credentials).await
            }
            (Challenge::Basic, _) => Ok(Self::Own(credentials.clone())),
            _ => Ok(Self::Own(Credentials::Anonymous)),
        }
    }

    /// Gets another token where this one was issued, and nowhere else; `None` if it was not issued.
    pub(super) async fn renewed(
        &self,
        asker: &Asker,
        operation: &str,
        credentials: &Credentials,
    ) -> Result<Option<Self>, RegistryError> {
        let Self::Issued { place, .. } = self else {
            return Ok(None);
        };
        fetch(asker, operation, place.clone(), credentials)
            .await
            .map(Some)
    }

    /// Returns the value of `Authorization`; `None` if none is to be sent.
    pub(super) fn header(&self) -> Option<HeaderValue> {
        match self {
            Self::Own(Credentials::Basic { user, password }) => {
                let encoded = STANDARD.encode(format!("{user}:{password}"));
                authorization(&format!("Basic {encoded}"))
            }
            Self::Own(Credentials::Token(token)) | Self::Issued { token, .. } => {
                authorization(&bearer(token))
            }
            Self::Own(_) => None,
        }
    }
}

/// Returns a token, if it can be in the value of a header.
fn valid(operation: &str, token: String) -> Result<String, RegistryError> {
    if token.is_empty() || authorization(&bearer(&token)).is_none() {
        let words = "it returned no valid token";
        return Err(RegistryError::new(operation, Problem::Rejected, words));
    }
    Ok(token)
}

fn authorization(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// Returns the first challenge that is understood; a token outranks a password.
fn challenge(answer: &Answer) -> Challenge {
    let mut found = Challenge::None;
    for offered in answer
        .challenges()
        .flat_map(ChallengeParser::new)
        .filter_map(Result::ok)
    {
        let parameter = |name: &str| {
            offered
                .params
                .iter()
                .find(|(found, _)| found.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.to_unescaped())
        };
        if offered.scheme.eq_ignore_ascii_case("basic") {
            found = Challenge::Basic;
        } else if offered.scheme.eq_ignore_ascii_case("bearer")
            && let Some(realm) = parameter("realm")
        {
            return Challenge::Bearer {
                realm,
                service: parameter("service"),
            };
        }
    }
    found
}

/// Checks the place for tokens: the registry chooses it, and the password is sent there.
fn token_url(asker: &Asker, operation: &str, realm: &str) -> Result<Url, RegistryError> {
    let refuse = |why: String| RegistryError::new(operation, Problem::Refused, why);
    let url = Url::parse(realm).map_err(|_| {
        refuse("the registry returned an address for tokens that is invalid".to_owned())
    })?;
    asker.hosts.check(&url).map_err(refuse)?;
    Ok(url)
}

/// Returns the scope of a token (the token specification of the distribution registry).
fn scope(repository: &str, access: Access) -> String {
    let actions = match access {
        Access::Pull => "pull",
        Access::PullAndPush => "pull,push",
    };
    format!("repository:{repository}:{actions}")
}

async fn fetch(
    asker: &Asker,
    operation: &str,
    place: Url,
    credentials: &Credentials,
) -> Result<Login, RegistryError> {
    let login = Login::Own(credentials.clone()).header();
    let request = Request::get(place.as_str());
    let answer = asker
        .send(operation, &request, "application/json", login.as_ref())
        .await?;
    let absent = "the address for tokens that the registry returned does not exist";
    let granted = answer
        .found(operation)?
        .ok_or_else(|| RegistryError::new(operation, Problem::Rejected, absent))?;
    let token = valid(operation, token_in(&granted.body))?;
    Ok(Login::Issued { token, place })
}

/// Returns the token in an answer; an empty one if there is none.
fn token_in(body: &[u8]) -> String {
    if body.len() > MAX_TOKEN {
        return String::new();
    }
    let parsed = json_in(body);
    let token = ["token", "access_token"]
        .iter()
        .find_map(|name| parsed[name].as_str());
    token.unwrap_or_default().to_owned()
}
