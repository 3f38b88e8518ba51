package main

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// container is one container of a group, whose lock guards it.
type container struct {
	spec      corev1.Container // as its next life will be
	status    corev1.ContainerStatus
	lives     int32
	living    bool
	replacing bool               // this life is ended for another image
	follows   bool               // this life has ended, and it is seen that another one follows
	stop      chan time.Duration // SIGTERM for this life, with its grace period
}

func newContainer(spec *corev1.Container) *container {
	creating := &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	status := corev1.ContainerStatus{Name: spec.Name, Image: spec.Image, State: corev1.ContainerState{Waiting: creating}}
	return &container{spec: *spec, status: status}
}

// begun starts a life.
func (c *container) begun(options *options, pod *corev1.Pod) {
	c.lives++
	c.living, c.replacing, c.follows = true, false, false
	c.stop = make(chan time.Duration, 2) // an update and a deletion, so that nobody waits
	yes := true
	c.status = corev1.ContainerStatus{
		Name: c.spec.Name, Image: c.spec.Image, ImageID: options.imageIDOf(c.spec.Image), Ready: true, Started: &yes,
		ContainerID: c.id(options, pod),
		State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
	}
	if options.restartCount == "counted" {
		c.status.RestartCount = c.lives - 1
	}
}

func (c *container) id(options *options, pod *corev1.Pod) string {
	name := string(pod.UID) + "/" + c.spec.Name
	if options.containerIDs == "new" {
		name += fmt.Sprintf("/%d", c.lives)
	}
	return "mock://" + hash(name)
}

// ended puts the end of a life into the status.
func (c *container) ended(code int32) {
	reason := "Completed"
	if code != 0 {
		reason = "Error"
	}
	no := false
	c.status.Ready, c.status.Started = false, &no
	c.status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, ContainerID: c.status.ContainerID,
		StartedAt: c.status.State.Running.StartedAt, FinishedAt: metav1.Now(),
	}}
}

// terminate sends SIGTERM after a while.
func (c *container) terminate(after, grace time.Duration) {
	stop := c.stop
	time.AfterFunc(after, func() { stop <- grace })
}

func restartsAfter(policy corev1.RestartPolicy, code int32) bool {
	return policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && code != 0
}
