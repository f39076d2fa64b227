package graph

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file makes graphs of segments whose sizes are symbols. [Segment.At] makes a graph for one list of sizes. The
// graph of a [SegmentForm] is for all sizes of a form, so that they can share a plan. For example, let a segment read
// the results of nonzero, whose shape is [u0, 2], and of a concatenation with the shape [u0 + 1, 4]. Its graph has the
// symbol u0 and inputs of these shapes.

// SegmentForm describes the shapes and layouts of values that a segment reads, with symbols for the sizes that differ
// between runs.
type SegmentForm struct {
	Key   string         // equal for equal forms of one segment
	Sizes map[string]int // the sizes of the symbols on which the segment depends, for the given values

	segment *Segment
	decls   []Decl
}

// segmentTypes has the types of a graph in which sizes that differ between runs are symbols. It is shared by the
// segments of the graph.
type segmentTypes struct {
	once  sync.Once
	graph *Graph // a copy of the graph with these types; nil if they are unknown
}

// Form returns the form of known values. known is as in [Segment.At]. openSymbols are the symbols of the graph that
// have other sizes in other runs; all calls for segments of a graph must give the same list. Form returns nil if the
// shapes of the segment are the same in all runs. It also returns nil if the segment can only be planned for the known
// values: because it is dynamic, data determine an attribute, an op depends on an offset, or a layout does not follow
// from sizes.
func (s *Segment) Form(known map[*Value]*tensor.Tensor, openSymbols []string) *SegmentForm {
	if s.graph == nil || s.Dynamic || s.readsOffsets || len(s.AttrInputs) > 0 || s.types == nil {
		return nil
	}
	for name := range s.graph.Symbols {
		if isUnbackedName(name) || strings.HasPrefix(name, newSymbolPrefix) { // it could be confused with a new symbol
			return nil
		}
	}
	form := &SegmentForm{segment: s, Sizes: map[string]int{}}
	sizes := map[string]sym.Int{}
	setSize := func(name string, size int) { form.Sizes[name], sizes[name] = size, sym.Of(size) }
	for name, size := range s.graph.sizesBoundBy(known) {
		n, isNumber := size.Known()
		switch _, isSymbol := s.graph.Symbols[name]; {
		case !isNumber || !isSymbol: // a symbol of the enclosing graph
		case slices.Contains(openSymbols, name):
			setSize(name, n)
		default:
			sizes[name] = size
		}
	}
	types := make([]tensor.Type, len(s.In))
	for i, v := range s.In {
		if known[v] == nil {
			return nil
		}
		if v.Node != nil || v.Dims == nil {
			types[i] = s.typeOf(v, openSymbols)
		}
		for k, size := range types[i].Shape { // symbols for sizes that depend on data
			name := size.String()
			if _, isSet := sizes[name]; !isSet && isUnbackedName(name) && k < len(known[v].Shape) {
				setSize(name, known[v].Shape[k])
			}
		}
	}
	var key strings.Builder
	for i, v := range s.In {
		meta, ok := known[v].Meta, false
		meta.Offset = 0
		var decl Decl
		if v.Node == nil && v.Dims != nil && v.decl.gives(meta, sizes) {
			decl, ok = *v.decl, true
		} else {
			decl, ok = declarationOf(meta, types[i], sizes, func(dim, size int) Dim {
				name := fmt.Sprintf("%s%d_%d", newSymbolPrefix, i, dim)
				setSize(name, size)
				return Dim{Symbol: name}
			})
		}
		if !ok {
			return nil
		}
		form.decls = append(form.decls, decl)
		fmt.Fprintf(&key, "%v %v %v %v;", decl.DType, decl.Dims, decl.Layout, decl.Strides)
	}
	for _, symbol := range openSymbols {
		symbols := map[string]sym.Int{symbol: sizes[symbol]}
		dependsOnSymbol := slices.ContainsFunc(form.decls, func(d Decl) bool { return d.DependsOn(symbol) }) ||
			slices.ContainsFunc(s.Nodes, func(n *Node) bool { return n.undecoded.dependOn(symbols) })
		if !dependsOnSymbol {
			delete(form.Sizes, symbol)
		}
	}
	if len(form.Sizes) == 0 {
		return nil
	}
	form.Key = key.String()
	return form
}

// gives reports whether a declaration has the given layout at sizes of symbols.
func (d *Decl) gives(meta tensor.Meta, sizes map[string]sym.Int) bool {
	declared, err := d.Type(sizes)
	if err != nil {
		return false
	}
	got, isNumber := declared.Meta()
	return isNumber && got.DType == meta.DType && slices.Equal(got.Shape, meta.Shape) &&
		slices.Equal(got.Strides, meta.Strides) && got.Offset == meta.Offset
}

// newSymbolPrefix is the prefix of the symbols of sizes about which nothing is known before the run.
const newSymbolPrefix = "unknown"

// isUnbackedName reports whether a text is a symbol of [Graph.Unbacked].
func isUnbackedName(text string) bool {
	return len(text) > 1 && text[0] == 'u' && strings.Trim(text[1:], "0123456789") == ""
}

