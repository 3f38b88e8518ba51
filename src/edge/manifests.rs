//! Manifests as users have them: files, folders and standard input; YAML with several documents, or
//! JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, slice};

use anyhow::{Context, anyhow, bail};
use serde_json::Value;

/// The most bytes of a manifest, which bounds what is read from a pipe or a wrong file.
const MAX_BYTES: u64 = 64 << 20;
/// The most values and keys of a document of JSON, of which each can take 200 bytes of memory. A
/// list of a thousand pods has fewer. The parser of YAML has a bound of its own.
const MAX_NODES: usize = 1_000_000;

/// How many lines before and behind the name of a container may have its image.
const NEAR: usize = 1000;
/// How many folders above a file may have the kustomization that lists it.
const FOLDERS_ABOVE: usize = 4;

/// What the parser of YAML says, before the insides of its bounds.
const TOO_MUCH: &str = "budget breached";

/// The path that means standard input.
const STDIN: &str = "-";

/// One document of a file.
#[derive(Debug)]
pub struct Document {
    /// The file as it was named; `-` is standard input.
    pub file: String,
    /// The object that the document describes.
    pub object: Value,
    /// The folder of the kustomization that lists the file as a patch.
    pub patch_in: Option<PathBuf>,
    /// How kustomize made it, if it did.
    pub made: Option<Made>,
    /// What is called `name` in the text; one text may describe many objects.
    names: Arc<[Name]>,
}

/// How kustomize made a document.
#[derive(Clone, Debug)]
pub struct Made {
    /// The folder of which it made it.
    pub folder: PathBuf,
    /// The command that makes it, before the folder, such as `kubectl kustomize`.
    pub by: &'static str,
}

/// A value of a key `name`.
#[derive(Debug)]
struct Name {
    value: Box<str>,
    line: usize,
    /// True if there is an `image` beside it: that of a container.
    has_image: bool,
}

impl Document {
    /// Returns its file, or the folder of which kustomize made it.
    pub fn place(&self) -> String {
        let folder = self.made.as_ref().map(|made| &*made.folder);
        folder.map_or_else(|| self.file.clone(), shown)
    }

    /// Returns the line of the file where the object gets its name.
    pub fn line(&self) -> Option<usize> {
        let name = self.object["metadata"]["name"].as_str()?;
        let mut names = self.names.iter();
        let found = names.find(|known| *known.value == *name && !known.has_image);
        found.map(|name| name.line)
    }

    /// Returns the line of the file where a container of the object gets its name.
    pub fn line_of(&self, container: &str) -> Option<usize> {
        let begins = self.line().unwrap_or_default();
        let named = || self.names.iter().filter(|name| *name.value == *container);
        let is_it = |name: &&Name| name.has_image && name.line >= begins;
        let found = named().find(is_it).or_else(|| named().next());
        found.map(|name| name.line)
    }
}

/// The documents that were read, and the errors of what could not be read.
#[derive(Debug, Default)]
pub struct Manifests {
    /// The documents, in the order of the files.
    pub documents: Vec<Document>,
    /// The errors of what could not be read, each with its file.
    pub problems: Vec<anyhow::Error>,
    /// What was left out because only another program makes manifests of it, each with its file.
    pub notes: Vec<String>,
    patches: Arc<Patches>,
}

/// The folders of kustomizations, by the whole paths of the files that they list as patches.
#[derive(Debug, Default)]
struct Patches(BTreeMap<PathBuf, PathBuf>);

impl Patches {
    /// Reads the kustomizations of the folders of these paths, and of some folders above: a patch may
    /// be in a folder beside its overlay.
    fn of(paths: &[PathBuf]) -> Self {
        let files_of = |path: &PathBuf| match path.is_dir() {
            // What cannot be read is reported by who reads the files.
            true => files(path, &mut Vec::new()),
            false => vec![path.clone()],
        };
        let files: Vec<_> = paths.iter().flat_map(files_of).collect();
        let above = |file: &'_ PathBuf| -> Vec<PathBuf> {
            let folders = file.ancestors().skip(1).take(FOLDERS_ABOVE);
            folders.map(Path::to_owned).collect()
        };
        let folders: BTreeSet<_> = files.iter().flat_map(above).collect();
        let mut patches = Self::default();
        for folder in folders {
            let Some(kustomization) = kustomization(&folder) else {
                continue;
            };
            let mut read = Manifests::default();
            read.add_file(&kustomization);
            for document in &read.documents {
                let of = |field: &str| document.object[field].as_array().into_iter().flatten();
                let patches_of = of("patches").chain(of("patchesJson6902"));
                let listed = patches_of.map(|patch| &patch["path"]);
                let listed = listed.chain(of("patchesStrategicMerge"));
                let paths =
                    listed.filter_map(|path| folder.join(path.as_str()?).canonicalize().ok());
                patches.0.extend(paths.map(|path| (path, folder.clone())));
            }
        }
        patches
    }

    /// Returns the folder of the kustomization that lists this file.
    fn folder(&self, file: &str) -> Option<&PathBuf> {
        if self.0.is_empty() || file == STDIN {
            return None;
        }
        self.0.get(&fs::canonicalize(file).ok()?)
    }
}

