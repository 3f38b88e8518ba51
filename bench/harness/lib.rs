//! Measures what ends sidecars on a real API server: `bench/README.md` says how to run it.

pub mod cluster;
pub mod contestant;
pub mod judge;
pub mod metrics;
pub mod options;
pub mod report;
pub mod rows;

use std::fs;

use anyhow::Result;

use crate::cluster::seed;
use crate::cluster::server::Cluster;
use crate::options::{Contestant, Options, Row};
use crate::rows::{Plan, Results, Session};

/// Clients of the bare patches where the ceiling is not measured.
const CLIENTS: usize = 16;

/// Measures everything that is wanted, prints the table, and records it.
///
/// # Errors
/// Where a program does not start, or does not do its part: what was measured until then is printed,
/// and not recorded.
pub async fn run(options: &Options) -> Result<()> {
    let mut results = Results::default();
    let measured = measure(options, &mut results).await;
    if measured.is_ok() || !results.values.is_empty() {
        println!("{}", report::markdown(&results, options));
    }
    measured?;
    if let Some(folder) = &options.record {
        report::record(&results, options, folder)?;
    }
    Ok(())
}

async fn measure(options: &Options, results: &mut Results) -> Result<()> {
    let mut cluster = Cluster::prepare(options).await?;
    // Without pods only the memory is of interest.
    let controllers = options
        .contestants
        .iter()
        .any(|one| *one != Contestant::Bare);
    let empty = (controllers && options.wants(Row::Idle)).then_some(0);
    for size in empty.into_iter().chain(options.pods.iter().copied()) {
        measure_size(&mut cluster, options, size, results).await?;
    }
    Ok(())
}

async fn measure_size(
    cluster: &mut Cluster,
    options: &Options,
    size: usize,
    results: &mut Results,
) -> Result<()> {
    eprintln!("{size} pods: making them");
    cluster.start(None).await?;
    let burst = seed::seed(cluster, size, options.writers).await?;
    let snapshot = cluster.keep("snapshot").await?;
    let mut clients = CLIENTS;
    let mut options = options.clone();
    if size == 0 {
        options.rows = vec![Row::Idle];
    }
    for run in 0..options.runs {
        let mut contestants = options.contestants.clone();
        if run % 2 == 1 {
            contestants.reverse();
        }
        for contestant in contestants
            .into_iter()
            .filter(|one| size > 0 || *one != Contestant::Bare)
        {
            eprintln!(
                "{size} pods, run {} of {}: {}",
                run + 1,
                options.runs,
                contestant.name()
            );
            let mut plan = Plan {
                contestant,
                snapshot: &snapshot,
                burst: &burst,
                clients,
            };
            if contestant == Contestant::Bare && options.wants(Row::Ceiling) {
                clients = ceiling(cluster, &options, &plan, results).await?;
                plan.clients = clients;
            }
            session(cluster, &options, &plan, results).await?;
        }
    }
    fs::remove_dir_all(snapshot)?;
    Ok(())
}

async fn ceiling(
    cluster: &mut Cluster,
    options: &Options,
    plan: &Plan<'_>,
    results: &mut Results,
) -> Result<usize> {
    let mut session = Session::begin(cluster, options, plan, results).await?;
    let best = session.ceiling().await?;
    session.end().await?;
    Ok(best)
}

async fn session(
    cluster: &mut Cluster,
    options: &Options,
    plan: &Plan<'_>,
    results: &mut Results,
) -> Result<()> {
    let mut session = Session::begin(cluster, options, plan, results).await?;
    session.measure().await?;
    session.end().await
}
