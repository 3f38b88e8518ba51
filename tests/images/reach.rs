//! Where the controller goes for the tags that tenants name: names resolve as a test says, to this
//! machine as a rule.

use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex};

use swaplet::image::ImageReference;
use swaplet::image::docker_config::Credentials;
use swaplet::image::for_controller::resolve;
use swaplet::image::registry::{Judged, Lookup, Reach, RegistryOptions};

use crate::images::fake::{Answer, FakeRegistry};

/// A port of this machine on which somebody would be found.
struct Inside(TcpListener);

impl Inside {
    fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    /// Whether anybody has connected.
    fn was_reached(&self) -> bool {
        match self.0.accept() {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) => panic!("{error}"),
        }
    }
}

/// All names are of this machine, but for one that is not there. The names that were looked up are
/// noted.
fn options(listed: &[&str], private: bool) -> (RegistryOptions, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&asked);
    let lookup = Lookup::by(move |name| {
        noted.lock().unwrap().push(name.clone());
        let found = if name == "absent.example" {
            Err(io::Error::other("no such name"))
        } else {
            Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)])
        };
        std::future::ready(found)
    });
    let plain_http = listed.iter().map(|host| (*host).to_owned()).collect();
    let reach = Reach::Judged(Judged { private, lookup });
    (
        RegistryOptions {
            plain_http,
            reach,
            pauses: Vec::new(),
            ..RegistryOptions::default()
        },
        asked,
    )
}

/// The digest of a tag, or the words for the tenant.
async fn ask(image: &str, options: &RegistryOptions) -> Result<String, String> {
    let image = ImageReference::parse(image).unwrap();
    let resolved = resolve(&image, Ok(Credentials::Anonymous), options.clone()).await;
    resolved
        .map(String::from)
        .map_err(|unresolved| unresolved.words.into())
}

#[tokio::test]
async fn a16_a_name_of_this_machine_is_not_connected_to_also_where_private_networks_are_allowed() {
    let inside = Inside::listen();
    for private in [false, true] {
        let (options, asked) = options(&[], private);
        let words = ask(&format!("registry.example:{}/a:1", inside.port()), &options)
            .await
            .unwrap_err();
        assert!(words.contains("cannot be reached"), "{words}");
        assert!(!inside.was_reached() && *asked.lock().unwrap() == ["registry.example"]);
    }
    for literal in [
        "127.0.0.1",
        "0.0.0.0",
        "localhost.",
        "[::ffff:127.0.0.1]",
        "10.0.0.1",
        "[fd00:ec2::23]",
    ] {
        let (options, asked) = options(&[], false);
        let Ok(image) = ImageReference::parse(&format!("{literal}:{}/a:1", inside.port())) else {
            continue;
        };
        let words = ask(image.as_str(), &options).await.unwrap_err();
        assert!(words.contains("--allow-host"), "{literal}: {words}");
        assert!(
            !inside.was_reached() && asked.lock().unwrap().is_empty(),
            "{literal}"
        );
    }
}

#[tokio::test]
async fn a16_what_does_not_answer_is_told_in_the_same_words_whatever_is_there() {
    let (inside, closed) = (
        Inside::listen(),
        TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port(),
    );
    let mut told = Vec::new();
    for (host, listed) in [
        (format!("refused.example:{}", inside.port()), false),
        (format!("refused.example:{closed}"), false),
        (format!("closed.example:{closed}"), true),
        ("absent.example".to_owned(), false),
    ] {
        let name = host.split(':').next().unwrap();
        let (options, _) = options(if listed { &["closed.example"] } else { &[] }, false);
        told.push(
            ask(&format!("{host}/a:1"), &options)
                .await
                .unwrap_err()
                .replace(&host, "HOST")
                .replace(name, "HOST"),
        );
    }
    assert!(told.iter().all(|words| *words == told[0]), "{told:#?}");
}

#[tokio::test]
async fn a16_redirects_and_token_realms_go_the_same_way() {
    for place in ["other.example", "127.0.0.1", "[::1]"] {
        let inside = Inside::listen();
        let to = format!("https://{place}:{}/token", inside.port());
        let realm = to.clone();
        let sends = FakeRegistry::start(move |request, _| match &*request.path {
            "/v2/" => Answer::status(200),
            _ => Answer::status(307).header("location", to.clone()),
        });
        let asks = FakeRegistry::start(move |_, _| {
            Answer::status(401).header("www-authenticate", format!("Bearer realm=\"{realm}\""))
        });
        for registry in [sends, asks] {
            let port = registry.host.rsplit(':').next().unwrap().to_owned();
            let (options, asked) = options(&["listed.example"], true);
            ask(&format!("listed.example:{port}/a:1"), &options)
                .await
                .unwrap_err();
            assert!(
                !registry.seen().is_empty() && !inside.was_reached(),
                "{place}"
            );
            assert_eq!(asked.lock().unwrap()[0], "listed.example");
        }
    }
}

#[tokio::test]
async fn a16_a_listed_host_is_asked_at_the_address_that_was_looked_up_once() {
    let digest = format!("sha256:{}", "a".repeat(64));
    let known = digest.clone();
    let registry = FakeRegistry::start(move |_, _| {
        Answer::status(200).header("docker-content-digest", known.clone())
    });
    let port = registry.host.rsplit(':').next().unwrap().to_owned();
    let (options, asked) = options(&["listed.example"], false);
    assert_eq!(
        ask(&format!("listed.example:{port}/a:1"), &options).await,
        Ok(digest)
    );
    assert!(
        asked
            .lock()
            .unwrap()
            .iter()
            .all(|name| name == "listed.example")
    );
}

#[tokio::test]
async fn a16_a_registry_that_wants_credentials_is_told_so_and_gets_none() {
    let registry = FakeRegistry::start(|_, _| {
        Answer::status(401).header("www-authenticate", "Basic realm=\"r\"")
    });
    let port = registry.host.rsplit(':').next().unwrap().to_owned();
    let (options, _) = options(&["listed.example"], false);
    let words = ask(&format!("listed.example:{port}/team/a:1"), &options)
        .await
        .unwrap_err();
    assert!(
        words.contains("--pin-credentials")
            && words.contains("team/a")
            && !words.contains("docker login"),
        "{words}"
    );
    assert!(
        registry
            .seen()
            .iter()
            .all(|request| request.authorization.is_none())
    );
}