impl Manifests {
    /// Reads files and folders; `-` is standard input. One that cannot be read does not keep the
    /// others from being read.
    pub fn read(paths: &[PathBuf]) -> Self {
        Self::read_beside(paths, &Arc::new(Patches::of(paths)))
    }

    fn read_beside(paths: &[PathBuf], patches: &Arc<Patches>) -> Self {
        let mut manifests = Self {
            patches: Arc::clone(patches),
            ..Self::default()
        };
        for path in paths {
            manifests.add(path);
        }
        manifests
    }

    /// Reads like [`Manifests::read`], and returns in words what has no manifest though it should:
    /// a pipe or a folder. A file of comments among others is normal.
    pub fn read_each(paths: &[PathBuf]) -> (Self, Vec<String>) {
        let mut all = Self::default();
        let mut empty = Vec::new();
        let patches = Arc::new(Patches::of(paths));
        for path in paths {
            let read = Self::read_beside(slice::from_ref(path), &patches);
            if read.documents.is_empty() && read.problems.is_empty() && read.notes.is_empty() {
                empty.push(path);
            }
            all.documents.extend(read.documents);
            all.problems.extend(read.problems);
            all.notes.extend(read.notes);
        }
        let nothing = all.documents.is_empty() && all.notes.is_empty();
        let words = empty
            .into_iter()
            .filter(|path| nothing || !path.is_file())
            .map(|path| nothing_in(path))
            .collect();
        (all, words)
    }

    /// Reads a text that is not in a file.
    pub fn of(text: &str) -> Self {
        let mut manifests = Self::default();
        manifests.parse(STDIN, text);
        manifests
    }

    /// Reads what kustomize made; its lines are those of no file.
    pub fn made(made: &Made, text: &str) -> Self {
        let mut manifests = Self::of(text);
        for document in &mut manifests.documents {
            document.made = Some(made.clone());
            document.names = Arc::default();
        }
        manifests
    }

    fn add(&mut self, path: &Path) {
        if path == Path::new(STDIN) {
            self.add_text(STDIN, limited(io::stdin().lock()).context("standard input"));
        } else if path.is_dir() {
            for file in files(path, &mut self.problems) {
                self.add_file(&file);
            }
        } else {
            self.add_file(path);
        }
    }

    fn add_file(&mut self, path: &Path) {
        let name = path.display().to_string();
        if let Some(chart) = chart_of(path) {
            self.notes.push(format!(
                "{name}: a template of a chart: `helm template {} | swaplet check -f -` checks what it makes",
                chart.display()
            ));
            return;
        }
        let text = fs::File::open(path)
            .map_err(anyhow::Error::from)
            .and_then(limited)
            .with_context(|| name.clone());
        self.add_text(&name, text);
    }

    fn add_text(&mut self, file: &str, text: anyhow::Result<String>) {
        match text {
            Ok(text) => self.parse(file, &text),
            Err(problem) => self.problems.push(problem),
        }
    }

    fn parse(&mut self, file: &str, text: &str) {
        for (number, part) in parts(text).into_iter().enumerate() {
            let place = format!("{file}: document {}", number + 1);
            match part.parse() {
                Ok(objects) => {
                    let names: Arc<[_]> = part.names().into();
                    for object in objects.into_iter().filter(|object| !object.is_null()) {
                        if let Err(problem) = self.take(file, object, &names) {
                            let problem = format!("{place}, line {}: {problem}", part.line);
                            let listed =
                                self.patches.folder(file).map(|folder| listed_patch(folder));
                            match patch(file).or(listed) {
                                Some(words) => self.notes.push(format!("{problem}; {words}")),
                                None => self.problems.push(anyhow!(problem)),
                            }
                        }
                    }
                }
                Err(problem) => self.problems.push(anyhow!("{place}, {problem}")),
            }
        }
    }
}

impl Manifests {
    /// Adds an object, or the objects of a `kind: List`, or a list of another program.
    fn take(
        &mut self,
        file: &str,
        mut object: Value,
        names: &Arc<[Name]>,
    ) -> Result<(), &'static str> {
        if !object.is_object() && !is_of_others(&object) {
            return Err("not an object");
        }
        if object["kind"] != "List" {
            self.documents.push(Document {
                file: file.to_owned(),
                patch_in: self.patches.folder(file).cloned(),
                made: None,
                object,
                names: names.clone(),
            });
            return Ok(());
        }
        match object["items"].take() {
            Value::Null => Ok(()),
            Value::Array(items) => items
                .into_iter()
                .filter(|item| !item.is_null())
                .try_for_each(|item| self.take(file, item, names)),
            _ => Err("items is not a list"),
        }
    }
}

