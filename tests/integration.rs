//! What needs more than a function and less than a cluster, as one program: each more that is
//! linked costs seconds.

mod apiserver;
mod check;
mod cli;
mod command;
mod config;
mod explain;
mod habits;
mod images;
mod protect;
mod rescue;
mod restart;
mod status;
mod virtual_node;
