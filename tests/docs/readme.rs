//! The README is short, its commands are there, and what it shows is what was recorded.

use std::fs;
use std::path::Path;

use clap::{Command, CommandFactory};
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use crate::markdown::{documents, root};

/// The output of the way that the README describes: `e2e/cases/newcomer.rs` writes it.
const RECORDED: &str = include_str!("../../e2e/cases/newcomer/output.txt");

fn read(file: &Path) -> String {
    fs::read_to_string(root().join(file)).unwrap()
}

/// The fenced code of a document, with the language of each.
fn fenced(text: &str) -> Vec<(String, String)> {
    let (mut blocks, mut open) = (Vec::new(), None);
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                open = Some((language.to_string(), String::new()));
            }
            Event::Text(words) => {
                if let Some((_, code)) = &mut open {
                    code.push_str(&words);
                }
            }
            Event::End(TagEnd::CodeBlock) => blocks.extend(open.take()),
            _ => {}
        }
    }
    blocks
}

/// The code within sentences and tables.
fn inline(text: &str) -> Vec<String> {
    let code = |event| match event {
        Event::Code(code) => Some(code.to_string()),
        _ => None,
    };
    Parser::new(text).filter_map(code).collect()
}

#[test]
fn the_readme_is_short_and_opens_with_two_commands_that_are_there() {
    let text = read(Path::new("README.md"));
    assert!(text.lines().count() <= 150, "{}", text.lines().count());
    let opening: Vec<_> = text.lines().take(15).collect();
    for command in ["cargo demo ", "./test "] {
        assert!(
            opening.iter().any(|line| line.starts_with(command)),
            "{command}"
        );
    }
    assert!(read(Path::new(".cargo/config.toml")).contains("\ndemo = "));
    assert!(root().join("test").is_file());
}

#[test]
fn what_the_readme_shows_is_what_was_recorded() {
    let shown = fenced(&read(Path::new("README.md")))
        .into_iter()
        .filter(|(language, _)| language == "console");
    let shown: Vec<_> = shown.map(|(_, code)| code).collect();
    assert!(!shown.is_empty());
    for code in shown {
        assert!(RECORDED.contains(&code), "not recorded:\n{code}");
    }
}

/// Users of ECI read this one page.
#[test]
fn a16_the_page_of_alibaba_eci_names_image_caches() {
    let page = read(Path::new("docs/install/alibaba-eci.md"));
    for wanted in ["--warm-image-caches", "warm.jobs.imageCaches", "ImageCache"] {
        assert!(page.contains(wanted), "{wanted}");
    }
}

/// Commands and flags that the documents name are those of the programs.
#[test]
fn what_the_documents_call_is_there() {
    let programs = [swaplet::cli::Cli::command(), swaplet_demo::Cli::command()];
    let (mut wrong, mut called) = (Vec::new(), 0);
    for path in documents().into_keys() {
        let ours = path.starts_with("docs") && !path.starts_with("docs/cli");
        if !ours && path != Path::new("README.md") {
            continue;
        }
        let text = read(&path);
        let blocks = fenced(&text)
            .into_iter()
            .filter(|(language, _)| ["sh", "console"].contains(&&**language))
            .flat_map(|(_, code)| lines(&code));
        for call in blocks.chain(inline(&text)) {
            for program in &programs {
                let words: Vec<_> = call
                    .trim_start_matches("$ ")
                    .split_whitespace()
                    .take_while(|word| !word.starts_with(['#', '|']))
                    .collect();
                if words.first() == Some(&program.get_name()) {
                    called += 1;
                    wrong.extend(
                        unknown(program, &words[1..])
                            .into_iter()
                            .map(|word| format!("{}: {word}: {call}", path.display())),
                    );
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(called > 100, "{called}");
}

/// The commands of a block, each in one line.
fn lines(code: &str) -> Vec<String> {
    let joined = code.replace("\\\n", " ");
    joined.lines().map(str::to_owned).collect()
}

/// The first word that is neither a subcommand nor a flag of the command which it is for.
fn unknown<'a>(program: &Command, words: &[&'a str]) -> Option<&'a str> {
    let mut command = program;
    let mut may_be_subcommand = true;
    for &word in words {
        if let Some(flag) = word.strip_prefix("--") {
            let name = flag.split('=').next().unwrap_or_default();
            let name = name.trim_end_matches(|letter: char| !letter.is_alphanumeric());
            let is_there = command
                .get_arguments()
                .any(|argument| argument.get_long() == Some(name));
            if !is_there && !["help", "version", ""].contains(&name) {
                return Some(word);
            }
            may_be_subcommand = false;
        } else if may_be_subcommand && command.has_subcommands() {
            match command.find_subcommand(word) {
                Some(next) => command = next,
                None if command.is_subcommand_required_set() => return Some(word),
                None => may_be_subcommand = false,
            }
        }
    }
    None
}
