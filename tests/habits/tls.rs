//! An API server whose certificate is not trusted.

use std::io::Read as _;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection};

use super::Home;

/// Counts those who try; none of them trusts the certificate.
fn serve(listener: TcpListener, tried: Arc<AtomicUsize>) {
    let key = KeyPair::generate().unwrap();
    let names = vec!["127.0.0.1".to_owned()];
    let certificate = CertificateParams::new(names)
        .unwrap()
        .self_signed(&key)
        .unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
    let config = Arc::new(config);
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut tls = ServerConnection::new(config.clone()).unwrap();
            let refused = tls.complete_io(&mut connection.unwrap()).is_err();
            tried.fetch_add(usize::from(refused), Ordering::Relaxed);
        }
    });
}

/// Each of its watches tries again and again, and meets the same.
#[test]
fn a13_a_certificate_that_is_not_trusted_is_told_once_with_what_to_do() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let tried = Arc::new(AtomicUsize::new(0));
    serve(listener, tried.clone());
    let home = Home::of(address);
    let file = home.0.path().join("config");
    let config = std::fs::read_to_string(&file)
        .unwrap()
        .replace("http:", "https:");
    std::fs::write(&file, config).unwrap();

    let (code, _, error) = home.run(&["nodes"]);
    assert_eq!(code, Some(2), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.contains("certificate-authority-data"), "{error}");

    let before = tried.load(Ordering::Relaxed);
    let mut controller = home.start(&[
        "run",
        "--exit-image",
        "r.example/exit:v1",
        "--exit-image-is-public=true",
    ]);
    let has_tried = |_: &i32| tried.load(Ordering::Relaxed) >= before + 12;
    let waited = (0..1200).find(|turn| {
        std::thread::sleep(Duration::from_millis(50));
        has_tried(turn)
    });
    assert!(waited.is_some(), "{tried:?}");
    controller.kill().unwrap();
    controller.wait().unwrap();
    let mut log = String::new();
    controller
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut log)
        .unwrap();
    let told: Vec<_> = log
        .lines()
        .filter(|line| line.contains("certificate"))
        .collect();
    assert_eq!(told.len(), 1, "{log}");
    assert!(
        told[0].contains(&address.to_string()) && told[0].contains("certificate-authority-data"),
        "{log}"
    );
}
