//! What changes in the file while the controller runs: lists are taken over, for the rest a restart is needed.

use std::path::PathBuf;
use std::time::Duration;

use swaplet_controller::frame::serve::Health;
use swaplet_controller::run::Settings;
use tokio::sync::watch;
use tokio::time::sleep;

use super::file::{File, Key};
use super::{Called, Read, Setting};

/// How often the files are looked at. A ConfigMap that is mounted follows its object within a minute anyway.
const LOOK: Duration = Duration::from_secs(2);
/// What `/readyz` says of a file that cannot be used.
const UNUSED: &str = "the changed configuration is not used";
/// What it says of what was not taken over.
const RESTART: &str = "a restart is needed for what has changed in the configuration";

/// Follows the file of a running controller, and the rows of node classes that it names.
pub(in crate::cli) struct Reloader {
    called: Called,
    /// The file as the controller has it: what it said at the start, with the lists that were taken over.
    file: Option<File>,
    settings: Vec<Setting>,
    rows: Option<PathBuf>,
    health: Health,
    made: Made,
}

/// Makes the settings of the controller from what a command line says.
type Made = fn(&clap::ArgMatches) -> anyhow::Result<Settings>;

/// What stands in the files; `None` for one that cannot be read.
type Texts = [Option<Vec<u8>>; 2];

impl Reloader {
    /// Nothing, where there is no file to follow.
    pub(in crate::cli) fn of(called: Called, read: Read, rows: Option<PathBuf>, health: Health, made: Made) -> Option<Self> {
        let Read { settings, file, .. } = read;
        (file.is_some() || rows.is_some()).then_some(Self { called, file, settings, rows, health, made })
    }

    /// Passes on the settings whenever lists change, for as long as somebody wants them.
    pub(in crate::cli) async fn run(mut self, running: watch::Sender<Settings>) {
        let mut before = self.texts();
        // It is read again, for it may have changed since the start; the rows were read a moment ago.
        let mut used = [None, before[1].clone()];
        while !running.is_closed() {
            sleep(LOOK).await;
            let texts = self.texts();
            // What is being written is taken when two looks find the same.
            let is_settled = texts == before;
            before.clone_from(&texts);
            if is_settled && texts != used {
                let rows_differ = texts[1] != used[1];
                used = texts;
                self.reload(rows_differ, &running);
            }
        }
    }

    fn texts(&self) -> Texts {
        [self.file.as_ref().map(File::path), self.rows.as_ref()].map(|path| std::fs::read(path?).ok())
    }

    fn reload(&mut self, rows_differ: bool, running: &watch::Sender<Settings>) {
        match self.take_over(rows_differ) {
            Ok(settings) => {
                self.health.has(UNUSED);
                if let Some(settings) = settings {
                    running.send_replace(settings);
                }
            }
            Err(problem) => {
                self.health.lacks(UNUSED, &problem);
                tracing::warn!(problem, "the configuration has changed and cannot be used; the one before stays in effect");
            }
        }
    }

    /// The settings, if they have changed.
    fn take_over(&mut self, rows_differ: bool) -> Result<Option<Settings>, String> {
        let (file, others) = self.file.as_ref().map(|file| self.merge(file)).transpose()?.unzip();
        let read = match file {
            Some(file) => self.called.read_with(file),
            None => self.called.read(),
        };
        let read = read.map_err(|error| words(&error))?;
        let settings = (self.made)(&read.matches).map_err(|error| format!("{error:#}"))?;
        self.file = read.file;
        self.tell_restart(&others.unwrap_or_default());
        // A list that a flag or a variable says as well has no effect in the file.
        let effective = std::mem::replace(&mut self.settings, read.settings);
        let changed: Vec<_> =
            effective.iter().zip(&self.settings).filter(|(old, new)| old.value != new.value).map(|(_, new)| &*new.key).collect();
        let changed: Vec<_> = changed.into_iter().chain(rows_differ.then_some("node-classes")).collect();
        if changed.is_empty() {
            return Ok(None);
        }
        tracing::info!(changed = changed.join(", "), "the configuration has changed, and is taken over");
        Ok(Some(settings))
    }

    /// The file as it was, with its lists as they are now; and the other keys that have changed.
    fn merge(&self, used: &File) -> Result<(File, Vec<Key>), String> {
        let new = File::read(used.path().clone())?;
        let whole = self.called.read_with(new.clone()).map_err(|error| words(&error))?;
        (self.made)(&whole.matches).map_err(|error| format!("{error:#}"))?;
        let lists = self.called.lists();
        let (lists, others): (Vec<_>, Vec<_>) = used.differences(&new).into_iter().partition(|key| lists.contains(key));
        Ok((used.with(&lists, &new), others))
    }

    fn tell_restart(&self, keys: &[String]) {
        if keys.is_empty() {
            return self.health.has(RESTART);
        }
        let keys = keys.join(", ");
        self.health.lacks(RESTART, &keys);
        tracing::warn!(keys, "the configuration has changed where it is read only at the start; restart swaplet to use it");
    }
}

/// In one line, without the advice to look at the help.
fn words(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.trim_start_matches("error: ").split("\n\nUsage").next().unwrap_or_default();
    text.split("\n\nFor more").next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}
