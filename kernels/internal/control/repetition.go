package control

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// repetition describes a loop or a scan for the inference of its results. The body has `before` inputs, which are the
// same in each iteration, then the carried values, then other inputs. It has `unused` outputs, then the carried values,
// then the collected values.
type repetition struct {
	body           *graph.Graph
	inputs         []tensor.Meta // the types of the body's inputs in the first iteration
	before, unused int
	carried        int
	length         int             // number of iterations; -1 if it is unknown
	axisOf         func(k int) int // the dimension along which collected value k is stacked
}

// results infers the results. If the body keeps the shapes of all carried values, these are the shapes in each
// iteration. Otherwise only the dtypes and the ranks are known, or less if they change, too.
func (r repetition) results() []graph.Result {
	unknown := unknownResults(r.body.Outputs[r.unused:])
	out, err := r.body.ResultsFor(r.inputs)
	if err != nil {
		return unknown // the run reports the error
	}
	out = out[r.unused:]
	initial := r.inputs[r.before : r.before+r.carried]
	keepsShapes, keepsLayouts := true, true
	for k, meta := range initial {
		if out[k].Dynamic || len(out[k].Type.Shape) != meta.Rank() || out[k].Type.DType != meta.DType {
			return unknown
		}
		keepsShapes = keepsShapes && slices.Equal(out[k].Meta().Shape, meta.Shape)
		keepsLayouts = keepsLayouts && out[k].Meta().SameLayout(meta)
	}
	if keepsShapes && !keepsLayouts && r.length > 0 {
		keepsLayouts = r.repeatsLayouts(out[:r.carried])
	}
	results := make([]graph.Result, len(out))
	for k, result := range out {
		outline := graph.PartialType{DType: result.Type.DType, Sizes: result.Sizes}
		if !result.Dynamic {
			outline.Sizes = slices.Clone(result.Meta().Shape)
		}
		if !keepsShapes {
			for i := range outline.Sizes {
				outline.Sizes[i] = -1
			}
		}
		switch {
		case k < r.carried && keepsShapes && keepsLayouts && (result.Meta().Offset == 0):
			outline.TypeFor = func([]sym.Int) (tensor.Type, error) { return result.Type, nil }
		case k >= r.carried && outline.Sizes != nil:
			axis, err := tensor.WrapDim(r.axisOf(k-r.carried), len(outline.Sizes)+1)
			if err != nil {
				return unknown // the run reports the error
			}
			outline.Sizes = slices.Insert(outline.Sizes, axis, r.length)
			outline.TypeFor = func(shape []sym.Int) (tensor.Type, error) { // stackCollected makes a row-major tensor
				return tensor.NewType(result.Type.DType, shape...), nil
			}
		}
		results[k] = outline.Result()
	}
	return results
}

// repeatsLayouts reports whether the second iteration gives the carried values the same layouts as the first.
func (r repetition) repeatsLayouts(carried []graph.Result) bool {
	inputs := slices.Clone(r.inputs)
	for k, result := range carried {
		inputs[r.before+k] = result.Meta()
	}
	out, err := r.body.ResultsFor(inputs)
	if err != nil {
		return false
	}
	for k, result := range carried {
		if next := out[r.unused+k]; next.Dynamic || !next.Meta().SameLayout(result.Meta()) {
			return false
		}
	}
	return true
}
