//! The output of `swaplet warm`: a line for each image on a node while it runs, and a table at the
//! end.

use std::io::{IsTerminal as _, stderr};
use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressDrawTarget;
use serde_json::{Value, json};
use swaplet_controller::warm::direct::News;
use swaplet_core::warm::warming::{End, Ended, Pulled, Warming};

use super::Bars;
use crate::cli::program::table::{Line, Output, counted, printable, render};

/// The lines on standard error, and on a terminal the bars below them.
pub struct Progress {
    images: usize,
    done: usize,
    all: usize,
    bars: Option<Bars>,
}

impl Progress {
    pub fn new(images: usize) -> Self {
        let bars = stderr()
            .is_terminal()
            .then(|| Bars::new(images, ProgressDrawTarget::stderr()));
        Self {
            images,
            done: 0,
            all: 0,
            bars,
        }
    }

    pub fn show(&mut self, news: &News) {
        for line in self.lines(news) {
            let line = printable(&line);
            self.bars
                .as_ref()
                .map_or_else(|| say!("{line}"), |bars| bars.line(&line));
        }
        match (&mut self.bars, news) {
            (Some(bars), News::Nodes { warmable, .. }) => bars.observe_nodes(*warmable),
            (Some(bars), News::Begun { node, images }) => {
                bars.begun(&printable(node), &printable(&images.join(", ")))
            }
            (Some(bars), News::Ended(ended)) => bars.ended(&printable(&ended.node)),
            (_, News::Trouble(_)) | (None, _) => {}
        }
    }

    fn lines(&mut self, news: &News) -> Vec<String> {
        match news {
            News::Nodes { warmable, skipped } => {
                self.all = warmable * self.images;
                let first = format!(
                    "warming {} on {}; {} skipped",
                    counted(self.images, "image"),
                    counted(*warmable, "node"),
                    counted(skipped.len(), "node")
                );
                let skipped = skipped
                    .iter()
                    .map(|(node, why)| format!("{node}: skipped: {why}"));
                std::iter::once(first).chain(skipped).collect()
            }
            News::Ended(ended) => {
                self.done += 1;
                vec![format!("[{}/{}] {}", self.done, self.all, sentence(ended))]
            }
            News::Begun { .. } => Vec::new(),
            News::Trouble(trouble) => vec![format!("warning: {trouble}; trying again")],
        }
    }
}

fn sentence(ended: &Ended) -> String {
    let (node, image) = (&ended.node, &ended.image);
    match &ended.end {
        End::Succeeded => format!("{node}: {image} {}", how(ended.pulled.as_ref())),
        End::Failed(why) => format!("{node}: {image} FAILED: {why}"),
    }
}

