package backend

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gpu/compile"
	"github.com/graphrun/graphrun/internal/gpu/device"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// estimatedRates returns the rates that are assumed for a device until it is measured. The fields are in picoseconds
// (PS) per step, wait, operation or byte. TiledPS is per byte of a transposed operand.
func estimatedRates(info device.Info) pricing.DeviceRates {
	rates := pricing.DeviceRates{Device: info.Name}
	switch info.Kind {
	case "discrete":
		rates.StepPS, rates.WaitPS, rates.BytePS, rates.OperationPS = 5e6, 3e7, 1, .2
		rates.TiledPS, rates.UploadPS, rates.DownloadPS = 1.25, 80, 80
	case "integrated":
		rates.StepPS, rates.WaitPS, rates.BytePS, rates.OperationPS = 5e6, 3e7, 20, 1
		rates.TiledPS, rates.UploadPS, rates.DownloadPS = 25, 100, 100
	default: // a processor
		rates.StepPS, rates.WaitPS, rates.BytePS, rates.OperationPS = 2e7, 1e8, 100, 100
		rates.UploadPS, rates.DownloadPS = 100, 100
	}
	return rates
}

// priced is a device with other rates.
type priced struct {
	*Device
	rates  pricing.DeviceRates
	prices *pricing.Profile // the rates as a cost profile
}

// Rates implements graph.Device.
func (p *priced) Rates() pricing.DeviceRates { return p.rates }

// Prices implements graph.Device.
func (p *priced) Prices() *pricing.Profile { return p.prices }

// WithRates implements graph.Device.
func (d *Device) WithRates(rates pricing.DeviceRates) graph.Device {
	return &priced{d, rates, rates.Profile()}
}

// minFootprint is a footprint in bytes. Rates of devices do not depend on the footprint. It is not 0, because 0 would
// be replaced by the memory of the call.
const minFootprint = 1

// transferWork returns the function that computes the work of a transfer. unit is machine.DeviceUpload or
// machine.DeviceDownload, whose rate is the time per byte.
func transferWork(unit string) func(*graph.Call, graph.Walk) pricing.Work {
	return func(call *graph.Call, _ graph.Walk) (work pricing.Work) {
		work.StartedSteps = 1
		work.Footprint = minFootprint
		work.AddUnoverlapped(unit, float64(call.Out[0].Bytes()))
		if unit == pricing.DeviceDownload { // a download waits for all queued steps
			work.AddUnoverlapped(pricing.DeviceWait, 1)
		}
		return work
	}
}

// work returns the work of the kernels of a call: bytes by kind of access (graph.Dense is contiguous access, Gathered
// is random access), and operations. It assumes that operands have the layouts that the kernels prefer. A [graph.Form]
// describes the computation of one kernel. If the op has no forms for the call, the work is zero.
func (d *Device) work(op *graph.Op, call *graph.Call) (work pricing.Work) {
	metas := slices.Clone(call.Out) // results, then operands, as forms index them
	for i := range call.In {
		metas = append(metas, call.Meta(i))
	}
	addDense := func(meta tensor.Meta) { work.Bytes[pricing.Dense] += float64(meta.Bytes()) }
	exactOps := d.info.ExactOps.Target // the operations that the device computes exactly
	forms, err := compile.Forms(op, call, exactOps)
	if err != nil {
		return work
	}
	operations := 0.0 // scalar operations
	for _, form := range forms {
		work.StartedSteps++
		switch form := form.(type) {
		case *graph.Elements: // an expression for each element
			for _, operand := range form.Operands {
				addDense(operand.Meta)
			}
			operations += float64(form.Operands[0].Meta.Numel()) * float64(len(form.Code.Insts))
		case *graph.Rows: // an expression with reductions of rows
			for i := range call.Out {
				addDense(metas[i])
			}
			for _, i := range form.In {
				addDense(call.Meta(i))
			}
			operations += float64(tensor.Numel(form.Shape)) * float64(len(form.Code.Insts))
		case *graph.Gather:
			addGather(&work, form, metas)
		case *graph.Contraction:
			operations += addContraction(&work, form, metas)
		}
	}
	work.Flops += operations
	work.Footprint = work.TotalBytes()
	work.AddUnits(pricing.DeviceOperation, operations)
	return work
}

