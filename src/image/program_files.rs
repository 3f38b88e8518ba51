//! The files that a program needs to run in an image that holds nothing else: itself, and where it
//! is not static, its loader and shared objects as this machine has them.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::Endianness;
use object::elf::{DT_NEEDED, EM_AARCH64, EM_X86_64, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};

use swaplet_core::image::exit::Platform;

/// The path of the program in the image.
pub const PROGRAM: &str = "/swaplet/swaplet";

/// The folder of its shared objects in the image. `LD_LIBRARY_PATH` names it to the loader, because
/// each distribution has default folders of its own.
pub const LIBRARIES: &str = "/swaplet/lib";

/// The file that every TLS library of Linux reads, where Debian and Alpine keep certificates.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The files in which other distributions keep them: Fedora and Red Hat, SUSE.
const OTHER_CERTIFICATES: [&str; 2] =
    ["/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"];

/// The platform of this program, whose loader can be run.
const HERE: Platform = if cfg!(target_arch = "aarch64") {
    Platform::Arm64
} else {
    Platform::Amd64
};

/// The libraries that glibc before 2.34 opens to look up the name of a host, although the program
/// does not name them.
const NAME_SERVICE: [&str; 3] = ["libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2"];

/// A program with all files that it needs, by their path in the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramFiles {
    /// The platform that the program is built for.
    pub platform: Platform,
    /// The contents of the files, by path.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The size of the program in bytes.
    pub program_size: usize,
}

/// Why a program cannot be packed, as a message.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ProgramError(String);

impl ProgramFiles {
    /// Reads a program and the files that it needs.
    ///
    /// # Errors
    /// Returns a [`ProgramError`] if the program cannot be packed.
    pub fn of(program: &Path) -> Result<Self, ProgramError> {
        let bytes = read(program)?;
        // The loader looks for a name without a slash among the libraries.
        let program = &std::path::absolute(program).unwrap_or_else(|_| program.to_owned());
        let (platform, loader) =
            kind_of(&bytes).ok_or_else(|| ProgramError(format!("{} is not a 64-bit Linux program for amd64 or arm64, so no image can be built from it: run this on Linux", program.display())))?;
        let program_size = bytes.len();
        let mut packed = Self {
            platform,
            files: BTreeMap::from([(PROGRAM.to_owned(), bytes)]),
            program_size,
        };
        if let Some(loader) = loader {
            if platform == HERE {
                packed.add_shared_objects(program, &loader)?;
            } else {
                packed.add_from(program, &loader, cross_folder(platform))?;
            }
        }
        Ok(packed)
    }

    /// Returns true if the program brings shared objects along.
    pub fn has_libraries(&self) -> bool {
        self.files.keys().any(|path| path.starts_with(LIBRARIES))
    }

    /// Adds the certificates (PEM) of the authorities that the program trusts besides that of its
    /// cluster: those of `file`, or else of this machine. Returns true if there were any.
    ///
    /// # Errors
    /// Fails if `file` cannot be read, or holds none.
    pub fn add_certificates(&mut self, file: Option<&Path>) -> Result<bool, ProgramError> {
        let begin = b"-----BEGIN CERTIFICATE-----";
        let is_pem = |bytes: &Vec<u8>| bytes.windows(begin.len()).any(|window| window == begin);
        let found = match file {
            Some(file) => Some(read(file)?),
            None => std::iter::once(CERTIFICATES)
                .chain(OTHER_CERTIFICATES)
                .find_map(|file| std::fs::read(file).ok().filter(is_pem)),
        };
        if let Some(file) = file.filter(|_| !found.as_ref().is_some_and(is_pem)) {
            let words = "it holds no certificate in PEM (-----BEGIN CERTIFICATE-----)";
            return Err(unreadable(file, words));
        }
        let added = found.map(|bytes| self.files.insert(CERTIFICATES.to_owned(), bytes));
        Ok(added.is_some())
    }

