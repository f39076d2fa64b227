package program

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/devices"
)

// openDevice returns the device that the options name, or nil for the host. The rates in the cost profile (o.Costs)
// replace the device's own rates, unless they were measured on another device. Rates that name no device hold for any
// device.
func (o *Options) openDevice() (graph.Device, error) {
	device, err := devices.Open(o.Device)
	if err != nil || device == nil {
		return nil, err
	}
	if why := device.Inexact(); o.Exact && why != "" {
		return nil, fmt.Errorf("device %s cannot be used with exact results: it does not round as IEEE 754 requires: %s",
			device.Describe(), why)
	}
	if o.Costs != nil {
		openedHardware := device.Rates().Device
		rates, ok := o.Costs.Devices[device.Name()]
		if rates.Device == "" {
			rates.Device = openedHardware
		}
		if ok && rates.Device == openedHardware {
			device = device.WithRates(rates)
		}
	}
	return device, nil
}

// Device returns the device of the program; nil for the host.
func (p *Program) Device() graph.Device { return p.device }
