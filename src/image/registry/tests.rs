use super::*;
use oci_distribution::Reference;
use proptest::prelude::*;
use serde_json::json;

fn alike(written: &str) {
    // That client takes a first part in upper case for one of Docker Hub, unlike every runtime, and
    // knows no IPv6.
    let first = written.split_once('/').map_or("", |(first, _)| first);
    if first.contains(char::is_uppercase) && !first.contains(['.', ':']) {
        return;
    }
    let (ours, theirs) = (ImageReference::parse(written), Reference::try_from(written));
    match (&ours, &theirs) {
        (Ok(ours), Ok(theirs)) => {
            assert_eq!(
                (host_of(ours), ours.registry(), ours.repository()),
                (
                    theirs.resolve_registry(),
                    theirs.registry(),
                    theirs.repository()
                ),
                "{written}"
            );
            assert_eq!(
                (ours.tag(), ours.digest()),
                (theirs.tag(), theirs.digest()),
                "{written}"
            );
            assert_eq!(ours.normalized(), theirs.whole());
        }
        (Err(_), Err(_)) => {}
        _ => panic!("{written:?}: {ours:?} {theirs:?}"),
    }
}

/// It is shorter than what is ever read of an answer, and would take the memory of the controller.
#[test]
fn u212_a_manifest_that_would_take_too_much_memory_is_none() {
    let many = vec![r#"{"":0}"#; 500_000].join(",");
    let manifest = format!(r#"{{"schemaVersion":2,"manifests":[],"x":[{many}]}}"#);
    assert!(manifest.len() < 4 << 20);
    assert_eq!(json_in(manifest.as_bytes()), json!({}));
    assert!(!is_manifest(manifest.as_bytes()));
    assert!(is_manifest(br#"{"schemaVersion": 2, "config": {}}"#));
    assert_eq!(json_in(b"<html>"), Value::Null);
}

#[test]
fn references_are_read_as_the_registry_client_reads_them() {
    let digits = "a1".repeat(64);
    for host in [
        "",
        "localhost/",
        "Foo/",
        "r.example/",
        "r.example:/",
        "r.example:5000/",
        "index.docker.io/",
        "a..b/",
        "-a/",
        "a-/",
        "a:b/",
        "/",
    ] {
        for path in [
            "", "a", "A", "a/b", "a/B", "a..b", "a.b", "a__b", "a___b", "a_.b", "a---b", "-a",
            "a-", "a//b", "a/", "a.b/c", "a_b.c",
        ] {
            for tag in ["", ":", ":1", ":V_1.-", ":-1", ":a/b", ":a:b"] {
                alike(&format!("{host}{path}{tag}"));
                for (algorithm, length) in [
                    ("sha256", 64),
                    ("sha256", 63),
                    ("sha384", 96),
                    ("sha512", 128),
                    ("sha512", 64),
                    ("md5", 32),
                    ("sha", 31),
                    ("a+b.c", 40),
                    ("a+1", 40),
                    ("", 64),
                ] {
                    alike(&format!(
                        "{host}{path}{tag}@{algorithm}:{}",
                        &digits[..length]
                    ));
                }
            }
        }
    }
    for long in [128, 129, 247, 248, 255, 256] {
        alike(&format!("a:{}", "t".repeat(long)));
        alike(&"a".repeat(long));
        alike(&format!("r.example/{}", "a".repeat(long)));
    }
}

proptest! {
    /// But for digits in upper case, which this client takes and the kubelet does not.
    #[test]
    fn any_reference_is_read_as_the_registry_client_reads_it(written in "[aB1./:@_-]{0,12}(@sha256:[0-9a-f]{63,64})?") {
        alike(&written);
    }
}
