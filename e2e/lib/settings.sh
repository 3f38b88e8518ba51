# shellcheck shell=bash
# Settings that a node and a registry have in every cluster of the tests.

# Many pods at once, whose images nobody waits for. On cgroup v1 a kubelet from 1.35 on does not start unless it is told to.
kubelet_settings() {
	cat <<-'EOF'
		failCgroupV1: false
		maxPods: 250
		serializeImagePulls: false
		registryPullQPS: 0
	EOF
}

registry_settings() { # FOLDER ADDRESS
	cat <<-EOF
		version: 0.1
		log: {level: warn, accesslog: {disabled: true}}
		storage:
		  filesystem: {rootdirectory: $1}
		  delete: {enabled: true}
		http: {addr: "$2", secret: e2e}
	EOF
}
