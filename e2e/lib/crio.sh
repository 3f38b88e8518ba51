# shellcheck shell=bash
# CRI-O in the place of containerd: how it is built beyond `go build`, configured and started.

# The program that pins namespaces is in C, in the module of CRI-O.
compile_pinns() { # FOLDER
	local source
	command -v cc >/dev/null || die "'cc' is not on the PATH" "CRI-O and its pinns are built with a C compiler: apt-get install gcc libc6-dev"
	source=$(GOWORK=off go list -m -f '{{.Dir}}' github.com/cri-o/cri-o)/pinns/src
	cc -std=c99 -Os -static -s -o "$1/pinns" "$source"/*.c
}

# Everything is below the state folder, the settings of the machine (/etc/containers) are not read, and nothing is kept for the next start.
write_crio_config() {
	mkdir -p "$STATE"/crio/{hooks,exits,attach,tmp}
	echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$STATE/crio/policy.json"
	# A prefix without a port is that of every port: cases start registries of their own. Names without a registry are of Docker Hub, as for
	# containerd.
	printf 'unqualified-search-registries = ["docker.io"]\n[[registry]]\nprefix = "127.0.0.1"\nlocation = "127.0.0.1"\ninsecure = true\n' >"$STATE/crio/registries.conf"
	write_runc_wrapper
	cat >"$STATE/crio/crio.conf" <<-EOT
		[crio]
		root = "$(crio_root)"
		runroot = "$(crio_runroot)"
		storage_driver = "overlay"
		log_dir = "$STATE/crio/log"
		version_file = "$STATE/crio/version"
		version_file_persist = ""
		clean_shutdown_file = "$STATE/crio/clean"
		internal_wipe = false

		[crio.api]
		listen = "$SOCKET"
		stream_address = "127.0.0.1"
		stream_port = "0"

		[crio.runtime]
		cgroup_manager = "cgroupfs"
		conmon_cgroup = "pod"
		default_runtime = "runc"
		pinns_path = "$CRIO_BIN/pinns"
		namespaces_dir = "$STATE/crio/namespaces"
		container_exits_dir = "$STATE/crio/exits"
		container_attach_socket_dir = "$STATE/crio/attach"
		hooks_dir = ["$STATE/crio/hooks"]
		apparmor_profile = "unconfined"
		seccomp_profile = "unconfined"
		irqbalance_config_file = ""
		infra_ctr_cpuset = ""
		drop_infra_ctr = false
		enable_criu_support = false

		[crio.runtime.runtimes.runc]
		runtime_path = "$STATE/crio/runc-wrapper"
		runtime_type = "oci"
		runtime_root = "$STATE/crio/runc"
		monitor_path = "$(command -v conmon)"
		monitor_cgroup = "pod"

		[crio.image]
		pause_image = "$(park_image)"
		pause_command = ""
		big_files_temporary_dir = "$STATE/crio/tmp"
		signature_policy = "$STATE/crio/policy.json"
		signature_policy_dir = "$STATE/crio/policies"
		namespaced_auth_dir = "$STATE/crio/auth"

		[crio.network]
		network_dir = "$STATE/cni"
		plugin_dirs = ["$CNI_BIN"]

		[crio.nri]
		enable_nri = false
	EOT
}

# Without CAP_SYS_RESOURCE nobody may lower an OOM score, and machines may have no controller of huge pages: runc would fail trying, and CRI-O
# has no settings for that, as containerd has.
write_runc_wrapper() {
	cat >"$STATE/crio/runc-wrapper" <<-EOT
		#!/usr/bin/env bash
		for word in "\$@"; do
			[[ \${before:-} != --bundle ]] || perl -0pi -e 's/"oomScoreAdj": *-\d+/"oomScoreAdj": 0/;
				s/,\s*"hugepageLimits": *\[[^\]]*\]// or s/"hugepageLimits": *\[[^\]]*\],?//' "\$word/config.json"
			before=\$word
		done
		exec "$(command -v runc)" "\$@"
	EOT
	chmod 700 "$STATE/crio/runc-wrapper"
}

start_crio() {
	launch crio env CONTAINERS_STORAGE_CONF=/dev/null CONTAINER_REGISTRIES_CONF="$STATE/crio/registries.conf" \
		"$CRIO_BIN/crio" --config "$STATE/crio/crio.conf" --config-dir "" --log-level warn
}

crio_root() { echo "$STATE/crio/root"; }
crio_runroot() { echo "$STATE/crio/run"; }
image_client_of_crio() { echo "env TMPDIR=$STATE/crio/tmp $CRIO_BIN/crio-ctr $(crio_root) $(crio_runroot)"; }
tasks_of_crio() { echo "$(crio_runroot)/overlay-containers"; }
