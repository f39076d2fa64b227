// Package gpu finds GPUs through Vulkan 1.2 and through the driver of CUDA. A program that imports it can run graphs on
// the devices "vulkan" and "cuda" (graphrun.Options.Device). It is a separate module, so that the main module does not
// depend on libraries of the system.
package gpu

import (
	"errors"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/devices"
	"github.com/graphrun/graphrun/internal/gpu/backend"
	"github.com/graphrun/graphrun/internal/gpu/device"
)

// drivers has one function for each driver of this platform. The function opens all devices of the driver.
var drivers []func() ([]device.Device, error)

// register adds a driver under the name that graphrun.Options.Device accepts. Programs use the driver's first device.
func register(name string, open func() ([]device.Device, error)) {
	drivers = append(drivers, open)
	devices.Register(name, func() (graph.Device, error) { return backend.First(open()) })
}

// Open opens all devices of all drivers. err joins the errors of drivers and devices that could not be opened. Both
// list and err can be set. The caller closes the devices.
func Open() (list []device.Device, err error) {
	if len(drivers) == 0 {
		return nil, errors.New("gpu: there are no drivers for this platform")
	}
	for _, open := range drivers {
		opened, openErr := open()
		list, err = append(list, opened...), errors.Join(err, openErr)
	}
	return list, err
}
