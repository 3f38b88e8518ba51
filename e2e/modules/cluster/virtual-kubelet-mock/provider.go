package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	corev1 "k8s.io/api/core/v1"
)

// provider answers the library. It keeps a group of containers for each pod.
type provider struct {
	nothingElse
	options *options
	calls   *journal
	report  func(*corev1.Pod) // nil where the library polls

	mu     sync.Mutex
	groups map[string]*group
}

// notifier is a provider that tells of changes at once.
type notifier struct{ *provider }

// NotifyPods takes the function to tell with. It is called once, before the others.
func (n notifier) NotifyPods(_ context.Context, report func(*corev1.Pod)) { n.provider.report = report }

func keyOf(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

func (p *provider) note(call string, pod *corev1.Pod) {
	p.calls.write(entry{Call: call, Pod: keyOf(pod), UID: string(pod.UID)})
}

func (p *provider) find(key string) (*group, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if found := p.groups[key]; found != nil {
		return found, nil
	}
	return nil, errdefs.NotFoundf("there is no pod %s", key)
}

// CreatePod starts the containers of a pod. Arguments that cannot be read are an error.
func (p *provider) CreatePod(_ context.Context, pod *corev1.Pod) error {
	p.note("CreatePod", pod)
	created, err := newGroup(p.options, p.report, pod)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.groups[keyOf(pod)] = created
	p.mu.Unlock()
	created.start()
	return nil
}

// UpdatePod does what the profile says.
func (p *provider) UpdatePod(_ context.Context, pod *corev1.Pod) error {
	p.note("UpdatePod", pod)
	if p.options.profile == "rejects" {
		return fmt.Errorf("pods of this provider cannot be updated")
	}
	found, err := p.find(keyOf(pod))
	if err != nil {
		return err
	}
	if p.options.metadata == "stored" {
		found.keepMetadata(pod)
	}
	if p.options.profile == "inert" {
		return nil
	}
	return found.update(pod)
}

// DeletePod stops the containers of a pod; it does not wait for them.
func (p *provider) DeletePod(_ context.Context, pod *corev1.Pod) error {
	p.note("DeletePod", pod)
	found, err := p.find(keyOf(pod))
	if err != nil {
		return err
	}
	p.mu.Lock()
	delete(p.groups, keyOf(pod))
	p.mu.Unlock()
	found.stop(graceOf(pod.DeletionGracePeriodSeconds, 0))
	return nil
}

// GetPod gives the provider's copy of a pod.
func (p *provider) GetPod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	found, err := p.find(namespace + "/" + name)
	if err != nil {
		return nil, err
	}
	return found.copy(), nil
}

// GetPodStatus gives the status of a pod.
func (p *provider) GetPodStatus(ctx context.Context, namespace, name string) (*corev1.PodStatus, error) {
	pod, err := p.GetPod(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return &pod.Status, nil
}

// GetPods gives the provider's copies of all pods.
func (p *provider) GetPods(context.Context) ([]*corev1.Pod, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pods := make([]*corev1.Pod, 0, len(p.groups))
	for _, group := range p.groups {
		pods = append(pods, group.copy())
	}
	return pods, nil
}

func graceOf(seconds *int64, otherwise time.Duration) time.Duration {
	if seconds == nil {
		return otherwise
	}
	return time.Duration(*seconds) * time.Second
}
