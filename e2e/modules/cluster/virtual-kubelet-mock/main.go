// virtual-kubelet-mock is a virtual node on the real virtual-kubelet library.
// Its provider runs no containers: it plays how the providers of virtual nodes
// react to a changed image. e2e/README.md says how to use it.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/virtual-kubelet/virtual-kubelet/log"
	vkslog "github.com/virtual-kubelet/virtual-kubelet/log/slog"
	"github.com/virtual-kubelet/virtual-kubelet/node"
	"github.com/virtual-kubelet/virtual-kubelet/node/nodeutil"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	options := parseOptions(os.Args[1:])
	// Provider calls go to standard output, the library's log to standard error.
	log.L = vkslog.FromSlog(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, options); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "virtual-kubelet-mock:", err)
		os.Exit(1)
	}
}

// run serves the node until the context ends or the library gives up.
func run(ctx context.Context, options *options) error {
	client, err := newClient(options.kubeconfig)
	if err != nil {
		return err
	}
	// NewNode first makes a client of its own from this, which is not used.
	if err := os.Setenv("KUBECONFIG", options.kubeconfig); err != nil {
		return err
	}
	calls := &journal{to: os.Stdout}
	vnode, err := nodeutil.NewNode(options.nodeName, newProvider(options, calls), nodeutil.WithClient(client), describeNode)
	if err != nil {
		return err
	}
	go func() {
		if vnode.WaitReady(ctx, 0) == nil {
			calls.write(entry{Ready: options.nodeName})
		}
	}()
	return vnode.Run(ctx)
}

// newClient is a client that is not throttled on our side: the mock must not be
// slower than what it plays.
func newClient(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	config.UserAgent = "virtual-kubelet-mock"
	return kubernetes.NewForConfig(config)
}

// newProvider gives the library a provider with or without NotifyPods; without,
// the library asks for every status in turn, every five seconds.
func newProvider(options *options, calls *journal) nodeutil.NewProviderFunc {
	return func(nodeutil.ProviderConfig) (nodeutil.Provider, node.NodeProvider, error) {
		plain := &provider{options: options, calls: calls, groups: map[string]*group{}}
		if options.status == "poll" {
			return plain, nil, nil
		}
		return notifier{plain}, nil, nil
	}
}
