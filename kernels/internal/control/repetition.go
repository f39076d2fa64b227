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
	inputs         []tensor.Type // the types of the body's inputs in the first iteration
	before, unused int
	carried        int
	length         int             // number of iterations; -1 if it is unknown
	axisOf         func(k int) int // the dimension along which collected value k is stacked
}

// results infers the results. If the body keeps the shapes of all carried values, these are the shapes in each
// iteration. Otherwise only the dtypes and the ranks are known, or less if they change, too. A body is inferred several
// times, and for each of these its own loops several times. So nothing is inferred beyond maxNested levels of loops.
func (r repetition) results() []graph.Result {
	if nests(r.body, maxNested, map[*graph.Graph]int{}) {
		return unknownResults(r.body.Outputs[r.unused:])
	}
	outlines, keepsShapes := r.outlines()
	if outlines == nil {
		return unknownResults(r.body.Outputs[r.unused:]) // the run reports an error of the body
	}
	results := make([]graph.Result, len(outlines))
	for k, outline := range outlines {
		if !keepsShapes {
			outline = graph.PartialType{DType: outline.DType, Sizes: slices.Repeat([]int{-1}, len(outline.Sizes))}
		}
		if k >= r.carried && outline.Sizes != nil {
			axis, err := tensor.WrapDim(r.axisOf(k-r.carried), len(outline.Sizes)+1)
			if err != nil {
				return unknownResults(r.body.Outputs[r.unused:]) // the run reports the error
			}
			outline.Sizes = slices.Insert(slices.Clone(outline.Sizes), axis, r.length)
			outline.TypeFor = func(shape []sym.Int) (tensor.Type, error) { // stackCollected makes a row-major tensor
				return tensor.NewType(outline.DType, shape...), nil
			}
		}
		results[k] = outline.Result()
	}
	return results
}

// maxNested is the number of levels of loops and scans in a body whose results are inferred.
const maxNested = 2

// nests reports whether more than the given number of levels of loops and scans are nested in a graph. visited has the
// levels for which graphs were visited.
func nests(g *graph.Graph, levels int, visited map[*graph.Graph]int) bool {
	if least, isVisited := visited[g]; isVisited && least <= levels {
		return false
	}
	visited[g] = levels
	return slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool {
		inner := levels
		if n.Op != nil && (n.Op.Name == "loop" || n.Op.Name == "scan") {
			if inner--; inner < 0 {
				return true
			}
		}
		for _, attr := range n.AttrsAsGiven() {
			if body, isGraph := attr.(*graph.Graph); isGraph && body != nil && nests(body, inner, visited) {
				return true
			}
		}
		return false
	})
}

// outlines returns the outlines of the carried and the collected values in an iteration. They are valid if keepsShapes
// is true. It returns nil if the dtype or the rank of a carried value changes.
func (r repetition) outlines() (outlines []graph.PartialType, keepsShapes bool) {
	inputs := make([]tensor.Meta, len(r.inputs))
	areKnown := true
	for i, t := range r.inputs {
		meta, isKnown := t.Meta()
		inputs[i], areKnown = meta, areKnown && isKnown
	}
	if !areKnown {
		return r.symbolicOutlines()
	}
	out, err := r.body.ResultsFor(inputs)
	if err != nil {
		return nil, false
	}
	keepsShapes, keepsLayouts := true, true
	for k, result := range out[r.unused:] {
		outline := graph.PartialType{DType: result.Type.DType, Sizes: result.Sizes}
		if !result.Dynamic {
			outline.Sizes = result.Meta().Shape
		}
		outlines = append(outlines, outline)
		if k >= r.carried {
			continue
		}
		initial := inputs[r.before+k]
		if result.Dynamic || len(outline.Sizes) != initial.Rank() || outline.DType != initial.DType {
			return nil, false
		}
		keepsShapes = keepsShapes && slices.Equal(outline.Sizes, initial.Shape)
		keepsLayouts = keepsLayouts && result.Meta().SameLayout(initial) && initial.Offset == 0
	}
	if !keepsShapes || !keepsLayouts && (r.length < 1 || !r.repeatsLayouts(inputs, out)) {
		return outlines, keepsShapes
	}
	for k := range r.carried {
		if result := out[r.unused+k].Type; result.Offset.Same(sym.Int{}) {
			outlines[k].TypeFor = func([]sym.Int) (tensor.Type, error) { return result, nil }
		}
	}
	return outlines, true
}

// symbolicOutlines is outlines for inputs with unknown sizes.
func (r repetition) symbolicOutlines() (outlines []graph.PartialType, keepsShapes bool) {
	outlines, sameShape, err := r.body.OutlinesFor(r.inputs)
	if err != nil {
		return nil, false
	}
	outlines = outlines[r.unused:]
	keepsShapes = true
	for k, outline := range outlines[:r.carried] {
		initial := r.inputs[r.before+k]
		if outline.Sizes == nil || len(outline.Sizes) != len(initial.Shape) || outline.DType != initial.DType {
			return nil, false
		}
		keepsShapes = keepsShapes && sameShape(r.unused+k, r.before+k)
	}
	return outlines, keepsShapes
}

// repeatsLayouts reports whether the second iteration gives the carried values the same layouts as the first, whose
// results are out.
func (r repetition) repeatsLayouts(inputs []tensor.Meta, out []graph.Result) bool {
	inputs = slices.Clone(inputs)
	for k := range r.carried {
		inputs[r.before+k] = out[r.unused+k].Meta()
	}
	next, err := r.body.ResultsFor(inputs)
	if err != nil {
		return false
	}
	for k := r.unused; k < r.unused+r.carried; k++ {
		if next[k].Dynamic || !next[k].Meta().SameLayout(out[k].Meta()) {
			return false
		}
	}
	return true
}

// unknownResults returns results that have the dtypes of a graph's outputs and unknown shapes.
func unknownResults(outs []graph.Output) []graph.Result {
	results := make([]graph.Result, len(outs))
	for i, out := range outs {
		results[i] = graph.PartialType{DType: out.Value.Meta.DType}.Result()
	}
	return results
}
