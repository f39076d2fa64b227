package window

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// The functions of this file estimate the work of the kernel of a [resampling], for the planner. The kernel either
// copies each element of the result, or computes weighted sums in passes.

const (
	// gatheredTapOps is the approximate cost of a tap in loops over single elements, in graph.GoSimple operations.
	gatheredTapOps = 7
	// rowTapOps is the approximate cost of a tap in loops over rows, in graph.LoopSimple operations of float32. Memory
	// access dominates the cost.
	rowTapOps = 22
	// loopCallRuns is the approximate cost of calling a loop, in units of graph.LoopRun.
	loopCallRuns = 6
)

// addWork adds the work of the kernel to the given work. shape is the shape of the operand, and out is the result with
// its layout.
func (r *resampling) addWork(work *pricing.Work, shape []int, out tensor.Meta) {
	if out.Numel() == 0 || out.Rank() == 0 {
		return
	}
	if r.mayBeSelection() {
		work.AddUnits(resizeElement, float64(out.Numel()))
		return
	}
	order := storageOrder(out)
	var storedShape []int
	for _, d := range order {
		storedShape = append(storedShape, shape[d])
	}
	size := float64(resampleDType(out.DType).Size())
	passes := r.passes(storedShape, order)
	for i, pass := range passes {
		rows := float64(pass.outer) * float64(pass.taps.outSize)
		taps, _ := pass.taps.estimate()
		elements := float64(rows * float64(pass.inner))
		work.Flops += 2 * float64(elements*taps)
		if i < len(passes)-1 {
			work.Bytes[pricing.Dense] += float64(2 * elements * size)
		}
		if pass.inner < minRowElements {
			work.AddUnits(graph.GoSimple, elements*taps*gatheredTapOps)
			continue
		}
		work.AddUnits(graph.LoopSimple, elements*taps*rowTapOps*size/4)
		work.AddUnoverlapped(graph.LoopRun, loopCallRuns*rows/float64(rowsPerCall(pass.outer, pass.inner)))
	}
}

// mayBeSelection estimates, for costs, whether each result is a copy of one element, as in mode nearest.
// [resampling.isSelection] is exact.
func (r *resampling) mayBeSelection() bool {
	for _, taps := range r.taps {
		if taps == nil {
			continue
		}
		if _, isSelection := taps.estimate(); !isSelection {
			return false
		}
	}
	return true
}

// sampledIndices is the approximate number of indices that [axisTaps.estimate] examines.
const sampledIndices = 64

// estimate examines about sampledIndices indices. It estimates the number of taps per index, and the result of
// [axisTaps.isSelection].
func (t *axisTaps) estimate() (tapsPerIndex float64, isSelection bool) {
	step := max(1, t.outSize/sampledIndices)
	taps, sampled := 0, 0
	for i := 0; i < t.outSize; i += step {
		sampled++
		if t.maxTaps > maxStaticEntries { // listing the taps would take too long
			taps += t.maxTaps
			continue
		}
		t.eachNonzero(i, func(int, float64) { taps++ })
	}
	isSelection = t.isNearest || t.maxTaps <= maxStaticEntries && t.hasOnlyUnitTaps(step)
	return float64(taps) / float64(max(1, sampled)), isSelection
}
