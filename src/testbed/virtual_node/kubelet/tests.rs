//! The rows of the truth table: what was measured on real kubelets.

mod jobs_end;
mod properties;
mod restarts;
mod world;
