//! The images of the cases: swaplet's own, pushed by swaplet, and one with a shell for the work.

use oci_distribution::Reference;
use oci_distribution::client::{Client, ClientConfig, ClientProtocol, Config, ImageLayer};
use oci_distribution::manifest::IMAGE_LAYER_MEDIA_TYPE;
use oci_distribution::secrets::RegistryAuth;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

/// A static busybox, from the Debian package `busybox-static`.
const BUSYBOX: &str = "/bin/busybox";
/// Its names in the image with the shell.
const APPLETS: [&str; 7] = [
    "bin/sh",
    "bin/sleep",
    "bin/cat",
    "bin/touch",
    "bin/kill",
    "bin/true",
    "opt/own/sh",
];

/// References of the images of the cases.
pub struct Images {
    /// A shell; runs its arguments as a script.
    pub work: String,
    /// swaplet's exit image.
    pub exit: String,
    /// swaplet's park image.
    pub park: String,
    /// An image that no registry has.
    pub missing: String,
}

impl Images {
    pub async fn push(registry: &str) -> Self {
        let images = Self {
            work: format!("{registry}/e2e/work:v1"),
            exit: format!("{registry}/swaplet/exit:e2e"),
            park: format!("{registry}/swaplet/park:e2e"),
            missing: format!("{registry}/e2e/missing:v1"),
        };
        swaplet(&["exit-image", "push", &images.exit]).await;
        swaplet(&["park-image", "push", &images.park]).await;
        push_work(registry, &images.work).await;
        images
    }
}

pub async fn swaplet(arguments: &[&str]) {
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_swaplet"))
        .args(arguments)
        .output()
        .await
        .unwrap();
    assert!(
        output.status.success(),
        "swaplet {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Pushes the image with the shell. Under each name it is another image, with an id of its own.
pub async fn push_work(registry: &str, reference: &str) {
    push_work_as(registry, reference, reference).await;
}

/// The same with this word in it, which makes it another image than with another word.
pub async fn push_work_as(registry: &str, reference: &str, word: &str) {
    let layer = work_layer();
    let config = work_config(&layer, word);
    push_image(registry, reference, layer, config).await;
}

/// The digest of the manifest that the registry has under this name.
pub async fn digest_of(registry: &str, reference: &str) -> String {
    let reference = reference.parse::<Reference>().unwrap();
    let client = client(registry);
    let digest = client.fetch_manifest_digest(&reference, &RegistryAuth::Anonymous);
    digest.await.unwrap()
}

pub fn client(registry: &str) -> Client {
    Client::new(ClientConfig {
        protocol: ClientProtocol::HttpsExcept(vec![registry.to_owned()]),
        ..ClientConfig::default()
    })
}

/// Two that push the same image at once may each miss what the other has just begun to store.
static PUSHES: Mutex<()> = Mutex::const_new(());

/// Pushes an image of one layer.
pub async fn push_image(registry: &str, reference: &str, layer: Vec<u8>, config: String) {
    let layers = [ImageLayer::new(
        layer,
        IMAGE_LAYER_MEDIA_TYPE.to_owned(),
        None,
    )];
    let config = Config::oci_v1(config, None);
    let _one_at_a_time = PUSHES.lock().await;
    client(registry)
        .push(
            &reference.parse::<Reference>().unwrap(),
            &layers,
            config,
            &RegistryAuth::Anonymous,
            None,
        )
        .await
        .unwrap();
}

pub fn work_config(layer: &[u8], reference: &str) -> String {
    let config = json!({
        "architecture": "amd64", "os": "linux",
        "config": {"User": "65532", "Env": ["PATH=/bin", format!("IMAGE={reference}")], "Entrypoint": ["/bin/sh", "-c"], "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
    });
    config.to_string()
}

pub fn digest(bytes: &[u8]) -> String {
    format!(
        "sha256:{}",
        Sha256::digest(bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    )
}

pub fn work_layer() -> Vec<u8> {
    let program = std::fs::read(BUSYBOX).unwrap_or_else(|error| {
        panic!("{BUSYBOX}: {error}; install the Debian package busybox-static")
    });
    let mut archive = tar::Builder::new(Vec::new());
    let mut append = |path: &str, kind: tar::EntryType, data: &[u8], target: Option<&str>| {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(0o755);
        header.set_size(data.len() as u64);
        match target {
            Some(target) => archive.append_link(&mut header, path, target).unwrap(),
            None => archive.append_data(&mut header, path, data).unwrap(),
        }
    };
    for folder in ["bin/", "tmp/", "opt/", "opt/own/"] {
        append(folder, tar::EntryType::Directory, &[], None);
    }
    append("bin/busybox", tar::EntryType::Regular, &program, None);
    for applet in APPLETS {
        append(applet, tar::EntryType::Link, &[], Some("bin/busybox"));
    }
    archive.into_inner().unwrap()
}
