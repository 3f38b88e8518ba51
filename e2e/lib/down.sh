# shellcheck shell=bash
# Takes the cluster down, also one that crashed, and proves that nothing stays.
# The data is thrown away anyway, so everything is killed: the way after a crash
# and the way after a good run are the same one.

# Our processes: one of our programs, and started with a path of our state folder.
our_processes() {
	local file pid exe
	grep -lsF -- "$STATE/" /proc/[0-9]*/cmdline | while read -r file; do
		pid=${file//[!0-9]/}
		exe=$(readlink "/proc/$pid/exe") || continue
		exe=${exe% (deleted)}
		case ${exe##*/} in
			etcd | kube-apiserver | kube-controller-manager | kube-scheduler | kubelet | containerd | containerd-shim-runc-v2 | runc | crio | conmon | docker-registry | virtual-kubelet-mock | kruise-manager | kruise-daemon) echo "$pid" ;;
		esac
	done
}

# IDs of our containers and sandboxes.
our_ids() { find "$("tasks_of_$RUNTIME")" -mindepth 1 -maxdepth 1 -type d -printf '%f\n' 2>/dev/null || true; }

# Cgroups of our containers, deepest first. There may be thousands, so they are compared with all IDs at once.
our_cgroups() { find /sys/fs/cgroup -depth -type d 2>/dev/null | grep -F -f <(our_ids) || true; }

# Newest first, so that a mount inside another one goes before it.
our_mounts() {
	awk -v state="$STATE/" 'index($5, state) == 1 {print $5}' /proc/self/mountinfo | tac
}

# A folder without a cluster has a range by its name alone, which may be that of a cluster that is up.
our_routes() {
	local other
	for other in $(other_clusters); do
		[[ ! -f $other/pod-cidr || $(<"$other/pod-cidr") != "$POD_CIDR" ]] || return 0
	done
	ip route show root "$POD_CIDR" 2>/dev/null
}

# Nobody told CNI that the sandboxes are gone, and the kubelet links its logs.
our_files_outside() {
	grep -lsF -- "$STATE/" /var/lib/cni/results/* || true
	find /var/log/containers "$HOST_VAR_RUN" -lname "$STATE/*" 2>/dev/null || true
}

leftovers() {
	local pid path cgroup
	for pid in $(our_processes); do echo "process $pid: $(tr '\0' ' ' <"/proc/$pid/cmdline" | cut -c1-100)"; done
	our_mounts | sed 's/^/mount /'
	our_routes | sed 's/^/route /'
	api_service_rules | sed 's/^/iptables /'
	for cgroup in ${CGROUPS:-}; do [[ ! -d $cgroup ]] || echo "cgroup $cgroup"; done
	for path in "$STATE" "$ETCD_DIR" $(our_files_outside); do
		[[ ! -e $path && ! -L $path ]] || echo "path $path"
	done
}

# Again and again until nothing is left: a runc that was just starting a container
# may have finished that in between.
kill_processes() {
	local component tries
	for component in kubelet "${COMPONENTS[@]}" $(extra_components); do stop "$component" KILL; done
	for ((tries = 0; tries < 50; tries++)); do
		CGROUPS=$(our_cgroups)
		# shellcheck disable=SC2046 # one word per PID
		set -- $(container_processes) $(our_processes)
		(($#)) || return 0
		kill -KILL "$@" 2>/dev/null || true
		sleep 0.1
	done
}

container_processes() {
	local cgroup
	for cgroup in $CGROUPS; do cat "$cgroup/cgroup.procs" 2>/dev/null || true; done | sort -u
}

remove_mounts() {
	local mount
	our_mounts | while read -r mount; do
		umount "$mount" 2>/dev/null || umount -l "$mount" 2>/dev/null || true
	done
}

# A killed process leaves its cgroup a moment later.
remove_cgroups() {
	local cgroup tries
	for cgroup in $CGROUPS; do
		for ((tries = 0; tries < 50; tries++)); do
			rmdir "$cgroup" 2>/dev/null || [[ -d $cgroup ]] || break
			[[ -d $cgroup ]] && sleep 0.05
		done
	done
	# Their common parents; they stay if somebody else's containers are in them.
	rmdir /sys/fs/cgroup/{,*/}{k8s.io,crio} 2>/dev/null || true
}

close_api_service() {
	local rule
	# shellcheck disable=SC2086 # the words of a rule
	api_service_rules | while read -r rule; do iptables -w -t nat -D ${rule#-A }; done
}

take_down() {
	kill_processes
	close_api_service
	remove_mounts
	remove_cgroups
	our_files_outside | xargs -r rm -f
	remove_cri_link
	if [[ -f $STATE/sysctls ]]; then restore_machine; fi
	rm -rf --one-file-system "$ETCD_DIR"
	remove_state
}

cluster_down() {
	local start=$SECONDS tries left
	need_root
	take_down
	# The kernel takes a namespace's interfaces and routes away in its own time.
	for ((tries = 0; tries < 50; tries++)); do
		left=$(leftovers)
		[[ -n $left ]] || break
		sleep 0.1
	done
	[[ -z $left ]] || { say "Something stays behind:" "$left"; exit 1; }
	say "The cluster is down ($((SECONDS - start)) s), nothing stays behind."
}
