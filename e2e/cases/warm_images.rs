//! Images that are awkward to warm: without a shell, with odd users, volumes, signals and
//! entrypoints.

use oci_distribution::Reference;
use oci_distribution::client::{Client, Config, ImageLayer};
use oci_distribution::manifest::IMAGE_LAYER_MEDIA_TYPE;
use oci_distribution::secrets::RegistryAuth;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::images::{client, digest_of, push_work};

/// The size of a large image, in bytes.
pub const LARGE: usize = 20_000_000;

/// The images of a run: none of them was on the node before.
pub struct Awkward {
    pub all: Vec<String>,
    /// The first of them, of as many bytes as asked for.
    pub large: String,
    /// Its entrypoint would leave a trace.
    pub trace: String,
    /// What that entrypoint prints and shows in the list of processes: a number that no other case
    /// has.
    pub mark: String,
    /// No registry has it.
    pub missing: String,
}

impl Awkward {
    /// Pushes all, under names that only this case of this process uses.
    pub async fn push(registry: &str, case: &str, large_bytes: usize) -> Self {
        let name = |image: &str| format!("{registry}/e2e/{case}-{image}:{}", std::process::id());
        let plain = [
            ("scratch", json!({})),
            (
                "volume-user",
                json!({"Volumes": {"/var/lib/x": {}}, "User": "no-such-user:no-such-group"}),
            ),
            // A volume where the image has a file: no container can be made of it.
            ("no-container", json!({"Volumes": {"/data": {}}})),
            ("root", json!({"User": "0:0", "Cmd": ["/no/such/program"]})),
            ("no-entrypoint", json!({"Cmd": null, "Entrypoint": null})),
            ("signal", json!({"StopSignal": "SIGUSR1", "User": "1000"})),
            (
                "workdir",
                json!({"WorkingDir": "/no/such/folder", "Env": ["LD_PRELOAD=/x.so", "PATH=/nowhere"]}),
            ),
            (
                "health",
                json!({"Healthcheck": {"Test": ["CMD", "/x"]}, "ExposedPorts": {"1/tcp": {}}, "Labels": {"a": "b"}}),
            ),
            (
                "shell-form",
                json!({"Entrypoint": ["/bin/sh", "-c", "exit 1"], "Shell": ["/bin/false", "-c"]}),
            ),
        ];
        let large = name("large");
        push(registry, &large, json!({}), large_bytes).await;
        let mut all = vec![large.clone()];
        for (image, config) in plain {
            push(registry, &name(image), config, 64).await;
            all.push(name(image));
        }
        let trace = name("trace");
        // It is looked for on the whole machine, where other clusters may run the same case.
        let case_number = case.bytes().map(u32::from).sum::<u32>();
        let mark = format!("3141{:07}{case_number:04}", std::process::id());
        push_traced(registry, &trace, &mark).await;
        for (image, hostile) in [
            ("evil-volume", Hostile::CoversTheFolder),
            ("evil-root", Hostile::CoversTheRoot),
            ("evil-link", Hostile::LeadsToAVolume),
        ] {
            push_hostile(registry, &name(image), &mark, hostile).await;
            all.push(name(image));
        }
        let digest_source = name("digest");
        let digest = push(registry, &digest_source, json!({"User": "7"}), 64).await;
        let digest = format!("{registry}/e2e/{case}-digest@{digest}");
        all.extend([trace.clone(), digest]);
        Self {
            all,
            large,
            trace,
            mark,
            missing: name("missing"),
        }
    }
}

/// An image with a shell whose entrypoint prints the mark and shows it in the list of processes.
async fn push_traced(registry: &str, reference: &str, mark: &str) {
    push_work(registry, reference).await;
    let client = client(registry);
    let image: Reference = reference.parse().unwrap();
    let (manifest, _, config) = client
        .pull_manifest_and_config(&image, &RegistryAuth::Anonymous)
        .await
        .unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["config"]["Entrypoint"] = json!(["/bin/sh", "-c", format!("echo {mark}; sleep {mark}")]);
    let mut layer = Vec::new();
    client
        .pull_blob(&image, &manifest.layers[0], &mut layer)
        .await
        .unwrap();
    push_as(&client, &image, &config, layer).await;
}

