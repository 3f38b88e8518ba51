# shellcheck shell=bash
# Makes the image of kind's node from Debian's packages and our programs, for machines that reach no registry of images. What is in it
# follows the Dockerfile of kind's own base image, whose files are in kind's module.

SUITE=bookworm
NODE_PACKAGES=(conntrack containernetworking-plugins docker-registry ethtool iproute2 iptables jq kmod libseccomp2 mount procps runc systemd util-linux)

# A new program, package or line of this file is a new image.
image_name() {
	local key
	key=$({ bin_dir cluster; bin_dir kind; cat "$E2E/lib/kind-image.sh"; } | sha256sum | cut -c1-12)
	echo "localhost/swaplet-kind-node:$key"
}

module_folder() { (cd "$E2E/modules/kind" && GOWORK=off go list -m -f '{{.Dir}}' "$1"); } # MODULE

# The image of this name that kubeadm wants.
wanted() { "$KIND_BIN/kubeadm" config images list --kubernetes-version "$(kubernetes_version)" | grep "/$1:"; } # NAME

make_image() { # NAME
	local start=$SECONDS work=$KIND_CACHE/.building pid
	say "kind: the image of the node ..."
	rm -rf --one-file-system "$work"
	mkdir -p "$work/images/blobs/sha256"
	(make_parts "$work" "$1") >"$work.log" 2>&1 &
	pid=$!
	trap 'pkill -P "$pid" 2>/dev/null; kill "$pid" 2>/dev/null; exit 130' INT TERM
	wait "$pid" || { tail -n 30 "$work.log" >&2; die "making the image of kind's node failed" "It needs the packages of Debian $SUITE."; }
	trap - INT TERM
	rm -rf "$work" "$work.log"
	say "kind: the image of the node done in $((SECONDS - start)) s"
}

make_parts() { # FOLDER NAME
	cd "$1"
	make_root
	make_images
	preload
	tar -C root -c . | "$ENGINE" import --change 'ENTRYPOINT ["/usr/local/bin/entrypoint","/sbin/init"]' --change 'ENV container=docker' - "$2"
}

make_root() {
	mmdebstrap --quiet --mode=root --variant=minbase --include="$(IFS=,; echo "${NODE_PACKAGES[*]}")" --dpkgopt=force-unsafe-io \
		--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		"$SUITE" root
	cp -RT --no-preserve=mode "$(module_folder sigs.k8s.io/kind)/images/base/files" root
	chmod 755 root/usr/local/bin/* root/kind/bin/*
	# Those of Debian that are not of one network only would change the machine.
	rm -f root/usr/lib/sysctl.d/* root/etc/sysctl.d/99-sysctl.conf
	chroot root sh -ec '
		cd /lib/systemd/system
		rm -f sysinit.target.wants/systemd-tmpfiles-setup.service multi-user.target.wants/* /etc/systemd/system/*.wants/* \
			local-fs.target.wants/* sockets.target.wants/*udev* sockets.target.wants/*initctl* basic.target.wants/*
		echo ReadKMsg=no >>/etc/systemd/journald.conf
		ln -sf /lib/systemd/systemd /sbin/init
		systemctl -q enable kubelet.service containerd.service undo-mount-hacks.service
		systemctl -q mask systemd-binfmt.service'
	mkdir -p root/etc/kubernetes/manifests root/opt/cni/bin root/etc/cni/net.d root/kind/manifests
	cp root/usr/lib/cni/* root/opt/cni/bin/
	cp "$BIN"/{containerd,containerd-shim-runc-v2,ctr} root/usr/local/bin/
	cp "$BIN/kubelet" "$KIND_BIN"/{kubeadm,kubectl} root/usr/bin/
	write_node_config
}

# Without CAP_SYS_RESOURCE nobody may lower an OOM score, and runc would fail trying. The two manifests are applied by kind; the network of a
# single node needs no daemon.
write_node_config() {
	"$BIN/ctr" oci spec | jq '.hooks.createContainer += [{"path": "/kind/bin/mount-product-files.sh"}] | del(.process.rlimits)' >root/etc/containerd/cri-base.json
	sed -i -e 's/restrict_oom_score_adj = false/restrict_oom_score_adj = true/' -e '/^\[proxy_plugins\]/,/^$/d' \
		-e "s#sandbox_image = .*#sandbox_image = \"$(wanted pause)\"#" root/etc/containerd/config.toml
	kubernetes_version >root/kind/version
	cat >root/kind/manifests/default-cni.yaml <<-'EOF'
		apiVersion: v1
		kind: ConfigMap
		metadata: {name: network-is-in-the-image, namespace: kube-system}
	EOF
	cat >root/kind/manifests/default-storage.yaml <<-'EOF'
		apiVersion: storage.k8s.io/v1
		kind: StorageClass
		metadata: {name: standard, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
		provisioner: kubernetes.io/host-path
	EOF
	cat >root/etc/cni/net.d/10-kind.conflist <<-'EOF'
		{"cniVersion": "1.0.0", "name": "kind", "plugins": [
		  {"type": "ptp", "ipMasq": true, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
		  {"type": "portmap", "capabilities": {"portMappings": true}}]}
	EOF
}

# The images of the control plane are static programs and nothing else. kube-proxy needs iptables, with its libraries.
make_images() {
	local name iptables=/usr/sbin/xtables-nft-multi
	mkdir -p layers/{kubernetes,etcd,proxy}/usr/local/bin layers/pause
	cp "$BIN/kube-apiserver" layers/kubernetes/usr/local/bin/
	for name in kube-controller-manager kube-scheduler; do ln -s kube-apiserver "layers/kubernetes/usr/local/bin/$name"; done
	cp "$BIN/etcd" layers/etcd/usr/local/bin/
	cp "$KIND_BIN/kube-proxy" layers/proxy/usr/local/bin/
	# shellcheck disable=SC2016 # for that shell
	chroot root sh -ec 'cp --parents -L "$1" $(ldd "$1" | grep -o "/[^ ]*") /usr/lib/*/xtables/* /mnt' sh "$iptables"
	cp -a root/mnt/. layers/proxy/
	rm -rf root/mnt/*
	for name in ip{,6}tables{,-save,-restore}; do ln -s "${iptables##*/}" "layers/proxy/usr/sbin/$name"; done
	cc -Os -static -DVERSION="$(wanted pause | sed 's/.*://')" -o layers/pause/pause "$(module_folder k8s.io/kubernetes)/build/pause/linux/pause.c"
	{
		make_one kubernetes "$(wanted kube-apiserver)" "$(wanted kube-controller-manager)" "$(wanted kube-scheduler)"
		make_one etcd "$(wanted etcd)"
		make_one proxy "$(wanted kube-proxy)"
		make_one pause "$(wanted pause)"
	} | jq -s '{schemaVersion: 2, manifests: .}' >images/index.json
	echo '{"imageLayoutVersion": "1.0.0"}' >images/oci-layout
}

