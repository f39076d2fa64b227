package calibrate

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gpu/backend"
	"github.com/graphrun/graphrun/internal/gpu/device"
	"github.com/graphrun/graphrun/internal/gpu/software"
	"github.com/graphrun/graphrun/internal/machine"
)

// measureSoftware measures a device briefly.
func measureSoftware(ctx context.Context, d graph.Device) (machine.DeviceRates, []Point, []string, error) {
	var what []string
	options := &Options{Rounds: 1, CallTime: 100 * time.Microsecond, MaxBytes: 1 << 20}
	rates, points, err := measureDevice(ctx, d, options, func(_ int, name string) { what = append(what, name) })
	return rates, points, what, err
}

// TestDevice measures the interpreter. A profile accepts the rates, and the rates predict the measured times.
func TestDevice(t *testing.T) {
	d := backend.New(software.Open())
	rates, points, what, err := measureSoftware(context.Background(), d)
	require.NoError(t, err)
	assert.Equal(t, "interpreter", rates.Device)
	assert.NotEmpty(t, rates.Measured)
	assert.Len(t, what, deviceRates)
	for name, rate := range map[string]float64{"step": rates.StepPS, "byte": rates.BytePS,
		"operation": rates.OperationPS, "upload": rates.UploadPS, "download": rates.DownloadPS} {
		assert.Positive(t, rate, name)
	}
	assert.Less(t, rates.UploadPS, rates.BytePS, "the interpreter computes slower than it copies")
	require.Len(t, points, 1+deviceRates)
	for _, p := range points[2:] { // after the step and the wait
		assert.InEpsilon(t, p.NS, p.PredictedNS, .01, p.Of)
	}
	text, err := machine.DefaultProfile().WithDevice(d.Name(), rates).JSON()
	require.NoError(t, err)
	read, err := machine.ParseProfile(text)
	require.NoError(t, err)
	assert.Equal(t, rates, read.Devices["software"])
}

// brokenDevice is a device whose runs fail.
type brokenDevice struct{ device.Device }

var errBroken = errors.New("device lost")

func (brokenDevice) Run([]device.Step) error { return errBroken }

// TestDeviceError: an error names the device and the measurement.
func TestDeviceError(t *testing.T) {
	_, _, _, err := measureSoftware(context.Background(), backend.New(brokenDevice{software.Open()}))
	require.ErrorIs(t, err, errBroken)
	require.ErrorContains(t, err, "interpreter (software, other): device.step")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _, _, err = measureSoftware(ctx, backend.New(software.Open()))
	require.ErrorIs(t, err, context.Canceled)
}
