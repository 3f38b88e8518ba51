//! Where a registry may send a client: whoever answers for it must not choose a place that only this
//! machine can reach, nor one without TLS. The registry itself is one that the user has named.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

/// The places, besides link-local addresses, where clouds provide credentials and configuration of
/// the machine: Alibaba Cloud, Azure's wire server, AWS over IPv6 for machines and for pods, Google
/// Cloud over IPv6.
const METADATA: [IpAddr; 5] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];

/// The names of the same of Google Cloud.
const METADATA_NAMES: [&str; 2] = ["metadata.google.internal", "metadata.goog"];

/// The domains of Services, by which a place in a cluster can be recognised.
const CLUSTER_DOMAINS: [&str; 2] = [".svc", ".cluster.local"];

/// The registry, and the hosts that are used without TLS.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    /// The hosts to use without TLS, with or without port.
    pub plain_http: Vec<String>,
    /// The registry, as `HOST` or `HOST:PORT`.
    pub registry: String,
}

impl Hosts {
    /// Returns true if the registry is used without TLS: a listed host, or a loopback address.
    pub(super) fn is_plain(&self) -> bool {
        let address = Url::parse(&format!("http://{}/", self.registry));
        address.is_ok_and(|url| is_loopback(&url)) || lists(&self.plain_http, &self.registry)
    }

    /// Returns the address of the registry; `None` if it is not a host.
    pub(super) fn address(&self) -> Option<Url> {
        Url::parse(&self.url("/")).ok()
    }

    /// Returns the address of something in the registry; `path` starts with a slash.
    pub(super) fn url(&self, path: &str) -> String {
        let scheme = if self.is_plain() { "http" } else { "https" };
        format!("{scheme}://{}{path}", self.registry)
    }

    /// Checks a place to which the registry sends us. This machine, its link and its cluster are
    /// allowed only if the registry is there too. Names are not resolved: one of any domain may
    /// still lead there, where only TLS stands in the way.
    pub(super) fn check(&self, url: &Url) -> Result<(), String> {
        if let Some(place) = place(url)
            && self.address().and_then(|registry| self::place(&registry)) != Some(place)
        {
            return Err(format!("the registry sends us to {place} ({url})"));
        }
        if url.scheme() != "https" && !self.is_plain() {
            return Err(format!(
                "the registry sends us to an address without TLS ({url})"
            ));
        }
        Ok(())
    }
}

fn lists(list: &[String], host: &str) -> bool {
    let without_port = host
        .rsplit_once(':')
        .filter(|(_, port)| port.bytes().all(|digit| digit.is_ascii_digit()))
        .map(|(name, _)| name);
    list.iter().any(|entry| {
        entry.eq_ignore_ascii_case(host)
            || without_port.is_some_and(|name| entry.eq_ignore_ascii_case(name))
    })
}

/// Returns the place of an address that not everybody means the same by.
fn place(url: &Url) -> Option<&'static str> {
    let host = url.host_str()?.trim_end_matches('.');
    let is_metadata = |address| METADATA.contains(&address) || is_link_local(address);
    if METADATA_NAMES.contains(&host) || ip(url).is_some_and(is_metadata) {
        return Some(
            "an address that is link-local or similar, where clouds provide credentials of the machine",
        );
    }
    if CLUSTER_DOMAINS.iter().any(|domain| host.ends_with(domain)) {
        return Some("a place inside of a cluster");
    }
    is_loopback(url).then_some("this machine")
}

pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_end_matches('.');
    host == "localhost"
        || host.ends_with(".localhost")
        || ip(url).is_some_and(|address| address.is_loopback() || address.is_unspecified())
}

/// Returns the address of a host, also where it is written as one number, in octal, or as IPv4 in
/// IPv6: the parser of URLs brings all of them into one form.
fn ip(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    bare.parse::<IpAddr>()
        .ok()
        .map(|address| address.to_canonical())
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => Ipv4Addr::is_link_local(&address),
        IpAddr::V6(address) => Ipv6Addr::is_unicast_link_local(&address),
    }
}

#[cfg(test)]
#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(registry: &str) -> Hosts {
        Hosts {
            plain_http: vec!["plain.example".to_owned()],
            registry: registry.to_owned(),
        }
    }

    fn sends(registry: &str, url: &str) -> Result<(), String> {
        hosts(registry).check(&Url::parse(url).unwrap())
    }

    #[test]
    fn plain_http_only_for_loopback_and_listed_hosts() {
        for (registry, listed, plain) in [
            ("127.0.0.1:5000", &[][..], true),
            ("localhost:5000", &[], true),
            ("r.example:5000", &["r.example"], true),
            ("r.example:5000", &["r.example:5000"], true),
            ("r.example:5001", &["r.example:5000"], false),
            ("r.example", &[], false),
            ("[fd00::5]:5000", &["[fd00::5]"], true),
            ("[fd00::5]:5000", &["[fd00::5]:5000"], true),
            ("[fd00::5]", &["[fd00:"], false),
            ("localhost.example:5000", &[], false),
        ] {
            let hosts = Hosts {
                plain_http: listed.iter().map(|host| (*host).to_owned()).collect(),
                registry: registry.to_owned(),
            };
            assert_eq!(hosts.is_plain(), plain, "{registry} {listed:?}");
        }
    }

    #[test]
    fn u60_a_registry_cannot_send_us_to_the_credentials_of_the_machine() {
        for address in [
            "https://169.254.169.254/latest/meta-data",
            "https://2852039166/",
            "https://0xa9fea9fe/",
            "https://[::ffff:169.254.1.1]:80/",
            "https://[fe80::1]/",
            "https://[fd00:ec2::254]/",
            "https://[fd00:ec2::23]/v1/credentials",
            "https://[fd20:ce::254]/",
            "https://100.100.100.200/",
            "https://[::ffff:100.100.100.200]/",
            "https://[::ffff:168.63.129.16]/",
            "https://metadata.google.internal./",
            "https://metadata.goog/",
            "https://secrets.vault.svc/",
            "https://a.b.cluster.local./",
        ] {
            assert!(sends("r.example", address).is_err(), "{address}");
            assert!(sends("127.0.0.1:5000", address).is_err(), "{address}");
        }
        for address in [
            "https://r.example/",
            "https://10.0.0.1:5000/",
            "https://svc.example/",
        ] {
            assert_eq!(sends("r.example", address), Ok(()), "{address}");
        }
        // The user has named one that is there.
        assert_eq!(sends("169.254.1.1", "https://169.254.1.2/token"), Ok(()));
        assert_eq!(sends("registry.team.svc", "https://auth.team.svc/"), Ok(()));
    }

    #[test]
    fn u60_a_registry_cannot_send_us_to_this_machine_or_away_from_tls() {
        assert!(sends("r.example", "https://auth.example/token").is_ok());
        assert!(sends("r.example", "http://auth.example/token").is_err());
        for here in ["127.0.0.1", "0.0.0.0", "[::]", "[::ffff:127.0.0.1]"] {
            let url = format!("https://{here}/token");
            assert!(sends("r.example", &url).is_err(), "{url}");
        }
        assert!(sends("plain.example", "http://auth.example/token").is_ok());
        assert!(sends("plain.example", "http://localhost/token").is_err());
        assert!(sends("127.0.0.1:5000", "http://127.0.0.1:5001/token").is_ok());
    }
}