// addGather adds the bytes of a gather to work. metas has the results of the call, then its operands.
func addGather(work *pricing.Work, form *graph.Gather, metas []tensor.Meta) {
	for i, operand := range form.Operands {
		access := pricing.Dense
		if i == 1 { // the bytes read from the table (operand 1) are the bytes of the output (operand 0)
			operand = form.Operands[0]
			if contiguousBytes(form) < transactionBytes {
				access = pricing.Gathered
			}
		}
		work.Bytes[access] += float64(metas[operand.Index].Bytes())
	}
}

// contiguousBytes returns the number of bytes of the table that a gather reads at consecutive addresses. These bytes
// belong to the innermost loops, in which all iterations use the same indices.
func contiguousBytes(gather *graph.Gather) int {
	bytes := gather.Size
	for loop, size := range slices.Backward(gather.Shape) {
		for i, operand := range gather.Operands[1:] { // the table and the indices
			wanted := 0 // all iterations use the same indices
			if i == 0 {
				wanted = bytes // the table is contiguous
			}
			if size > 1 && operand.Strides[loop] != wanted {
				return bytes
			}
		}
		bytes *= size
	}
	return bytes
}

// transactionBytes is the size in bytes of the smallest read from memory.
const transactionBytes = 32

// addContraction adds the bytes and flops of a contraction to work, and returns the number of scalar operations. metas
// has the results of the call, then its operands.
func addContraction(work *pricing.Work, form *graph.Contraction, metas []tensor.Meta) (operations float64) {
	operands := []int{form.Out.Index, form.A.Index, form.B.Index}
	if form.HasAdd {
		operands = append(operands, form.Add.Index)
	}
	products := 1.0
	for _, loop := range form.Loops {
		products *= float64(loop.Size)
	}
	work.Flops += products
	operations = products
	if epilogue := form.Epilogue; epilogue != nil {
		sum := len(epilogue.Code.Out) // index of the sum, which follows the outputs and is in a register
		for i, operand := range epilogue.Operands {
			if i != sum && operand.Index != form.Out.Index {
				operands = append(operands, operand.Index)
			}
		}
		operations += float64(metas[form.Out.Index].Numel()) * float64(len(epilogue.Code.Insts))
	}
	for _, i := range operands {
		work.Bytes[pricing.Dense] += float64(metas[i].Bytes())
	}
	return operations
}

// maxStrided is the maximum extent in elements of an operand that is not dense. Kernels compute 32-bit offsets in
// bytes.
const maxStrided = 1 << 28

// readWork returns the work of reading an operand in the layout of meta, minus the work of reading it in the kernels'
// preferred layout. ok is false if the kernels cannot read the layout of meta.
func readWork(op *graph.Op, call *graph.Call, walk graph.Walk, meta tensor.Meta) (work pricing.Work, ok bool) {
	if len(call.Out) == 0 {
		return work, true
	}
	isNegative := func(stride int) bool { return stride < 0 }
	if !meta.IsNonOverlappingAndDense() &&
		(meta.Extent() > maxStrided || slices.ContainsFunc(meta.Strides, isNegative)) {
		return work, false
	}
	result := walk.ResultLayout(0, call.Out[0])
	bytes, fastest := float64(meta.Bytes()), graph.Fastest(meta)
	// If operand and result have different fastest dimensions, the access is tiled. Otherwise it is strided if there are
	// gaps between adjacent elements.
	followsOperands := op.Kind == graph.FollowsOperands || op.Copies
	hasOtherFastest := meta.Rank() == result.Rank() && fastest != graph.Fastest(result) && fastest >= 0
	switch {
	case followsOperands && hasOtherFastest:
		work.Bytes[pricing.Tiled], work.Bytes[pricing.Dense] = bytes, -bytes
	case fastest >= 0 && meta.Strides[fastest] > 1:
		work.Bytes[pricing.Strided], work.Bytes[pricing.Dense] = bytes, -bytes
	}
	if work != (pricing.Work{}) {
		work.Footprint = minFootprint
	}
	return work, true
}
