//! Programs that are files of a ConfigMap, Secret or the like: scripts.

use super::view::{Found, View};
use super::words::Obstacle;
use super::{Executes, INTERPRETERS, Refusal, Run, missing, path};

/// The number of bytes of a file in which the kernel looks for the interpreter (`BINPRM_BUF_SIZE`).
const LOOKED_AT: usize = 256;

/// The beginning of a file, as far as it decides what the kernel would execute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstLine {
    /// `#!` and this path, as it is written.
    Interpreter(Box<str>),
    /// The head of a program that needs no interpreter (ELF).
    Program,
    /// Neither, so the file cannot be executed.
    Neither,
}

impl FirstLine {
    /// Reads the first bytes of a file like Linux does.
    pub fn read(content: &[u8]) -> Self {
        let head = &content[..content.len().min(LOOKED_AT)];
        if head.starts_with(b"\x7fELF") {
            return Self::Program;
        }
        let line = head
            .strip_prefix(b"#!")
            .and_then(|rest| rest.split(|byte| matches!(byte, b'\n' | b'\0')).next());
        let mut words = line
            .unwrap_or_default()
            .split(|byte| matches!(byte, b' ' | b'\t'))
            .filter(|word| !word.is_empty());
        match words.next().map(std::str::from_utf8) {
            Some(Ok(interpreter)) => Self::Interpreter(interpreter.into()),
            _ => Self::Neither,
        }
    }
}

/// Resolves a script. The kernel starts its interpreter, which is the exit image's.
pub(super) fn run(script: &str, view: &View<'_>) -> Result<Run, Refusal> {
    match (view.first_line)(script) {
        None => assumed(script, view),
        Some(FirstLine::Interpreter(written)) => read(script, &written, view),
        Some(FirstLine::Program) => Err(Refusal::at(Obstacle::ProgramOnVolume, script)),
        Some(FirstLine::Neither) => Err(Refusal::at(Obstacle::CommandInvalid, script)),
    }
}

fn read(script: &str, written: &str, view: &View<'_>) -> Result<Run, Refusal> {
    let interpreter =
        path::normal(written).ok_or_else(|| Refusal::at(Obstacle::CommandInvalid, script))?;
    view.check_below(&interpreter)?;
    let paths = match view.find(&interpreter) {
        Found::InImage => Vec::new(),
        Found::Missing => missing(&interpreter)?.1,
        Found::Configuration | Found::Volume => {
            return Err(Refusal::at(Obstacle::ProgramOnVolume, &interpreter));
        }
    };
    let path = script.to_owned();
    Ok((Executes::ReadScript { path, interpreter }, paths))
}

/// Resolves a script that was not read: every usual interpreter has to be the exit image's.
fn assumed(script: &str, view: &View<'_>) -> Result<Run, Refusal> {
    let mut paths = Vec::new();
    for interpreter in INTERPRETERS {
        view.check_below(interpreter)?;
        match view.find(interpreter) {
            Found::InImage => {}
            Found::Missing => paths.push(interpreter.to_owned()),
            Found::Configuration | Found::Volume => {
                return Err(Refusal::at(Obstacle::ProgramOnVolume, interpreter));
            }
        }
    }
    Ok((Executes::Script(script.to_owned()), paths))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_begins_as_linux_reads_it() {
        let interpreter = |path: &str| FirstLine::Interpreter(path.into());
        for (content, begins) in [
            ("#!/bin/sh\nexec x\n", interpreter("/bin/sh")),
            ("#! \t/usr/bin/env  python3\n", interpreter("/usr/bin/env")),
            ("#!/bin/sh", interpreter("/bin/sh")),
            ("#!/bin/sh\r\n", interpreter("/bin/sh\r")),
            ("\u{7f}ELF\u{2}", FirstLine::Program),
            ("exec x\n#!/bin/sh\n", FirstLine::Neither),
            ("\u{feff}#!/bin/sh\n", FirstLine::Neither),
            ("#!\n/bin/sh", FirstLine::Neither),
            ("#!", FirstLine::Neither),
            ("", FirstLine::Neither),
        ] {
            assert_eq!(FirstLine::read(content.as_bytes()), begins, "{content:?}");
        }
        let endless = format!("#!/{}", "a".repeat(1 << 20));
        let FirstLine::Interpreter(path) = FirstLine::read(endless.as_bytes()) else {
            panic!("it names an interpreter");
        };
        assert!(path.len() < LOOKED_AT);
    }
}
