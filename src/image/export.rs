//! An image as files, for machines that reach no registry: an OCI image layout, which also carries
//! what `docker load` reads.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::{iter, process};

use serde_json::{Value, json};

use super::build::{Blob, BuiltImage, PlatformImage};
use super::layer::header;
use swaplet_core::image::reference::ImageReference;

/// A file of the image layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutFile {
    /// Its path inside the layout, relative.
    pub path: String,
    /// The contents of the file.
    pub bytes: Vec<u8>,
}

/// Returns the files of the image layout, in a fixed order; it names the image `reference`.
pub fn layout(image: &BuiltImage, reference: &ImageReference) -> Vec<LayoutFile> {
    let blobs = image
        .platforms
        .iter()
        .flat_map(|platform| [&platform.layer, &platform.config, &platform.manifest]);
    let heads = [
        json_file("oci-layout", &json!({"imageLayoutVersion": "1.0.0"})),
        json_file("index.json", &index(image, reference)),
        json_file("manifest.json", &docker_manifest(image, reference)),
    ];
    let blobs = blobs
        .chain(iter::once(&image.index))
        .map(|blob| LayoutFile {
            path: blob_path(blob),
            bytes: blob.bytes.clone(),
        });
    heads.into_iter().chain(blobs).collect()
}

/// Writes the layout into a folder, which is created if it does not exist.
///
/// # Errors
/// Returns the error that has stopped the writing.
pub fn write_folder(files: &[LayoutFile], folder: &Path) -> io::Result<()> {
    for file in files {
        let path = folder.join(&file.path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, &file.bytes)?;
    }
    Ok(())
}

/// Writes the layout as one tar archive: the same image and name give the same bytes.
///
/// # Errors
/// Returns the error that has stopped the writing.
pub fn write_archive(files: &[LayoutFile], out: impl Write) -> io::Result<()> {
    let mut tar = tar::Builder::new(out);
    for file in files {
        tar.append_data(
            &mut header(tar::EntryType::Regular, file.bytes.len() as u64),
            &file.path,
            file.bytes.as_slice(),
        )?;
    }
    tar.into_inner()?.flush()
}

