use super::*;
use proptest::prelude::*;

const A: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const B: &str = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

fn read(written: &str) -> ImageReference {
    ImageReference::parse(written).unwrap()
}

fn problem(written: &str) -> String {
    ImageReference::parse(written).unwrap_err().to_string()
}

#[test]
fn short_names_are_normalised_and_the_written_form_is_kept() {
    let short = read("busybox");
    assert_eq!(short.as_str(), "busybox");
    assert_eq!(short.normalized(), "docker.io/library/busybox:latest");
    assert_eq!(
        read("index.docker.io/library/busybox:1").normalized(),
        "docker.io/library/busybox:1"
    );
    assert_eq!(read("127.0.0.1:5000/a/b:v1").registry(), "127.0.0.1:5000");
    assert_eq!(read(&format!("r.example/a@{A}")).tag(), None);
}

/// The kubelet refuses them with InvalidImageName (go-digest, distribution/reference).
#[test]
fn upper_case_digits_of_a_digest_and_names_like_ids_are_refused() {
    let upper = A.replace('a', "A").replace("shA", "sha");
    assert!(problem(&format!("r.example/x@{upper}")).contains("lower case"));
    let id = "0123456789abcdef".repeat(4);
    assert!(problem(&id).contains("64 hexadecimal digits"));
    for name in [format!("x/{id}"), format!("{id}:1"), id[1..].to_owned()] {
        assert_eq!(read(&name).as_str(), name);
    }
}

#[test]
fn u61_addresses_of_ipv6_and_upper_case_are_hosts() {
    for (written, registry, repository) in [
        ("[fd00::5]:5000/app:v1", "[fd00::5]:5000", "app"),
        ("[fd00::5]/team/app", "[fd00::5]", "team/app"),
        ("REGISTRY/app", "REGISTRY", "app"),
        ("Registry:5000/team/app:v1", "Registry:5000", "team/app"),
    ] {
        let read = read(written);
        let found = (read.registry(), read.repository());
        assert_eq!(found, (registry, repository), "{written}");
        assert_eq!(self::read(&read.normalized()).registry(), registry);
    }
    for written in [
        "[fd00::5]5000/a",
        "[]/a",
        "[fd00::5/a",
        "[fd00::g]/a",
        "[::]:/a",
        "[::1]",
        "[::1]:v1",
    ] {
        assert!(ImageReference::parse(written).is_err(), "{written}");
    }
}

#[test]
fn errors_say_what_is_wrong() {
    assert!(problem("").contains("empty"));
    assert!(problem("a b").contains("white space"));
    assert!(problem("busybox:1\n").contains("white space"));
    assert!(problem("https://r.example/a").contains("scheme"));
    assert!(problem("r.example/App:v1").contains("upper-case"));
    assert!(problem("r.example/a@sha256:12").contains("REGISTRY"));
    assert!(problem(&format!("a@{}", &A[..70])).contains("digest length"));
    assert!(problem(&"a".repeat(5000)).len() < 300);
}

#[test]
fn one_repository_however_written() {
    assert!(read("busybox:1").same_repository(&read("docker.io/library/busybox:2")));
    assert!(!read("busybox").same_repository(&read("quay.io/library/busybox")));
    assert!(
        !read("r.example/a").same_repository(&read("r.example:443/a")),
        "a written port is another host to every runtime"
    );
}

#[test]
fn digests_decide_what_is_the_same() {
    let (tag, tag_a, a, b) = (
        read("r.example/x:t"),
        read(&format!("r.example/x:t@{A}")),
        read(&format!("r.example/x@{A}")),
        read(&format!("r.example/x@{B}")),
    );
    assert_eq!(tag_a.same_target(&a), Target::Same);
    assert_eq!(a.same_target(&b), Target::Different);
    assert_eq!(tag.same_target(&a), Target::Maybe);
    assert_eq!(tag.same_target(&tag), Target::Maybe);
    assert_eq!(tag.same_target(&read("r.example/y:t")), Target::Different);
}

#[test]
fn aliases() {
    let tag_a = format!("r.example/x:t@{A}");
    let only_a = format!("r.example/x@{A}");
    for (one, other, alias) in [
        ("r.example/x:t", "r.example/x:t", true),
        ("r.example/x:t", tag_a.as_str(), true),
        ("r.example/x:t", only_a.as_str(), true),
        (tag_a.as_str(), only_a.as_str(), true),
        ("r.example/x", "r.example/x:latest", true),
        ("r.example/x:t", "r.example/x:u", false),
        ("r.example/x:u", tag_a.as_str(), false),
        ("r.example/x:t", "r.example/y:t", false),
    ] {
        assert_eq!(read(one).is_alias_of(&read(other)), alias, "{one} {other}");
        assert_eq!(read(other).is_alias_of(&read(one)), alias, "{other} {one}");
    }
    assert!(!read(&only_a).is_alias_of(&read(&format!("r.example/x:t@{B}"))));
}

#[test]
fn tagging() {
    assert_eq!(
        read("r.example/x:t").with_tag("t-amd64").unwrap().as_str(),
        "r.example/x:t-amd64"
    );
    assert!(read("r.example/x").with_tag("a b").is_err());
}

fn valid() -> impl Strategy<Value = String> {
    (
        "([a-z]{1,5}\\.example(:[1-9][0-9]{0,3})?/)?[a-z]{1,8}(/[a-z0-9]{1,8}){0,2}",
        prop::option::of("[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}"),
        any::<bool>(),
    )
        .prop_map(|(name, tag, digest)| {
            let tag = tag.map(|tag| format!(":{tag}")).unwrap_or_default();
            format!(
                "{name}{tag}{}",
                if digest {
                    format!("@{A}")
                } else {
                    String::new()
                }
            )
        })
}

proptest! {
    #[test]
    fn reading_is_total(written in ".{0,200}") {
        if let Err(error) = ImageReference::parse(&written) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn the_normalised_form_is_a_fixed_point_and_the_same_image(written in valid()) {
        let first = read(&written);
        let second = read(&first.normalized());
        prop_assert_eq!(second.normalized(), first.normalized());
        prop_assert!(first.is_alias_of(&second));
    }

    #[test]
    fn alias_is_symmetric_and_needs_one_repository(one in valid(), other in valid()) {
        let (one, other) = (read(&one), read(&other));
        prop_assert_eq!(one.is_alias_of(&other), other.is_alias_of(&one));
        prop_assert_eq!(one.same_target(&other), other.same_target(&one));
        prop_assert!(!one.is_alias_of(&other) || one.same_repository(&other));
    }
}
