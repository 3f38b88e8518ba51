//! Manifests and blobs that are asked for by a digest, of each algorithm that a reference can name.

use sha2::{Digest, Sha256, Sha512};
use swaplet::image::ImageReference;
use swaplet::image::docker_config::Credentials;
use swaplet::image::registry::{Registry, RegistryOptions};
use swaplet::image::registry_error::Problem;

use crate::images::fake::{Answer, FakeRegistry};

const BYTES: &str = "{}";

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha512(bytes: &str) -> String {
    format!("sha512:{}", hex(&Sha512::digest(bytes)))
}

#[tokio::test]
async fn bytes_are_those_of_the_digest_also_by_sha512() {
    // It says of each answer what its own digest is, by another algorithm.
    let own = format!("sha256:{}", hex(&Sha256::digest(BYTES)));
    let reported = own.clone();
    let fake = FakeRegistry::start(move |request, _| match &*request.path {
        "/v2/" => Answer::status(200),
        _ => Answer::status(200)
            .header("docker-content-digest", reported.clone())
            .body(BYTES),
    });
    let at = |digest: &str| ImageReference::parse(&format!("{}/a@{digest}", fake.host)).unwrap();
    let (right, wrong) = (sha512(BYTES), sha512("other bytes"));
    let registry = Registry::connect(
        &at(&right),
        &Credentials::Anonymous,
        RegistryOptions::default(),
    )
    .await
    .unwrap();
    let expected = (BYTES.as_bytes().to_vec(), own.clone());
    assert_eq!(
        registry.manifest(&at(&right)).await,
        Ok(Some(expected)),
        "the right one"
    );
    assert_eq!(registry.digest(&at(&right)).await, Ok(Some(own)));
    assert_eq!(
        registry.blob(&at(&right), &right).await,
        Ok(Some(BYTES.as_bytes().to_vec()))
    );
    for problem in [
        registry.manifest(&at(&wrong)).await.unwrap_err(),
        registry.digest(&at(&wrong)).await.unwrap_err(),
        registry.blob(&at(&right), &wrong).await.unwrap_err(),
    ] {
        assert_eq!(problem.problem(), Problem::DigestMismatch, "{problem}");
    }
}