# An image of one layer as an OCI layout has it; prints its entry for each name in the index.
make_one() { # LAYER NAME...
	local layer config manifest name platform
	platform="{\"architecture\": \"$(go env GOARCH)\", \"os\": \"linux\"}"
	tar -C "layers/$1" -c . >layer.tar
	layer=$(blob application/vnd.oci.image.layer.v1.tar layer.tar)
	jq -n --argjson layer "$layer" --argjson platform "$platform" '$platform + {config: {Env: ["PATH=/usr/local/bin:/usr/sbin"], Entrypoint: ["/pause"]},
		rootfs: {type: "layers", diff_ids: [$layer.digest]}}' >config.json
	config=$(blob application/vnd.oci.image.config.v1+json config.json)
	jq -n --argjson layer "$layer" --argjson config "$config" '{schemaVersion: 2, config: $config, layers: [$layer]}' >manifest.json
	manifest=$(blob application/vnd.oci.image.manifest.v1+json manifest.json)
	shift
	for name in "$@"; do
		jq -n --arg name "$name" --argjson manifest "$manifest" --argjson platform "$platform" \
			'$manifest + {platform: $platform, annotations: {"io.containerd.image.name": $name}}'
	done
}

# Puts a file among the blobs of the layout; prints its descriptor.
blob() { # TYPE FILE
	local digest size
	digest=$(sha256sum "$2" | cut -d ' ' -f 1)
	size=$(stat -c %s "$2")
	mv "$2" "images/blobs/sha256/$digest"
	echo "{\"mediaType\": \"$1\", \"digest\": \"sha256:$digest\", \"size\": $size}"
}

# A containerd imports them into the folder that is its own in the node; that of the node unpacks them when it starts them.
preload() {
	local pid address=$PWD/containerd.sock
	rm -rf root/var/lib/containerd
	cat >preload.toml <<-EOF
		version = 3
		root = "$PWD/root/var/lib/containerd"
		state = "$PWD/preload"
		disabled_plugins = ["io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]
		[grpc]
		address = "$address"
	EOF
	"$BIN/containerd" --config preload.toml --log-level warn &
	pid=$!
	until "$BIN/ctr" --address "$address" version >/dev/null 2>&1; do kill -0 "$pid" && sleep 0.1; done
	tar -C images -c . | "$BIN/ctr" --address "$address" --namespace k8s.io images import --local --no-unpack -
	kill "$pid"
	wait "$pid" || true
	rm -rf images layers root/var/lib/containerd/{tmpmounts,io.containerd.snapshotter.*}
}
