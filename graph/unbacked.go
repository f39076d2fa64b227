package graph

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Unbacked infers a copy of an inferred graph whose shapes depend on data. Sizes that depend on data are symbols u0,
// u1, ... of the Env, in the order of the nodes (PyTorch calls them unbacked symbols). For example, the result of
// nonzero for a matrix has the shape [u0, 2], and a transposition of the result has the shape [2, u0]. Symbols of g are
// not symbols of the Env: they keep their sizes in g. The result has no guards. If inference of a node branches on an
// unbacked size, the sizes and strides of its results can be a [sym.Where]. For example, let x have the shape [u0, 1]
// and the strides (1, u0). A comparison of x with a number has the strides (1, Where(u0 <= 1, 1, u0)). Sizes that a
// node rejects do not affect the types of its results.
//
// A result remains [Value.Dynamic] if symbols cannot describe it, because the node branches too often, the rank depends
// on data, or the layout is unknown. The Type of the result then has the dtype of the [PartialType]. Its Shape has the
// sizes of the PartialType, with a new symbol for each unknown size, or is nil if the rank is unknown. Results of nodes
// that depend on a Dynamic value remain Dynamic, too. A value that is a view only for some sizes has no Alias.
func (g *Graph) Unbacked() *Symbolic {
	u := newUnbacked(g)
	for _, n := range u.symbolic.Graph.Nodes {
		if len(n.Out) > 0 && n.Out[0].Dynamic {
			u.infer(n)
		}
	}
	return u.symbolic
}

// newUnbacked returns the state of Unbacked for a copy of the graph.
func newUnbacked(g *Graph) *unbacked {
	u := new(unbacked)
	// With insideFork, inference adds no guards, because u.infer runs it in sym.Fork.
	u.symbolic = &Symbolic{Env: sym.NewEnv(), Hints: sym.Binding{}, Graph: g.Clone(), insideFork: true, unbacked: u}
	u.symbolic.Graph.symbolicState = u.symbolic
	return u
}

// OutlinesFor infers a subgraph, such as the body of a loop, for inputs whose sizes may be unknown. It returns the
// outlines of the outputs. sameShape reports whether an output has the shape of an input for all sizes. Equal sizes of
// the inputs have the same form ([sym.Int.Same]).
func (g *Graph) OutlinesFor(in []tensor.Type) (outlines []PartialType, sameShape func(output, input int) bool,
	err error) {
	hasControlFlow := func(n *Node) bool { return n.Op == nil || n.Op.TakenBranch != nil || n.Op.Repeats != nil }
	if len(in) != len(g.Inputs) || slices.ContainsFunc(g.Nodes, hasControlFlow) {
		return nil, nil, errors.New("the graph does not take these inputs, or has control flow")
	}
	u := newUnbacked(g)
	copied := u.symbolic.Graph
	copied.sizes = maps.Clone(copied.sizes)
	if copied.sizes == nil {
		copied.sizes = map[string]sym.Int{}
	}
	symbols := map[string]sym.Int{} // for each unknown size of in, the symbol of u
	for i, v := range copied.Inputs {
		shape := slices.Clone(in[i].Shape)
		for k, size := range shape {
			if _, known := size.Known(); known {
				continue
			}
			text := size.String()
			if _, exists := symbols[text]; !exists {
				symbols[text] = u.shape([]int{-1})[0]
				u.usedSymbols = u.nextSymbol
			}
			shape[k] = symbols[text]
		}
		for k, dim := range v.Dims {
			if dim.Symbol != "" && k < len(shape) {
				copied.sizes[dim.Symbol] = shape[k]
			}
		}
		v.Type = tensor.NewType(in[i].DType, shape...)
		v.Meta, v.Dims, v.Dynamic = v.Type.AtHints(), nil, false
	}
	for _, n := range copied.Nodes {
		if n.undecoded.dependOn(copied.sizes) {
			n.Attrs = nil
		}
		u.infer(n)
	}
	for _, output := range copied.Outputs {
		outlines = append(outlines, output.Value.outline())
	}
	sameShape = func(output, input int) bool {
		a, b := copied.Outputs[output].Value, copied.Inputs[input]
		return !a.Dynamic && a.Type.DType == b.Type.DType && len(a.Type.Shape) == len(b.Type.Shape) &&
			slices.EqualFunc(a.Type.Shape, b.Type.Shape, func(x, y sym.Int) bool { return x.Simplify().Same(y) })
	}
	return outlines, sameShape, nil
}

// unbacked is the state of [Graph.Unbacked].
type unbacked struct {
	symbolic    *Symbolic
	usedSymbols int // number of symbols u0, u1, ... that earlier nodes use
	nextSymbol  int // index of the next new symbol: usedSymbols plus the new symbols of the current case
}

// infer infers a node for all classes of sizes, and merges the results of the classes. For all sizes of a class,
// inference takes the same branches. If there are more than maxPaths classes, the results remain dynamic.
func (u *unbacked) infer(n *Node) {
	usedSymbols := u.usedSymbols // the maximum over the cases, which may have different numbers of new symbols
	cases, err := sym.Fork(u.symbolic.Env, maxPaths, func() (classResult, error) {
		result, err := u.inferCase(n)
		if result.err == nil {
			usedSymbols = max(usedSymbols, u.nextSymbol)
		}
		return result, err
	})
	if err != nil || !u.merge(n, cases) {
		u.setDynamicResults(n)
		return
	}
	u.usedSymbols = usedSymbols
}

