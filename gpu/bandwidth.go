package gpu

import (
	"time"

	"github.com/graphrun/graphrun/internal/gpu/device"
)

// maxCopyBytes is the size in bytes of the copies that [CopyBandwidth] measures on devices with at least 8*maxCopyBytes
// of memory. It exceeds the caches of all devices.
const maxCopyBytes = 1 << 28

// CopyBandwidth measures copies within the memory of a device. It returns the number of bytes read plus the number of
// bytes written per second, in the fastest of several runs.
func CopyBandwidth(d device.Device) (float64, error) {
	const copies, runs, hostAccess = 4, 5, false
	bytes := maxCopyBytes
	if eighth := d.Info().Memory / 8; eighth > 0 {
		bytes = min(bytes, eighth)
	}
	var buffers [2]*device.Buffer
	for i := range buffers {
		buffer, err := d.Alloc(bytes, hostAccess)
		if err != nil {
			return 0, err
		}
		defer buffer.Free()
		buffers[i] = buffer
	}
	var steps []device.Step
	for range copies {
		steps = append(steps, device.Step{To: buffers[1], From: buffers[0], Bytes: bytes})
	}
	fastest := time.Duration(0)
	for run := range runs + 1 { // run 0 touches the memory and is not measured
		start := time.Now()
		if err := d.Run(steps); err != nil {
			return 0, err
		}
		if took := time.Since(start); run > 0 && (fastest == 0 || took < fastest) {
			fastest = took
		}
	}
	return float64(2*bytes*copies) / fastest.Seconds(), nil
}