/// Returns true for a list of another program, such as a playbook of Ansible: of neither objects nor
/// the operations of a patch.
fn is_of_others(value: &Value) -> bool {
    let has = |item: &Value, field: &str| !item[field].is_null();
    let is_ours = |item: &Value| {
        ["kind", "metadata", "op"]
            .iter()
            .any(|field| has(item, field))
    };
    value
        .as_array()
        .is_some_and(|items| !items.iter().any(is_ours))
}

/// Returns the folder of the chart whose template this is.
fn chart_of(path: &Path) -> Option<&Path> {
    let folders = path.ancestors().skip(1);
    let mut templates = folders.filter(|folder| folder.ends_with("templates"));
    let charts = templates.find_map(|folder| folder.parent());
    charts.filter(|chart| chart.join("Chart.yaml").is_file())
}

/// Returns what a file may be that is no whole manifest: kustomize makes one of it, if there is a
/// kustomization beside it.
pub fn patch(file: &str) -> Option<String> {
    if file == STDIN {
        return None;
    }
    let folder = Path::new(file).parent()?;
    kustomization(folder)?;
    Some(format!(
        "if it is a patch of kustomize, {}",
        checked(folder)
    ))
}

/// Returns what makes manifests of a file that the kustomization of this folder lists as a patch.
pub fn listed_patch(folder: &Path) -> String {
    format!("it is a patch of kustomize: {}", checked(folder))
}

/// Returns what checks the manifests that kustomize makes of a folder.
pub fn checked(folder: &Path) -> String {
    format!("`swaplet check -k {}` checks what it makes", shown(folder))
}

/// Returns a folder as an argument of a command.
pub fn shown(folder: &Path) -> String {
    match folder.as_os_str().is_empty() {
        true => ".".to_owned(),
        false => folder.display().to_string(),
    }
}

/// The names that a kustomization has.
const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Returns true if a file has the name of a kustomization.
pub fn is_kustomization(file: &str) -> bool {
    let name = Path::new(file).file_name();
    name.is_some_and(|name| KUSTOMIZATIONS.iter().any(|known| name == *known))
}

fn kustomization(folder: &Path) -> Option<PathBuf> {
    let mut paths = KUSTOMIZATIONS.iter().map(|name| folder.join(name));
    paths.find(|path| path.is_file())
}

fn nothing_in(path: &Path) -> String {
    if path == Path::new(STDIN) {
        "standard input has no manifest: did the command before it fail? \
         (`set -o pipefail` in bash lets the pipe fail with it)"
            .to_owned()
    } else if path.is_dir() {
        format!(
            "{}: no manifest (.yaml, .yml, .json) in this folder",
            path.display()
        )
    } else {
        format!("{}: no manifest, only comments or nothing", path.display())
    }
}

/// Returns all manifests of a folder and its folders, sorted. Hidden folders and links to folders
/// are skipped, because version control has such folders. A folder that cannot be read becomes a
/// problem.
fn files(folder: &Path, problems: &mut Vec<anyhow::Error>) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    match fs::read_dir(folder) {
        Ok(entries) => paths.extend(entries.map(|entry| entry.map(|entry| entry.path()))),
        Err(error) => paths.push(Err(error)),
    }
    let mut entries = Vec::new();
    for path in paths {
        match path.with_context(|| folder.display().to_string()) {
            Ok(path) => entries.push(path),
            Err(problem) => problems.push(problem),
        }
    }
    entries.sort_unstable();
    let mut found = Vec::new();
    for path in entries {
        let hidden = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.is_dir() {
            if !hidden && !path.is_symlink() {
                found.extend(files(&path, problems));
            }
        } else if path.extension().is_some_and(|extension| {
            ["yaml", "yml", "json"]
                .iter()
                .any(|known| extension == *known)
        }) {
            found.push(path);
        }
    }
    found
}

fn limited(reader: impl Read) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    reader.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        bail!("larger than {} MiB", MAX_BYTES >> 20);
    }
    String::from_utf8(bytes).map_err(|_| anyhow!("not UTF-8 text"))
}

/// One document of a text.
struct Part<'a> {
    /// The line of the text at which it begins, from 1.
    line: usize,
    text: &'a str,
}

