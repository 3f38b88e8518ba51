//! Stays until SIGTERM or SIGINT, then exits 143, as a program does that SIGTERM ends. `park
//! --copy-self PATH` instead copies the program to PATH, so that a container without this image can
//! run it from a volume.
#![no_std]
#![no_main]
#![no_builtins]

use core::ffi::CStr;
use core::mem::MaybeUninit;
use kernel::{Errno, File, Part, STDERR, Signals, Start};

/// The longest path that Linux takes, the zero byte at its end included.
const PATH_MAX: usize = 4096;
/// What a program ends with that SIGTERM ends, 128 + 15. With 0 the container that waits here could
/// count as one that has done its work: where its own image cannot be pulled again, the pod would
/// be Succeeded.
const ENDED: u8 = 143;
/// "File name too long".
const ENAMETOOLONG: Errno = Errno(36);

kernel::start!(run);

extern "C" fn run(stack: *const usize) -> ! {
    // SAFETY: `start!` passes the stack pointer as the kernel set it.
    let start = unsafe { Start::new(stack) };
    match start.argument(1) {
        Some(first) if same(first, c"--copy-self") => copy_self(start),
        // The arguments are those of the container that is parked, not meant for us.
        _ => park(),
    }
}

fn park() -> ! {
    // All signals, so that none but the two waited for (and SIGKILL) ends the process.
    let ended = kernel::block(Signals::ALL)
        .and_then(|()| kernel::discard_children())
        .and_then(|()| kernel::wait_for(Signals::STOP));
    match ended {
        Ok(()) => kernel::exit(ENDED),
        // Better an error that everybody sees than a loop that burns a core.
        Err(error) => fail(b"park: cannot wait for a signal", c"", error),
    }
}

fn copy_self(start: Start) -> ! {
    let path = match start.argument(2) {
        Some(path) if start.count() == 3 && !path.is_empty() => path,
        _ => usage(),
    };
    let own = match open_self(start) {
        Ok(own) => own,
        Err(error) => fail(b"park: cannot read its own file", c"", error),
    };
    match install(own, path, start.random()) {
        Ok(()) => kernel::exit(0),
        Err(error) => fail(b"park: cannot write ", path, error),
    }
}

fn usage() -> ! {
    STDERR.write_parts(&[Part::new(b"park: use --copy-self PATH\n")]);
    kernel::exit(2)
}

/// By /proc, which always names this very file; where there is no /proc, by the path by
/// which the kernel started the program.
fn open_self(start: Start) -> Result<File, Errno> {
    let first = File::open(c"/proc/self/exe");
    match (first, start.path()) {
        (Err(_), Some(path)) => File::open(path),
        _ => first,
    }
}

/// Writes under a name of its own and renames at the end: the file at `path` is the old
/// one or the whole new one at every moment, and a running program there does not matter.
fn install(own: File, path: &CStr, random: [u8; 8]) -> Result<(), Errno> {
    let mut buffer = [MaybeUninit::uninit(); PATH_MAX];
    let temporary = temporary_name(&mut buffer, path, random)?;
    let file = File::create_new(temporary)?;
    let done = copy(own, file)
        .and_then(|()| file.set_mode(0o755))
        .and_then(|()| file.close())
        .and_then(|()| kernel::rename(temporary, path));
    if done.is_err() {
        kernel::remove(temporary);
    }
    done
}

fn copy(from: File, to: File) -> Result<(), Errno> {
    let mut buffer = [MaybeUninit::uninit(); 1024];
    loop {
        let bytes = from.read(&mut buffer)?;
        if bytes.is_empty() {
            return Ok(());
        }
        to.write_all(bytes)?;
    }
}

/// `path`, a dot, and 16 random letters: two copies at a time never share a name.
fn temporary_name<'a>(
    buffer: &'a mut [MaybeUninit<u8>; PATH_MAX],
    path: &CStr,
    random: [u8; 8],
) -> Result<&'a CStr, Errno> {
    let mut length = 0;
    let mut push = |byte| {
        buffer.get_mut(length).ok_or(ENAMETOOLONG)?.write(byte);
        length += 1;
        Ok(())
    };
    for &byte in path.to_bytes() {
        push(byte)?;
    }
    push(b'.')?;
    for byte in random {
        push(b'a' + (byte >> 4))?;
        push(b'a' + (byte & 15))?;
    }
    push(0)?;
    // SAFETY: `push` has written the first `length` bytes, never past the end.
    let bytes = unsafe { core::slice::from_raw_parts(buffer.as_ptr().cast(), length) };
    // SAFETY: only the last byte is zero: a `CStr` has none inside, letters are not zero.
    Ok(unsafe { CStr::from_bytes_with_nul_unchecked(bytes) })
}

/// Compares byte by byte: `==` would call `memcmp`, which does not exist here.
fn same(left: &CStr, right: &CStr) -> bool {
    let (left, right) = (left.to_bytes(), right.to_bytes());
    left.len() == right.len() && left.iter().zip(right).all(|(a, b)| a == b)
}

/// One line on standard error, and exit code 1.
#[allow(clippy::cast_possible_truncation, reason = "a digit fits")]
fn fail(text: &[u8], path: &CStr, error: Errno) -> ! {
    let mut digits = [b'0'; 4]; // an error number is at most 4095
    let mut first = digits.len();
    let Errno(mut rest) = error;
    for digit in digits.iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
        first -= 1;
        if rest == 0 {
            break;
        }
    }
    STDERR.write_parts(&[
        Part::new(text),
        Part::new(path.to_bytes()),
        Part::new(b" (errno "),
        Part::new(digits.get(first..).unwrap_or(&digits)),
        Part::new(b")\n"),
    ]);
    kernel::exit(1)
}
