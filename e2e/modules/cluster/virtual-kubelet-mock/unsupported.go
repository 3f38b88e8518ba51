package main

import (
	"context"
	"errors"
	"io"

	dto "github.com/prometheus/client_model/go"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// nothingElse is what the library wants of a provider and no case needs.
type nothingElse struct{}

var errNothingElse = errors.New("the mock has no such thing")

func (nothingElse) GetContainerLogs(context.Context, string, string, string, api.ContainerLogOpts) (io.ReadCloser, error) {
	return nil, errNothingElse
}

func (nothingElse) RunInContainer(context.Context, string, string, string, []string, api.AttachIO) error {
	return errNothingElse
}

func (nothingElse) AttachToContainer(context.Context, string, string, string, api.AttachIO) error {
	return errNothingElse
}

func (nothingElse) GetStatsSummary(context.Context) (*statsv1alpha1.Summary, error) {
	return nil, errNothingElse
}

func (nothingElse) GetMetricsResource(context.Context) ([]*dto.MetricFamily, error) {
	return nil, errNothingElse
}

func (nothingElse) PortForward(context.Context, string, string, int32, io.ReadWriteCloser) error {
	return errNothingElse
}
