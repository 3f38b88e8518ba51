//! The flags of `swaplet run` for resolving the tags of jobs, which tenants create, to digests.

use clap::Args;

use crate::image::ImageReference;
use crate::image::registry::{Judged, Reach};

#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct PinArgs {
    /// For the tags that jobs with the annotation swaplet.io/pin-tags name, also ask registries in
    /// private networks (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10, fc00::/7).
    /// Single hosts can be listed with --allow-host. Addresses of this machine, its link and its
    /// cloud are never contacted
    #[arg(
        hide_short_help = true,
        long,
        env = "SWAPLET_PIN_PRIVATE_REGISTRIES",
        requires = "warm"
    )]
    pin_private_registries: bool,
    /// Ask for the tags of these repositories, and of those below them, with the credentials of
    /// --docker-config: anyone who may create jobs learns the digests of their tags (repeatable)
    /// [default: none, all are queried without credentials]
    #[arg(
        hide_short_help = true,
        long,
        value_name = "HOST/REPOSITORY",
        env = "SWAPLET_PIN_CREDENTIALS",
        value_delimiter = ',',
        requires = "warm"
    )]
    #[arg(value_parser = repository)]
    pin_credentials: Vec<String>,
}

impl PinArgs {
    /// Returns the addresses that may be connected to.
    pub(in crate::cli) fn reach(&self) -> Reach {
        Reach::Judged(Judged {
            private: self.pin_private_registries,
            ..Judged::default()
        })
    }

    /// Returns true if credentials may be sent to the registry of this image.
    pub(in crate::cli) fn shows_credentials(&self, image: &ImageReference) -> bool {
        let repository = format!("{}/{}", image.registry(), image.repository());
        self.pin_credentials.iter().any(|listed| {
            repository
                .strip_prefix(&**listed)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

/// Parses a host with a prefix of its repositories. Docker Hub is written out: `docker.io/library`.
fn repository(written: &str) -> Result<String, String> {
    let problem = || {
        "write a registry, and which of its repositories, such as registry.example/team".to_owned()
    };
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "._-/:[]".contains(character);
    let (host, path) = written.split_once('/').unwrap_or((written, ""));
    let is_one = !host.is_empty()
        && written.chars().all(is_plain)
        && !path.contains(':')
        && !written.ends_with('/');
    is_one.then(|| written.to_owned()).ok_or_else(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a16_credentials_are_shown_for_listed_repositories_only() {
        let args = PinArgs {
            pin_credentials: vec!["registry.example/team".into(), "other.example".into()],
            ..PinArgs::default()
        };
        let shows = |image: &str| args.shows_credentials(&image.parse().unwrap());
        assert!(
            shows("registry.example/team:v1")
                && shows("registry.example/team/app:v1")
                && shows("other.example/any/thing")
        );
        assert!(
            !shows("registry.example/teams/app:v1")
                && !shows("registry.example/other")
                && !shows("other.example.evil/x")
                && !shows("busybox")
        );
        assert!(
            !PinArgs::default().shows_credentials(&"registry.example/team:v1".parse().unwrap())
        );
    }

    #[test]
    fn a_repository_is_a_host_and_a_path() {
        for written in [
            "registry.example",
            "registry.example:5000/team",
            "docker.io/library",
            "[fd00::1]:5000/a",
        ] {
            assert_eq!(repository(written).as_deref(), Ok(written));
        }
        for written in [
            "",
            "/team",
            "registry.example/",
            "registry.example/team:v1",
            "registry.example/*",
            "a b",
        ] {
            assert!(repository(written).is_err(), "{written}");
        }
    }
}
