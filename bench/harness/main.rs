//! The program that `bench/run` starts: see `bench/README.md`.

use anyhow::bail;
use clap::Parser;
use swaplet_bench::options::Options;
use tokio::signal::unix::{SignalKind, signal};

/// What it has started ends with it, also where it is told to end.
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (mut interrupt, mut terminate) = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    );
    let options = Options::parse();
    tokio::select! {
        result = swaplet_bench::run(&options) => result,
        _ = interrupt.recv() => bail!("interrupted"),
        _ = terminate.recv() => bail!("terminated"),
    }
}
