# shellcheck shell=bash
# Builds the clusters' programs from their Go modules into a cache: `cluster` has all that every cluster needs, `openkruise`
# what lives beside it, `openkruise-suite` OpenKruise's own tests, `kind` what only clusters of kind need, `crio` the other runtime,
# `kubernetes-1.N` Kubernetes itself in another version than the everyday one.

CACHE=${SWAPLET_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/swaplet}/bin

kubernetes_version() { awk '$1=="k8s.io/kubernetes" {print $2} $2=="k8s.io/kubernetes" {print $3}' "$E2E/modules/${1:-cluster}/go.mod"; } # [MODULE]

# The module that has Kubernetes in this version, such as 1.35.
module_of_kubernetes() { # VERSION
	if [[ -z $1 || $(kubernetes_version) == "v$1."* ]]; then echo cluster; else echo "kubernetes-$1"; fi
}

kubernetes_versions() {
	local module
	for module in "$E2E"/modules/kubernetes-*; do echo "${module##*-}"; done
	kubernetes_version | cut -d. -f1,2 | tr -d v
}

# Components that do not know their version report v0.0.0, and then kubectl, the kubelet and feature gates misbehave. Helm
# believes in Kubernetes 1.20.
ldflags() { # MODULE
	local version minor package
	printf -- '-s -w'
	case $1 in
		cluster | kind) version=$(kubernetes_version) ;;
		kubernetes-*) version=$(kubernetes_version "$1") ;;
		*) return 0 ;;
	esac
	minor=${version#v1.}
	minor=${minor%%.*}
	for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
		printf -- ' -X %s.gitVersion=%s -X %s.gitMajor=1 -X %s.gitMinor=%s' "$package" "$version" "$package" "$package" "$minor"
	done
	package=helm.sh/helm/v3/pkg/chartutil
	printf -- ' -X %s.k8sVersionMajor=1 -X %s.k8sVersionMinor=%s' "$package" "$package" "$minor"
}

# What else a module is built with. Without these tags CRI-O wants libraries of the machine.
build_tags() { # MODULE
	[[ $1 != crio ]] || echo containers_image_ostree_stub,containers_image_openpgp,exclude_graphdriver_btrfs
}

# bin_dir MODULE: the folder of a finished build; a new go.mod, go.sum, source, patch, Go version or build flag is a new folder.
bin_dir() {
	local key
	command -v go >/dev/null || die "'go' is not on the PATH" "Install Go 1.26 or newer; the cluster's programs are built from source." "With sudo: sudo env PATH=\"\$PATH\" e2e/cluster ..."
	key=$({ find "$E2E/modules/$1" \( -name 'go.???' -o -name '*.go' -o -name '*.patch' \) -print0 | sort -z | xargs -0 cat; go version; ldflags "$1"; build_tags "$1"; } | sha256sum | cut -c1-12)
	echo "$CACHE/$1-$key"
}

# The programs of a module: the tools of others, and the packages that have our own sources.
packages_of() { # MODULE
	awk '/^tool \(/ {in_block=1; next} /^\)/ {in_block=0} in_block {print $1} /^tool [^(]/ {print $2}' "$E2E/modules/$1/go.mod"
	(cd "$E2E/modules/$1" && find . -name main.go -printf '%h\n')
}

# Go names a program after its folder. Some names are too general for a list of processes, and the parts of Kubernetes are
# links to one program that goes by the name it is called with.
name_programs() { # MODULE FOLDER
	[[ ! -f $2/kubernetes ]] || link_components "$2"
	case $1 in
		openkruise)
			mv "$2/kruise" "$2/kruise-manager"
			mv "$2/daemon" "$2/kruise-daemon"
			;;
		cluster) mv "$2/server" "$2/etcd" ;;
		crio) compile_pinns "$2" ;;
	esac
}

link_components() { # FOLDER
	local name
	for name in kube-apiserver kube-controller-manager kube-scheduler kubelet; do ln "$1/kubernetes" "$1/$name"; done
	rm "$1/kubernetes"
}

compile() { # MODULE FOLDER
	local packages cgo=0
	if [[ $1 == openkruise-suite ]]; then
		compile_openkruise_suite "$2"
		return
	fi
	mapfile -t packages < <(packages_of "$1")
	cd "$E2E/modules/$1"
	# No cgo: the programs then need no C compiler here and no libc there. CRI-O is not made for that.
	[[ $1 != crio ]] || cgo=1
	GOWORK=off CGO_ENABLED=$cgo go build -v -trimpath -buildvcs=false -tags "$(build_tags "$1")" -ldflags "$(ldflags "$1")" -o "$2/" "${packages[@]}"
	name_programs "$1" "$2"
}

build_module() { # MODULE
	local start=$SECONDS dir tmp=$CACHE/.building-$1 log=$CACHE/.building-$1.log pid next=15
	dir=$(bin_dir "$1")
	[[ -d $dir ]] && return 0
	say "build: the programs of $1 ..."
	rm -rf "$tmp"
	mkdir -p "$tmp"
	(compile "$1" "$tmp") >"$log" 2>&1 &
	pid=$!
	trap 'pkill -P "$pid" 2>/dev/null; kill "$pid" 2>/dev/null; exit 130' INT TERM
	while kill -0 "$pid" 2>/dev/null; do
		sleep 0.5
		((SECONDS - start < next)) && continue
		next=$((next + 15))
		say "build: $1 ... $((SECONDS - start)) s, $(wc -l <"$log") packages so far"
	done
	wait "$pid" || { tail -n 30 "$log" >&2; die "building the programs of $1 failed" "Only the Go module proxy is needed; check 'go env GOPROXY'."; }
	trap - INT TERM
	rm -f "$log"
	mv "$tmp" "$dir" # a folder under its final name is always complete
	say "build: the programs of $1 done in $((SECONDS - start)) s"
}

build() { # MODULE...
	local module missing=()
	for module in "$@"; do [[ -d $(bin_dir "$module") ]] || missing+=("$module"); done
	((${#missing[@]})) || return 0
	mkdir -p "$CACHE"
	exec 8>"$CACHE/.lock"
	flock 8 # two builds at once would only slow each other down
	for module in "${missing[@]}"; do build_module "$module"; done
	exec 8>&-
}

# Fetches what a build needs, which takes the network and hardly a processor.
download() { # MODULE...
	local module
	for module in "$@"; do
		[[ -d $(bin_dir "$module") ]] || (cd "$E2E/modules/$module" && GOWORK=off go mod download) || return
	done
}
