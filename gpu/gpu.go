// Package gpu finds devices that run kernels: through Vulkan 1.2 and through the driver of CUDA. It is a module of its
// own, so that the main module does not depend on libraries of the system.
package gpu

import (
	"errors"

	"github.com/graphrun/graphrun/gpu/device"
)

// drivers open the devices of the drivers of this platform.
var drivers []func() ([]device.Device, error)

// Open opens all devices of all drivers. The error joins the reasons for drivers and devices that were not opened. It
// may be set although devices were opened. The caller closes the devices.
func Open() (list []device.Device, err error) {
	if len(drivers) == 0 {
		return nil, errors.New("gpu: there are no drivers for this platform")
	}
	for _, open := range drivers {
		devices, e := open()
		list, err = append(list, devices...), errors.Join(err, e)
	}
	return list, err
}
