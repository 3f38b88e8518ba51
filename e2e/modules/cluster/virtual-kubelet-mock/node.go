package main

import (
	"github.com/virtual-kubelet/virtual-kubelet/node/nodeutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// describeNode completes the library's node object: a taint that keeps other
// pods away, and room for many of those that tolerate it. The library has set
// the labels type=virtual-kubelet and kubernetes.io/hostname.
func describeNode(config *nodeutil.NodeConfig) error {
	config.HTTPListenAddr = "127.0.0.1:0" // and without TLS nothing listens at all
	config.SkipDownwardAPIResolution = true
	spec := &config.NodeSpec
	spec.Labels[corev1.LabelOSStable] = "linux"
	spec.Labels[corev1.LabelArchStable] = "amd64"
	spec.Spec.Taints = []corev1.Taint{{Key: "virtual-kubelet.io/provider", Value: "mock", Effect: corev1.TaintEffectNoSchedule}}
	room := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("10k"),
		corev1.ResourceMemory: resource.MustParse("100Ti"),
		corev1.ResourcePods:   resource.MustParse("100k"),
	}
	spec.Status.Capacity = room
	spec.Status.Allocatable = room
	spec.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	// Virtual nodes report versions of their own, which are not a kubelet's.
	spec.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: "v1.37.2-vk-mock", OperatingSystem: "linux", Architecture: "amd64"}
	return nil
}
