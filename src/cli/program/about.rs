//! `swaplet version` and `swaplet completion`: information about the program.

use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Command, ValueEnum, ValueHint};
use clap_complete::{Shell, generate};
use serde_json::{Value, json};

use crate::cli::program::table::{json as as_json, yaml as as_yaml};
use swaplet_edge::client::{ClusterArgs, plain};
use swaplet_edge::print;

const VERSION_EXAMPLES: &str = "\
Examples:
  # Of this program, and of the API server of the current context
  swaplet version

  # Of this program only, without a request
  swaplet version --client -o json";

/// Print the version of this program, and of the API server
#[derive(Debug, Args)]
#[command(after_help = VERSION_EXAMPLES)]
pub struct VersionArgs {
    /// Only the version of this program
    #[arg(long)]
    client: bool,
    /// How to print [default: for people]
    #[arg(short, long, value_enum)]
    output: Option<Form>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Form {
    Json,
    Yaml,
}

impl VersionArgs {
    /// Prints the versions; the client's is printed even if the API server does not answer.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let server = if self.client {
            Ok(None)
        } else {
            self.server().await.map(Some)
        };
        print(&shown(
            server.as_ref().ok().and_then(Option::as_deref),
            self.output,
        )?)?;
        server.map(|_| ExitCode::SUCCESS)
    }

    async fn server(&self) -> anyhow::Result<String> {
        let client = self.cluster.client().await?;
        let version = client.apiserver_version().await;
        Ok(version
            .map_err(plain)
            .context("cannot read the version of the API server")?
            .git_version)
    }
}

fn shown(server: Option<&str>, form: Option<Form>) -> anyhow::Result<String> {
    let client = concat!("v", env!("CARGO_PKG_VERSION"));
    let value = || -> Value {
        match server {
            Some(server) => json!({"clientVersion": client, "serverVersion": server}),
            None => json!({"clientVersion": client}),
        }
    };
    Ok(match form {
        Some(Form::Json) => as_json(&value()),
        Some(Form::Yaml) => as_yaml(&value())?,
        None => {
            let server = server.map(|server| format!("Server Version: {server}\n"));
            format!("Client Version: {client}\n{}", server.unwrap_or_default())
        }
    })
}

const COMPLETION_EXAMPLES: &str = "\
Examples:
  # In this shell; put the line into ~/.bashrc for all to come
  source <(swaplet completion bash)

  # Zsh, with a folder of completions that is in $fpath
  swaplet completion zsh > ~/.zsh/completions/_swaplet

  # Fish
  swaplet completion fish > ~/.config/fish/completions/swaplet.fish";

/// Returns the program with a hint for each value that is no file: without one, shells offer files
/// for it, or every program of the machine.
fn without_files(command: Command) -> Command {
    let hinted = command.mut_args(|flag| match flag.get_value_hint() {
        ValueHint::Unknown if flag.get_action().takes_values() => flag.value_hint(ValueHint::Other),
        _ => flag,
    });
    hinted.mut_subcommands(without_files)
}

/// Print the script that completes this program's words in a shell
#[derive(Debug, Args)]
#[command(after_help = COMPLETION_EXAMPLES)]
pub struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl CompletionArgs {
    /// Prints the script for this definition of the program.
    pub fn run(&self, mut program: Command) -> anyhow::Result<ExitCode> {
        program = without_files(program);
        let mut script = Vec::new();
        generate(self.shell, &mut program, "swaplet", &mut script);
        print(&String::from_utf8(script)?)?;
        Ok(ExitCode::SUCCESS)
    }
}