/// Pushes an image of one layer.
async fn push_as(client: &Client, image: &Reference, config: &Value, layer: Vec<u8>) {
    let layers = [ImageLayer::new(
        layer,
        IMAGE_LAYER_MEDIA_TYPE.to_owned(),
        None,
    )];
    client
        .push(
            image,
            &layers,
            Config::oci_v1(config.to_string(), None),
            &RegistryAuth::Anonymous,
            None,
        )
        .await
        .unwrap();
}

/// How an image has its own program started instead of one that is mounted: a runtime copies what
/// the image has behind a link to a volume, which it then mounts where the link leads, over what
/// was mounted there before. The program was mounted as `/.swaplet-warm/park`, then as
/// `/.swaplet-warm`, before it had another name in each pod.
#[derive(Clone, Copy)]
enum Hostile {
    /// The folder at `/.swaplet-warm` is one of the image, with a program `park` in it.
    CoversTheFolder,
    /// All of `/` is a copy of the image, with a program `/.swaplet-warm`.
    CoversTheRoot,
    /// `/.swaplet-warm` is a link to a program in `/v`, where a volume is mounted afterwards.
    LeadsToAVolume,
}

/// An image whose program prints the mark and shows it in the list of processes, if anything runs
/// it.
async fn push_hostile(registry: &str, reference: &str, mark: &str, hostile: Hostile) {
    let (link, leads_to, program, volume) = match hostile {
        Hostile::CoversTheFolder => (
            "a/b/link",
            "/.swaplet-warm",
            ".swaplet-warm/park",
            "/a/b/link",
        ),
        Hostile::CoversTheRoot => ("a/b/link", "/", ".swaplet-warm", "/a/b/link"),
        Hostile::LeadsToAVolume => (".swaplet-warm", "/v/program", "v/program", "/v"),
    };
    let script = format!("#!/a/b/busybox sh\necho {mark}; exec /a/b/busybox sleep {mark}\n");
    let busybox = std::fs::read("/bin/busybox").unwrap();
    let mut archive = tar::Builder::new(Vec::new());
    let header = |kind: tar::EntryType, bytes: usize| {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(0o755);
        header.set_size(bytes.try_into().unwrap());
        header
    };
    let own_folder = match hostile {
        Hostile::CoversTheFolder => Some(".swaplet-warm/"),
        Hostile::CoversTheRoot => None,
        Hostile::LeadsToAVolume => Some("v/"),
    };
    let folders = ["a/", "a/b/"].into_iter().chain(own_folder);
    for folder in folders {
        archive
            .append_data(&mut header(tar::EntryType::Directory, 0), folder, &[][..])
            .unwrap();
    }
    for (path, bytes) in [("a/b/busybox", &busybox[..]), (program, script.as_bytes())] {
        archive
            .append_data(
                &mut header(tar::EntryType::Regular, bytes.len()),
                path,
                bytes,
            )
            .unwrap();
    }
    archive
        .append_link(&mut header(tar::EntryType::Symlink, 0), link, leads_to)
        .unwrap();
    push_layer(
        registry,
        reference,
        json!({"Volumes": {volume: {}}}),
        archive.into_inner().unwrap(),
    )
    .await;
}

/// One layer with one file of bytes and no program at all; answers the digest.
pub async fn push(registry: &str, reference: &str, config: Value, bytes: usize) -> String {
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_mode(0o644);
    header.set_size(bytes.try_into().unwrap());
    archive
        .append_data(&mut header, "data", &noise(reference, bytes)[..])
        .unwrap();
    push_layer(registry, reference, config, archive.into_inner().unwrap()).await
}

async fn push_layer(registry: &str, reference: &str, config: Value, layer: Vec<u8>) -> String {
    let diff_id = format!("sha256:{}", hex(&layer));
    let config = json!({
        "architecture": "amd64", "os": "linux", "config": config, "rootfs": {"type": "layers", "diff_ids": [diff_id]},
    });
    let client = client(registry);
    let image: Reference = reference.parse().unwrap();
    push_as(&client, &image, &config, layer).await;
    digest_of(registry, reference).await
}

/// Other bytes for every name, so that no two images are one.
fn noise(seed: &str, bytes: usize) -> Vec<u8> {
    let block = Sha256::digest(seed);
    let mut noise = block.repeat(bytes.div_ceil(block.len()));
    noise.truncate(bytes);
    noise
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
