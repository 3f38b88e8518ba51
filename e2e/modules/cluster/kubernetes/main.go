// kubernetes is the API server, the controller manager, the scheduler and the kubelet in one program: what they share is
// linked once. Which of them runs is decided by the name that it is called with.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // for JSON logs
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // the metrics of the client
	_ "k8s.io/component-base/metrics/prometheus/version"  // the metric of the version
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	name := filepath.Base(os.Args[0])
	command := command(name)
	if command == nil {
		fmt.Fprintf(os.Stderr, "%s: call it by a link named kube-apiserver, kube-controller-manager, kube-scheduler or kubelet\n", name)
		os.Exit(2)
	}
	os.Exit(cli.Run(command))
}

// command returns the component of that name, or nil.
func command(name string) *cobra.Command {
	switch name {
	case "kube-apiserver":
		return apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		return controllermanager.NewControllerManagerCommand()
	case "kube-scheduler":
		return scheduler.NewSchedulerCommand()
	case "kubelet":
		return kubelet.NewKubeletCommand(context.Background())
	default:
		return nil
	}
}
