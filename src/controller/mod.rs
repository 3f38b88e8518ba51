//! Everything that talks to the API server: watches, the one writer, reports.
