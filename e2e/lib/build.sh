# shellcheck shell=bash
# Builds the cluster's programs from their Go modules into a cache.

CACHE=${SWAPLET_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/swaplet}/bin

kubernetes_version() { awk '$1=="k8s.io/kubernetes" {print $2} $2=="k8s.io/kubernetes" {print $3}' "$E2E/modules/kubernetes/go.mod"; }

# Components that do not know their version report v0.0.0, and then kubectl,
# the kubelet and feature gates misbehave. Helm believes in Kubernetes 1.20.
ldflags() {
	local version minor package
	printf -- '-s -w'
	if [[ $1 == helm ]]; then
		minor=$(awk '$1=="k8s.io/client-go" {split($2, v, "."); print v[2]}' "$E2E/modules/helm/go.mod")
		printf -- ' -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=%s' "$minor"
		return
	fi
	[[ $1 == kubernetes ]] || return 0
	version=$(kubernetes_version)
	minor=${version#v1.}
	for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
		printf -- ' -X %s.gitVersion=%s -X %s.gitMajor=1 -X %s.gitMinor=%s' \
			"$package" "$version" "$package" "$package" "${minor%%.*}"
	done
}

# The programs of others are modules without a source; ours has sources.
module_dir() { if [[ -d $E2E/modules/$1 ]]; then echo "$E2E/modules/$1"; else echo "$E2E/$1"; fi; }

# bin_dir MODULE: the folder of a finished build; a new go.mod, go.sum, source,
# Go version or build flag is a new folder.
bin_dir() {
	local key dir
	dir=$(module_dir "$1")
	command -v go >/dev/null || die "'go' is not on the PATH" "Install Go 1.26 or newer; the cluster's programs are built from source." "With sudo: sudo env PATH=\"\$PATH\" e2e/cluster ..."
	key=$({ find "$dir" \( -name 'go.???' -o -name '*.go' \) -print0 | sort -z | xargs -0 cat; go version; ldflags "$1"; } | sha256sum | cut -c1-12)
	echo "$CACHE/$1-$key"
}

tools_of() { awk '/^tool \(/ {in_block=1; next} /^\)/ {in_block=0} in_block {print $1} /^tool [^(]/ {print $2}' "$(module_dir "$1")/go.mod"; }

# A main package at the root of a versioned module is named after its parent.
# OpenKruise's are too general for a list of processes.
name_of() {
	case $1 in
		*/etcd/server/v3) echo etcd ;;
		*/openkruise/kruise) echo kruise-manager ;;
		*/openkruise/kruise/cmd/daemon) echo kruise-daemon ;;
		*) basename "$1" ;;
	esac
}

build_one() { # MODULE PACKAGE OUTPUT_DIR
	local name start=$SECONDS log=$3/$$.log pid next=15
	name=$(name_of "$2")
	say "build: $name ..."
	# No cgo: the programs then need no C compiler here and no libc there.
	(cd "$(module_dir "$1")" && GOWORK=off CGO_ENABLED=0 exec go build -v -trimpath -buildvcs=false \
		-ldflags "$(ldflags "$1")" -o "$3/$name" "$2") >"$log" 2>&1 &
	pid=$!
	trap 'kill "$pid" 2>/dev/null; exit 130' INT TERM
	while kill -0 "$pid" 2>/dev/null; do
		sleep 0.5
		((SECONDS - start < next)) && continue
		next=$((next + 15))
		say "build: $name ... $((SECONDS - start)) s, $(wc -l <"$log") packages so far"
	done
	wait "$pid" || { tail -n 30 "$log" >&2; die "building $name failed" "Only the Go module proxy is needed; check 'go env GOPROXY'."; }
	trap - INT TERM
	rm -f "$log"
	say "build: $name done in $((SECONDS - start)) s"
}

build_module() {
	local dir tmp package
	dir=$(bin_dir "$1")
	[[ -d $dir ]] && return 0
	tmp=$CACHE/.building-$1
	rm -rf "$tmp"
	mkdir -p "$tmp"
	for package in $(tools_of "$1"); do build_one "$1" "$package" "$tmp"; done
	mv "$tmp" "$dir" # a folder under its final name is always complete
}

build_cluster() { build etcd containerd kubernetes virtual-kubelet-mock helm; }
build_all() { build_cluster && build openkruise; }

build() { # MODULE...
	local module start=$SECONDS
	mkdir -p "$CACHE"
	exec 8>"$CACHE/.lock"
	flock 8 # two builds at once would only slow each other down
	for module in "$@"; do build_module "$module"; done
	exec 8>&-
	((SECONDS - start < 2)) || say "build: everything done in $((SECONDS - start)) s"
}
