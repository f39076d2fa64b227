package gpu_test

import (
	"testing"

	"github.com/graphrun/graphrun/gpu"
)

// TestCopyBandwidth measures the copies of all devices.
func TestCopyBandwidth(t *testing.T) {
	list, err := gpu.Open()
	if len(list) == 0 {
		t.Skipf("no device: %v", err)
	}
	for _, d := range list {
		defer d.Close()
		rate, err := gpu.CopyBandwidth(d)
		if err != nil || rate < 1e6 {
			t.Errorf("%s: %g bytes per second, %v", d.Info().Name, rate, err)
		}
	}
}
