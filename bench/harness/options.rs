//! What is measured, how often, and with which programs.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Who ends the sidecars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Contestant {
    /// Clients that know which pod is due, and patch it: what a controller could reach at best
    Bare,
    /// Swaplet with its defaults
    Swaplet,
    /// The manager of OpenKruise as shipped
    Openkruise,
    /// The same with its client's throttle lifted, 64 workers, and without its webhooks
    OpenkruiseLifted,
}

impl Contestant {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare patches",
            Self::Swaplet => "swaplet",
            Self::Openkruise => "OpenKruise as shipped",
            Self::OpenkruiseLifted => "OpenKruise, throttle lifted",
        }
    }
}

/// A group of rows of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Row {
    /// Guarded patches by 1 to 64 clients, without a controller
    Ceiling,
    /// Memory, CPU and requests while nothing happens, and without pods
    Idle,
    /// The same while other pods change
    Noise,
    /// The API server starts anew, and the controller does
    Relist,
    /// Main containers end at a fixed rate
    Steady,
    /// The same as burst, of Jobs that allow few restarts, and with nodes that answer at once
    Jobs,
    /// All main containers end as fast as the server takes it
    Burst,
}

/// Options of the program.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "bench/run",
    about = "Measures what ends sidecars on a real kube-apiserver with etcd, on loopback only"
)]
pub struct Options {
    /// Pods that wait for their main containers, for each size
    #[arg(long, value_delimiter = ',', default_value = "1000")]
    pub pods: Vec<usize>,

    /// How often each is measured; the table has the median with the smallest and the largest
    #[arg(long, default_value_t = 3)]
    pub runs: usize,

    /// What to measure
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "ceiling,idle,noise,relist,steady,jobs,burst"
    )]
    pub rows: Vec<Row>,

    /// Of whom; their order alternates from run to run
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "bare,swaplet"
    )]
    pub contestants: Vec<Contestant>,

    /// How long idle, noise, each rate of steady and each step of the ceiling last, in seconds
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,

    /// Main containers that end per second, for each part of steady
    #[arg(long, value_delimiter = ',', default_value = "10,50,100")]
    pub rates: Vec<u64>,

    /// Clients of the ceiling; the best number counts, and is that of the bare patches elsewhere
    #[arg(long, value_delimiter = ',', default_value = "1,4,8,16,32,64")]
    pub clients: Vec<usize>,

    /// Connections of the load driver that plays the nodes
    #[arg(long, default_value_t = 32)]
    pub writers: usize,

    /// Write RESULTS.md and results.svg into this folder
    #[arg(long, value_name = "FOLDER")]
    pub record: Option<PathBuf>,

    /// Where etcd, the audit log and the logs are while it runs; bench/run makes one
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub state: PathBuf,

    /// Folder with etcd and kube-apiserver
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub cluster_programs: PathBuf,

    /// The program of swaplet
    #[arg(long, value_name = "FILE", hide = true)]
    pub swaplet: PathBuf,

    /// The manager of OpenKruise
    #[arg(long, value_name = "FILE", hide = true)]
    pub kruise_manager: Option<PathBuf>,

    /// Its CRDs, rights and webhooks
    #[arg(long, value_name = "FILE", hide = true)]
    pub kruise_manifest: Option<PathBuf>,

    /// The versions, in words
    #[arg(long, default_value = "", hide = true)]
    pub versions: String,
}

impl Options {
    /// Whether these rows are wanted.
    pub fn wants(&self, row: Row) -> bool {
        self.rows.contains(&row)
    }
}
