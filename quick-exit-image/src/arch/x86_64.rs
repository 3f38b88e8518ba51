//! System calls on `x86_64`.

use core::arch::asm;

/// Numbers of the system calls.
pub mod number {
    pub const READ: usize = 0;
    pub const WRITE: usize = 1;
    pub const CLOSE: usize = 3;
    pub const RT_SIGACTION: usize = 13;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const WRITEV: usize = 20;
    pub const FCHMOD: usize = 91;
    pub const RT_SIGTIMEDWAIT: usize = 128;
    pub const EXIT_GROUP: usize = 231;
    pub const OPENAT: usize = 257;
    pub const UNLINKAT: usize = 263;
    pub const RENAMEAT: usize = 264;
}

/// Makes a system call with four arguments; calls with fewer ignore the rest.
///
/// # Safety
/// The arguments must be valid for that call, memory that they point to included.
#[inline]
pub unsafe fn syscall(number: usize, [a, b, c, d]: [usize; 4]) -> usize {
    let answer;
    // SAFETY: the caller vouches for the arguments; the kernel changes only rax, rcx, r11.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => answer,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            lateout("rcx") _,
            lateout("r11") _,
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
            "syscall",
            "ud2",
            in("rax") number::EXIT_GROUP,
            in("rdi") code,
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
            // The kernel aligns the stack to 16 bytes, which is what `call` must see.
            core::arch::naked_asm!(
                "mov rdi, rsp",
                "xor ebp, ebp",
                "call {main}",
                "ud2",
                main = sym $main,
            )
        }
    };
}
