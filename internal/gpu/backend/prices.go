package backend

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gpu/device"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// The names of work of devices in profiles, other than bytes that kernels read and write.
const (
	unitUpload    = "device.upload"    // a byte
	unitDownload  = "device.download"  // a byte
	unitWait      = "device.wait"      // a wait for the device
	unitOperation = "device.operation" // an instruction on an element
)

// DefaultPrices returns estimated prices of a device that is not measured.
func DefaultPrices(info device.Info) *machine.Profile {
	// In picoseconds: a byte in the memory of the device, a byte over the bus, a step, a wait, and an instruction.
	memory, bus, step, wait, operation := 1.0, 80.0, 5e6, 3e7, 0.2
	switch info.Kind {
	case "integrated":
		memory, bus, operation = 20, 100, 1
	case "discrete":
	default: // a processor
		memory, bus, step, wait, operation = 100, 100, 2e7, 1e8, 100
	}
	return Prices(info.Name, memory, bus, bus, step, wait, operation)
}

// Prices returns the profile of a device: the prices of a byte that a kernel reads or writes, of a byte that is
// uploaded or downloaded, of a step, of a wait, and of an instruction on an element, in picoseconds.
func Prices(name string, memory, upload, download, step, wait, operation float64) *machine.Profile {
	curve := func(factor float64) machine.Curve { return machine.Curve{{Bytes: 1, PS: factor * memory}} }
	return &machine.Profile{Version: machine.ProfileVersion, CPU: name, Estimated: true, StepPS: step,
		Memory: machine.Rates{Dense: curve(1), DenseConstants: curve(1), Panels: curve(1), Copied: curve(1),
			Tiled: curve(4), Strided: curve(4), Gathered: curve(8)},
		Kernels: map[string]float64{unitUpload: upload, unitDownload: download, unitWait: wait,
			unitOperation: operation}}
}

// transferWork returns the work of a transfer.
func transferWork(unit string) func(*graph.Call, graph.Walk) graph.Work {
	return func(call *graph.Call, _ graph.Walk) (work graph.Work) {
		work.Steps, work.Footprint = 1, 1
		work.DoUnoverlapped(unit, float64(call.Out[0].Bytes()))
		if unit == unitDownload {
			work.DoUnoverlapped(unitWait, 1)
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
		work.Do(unitOperation, work.Flops)
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
