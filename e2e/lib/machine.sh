# shellcheck shell=bash
# What clusters change of the machine: the first one that comes writes down how it was, the last one that goes puts it back.

# The state folders of the other clusters on this machine. They share what the kernel has only once.
CLUSTERS=/run/swaplet-clusters
other_clusters() {
	local link
	for link in "$CLUSTERS"/*; do
		[[ $link -ef $STATE || ! -f $link/sysctls ]] || readlink "$link"
	done
}

# The kubelet and the ptp plugin change these for the whole machine, and they, CRI-O and kind create these outside the state folder;
# 'down' needs to know how it was before.
SYSCTLS=(net/ipv4/conf/default/route_localnet vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes net/ipv4/ip_forward)
OUTSIDE=(/var/lib/kubelet /var/lib/cni /var/log/containers /run/containerd /lib/modules /var/lib/containers/cache/blob-info-cache-v1.sqlite /var/lib/containers/cache /var/lib/containers)
# Where another cluster runs already, it knows how the machine was before both.
# 'absent' is written first and removed last: it says whose the folder is, whenever an 'up' or a 'down' was killed.
remember_machine() {
	local name other
	other=$(other_clusters | sed -n 1p)
	if [[ -n $other ]]; then
		cp "$other/absent" "$STATE/"
		touch "$STATE/absent"
		cp "$other/sysctls" "$STATE/"
	else
		for name in "${OUTSIDE[@]}"; do [[ -e $name ]] || echo "$name"; done >"$STATE/absent"
		for name in "${SYSCTLS[@]}"; do echo "$name $(cat "/proc/sys/$name")"; done >"$STATE/sysctls"
	fi
	mkdir -p "$CLUSTERS"
	ln -sfn "$STATE" "$CLUSTERS/$NETWORK"
}

# Killed shims leave their sockets: those made since 'up' that nobody listens on.
remove_shim_sockets() {
	local socket
	# Not there where no pod has run.
	[[ -d /run/containerd/s ]] || return 0
	find /run/containerd/s -type s -newer "$STATE/absent" 2>/dev/null | while read -r socket; do
		grep -qF "$socket" /proc/net/unix || rm -f "$socket"
	done
}

# The last cluster that goes puts the machine back as it was.
restore_machine() {
	local name value folder
	rm -f "$CLUSTERS/$NETWORK"
	rmdir --ignore-fail-on-non-empty "$CLUSTERS" 2>/dev/null || true
	[[ -z $(other_clusters) ]] || return 0
	while read -r name value; do
		echo "$value" >"/proc/sys/$name" 2>/dev/null || true
	done <"$STATE/sysctls"
	remove_shim_sockets
	# Only what was not there before, and of that only what is empty now.
	while read -r folder; do
		[[ $folder != /var/lib/kubelet ]] || rm -f "$folder"/device-plugins/{kubelet.sock,DEPRECATION,kubelet_internal_checkpoint}
		[[ ! -f $folder ]] || rm -f "$folder"
		find "$folder" -depth -type d -empty -delete 2>/dev/null || true
	done <"$STATE/absent"
}

remove_state() {
	[[ ! -d $STATE ]] || find "$STATE" -mindepth 1 -maxdepth 1 ! -name absent -exec rm -rf --one-file-system {} +
	rm -rf --one-file-system "$STATE"
}