/// Splits a text at the markers `---` and `...`, which are markers at the start of a line, whatever
/// is around them: also in JSON, where no string has the end of a line.
fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = vec![Part { line: 1, text: "" }];
    let mut start = 0;
    let mut end = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        end += line.len();
        let marker = line.starts_with("---") || line.trim_end() == "...";
        let alone = line
            .get(3..)
            .is_none_or(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if marker && alone {
            // The text behind the marker on its line belongs to the document.
            start = end - line.len() + 3;
            parts.push(Part {
                line: index + 1,
                text: "",
            });
        }
        if let Some(part) = parts.last_mut() {
            part.text = &text[start..end];
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Returns how many values and keys a text of JSON has at most: each but the first follows one of
/// these characters outside of a string.
fn nodes(text: &str) -> usize {
    let (mut nodes, mut in_string, mut is_escaped) = (1, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' | b',' | b':' if !in_string => nodes += 1,
            _ => {}
        }
    }
    nodes
}

impl Part<'_> {
    /// Returns the values of the keys `name`.
    fn names(&self) -> Vec<Name> {
        let ends = |sign: char| !(sign.is_ascii_alphanumeric() || "-._".contains(sign));
        let lines: Vec<_> = self.text.lines().collect();
        let mut names = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            let mut found = line.match_indices("name").peekable();
            while let Some((at, _)) = found.next() {
                let rest = line[at + "name".len()..].trim_start_matches(['"', '\'']);
                let is_key = line[..at]
                    .chars()
                    .next_back()
                    .is_none_or(|sign| " \"'{,".contains(sign));
                let Some(rest) = rest.strip_prefix(':').filter(|_| is_key) else {
                    continue;
                };
                let value = rest.trim_start_matches([' ', '"', '\'']);
                let up_to = found.peek().map_or(line.len(), |(next, _)| *next);
                names.push(Name {
                    value: value.split(ends).next().unwrap_or_default().into(),
                    line: self.line + index,
                    has_image: line[at..up_to].contains("image") || has_image(&lines, index),
                });
            }
        }
        names
    }

    /// Returns true for nothing but blank lines, comments and directives.
    fn is_empty(&self) -> bool {
        self.text.lines().all(|line| {
            line.trim().is_empty() || line.trim_start().starts_with('#') || line.starts_with('%')
        })
    }

    /// Returns the values; of JSON there may be several, one after the other, as `jq` prints them.
    fn parse(&self) -> Result<Vec<Value>, String> {
        if self.text.trim_start().starts_with('{') {
            if nodes(self.text) > MAX_NODES {
                return Err(format!(
                    "line {}: more than {MAX_NODES} values and keys: write it into several files",
                    self.line
                ));
            }
            let values = serde_json::Deserializer::from_str(self.text).into_iter::<Value>();
            if let Ok(values) = values.collect::<Result<_, _>>() {
                return Ok(values);
            }
        }
        // `defaultMode: 0644` is 420: kubectl reads YAML 1.1, where a leading zero means octal.
        let options = serde_saphyr::options! { legacy_octal_numbers: true };
        serde_saphyr::from_str_with_options(self.text, options)
            .map(|value| vec![value])
            .map_err(|error| self.problem(&error))
    }

    fn problem(&self, error: &serde_saphyr::Error) -> String {
        let line = error.location().map_or(self.line, |location| {
            self.line + (location.line() as usize).saturating_sub(1)
        });
        let message = error.to_string();
        let message = message
            .lines()
            .find(|line| !line.trim().is_empty())
            .unwrap_or("not YAML")
            .trim_start_matches("error: ");
        let message = match message.contains(TOO_MUCH) {
            true => "more values, keys or aliases than a manifest has: write it into several files",
            false => message,
        };
        let hint = if self.text.contains("{{") {
            "; is it a template? render it first: helm template ... | swaplet check -f -"
        } else {
            ""
        };
        format!("line {line}: {message}{hint}")
    }
}

/// Returns the column of the first key of a line.
fn column(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '-', '"', '{']).len()
}

/// Returns true if a line of the same mapping has the key `image`.
fn has_image(lines: &[&str], index: usize) -> bool {
    let own = column(lines[index]);
    let is_image = |line: &&&str| {
        let key = line.trim_start_matches([' ', '-', '"', '{']);
        column(line) == own
            && key
                .strip_prefix("image")
                .is_some_and(|rest| rest.starts_with([':', '"']))
    };
    let is_within = |line: &&&str| column(line) >= own || line.trim().is_empty();
    let begins = |line: &str| line.trim_start().starts_with("- ") && column(line) == own;
    let after = lines[index + 1..].iter().take(NEAR).take_while(is_within);
    let mut after = after.take_while(|line| !begins(line));
    if after.any(|line| is_image(&line)) {
        return true;
    }
    if begins(lines[index]) {
        return false;
    }
    let before = lines[..index].iter().rev().take(NEAR);
    for line in before.take_while(is_within) {
        if is_image(&line) {
            return true;
        }
        if begins(line) {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests;
