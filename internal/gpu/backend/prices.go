package backend

import (
	"slices"

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

// work returns the work of the kernels of a call whose operands have the layouts that suit them.
func work(op *graph.Op, call *graph.Call) (work graph.Work) {
	metas := slices.Clone(call.Out)
	for i := range call.In {
		metas = append(metas, call.Meta(i))
	}
	stream := func(access graph.Access, meta tensor.Meta) { work.Bytes[access] += float64(meta.Bytes()) }
	forms, err := graph.FormsOf(op, call)
	if err != nil {
		return work
	}
	operations := 0.0
	for _, f := range forms {
		work.Steps++
		switch f := f.(type) {
		case *graph.Elements:
			for _, o := range f.Operands {
				stream(graph.Dense, o.Meta)
			}
			operations += float64(f.Operands[0].Meta.Numel()) * float64(len(f.Code.Insts))
		case *graph.Rows:
			for i := range call.Out {
				stream(graph.Dense, metas[i])
			}
			for _, i := range f.In {
				stream(graph.Dense, call.Meta(i))
			}
			operations += float64(tensor.Numel(f.Shape)) * float64(len(f.Code.Insts))
		case *graph.Gather:
			for i, o := range f.Operands {
				if i == 1 { // as many bytes of the table as the output has
					o = f.Operands[0]
					stream(graph.Gathered, metas[o.Index])
					continue
				}
				stream(graph.Dense, metas[o.Index])
			}
		case *graph.Contraction:
			for _, o := range []graph.ContractionOperand{f.Out, f.A, f.B} {
				stream(graph.Dense, metas[o.Index])
			}
			if f.HasAdd {
				stream(graph.Dense, metas[f.Add.Index])
			}
			n := 1.0
			for _, l := range f.Loops {
				n *= float64(l.Size)
			}
			operations, work.Flops = operations+n, work.Flops+n
		}
	}
	work.Flops += operations
	work.Footprint = work.TotalBytes()
	work.Do(machine.DeviceOperation, operations)
	return work
}

// maxStrided is the maximum extent in elements of an operand that is not dense: kernels have 32-bit offsets.
const maxStrided = 1 << 28

// readWork returns the additional work of an operand in another layout than the one that suits the kernels.
func readWork(op *graph.Op, call *graph.Call, walk graph.Walk, meta tensor.Meta) (work graph.Work, ok bool) {
	if len(call.Out) == 0 {
		return work, true
	}
	if !meta.IsNonOverlappingAndDense() &&
		(meta.Extent() > maxStrided || slices.ContainsFunc(meta.Strides, func(s int) bool { return s < 0 })) {
		return work, false
	}
	result := walk.ResultLayout(0, call.Out[0])
	bytes, fastest := float64(meta.Bytes()), graph.Fastest(meta)
	switch follows := op.Kind == graph.FollowsOperands || op.Copies; {
	case follows && meta.Rank() == result.Rank() && fastest != graph.Fastest(result) && fastest >= 0:
		work.Bytes[graph.Tiled], work.Bytes[graph.Dense] = bytes, -bytes
	case fastest >= 0 && meta.Strides[fastest] > 1:
		work.Bytes[graph.Strided], work.Bytes[graph.Dense] = bytes, -bytes
	}
	if work != (graph.Work{}) {
		work.Footprint = 1
	}
	return work, true
}
