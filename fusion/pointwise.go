package fusion

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// This file makes the kernels of pointwise calls. A kernel iterates over the operands. Its loop is the compiled
// expression of an element.

// CompileLoop compiles the loop of a pointwise op for a call. If an output has another layout than the inferred one,
// the layouts of the outputs determine the order of the loop's dimensions, as PyTorch does for outputs that the caller
// gives. The layouts of operands order the remaining dimensions.
func CompileLoop(pointwise *graph.Pointwise, call *graph.Call) (*graph.Kernel, error) {
	if call == nil || pointwise == nil || pointwise.Config == nil || pointwise.Body == nil {
		return nil, errors.New("a pointwise op needs a call, Config and Body")
	}
	outputs, err := pointwise.Undefined(call) // results without layouts; the iteration chooses the layouts
	if err != nil {
		return nil, err
	}
	iteration, body, err := buildIteration(pointwise, call, outputs)
	if err != nil {
		return nil, err
	}
	if len(call.Out) != len(outputs) {
		return nil, fmt.Errorf("the op has %d results, the call %d", len(outputs), len(call.Out))
	}
	sameLayouts := true
	for i, meta := range call.Out {
		sameLayouts = sameLayouts && iteration.Meta(i).SameLayout(meta)
	}
	if !sameLayouts {
		givenOutputs := make([]rule.Operand, len(call.Out))
		for i, meta := range call.Out {
			givenOutputs[i] = rule.OperandOfMeta(meta)
		}
		if iteration, body, err = buildIteration(pointwise, call, givenOutputs); err != nil {
			return nil, err
		}
	}
	return loopKernel(call, iteration, body, pointwise.Grain)
}

// buildIteration builds the iteration of a call. An output with a layout in outputs keeps that layout.
func buildIteration(pointwise *graph.Pointwise, call *graph.Call, outputs []rule.Operand) (*iter.Iterator, rule.Kernel,
	error) {
	config, err := pointwise.Config(call, outputs)
	if err != nil {
		return nil, rule.Kernel{}, err
	}
	iteration, err := iter.Build(config)
	if err != nil {
		return nil, rule.Kernel{}, err
	}
	body, err := pointwise.Body(call, &iteration.Rule)
	return iteration, body, err
}

// loopKernel makes the kernel of a loop over the elements of an iteration. grain is the approximate number of elements
// of a chunk of an interpreted loop; 0 means that the number depends on the expression. A compiled loop ignores grain.
func loopKernel(call *graph.Call, iteration *iter.Iterator, body rule.Kernel, grain int) (*graph.Kernel, error) {
	loop, err := iteration.Prepare(body)
	if err != nil {
		return nil, err
	}
	elementNS := loop.ElementNS()
	switch {
	case elementNS > 0: // compiled
		grain = compiledGrain(elementNS)
	case grain == 0:
		code, _ := iteration.InMemory(body) // Prepare has returned its error
		grain = grainOf(code)
	}
	grain = evenGrain(iteration.Numel(), grain)
	phase := graph.Phase{Chunks: loop.Chunks(grain)}
	if phase.Chunks == 1 {
		phase.Run = func(m *graph.Mem, _ int) error { return loop.RunAll(cursorOf(m), m.Ptrs) }
	} else {
		phase.Run = func(m *graph.Mem, chunk int) error { return loop.RunChunk(cursorOf(m), m.Ptrs, chunk, grain) }
	}
	kernel := &graph.Kernel{Loop: iteration, Phases: []graph.Phase{phase},
		Arithmetic: elementNS * float64(iteration.Numel())}
	if loop.IsExpression() {
		kernel.Code = loop.Listings
	}
	addOperandFacts(kernel, call, iteration)
	return kernel, nil
}

// chunkNS is the approximate minimum time of a chunk of a compiled loop, in nanoseconds: see compiledGrain.
const chunkNS = 4e3

// compiledGrain returns the number of elements per chunk of a compiled loop, a power of two from machine.CallGrain to
// machine.MoveGrain. elementNS is the time of the loop per element, in nanoseconds. Expensive loops have smaller
// chunks. The grain does not affect results. Small chunks balance the load better, but each chunk has a fixed cost: it
// sets up addresses, and waits for its non-temporal stores.
func compiledGrain(elementNS float64) int {
	grain := machine.MoveGrain
	for grain > machine.CallGrain && float64(grain)*elementNS > 1.5*chunkNS { // a half then takes at least 0.75*chunkNS
		grain /= 2
	}
	return grain
}

// evenGrain returns a number of elements per chunk, near grain, for which all chunks have about the same size. It is a
// multiple of LineBytes, so that chunks of any element size consist of whole cache lines.
func evenGrain(elements, grain int) int {
	chunks := max(1, machine.DivideUnits(elements, 1, grain).Chunks) // DivideUnits returns 0 chunks for 0 elements
	divisor := chunks * machine.LineBytes
	multiples := max(1, (elements+divisor-1)/divisor) // multiples of LineBytes in a chunk, rounded up
	return multiples * machine.LineBytes
}

// addOperandFacts adds two facts to the kernel of a call: the tensors of plain numbers, and the operands that results
// may overwrite.
func addOperandFacts(kernel *graph.Kernel, call *graph.Call, iteration *iter.Iterator) {
	outputCount := iteration.NumOutputs()
	for i, arg := range call.In {
		meta := iteration.Meta(outputCount + i)
		if arg.Kind == graph.NumberArg {
			if kernel.EmbeddedOperands == nil {
				kernel.EmbeddedOperands = make([]*tensor.Tensor, len(call.In))
			}
			kernel.EmbeddedOperands[i] = arg.Number.Tensor(meta.DType)
			continue
		}
		for result := range outputCount {
			// An operand with the same addresses as the result may be overwritten, because the loop reads each block of the
			// operand before it writes this block of the result.
			if out := iteration.Meta(result); meta.DType.Size() == out.DType.Size() && meta.SameAddresses(out) {
				kernel.InPlace = append(kernel.InPlace, graph.InPlace{Out: result, In: i})
			}
		}
	}
}

// cursorOf returns the worker's iteration state. All loops that the worker runs share this state.
func cursorOf(m *graph.Mem) *iter.Cursor {
	cursor, ok := m.Walk.(*iter.Cursor)
	if !ok {
		cursor = new(iter.Cursor)
		m.Walk = cursor
	}
	return cursor
}

// RunChunk runs a chunk of a prepared loop with the worker's iteration state.
func RunChunk(loop iter.Prepared, m *graph.Mem, ptrs []unsafe.Pointer, chunk, grain int) error {
	return loop.RunChunk(cursorOf(m), ptrs, chunk, grain)
}
