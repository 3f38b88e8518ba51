//! The reference of the command lines (`docs/cli`) and the man pages (`docs/man`) are generated
//! from their definitions.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::slice;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

/// Set to anything, the files are written instead of compared.
const UPDATE: &str = "SWAPLET_UPDATE_DOCS";
/// The width of `--help` on a wide terminal, whatever the terminal of this test is.
const WIDTH: usize = 100;

/// File names with what belongs into them.
type Files = BTreeMap<String, String>;

#[test]
fn the_reference_of_the_command_line_is_up_to_date() {
    let mut files = Files::new();
    let roots = commands();
    files.insert("README.md".to_owned(), index(&roots));
    visit(&roots, &mut |command| {
        files.insert(format!("{}.md", file_stem(command)), page(command));
    });
    keep("docs/cli", &files);
}

#[test]
fn the_man_pages_are_up_to_date() {
    let mut files = Files::new();
    visit(&commands(), &mut |command| {
        let mut page = Vec::new();
        Man::new(command.clone()).render(&mut page).unwrap();
        files.insert(
            format!("{}.1", file_stem(command)),
            String::from_utf8(page).unwrap(),
        );
    });
    keep("docs/man", &files);
}

/// The definitions of all programs, independent of the terminal and of the environment in which
/// they are printed.
fn commands() -> [Command; 2] {
    fn settle(command: Command) -> Command {
        let names: Vec<_> = command
            .get_subcommands()
            .map(|sub| sub.get_name().to_owned())
            .collect();
        let command = command
            .term_width(WIDTH)
            .disable_help_subcommand(true)
            .mut_args(|argument| argument.hide_env_values(true));
        names.into_iter().fold(command, |command, name| {
            command.mut_subcommand(name, settle)
        })
    }
    [swaplet::cli::Cli::command(), swaplet_demo::Cli::command()].map(|command| {
        let mut command = settle(command);
        command.build();
        command
    })
}

fn visit(roots: &[Command], each: &mut impl FnMut(&Command)) {
    for command in roots {
        each(command);
        command
            .get_subcommands()
            .for_each(|sub| visit(slice::from_ref(sub), each));
    }
}

fn full_name(command: &Command) -> &str {
    command.get_bin_name().unwrap_or(command.get_name())
}

fn file_stem(command: &Command) -> String {
    full_name(command).replace(' ', "-")
}

fn index(roots: &[Command]) -> String {
    let mut text =
        "# The command line\n\nGenerated from the programs: each page is what `--help` says.\n\n| command | |\n|---|---|\n".to_owned();
    visit(roots, &mut |command| {
        let about = command.get_about().unwrap().to_string();
        writeln!(
            text,
            "| [{}]({}.md) | {about} |",
            full_name(command),
            file_stem(command)
        )
        .unwrap();
    });
    text
}

/// What `--help` says. What follows the options has lines of its own, so it is not broken again.
fn page(command: &Command) -> String {
    let after = command
        .get_after_help()
        .map(|help| format!("\n{help}\n"))
        .unwrap_or_default();
    let help = command
        .clone()
        .after_help(None::<&str>)
        .render_long_help()
        .to_string();
    let lines: Vec<_> = help.lines().map(str::trim_end).collect();
    format!(
        "# {}\n\n```text\n{}\n{after}```\n",
        full_name(command),
        lines.join("\n").trim_end()
    )
}

/// Compares the folder with what belongs into it, or writes it.
fn keep(folder: &str, files: &Files) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let there: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let stale = there.iter().filter(|name| !files.contains_key(*name));
    if std::env::var_os(UPDATE).is_some() {
        stale.for_each(|name| fs::remove_file(folder.join(name)).unwrap());
        // The index last: its links are checked at the same time.
        files
            .iter()
            .rev()
            .for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
        return;
    }
    let different = files
        .iter()
        .filter(|(name, text)| fs::read_to_string(folder.join(name)).ok().as_ref() != Some(text));
    let wrong: Vec<_> = stale.chain(different.map(|(name, _)| name)).collect();
    assert!(
        wrong.is_empty(),
        "not up to date in {}: {wrong:?}\nrun {UPDATE}=1 cargo test --test docs",
        folder.display()
    );
}
