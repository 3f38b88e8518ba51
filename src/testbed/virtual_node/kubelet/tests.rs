//! What was measured on real kubelets (`docs/measured.md`).

mod jobs_end;
mod names;
mod phases;
mod properties;
mod restarts;
mod world;
