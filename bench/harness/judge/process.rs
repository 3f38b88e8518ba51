//! The programs of a run as processes, and what they take.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout};

/// Linux counts CPU time in hundredths of a second for whoever asks.
const TICKS: f64 = 100.0;
const PATIENCE: Duration = Duration::from_secs(30);

/// A process; it dies with this value.
pub struct Managed {
    child: Child,
    pid: u32,
    /// When it was started.
    pub started: Instant,
}

/// What a process takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Resident memory in bytes.
    pub rss: f64,
    /// The same, with a share of what others have too.
    pub pss: f64,
    /// The largest resident memory since the start, or since [`Managed::forget_peak`].
    pub peak: f64,
    /// CPU time since the start, in seconds.
    pub cpu: f64,
}

impl Managed {
    /// Starts a program that writes into this log.
    ///
    /// # Errors
    /// Where it does not start.
    pub fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let file = File::options().create(true).append(true).open(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{:?} does not start", command.as_std().get_program()))?;
        let pid = child.id().context("it has ended at once")?;
        let started = Instant::now();
        Ok(Self {
            child,
            pid,
            started,
        })
    }

    /// Whether it still runs.
    pub fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// SIGTERM, and SIGKILL where it does not end by that.
    ///
    /// # Errors
    /// Where the system does not let it.
    pub async fn stop(mut self) -> Result<()> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| self.lives()) {
            kill_process(pid, Signal::TERM)?;
        }
        if timeout(PATIENCE, self.child.wait()).await.is_err() {
            self.child.kill().await?;
        }
        Ok(())
    }

    /// SIGKILL.
    ///
    /// # Errors
    /// Where the system does not let it.
    pub async fn kill(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    fn read(&self, file: &str) -> Result<String> {
        let path = format!("/proc/{}/{file}", self.pid);
        fs::read_to_string(&path).with_context(|| format!("{path}: has the process died?"))
    }

    /// What it takes now.
    ///
    /// # Errors
    /// Where it has died.
    pub fn usage(&self) -> Result<Usage> {
        let rollup = self.read("smaps_rollup")?;
        Ok(Usage {
            rss: kilobytes(&rollup, "Rss:")?,
            pss: kilobytes(&rollup, "Pss:")?,
            peak: kilobytes(&self.read("status")?, "VmHWM:")?,
            cpu: cpu_seconds(&self.read("stat")?)?,
        })
    }

    /// The peak counts from now on.
    ///
    /// # Errors
    /// Where it has died.
    pub fn forget_peak(&self) -> Result<()> {
        Ok(fs::write(format!("/proc/{}/clear_refs", self.pid), "5")?)
    }
}

fn kilobytes(text: &str, key: &str) -> Result<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|line| line.split_whitespace().next());
    let number: f64 = number.with_context(|| format!("no {key}"))?.parse()?;
    Ok(number * 1024.0)
}

/// Fields 14 and 15 of `stat`; the name in field 2 may have blanks.
fn cpu_seconds(stat: &str) -> Result<f64> {
    let (_, fields) = stat.rsplit_once(')').context("no stat")?;
    let ticks: Vec<f64> = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<f64>() / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_does_not_shift_its_times() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194304 900 0 0 0 250 50 0 0 20 0 4 0 100 1 1";
        assert_eq!(cpu_seconds(stat).unwrap(), 3.0);
    }

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(
            kilobytes("Name: x\nVmHWM:\t   12 kB\n", "VmHWM:").unwrap(),
            12_288.0
        );
        assert!(kilobytes("Name: x\n", "VmHWM:").is_err());
    }
}
