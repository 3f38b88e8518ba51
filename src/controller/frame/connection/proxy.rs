//! Which proxy stands before the API server, as kubectl decides it: the `proxy-url` of the
//! kubeconfig always, else `HTTPS_PROXY` (for a server without TLS `HTTP_PROXY`), unless `NO_PROXY`
//! names the server or it is on this machine (Go: `httpproxy.Config.ProxyFunc`).

use std::net::IpAddr;

use http::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

/// What the environment says of proxies; each value as it stands there, empty if it is not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `HTTPS_PROXY`.
    pub https: String,
    /// `HTTP_PROXY`.
    pub http: String,
    /// `NO_PROXY`: hosts, domains, addresses and networks, separated by commas.
    pub no: String,
}

impl Environment {
    /// Returns what the environment of this process says; capital letters go first, as in Go.
    pub fn read() -> Self {
        let value = |name: &str| {
            let of = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
            of(name)
                .or_else(|| of(&name.to_lowercase()))
                .unwrap_or_default()
        };
        Self {
            https: value("HTTPS_PROXY"),
            http: value("HTTP_PROXY"),
            no: value("NO_PROXY"),
        }
    }

    /// Returns the proxy for this server, with its credentials in the address; `None` if it is
    /// connected to directly.
    ///
    /// # Errors
    /// Returns an error message if the value is no address of a proxy.
    pub fn proxy(&self, server: &Uri) -> Result<Option<Uri>, String> {
        let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
        let is_loopback = host == "localhost"
            || host
                .parse()
                .is_ok_and(|address: IpAddr| address.is_loopback());
        let is_tls = server.scheme_str() == Some("https");
        let proxy = if is_tls { &self.https } else { &self.http };
        // The matcher knows no such star for addresses.
        let is_excepted = self.no.split(',').any(|entry| entry.trim() == "*");
        if is_loopback || proxy.is_empty() || is_excepted {
            return Ok(None);
        }
        let port = server
            .port_u16()
            .unwrap_or(if is_tls { 443 } else { 80 })
            .to_string();
        let exceptions: Vec<_> = self
            .no
            .split(',')
            .filter_map(|entry| exception(entry.trim(), &port))
            // With a dot before it a domain names its members alone.
            .filter(|entry| {
                let domain = entry.strip_prefix('.');
                !domain.is_some_and(|domain| domain.eq_ignore_ascii_case(host))
            })
            .collect();
        let matcher = Matcher::builder()
            .all("http://proxy.invalid")
            .no(exceptions.join(","))
            .build();
        if matcher.intercept(server).is_none() {
            return Ok(None);
        }
        let with_scheme = if proxy.contains("://") {
            proxy.clone()
        } else {
            format!("http://{proxy}")
        };
        // It may have credentials, so it is not quoted.
        let (proxy, kind) = (with_scheme.parse(), if is_tls { "HTTPS" } else { "HTTP" });
        proxy
            .map(Some)
            .map_err(|error| format!("{kind}_PROXY is no address of a proxy ({error})"))
    }
}

/// Returns an entry of `NO_PROXY` without what only Go knows: a port, which has to be that of the
/// server, and a star before the dot of a domain.
fn exception<'a>(entry: &'a str, port: &str) -> Option<&'a str> {
    let entry = match entry.strip_prefix('*') {
        Some(domain) if domain.starts_with('.') => domain,
        _ => entry,
    };
    match entry.rsplit_once(':') {
        Some((host, of)) if !host.contains(':') || host.ends_with(']') => {
            (of == port).then(|| host.trim_matches(['[', ']']))
        }
        _ => Some(entry.trim_matches(['[', ']'])),
    }
}

/// Returns the way through this proxy; `None` if its scheme is none that is known.
pub fn way(proxy: &Uri) -> Option<Intercept> {
    Matcher::builder()
        .all(proxy.to_string())
        .build()
        .intercept(&Uri::from_static("https://server.invalid"))
}

/// Returns the proxy as errors name it.
pub fn without_credentials(proxy: &Uri) -> String {
    let part = |part: Option<&str>| part.unwrap_or_default().to_owned();
    format!("{}://{}", part(proxy.scheme_str()), part(proxy.host()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_read_as_kubectl_reads_it() {
        const PROXY: &str = "http://proxy.example:3128/";
        let proxied = |server: &str, no: &str| {
            let environment = Environment {
                https: "proxy.example:3128".into(),
                no: no.into(),
                ..Environment::default()
            };
            let proxy = environment.proxy(&server.parse().unwrap()).unwrap();
            proxy.map(|proxy| proxy.to_string())
        };
        for (server, no, is_proxied) in [
            ("https://api.example:6443", "", true),
            ("http://api.example:6443", "", false),
            ("https://api.example:6443", "*", false),
            ("https://10.1.2.3:6443", "*", false),
            ("https://[fd00::1]:6443", "a, *", false),
            ("https://api.example:6443", "api.example", false),
            ("https://api.example:6443", "example", false),
            ("https://api.example:6443", ".example", false),
            ("https://api.example:6443", "*.example", false),
            ("https://example:6443", ".example", true),
            ("https://example:6443", "*.example:6443", true),
            ("https://example:6443", "example", false),
            ("https://api.example:6443", "b.example, api.example", false),
            ("https://api.example:6443", "api.example:6443", false),
            ("https://api.example:6443", "api.example:443", true),
            ("https://api.example:6443", "pi.example", true),
            ("https://10.1.2.3", "10.0.0.0/8", false),
            ("https://10.1.2.3", "10.1.2.3", false),
            ("https://10.1.2.3", "192.168.0.0/16,10.1.2.4", true),
            ("https://[fd00::1]:6443", "fd00::/8", false),
            ("https://[fd00::1]:6443", "[fd00::1]:6443", false),
            ("https://[fd00::1]:6443", "", true),
            ("https://127.0.0.1:6443", "", false),
            ("https://[::1]:6443", "", false),
            ("https://localhost:6443", "", false),
        ] {
            let expected = is_proxied.then(|| PROXY.to_owned());
            assert_eq!(proxied(server, no), expected, "{server} NO_PROXY={no}");
        }
    }

    #[test]
    fn u43_what_is_no_address_of_a_proxy_is_an_error_and_not_left_out() {
        for (https, no, is_error) in [
            ("http://user:secret@a b:3128", "", true),
            ("[proxy.example", "", true),
            ("[proxy.example", "api.example", false),
        ] {
            let environment = Environment {
                https: https.into(),
                no: no.into(),
                ..Environment::default()
            };
            let proxy = environment.proxy(&"https://api.example:6443".parse().unwrap());
            assert_eq!(proxy.is_err(), is_error, "{https} NO_PROXY={no}");
            assert!(proxy.is_ok() || !proxy.unwrap_err().contains("secret"));
        }
    }

    #[test]
    fn proxies_of_http_and_socks_are_known_with_their_credentials() {
        let way = |proxy: &str| way(&proxy.parse().unwrap());
        let of = way("http://user:word@proxy.example:3128").unwrap();
        assert_eq!(of.uri().to_string(), "http://proxy.example:3128/");
        assert_eq!(of.basic_auth().unwrap(), "Basic dXNlcjp3b3Jk");
        let of = way("socks5://user:word@proxy.example:1080").unwrap();
        assert_eq!(of.raw_auth(), Some(("user", "word")));
        assert!(way("ftp://proxy.example").is_none());
    }
}
