package gpu

import (
	"time"

	"github.com/graphrun/graphrun/internal/gpu/device"
)

// maxCopyBytes is the size of the copies that [CopyBandwidth] measures. It exceeds the caches of all devices.
const maxCopyBytes = 1 << 28

// CopyBandwidth measures copies within the memory of a device. It returns the number of bytes that are read and written
// per second. Of several runs, the fastest one counts.
func CopyBandwidth(d device.Device) (float64, error) {
	const copies, runs = 4, 5
	bytes := maxCopyBytes
	if m := d.Info().Memory / 8; m > 0 {
		bytes = min(bytes, m)
	}
	var buffers [2]*device.Buffer
	for k := range buffers {
		b, err := d.Alloc(bytes, false)
		if err != nil {
			return 0, err
		}
		defer b.Free()
		buffers[k] = b
	}
	var steps []device.Step
	for range copies {
		steps = append(steps, device.Step{To: buffers[1], From: buffers[0], Bytes: bytes})
	}
	best := time.Duration(0)
	for k := range runs + 1 { // the first run touches the memory
		start := time.Now()
		if err := d.Run(steps); err != nil {
			return 0, err
		}
		if took := time.Since(start); k > 0 && (best == 0 || took < best) {
			best = took
		}
	}
	return float64(2*bytes*copies) / best.Seconds(), nil
}
