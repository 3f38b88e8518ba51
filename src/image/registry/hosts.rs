//! Which hosts are spoken to: whoever writes an image reference, or answers with a redirect, must not choose a place that only this
//! machine or this cluster can reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

/// Where clouds hand out credentials and configuration of the machine, besides the link-local addresses: Alibaba Cloud, Azure's wire
/// server, AWS over IPv6, and the name that Google Cloud gives to its own.
const METADATA: [&str; 4] = ["100.100.100.200", "168.63.129.16", "[fd00:ec2::254]", "metadata.google.internal"];

/// The names of Services. A service's address has no mark that could be told, so names are all there is to go by.
const CLUSTER_DOMAINS: [&str; 2] = [".svc", ".cluster.local"];

/// The hosts that an administrator listed, and the registry itself.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    /// With or without port.
    pub plain_http: Vec<String>,
    /// With or without port.
    pub allowed: Vec<String>,
    /// `HOST` or `HOST:PORT` of the registry.
    pub registry: String,
}

impl Hosts {
    /// Whether the registry is spoken to without TLS: a listed host, or a loopback address.
    pub(super) fn is_plain(&self) -> bool {
        let loopback = self.address().is_some_and(|url| is_loopback(&url));
        loopback || lists(&self.plain_http, &self.registry)
    }

    /// The address of the registry.
    pub(super) fn address(&self) -> Option<Url> {
        Url::parse(&format!("http://{}/", self.registry)).ok()
    }

    /// The address of something in the registry; `path` starts with a slash.
    pub(super) fn url(&self, path: &str) -> String {
        let scheme = if self.is_plain() { "http" } else { "https" };
        format!("{scheme}://{}{path}", self.registry)
    }

    /// Refuses a host, with the reason and the remedy.
    pub(super) fn check(&self, url: &Url) -> Result<(), String> {
        let host = url.host_str().unwrap_or_default();
        let with_port = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        match refusal(url) {
            Some(what) if !lists(&self.plain_http, &with_port) && !lists(&self.allowed, &with_port) => {
                Err(format!("{host} is {what}; allow it with --allow-host {host} if it really has to be asked"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses this machine where a loopback address has to be listed.
    pub(super) fn check_loopback(&self, url: &Url, is_trusted: bool) -> Result<(), String> {
        if is_trusted || !is_loopback(url) || lists(&self.plain_http, &self.registry) || lists(&self.allowed, &self.registry) {
            return Ok(());
        }
        Err(format!(
            "{} is the machine of swaplet itself; allow it with --allow-host {} if it really has to be asked",
            self.registry, self.registry
        ))
    }

    /// As [`check`](Self::check), for a place that the registry names: it must not be this machine either, unless the registry is there too,
    /// and TLS is not given up.
    pub(super) fn check_named_by_registry(&self, url: &Url) -> Result<(), String> {
        self.check(url)?;
        if is_loopback(url) && !self.address().is_some_and(|registry| is_loopback(&registry)) {
            return Err(format!("the registry sends us to this machine ({url})"));
        }
        if url.scheme() != "https" && !self.is_plain() {
            return Err(format!("the registry sends us to an address without TLS ({url})"));
        }
        Ok(())
    }
}

fn lists(list: &[String], host: &str) -> bool {
    let without_port = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|digit| digit.is_ascii_digit())).map(|(name, _)| name);
    list.iter().any(|entry| entry == host || Some(entry.as_str()) == without_port)
}

fn refusal(url: &Url) -> Option<&'static str> {
    let host = url.host_str()?.trim_end_matches('.');
    if METADATA.contains(&host) || ip(url).is_some_and(is_link_local) {
        return Some("link-local or alike, where clouds hand out credentials of the machine");
    }
    CLUSTER_DOMAINS.iter().any(|domain| host.ends_with(domain)).then_some("inside of a cluster")
}

fn is_loopback(url: &Url) -> bool {
    url.host_str() == Some("localhost") || ip(url).is_some_and(|address| address.is_loopback())
}

/// The address, also where it is written as one number, in octal, or as IPv4 in IPv6: the parser of URLs brings all of them into one form.
fn ip(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => Ipv4Addr::is_link_local(&address),
        IpAddr::V6(address) => Ipv6Addr::is_unicast_link_local(&address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(registry: &str, plain: &[&str], allowed: &[&str]) -> Hosts {
        let owned = |list: &[&str]| list.iter().map(|host| (*host).to_owned()).collect();
        Hosts { plain_http: owned(plain), allowed: owned(allowed), registry: registry.to_owned() }
    }

    fn is_refused(address: &str) -> bool {
        hosts("r.example", &[], &[]).check(&Url::parse(address).unwrap()).is_err()
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
            assert_eq!(hosts(registry, listed, &[]).is_plain(), plain, "{registry} {listed:?}");
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
        for address in ["https://r.example/", "https://10.0.0.1:5000/", "https://svc.example/", "http://127.0.0.1/"] {
            assert!(!is_refused(address), "{address}");
        }
    }

    #[test]
    fn what_is_listed_is_allowed() {
        let url = Url::parse("https://registry.team.svc:5000/v2/").unwrap();
        assert!(hosts("r.example", &["registry.team.svc"], &[]).check(&url).is_ok());
        assert!(hosts("r.example", &[], &["registry.team.svc:5000"]).check(&url).is_ok());
        assert!(hosts("r.example", &[], &["registry.team.svc:5001"]).check(&url).is_err());
    }

    #[test]
    fn this_machine_is_asked_for_others_only_where_it_is_listed() {
        let asked = |plain: &[&str], allowed: &[&str], is_trusted| {
            let hosts = hosts("127.0.0.1:5000", plain, allowed);
            hosts.check_loopback(&hosts.address().unwrap(), is_trusted).is_ok()
        };
        assert!(asked(&[], &[], true) && asked(&["127.0.0.1:5000"], &[], false) && asked(&[], &["127.0.0.1"], false));
        assert!(!asked(&[], &[], false) && !asked(&["127.0.0.1:5001"], &["localhost"], false));
        let away = hosts("r.example", &[], &[]);
        assert!(away.check_loopback(&away.address().unwrap(), false).is_ok());
    }

    #[test]
    fn a_registry_cannot_send_us_to_this_machine_or_away_from_tls() {
        let named = |registry, url| hosts(registry, &["plain.example"], &[]).check_named_by_registry(&Url::parse(url).unwrap());
        assert!(named("r.example", "https://auth.example/token").is_ok());
        assert!(named("r.example", "http://auth.example/token").is_err());
        assert!(named("r.example", "https://127.0.0.1/token").is_err());
        assert!(named("plain.example", "http://auth.example/token").is_ok());
        assert!(named("127.0.0.1:5000", "http://127.0.0.1:5001/token").is_ok());
        assert!(named("127.0.0.1:5000", "http://169.254.169.254/token").is_err());
    }
}
