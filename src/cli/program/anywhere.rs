//! The flags that may precede the subcommand, as kubectl's users write them.

use clap::{Arg, Args, Command};
use swaplet_edge::client::ClusterArgs;
use swaplet_edge::command_line::accepting;

/// The flags that every command accepts, even if it uses no cluster: an alias such as `swaplet
/// --context prod` works with all of them.
const EVERYWHERE: [&str; 6] = [
    "kubeconfig",
    "context",
    "as",
    "as-group",
    "request-timeout",
    "namespace",
];
/// The subcommand that does not get them: it runs on, and has flags of its own for each wait.
const RUN: &str = "run";

/// They are moved behind the subcommand and read there.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of the commands, which may also be given before them")]
struct Anywhere {
    /// The namespace [default: that of the context]
    #[arg(short, long)]
    namespace: Option<String>,
    /// All namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Only what this label selector matches
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// How to print: table, wide, json, yaml, name
    #[arg(short, long, value_name = "FORM")]
    output: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Adds the flags to the program, before its subcommands.
pub fn taken_by(command: Command) -> Command {
    let flags: Vec<Arg> = Anywhere::augment_args(Command::new("anywhere"))
        .get_arguments()
        .map(|flag| flag.clone().env(clap::builder::Resettable::Reset))
        .collect();
    let is_everywhere = |flag: &&Arg| {
        flag.get_long()
            .is_some_and(|long| EVERYWHERE.contains(&long))
    };
    let everywhere: Vec<Arg> = flags.iter().filter(is_everywhere).cloned().collect();
    command
        .mut_subcommands(|sub| {
            if sub.get_name() == RUN {
                sub
            } else {
                accepting(sub, &everywhere)
            }
        })
        .args(flags)
}
