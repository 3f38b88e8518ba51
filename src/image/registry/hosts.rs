//! The hosts that may be connected to: the author of an image reference or of a redirect must not
//! choose a place that only this machine or this cluster can reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

use super::reach::{Judge, Reach};

/// The places, besides link-local addresses, where clouds provide credentials and configuration of
/// the machine: Alibaba Cloud, Azure's wire server, AWS over IPv6, and the name that Google Cloud
/// gives to its own.
const METADATA: [&str; 4] = [
    "100.100.100.200",
    "168.63.129.16",
    "[fd00:ec2::254]",
    "metadata.google.internal",
];

/// The domains of Services. The address of a Service cannot be recognised, so only the name can be
/// checked.
const CLUSTER_DOMAINS: [&str; 2] = [".svc", ".cluster.local"];

/// The hosts that an administrator listed, and the registry itself.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    /// The hosts to use without TLS, with or without port.
    pub plain_http: Vec<String>,
    /// The hosts that are exempt from refusals, with or without port.
    pub allowed: Vec<String>,
    /// The registry, as `HOST` or `HOST:PORT`.
    pub registry: String,
    /// The addresses that may be connected to.
    pub reach: Reach,
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

    /// Returns the judge of resolved addresses; `None` if all of them are allowed.
    pub(super) fn judge(&self) -> Option<Judge> {
        let Reach::Judged(judged) = &self.reach else {
            return None;
        };
        // A name is resolved without its port: so one that is listed with a port counts where it is
        // the registry.
        let address = self.address().filter(|url| self.is_listed(url));
        let registry = address.and_then(|url| url.host_str().map(str::to_owned));
        let exempt = self
            .plain_http
            .iter()
            .chain(&self.allowed)
            .cloned()
            .chain(registry)
            .collect();
        Some(Judge {
            judged: judged.clone(),
            exempt,
        })
    }

    /// Refuses a host, with the reason and the remedy.
    pub(super) fn check(&self, url: &Url) -> Result<(), String> {
        let host = url.host_str().unwrap_or_default();
        match refusal(url).or_else(|| self.refusal_of_address(url)) {
            Some(what) if !self.is_listed(url) => Err(format!(
                "{host} is {what}; allow it with --allow-host {host} if it is really needed"
            )),
            _ => Ok(()),
        }
    }

    /// Returns true if the host of an address is listed, without port or with the port that is
    /// connected to: an address does not have the default port of its scheme.
    fn is_listed(&self, url: &Url) -> bool {
        let mut host = url.host_str().unwrap_or_default().to_owned();
        if let Some(port) = url.port_or_known_default() {
            host = format!("{host}:{port}");
        }
        lists(&self.plain_http, &host) || lists(&self.allowed, &host)
    }

    /// Returns what is wrong with a host that is an address, where addresses are judged. Those of
    /// names are judged when the names are resolved.
    fn refusal_of_address(&self, url: &Url) -> Option<&'static str> {
        let is_judged = matches!(self.reach, Reach::Judged(_));
        if is_judged && is_loopback(url) {
            return Some("the machine of swaplet itself");
        }
        ip(url)
            .is_some_and(|address| self.reach.refuses(address))
            .then_some("no address that everybody can reach")
    }

    /// Like [`check`](Self::check), for a place that the registry names: it must not be this
    /// machine either, unless the registry is there too, and must not give up TLS.
    pub(super) fn check_named_by_registry(&self, url: &Url) -> Result<(), String> {
        self.check(url)?;
        if is_loopback(url)
            && !self
                .address()
                .is_some_and(|registry| is_loopback(&registry))
        {
            return Err(format!("the registry sends us to this machine ({url})"));
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

fn refusal(url: &Url) -> Option<&'static str> {
    let host = url.host_str()?.trim_end_matches('.');
    if METADATA.contains(&host) || ip(url).is_some_and(is_link_local) {
        return Some("link-local or similar, where clouds provide credentials of the machine");
    }
    CLUSTER_DOMAINS
        .iter()
        .any(|domain| host.ends_with(domain))
        .then_some("inside of a cluster")
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_end_matches('.');
    host == "localhost"
        || host.ends_with(".localhost")
        || ip(url).is_some_and(|address| address.is_loopback())
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
mod tests {
    use super::super::reach::Judged;
    use super::*;

    fn hosts(registry: &str, plain: &[&str], allowed: &[&str]) -> Hosts {
        let owned = |list: &[&str]| list.iter().map(|host| (*host).to_owned()).collect();
        Hosts {
            plain_http: owned(plain),
            allowed: owned(allowed),
            registry: registry.to_owned(),
            reach: Reach::Anywhere,
        }
    }

    fn judged(registry: &str, plain: &[&str], allowed: &[&str]) -> Hosts {
        Hosts {
            reach: Reach::Judged(Judged::default()),
            ..hosts(registry, plain, allowed)
        }
    }

    fn is_refused(address: &str) -> bool {
        hosts("r.example", &[], &[])
            .check(&Url::parse(address).unwrap())
            .is_err()
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
            ("localhost.example:5000", &[], false),
        ] {
            assert_eq!(
                hosts(registry, listed, &[]).is_plain(),
                plain,
                "{registry} {listed:?}"
            );
        }
    }

    #[test]
    fn places_of_the_machine_and_of_the_cluster_are_refused() {
        for address in [
            "http://169.254.169.254/latest/meta-data",
            "http://2852039166/",
            "http://0xa9fea9fe/",
            "http://[::ffff:169.254.1.1]:80/",
            "http://[fe80::1]/",
            "http://[fd00:ec2::254]/",
            "http://100.100.100.200/",
            "http://metadata.google.internal/",
            "https://registry.kube-system.svc:5000/",
            "https://registry.kube-system.svc.cluster.local/",
            "https://a.b.cluster.local./",
        ] {
            assert!(is_refused(address), "{address}");
        }
        for address in [
            "https://r.example/",
            "https://10.0.0.1:5000/",
            "https://svc.example/",
            "http://127.0.0.1/",
        ] {
            assert!(!is_refused(address), "{address}");
        }
    }

    #[test]
    fn what_is_listed_is_allowed() {
        let url = Url::parse("https://registry.team.svc:5000/v2/").unwrap();
        assert!(
            hosts("r.example", &["registry.team.svc"], &[])
                .check(&url)
                .is_ok()
        );
        assert!(
            hosts("r.example", &[], &["registry.team.svc:5000"])
                .check(&url)
                .is_ok()
        );
        assert!(
            hosts("r.example", &[], &["registry.team.svc:5001"])
                .check(&url)
                .is_err()
        );
    }

    #[test]
    fn a_default_port_can_be_listed() {
        let is_allowed = |plain: &[&str], allowed: &[&str], address: &str| {
            let url = Url::parse(address).unwrap();
            hosts("r.example", plain, allowed).check(&url).is_ok()
        };
        let (plain, tls) = ("registry.team.svc:80", "registry.team.svc:443");
        for (address, listed, other) in [
            ("http://registry.team.svc:80/v2/", plain, tls),
            ("https://registry.team.svc/v2/", tls, plain),
        ] {
            assert!(is_allowed(&[listed], &[], address), "{address}");
            assert!(is_allowed(&[], &[listed], address), "{address}");
            assert!(!is_allowed(&[other], &[other], address), "{address}");
        }
        let registry = hosts("registry.team.svc", &[], &[tls]);
        assert!(registry.check(&registry.address().unwrap()).is_ok());
        for (registry, plain, allowed, exempt) in [
            ("r.example:80", &["r.example:80"][..], &[][..], true),
            ("r.example", &[], &["r.example:443"], true),
            ("R.example", &[], &["R.example"], true),
            ("r.example", &[], &["r.example:80"], false),
        ] {
            let judge = judged(registry, plain, allowed).judge().unwrap();
            let name = "r.example".to_owned();
            assert_eq!(judge.exempt.contains(&name), exempt, "{registry}");
        }
    }

    #[test]
    fn this_machine_is_asked_for_others_only_where_it_is_listed() {
        let is_asked = |hosts: Hosts| hosts.check(&hosts.address().unwrap()).is_ok();
        let here = "127.0.0.1:5000";
        assert!(
            is_asked(hosts(here, &[], &[]))
                && is_asked(judged(here, &[here], &[]))
                && is_asked(judged(here, &[], &["127.0.0.1"]))
        );
        assert!(
            !is_asked(judged(here, &[], &[]))
                && !is_asked(judged(here, &["127.0.0.1:5001"], &["localhost"]))
        );
        for registry in [
            "localhost",
            "localhost.",
            "a.localhost:80",
            "0.0.0.0:6443",
            "[::]",
            "[::ffff:10.0.0.1]",
            "10.0.0.1:5000",
            "192.0.0.192",
        ] {
            assert!(!is_asked(judged(registry, &[], &[])), "a16: {registry}");
        }
        assert!(is_asked(judged("r.example", &[], &[])) && is_asked(judged("1.1.1.1", &[], &[])));
    }

    #[test]
    fn a16_only_what_is_listed_is_exempt_from_the_judgement_of_addresses() {
        let exempt = |plain: &[&str], allowed: &[&str]| {
            judged("r.example:5000", plain, allowed)
                .judge()
                .unwrap()
                .exempt
        };
        assert!(!exempt(&[], &[]).contains(&"r.example".to_owned()));
        assert!(exempt(&[], &["r.example"]).contains(&"r.example".to_owned()));
        assert!(exempt(&["r.example:5000"], &[]).contains(&"r.example".to_owned()));
        assert!(!exempt(&[], &["r.example:5001"]).contains(&"r.example".to_owned()));
        assert!(hosts("r.example", &[], &[]).judge().is_none());
    }

    #[test]
    fn a_registry_cannot_send_us_to_this_machine_or_away_from_tls() {
        let named = |registry, url| {
            hosts(registry, &["plain.example"], &[])
                .check_named_by_registry(&Url::parse(url).unwrap())
        };
        assert!(named("r.example", "https://auth.example/token").is_ok());
        assert!(named("r.example", "http://auth.example/token").is_err());
        assert!(named("r.example", "https://127.0.0.1/token").is_err());
        assert!(named("plain.example", "http://auth.example/token").is_ok());
        assert!(named("127.0.0.1:5000", "http://127.0.0.1:5001/token").is_ok());
        assert!(named("127.0.0.1:5000", "http://169.254.169.254/token").is_err());
    }
}
