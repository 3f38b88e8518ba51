package main

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const defaultGrace = 30 * time.Second

// group is what the provider runs for one pod: its containers, each of which
// lives in a goroutine of its own, one life after another.
type group struct {
	options *options
	report  func(*corev1.Pod)

	reporting sync.Mutex // held from a change until it is told, so that no report overtakes a newer one

	mu         sync.Mutex // guards what follows
	pod        *corev1.Pod
	containers []*container
	stopped    bool // no container starts any more
}

func newGroup(options *options, report func(*corev1.Pod), pod *corev1.Pod) (*group, error) {
	g := &group{options: options, report: report, pod: pod.DeepCopy()}
	for i := range pod.Spec.Containers {
		spec := &pod.Spec.Containers[i]
		if _, err := options.behaviourOf(spec); err != nil {
			return nil, err
		}
		g.containers = append(g.containers, newContainer(spec))
	}
	now := metav1.Now()
	g.pod.Status.StartTime = &now
	return g, nil
}

// start brings all containers to life.
func (g *group) start() {
	g.change(func() bool { return true })
	for _, c := range g.containers {
		go g.live(c)
	}
}

// live plays the lives of a container until there is no next one.
func (g *group) live(c *container) {
	for {
		time.Sleep(g.options.startDelay)
		life, ok := g.begin(c)
		if !ok || !g.end(c, life.play(c.stop)) {
			return
		}
	}
}

func (g *group) begin(c *container) (life behaviour, ok bool) {
	g.change(func() bool {
		if g.stopped {
			return false
		}
		life, _ = g.options.behaviourOf(&c.spec) // was checked before it was stored
		c.begun(g.options, g.pod)
		ok = true
		return true
	})
	return life, ok
}

// end records the end of a life and says whether another one follows.
func (g *group) end(c *container, code int32) (again bool) {
	g.change(func() bool {
		c.living = false
		replaced := c.replacing && !g.stopped
		if replaced && g.options.gap == "hidden" {
			again = true
			return false
		}
		c.ended(code)
		c.follows = !g.stopped && restartsAfter(g.pod.Spec.RestartPolicy, code)
		c.follows = c.follows || replaced && g.options.gap == "reported"
		if phase := g.phase(); phase == corev1.PodSucceeded || phase == corev1.PodFailed {
			g.stopped = true // what is judged stays as it is
		}
		again = !g.stopped && (c.follows || replaced)
		return true
	})
	return again
}

// update takes over the images of a pod; running containers whose image has
// changed are stopped and started again. A container that has ended stays so.
func (g *group) update(pod *corev1.Pod) error {
	for i := range pod.Spec.Containers {
		if _, err := g.options.behaviourOf(&pod.Spec.Containers[i]); err != nil {
			return err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pod.Spec = *pod.Spec.DeepCopy()
	for i, c := range g.containers {
		changed := c.spec.Image != pod.Spec.Containers[i].Image
		c.spec = pod.Spec.Containers[i]
		if changed && c.living && !c.replacing {
			c.replacing = true
			c.terminate(g.options.updateLatency, graceOf(pod.Spec.TerminationGracePeriodSeconds, defaultGrace))
		}
	}
	return nil
}

func (g *group) keepMetadata(pod *corev1.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pod.ObjectMeta = *pod.ObjectMeta.DeepCopy()
}

// stop ends all containers for good.
func (g *group) stop(grace time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = true
	for _, c := range g.containers {
		if c.living {
			c.terminate(0, grace)
		}
	}
}

func (g *group) copy() *corev1.Pod {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pod.DeepCopy()
}

// change applies a change of state, which says whether it can be seen; if so, it
// is told.
func (g *group) change(apply func() (seen bool)) {
	g.reporting.Lock()
	defer g.reporting.Unlock()
	g.mu.Lock()
	seen := apply()
	if seen {
		g.writeStatus()
	}
	pod := g.pod.DeepCopy()
	g.mu.Unlock()
	if seen && g.report != nil {
		g.report(pod)
	}
}