    fn add_shared_objects(&mut self, program: &Path, loader: &str) -> Result<(), ProgramError> {
        let fail = |words: String| {
            ProgramError(format!(
                "{loader} does not report which shared objects {} needs ({words}); build swaplet as a static program: RUSTFLAGS='-C target-feature=+crt-static' cargo build --profile dist --target x86_64-unknown-linux-gnu",
                program.display()
            ))
        };
        let output = Command::new(loader)
            .arg("--list")
            .arg(program)
            .output()
            .map_err(|error| fail(error.to_string()))?;
        if !output.status.success() {
            return Err(fail(
                String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            ));
        }
        let list = String::from_utf8_lossy(&output.stdout);
        let needed = needed(&list).map_err(fail)?;
        self.files
            .insert(loader.to_owned(), read(Path::new(loader))?);
        let mut needed = needed.iter();
        needed.try_for_each(|(name, path)| self.add_library(name, path))
    }

    /// Like `add_shared_objects`, for a program whose loader cannot be run here.
    fn add_from(
        &mut self,
        program: &Path,
        loader: &str,
        folder: &Path,
    ) -> Result<(), ProgramError> {
        let platform = self.platform;
        let fail = |words: String| {
            ProgramError(format!(
                "{} is a program for {platform}, whose shared objects this machine has to have in {}: {words}; install Debian's packages libc6-{platform}-cross and libgcc-s1-{platform}-cross, or build it as a static program",
                program.display(),
                folder.display()
            ))
        };
        let needed = cross_needed(&self.files[PROGRAM], folder).map_err(fail)?;
        let name = Path::new(loader).file_name().unwrap_or_default();
        let bytes = std::fs::read(folder.join(name))
            .map_err(|error| fail(format!("{}: {error}", name.display())))?;
        self.files.insert(loader.to_owned(), bytes);
        // The loader, which libraries may need by its name, is added above.
        let mut others = needed.iter().filter(|(other, _)| Path::new(other) != name);
        others.try_for_each(|(name, path)| self.add_library(name, path))
    }

    /// Adds a shared object; with the C library also what that opens by itself.
    fn add_library(&mut self, name: &str, path: &Path) -> Result<(), ProgramError> {
        let mut add = |name: &str, bytes| self.files.insert(format!("{LIBRARIES}/{name}"), bytes);
        add(name, read(path)?);
        for service in NAME_SERVICE.iter().filter(|_| name.starts_with("libc.so")) {
            if let Ok(bytes) = std::fs::read(path.with_file_name(service)) {
                add(service, bytes);
            }
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ProgramError> {
    std::fs::read(path).map_err(|error| unreadable(path, error))
}

fn unreadable(path: &Path, words: impl Display) -> ProgramError {
    ProgramError(format!("cannot read {}: {words}", path.display()))
}

/// Returns the platform of a program, and its loader unless it is static.
fn kind_of(bytes: &[u8]) -> Option<(Platform, Option<String>)> {
    let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let platform = match header.e_machine(endian) {
        EM_X86_64 => Platform::Amd64,
        EM_AARCH64 => Platform::Arm64,
        _ => return None,
    };
    let segments = header.program_headers(endian, bytes).ok()?;
    let loader = segments
        .iter()
        .find_map(|segment| segment.interpreter(endian, bytes).ok().flatten());
    Some((
        platform,
        loader.map(|path| String::from_utf8_lossy(path).into_owned()),
    ))
}

/// Parses the list of a loader, one line each: `NAME => PATH (ADDRESS)`. Lines of another form are
/// the loader itself and what the kernel provides.
fn needed(list: &str) -> Result<Vec<(&str, PathBuf)>, String> {
    let mut needed = Vec::new();
    for (name, rest) in list
        .lines()
        .filter_map(|line| line.trim().split_once(" => "))
    {
        match rest.rsplit_once(" (") {
            Some((path, _)) if path.starts_with('/') => needed.push((name, PathBuf::from(path))),
            _ => return Err(format!("{name}: {rest}")),
        }
    }
    Ok(needed)
}

// The shared objects of a program for another platform, whose loader cannot be run here: read from
// the files themselves, out of the folder of a cross compiler.

/// Returns the folder in which Debian's cross compilers have the shared objects of the platform.
fn cross_folder(platform: Platform) -> &'static Path {
    Path::new(match platform {
        Platform::Amd64 => "/usr/x86_64-linux-gnu/lib",
        Platform::Arm64 => "/usr/aarch64-linux-gnu/lib",
    })
}

/// Returns the shared objects that the program needs, directly or not, with their paths in the
/// folder. Returns an error message about the first that is missing or cannot be read.
fn cross_needed(program: &[u8], folder: &Path) -> Result<BTreeMap<String, PathBuf>, String> {
    let mut found = BTreeMap::new();
    let mut open = names_of(program).ok_or("its list of shared objects cannot be read")?;
    while let Some(name) = open.pop() {
        let path = folder.join(&name);
        if found.contains_key(&name) {
            continue;
        }
        let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        open.extend(names_of(&bytes).ok_or_else(|| format!("{} cannot be read", path.display()))?);
        found.insert(name, path);
    }
    Ok(found)
}

/// Returns the shared objects that a file names; `None` if a name leads out of the folder.
fn names_of(file: &[u8]) -> Option<Vec<String>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\tlinux-vdso.so.1 (0x1)\n\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x2)\n\t/lib64/ld-linux-x86-64.so.2 (0x3)\n";

