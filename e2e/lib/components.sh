# shellcheck shell=bash
# How each component is started.

start_registry() { launch registry docker-registry serve "$STATE/registry.yml"; }

# Unix sockets: no ports, and nobody else on the machine can read the data. The
# peer socket is unused, but etcd insists on a URL that looks like host:port.
start_etcd() {
	(cd "$ETCD_DIR" && launch etcd "$BIN/etcd" --name e2e --data-dir "$ETCD_DIR/data" --unsafe-no-fsync --log-level warn \
		--listen-client-urls "unix://$STATE/etcd.sock" --advertise-client-urls unix://client:1 \
		--listen-peer-urls unix://peer:1 --initial-advertise-peer-urls unix://peer:1 --initial-cluster e2e=unix://peer:1)
}

# The endpoint reconciler would refuse to publish a loopback address.
start_apiserver() {
	launch apiserver "$KUBERNETES_BIN/kube-apiserver" --etcd-servers "unix://$STATE/etcd.sock" \
		--bind-address 127.0.0.1 --advertise-address 127.0.0.1 --secure-port "$API_PORT" \
		--endpoint-reconciler-type none --cert-dir "$STATE/apiserver" \
		--token-auth-file "$STATE/tokens.csv" --authorization-mode RBAC --allow-privileged \
		--service-account-issuer https://kubernetes.default.svc --service-account-key-file "$STATE/sa.key" \
		--service-account-signing-key-file "$STATE/sa.key" --service-cluster-ip-range "$SERVICE_CIDR" \
		--kubelet-client-certificate "$STATE/kubelet-client.crt" --kubelet-client-key "$STATE/kubelet-client.key" \
		--audit-policy-file "$E2E/audit-policy.yaml" --audit-log-path "$STATE/audit.log" --audit-log-maxsize 4096
}

# What kube-proxy does elsewhere, for the one Service that pods need. Loopback addresses are open to interfaces that come later
# only: those of pods.
open_api_service() {
	echo 1 >/proc/sys/net/ipv4/conf/default/route_localnet
	iptables -w -t nat -A PREROUTING -s "$POD_CIDR" -d "$API_SERVICE" -p tcp --dport 443 -m comment --comment "$NETWORK" \
		-j DNAT --to-destination "127.0.0.1:$API_PORT" ||
		die "iptables does not take a rule of the table nat" "Pods need it to reach the API server."
}
api_service_rules() { iptables -w -t nat -S PREROUTING 2>/dev/null | grep -F -- "--comment $NETWORK " || true; }

start_controller_manager() {
	launch controller-manager "$KUBERNETES_BIN/kube-controller-manager" --kubeconfig "$STATE/kube-controller-manager.kubeconfig" \
		--service-account-private-key-file "$STATE/sa.key" --root-ca-file "$STATE/apiserver/apiserver.crt" \
		--leader-elect=false --secure-port 0
}

start_scheduler() {
	launch scheduler "$KUBERNETES_BIN/kube-scheduler" --kubeconfig "$STATE/kube-scheduler.kubeconfig" --leader-elect=false --secure-port 0
}

# Our folder first on the PATH: the machine may have a shim of another version.
start_containerd() {
	launch containerd env PATH="$BIN:$PATH" "$BIN/containerd" --config "$STATE/containerd.toml" --log-level warn
}
image_client_of_containerd() { echo "$BIN/ctr --address $SOCKET --namespace k8s.io"; }
# There is a folder for each container and sandbox that runs, which is called by its ID.
tasks_of_containerd() { echo "$STATE/containerd/state/io.containerd.runtime.v2.task/k8s.io"; }

# shellcheck disable=SC2153 # NODE is set in config.sh
start_kubelet() {
	launch kubelet "$KUBERNETES_BIN/kubelet" --config "$STATE/kubelet.yaml" --kubeconfig "$STATE/kubelet.kubeconfig" \
		--root-dir "$STATE/kubelet" --cert-dir "$STATE/kubelet/pki" --hostname-override "$NODE"
}

# A virtual node: a component that there may be none or many of. Its log starts
# anew, because a line in it tells that the node is ready.
start_virtual_node() { # NAME OPTION...
	local component=virtual-node-$1
	rm -f "$STATE/log/$component.log"
	launch "$component" "$(virtual_kubelet)" --kubeconfig "$STATE/admin.kubeconfig" --node-name "$@"
	wait_for 60 "virtual node $1 to be Ready" "$component" grep -q '"ready":' "$STATE/log/$component.log"
}
virtual_kubelet() { echo "$BIN/virtual-kubelet-mock"; }
# Components that there may be or not.
extra_components() { find "$STATE/pid" -name 'openkruise-*' -printf '%f\n' 2>/dev/null | sort || true; virtual_nodes; }
virtual_nodes() { find "$STATE/pid" -name 'virtual-node-*' -printf '%f\n' 2>/dev/null | sort || true; }

# shellcheck disable=SC2034 # used in other parts
COMPONENTS=(registry etcd apiserver controller-manager scheduler "$RUNTIME" kubelet)

api() { curl -fsS --max-time 5 --cacert "$STATE/apiserver/apiserver.crt" -H @"$STATE/admin.header" "${@:2}" "https://127.0.0.1:$API_PORT$1"; }
api_ready() { api /readyz; }
registry_ready() { curl -fsS --max-time 5 "http://127.0.0.1:$REGISTRY_PORT/v2/"; }
service_account_exists() { api /api/v1/namespaces/default/serviceaccounts/default; }
# The taint goes a moment after the node got Ready; until then no pod is scheduled.
# (Without "pretty=false" the apiserver formats its answers to curl for humans.)
node_ready() {
	local node
	node=$(api "/api/v1/nodes/$NODE?pretty=false") || return 1
	[[ $node == *'"reason":"KubeletReady"'* && $node != *'node.kubernetes.io/not-ready'* ]]
}
