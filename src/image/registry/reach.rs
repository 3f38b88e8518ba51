//! The addresses that may be connected to for somebody who is not the administrator. A name may
//! stand for any address, so the addresses to which it resolves are judged, and the connection is
//! made to one that was judged.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// The most addresses of a name that are tried.
const MOST_ADDRESSES: usize = 16;

/// The addresses that may be connected to.
#[derive(Clone, Debug, Default)]
pub enum Reach {
    /// All addresses: the user of this machine has named the registry.
    #[default]
    Anywhere,
    /// No address that only this machine, this cluster or this network can reach: somebody else has
    /// named the registry. Hosts that are listed are exempt.
    Judged(Judged),
}

/// The rules by which addresses are judged.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// True if private networks are allowed, where a company may have its registry.
    pub private: bool,
    /// The resolver of names.
    pub lookup: Lookup,
}

/// A resolver of names.
#[derive(Clone)]
pub struct Lookup(Arc<dyn Fn(String) -> LookupFuture + Send + Sync>);

type LookupFuture = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

impl Lookup {
    /// Returns a resolver that calls `lookup`.
    pub fn by<F: Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static>(
        lookup: impl Fn(String) -> F + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(move |name| Box::pin(lookup(name))))
    }
}

impl Default for Lookup {
    /// Resolves as every program of this machine does.
    fn default() -> Self {
        Self::by(|name| async move {
            Ok(tokio::net::lookup_host((name, 0))
                .await?
                .map(|address| address.ip())
                .collect())
        })
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Lookup")
    }
}

impl Reach {
    /// Returns true if an address must not be connected to.
    pub(super) fn refuses(&self, address: IpAddr) -> bool {
        matches!(self, Self::Judged(judged) if judged.refuses(address))
    }
}

impl Judged {
    fn refuses(&self, address: IpAddr) -> bool {
        match kind(address) {
            Kind::Public => false,
            Kind::Private => !self.private,
            Kind::Own => true,
        }
    }
}

/// The resolver of one client. A proxy that the environment names resolves by itself, and its
/// operator decides what it reaches.
pub(super) struct Judge {
    pub judged: Judged,
    /// The names that are listed, and so exempt.
    pub exempt: Vec<String>,
}

impl Resolve for Judge {
    fn resolve(&self, name: Name) -> Resolving {
        let (judged, name) = (self.judged.clone(), name.as_str().to_owned());
        let is_exempt = self.exempt.contains(&name);
        Box::pin(async move {
            let found = (judged.lookup.0)(name).await?;
            let allowed = found
                .into_iter()
                .filter(|address| is_exempt || !judged.refuses(*address));
            let allowed: Vec<_> = allowed
                .take(MOST_ADDRESSES)
                .map(|address| SocketAddr::new(address, 0))
                .collect();
            if allowed.is_empty() {
                return Err(io::Error::other("no address that may be connected to").into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// The part of the world that can reach an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Everybody can reach it.
    Public,
    /// An address of a private network, as a rule also of the pods and Services of the cluster.
    Private,
    /// An address of this machine or its link, or where clouds provide credentials of the machine;
    /// or one that is not of one host.
    Own,
}

fn kind(address: IpAddr) -> Kind {
    match address {
        IpAddr::V4(address) => kind_of_v4(address),
        IpAddr::V6(address) => embedded(address).map_or_else(|| kind_of_v6(address), kind_of_v4),
    }
}

/// Returns true for addresses where clouds provide credentials and configuration of the machine:
/// Oracle (192.0.0.192), Alibaba Cloud, Azure's wire server.
fn is_metadata(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    (a, b, c) == (192, 0, 0)
        || address == Ipv4Addr::new(100, 100, 100, 200)
        || address == Ipv4Addr::new(168, 63, 129, 16)
}

fn kind_of_v4(address: Ipv4Addr) -> Kind {
    let [a, b, c, _] = address.octets();
    match (a, b) {
        // This network, loopback, multicast and what is reserved; and the link.
        (0 | 127 | 224.., _) | (169, 254) => Kind::Own,
        _ if is_metadata(address) => Kind::Own,
        // RFC 1918, RFC 6598 (carriers, and pods of some clouds) and RFC 2544.
        (10, _) | (172, 16..=31) | (192, 168) | (100, 64..=127) | (198, 18 | 19) => Kind::Private,
        // 34.118.224.0/20: Services in GKE by default (cloud.google.com, "VPC-native clusters").
        (34, 118) if (224..=239).contains(&c) => Kind::Private,
        _ => Kind::Public,
    }
}

fn kind_of_v6(address: Ipv6Addr) -> Kind {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Kind::Own,
        // The link, and multicast; Teredo, whose other end is unknown.
        [0xfe80..=0xfebf | 0xff00.., ..] | [0x2001, 0, ..] => Kind::Own,
        // AWS, Google Cloud, and Oracle.
        [0xfd00, 0xec2, ..] | [0xfd20, 0xce, ..] | [0xfd00, 0xc1, ..] => Kind::Own,
        // RFC 4193, site-local, and NAT64 into a private network.
        [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] | [0x64, 0xff9b, 1, ..] => Kind::Private,
        _ => Kind::Public,
    }
}

/// Returns the IPv4 address in an IPv6 address: mapped, compatible, NAT64, 6to4.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let from = |high: u16, low: u16| {
        Some(Ipv4Addr::from_bits(
            (u32::from(high) << 16) | u32::from(low),
        ))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => from(high, low),
        [0, 0, 0, 0, 0, 0, high, low] if high > 0 => from(high, low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(addresses: &[&str]) -> Vec<Kind> {
        addresses
            .iter()
            .map(|address| kind(address.parse().unwrap()))
            .collect()
    }

    #[test]
    fn a16_addresses_of_this_machine_its_link_and_its_cloud_are_nobodys_registry() {
        let own = [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "192.0.0.192",
            "100.100.100.200",
            "168.63.129.16",
            "::",
            "::1",
            "fe80::1",
            "febf::1",
            "ff02::1",
            "fd00:ec2::23",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fd00:c1::a9fe:a9fe",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "2001:0:1::1",
        ];
        for (address, kind) in own.iter().zip(kinds(&own)) {
            assert_eq!(kind, Kind::Own, "{address}");
        }
    }

    #[test]
    fn a16_private_networks_are_told_from_public_ones() {
        let private = [
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "100.127.0.1",
            "198.18.0.1",
            "34.118.224.1",
            "34.118.239.255",
            "fc00::1",
            "fd12::1",
            "fec0::1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "2002:a00:1::",
        ];
        for (address, kind) in private.iter().zip(kinds(&private)) {
            assert_eq!(kind, Kind::Private, "{address}");
        }
        let public = [
            "1.1.1.1",
            "172.15.0.1",
            "172.32.0.1",
            "100.63.0.1",
            "100.128.0.1",
            "192.167.0.1",
            "34.118.223.255",
            "34.118.240.0",
            "2606:4700::1111",
            "64:ff9b::101:101",
        ];
        for (address, kind) in public.iter().zip(kinds(&public)) {
            assert_eq!(kind, Kind::Public, "{address}");
        }
        let judged = |private| Judged {
            private,
            ..Judged::default()
        };
        let address = "10.0.0.1".parse().unwrap();
        assert!(
            judged(false).refuses(address)
                && !judged(true).refuses(address)
                && judged(true).refuses("127.0.0.1".parse().unwrap())
        );
        assert!(!Reach::Anywhere.refuses("127.0.0.1".parse().unwrap()));
    }
}
