//! The log on standard error.

use std::io::IsTerminal as _;

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LogFormat {
    /// One readable line per entry
    Text,
    /// One JSON object per line
    Json,
}

/// Starts the log; the variable `RUST_LOG` sets the level.
pub fn start_log(format: LogFormat) {
    // kube logs each request as a span; at info that would be every write twice. What the verifier
    // of certificates logs with each try is in the error, which is reported once.
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| "info,kube=warn,rustls_platform_verifier=off".into());
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    let builder = if std::io::stderr().is_terminal() {
        builder
    } else {
        builder.with_ansi(false)
    };
    match format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}