    #[test]
    fn a_list_of_shared_objects_is_read() {
        assert_eq!(
            needed(LIST),
            Ok(vec![(
                "libm.so.6",
                PathBuf::from("/lib/x86_64-linux-gnu/libm.so.6")
            )])
        );
        let missing = needed("\tlibx.so.1 => not found\n").unwrap_err();
        assert_eq!(missing, "libx.so.1: not found");
    }

    #[test]
    fn a_program_brings_its_loader_and_shared_objects_along() {
        let program = std::env::current_exe().unwrap();
        let packed = ProgramFiles::of(&program).unwrap();
        assert_eq!(packed.files[PROGRAM].len(), packed.program_size);
        if packed.has_libraries() {
            let loader = kind_of(&packed.files[PROGRAM]).unwrap().1.unwrap();
            assert!(packed.files.contains_key(&loader), "{loader}");
            assert!(
                packed
                    .files
                    .keys()
                    .any(|path| path.starts_with("/swaplet/lib/libc.")),
                "{:?}",
                packed.files.keys()
            );
        }
    }

    /// What is read of the files is what the loader says of the same program: here it can be asked.
    #[test]
    fn what_a_program_for_another_platform_needs_is_read_from_the_files() {
        let program = std::env::current_exe().unwrap();
        let reported = ProgramFiles::of(&program).unwrap();
        if !reported.has_libraries() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        for (path, bytes) in reported.files.iter().filter(|(path, _)| *path != PROGRAM) {
            let name = Path::new(path).file_name().unwrap();
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        let bytes = read(&program).unwrap();
        let loader = kind_of(&bytes).unwrap().1.unwrap();
        let mut packed = ProgramFiles {
            platform: Platform::Amd64,
            program_size: bytes.len(),
            files: BTreeMap::from([(PROGRAM.to_owned(), bytes)]),
        };
        packed.add_from(&program, &loader, folder.path()).unwrap();
        let names = |of: &ProgramFiles| of.files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&packed), names(&reported));

        std::fs::remove_file(folder.path().join("libc.so.6")).unwrap();
        let error = packed.add_from(&program, &loader, folder.path());
        let words = error.unwrap_err().to_string();
        assert!(
            words.contains("libc.so.6: No such file") && words.contains("libc6-amd64-cross"),
            "{words}"
        );
    }

    #[test]
    fn a_static_program_comes_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("park");
        std::fs::write(
            &file,
            swaplet_core::image::Kind::Park.program(Platform::Arm64),
        )
        .unwrap();
        let packed = ProgramFiles::of(&file).unwrap();
        assert_eq!(packed.platform, Platform::Arm64);
        assert_eq!(packed.files.keys().collect::<Vec<_>>(), [PROGRAM]);
        assert!(!packed.has_libraries());
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("script");
        std::fs::write(&file, "#!/bin/sh\n").unwrap();
        assert!(
            ProgramFiles::of(&file)
                .unwrap_err()
                .to_string()
                .contains("not a 64-bit Linux program")
        );
        assert!(
            ProgramFiles::of(&folder.path().join("nothing"))
                .unwrap_err()
                .to_string()
                .contains("cannot read")
        );
    }
}
