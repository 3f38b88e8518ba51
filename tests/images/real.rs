//! The Debian `docker-registry` on a free port of the loopback address, with its storage in a
//! temporary folder.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use tempfile::TempDir;

const PROGRAM: &str = "/usr/bin/docker-registry";

/// A running registry; it ends when this is dropped.
pub struct RealRegistry {
    process: Child,
    /// Host and port.
    pub host: String,
    _folder: TempDir,
}

impl RealRegistry {
    /// Starts a registry; `None`, with a line that says so, where the program is not installed.
    pub fn start() -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            eprintln!("SKIPPED: {PROGRAM} is not installed (Debian package docker-registry)");
            return None;
        }
        // Somebody else may take the port before it does.
        let started = (0..5).find_map(|_| Self::try_start());
        assert!(started.is_some(), "no registry of five has answered");
        started
    }

    fn try_start() -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let host = free_address();
        let config = folder.path().join("config.yml");
        fs::write(&config, configuration(&host, folder.path())).unwrap();
        let process = Command::new(PROGRAM)
            .arg("serve")
            .arg(&config)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut registry = Self {
            process,
            host,
            _folder: folder,
        };
        registry.answers().then_some(registry)
    }

    /// A reference into this registry.
    pub fn reference(&self, rest: &str) -> String {
        format!("{}/{rest}", self.host)
    }

    /// Waits until it answers; false if it has ended before.
    fn answers(&mut self) -> bool {
        for _ in 0..2400 {
            if TcpStream::connect(&self.host).is_ok() {
                return true;
            }
            if self.process.try_wait().unwrap().is_some() {
                return false;
            }
            sleep(Duration::from_millis(50));
        }
        panic!("the registry does not answer at {}", self.host);
    }
}

impl Drop for RealRegistry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string()
}

fn configuration(host: &str, folder: &Path) -> String {
    let root = folder.join("storage");
    format!(
        "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: \"{host}\"}}\n",
        root.display()
    )
}
