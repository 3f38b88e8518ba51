//! Every decision, as plain functions: no clock, no client, no async. Time comes in as an argument.
