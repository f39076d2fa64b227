package exec

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/tensor"
)

// This file checks whether a caller's tensor for an output shares memory with another tensor of the run.

// checkWritable returns an error if the caller's tensor for output i shares memory with another tensor of the run: a
// constant, the caller's tensor for an earlier output, or an input. But the tensor may be the tensor of an input.
// direct reports whether a step may write to the tensor. Otherwise the output is copied to the tensor after all steps.
func (p *Program) checkWritable(i int, in, out []*tensor.Tensor) (direct bool, err error) {
	name, given := p.outputs[i].Name, out[i]
	inputs, permitted := p.overlappedInputs(given, in)
	if !permitted {
		return false, sharedMemoryError(name, "input", p.inputs[inputs[0]].Name)
	}
	for k, other := range out[:i] {
		if other != nil && tensor.Overlap(given, other) {
			return false, sharedMemoryError(name, "the tensor given for output", p.outputs[k].Name)
		}
	}
	if p.constantOverlaps(rangeOf(given)) {
		return false, fmt.Errorf("the tensor given for output %q shares memory with a constant", name)
	}
	return p.mayOverwrite(i, inputs), nil
}

// CheckTensors returns an error if a run of a graph in segments cannot write one of the tensors that the caller gave for
// outputs. in and out have a tensor for each input and output of the graph; a tensor of out may be nil. A tensor of out
// must not share memory with an input, a constant or another tensor of out. CheckTensors does not check shapes that
// depend on data.
func CheckTensors(g *graph.Graph, in, out []*tensor.Tensor) error {
	if g == nil || len(in) != len(g.Inputs) || len(out) != len(g.Outputs) || slices.Contains(in, nil) {
		return errors.New("the graph is nil, or a tensor of an input or output is missing")
	}
	readsGaps := g.ReadsStorage()
	for i, given := range out {
		if given == nil {
			continue
		}
		output, dtype, shape := g.Outputs[i], given.DType, given.Shape
		if v := output.Value; !v.Dynamic {
			dtype, shape = v.Meta.DType, v.Meta.Shape
		}
		if err := CheckOutput(output.Name, dtype, shape, given); err != nil {
			return err
		}
		for k, other := range in {
			if mayRead(other, given, readsGaps) {
				return sharedMemoryError(output.Name, "input", g.Inputs[k].Name)
			}
		}
		for k, other := range out[:i] {
			if other != nil && tensor.Overlap(given, other) {
				return sharedMemoryError(output.Name, "the tensor given for output", g.Outputs[k].Name)
			}
		}
		for _, c := range g.Constants {
			if c.Const != nil && rangeOf(given).overlaps(rangeOf(c.Const)) {
				return sharedMemoryError(output.Name, "constant", c.Name)
			}
		}
	}
	return nil
}

// sharedMemoryError returns the error for a caller's tensor that shares memory with another tensor. name is the output,
// and otherKind and other describe the other tensor.
func sharedMemoryError(name, otherKind, other string) error {
	return fmt.Errorf("the tensor given for output %q shares memory with %s %q", name, otherKind, other)
}

// addressRange is the address range of a tensor's elements. Ranges are compared instead of storages, because two
// storages may contain the same bytes.
type addressRange struct{ from, to uintptr }

// rangeOf returns the address range of a tensor.
func rangeOf(t *tensor.Tensor) addressRange {
	from, to := t.Span()
	return addressRange{from, to}
}

// overlaps reports whether two ranges have a byte in common.
func (a addressRange) overlaps(b addressRange) bool { return a.from < b.to && b.from < a.to }

// mayRead reports whether a run that reads the input may read an element of t. readsGaps means that the run may also
// read bytes between the elements of the input.
func mayRead(input, t *tensor.Tensor, readsGaps bool) bool {
	return rangeOf(t).overlaps(rangeOf(input)) && (readsGaps || tensor.Overlap(t, input))
}

// constantOverlaps reports whether a constant overlaps a range.
func (p *Program) constantOverlaps(r addressRange) bool {
	i := sort.Search(len(p.constants), func(i int) bool { return p.constants[i].to > r.from })
	return i < len(p.constants) && p.constants[i].overlaps(r)
}

// findConstants lists the address ranges of constants, which no run may write. The ranges are sorted, and overlapping
// ranges are merged, because checking every constant would take longer than the run of a small graph.
func (p *Program) findConstants() {
	var constantRanges []addressRange
	for i := range p.storages {
		if storage := &p.storages[i]; storage.kind == inConst {
			if constantRange := rangeOf(storage.data); constantRange.from < constantRange.to {
				constantRanges = append(constantRanges, constantRange)
			}
		}
	}
	sorted.Func(constantRanges, func(a, b addressRange) int { return cmp.Compare(a.from, b.from) })
	for _, constantRange := range constantRanges {
		if n := len(p.constants); n > 0 && p.constants[n-1].overlaps(constantRange) {
			p.constants[n-1].to = max(p.constants[n-1].to, constantRange.to)
			continue
		}
		p.constants = append(p.constants, constantRange)
	}
}