/// Writes the layout as one tar archive to a file, by way of another file beside it: an older
/// archive stays if the new one cannot be written as a whole, as on a full disk.
///
/// # Errors
/// Returns the error that has stopped the writing.
pub fn write_archive_file(files: &[LayoutFile], path: &Path) -> io::Result<()> {
    // A link stays one. What is no file, such as a pipe, cannot be replaced.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&path).is_ok_and(|there| !there.is_file()) {
        return write_archive(files, File::create(&path)?);
    }
    let beside = path.with_file_name(format!(".swaplet-{}.tar", process::id()));
    // A process that was killed may have had this number and left one.
    let _ = fs::remove_file(&beside);
    let written = write_new(files, &beside).and_then(|()| fs::rename(&beside, &path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

fn write_new(files: &[LayoutFile], path: &Path) -> io::Result<()> {
    let file = File::create_new(path)?;
    write_archive(files, &file)?;
    file.sync_all()
}

fn json_file(path: &str, value: &Value) -> LayoutFile {
    LayoutFile {
        path: path.to_owned(),
        bytes: value.to_string().into_bytes(),
    }
}

fn blob_path(blob: &Blob) -> String {
    format!("blobs/{}", blob.digest.replace(':', "/"))
}

/// Returns the index, with the name of the specification and the one that containerd reads first.
fn index(image: &BuiltImage, reference: &ImageReference) -> Value {
    let mut entry = image.index.descriptor();
    entry["annotations"] = json!({
        "io.containerd.image.name": name(reference),
        "org.opencontainers.image.ref.name": reference.tag().unwrap_or_default(),
    });
    json!({"schemaVersion": 2, "mediaType": image.index.media_type, "manifests": [entry]})
}

/// Returns the manifest of the older form. It knows no platforms, so each is an image of its own,
/// named as a push names it.
fn docker_manifest(image: &BuiltImage, reference: &ImageReference) -> Value {
    let name = name(reference);
    let entry = |platform: &PlatformImage| {
        json!({
            "Config": blob_path(&platform.config),
            "RepoTags": [format!("{name}-{}", platform.platform)],
            "Layers": [blob_path(&platform.layer)],
        })
    };
    json!(image.platforms.iter().map(entry).collect::<Vec<_>>())
}

/// Returns the name under which the image is imported, without the digest of a pinned reference: no
/// platform has it, and runtimes take no name with one.
fn name(reference: &ImageReference) -> String {
    let repository = format!("{}/{}", reference.registry(), reference.repository());
    match reference.tag() {
        Some(tag) => format!("{repository}:{tag}"),
        None => repository,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{build, digest_of};
    use swaplet_core::image::Kind;

    fn files() -> Vec<LayoutFile> {
        layout(
            &build(Kind::Exit, ["/bin/sh"]).unwrap(),
            &ImageReference::parse("r.example/exit:v1").unwrap(),
        )
    }

    #[test]
    fn every_blob_is_named_by_its_digest_and_every_named_blob_is_there() {
        let files = files();
        let find = |path: &str| {
            files
                .iter()
                .find(|file| file.path == path)
                .unwrap_or_else(|| panic!("{path} is missing"))
        };
        for blob in files.iter().filter(|file| file.path.starts_with("blobs/")) {
            assert_eq!(
                format!("blobs/{}", digest_of(&blob.bytes).replace(':', "/")),
                blob.path
            );
        }
        let read = |file: &LayoutFile| serde_json::from_slice::<Value>(&file.bytes).unwrap();
        let index = read(find("index.json"));
        assert_eq!(
            index["manifests"][0]["annotations"]["io.containerd.image.name"],
            "r.example/exit:v1"
        );
        find(&format!(
            "blobs/{}",
            index["manifests"][0]["digest"]
                .as_str()
                .unwrap()
                .replace(':', "/")
        ));
        for entry in read(find("manifest.json")).as_array().unwrap() {
            find(entry["Config"].as_str().unwrap());
            find(entry["Layers"][0].as_str().unwrap());
        }
    }

    #[test]
    fn names_have_the_tag_of_a_pinned_reference_and_no_digest() {
        let image = build(Kind::Exit, ["/bin/sh"]).unwrap();
        let pinned = format!("r.example/exit:v1@{}", image.digest());
        let files = layout(&image, &ImageReference::parse(&pinned).unwrap());
        let read = |path: &str| -> Value {
            let file = files.iter().find(|file| file.path == path).unwrap();
            serde_json::from_slice(&file.bytes).unwrap()
        };
        let index = read("index.json");
        assert_eq!(
            index["manifests"][0]["annotations"]["io.containerd.image.name"],
            "r.example/exit:v1"
        );
        let manifest = read("manifest.json");
        assert_eq!(manifest[0]["RepoTags"], json!(["r.example/exit:v1-amd64"]));
    }

    #[test]
    fn an_older_archive_stays_until_the_new_one_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let count = || fs::read_dir(folder.path()).unwrap().count();
        let path = folder.path().join("exit.tar");
        let files = files();
        write_archive_file(&files, &path).unwrap();
        let older = fs::read(&path).unwrap();
        // An archive takes no such path, and it comes last.
        let outside = LayoutFile {
            path: "../outside".to_owned(),
            bytes: Vec::new(),
        };
        let broken = [files.clone(), vec![outside]].concat();
        assert!(write_archive_file(&broken, &path).is_err());
        assert_eq!((fs::read(&path).unwrap() == older, count()), (true, 1));
        write_archive_file(&files[1..], &path).unwrap();
        assert_eq!((fs::read(&path).unwrap() == older, count()), (false, 1));
    }

    #[test]
    fn archives_are_reproducible() {
        let archive = || {
            let mut bytes = Vec::new();
            write_archive(&files(), &mut bytes).unwrap();
            bytes
        };
        assert_eq!(archive(), archive());
        let count = tar::Archive::new(archive().as_slice())
            .entries()
            .unwrap()
            .count();
        assert_eq!(count, files().len());
    }
}
