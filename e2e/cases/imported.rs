//! Images that are on the node and in no registry: imported into the store of its runtime, as on
//! machines without a registry.

use std::path::Path;

use oci_distribution::manifest::{IMAGE_LAYER_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE};
use serde_json::json;

use crate::images::{digest, work_config, work_layer};
use crate::world::variable;

/// Brings the image with the shell to the node under a name that no registry has; the digest of its
/// configuration, which is its other name.
pub async fn import_work(reference: &str) -> String {
    import_work_with(&[], reference).await
}

/// As `kind load` does it with containerd 1: the node knows the image also by a digest of a
/// repository that is called after the day.
pub async fn kind_load_work(reference: &str) {
    import_work_with(&["--local", "--digests"], reference).await;
}

async fn import_work_with(options: &[&str], reference: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("image.tar");
    let digest = archive_work(reference, &file);
    ctr(&[
        &["images", "import"][..],
        options,
        &[file.to_str().unwrap()],
    ]
    .concat())
    .await;
    digest
}

/// Writes the image with the shell into a file, as an OCI image layout; the digest of its
/// configuration.
pub fn archive_work(reference: &str, file: &Path) -> String {
    let layer = work_layer();
    let config = work_config(&layer, reference);
    let described = |kind: &str, bytes: &[u8]| json!({"mediaType": kind, "digest": digest(bytes), "size": bytes.len()});
    let manifest = json!({
        "schemaVersion": 2, "mediaType": OCI_IMAGE_MEDIA_TYPE,
        "config": described("application/vnd.oci.image.config.v1+json", config.as_bytes()),
        "layers": [described(IMAGE_LAYER_MEDIA_TYPE, &layer)],
    });
    let manifest = manifest.to_string();
    let mut entry = described(OCI_IMAGE_MEDIA_TYPE, manifest.as_bytes());
    entry["annotations"] = json!({"io.containerd.image.name": reference});
    let mut archive = tar::Builder::new(std::fs::File::create(file).unwrap());
    let index = json!({"schemaVersion": 2, "manifests": [entry]}).to_string();
    let blob = |bytes: &[u8]| format!("blobs/{}", digest(bytes).replace(':', "/"));
    for (path, bytes) in [
        (
            "oci-layout".to_owned(),
            br#"{"imageLayoutVersion":"1.0.0"}"#.as_slice(),
        ),
        ("index.json".to_owned(), index.as_bytes()),
        (blob(config.as_bytes()), config.as_bytes()),
        (blob(manifest.as_bytes()), manifest.as_bytes()),
        (blob(&layer), &layer),
    ] {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len().try_into().unwrap());
        header.set_mode(0o644);
        archive.append_data(&mut header, path, bytes).unwrap();
    }
    archive.finish().unwrap();
    digest(config.as_bytes())
}

/// Asks the node's containerd, or what speaks for its CRI-O.
pub async fn ctr(arguments: &[&str]) -> String {
    let program = variable("SWAPLET_E2E_CTR");
    let mut words = program.split_whitespace();
    let output = tokio::process::Command::new(words.next().unwrap())
        .args(words)
        .args(arguments)
        .output()
        .await
        .unwrap();
    assert!(
        output.status.success(),
        "ctr {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}
