# shellcheck shell=bash
# Brings the cluster up: missing packages, programs, configuration, components.

CNI_BIN=${SWAPLET_CNI_BIN:-/usr/lib/cni}

install_packages() {
	local missing=()
	[[ -x $CNI_BIN/ptp && -x $CNI_BIN/host-local ]] || missing=(containernetworking-plugins)
	[[ $RUNTIME != crio ]] || command -v conmon >/dev/null || missing+=(conmon)
	install_missing "${missing[@]}" <<-'EOF'
		runc runc
		docker-registry docker-registry
		curl curl
		openssl openssl
		ip iproute2
		iptables iptables
	EOF
}

# A program that was asked for must work; one that merely lies there may be old.
push_park_image() {
	local swaplet=${SWAPLET_BIN:-$E2E/../target/debug/swaplet}
	if [[ -x $swaplet ]] && "$swaplet" park-image push "$(park_image)" >&2; then return; fi
	[[ -z ${SWAPLET_BIN:-} ]] ||
		die "'$SWAPLET_BIN park-image push $(park_image)' failed" "SWAPLET_BIN must be the swaplet program; without this image no pod can start."
	say "NOTE: no sandbox image was pushed, so pods will stay in ContainerCreating." \
		"Run 'cargo build', then: target/debug/swaplet park-image push $(park_image)"
}

make_state() {
	mkdir -p "$STATE"
	chmod 700 "$STATE"
	remember_machine
	echo "$RUNTIME" >"$STATE/runtime"
	echo "$KUBERNETES" >"$STATE/kubernetes"
	mkdir "$STATE/log" "$STATE/pid" "$STATE/apiserver"
	mkdir -m 700 "$ETCD_DIR"
}

write_config() {
	choose_pod_cidr
	write_env
	write_credentials
	echo "Authorization: Bearer $(grep ,admin, "$STATE/tokens.csv" | cut -d, -f1)" >"$STATE/admin.header"
	write_registry_config
	"write_${RUNTIME}_config"
	write_network_config
	write_kubelet_config
}

# Those that wait for nobody first: they come up while the apiserver does.
start_all() {
	start_etcd
	start_registry
	"start_$RUNTIME"
	start_apiserver
	wait_for 20 "the registry to answer" registry registry_ready
	push_park_image
	wait_for 20 "the socket of $RUNTIME" "$RUNTIME" test -S "$SOCKET"
	wait_for 90 "the apiserver to be ready" apiserver api_ready
	open_api_service
	start_controller_manager
	start_scheduler
	start_kubelet
	wait_for 60 "node $NODE to be Ready" kubelet node_ready
	wait_for 60 "ServiceAccount default/default" controller-manager service_account_exists
}

all_alive() {
	local component
	for component in "${COMPONENTS[@]}"; do alive "$component" || return 1; done
}

cluster_up() {
	local start module programs=(cluster)
	need_root
	module=$(module_of_kubernetes "$KUBERNETES")
	[[ $module == cluster ]] || programs+=("$module")
	[[ $RUNTIME == containerd ]] || programs+=("$RUNTIME")
	[[ $RUNTIME == containerd || $RUNTIME == crio ]] || usage_error "SWAPLET_CLUSTER_RUNTIME must be containerd or crio, not '$RUNTIME'"
	[[ -d $E2E/modules/$module ]] || usage_error "SWAPLET_CLUSTER_KUBERNETES must be one of $(kubernetes_versions | xargs), not '$KUBERNETES'"
	if all_alive; then
		say "The cluster is already up. Use it with: eval \"\$(e2e/cluster env)\""
		return
	fi
	if [[ -n $(leftovers) ]]; then
		say "Cleaning up after an earlier run that did not end well ..."
		take_down
	fi
	install_packages
	build "${programs[@]}"
	start=$SECONDS
	make_state
	write_config
	start_all
	say "The cluster is up after $((SECONDS - start)) s. Use it with: eval \"\$(e2e/cluster env)\""
}
