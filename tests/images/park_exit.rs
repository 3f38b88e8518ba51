//! What the park program ends with, as the kernel sees it.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

use swaplet::image::Kind;
use swaplet::image::exit::Platform;

/// A container that waits has not done its work: with 0 it would have, for the kubelet, the Job
/// controller and the leash.
#[test]
fn a4_the_park_program_never_ends_as_if_it_had_succeeded() {
    let of_this_machine = if cfg!(target_arch = "aarch64") {
        Platform::Arm64
    } else {
        Platform::Amd64
    };
    for signal in ["-TERM", "-INT"] {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("park");
        std::fs::write(&program, Kind::Park.program(of_this_machine)).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut parked = Command::new(&program).spawn().unwrap();
        // A signal that comes before it waits for any meets the kernel's default, which is no exit
        // code at all.
        let status = format!("/proc/{}/status", parked.id());
        let waits = || {
            std::fs::read_to_string(&status)
                .is_ok_and(|status| status.to_lowercase().contains("sigblk:\tfffffff"))
        };
        let pause = || std::thread::sleep(Duration::from_millis(5));
        assert!(
            (0..4000).any(|_| waits() || {
                pause();
                false
            }),
            "it does not wait"
        );
        assert!(
            Command::new("kill")
                .args([signal, &parked.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
        assert_eq!(parked.wait().unwrap().code(), Some(143), "{signal}");
    }
}
