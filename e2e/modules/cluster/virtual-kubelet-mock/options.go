package main

import (
	"flag"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// options say which virtual node is played.
type options struct {
	kubeconfig, nodeName string

	profile, status, containerIDs, restartCount, imageID, gap, metadata string

	exitImage                           string
	exitRuns, startDelay, updateLatency time.Duration
}

// parseOptions reads the command line; it ends the program where that is wrong.
func parseOptions(arguments []string) *options {
	options := &options{}
	set := flag.NewFlagSet("virtual-kubelet-mock", flag.ExitOnError)
	set.StringVar(&options.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "`file` that says where the API server is")
	set.StringVar(&options.nodeName, "node-name", "virtual", "`name` of the node")
	choice(set, &options.profile, "profile", "what UpdatePod does: replaces changed containers, nothing, or fails", "updates", "inert", "rejects")
	choice(set, &options.status, "status", "how statuses reach the API server: told at once, or asked for every 5 s", "notify", "poll")
	choice(set, &options.containerIDs, "container-ids", "containerID of a container that was started again", "constant", "new")
	choice(set, &options.restartCount, "restart-count", "restartCount of a container that was started again", "unchanged", "counted")
	choice(set, &options.imageID, "image-id", "imageID of every container", "empty", "digest")
	choice(set, &options.gap, "gap", "what is seen between the old and the new container of an update: nothing, the old one's end, or that and a phase made of it", "hidden", "reported", "judged")
	choice(set, &options.metadata, "metadata", "whether the provider's copy of a pod takes over changed labels and annotations; if not, the next status report reverts them", "stored", "reverting")
	set.StringVar(&options.exitImage, "exit-image", "", "images that match this `pattern` (* is any characters but /) are exit images, besides those in a repository called exit")
	set.DurationVar(&options.exitRuns, "exit-runs", time.Second, "how long an exit image is seen running")
	set.DurationVar(&options.startDelay, "start-delay", 200*time.Millisecond, "how long the start of a container takes, pull included")
	set.DurationVar(&options.updateLatency, "update-latency", 0, "how long after UpdatePod the old containers get SIGTERM")
	_ = set.Parse(arguments)
	if err := options.check(set.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "virtual-kubelet-mock:", err)
		os.Exit(2)
	}
	return options
}

func (options *options) check(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("unexpected argument %q", rest[0])
	}
	if _, err := path.Match(options.exitImage, ""); err != nil {
		return fmt.Errorf("--exit-image %q: %w", options.exitImage, err)
	}
	return nil
}

// choice adds a flag that takes one of a few words; the first is the default.
func choice(set *flag.FlagSet, target *string, name, usage string, allowed ...string) {
	*target = allowed[0]
	words := strings.Join(allowed, "|")
	set.Func(name, fmt.Sprintf("`%s`: %s (default %s)", words, usage, allowed[0]), func(value string) error {
		if !slices.Contains(allowed, value) {
			return fmt.Errorf("must be %s", words)
		}
		*target = value
		return nil
	})
}
