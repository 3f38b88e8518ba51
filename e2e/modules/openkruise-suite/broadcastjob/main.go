// broadcastjob runs OpenKruise's own controller of BroadcastJobs, and nothing else of OpenKruise. It is built inside OpenKruise's module.
package main

import (
	"flag"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	kruiseapis "github.com/openkruise/kruise/apis"
	"github.com/openkruise/kruise/pkg/client"
	"github.com/openkruise/kruise/pkg/controller/broadcastjob"
	utilclient "github.com/openkruise/kruise/pkg/util/client"
)

func main() {
	klog.InitFlags(nil)
	flag.Parse()
	ctrl.SetLogger(klog.Background())
	config := ctrl.GetConfigOrDie()
	// Its cache knows this scheme only.
	utilruntime.Must(kruiseapis.AddToScheme(scheme.Scheme))
	utilruntime.Must(client.NewRegistry(config))
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:   scheme.Scheme,
		Metrics:  metricsserver.Options{BindAddress: "0"},
		NewCache: utilclient.NewCache,
	})
	utilruntime.Must(err)
	utilruntime.Must(broadcastjob.Add(manager))
	utilruntime.Must(manager.Start(ctrl.SetupSignalHandler()))
}
