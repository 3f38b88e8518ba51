# shellcheck shell=bash
# What runs kind's nodes: Docker where its daemon answers, else podman, with all that it keeps in folders of ours.

RUN=/run/swaplet-kind

choose_engine() {
	ENGINE=${SWAPLET_KIND_ENGINE:-}
	[[ -n $ENGINE ]] || { docker info >/dev/null 2>&1 && ENGINE=docker || ENGINE=podman; }
	[[ $ENGINE == docker ]] || use_podman
}

# For podman and for kind, which calls it. Without CAP_SYS_RESOURCE nobody may raise the limits of files, and of processes only to where
# podman has lowered its own; crun refuses cgroups of version 1 with a controller left to version 2; no systemd need run here.
use_podman() {
	local backend=cni
	[[ -z $(find /usr/l*/podman -name netavark 2>/dev/null) ]] || backend=netavark
	export KIND_EXPERIMENTAL_PROVIDER=podman CONTAINERS_CONF=$KIND_CACHE/containers.conf CONTAINERS_STORAGE_CONF=$KIND_CACHE/storage.conf
	mkdir -p "$KIND_CACHE"
	cat >"$CONTAINERS_CONF" <<-EOF
		[containers]
		pids_limit = 0
		default_ulimits = ["nofile=$(ulimit -Hn):$(ulimit -Hn)", "nproc=32768:32768"]
		[engine]
		cgroup_manager = "cgroupfs"
		events_logger = "file"
		runtime = "runc"
		static_dir = "$KIND_CACHE/podman/libpod"
		volume_path = "$KIND_CACHE/podman/volumes"
		tmp_dir = "$RUN/libpod"
		[network]
		network_backend = "$backend"
		network_config_dir = "$RUN/networks"
	EOF
	cat >"$CONTAINERS_STORAGE_CONF" <<-EOF
		[storage]
		driver = "overlay"
		graphroot = "$KIND_CACHE/podman/storage"
		runroot = "$RUN/storage"
	EOF
}

has_image() { "$ENGINE" image inspect "$1" >/dev/null 2>&1; } # NAME
containers() { "$ENGINE" ps -a --filter "name=^$CLUSTER-" --format '{{.Names}}'; }
has_network() { "$ENGINE" network inspect kind >/dev/null 2>&1; } # kind's own, which all its clusters have

# kind makes it where it is not there. podman looks at each interface of the machine, and fails where one goes meanwhile, as those of the pods
# of other clusters do.
make_network() {
	local tries
	[[ $ENGINE == podman ]] || return 0
	for tries in {1..20}; do
		podman network create --ipv6 --subnet fc00:f853:ccd:e793::/64 kind >/dev/null 2>"$STATE/log" && return
	done
	die "podman made no network in $tries tries: $(<"$STATE/log")"
}

# What may be left of networks and containers. Where containers of others run, they have the same of podman, and nobody can tell.
traces() {
	local program table
	! has_network || echo "network kind"
	[[ $ENGINE == podman && -z $(processes_of_others) ]] || return 0
	for program in iptables ip6tables; do
		for table in filter nat; do
			"$program" -w -t "$table" -S 2>/dev/null | sed -n "s/^-N \(CNI-.*\|NETAVARK.*\)$/chain $program $table \1/p" || true
		done
	done
	find /sys/fs/cgroup -type d -name 'libpod-*' -printf 'cgroup %p\n' 2>/dev/null || true
	find /run/netns -printf 'network namespaces %p\n' 2>/dev/null || true
	ip -o link show type bridge | sed -nE 's/^[0-9]+: ((cni-)?podman[0-9]+): .*/bridge \1/p'
}

# Of these, what was not there before 'up'.
our_traces() {
	[[ -z ${BEFORE+set} ]] || traces | grep -vxF -- "$BEFORE" || true
}

remove_chains() {
	local program table chain rule ours
	ours=$(our_traces | sed -n 's/^chain //p')
	while read -r program table chain; do
		[[ -n $program ]] || continue
		# xargs takes the quotes away that iptables prints.
		"$program" -w -t "$table" -S | sed -n "/ -j $chain$/s/^-A/-D/p" | while read -r rule; do xargs "$program" -w -t "$table" <<<"$rule"; done
		"$program" -w -t "$table" -F "$chain"
	done <<<"$ours"
	while read -r program table chain; do
		[[ -z $program ]] || "$program" -w -t "$table" -X "$chain"
	done <<<"$ours"
}

engine_mounts() { awk -v cache="$KIND_CACHE/" -v run="$RUN/" 'index($5, cache) == 1 || index($5, run) == 1 {print $5}' /proc/self/mountinfo | tac; }

# After each question podman leaves a folder, and a mount of its storage on itself.
leave_podman() {
	[[ $ENGINE == podman ]] || return 0
	engine_mounts | xargs -r umount
	rm -rf --one-file-system "$RUN"
}

# Each container has one that watches it: PID COMMAND, a line each. Of one that has ended nothing is known but its name.
watchers() {
	local pid
	for pid in $(pgrep -x conmon); do echo "$pid $(tr '\0' ' ' <"/proc/$pid/cmdline")"; done 2>/dev/null
}
engine_processes() { watchers | grep -F " $RUN/" || true; }
processes_of_others() { watchers | grep -F conmon | grep -vF " $RUN/" || true; }