// typeOf returns the type of a value with symbols. The shape is nil if the type is unknown.
func (s *Segment) typeOf(v *Value, openSymbols []string) tensor.Type {
	if v.Node == nil && !v.Dynamic {
		return v.Type
	}
	s.types.once.Do(func() { s.types.graph = s.graph.openTypes(openSymbols) })
	if s.types.graph == nil {
		return tensor.Type{}
	}
	return s.types.graph.Value(v.Name).Type
}

// openTypes returns a copy of the graph in which sizes that depend on data are symbols u0, u1, ..., and the sizes of
// openSymbols are symbols of the same names. It returns nil if a symbol cannot have its name.
func (g *Graph) openTypes(openSymbols []string) *Graph {
	if len(openSymbols) == 0 {
		return g.Unbacked().Graph
	}
	u := newUnbacked(g)
	copied, env := u.symbolic.Graph, u.symbolic.Env
	copied.sizes = maps.Clone(copied.sizes)
	for _, name := range openSymbols {
		bounds := g.Symbols[name]
		maxSize := bounds.Max
		if maxSize == 0 {
			maxSize = tensor.MaxBytes
		}
		size, err := env.Symbol(name, bounds.Min, maxSize, bounds.assumedSize())
		if err != nil {
			return nil
		}
		copied.sizes[name] = size
	}
	for _, v := range copied.Inputs {
		if v.Dims == nil {
			continue
		}
		declared, err := v.decl.Type(copied.sizes)
		if err != nil {
			return nil
		}
		v.Type, v.Meta = declared, declared.AtHints()
	}
	for _, n := range copied.Nodes {
		if n.undecoded.dependOn(copied.sizes) {
			n.Attrs = nil
		}
		if n.Op == nil || n.Op.TakenBranch != nil || n.Op.Repeats != nil { // inlined where its sizes are known
			u.setDynamicResults(n)
			continue
		}
		u.infer(n)
	}
	return copied
}

// declarationOf returns a declaration that gives a layout at the given sizes of symbols. It has the expressions of a
// type where these have the values of the layout. Any other size is a symbol, which newSymbol makes. ok is false if the
// strides do not follow from the sizes.
func declarationOf(meta tensor.Meta, typ tensor.Type, sizes map[string]sym.Int, newSymbol func(dim, size int) Dim) (
	decl Decl, ok bool) {
	decl = Decl{DType: meta.DType, Dims: make([]Dim, len(meta.Shape))}
	hasType := len(typ.Shape) == len(meta.Shape) // false if the type is unknown
	dimOf := func(size sym.Int) Dim {
		if n, isNumber := size.Known(); isNumber {
			return Dim{Size: n}
		}
		return ParseDim(size.String())
	}
	isValue := func(dim Dim, n int) bool {
		value, err := dim.In(sizes)
		got, isNumber := value.Known()
		return err == nil && isNumber && got == n
	}
	for k, n := range meta.Shape {
		if hasType {
			decl.Dims[k] = dimOf(typ.Shape[k])
		}
		if !hasType || !isValue(decl.Dims[k], n) {
			decl.Dims[k] = newSymbol(k, n)
		}
	}
	if decl.gives(meta, sizes) { // row-major
		return decl, true
	}
	if hasType && len(typ.Strides) == len(meta.Strides) {
		decl.Strides = make([]Dim, len(meta.Strides))
		for k := range decl.Strides {
			decl.Strides[k] = dimOf(typ.Strides[k])
		}
		if decl.gives(meta, sizes) {
			return decl, true
		}
		decl.Strides = nil
	}
	order, isDense := tensor.OrderOf(meta)
	if !isDense {
		return decl, false
	}
	decl.Layout = Pin{Order: order}
	return decl, decl.gives(meta, sizes)
}

// Graph returns the graph of the form, which is not inferred. Its inputs and outputs are those of [Segment.At]. The
// symbols in Sizes have assumed sizes. Other symbols have the sizes that they have in the segment's graph.
func (f *SegmentForm) Graph(ctx context.Context) (*Graph, error) {
	if f == nil || f.segment == nil {
		return nil, errors.New("the form was not made by Segment.Form")
	}
	s := f.segment
	indexOf := make(map[*Value]int, len(s.In))
	for i, v := range s.In {
		indexOf[v] = i
	}
	symbols, sizes := map[string]Bounds{}, map[string]sym.Int{}
	maps.Copy(symbols, s.graph.Symbols)
	for name := range f.Sizes {
		symbols[name] = s.graph.Symbols[name]
	}
	for name := range symbols {
		if _, isOpen := f.Sizes[name]; !isOpen {
			sizes[name] = s.graph.sizes[name]
		}
	}
	declOf := func(v *Value) Decl { return f.decls[indexOf[v]] }
	dataOf := func(v *Value) *tensor.Tensor { return v.Const }
	return s.makeGraph(ctx, segmentInputs{declOf: declOf, dataOf: dataOf, sizes: sizes, symbols: symbols})
}
