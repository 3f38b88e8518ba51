//! The behaviour of a container, as set by its arguments.
//!
//! The words may be anywhere among `args` or, if there are none, in `command`; other words are
//! ignored:
//!
//! | word | meaning | without it |
//! |---|---|---|
//! | `run=2s` | the container ends by itself after this time; `run=forever` until it is stopped | forever |
//! | `exit=3` | its exit code; `exit=1,1,0` gives one per start, the last for all further ones | 0 |
//! | `term=0` | its exit code after SIGTERM; `term=ignore` needs SIGKILL | 143 |
//! | `term-after=1s` | how long it takes to end after SIGTERM | at once |
//!
//! Times are written as Go writes them: `1.5s`, `200ms`, `1m30s`.
//!
//! A container without any of these words is one that was not written for this node. A `sleep N`
//! that is its whole command, or all of a shell's script, is `run=Ns`. If it is a sidecar, by its
//! mark or because a preset of policies names it, or if its pod always restarts, any other runs
//! until it is stopped, whatever sleeps in its loops. If it is a main container, a loop without an
//! end (`while true`, `tail -f`) runs until it is stopped; of a script without loops a `sleep N` is
//! `run=Ns` and an `exit N` gives the code; any other runs for two seconds.

use std::time::Duration;

use swaplet_core::objects::values::go_duration::duration;

/// How long a main container of an ordinary manifest runs: long enough to be observed.
const ORDINARY_RUN: Duration = Duration::from_secs(2);
/// The exit code of a process that SIGTERM ends.
const TERMINATED: i32 = 128 + 15;

/// The behaviour of a container in one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// How long it runs; `None` until it is stopped.
    pub run: Option<Duration>,
    /// Its exit code at the first end, the second and so on; the last one for all later ends.
    pub exit: Vec<i32>,
    /// Its exit code after SIGTERM; `None` if it ignores SIGTERM.
    pub term: Option<i32>,
    /// How long it takes to end after SIGTERM.
    pub term_after: Duration,
}

/// The role of an ordinary container, which affects its behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A container that is expected to end by itself.
    Main,
    /// A container that runs until it is stopped.
    Stays,
}

/// A word with a known key and an invalid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{word:?}: {problem}")]
pub struct BadWord {
    word: String,
    problem: &'static str,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            run: None,
            exit: vec![0],
            term: Some(TERMINATED),
            term_after: Duration::ZERO,
        }
    }
}

impl Behaviour {
    /// Returns a program that exits after this time with 0.
    pub fn ending_after(run: Duration) -> Self {
        Self {
            run: Some(run),
            ..Self::default()
        }
    }

    /// Returns a program that runs until SIGTERM and then exits with 143, like the park image's.
    pub fn parked() -> Self {
        Self::default()
    }

    /// Parses the arguments of a container.
    ///
    /// # Errors
    /// Returns [`BadWord`] if a known word has an invalid value.
    pub fn of(command: &[String], args: &[String], role: Role) -> Result<Self, BadWord> {
        let words = if args.is_empty() { command } else { args };
        let words: Vec<&str> = words
            .iter()
            .flat_map(|word| word.split_whitespace())
            .collect();
        let mut read = Self::default();
        let mut ours = false;
        for word in &words {
            ours |= read.set(word)?;
        }
        if ours {
            return Ok(read);
        }
        let all: Vec<&str> = command.iter().chain(args).map(String::as_str).collect();
        Ok(Self::ordinary(&Ordinary::of(&all), role))
    }

    /// Returns the exit code of the `n`th start, from 0.
    pub fn exit_code(&self, n: usize) -> i32 {
        self.exit.get(n).or(self.exit.last()).copied().unwrap_or(0)
    }

