# shellcheck shell=bash
# Writes the configuration of every component into the state folder.

# shellcheck disable=SC2034 # used in other parts
NODE=127.0.0.1 # an IP as node name: the apiserver reaches the kubelet there, whatever the machine's DNS and routes are
# Each cluster on a machine has pod addresses of its own: what is left of one is told by its routes. Which they are follows from the
# state folder, so that it is also known of a cluster whose folder is gone; 'up' goes on from there to the first that nobody uses.
pod_cidr() { echo "10.213.$(($1 % 64 * 4)).0/22"; } # NUMBER
FIRST_RANGE=$(cksum <<<"$STATE" | cut -d' ' -f1)
POD_CIDR=$(pod_cidr "$FIRST_RANGE")
[[ ! -f $STATE/pod-cidr ]] || POD_CIDR=$(<"$STATE/pod-cidr")
choose_pod_cidr() {
	local number=$FIRST_RANGE
	for ((number = FIRST_RANGE; number < FIRST_RANGE + 64; number++)); do
		POD_CIDR=$(pod_cidr "$number")
		[[ -n $(ip route show root "$POD_CIDR") || -n $(iptables -w -t nat -S PREROUTING | grep -F -- "-s $POD_CIDR ") ]] || break
	done
	echo "$POD_CIDR" >"$STATE/pod-cidr"
}
# shellcheck disable=SC2034 # used in other parts
SERVICE_CIDR=10.214.0.0/24
API_SERVICE=10.214.0.1 # the first of them is that of the API server

# Ports below 32768 are never handed out to outgoing connections.
free_port() {
	local port
	while :; do
		port=$((20000 + RANDOM % 12000))
		[[ " ${CHOSEN_PORTS:-} " == *" $port "* ]] && continue
		(exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && continue
		CHOSEN_PORTS="${CHOSEN_PORTS:-} $port"
		printf -v "$1" %s "$port"
		return
	done
}

# What later commands need to know of this cluster.
write_env() {
	local name
	for name in API_PORT KUBELET_PORT REGISTRY_PORT; do free_port "$name"; done
	BIN=$(bin_dir cluster)
	KUBERNETES_BIN=$(bin_dir "$(module_of_kubernetes "$KUBERNETES")")
	SUITE=$(bin_dir openkruise-suite)
	CRIO_BIN=$(bin_dir crio)
	for name in API_PORT KUBELET_PORT REGISTRY_PORT BIN KUBERNETES_BIN SUITE CRIO_BIN; do
		printf '%s=%q\n' "$name" "${!name}"
	done >"$STATE/env"
}

park_image() { echo "127.0.0.1:$REGISTRY_PORT/swaplet/park:e2e"; }

# write_kubeconfig FILE USER [IMPERSONATED]: every component has its own name, so
# that the audit log tells them apart; all of them may do everything.
write_kubeconfig() {
	local token
	token=$(grep ",$2," "$STATE/tokens.csv" | cut -d, -f1)
	cat >"$1" <<EOF
apiVersion: v1
kind: Config
current-context: swaplet-e2e
contexts:
  - {name: swaplet-e2e, context: {cluster: swaplet-e2e, user: $2}}
clusters:
  - name: swaplet-e2e
    cluster: {server: "https://127.0.0.1:$API_PORT", certificate-authority: $STATE/apiserver/apiserver.crt}
users:
  - {name: $2, user: {token: "$token"${3:+, as: "$3"}}}
EOF
}

write_credentials() {
	local user
	openssl genrsa -out "$STATE/sa.key" 2048 2>/dev/null
	# A self-signed client certificate is its own CA: the kubelet trusts the apiserver alone.
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=kube-apiserver \
		-keyout "$STATE/kubelet-client.key" -out "$STATE/kubelet-client.crt" 2>/dev/null
	for user in admin kubelet kube-controller-manager kube-scheduler; do
		echo "$(openssl rand -hex 16),$user,$user,\"system:masters\""
	done >"$STATE/tokens.csv"
	for user in admin kubelet kube-controller-manager kube-scheduler; do
		write_kubeconfig "$STATE/$user.kubeconfig" "$user"
	done
}

write_registry_config() {
	registry_settings "$STATE/registry" "127.0.0.1:$REGISTRY_PORT" >"$STATE/registry.yml"
	mkdir -p "$STATE/certs.d/127.0.0.1:$REGISTRY_PORT"
	cat >"$STATE/certs.d/127.0.0.1:$REGISTRY_PORT/hosts.toml" <<EOF
server = "http://127.0.0.1:$REGISTRY_PORT"
EOF
}

# Everything containerd writes is below the state folder, with one exception:
# the sockets of its shims are always in /run/containerd/s.
write_containerd_config() {
	cat >"$STATE/containerd.toml" <<EOF
version = 3
root = "$STATE/containerd/root"
state = "$STATE/containerd/state"
disabled_plugins = ["io.containerd.internal.v1.opt"]

[grpc]
address = "$SOCKET"

[plugins."io.containerd.nri.v1.nri"]
disable = true

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "$(park_image)"

[plugins."io.containerd.cri.v1.images".registry]
config_path = "$STATE/certs.d"

[plugins."io.containerd.cri.v1.runtime"]
# Without CAP_SYS_RESOURCE nobody may lower an OOM score, and runc would fail trying.
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["$CNI_BIN"]
conf_dir = "$STATE/cni"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
Root = "$STATE/runc"
EOF
}

# Pods talk to nobody but the API server, by the address of its Service. CRI-O would have the plugin check what it made, which fails for
# this route.
write_network_config() {
	mkdir -p "$STATE/cni"
	cat >"$STATE/cni/10-e2e.conflist" <<EOF
{"cniVersion": "1.0.0", "disableCheck": true, "name": "$NETWORK", "plugins": [{"type": "ptp", "ipMasq": false,
  "ipam": {"type": "host-local", "dataDir": "$STATE/ipam", "ranges": [[{"subnet": "$POD_CIDR"}]], "routes": [{"dst": "$SERVICE_CIDR"}]}}]}
EOF
}

# makeIPTablesUtilChains: nothing here needs them, and they would stay behind.
# cgroupsPerQOS: works on cgroup v1, v2 and inside restricted machines alike.
write_kubelet_config() { # [PERIOD]
	cat >"$STATE/kubelet.yaml" <<EOF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
port: $KUBELET_PORT
readOnlyPort: 0
healthzPort: 0
healthzBindAddress: 127.0.0.1
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: false}
  x509: {clientCAFile: $STATE/kubelet-client.crt}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix://$SOCKET
podLogsDir: $STATE/pod-logs
volumePluginDir: $STATE/kubelet/volumeplugins
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
makeIPTablesUtilChains: false
failSwapOn: false
evictionHard: {memory.available: 1Mi, nodefs.available: 1Mi, imagefs.available: 1Mi}
imageGCHighThresholdPercent: 100
clusterDNS: [10.214.0.10]
clusterDomain: cluster.local
$(kubelet_settings)
EOF
	[[ -z ${1:-} ]] || echo "crashLoopBackOff: {maxContainerRestartPeriod: $1}" >>"$STATE/kubelet.yaml"
}
