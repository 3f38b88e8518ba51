//! The machine's own `kubectl` against the loopback port.
