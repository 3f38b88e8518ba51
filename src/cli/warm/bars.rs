//! The progress of `swaplet warm` on a terminal: a bar for each node in progress, and one for all.

use std::collections::BTreeMap;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The interval at which the bar for all is redrawn, with the elapsed time.
const TICK: Duration = Duration::from_millis(200);

pub struct Bars {
    lines: MultiProgress,
    all: ProgressBar,
    nodes: BTreeMap<Box<str>, ProgressBar>,
    images: u64,
}

impl Bars {
    /// Returns bars for this many images on each node.
    pub fn new(images: usize, target: ProgressDrawTarget) -> Self {
        let lines = MultiProgress::with_draw_target(target);
        let all = lines
            .add(ProgressBar::no_length().with_style(style("{elapsed} [{bar:30}] {pos}/{len}")));
        all.enable_steady_tick(TICK);
        Self {
            lines,
            all,
            nodes: BTreeMap::new(),
            images: images.try_into().unwrap_or(u64::MAX),
        }
    }

    /// Sets the number of nodes.
    pub fn observe_nodes(&self, nodes: usize) {
        self.all.set_length(
            self.images
                .saturating_mul(nodes.try_into().unwrap_or(u64::MAX)),
        );
    }

    /// Shows that a node starts to pull an image.
    pub fn begun(&mut self, node: &str, image: &str) {
        let new = || {
            let bar = ProgressBar::new(self.images)
                .with_style(style("{prefix} [{bar:20}] {pos}/{len} {msg}"))
                .with_prefix(node.to_owned());
            self.lines.insert_before(&self.all, bar)
        };
        self.nodes
            .entry(node.into())
            .or_insert_with(new)
            .set_message(image.to_owned());
    }

    /// Counts an image of a node that has reached its final state.
    pub fn ended(&mut self, node: &str) {
        self.all.inc(1);
        let Some(bar) = self.nodes.get(node) else {
            return;
        };
        bar.inc(1);
        if bar.position() == self.images {
            bar.finish_and_clear();
            self.lines.remove(bar);
        }
    }

    /// Prints a line that stays, above the bars.
    pub fn line(&self, line: &str) {
        // A terminal that is gone reads nothing any more, and the work continues.
        let _ = self.lines.println(line);
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.nodes.values().for_each(ProgressBar::finish_and_clear);
        self.all.finish_and_clear();
    }
}

/// Returns the style of a template; an invalid template gets the default style of the library.
fn style(template: &str) -> ProgressStyle {
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use indicatif::InMemoryTerm;

    use super::*;

    #[test]
    fn each_node_that_is_under_way_has_a_bar_and_nothing_stays_of_it() {
        let terminal = InMemoryTerm::new(10, 80);
        let mut bars = Bars::new(
            2,
            ProgressDrawTarget::term_like_with_hz(Box::new(terminal.clone()), 255),
        );
        bars.observe_nodes(3);
        bars.begun("node-1", "app:1");
        bars.begun("node-2", "app:1");
        bars.ended("node-1");
        bars.begun("node-1", "proxy:1");
        bars.line("[1/6] node-1: app:1 pulled in 1.0 s");
        let shown = terminal.contents();
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines[0], "[1/6] node-1: app:1 pulled in 1.0 s", "{shown}");
        assert_eq!(
            lines[1..3],
            [
                "node-1 [==========>         ] 1/2 proxy:1",
                "node-2 [                    ] 0/2 app:1"
            ],
            "{shown}"
        );
        assert_eq!(lines.len(), 4, "{shown}");
        let is_shown = |_| {
            sleep(TICK);
            terminal.contents().contains("] 1/6")
        };
        assert!((0..300).any(is_shown), "{}", terminal.contents());
        bars.ended("node-1");
        bars.line("[2/6] node-1: proxy:1 was there");
        assert!(
            !terminal.contents().contains("node-1 ["),
            "{}",
            terminal.contents()
        );
        drop(bars);
        assert_eq!(
            terminal.contents(),
            "[1/6] node-1: app:1 pulled in 1.0 s\n[2/6] node-1: proxy:1 was there"
        );
    }
}
