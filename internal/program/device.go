package program

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/devices"
)

// openDevice returns the device that the options name, with the prices of the options. It returns nil for the host.
func (o *Options) openDevice() (graph.Device, error) {
	d, err := devices.Open(o.Device)
	if err != nil || d == nil {
		return nil, err
	}
	if why := d.Inexact(); o.Exact && why != "" {
		return nil, fmt.Errorf("device %s cannot be used with exact results: it does not round as IEEE 754 requires: %s",
			d.Describe(), why)
	}
	if o.Costs != nil {
		if rates, ok := o.Costs.Devices[d.Name()]; ok {
			d = d.WithRates(rates)
		}
	}
	return d, nil
}

// Device returns the device of the program; nil for the host.
func (p *Program) Device() graph.Device { return p.device }
