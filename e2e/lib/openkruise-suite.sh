# shellcheck shell=bash
# OpenKruise's own end-to-end tests as a program, with the patches of modules/openkruise-suite and with its controller of BroadcastJobs, which they
# need. Their module is its own main module, so that its go.mod and go.sum hold.

compile_openkruise_suite() { # FOLDER
	local module=$E2E/modules/openkruise-suite source=$1/source patch flags=(-trimpath -buildvcs=false -ldflags '-s -w')
	export GOWORK=off CGO_ENABLED=0
	cp -r "$(cd "$module" && go list -m -f '{{.Dir}}' github.com/openkruise/kruise)" "$source"
	chmod -R u+w "$source"
	cp -r "$module/broadcastjob" "$source/cmd/"
	cd "$source"
	# Without the variable the folder could be taken for one of a repository around it, and nothing would be changed.
	for patch in "$module"/*.patch; do GIT_CEILING_DIRECTORIES=$1 git apply --whitespace=nowarn "$patch"; done
	go build -v "${flags[@]}" -o "$1/" ./cmd/broadcastjob
	go build -v "${flags[@]}" ./test/e2e/...
	go test -c -vet=off "${flags[@]}" -o "$1/suite" ./test/e2e
	cp config/crd/bases/apps.kruise.io_broadcastjobs.yaml "$1/broadcastjobs.yaml"
	rm -rf "$source"
}
