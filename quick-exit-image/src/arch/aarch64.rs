//! System calls on `aarch64`.

use core::arch::asm;

/// Numbers of the system calls.
pub mod number {
    pub const UNLINKAT: usize = 35;
    pub const RENAMEAT: usize = 38;
    pub const FCHMOD: usize = 52;
    pub const OPENAT: usize = 56;
    pub const CLOSE: usize = 57;
    pub const READ: usize = 63;
    pub const WRITE: usize = 64;
    pub const WRITEV: usize = 66;
    pub const EXIT_GROUP: usize = 94;
    pub const RT_SIGACTION: usize = 134;
    pub const RT_SIGPROCMASK: usize = 135;
    pub const RT_SIGTIMEDWAIT: usize = 137;
}

/// Makes a system call with four arguments; calls with fewer ignore the rest.
///
/// # Safety
/// The arguments must be valid for that call, memory that they point to included.
#[inline]
pub unsafe fn syscall(number: usize, [a, b, c, d]: [usize; 4]) -> usize {
    let answer;
    // SAFETY: the caller vouches for the arguments; the kernel changes only x0.
    unsafe {
        asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") a => answer,
            in("x1") b,
            in("x2") c,
            in("x3") d,
            options(nostack),
        );
    }
    answer
}

/// Ends the process; the last instruction stops it where even that call is refused.
#[inline]
pub fn exit_group(code: usize) -> ! {
    // SAFETY: the call does not return and uses no memory.
    unsafe {
        asm!(
            "svc #0",
            "brk #1",
            in("x8") number::EXIT_GROUP,
            in("x0") code,
            options(noreturn, nostack),
        );
    }
}

/// Defines where the process starts: passes the first stack pointer to a function.
#[macro_export]
macro_rules! start {
    ($main:path) => {
        /// The kernel jumps here; there is no return address and nothing to return to.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn _start() -> ! {
            core::arch::naked_asm!(
                "mov x0, sp",
                "mov x29, xzr",
                "mov x30, xzr",
                "bl {main}",
                "brk #1",
                main = sym $main,
            )
        }
    };
}
