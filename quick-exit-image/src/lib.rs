//! The little of Linux that swaplet's image programs need: a handful of system calls,
//! the start of a process, and nothing of a C library.
//!
//! Everything that differs between architectures is in `arch/`; the rest is shared.
//!
//! Addresses go to the kernel by `expose_provenance`: unlike `addr` it tells the compiler
//! that somebody else may read and write the memory there.
#![no_std]
// Without this the compiler turns loops into calls to `strlen`, `memcpy` and the like,
// which exist only in a C library.
#![no_builtins]

#[cfg_attr(target_arch = "x86_64", path = "arch/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "arch/aarch64.rs")]
mod arch;
mod start;

pub use start::Start;

use arch::{number, syscall};
use core::ffi::CStr;
use core::marker::PhantomData;
use core::mem::MaybeUninit;

/// Standard error of the process.
pub const STDERR: File = File(2);

/// "Interrupted": the call may be made again.
const EINTR: Errno = Errno(4);
/// "Input/output error": here for a write that takes no bytes and names no reason.
const EIO: Errno = Errno(5);

/// Paths that are not absolute count from the current directory.
const AT_FDCWD: usize = (-100_isize).cast_unsigned();
const O_RDONLY: usize = 0;
const O_WRONLY: usize = 1;
const O_CREAT: usize = 0o100;
const O_EXCL: usize = 0o200;
const O_CLOEXEC: usize = 0o2_000_000;

const SIG_SETMASK: usize = 2;
const SIGCHLD: usize = 17;
const SIG_IGN: usize = 1;
const SA_NOCLDWAIT: usize = 2;
/// The size in bytes of a signal set, as the kernel wants to be told.
const SIGNAL_SET_SIZE: usize = size_of::<u64>();

/// An error number of the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub u16);

/// A set of signals.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Signals(u64);

impl Signals {
    /// Every signal; the kernel itself leaves out the two that cannot be blocked.
    pub const ALL: Self = Self(u64::MAX);
    /// The signals that ask a process to end: SIGINT (2) and SIGTERM (15).
    pub const STOP: Self = Self(1 << (2 - 1) | 1 << (15 - 1));
}

/// An open file. Not closed by itself: the process ends soon after.
#[derive(Clone, Copy)]
pub struct File(usize);

/// A piece of text for [`File::write_parts`], laid out as the kernel's `struct iovec`.
#[repr(C)]
pub struct Part<'a> {
    base: *const u8,
    length: usize,
    text: PhantomData<&'a [u8]>,
}

impl<'a> Part<'a> {
    /// The text itself is not copied.
    #[must_use]
    pub fn new(text: &'a [u8]) -> Self {
        Self {
            base: text.as_ptr(),
            length: text.len(),
            text: PhantomData,
        }
    }
}

/// The kernel's `struct sigaction`, the same on both architectures.
#[repr(C)]
struct SignalAction {
    handler: usize,
    flags: usize,
    restorer: usize,
    mask: Signals,
}

/// A panic would be a fault in these programs; there is nobody to tell, so stop at once.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    exit(101)
}

/// Ends the process, all its threads included.
#[inline]
pub fn exit(code: u8) -> ! {
    arch::exit_group(usize::from(code))
}

impl File {
    /// Opens a file that exists, to read it.
    ///
    /// # Errors
    /// The kernel's error number.
    #[inline]
    pub fn open(path: &CStr) -> Result<Self, Errno> {
        openat(path, O_RDONLY | O_CLOEXEC)
    }

    /// Makes a new file, to write it; fails if anything has that name already.
    ///
    /// # Errors
    /// The kernel's error number.
    #[inline]
    pub fn create_new(path: &CStr) -> Result<Self, Errno> {
        openat(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC)
    }

    /// Reads some bytes into `buffer`; an empty answer is the end of the file.
    ///
    /// # Errors
    /// The kernel's error number.
    #[inline]
    pub fn read(self, buffer: &mut [MaybeUninit<u8>]) -> Result<&[u8], Errno> {
        let args = [
            self.0,
            buffer.as_mut_ptr().expose_provenance(),
            buffer.len(),
            0,
        ];
        // SAFETY: the kernel writes at most `len` bytes into memory that is ours alone.
        let count = check(unsafe { syscall(number::READ, args) })?;
        // SAFETY: the kernel has filled the first `count` bytes, never more than `len`.
        Ok(unsafe { core::slice::from_raw_parts(buffer.as_ptr().cast(), count) })
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// The kernel's error number.
    pub fn write_all(self, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            let args = [self.0, bytes.as_ptr().expose_provenance(), bytes.len(), 0];
            // SAFETY: the kernel only reads `len` bytes that are borrowed for the call.
            let count = check(unsafe { syscall(number::WRITE, args) })?;
            bytes = match bytes.get(count..) {
                Some(rest) if count > 0 => rest,
                _ => return Err(EIO),
            };
        }
        Ok(())
    }

