//! The shared objects of a program for another platform, whose loader cannot be run here: read from
//! the files themselves, out of the folder of a cross compiler.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{DT_NEEDED, FileHeader64};
use object::read::elf::FileHeader;

use swaplet_core::image::exit::Platform;

/// Returns the folder in which Debian's cross compilers have the shared objects of the platform.
pub(super) fn folder(platform: Platform) -> &'static Path {
    Path::new(match platform {
        Platform::Amd64 => "/usr/x86_64-linux-gnu/lib",
        Platform::Arm64 => "/usr/aarch64-linux-gnu/lib",
    })
}

/// Returns the shared objects that the program needs, directly or not, with their paths in the
/// folder. Returns an error message about the first that is missing or cannot be read.
pub(super) fn needed(program: &[u8], folder: &Path) -> Result<BTreeMap<String, PathBuf>, String> {
    let mut found = BTreeMap::new();
    let mut open = names(program).ok_or("its list of shared objects cannot be read")?;
    while let Some(name) = open.pop() {
        let path = folder.join(&name);
        if found.contains_key(&name) {
            continue;
        }
        let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        open.extend(names(&bytes).ok_or_else(|| format!("{} cannot be read", path.display()))?);
        found.insert(name, path);
    }
    Ok(found)
}

/// Returns the shared objects that a file names; `None` if a name leads out of the folder.
fn names(file: &[u8]) -> Option<Vec<String>> {
    let header = FileHeader64::<Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let dynamic = header
        .sections(endian, file)
        .ok()?
        .dynamic_table(endian, file)
        .ok()?;
    let needed = dynamic.iter().filter(|entry| entry.tag == DT_NEEDED);
    needed
        .map(|entry| {
            let name = std::str::from_utf8(dynamic.string(entry).ok()?).ok()?;
            (!name.contains('/')).then(|| name.to_owned())
        })
        .collect()
}
