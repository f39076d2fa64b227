package exec

import (
	"context"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// callerOutputs has the tensors that the caller gave for the outputs of a run in segments (see segments.go). It is
// nil if the caller gave none.
type callerOutputs struct {
	outputs     []graph.Output
	tensors     []*tensor.Tensor // indexed by output: the caller's tensor, or nil
	outputIndex map[string]int   // by name of the output's value: 1 + index of the output; 0 if no tensor is given
}

// newCallerOutputs returns the callerOutputs of a list of tensors, which has an entry for each output.
func newCallerOutputs(outputs []graph.Output, tensors []*tensor.Tensor) *callerOutputs {
	caller := &callerOutputs{outputs: outputs, tensors: tensors, outputIndex: map[string]int{}}
	for i, output := range outputs {
		if tensors[i] != nil && caller.outputIndex[output.Value.Name] == 0 {
			caller.outputIndex[output.Value.Name] = i + 1
		}
	}
	return caller
}

// check returns an error if the run cannot write one of the caller's tensors. It does not check shapes that depend on
// data; these are checked when they are known.
func (caller *callerOutputs) check(whole *graph.Graph, in []*tensor.Tensor) error {
	if caller == nil {
		return nil
	}
	readsGaps := whole.ReadsStorage()
	for i, given := range caller.tensors {
		if given == nil {
			continue
		}
		// The dtype and the shape of the output may be unknown. The call therefore passes the tensor's own dtype and shape,
		// and checks everything else.
		if err := caller.checkTensor(i, given.DType, given.Shape); err != nil {
			return err
		}
		if v := caller.outputs[i].Value; !v.Dynamic {
			if err := caller.checkTensor(i, v.Meta.DType, v.Meta.Shape); err != nil {
				return err
			}
		}
		if err := caller.checkMemory(i, whole, in, readsGaps); err != nil {
			return err
		}
	}
	return nil
}

// checkMemory returns an error if the tensor given for output i shares memory with an input, with the tensor given for
// an earlier output, or with a constant. readsGaps means that the run may also read bytes between the elements of an
// input.
func (caller *callerOutputs) checkMemory(i int, whole *graph.Graph, in []*tensor.Tensor, readsGaps bool) error {
	name, given := caller.outputs[i].Name, caller.tensors[i]
	for k, other := range in {
		if mayRead(other, given, readsGaps) {
			return sharedMemoryError(name, "input", whole.Inputs[k].Name)
		}
	}
	for k, other := range caller.tensors[:i] {
		if other != nil && tensor.Overlap(given, other) {
			return sharedMemoryError(name, "the tensor given for output", caller.outputs[k].Name)
		}
	}
	for _, c := range whole.Constants {
		if c.Const != nil && rangeOf(given).overlaps(rangeOf(c.Const)) {
			return sharedMemoryError(name, "constant", c.Name)
		}
	}
	return nil
}

// checkTensor returns an error if the tensor given for output i has another dtype or shape than the arguments.
func (caller *callerOutputs) checkTensor(i int, dtype tensor.DType, shape []int) error {
	return checkOutputTensor(caller.outputs[i].Name, dtype, shape, caller.tensors[i])
}

// writableTensors returns, for each output of a segment's program, the caller's tensor that the program can write
// directly, or nil. The output must be a value that the segment computes, and the tensor must have the dtype and shape
// of the output. If another segment reads the value, the tensor must also have the strides and the offset of the
// output: the plan of the reading segment depends on them.
func (caller *callerOutputs) writableTensors(segmented *segmentedGraph, segment *graph.Segment,
	p *Program) []*tensor.Tensor {
	out := make([]*tensor.Tensor, len(p.outputs))
	if caller == nil {
		return out
	}
	for i, output := range p.outputs {
		callerIndex := caller.outputIndex[output.Name] - 1 // outputs of segments have the names of their values
		if callerIndex < 0 {
			continue
		}
		v, t, meta := caller.outputs[callerIndex].Value, caller.tensors[callerIndex], output.Value.Meta
		isComputed := slices.Contains(segment.Out, v)
		hasType := caller.checkTensor(callerIndex, meta.DType, meta.Shape) == nil
		hasLayout := t.SameAddresses(meta) && t.Offset == meta.Offset
		if isComputed && hasType && (hasLayout || !segmented.reads(v)) {
			out[i] = t
		}
	}
	return out
}

// reads reports whether any segment reads value v, which another segment computes.
func (segmented *segmentedGraph) reads(v *graph.Value) bool {
	return slices.ContainsFunc(segmented.segments, func(s graph.Segment) bool {
		return slices.Contains(s.In, v) || slices.Contains(s.AttrInputs, v)
	})
}

// copyRemaining copies the outputs that segments did not write directly into the caller's tensors.
func (caller *callerOutputs) copyRemaining(ctx context.Context, results []*tensor.Tensor, workers int) error {
	for i, t := range results {
		if t == nil || caller.tensors[i] == nil || t == caller.tensors[i] {
			continue
		}
		if err := caller.checkTensor(i, t.DType, t.Shape); err != nil {
			return err
		}
		if err := iter.CopyElements(ctx, caller.tensors[i], t, workers); err != nil {
			return err
		}
	}
	return nil
}
