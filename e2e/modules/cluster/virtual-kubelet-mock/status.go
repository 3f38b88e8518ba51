package main

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// phase is made of the states of the containers and of the restart policy, as
// providers make it of the state of a container group.
func (g *group) phase() corev1.PodPhase {
	over, failed := 0, false
	for _, c := range g.containers {
		switch ended := c.status.State.Terminated; {
		case c.lives == 0:
			return corev1.PodPending
		case ended != nil && !c.follows:
			over++
			failed = failed || ended.ExitCode != 0
		}
	}
	switch {
	case over < len(g.containers):
		return corev1.PodRunning
	case failed:
		return corev1.PodFailed
	default:
		return corev1.PodSucceeded
	}
}

// writeStatus puts the state of the containers into the provider's copy of the pod.
func (g *group) writeStatus() {
	status := &g.pod.Status
	status.Phase = g.phase()
	status.ContainerStatuses = nil
	ready := corev1.ConditionTrue
	for _, c := range g.containers {
		status.ContainerStatuses = append(status.ContainerStatuses, *c.status.DeepCopy())
		if !c.status.Ready {
			ready = corev1.ConditionFalse
		}
	}
	g.setCondition(corev1.PodInitialized, corev1.ConditionTrue)
	g.setCondition(corev1.ContainersReady, ready)
	g.setCondition(corev1.PodReady, ready)
}

func (g *group) setCondition(kind corev1.PodConditionType, value corev1.ConditionStatus) {
	wanted := corev1.PodCondition{Type: kind, Status: value, LastTransitionTime: metav1.Now()}
	conditions := g.pod.Status.Conditions
	for i := range conditions {
		if conditions[i].Type == kind {
			if conditions[i].Status != value {
				conditions[i] = wanted
			}
			return
		}
	}
	g.pod.Status.Conditions = append(conditions, wanted)
}
