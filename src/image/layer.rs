//! The one layer of an image: a program once and a hard link to it at every other path, or some
//! files. Reproducible: the same contents and paths give the same bytes on every machine.

use std::collections::BTreeMap;
use std::io;

use swaplet_core::image::path_set::{PathError, PathSet};
use tar::{Builder, EntryType, Header};

/// One tar block: each header takes one, and contents are filled up to whole blocks.
pub const BLOCK: usize = 512;

/// The layer's bytes and what they hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// The uncompressed tar archive.
    pub bytes: Vec<u8>,
    /// The number of hard links.
    pub links: usize,
    /// The number of directories.
    pub directories: usize,
}

/// Returns the layer with `program` at `program_path` and a hard link to it at each other path.
///
/// # Errors
/// [`LayerError`] if the paths conflict with the program's path, or the archive cannot be written.
pub fn layer(program: &[u8], program_path: &str, paths: &PathSet) -> Result<Layer, LayerError> {
    let all = PathSet::new(paths.iter().chain([program_path]))?;
    let (mut tar, directories) = begin(&all)?;
    append_file(&mut tar, program_path, program)?;
    for path in all.iter().filter(|path| *path != program_path) {
        let mut link = header(EntryType::Link, 0);
        tar.append_link(&mut link, in_tar(path), in_tar(program_path))?;
    }
    Ok(Layer {
        bytes: tar.into_inner()?,
        links: all.len() - 1,
        directories,
    })
}

/// Returns the layer with these files, by their paths.
///
/// # Errors
/// [`LayerError`] if a path cannot be in an image, or the archive cannot be written.
pub fn layer_of_files(files: &BTreeMap<String, Vec<u8>>) -> Result<Layer, LayerError> {
    let (mut tar, directories) = begin(&PathSet::new(files.keys())?)?;
    for (path, contents) in files {
        append_file(&mut tar, path, contents)?;
    }
    Ok(Layer {
        bytes: tar.into_inner()?,
        links: 0,
        directories,
    })
}

/// A layer that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// A path cannot be in an image.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The archive could not be written.
    #[error("cannot write the layer: {0}")]
    Write(#[from] io::Error),
}

/// Returns the name of a path in a tar archive, relative to the root of the image.
fn in_tar(path: &str) -> &str {
    path.trim_start_matches('/')
}

/// Returns a header that fixes everything that could differ between two machines or runs: time,
/// owner and mode. The mode is 0755: the program must run as any user, and directories must be open
/// to any user (OpenShift chooses one).
pub(crate) fn header(kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(0o755);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size);
    header
}

/// Returns an archive with the directories of these paths, and their number.
fn begin(paths: &PathSet) -> io::Result<(Builder<Vec<u8>>, usize)> {
    let directories = paths.directories();
    let mut tar = Builder::new(Vec::new());
    for directory in &directories {
        let name = format!("{}/", in_tar(directory));
        tar.append_data(&mut header(EntryType::Directory, 0), name, io::empty())?;
    }
    Ok((tar, directories.len()))
}

fn append_file(tar: &mut Builder<Vec<u8>>, path: &str, contents: &[u8]) -> io::Result<()> {
    tar.append_data(
        &mut header(EntryType::Regular, contents.len() as u64),
        in_tar(path),
        contents,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::io::Read;

    /// Name, type, mode, target of a link, contents.
    type Found = (String, EntryType, u32, Option<String>, Vec<u8>);

    fn entries(layer: &Layer) -> Vec<Found> {
        let mut archive = tar::Archive::new(layer.bytes.as_slice());
        let read = |entry: io::Result<tar::Entry<'_, &[u8]>>| {
            let mut entry = entry.unwrap();
            let header = entry.header().clone();
            assert_eq!(
                (
                    header.uid().unwrap(),
                    header.gid().unwrap(),
                    header.mtime().unwrap()
                ),
                (0, 0, 0)
            );
            let link = entry
                .link_name()
                .unwrap()
                .map(|link| link.display().to_string());
            let mut contents = Vec::new();
            entry.read_to_end(&mut contents).unwrap();
            (
                entry.path().unwrap().display().to_string(),
                header.entry_type(),
                header.mode().unwrap(),
                link,
                contents,
            )
        };
        archive.entries().unwrap().map(read).collect()
    }

    fn make(paths: &[&str]) -> Layer {
        layer(b"program", "/swaplet/p", &PathSet::new(paths).unwrap()).unwrap()
    }

    #[test]
    fn holds_directories_then_the_program_then_links() {
        let made = make(&["/usr/bin/env", "/bin/sh", "/sidecar"]);
        let found = entries(&made);
        let names: Vec<&str> = found.iter().map(|entry| entry.0.as_str()).collect();
        assert_eq!(
            names,
            [
                "bin/",
                "swaplet/",
                "usr/",
                "usr/bin/",
                "swaplet/p",
                "bin/sh",
                "sidecar",
                "usr/bin/env"
            ]
        );
        assert!(found.iter().all(|entry| entry.2 == 0o755));
        assert_eq!(found[4].4, b"program");
        assert!(
            found[5..]
                .iter()
                .all(|entry| entry.1 == EntryType::Link && entry.3.as_deref() == Some("swaplet/p"))
        );
        assert_eq!((made.links, made.directories), (3, 4));
    }

    #[test]
    fn order_and_doubles_do_not_matter() {
        assert_eq!(
            make(&["/b", "/a", "/b", "/swaplet/p"]).bytes,
            make(&["/a", "/b"]).bytes
        );
    }

    #[test]
    fn files_come_with_their_directories() {
        let files = [("/p/lib/x", "library"), ("/p/run", "program")]
            .map(|(path, bytes)| (path.to_owned(), bytes.as_bytes().to_vec()));
        let made = layer_of_files(&BTreeMap::from(files)).unwrap();
        let found: Vec<_> = entries(&made)
            .into_iter()
            .map(|entry| (entry.0, entry.4))
            .collect();
        let expected = [
            ("p/", ""),
            ("p/lib/", ""),
            ("p/lib/x", "library"),
            ("p/run", "program"),
        ];
        assert_eq!(
            found,
            expected.map(|(path, bytes)| (path.to_owned(), bytes.as_bytes().to_vec()))
        );
    }

    #[test]
    fn long_names_survive() {
        let long = format!("/opt/{}/{}/run", "d".repeat(90), "e".repeat(90));
        let found = entries(&make(&[&long]));
        assert_eq!(found.last().unwrap().0, long[1..]);
    }

    #[test]
    fn the_program_lies_in_a_directory() {
        assert!(layer(b"p", "/swaplet/p", &PathSet::new(["/swaplet"]).unwrap()).is_err());
    }

    proptest! {
        #[test]
        fn any_path_is_taken_or_refused_and_what_is_taken_can_be_read_back(paths in prop::collection::vec("(/[a-c.\u{e9} ]{0,3}){0,4}", 0..6)) {
            if let Ok(set) = PathSet::new(&paths) {
                let made = layer(b"x", "/swaplet/p", &set).unwrap();
                let found: BTreeSet<String> = entries(&made).into_iter().map(|entry| format!("/{}", entry.0)).collect();
                prop_assert!(set.iter().all(|path| found.contains(path)));
            }
        }
    }
}
