//! The documents of the repository, read as GitHub shows them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// What is asked of a document.
#[derive(Default)]
pub struct Document {
    pub headings: Vec<Heading>,
    /// Where its links and images lead, as it is written.
    pub links: Vec<String>,
}

/// A heading, and the anchor that GitHub gives it.
pub struct Heading {
    pub level: HeadingLevel,
    pub text: String,
    pub anchor: String,
}

/// Every Markdown file of the repository that belongs to it, by its path in it.
pub fn documents() -> BTreeMap<PathBuf, Document> {
    let root = root();
    let mut files = Vec::new();
    collect(root, ".md", &mut files);
    files
        .into_iter()
        .map(|file| {
            (
                file.strip_prefix(root).unwrap().to_owned(),
                Document::read(&file),
            )
        })
        .collect()
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Adds the files of a folder whose names end so, and those of the folders in it.
pub fn collect(folder: &Path, ending: &str, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if name.starts_with('.') || name == "target" {
            continue;
        }
        if path.is_dir() {
            collect(&path, ending, files);
        } else if name.ends_with(ending) {
            files.push(path);
        }
    }
}

impl Document {
    pub fn read(file: &Path) -> Self {
        let text =
            fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut document = Self::default();
        let mut heading: Option<(HeadingLevel, String)> = None;
        for event in Parser::new_ext(&text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    document.links.push(dest_url.to_string())
                }
                Event::Start(Tag::Heading { level, .. }) => heading = Some((level, String::new())),
                Event::Text(words) | Event::Code(words) => {
                    if let Some((_, text)) = &mut heading {
                        text.push_str(&words);
                    }
                }
                Event::End(TagEnd::Heading(_)) => {
                    let (level, text) = heading.take().unwrap();
                    document.add_heading(level, text);
                }
                _ => {}
            }
        }
        document
    }

    fn add_heading(&mut self, level: HeadingLevel, text: String) {
        let kept = text
            .to_lowercase()
            .chars()
            .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter))
            .collect::<String>();
        let anchor = kept.replace(' ', "-");
        let same = self
            .headings
            .iter()
            .filter(|heading| heading.text == text)
            .count();
        let anchor = if same == 0 {
            anchor
        } else {
            format!("{anchor}-{same}")
        };
        self.headings.push(Heading {
            level,
            text,
            anchor,
        });
    }
}
