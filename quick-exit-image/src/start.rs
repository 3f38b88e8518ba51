//! What the kernel leaves on the stack of a new process: the count of arguments, the
//! arguments, the environment, and the auxiliary values; all three lists end with a zero.

use core::ffi::CStr;

/// Address of sixteen random bytes.
const AT_RANDOM: usize = 25;
/// Address of the path by which the program was started.
const AT_EXECFN: usize = 31;

/// The start of this process.
#[derive(Clone, Copy)]
pub struct Start {
    stack: *const usize,
}

impl Start {
    /// # Safety
    /// `stack` must be the stack pointer as the kernel sets it when a process starts.
    #[must_use]
    pub const unsafe fn new(stack: *const usize) -> Self {
        Self { stack }
    }

    /// How many arguments there are, the program's own name included.
    #[must_use]
    pub fn count(self) -> usize {
        self.word(0)
    }

    /// The argument with that index; 0 is the program's own name.
    #[must_use]
    pub fn argument(self, index: usize) -> Option<&'static CStr> {
        if index < self.count() {
            text(self.word(1 + index))
        } else {
            None
        }
    }

    /// The path by which the program was started, as the kernel knows it. Unlike
    /// argument 0, whoever starts the program cannot choose it freely.
    #[must_use]
    pub fn path(self) -> Option<&'static CStr> {
        text(self.auxiliary(AT_EXECFN))
    }

    /// Random bytes, new in every process; zeros if the kernel gives none.
    #[must_use]
    pub fn random(self) -> [u8; 8] {
        let address = self.auxiliary(AT_RANDOM);
        if address == 0 {
            return [0; 8];
        }
        // SAFETY: the kernel put 16 bytes there, which stay for the life of the process.
        unsafe { core::ptr::with_exposed_provenance::<[u8; 8]>(address).read_unaligned() }
    }

    fn word(self, index: usize) -> usize {
        // SAFETY: see `new`; all callers stay within the three lists.
        let place = unsafe { self.stack.add(index) };
        // SAFETY: as above; the words are aligned and never change.
        unsafe { place.read() }
    }

    fn auxiliary(self, key: usize) -> usize {
        // Over the arguments and their zero to the environment, over that to its zero.
        let mut index = 1 + self.count() + 1;
        while self.word(index) != 0 {
            index += 1;
        }
        index += 1;
        while self.word(index) != 0 {
            if self.word(index) == key {
                return self.word(index + 1);
            }
            index += 2;
        }
        0
    }
}

/// The text at an address that the kernel put on the stack of the new process.
fn text(address: usize) -> Option<&'static CStr> {
    let start = core::ptr::with_exposed_provenance::<u8>(address);
    if start.is_null() {
        return None;
    }
    let mut length = 0;
    // SAFETY: the text ends with a zero byte, and the loop does not go past it.
    while unsafe { *start.wrapping_add(length) } != 0 {
        length += 1;
    }
    // SAFETY: the bytes were just read; they stay for the life of the process.
    let bytes = unsafe { core::slice::from_raw_parts(start, length + 1) };
    // SAFETY: the last byte, and no byte before it, is zero.
    Some(unsafe { CStr::from_bytes_with_nul_unchecked(bytes) })
}