    /// Applies a word; returns false if it is not a known one.
    fn set(&mut self, word: &str) -> Result<bool, BadWord> {
        let Some((key, value)) = word.split_once('=') else {
            return Ok(false);
        };
        let bad = |problem| BadWord {
            word: word.to_owned(),
            problem,
        };
        match key {
            "run" if value == "forever" => self.run = None,
            "run" => self.run = Some(duration(value).ok_or(bad(NOT_A_TIME))?),
            "exit" => {
                self.exit = value
                    .split(',')
                    .map(exit_code)
                    .collect::<Option<_>>()
                    .ok_or(bad(NOT_A_CODE))?
            }
            "term" if value == "ignore" => self.term = None,
            "term" => self.term = Some(exit_code(value).ok_or(bad(NOT_A_CODE))?),
            "term-after" => self.term_after = duration(value).ok_or(bad(NOT_A_TIME))?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn ordinary(program: &Ordinary, role: Role) -> Self {
        let run = match (role, program) {
            (_, Ordinary::Sleeps(time)) => *time,
            (Role::Stays, _) | (_, Ordinary::Endless) => None,
            (Role::Main, Ordinary::Steps { sleep, .. }) => sleep.unwrap_or(Some(ORDINARY_RUN)),
            (Role::Main, Ordinary::Other) => Some(ORDINARY_RUN),
        };
        let exit = match program {
            Ordinary::Steps { exit, .. } => *exit,
            _ => 0,
        };
        Self {
            run,
            exit: vec![exit],
            ..Self::default()
        }
    }
}

/// The estimated behaviour of a command line that was not written for this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ordinary {
    /// It only sleeps; `None` forever.
    Sleeps(Option<Duration>),
    /// A script of sequential steps: how long it sleeps, and its exit code.
    Steps {
        sleep: Option<Option<Duration>>,
        exit: i32,
    },
    /// An endless loop.
    Endless,
    /// Unknown behaviour.
    Other,
}

/// The words by which shells loop, wait for signals, or run jobs in the background.
const LOOPS: [&str; 5] = ["while", "until", "for", "trap", "wait"];

impl Ordinary {
    fn of(arguments: &[&str]) -> Self {
        let whole: Vec<&str> = match arguments {
            [shell, flag, script, ..] if is_shell(shell) && is_script_flag(flag) => {
                script.split_whitespace().collect()
            }
            _ => arguments
                .iter()
                .flat_map(|word| word.split_whitespace())
                .collect(),
        };
        let bare: Vec<&str> = whole
            .iter()
            .map(|word| word.trim_matches([';', '"', '\'', '(', ')', '{', '}']))
            .filter(|word| !word.is_empty() && *word != "exec")
            .collect();
        if let [name, time] = bare.as_slice()
            && is_program(name, "sleep")
        {
            return Self::Sleeps(sleep_time(time));
        }
        let beside = whole
            .iter()
            .any(|word| *word == "&" || (word.ends_with('&') && !word.ends_with("&&")));
        if !beside && is_endless(&bare) {
            return Self::Endless;
        }
        if beside || bare.iter().any(|word| LOOPS.contains(word)) {
            return Self::Other;
        }
        let after = |name: &str| {
            let place = bare.iter().position(|word| is_program(word, name))?;
            bare.get(place + 1)
        };
        Self::Steps {
            sleep: after("sleep").map(|time| sleep_time(time)),
            exit: after("exit").and_then(|code| exit_code(code)).unwrap_or(0),
        }
    }
}

fn is_program(word: &str, name: &str) -> bool {
    word.rsplit('/').next() == Some(name)
}

fn is_shell(word: &str) -> bool {
    ["sh", "bash", "ash", "dash"]
        .iter()
        .any(|name| is_program(word, name))
}

/// Returns true for `-c`, `-ec` and the like.
fn is_script_flag(word: &str) -> bool {
    word.starts_with('-') && !word.starts_with("--") && word.ends_with('c')
}

fn is_endless(words: &[&str]) -> bool {
    words.windows(2).any(|pair| {
        matches!(pair, ["while", "true" | ":"] | ["until", "false"])
            || is_program(pair[0], "tail") && matches!(pair[1], "-f" | "-F" | "--follow")
    })
}

const NOT_A_TIME: &str = "not a time such as 2s, 1.5s, 200ms or 1m30s";
const NOT_A_CODE: &str = "not an exit code from 0 to 255";

fn exit_code(text: &str) -> Option<i32> {
    text.parse::<u8>().ok().map(i32::from)
}

/// Parses the argument of `sleep`; `None` if it is forever (`infinity`) or cannot be parsed.
pub(super) fn sleep_time(text: &str) -> Option<Duration> {
    let (number, unit) = match text.char_indices().next_back() {
        Some((at, 's')) => (&text[..at], 1.0),
        Some((at, 'm')) => (&text[..at], 60.0),
        Some((at, 'h')) => (&text[..at], 3600.0),
        Some((at, 'd')) => (&text[..at], 86400.0),
        _ => (text, 1.0),
    };
    let seconds = number.parse::<f64>().ok()? * unit;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(command: &[&str], args: &[&str], role: Role) -> Behaviour {
        let owned = |words: &[&str]| {
            words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>()
        };
        Behaviour::of(&owned(command), &owned(args), role).unwrap()
    }

    #[test]
    fn words_are_found_among_args_or_in_the_command() {
        let expected = Behaviour {
            run: Some(Duration::from_secs(2)),
            exit: vec![1, 1, 0],
            term: None,
            term_after: Duration::from_millis(1500),
        };
        assert_eq!(
            read(
                &["/work"],
                &["run=2s", "exit=1,1,0", "term=ignore", "term-after=1.5s"],
                Role::Main
            ),
            expected
        );
        assert_eq!(
            read(
                &[
                    "sh",
                    "-c",
                    "run=2s exit=1,1,0 term=ignore term-after=1500ms"
                ],
                &[],
                Role::Main
            ),
            expected
        );
        assert_eq!(
            (0..4).map(|n| expected.exit_code(n)).collect::<Vec<_>>(),
            [1, 1, 0, 0]
        );
        assert_eq!(read(&[], &["term=0"], Role::Main).run, None);
    }

    #[test]
    fn ordinary_commands_do_what_is_likely() {
        let run = |command: &[&str], role| read(command, &[], role).run.map(|run| run.as_secs());
        assert_eq!(
            run(&["sh", "-c", "echo hello; sleep 5; exit 3"], Role::Main),
            Some(5)
        );
        assert_eq!(
            read(&["sh", "-c", "sleep 5; exit 3"], &[], Role::Main).exit,
            [3]
        );
        assert_eq!(run(&["/bin/sleep", "infinity"], Role::Main), None);
        assert_eq!(run(&["tail", "-f", "x"], Role::Stays), None);
        assert_eq!(run(&["make", "all"], Role::Main), Some(2));
    }

    /// The sleep in the loop of a log collector says nothing about its end.
    #[test]
    fn a2_a_sleep_in_a_loop_or_among_others_ends_no_sidecar() {
        let run = |command: &[&str], role| read(command, &[], role).run.map(|run| run.as_secs());
        let scripts = [
            "while true; do tail -F /logs/*; sleep 1; done",
            "until [ -f /done ]; do sleep 1; done",
            "for i in 1 2 3; do sleep 1; done",
            "trap 'exit 0' TERM; sleep 1 & wait",
            "sleep 1; exec fluent-bit",
        ];
        for script in scripts {
            assert_eq!(run(&["sh", "-c", script], Role::Stays), None, "{script}");
            let split: Vec<&str> = script.split(' ').collect();
            assert_eq!(run(&split, Role::Stays), None, "{script}");
        }
        for whole in [
            &["sleep", "5"][..],
            &["sh", "-c", "sleep 5"],
            &["/bin/bash", "-ec", "exec sleep 5;"],
        ] {
            assert_eq!(run(whole, Role::Stays), Some(5), "{whole:?}");
            assert_eq!(run(whole, Role::Main), Some(5), "{whole:?}");
        }
    }

    #[test]
    fn a2_loops_of_main_containers_run_as_long_as_they_would() {
        let run = |script| {
            read(&["sh", "-c", script], &[], Role::Main)
                .run
                .map(|run| run.as_secs())
        };
        assert_eq!(run("while true; do work; sleep 1; done"), None);
        assert_eq!(run("tail -f /dev/null"), None);
        // These end, and nobody knows when.
        assert_eq!(run("for i in 1 2 3; do sleep 30; done"), Some(2));
        assert_eq!(
            run("while ! nc -z db 1; do sleep 30; done; migrate"),
            Some(2)
        );
        assert_eq!(run("(while true; do beat; sleep 1; done) & work"), Some(2));
    }

    #[test]
    fn bad_values_are_refused_in_words() {
        let bad = |word: &str| {
            Behaviour::of(&[], &[word.to_owned()], Role::Main)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            bad("run=soon"),
            "\"run=soon\": not a time such as 2s, 1.5s, 200ms or 1m30s"
        );
        assert_eq!(
            bad("exit=300"),
            "\"exit=300\": not an exit code from 0 to 255"
        );
    }
}
