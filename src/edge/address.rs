//! Addresses to listen on, as people write them.

use std::io::{Error, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The accepted form of an address.
const FORM: &str = "write an address such as 127.0.0.1:8080, [::1]:8080, localhost:8080 or :8080";

/// Reads an address; one without a host, such as `:8080` or `8080`, is one of `host`.
///
/// # Errors
/// Returns the accepted form of an address.
pub fn listening(host: IpAddr, text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (name, port) = text.rsplit_once(':').unwrap_or(("", text));
    let host = match name {
        "" => host,
        "localhost" => Ipv4Addr::LOCALHOST.into(),
        _ => return Err(FORM.to_owned()),
    };
    let port = port.parse().map_err(|_| FORM)?;
    Ok(SocketAddr::new(host, port))
}

/// Like [`listening`], on all addresses of the machine, of both families, if no host is named:
/// `[::]` accepts IPv4 as well.
///
/// # Errors
/// Like [`listening`].
pub fn everywhere(text: &str) -> Result<SocketAddr, String> {
    listening(Ipv6Addr::UNSPECIFIED.into(), text)
}

/// Returns the address to listen on instead where the kernel has no IPv6; `None` if this error of
/// `bind` has another cause, or the address is not that of all families.
pub fn without_ipv6(address: SocketAddr, error: &Error) -> Option<SocketAddr> {
    let is_other = matches!(
        error.kind(),
        ErrorKind::AddrInUse | ErrorKind::PermissionDenied
    );
    (address.ip() == Ipv6Addr::UNSPECIFIED && !is_other)
        .then(|| SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port()))
}

/// Like [`listening`], on the loopback address if no host is named.
///
/// # Errors
/// Like [`listening`].
pub fn here(text: &str) -> Result<SocketAddr, String> {
    listening(Ipv4Addr::LOCALHOST.into(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a13_addresses_are_written_as_people_write_them() {
        for (text, expected) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("[::1]:80", "[::1]:80"),
            ("localhost:80", "127.0.0.1:80"),
            ("0.0.0.0:80", "0.0.0.0:80"),
            (":80", "[::]:80"),
            ("80", "[::]:80"),
        ] {
            assert_eq!(everywhere(text), Ok(expected.parse().unwrap()), "{text}");
        }
        assert_eq!(here(":80"), Ok("127.0.0.1:80".parse().unwrap()));
        for text in ["", ":", "host.example:80", "localhost", ":http", "1.2.3.4"] {
            assert!(everywhere(text).unwrap_err().contains(":8080"), "{text}");
        }
    }

    #[test]
    fn only_a_kernel_without_ipv6_is_a_reason_for_ipv4() {
        let all = everywhere(":80").unwrap();
        // EAFNOSUPPORT of Linux.
        let lacks = Error::from_raw_os_error(97);
        assert_eq!(
            without_ipv6(all, &lacks),
            Some("0.0.0.0:80".parse().unwrap())
        );
        assert_eq!(without_ipv6("[::1]:80".parse().unwrap(), &lacks), None);
        for kind in [ErrorKind::AddrInUse, ErrorKind::PermissionDenied] {
            assert_eq!(without_ipv6(all, &Error::from(kind)), None, "{kind:?}");
        }
    }
}