// inferCase infers a node for one class of sizes: sym.Fork calls it for each combination of branches. The values of the
// classResult are the results of the node.
func (u *unbacked) inferCase(n *Node) (result classResult, err error) {
	u.nextSymbol = u.usedSymbols
	// For data-dependent results, n.infer calls typeDynamicResults, which adds new symbols.
	if result.err = n.infer(&inference{}); result.err != nil {
		return result, nil
	}
	for _, v := range n.Out {
		result.values = append(result.values, classValue{v.Type, v.Meta, v.Alias, v.Dynamic})
	}
	return result, nil
}

// merge sets the types of a node's results from all cases that inference accepts. It returns false if there are no such
// cases, or if they differ in more than sizes, strides and offsets.
func (u *unbacked) merge(n *Node, cases []sym.Case[classResult]) bool {
	if slices.ContainsFunc(cases, func(c sym.Case[classResult]) bool { return c.Err != nil }) {
		return false
	}
	cases = slices.DeleteFunc(cases, func(c sym.Case[classResult]) bool { return c.Value.err != nil })
	if len(cases) == 0 {
		return false
	}
	for i, v := range n.Out {
		alias, ok := mergedAlias(cases, i)
		if !ok {
			return false
		}
		v.Alias = alias
		// distinct has the first case, and the cases whose type differs from its type. Types with the same expressions
		// (SameForm) are equal. sameType also finds types that are equal for the sizes of the case.
		distinct := sym.Differing(cases, func(first, other classResult) bool {
			firstType, otherType := first.values[i].valueType, other.values[i].valueType
			return firstType.SameForm(otherType) || sameType(firstType, otherType)
		})
		// mergedType uses the type of the last case for all sizes of cases that `distinct` omits.
		ordered := append(distinct[1:], distinct[0])
		metaAtHints := cases[0].Value.values[i].meta // the first case has the hints, unless the node rejects them
		v.Type, v.Meta, v.Dynamic = mergedType(ordered, i), metaAtHints, false
	}
	return true
}

// mergedAlias returns the alias of result i for all cases, or nil if the result is a view only for some sizes. It
// returns false if the cases differ in dtype or rank, or if the result is dynamic in a case.
func mergedAlias(cases []sym.Case[classResult], i int) (alias *Value, ok bool) {
	first := &cases[0].Value.values[i]
	alias = first.alias
	for _, c := range cases {
		other := &c.Value.values[i]
		hasSameDType := other.valueType.DType == first.valueType.DType
		hasSameRank := len(other.valueType.Shape) == len(first.valueType.Shape)
		if other.isDynamic || !hasSameDType || !hasSameRank {
			return nil, false
		}
		if other.alias != first.alias {
			alias = nil
		}
	}
	return alias, true
}

// setDynamicResults makes a node's results Dynamic. The outline of a result has the dtype and the known sizes of the
// result.
func (u *unbacked) setDynamicResults(n *Node) {
	for _, v := range n.Out {
		v.Type, v.Meta, v.Alias, v.Dynamic = tensor.Type{}, tensor.Meta{}, nil, true
	}
	for i, outline := range n.resultOutlines() {
		if i == len(n.Out) {
			break
		}
		v := n.Out[i]
		v.Type.DType, v.Meta.DType = outline.DType, outline.DType
		if outline.Sizes != nil {
			u.nextSymbol = u.usedSymbols
			v.Type.Shape = u.shape(outline.Sizes)
			u.usedSymbols = u.nextSymbol
		}
	}
}

// typeDynamicResults replaces Dynamic results by results with types over symbols. If the layout or the rank of one
// result is unknown, it changes no result.
func (u *unbacked) typeDynamicResults(results []Result) ([]Result, error) {
	hasUnknownLayout := func(r Result) bool { return r.Dynamic && (r.TypeFor == nil || r.Sizes == nil) }
	if slices.ContainsFunc(results, hasUnknownLayout) {
		return results, nil
	}
	results = slices.Clone(results)
	for i, result := range results {
		if !result.Dynamic {
			continue
		}
		t, err := result.TypeFor(u.shape(result.Sizes))
		if err != nil {
			return nil, err
		}
		results[i] = Result{Type: t, Alias: NoAlias}
	}
	return results, nil
}

// shape returns a shape with a new symbol for each size that depends on data (-1).
func (u *unbacked) shape(sizes []int) []sym.Int {
	shape := sym.Ints(sizes...)
	for dim, size := range sizes {
		if size >= 0 {
			continue
		}
		shape[dim] = unknownSize(u.symbolic.Env, fmt.Sprint("u", u.nextSymbol), unbackedHint)
		u.nextSymbol++
	}
	return shape
}

// unbackedHint is the hint of unbacked symbols. The first case of the inference contains the hints.
const unbackedHint = 3
