package backend

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gpu/device"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// estimatedRates returns rates of a device that is not measured.
func estimatedRates(info device.Info) machine.DeviceRates {
	r := machine.DeviceRates{Device: info.Name}
	switch info.Kind {
	case "discrete":
		r.StepPS, r.WaitPS, r.BytePS, r.OperationPS, r.UploadPS, r.DownloadPS = 5e6, 3e7, 1, .2, 80, 80
	case "integrated":
		r.StepPS, r.WaitPS, r.BytePS, r.OperationPS, r.UploadPS, r.DownloadPS = 5e6, 3e7, 20, 1, 100, 100
	default: // a processor
		r.StepPS, r.WaitPS, r.BytePS, r.OperationPS, r.UploadPS, r.DownloadPS = 2e7, 1e8, 100, 100, 100, 100
	}
	return r
}

// priced is a device with other rates.
type priced struct {
	*Device
	rates  machine.DeviceRates
	prices *machine.Profile
}

// Rates implements graph.Device.
func (p *priced) Rates() machine.DeviceRates { return p.rates }

// Prices implements graph.Device.
func (p *priced) Prices() *machine.Profile { return p.prices }

// WithRates implements graph.Device.
func (d *Device) WithRates(r machine.DeviceRates) graph.Device { return &priced{d, r, r.Profile()} }

// transferWork returns the work of a transfer.
func transferWork(unit string) func(*graph.Call, graph.Walk) graph.Work {
	return func(call *graph.Call, _ graph.Walk) (work graph.Work) {
		work.Steps, work.Footprint = 1, 1
		work.DoUnoverlapped(unit, float64(call.Out[0].Bytes()))
		if unit == machine.DeviceDownload {
			work.DoUnoverlapped(machine.DeviceWait, 1)
		}
		return work
	}
}

// work returns the work of a kernel whose operands have the layout of the result.
func work(op *graph.Op, call *graph.Call) (work graph.Work) {
	work.Steps, work.Footprint = 1, 1
	for i, a := range call.In {
		if a.Kind == graph.TensorArg {
			work.Bytes[graph.Dense] += float64(call.Meta(i).Bytes())
		}
	}
	for _, out := range call.Out {
		work.Bytes[graph.Dense] += float64(out.Bytes())
	}
	if code, _, err := expression(op, call); err == nil {
		work.Flops = call.Elements() * float64(len(code.Insts))
		work.Do(machine.DeviceOperation, work.Flops)
	}
	return work
}

// readWork returns the additional work of an operand in another order than the result.
func readWork(call *graph.Call, walk graph.Walk, _ int, meta tensor.Meta) (work graph.Work, ok bool) {
	if len(call.Out) == 0 {
		return work, true
	}
	result := walk.ResultLayout(0, call.Out[0])
	bytes, fastest := float64(meta.Bytes()), graph.Fastest(meta)
	switch {
	case meta.Rank() == result.Rank() && fastest != graph.Fastest(result) && fastest >= 0:
		work.Bytes[graph.Tiled], work.Bytes[graph.Dense] = bytes, -bytes
	case fastest >= 0 && meta.Strides[fastest] > 1:
		work.Bytes[graph.Strided], work.Bytes[graph.Dense] = bytes, -bytes
	}
	if work != (graph.Work{}) {
		work.Footprint = 1
	}
	return work, true
}
