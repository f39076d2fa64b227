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
	"github.com/graphrun/graphrun/pricing"
)

// measureSoftware measures a device briefly.
func measureSoftware(ctx context.Context, d graph.Device) (pricing.DeviceRates, []Point, []string, error) {
	var what []string
	options := &Options{Rounds: 1, CallTime: 100 * time.Microsecond, MaxBytes: 1 << 20}
	rates, points, err := measureDevice(ctx, d, options, func(_ int, name string) { what = append(what, name) })
	return rates, points, what, err
}

// TestDevice measures the interpreter. A profile accepts the rates, and all rates together predict the times of runs.
func TestDevice(t *testing.T) {
	d := backend.New(software.Open())
	rates, points, what, err := measureSoftware(context.Background(), d)
	require.NoError(t, err)
	assert.Equal(t, "interpreter", rates.Device)
	assert.NotEmpty(t, rates.Measured)
	assert.Len(t, what, deviceMeasurements)
	for name, rate := range map[string]float64{"step": rates.StepPS, "byte": rates.BytePS,
		"operation": rates.OperationPS, "upload": rates.UploadPS, "download": rates.DownloadPS} {
		assert.Positive(t, rate, name)
	}
	assert.Less(t, rates.UploadPS, rates.BytePS, "the interpreter computes slower than it copies")
	require.Len(t, points, 1+deviceMeasurements)
	of := map[string]Point{}
	for _, p := range points {
		of[p.Of] = p
		// The rate of a run is its time without the overhead, and a prediction adds the prices of other work.
		assert.GreaterOrEqual(t, p.PredictedNS, .999*p.NS, p.Of)
		assert.GreaterOrEqual(t, p.PredictedNS, .999*(rates.StepPS+rates.WaitPS)/1e3, p.Of)
	}
	const stepBytes = 2 * 32 * 4 // of an operand and a result
	assert.EqualValues(t, stepBytes, of[pricing.DeviceWait].Bytes)
	assert.EqualValues(t, 64*stepBytes, of["device.step"].Bytes, "the bytes of all calls")
	upload := of[pricing.DeviceUpload]
	assert.InEpsilon(t, (rates.StepPS+rates.WaitPS+upload.Bytes*rates.UploadPS)/1e3, upload.PredictedNS, 1e-9)
	assert.GreaterOrEqual(t, of["device.byte"].PredictedNS,
		.999*(rates.WaitPS+of["device.byte"].Bytes*rates.BytePS)/1e3)
	// The step and the wait are measured first. Their predictions have the price of a byte, which is measured last.
	assert.GreaterOrEqual(t, of[pricing.DeviceWait].PredictedNS,
		.999*(rates.StepPS+rates.WaitPS+stepBytes*rates.BytePS)/1e3)
	text, err := pricing.DefaultProfile().WithDevice(d.Name(), rates).JSON()
	require.NoError(t, err)
	read, err := pricing.ParseProfile(text)
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
	_, err = Run(context.Background(), Options{Device: backend.New(brokenDevice{software.Open()}),
		Progress: func(int, int, string) { t.Error("the host is measured before the device is checked") }})
	require.ErrorIs(t, err, errBroken)
	require.ErrorContains(t, err, "interpreter (software, other): relu: ")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _, _, err = measureSoftware(ctx, backend.New(software.Open()))
	require.ErrorIs(t, err, context.Canceled)
}
