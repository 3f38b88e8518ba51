//! The table, the goals, and what is recorded.

mod goals;
mod plot;
mod table;

use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::options::Options;
use crate::rows::Results;

/// What a reader has to know to judge the figures.
const NOTES: &str = "\
* Everything runs on the same processors: etcd, the API server, the load driver that plays the nodes, and what is measured.
* Each session begins with a copy of the same data, and the order of the contestants alternates from run to run.
* Times are those of the audit log, which has one clock; that a pod was swapped is what a watch of the program's own has seen.
* \"Bare patches\" are sent by clients that know of themselves which pod is due: they watch nothing and decide nothing.
* Nodes are of a class on which OpenKruise and swaplet both change images; Jobs allow any number of restarts,
  but in the rows of Jobs: there each has 50 pods under `OnFailure` and `backoffLimit: 6`. Only swaplet looks at that, and
  OpenKruise as shipped is left out, as it would take as long as for the burst.
* In a burst nodes show the ends of pods after the last swap; in the rows of steady and of Jobs at once.
* Bytes are counted by a relay, which only idle, noise and relist go through.
* OpenKruise has features that swaplet lacks, and its memory is for those as well. With its throttle lifted it runs with
  `--rest-config-qps 5000 --rest-config-burst 5000 --sidecarterminator-workers 64`, and its webhooks are removed.
";

/// The whole report, as Markdown.
pub fn markdown(results: &Results, options: &Options) -> String {
    let mut text = String::from("# What ends sidecars, side by side\n\n");
    text += &format!("{}\n\n", machine(options));
    text += &table::tables(&results.values);
    text += &goals::written(&results.values);
    text += &format!("\n## How it was measured\n\n{NOTES}");
    if results.pod_bytes > 0 {
        text += &format!("* A pod is {} bytes of JSON.\n", results.pod_bytes);
    }
    text
}

/// Writes the report and the plot into a folder.
///
/// # Errors
/// Where a file cannot be written.
pub fn record(results: &Results, options: &Options, folder: &Path) -> Result<()> {
    let text = markdown(results, options);
    fs::write(
        folder.join("RESULTS.md"),
        text + "\n![Pods swapped over time, and memory by pods](results.svg)\n",
    )?;
    fs::write(folder.join("results.svg"), plot::svg(results))?;
    Ok(())
}

fn machine(options: &Options) -> String {
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let model = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    let model = model.trim_start_matches([':', '\t', ' ']);
    format!(
        "Runs: {}, {} s for each row that has a time. {processors} processors ({model}), {} GB of memory. {}",
        options.runs,
        options.seconds,
        memory.unwrap_or_default() / 1_000_000,
        options.versions
    )
}