    /// Writes several texts by one call, so that a line does not mix with other lines.
    /// For messages: nothing sensible can be done when this fails.
    pub fn write_parts(self, parts: &[Part<'_>]) {
        let args = [self.0, parts.as_ptr().expose_provenance(), parts.len(), 0];
        // SAFETY: the kernel only reads the array and the texts that its parts borrow.
        let _ = unsafe { syscall(number::WRITEV, args) };
    }

    /// Sets the file's mode, whatever the umask is.
    ///
    /// # Errors
    /// The kernel's error number.
    #[inline]
    pub fn set_mode(self, mode: u16) -> Result<(), Errno> {
        // SAFETY: no memory is passed.
        check(unsafe { syscall(number::FCHMOD, [self.0, usize::from(mode), 0, 0]) }).map(drop)
    }

    /// Closes the file; some file systems report a failed write only here.
    ///
    /// # Errors
    /// The kernel's error number.
    #[inline]
    pub fn close(self) -> Result<(), Errno> {
        // SAFETY: no memory is passed, and nothing in this process relies on the number.
        check(unsafe { syscall(number::CLOSE, [self.0, 0, 0, 0]) }).map(drop)
    }
}

/// Gives the file `from` the name `to`, in one step; whatever had the name loses it.
///
/// # Errors
/// The kernel's error number.
pub fn rename(from: &CStr, to: &CStr) -> Result<(), Errno> {
    let args = [
        AT_FDCWD,
        from.as_ptr().expose_provenance(),
        AT_FDCWD,
        to.as_ptr().expose_provenance(),
    ];
    // SAFETY: both paths end with a zero byte and are borrowed for the call.
    check(unsafe { syscall(number::RENAMEAT, args) }).map(drop)
}

/// Removes the name `path`, if it can be removed.
pub fn remove(path: &CStr) {
    // SAFETY: the path ends with a zero byte and is borrowed for the call.
    let _ = unsafe {
        syscall(
            number::UNLINKAT,
            [AT_FDCWD, path.as_ptr().expose_provenance(), 0, 0],
        )
    };
}

/// Holds back `signals` until somebody waits for them; they are kept, not lost, even
/// where the process is the first one of its pid namespace or was told to ignore them.
///
/// # Errors
/// The kernel's error number.
pub fn block(signals: Signals) -> Result<(), Errno> {
    let set = &raw const signals;
    let args = [SIG_SETMASK, set.expose_provenance(), 0, SIGNAL_SET_SIZE];
    // SAFETY: the kernel only reads the set; the old one is not asked for.
    check(unsafe { syscall(number::RT_SIGPROCMASK, args) }).map(drop)
}

/// Waits, for ever if need be, until one of the blocked `signals` has come.
///
/// # Errors
/// The kernel's error number.
pub fn wait_for(signals: Signals) -> Result<(), Errno> {
    let set = &raw const signals;
    loop {
        let args = [set.expose_provenance(), 0, 0, SIGNAL_SET_SIZE];
        // SAFETY: the kernel only reads the set; details and a time limit are not given.
        match check(unsafe { syscall(number::RT_SIGTIMEDWAIT, args) }) {
            // The process was stopped and continued, or a debugger came and went.
            Err(EINTR) => {}
            Err(error) => return Err(error),
            Ok(_) => return Ok(()),
        }
    }
}

/// Tells the kernel to forget children that end, so that no zombies gather where the
/// process is the first one of a pid namespace and inherits other people's children.
///
/// # Errors
/// The kernel's error number.
pub fn discard_children() -> Result<(), Errno> {
    let action = SignalAction {
        handler: SIG_IGN,
        flags: SA_NOCLDWAIT,
        restorer: 0,
        mask: Signals(0),
    };
    let args = [
        SIGCHLD,
        (&raw const action).expose_provenance(),
        0,
        SIGNAL_SET_SIZE,
    ];
    // SAFETY: the kernel only reads `action`, which names no function of ours to run.
    check(unsafe { syscall(number::RT_SIGACTION, args) }).map(drop)
}

fn openat(path: &CStr, flags: usize) -> Result<File, Errno> {
    let args = [AT_FDCWD, path.as_ptr().expose_provenance(), flags, 0o755];
    // SAFETY: the path ends with a zero byte and is borrowed for the call.
    check(unsafe { syscall(number::OPENAT, args) }).map(File)
}

/// The kernel answers with the result, or with minus the error number (1 to 4095).
#[allow(
    clippy::cast_possible_truncation,
    reason = "the range is checked first"
)]
#[inline]
fn check(answer: usize) -> Result<usize, Errno> {
    match answer.wrapping_neg() {
        error @ 1..=4095 => Err(Errno(error as u16)),
        _ => Ok(answer),
    }
}
