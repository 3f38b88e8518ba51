//! The reference of the command lines (`docs/cli`) and the man pages (`docs/man`) are generated
//! from their definitions.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::{fs, slice};

use clap::Command;
use clap_mangen::Man;
use swaplet_edge::command_line::{WIDTH, in_summary};
use swaplet_edge::exit;

/// Set to anything, the files are written instead of compared.
const UPDATE: &str = "SWAPLET_UPDATE_DOCS";

/// What two screens hold at most.
const SUMMARY: usize = 60;

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
    [swaplet::cli::definition(), swaplet_demo::definition()].map(|command| {
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
    let codes: String = exit::TABLE
        .iter()
        .map(|(code, meaning)| format!("| {code} | {meaning} |\n"))
        .collect();
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
    text.push_str("\n## Exit codes\n\nThe same for every command; `--help` of each says what counts as a failure there.\n\n| code | |\n|---|---|\n");
    text.push_str(&codes);
    text
}

/// What `--help` says.
fn page(command: &Command) -> String {
    let help = long_help(command);
    format!("# {}\n\n```text\n{help}\n```\n", full_name(command))
}

fn long_help(command: &Command) -> String {
    let help = command.clone().render_long_help().to_string();
    let lines: Vec<_> = help.lines().map(str::trim_end).collect();
    lines.join("\n").trim_end().to_owned()
}

/// Lines of a paragraph are as long as they can be: none is broken twice, in the source and on the
/// terminal. What is indented has lines of its own: options, tables, examples.
fn ragged(help: &str) -> Option<String> {
    let lines: Vec<_> = help.lines().collect();
    let pair = lines.windows(2).find(|pair| {
        let next = pair[1].split(' ').next().unwrap();
        let is_text = |line: &str| !line.is_empty() && !line.starts_with(' ');
        is_text(pair[0])
            && is_text(pair[1])
            && pair[0].chars().count() + 1 + next.chars().count() <= WIDTH
    });
    pair.map(|pair| pair.join("\n"))
}

#[test]
fn a11_help_fits_into_100_columns_and_its_paragraphs_are_broken_once() {
    assert_eq!(
        ragged(&format!("short\nbroken\n\n{}\nend", "a".repeat(95))),
        Some("short\nbroken".to_owned())
    );
    let mut wrong = Vec::new();
    visit(&commands(), &mut |command| {
        let name = full_name(command);
        let help = long_help(command);
        let long = help.lines().find(|line| line.chars().count() > WIDTH);
        wrong.extend(long.map(|line| format!("{name}: too long: {line}")));
        wrong.extend(ragged(&help).map(|lines| format!("{name}: broken twice: {lines}")));
        // An example is a line that was not broken at all.
        let source = command.get_after_long_help().map(ToString::to_string);
        let examples = source.iter().flat_map(|text| text.lines());
        let lost = examples
            .filter(|line| line.starts_with(' '))
            .find(|line| !help.lines().any(|shown| shown == line.trim_end()));
        wrong.extend(lost.map(|line| format!("{name}: not as it is written: {line}")));
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_short_help_is_a_summary() {
    let mut wrong = Vec::new();
    visit(&commands().map(in_summary), &mut |command| {
        let short = command.clone().render_help().to_string();
        let (short_lines, long_lines) = (short.lines().count(), long_help(command).lines().count());
        if short.contains("Examples:") || short_lines > SUMMARY || short_lines > long_lines {
            wrong.push(format!(
                "{}: {short_lines} of {long_lines}",
                full_name(command)
            ));
        }
    });
    assert!(wrong.is_empty(), "{wrong:?}");
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
