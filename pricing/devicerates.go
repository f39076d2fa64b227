package pricing

import "fmt"

// DeviceRates holds the rates of a device: the time of one unit of each kind of work, in picoseconds.
// Rates are also called costs or prices.
type DeviceRates struct {
	Device      string  `json:"device" doc:"The name of the device; other devices do not use the prices. Empty for any device of the driver."`
	Measured    string  `json:"measured,omitzero" doc:"The time of the measurement (RFC 3339); omitted for estimates."`
	StepPS      float64 `json:"step_ps" doc:"The cost of a step without a wait for the device, in picoseconds."`
	WaitPS      float64 `json:"wait_ps" doc:"The cost of waiting for the device, in picoseconds."`
	BytePS      float64 `json:"byte_ps" doc:"The cost of a byte that a kernel reads or writes, in picoseconds."`
	TiledPS     float64 `json:"tiled_ps,omitzero" doc:"The cost of a byte of a transposed operand, in picoseconds; 0: 4 times byte_ps."`
	OperationPS float64 `json:"operation_ps" doc:"The cost of an instruction on an element, in picoseconds."`
	UploadPS    float64 `json:"upload_ps" doc:"The cost of a byte that is copied to the device, in picoseconds."`
	DownloadPS  float64 `json:"download_ps" doc:"The cost of a byte that is copied to the host, in picoseconds."`
}

// The names of device work in [Profile.Kernels]; the comments give the unit of work. The rates of bytes that
// kernels read and write are in [Profile.Memory].
const (
	DeviceUpload    = "device.upload"    // a byte
	DeviceDownload  = "device.download"  // a byte
	DeviceWait      = "device.wait"      // a wait for the device
	DeviceOperation = "device.operation" // an instruction on an element
)

// Profile returns the rates as a profile. Panels (constants that products read in panels) and Copied (access by copies)
// have the rate of Dense, other dense access. The rate of strided access is assumed to be 4 times this rate, and the
// rate of random access 8 times this rate.
func (r *DeviceRates) Profile() *Profile {
	curve := func(factor float64) Curve { return Curve{{Bytes: 1, PS: factor * r.BytePS}} }
	tiled := curve(4)
	if r.TiledPS > 0 {
		tiled[0].PS = r.TiledPS
	}
	return &Profile{Version: ProfileVersion, CPU: r.Device, Measured: r.Measured, Estimated: r.Measured == "",
		StepPS: r.StepPS, Memory: Rates{Dense: curve(1), DenseConstants: curve(1), Panels: curve(1), Copied: curve(1),
			Tiled: tiled, Strided: curve(4), Gathered: curve(8)},
		Kernels: map[string]float64{DeviceUpload: r.UploadPS, DeviceDownload: r.DownloadPS, DeviceWait: r.WaitPS,
			DeviceOperation: r.OperationPS}}
}

// check returns an error for an invalid rate.
func (r *DeviceRates) check() error {
	for name, rate := range map[string]float64{"step_ps": r.StepPS, "wait_ps": r.WaitPS, "byte_ps": r.BytePS,
		"tiled_ps": r.TiledPS, "operation_ps": r.OperationPS, "upload_ps": r.UploadPS, "download_ps": r.DownloadPS} {
		if !isRate(rate) {
			return fmt.Errorf("%s: the cost is %v: want 0 to %g", name, rate, maxProfileRate)
		}
	}
	return nil
}

// WithDevice returns a copy of the profile. In the copy, the driver with the given name has the given rates.
func (p *Profile) WithDevice(driver string, rates DeviceRates) *Profile {
	changed := p.clone()
	if changed.Devices == nil {
		changed.Devices = map[string]DeviceRates{}
	}
	changed.Devices[driver] = rates
	return changed
}
