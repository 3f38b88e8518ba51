// OpenKruise's own end-to-end tests. Version 1.9.1 has those of the release v1.9.0 (its tag, b1e001a), byte for byte; what the Go module proxy
// calls v1.9.0 is another commit (4c2bbcec), and the tag's own is not there. They are built inside OpenKruise's module, by its own go.mod.
module swaplet/e2e/openkruise-suite

go 1.26.0

require github.com/openkruise/kruise v1.9.1
