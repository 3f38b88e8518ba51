# shellcheck shell=bash
# OpenKruise beside the cluster: its manager and its daemon as plain processes, its CRDs, rights and webhooks from its Go module.

OPENKRUISE=$STATE/openkruise
# The daemon looks for the socket of the container runtime in this folder, and in no other.
HOST_VAR_RUN=/hostvarrun
CRI_LINK=$HOST_VAR_RUN/$NETWORK.sock
# The pod by which others know that this node has the daemon.
STAND_IN=kruise-daemon-stand-in
CONFINED=openkruise-confined

openkruise_up() {
	local gate=false namespaces=() account
	while (($#)); do
		case $1 in
			--sidecar-terminator) gate=true ;;
			--namespace) namespaces+=("${2:?"'--namespace' needs a name"}") && shift ;;
			*) usage_error "unknown option '$1' of 'openkruise up'" ;;
		esac
		shift
	done
	command -v kubectl >/dev/null || die "'kubectl' is not on the PATH" "It puts the manifests of OpenKruise together."
	build openkruise
	# The manager has written into what it was installed with, and that does not merge with what is installed now.
	[[ ! -d $OPENKRUISE ]] || openkruise_down
	# Nor do the CRDs that swaplet ships, which other cases install.
	kube delete --ignore-not-found --filename "$E2E/../deploy/crds" >/dev/null
	mkdir -p "$OPENKRUISE/certs"
	install_openkruise "$gate" "${namespaces[@]}"
	for account in manager daemon; do openkruise_kubeconfig "$account"; done
	((!${#namespaces[@]})) || confine_manager "${namespaces[@]}"
	start_openkruise_manager "$gate"
	start_openkruise_daemon
	start_stand_in
}

# The webhooks first: without the manager they refuse pods.
openkruise_down() {
	[[ -d $OPENKRUISE ]] || { say "OpenKruise is not installed."; return; }
	kube delete --ignore-not-found mutatingwebhookconfiguration/kruise-mutating-webhook-configuration \
		validatingwebhookconfiguration/kruise-validating-webhook-configuration >/dev/null
	openkruise_daemon_down
	stop openkruise-manager
	kube delete --ignore-not-found "validatingadmissionpolicybinding/$CONFINED" "validatingadmissionpolicy/$CONFINED" >/dev/null
	kube delete --ignore-not-found --filename "$OPENKRUISE/all.yaml" >/dev/null
	rm -rf "$OPENKRUISE"
}

# The daemon hangs or has died, and its pod is still Ready.
openkruise_daemon_stop() { stop openkruise-daemon KILL; }

# The daemon is removed from the node.
openkruise_daemon_down() {
	kube delete --ignore-not-found --namespace kruise-system --grace-period 0 --force pod "$STAND_IN" 2>/dev/null >&2
	stop openkruise-daemon KILL
	remove_cri_link
}

remove_cri_link() {
	rm -f "$CRI_LINK"
	rmdir "$HOST_VAR_RUN" 2>/dev/null || true
}

kube() { kubectl --kubeconfig "$STATE/admin.kubeconfig" "$@"; }

install_openkruise() { # GATE NAMESPACE...
	openkruise_overlay "$@" >"$OPENKRUISE/kustomization.yaml"
	kubectl kustomize "$OPENKRUISE" >"$OPENKRUISE/all.yaml" 2>"$STATE/log/openkruise-kustomize.log" ||
		{ cat "$STATE/log/openkruise-kustomize.log" >&2; die "the manifests of OpenKruise cannot be put together"; }
	kube apply --server-side --force-conflicts --filename "$OPENKRUISE/all.yaml" >/dev/null
}

openkruise_module() { (cd "$E2E/modules/openkruise" && GOWORK=off go list -m -f '{{.Dir}}' github.com/openkruise/kruise); }

feature_gates() { echo "--feature-gates=SidecarTerminator=$1"; }

# The Deployment stays, without pods: it is where others read the feature gates. The three webhooks of pods are the only ones
# that touch what is not OpenKruise's; upstream restricts them by the same field.
openkruise_overlay() { # GATE NAMESPACE...
	local gate=$1 webhook_selector='{}'
	shift
	((!$#)) || webhook_selector="{matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [$(listed "$@")]}]}"
	cat <<-END
		resources: ["$(realpath --relative-to "$OPENKRUISE" "$(openkruise_module)/config/default")"]
		patches:
		  - patch: '{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: kruise-daemon, namespace: kruise-system}, \$patch: delete}'
		  - patch: |
		      apiVersion: apps/v1
		      kind: Deployment
		      metadata: {name: kruise-controller-manager, namespace: kruise-system}
		      spec:
		        replicas: 0
		        template: {spec: {containers: [{name: manager, args: ["$(feature_gates "$gate")"]}]}}
		  - patch: |
		      apiVersion: admissionregistration.k8s.io/v1
		      kind: MutatingWebhookConfiguration
		      metadata: {name: kruise-mutating-webhook-configuration}
		      webhooks: [{name: mpod.kb.io, namespaceSelector: $webhook_selector}]
		  - patch: |
		      apiVersion: admissionregistration.k8s.io/v1
		      kind: ValidatingWebhookConfiguration
		      metadata: {name: kruise-validating-webhook-configuration}
		      webhooks: [{name: vpod.kb.io, namespaceSelector: $webhook_selector}, {name: vpodeviction.kb.io, namespaceSelector: $webhook_selector}]
	END
}

# As a list of YAML and of CEL has it, without the brackets.
listed() { # NAMESPACE...
	local names
	printf -v names "'%s', " "$@"
	echo "${names%, }"
}

# The manager cannot be told to work in some namespaces only (with its flag --namespace, 1.9.0 panics): so it is kept from writing
# in others.
confine_manager() { # NAMESPACE...
	kube apply --server-side --force-conflicts --filename - >/dev/null <<-END
		apiVersion: admissionregistration.k8s.io/v1
		kind: ValidatingAdmissionPolicy
		metadata: {name: $CONFINED}
		spec:
		  matchConstraints:
		    resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*/*"], scope: Namespaced}]
		  matchConditions:
		    - {name: manager, expression: "request.userInfo.username == 'system:serviceaccount:kruise-system:kruise-manager'"}
		  validations:
		    - {expression: "request.namespace in [$(listed "$@"), 'kruise-system', 'kruise-daemon-config']"}
		---
		apiVersion: admissionregistration.k8s.io/v1
		kind: ValidatingAdmissionPolicyBinding
		metadata: {name: $CONFINED}
		spec: {policyName: $CONFINED, validationActions: [Deny]}
	END
}

# A kubeconfig of its ServiceAccount, so that it has its own rights and the audit log tells it apart.
openkruise_kubeconfig() { # ACCOUNT
	local token
	token=$(kube create token --namespace kruise-system --duration 24h "kruise-$1")
	sed "s/token: \".*\"/token: \"$token\"/" "$STATE/admin.kubeconfig" >"$OPENKRUISE/$1.kubeconfig"
}

# WEBHOOK_HOST has it register its webhooks by URL. They listen on all interfaces: that is fixed in its code.
start_openkruise_manager() { # GATE
	local name METRICS_PORT HEALTH_PORT WEBHOOK_PORT
	for name in METRICS_PORT HEALTH_PORT WEBHOOK_PORT; do free_port "$name"; done
	rm -f "$STATE/log/openkruise-manager.log"
	launch openkruise-manager env POD_NAMESPACE=kruise-system WEBHOOK_HOST=127.0.0.1 WEBHOOK_PORT="$WEBHOOK_PORT" \
		WEBHOOK_CERT_DIR="$OPENKRUISE/certs" "$(bin_dir openkruise)/kruise-manager" --kubeconfig "$OPENKRUISE/manager.kubeconfig" \
		--metrics-addr "127.0.0.1:$METRICS_PORT" --health-probe-addr "127.0.0.1:$HEALTH_PORT" --enable-pprof=false \
		"$(feature_gates "$1")" --v 3
	wait_for 120 "OpenKruise's manager to be ready" openkruise-manager curl -fsS --max-time 5 "http://127.0.0.1:$HEALTH_PORT/readyz"
	# The last one that it starts.
	wait_for 60 "OpenKruise's controllers to start" openkruise-manager \
		grep -q 'Starting workers.*NodePodProbe' "$STATE/log/openkruise-manager.log"
}

start_openkruise_daemon() {
	local HEALTH_PORT
	free_port HEALTH_PORT
	mkdir -p "$HOST_VAR_RUN"
	ln -sf "$SOCKET" "$CRI_LINK"
	launch openkruise-daemon env NODE_NAME="$NODE" "$(bin_dir openkruise)/kruise-daemon" --kubeconfig "$OPENKRUISE/daemon.kubeconfig" \
		--socket-file "${CRI_LINK##*/}" --addr "127.0.0.1:$HEALTH_PORT" --enable-pprof=false --v 3
	wait_for 60 "OpenKruise's daemon to be ready" openkruise-daemon curl -fsS --max-time 5 "http://127.0.0.1:$HEALTH_PORT/healthz"
}

start_stand_in() {
	kube apply --server-side --filename - >/dev/null <<-END
		apiVersion: v1
		kind: Pod
		metadata: {name: $STAND_IN, namespace: kruise-system, labels: {control-plane: daemon}}
		spec:
		  nodeName: "$NODE"
		  automountServiceAccountToken: false
		  containers: [{name: daemon, image: "$(park_image)"}]
	END
	kube wait --namespace kruise-system --for condition=Ready --timeout 60s "pod/$STAND_IN" >/dev/null
}