pub fn how(pulled: Option<&Pulled>) -> String {
    match pulled {
        Some(Pulled {
            took: Some(took),
            bytes,
            ..
        }) => {
            let size = bytes
                .map(|bytes| format!(", {}", size(bytes)))
                .unwrap_or_default();
            format!("pulled in {}{size}", seconds(*took))
        }
        Some(Pulled { took: None, .. }) => "was there".to_owned(),
        None => "is there".to_owned(),
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Formats a size in the units of registries.
fn size(bytes: u64) -> String {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "kB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        // One decimal is precise enough.
        Some((unit, name)) => format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
        None => format!("{bytes} B"),
    }
}

/// One image on one node, with its result.
struct Row {
    image: Arc<str>,
    node: Box<str>,
    result: &'static str,
    why: String,
    pulled: Option<Pulled>,
}

pub struct Results {
    images: Vec<Arc<str>>,
    rows: Vec<Row>,
}

impl Results {
    pub fn of(warming: &Warming) -> Self {
        let mut rows = Vec::new();
        for (node, images) in warming.progress() {
            rows.extend(images.iter().map(|progress| {
                let (result, why) = match &progress.end {
                    Some(End::Succeeded) => ("Succeeded", String::new()),
                    Some(End::Failed(why)) => ("Failed", why.to_string()),
                    None => ("NotKnown", "interrupted".to_owned()),
                };
                Row {
                    image: progress.image.clone(),
                    node: node.into(),
                    result,
                    why,
                    pulled: progress.pulled.clone(),
                }
            }));
        }
        for (node, why) in warming.skipped() {
            let skipped = |image: &Arc<str>| Row {
                image: image.clone(),
                node: node.clone(),
                result: "Skipped",
                why: why.clone(),
                pulled: None,
            };
            rows.extend(warming.images().iter().map(skipped));
        }
        Self {
            images: warming.images().to_vec(),
            rows,
        }
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn open(&self) -> usize {
        self.count("NotKnown")
    }

    fn count(&self, result: &str) -> usize {
        self.rows.iter().filter(|row| row.result == result).count()
    }

    /// Returns why this is not a success; `None` if it is one.
    pub fn complaint(&self) -> Option<String> {
        let failed = self.count("Failed");
        if failed > 0 {
            return Some(format!(
                "not warm: {failed} of {} images on nodes",
                self.len() - self.count("Skipped")
            ));
        }
        (self.count("Succeeded") == 0).then(|| "nothing is warm: every node was skipped".to_owned())
    }

    /// Returns the rate of the pulls that the kubelets have reported; `None` if nothing was pulled.
    pub fn rate(&self) -> Option<String> {
        let pulls = || {
            self.rows
                .iter()
                .filter_map(|row| row.pulled.as_ref())
                .filter_map(|pulled| pulled.took.zip(pulled.bytes))
        };
        let took: Duration = pulls().map(|(took, _)| took).sum();
        let bytes: u64 = pulls().map(|(_, bytes)| bytes).sum();
        let millis = u64::try_from(took.as_millis())
            .ok()
            .filter(|millis| *millis > 0)?;
        let rate = size(bytes.saturating_mul(1000) / millis);
        Some(format!(
            "{}: {} in {} of pulling, {rate}/s for each node",
            counted(pulls().count(), "pull"),
            size(bytes),
            seconds(took)
        ))
    }

    pub fn show(&self, output: Output) -> anyhow::Result<String> {
        let lines: Vec<_> = if output == Output::Wide {
            self.rows.iter().map(Row::line).collect()
        } else {
            self.images
                .iter()
                .map(|image| self.line_of(image))
                .collect()
        };
        render(
            output,
            &lines,
            &json!({"results": self.rows.iter().map(Row::value).collect::<Vec<_>>()}),
        )
    }

    fn line_of(&self, image: &Arc<str>) -> Line {
        let rows = || self.rows.iter().filter(|row| row.image == *image);
        let count = |result: &str| {
            rows()
                .filter(|row| row.result == result)
                .count()
                .to_string()
        };
        let pulls = || rows().filter_map(|row| row.pulled.as_ref());
        let slowest = pulls().filter_map(|pulled| pulled.took).max().map(seconds);
        let bytes = pulls().filter_map(|pulled| pulled.bytes).max().map(size);
        let failure = rows()
            .find(|row| row.result == "Failed")
            .map(|row| format!("{}: {}", row.node, row.why));
        vec![
            ("IMAGE", image.to_string()),
            ("NODES", rows().count().to_string()),
            ("WARM", count("Succeeded")),
            ("FAILED", count("Failed")),
            ("SKIPPED", count("Skipped")),
            ("SLOWEST", slowest.unwrap_or_default()),
            ("SIZE", bytes.unwrap_or_default()),
            ("FIRST FAILURE", failure.unwrap_or_default()),
        ]
    }
}

impl Row {
    fn line(&self) -> Line {
        let pulled = match &self.pulled {
            Some(Pulled {
                took: Some(took), ..
            }) => seconds(*took),
            Some(_) => "was there".to_owned(),
            None => String::new(),
        };
        let bytes = self.pulled.as_ref().and_then(|pulled| pulled.bytes);
        vec![
            ("NODE", self.node.to_string()),
            ("IMAGE", self.image.to_string()),
            ("RESULT", self.result.to_owned()),
            ("PULLED", pulled),
            ("SIZE", bytes.map(size).unwrap_or_default()),
            ("WHY", self.why.clone()),
        ]
    }

    fn value(&self) -> Value {
        let pulled = self.pulled.as_ref();
        json!({
            "node": self.node, "image": *self.image, "result": self.result, "why": (!self.why.is_empty()).then_some(&self.why),
            "pullSeconds": pulled.and_then(|pulled| pulled.took).map(|took| took.as_secs_f64()),
            "bytes": pulled.and_then(|pulled| pulled.bytes),
            "wasThere": pulled.map(|pulled| pulled.took.is_none()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pull: Option<(u64, Option<u64>)>) -> Row {
        let pulled = pull.map(|(millis, bytes)| Pulled {
            image: "a".into(),
            took: Some(Duration::from_millis(millis)),
            bytes,
        });
        Row {
            image: "a".into(),
            node: "n".into(),
            result: "Succeeded",
            why: String::new(),
            pulled,
        }
    }

    fn rate(pulls: &[Option<(u64, Option<u64>)>]) -> Option<String> {
        Results {
            images: vec!["a".into()],
            rows: pulls.iter().copied().map(row).collect(),
        }
        .rate()
    }

    #[test]
    fn the_rate_is_that_of_pulls_whose_time_and_size_are_known() {
        let some = rate(&[
            Some((500, Some(30_000_000))),
            Some((1500, Some(10_000_000))),
            Some((9000, None)),
            None,
        ]);
        assert_eq!(
            some.unwrap(),
            "2 pulls: 40.0 MB in 2.0 s of pulling, 20.0 MB/s for each node"
        );
        assert_eq!((rate(&[None]), rate(&[Some((0, Some(1)))])), (None, None));
    }
}
