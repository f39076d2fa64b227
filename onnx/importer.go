package onnx

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Limits that protect against small files that expand to large graphs.
const (
	maxDepth = 64      // nesting depth of graphs and functions
	maxNodes = 1 << 18 // converted nodes; those of functions count at each call
	maxRank  = 64      // dimensions
	maxWork  = 1 << 25 // elements evaluated during the import
)

// importer converts one graph of a model: the main graph, or the body of a loop or branch.
type importer struct {
	model *Model
	opts  Options
	g     *graph.Graph
	// named holds the graph values that already have a name of the model.
	named map[*graph.Value]bool
	// Symbolic sizes, see symshapes.go. The importers of a model share env, symbols, limits, unknowns and texts.
	env          *sym.Env
	symbols      map[string]sym.Int         // symbols of the graph
	hints        map[string]int             // the sizes of symbols for which the graph is built
	limits       map[string]int             // upper bounds of symbols that symfractions.go requires
	unknowns     *int                       // counts the symbols for sizes that depend on data
	texts        map[string]bool            // the expressions among attributes
	used         map[string]bool            // symbols that occur in attributes
	symbolInputs map[string]*val            // for each symbol, an input with that size
	shapes       map[*graph.Value][]sym.Int // symbolic shapes of values

	groupNorms map[*graph.Value]recordedGroupNorm // recorded group normalizations, see groups.go

	read  map[*graph.Value]*val // values that attributes are read from
	count int                   // converted nodes
	work  float64               // elements evaluated during the import

	// For GraphSome, see skipped.go.
	skipped  graph.Errors // errors of skipped initializers, inputs and outputs
	rejected int          // nodes rejected for errors of their own

	// outer converts the enclosing graph. captured lists the values of the enclosing graph that became additional
	// inputs of this graph.
	outer    *importer
	captured []*val
	captures map[*val]*val // captured values by the outer value
}

// frame is the context of a function call or a nested graph.
type frame struct {
	opsets map[string]int
	attrs  map[string]*pb.AttributeProto
	depth  int
	// unroll is the number of nodes to which a loop may be unrolled; nested loops share it.
	unroll int
	// then is set in a graph that is converted in place of a node together with the continuation of that node. It is
	// the continuation. It is nil if the node takes the results of the graph.
	then *continuation
	// skipErrors means that a node with a mistake is skipped instead of ending the import: see skipped.go.
	skipErrors bool
}

// scope holds the values of a graph by name. Nodes use values of the scope parent directly. The scope outerScope
// belongs to another importer; its values become additional inputs.
type scope struct {
	im                 *importer
	parent, outerScope *scope
	vals               map[string]*val
}

func (s *scope) lookup(name string) *val {
	var beyond *scope
	for at := s; at != nil; at = at.parent {
		if v := at.vals[name]; v != nil {
			return v
		}
		beyond = at.outerScope
	}
	if beyond == nil {
		return nil
	}
	v := beyond.lookup(name)
	if v == nil {
		return nil
	}
	c, err := s.im.capture(v)
	if err != nil {
		panic(failure{fmt.Errorf("%q: %w", name, err)})
	}
	s.vals[name] = c
	return c
}

// capture makes a value of the enclosing graph available in this graph. A constant is shared. Any other value becomes
// an input.
func (im *importer) capture(v *val) (*val, error) {
	if c := im.captures[v]; c != nil {
		return c, nil
	}
	if v.kind == isUnavailable {
		return nil, &dependency{v}
	}
	c := &val{name: v.name, data: v.data, kind: v.kind, outline: v.outline}
	im.captures[v] = c
	switch {
	case v.packed != nil:
		data, err := im.capture(v.packed.data)
		if err != nil {
			return nil, err
		}
		shapes, err := im.capture(v.packed.shapes)
		if err != nil {
			return nil, err
		}
		c.packed = &packed{dtype: v.packed.dtype, rank: v.packed.rank, data: data, shapes: shapes,
			outer: v.packed.outer}
	case v.kind == isSequence:
		c.member = v.member
		for _, m := range v.list {
			mine, err := im.capture(m)
			if err != nil {
				return nil, err
			}
			c.list = append(c.list, mine)
		}
	case v.elements != nil:
		e := *v.elements
		e.make = func() *val {
			mine, err := im.enterCaptured(&val{v: im.outer.materialise(v)})
			if err != nil {
				panic(failure{fmt.Errorf("%q: %w", v.name, err)})
			}
			return mine
		}
		c.elements = &e
	case v.data == nil && v.v != nil:
		var err error
		if c, err = im.enterCaptured(v); err != nil {
			return nil, err
		}
		im.captures[v] = c
	}
	return c, nil
}

// enterCaptured adds an input for a value of the enclosing graph.
func (im *importer) enterCaptured(v *val) (*val, error) {
	c, err := im.entering("outer."+v.v.Name, v, im.outer.shapeOf(v))
	if err == nil {
		im.captured = append(im.captured, v)
	}
	return c, err
}

// convert converts the main graph.
func (im *importer) convert(f *frame) (*graph.Graph, error) {
	p := im.model.proto.Graph
	s := &scope{im: im, vals: map[string]*val{}}
	if err := im.initializers(p, s, f); err != nil {
		return nil, err
	}
	for _, in := range p.Input {
		if s.vals[in.Name] != nil {
			continue // an initializer replaces the input
		}
		if why := im.opts.Lost[in.Name]; f.skipErrors && why != nil {
			im.skipValue(s, "input", in.Name, why)
			continue
		}
		v, err := im.input(in)
		if err == nil {
			s.vals[in.Name], err = v, im.g.Err()
		}
		switch {
		case err == nil:
		case f.skipErrors:
			im.skipValue(s, "input", in.Name, err)
		default:
			return nil, about("input", in.Name, err)
		}
	}
	results, err := im.results(p, s, f)
	if err != nil {
		return nil, err
	}
	for i, out := range p.Output {
		err := im.output(out.Name, results[i])
		if err == nil && f.skipErrors && im.g.Err() != nil {
			err = im.g.Err() // a duplicate name
		}
		switch {
		case err == nil:
		case f.skipErrors:
			im.skipOutput(out.Name, err)
		default:
			return nil, fmt.Errorf("output %q: %w", out.Name, err)
		}
	}
	if err := im.g.Err(); err != nil {
		return nil, err
	}
	return im.g, nil
}

func (im *importer) output(name string, v *val) error {
	switch {
	case v == nil:
		return errors.New("it is not made by any node")
	case v.kind == isUnavailable && v.v == nil:
		return &dependency{v}
	case v.kind == isUnavailable:
		im.g.Output(name, v.v)
		return nil
	case v.kind != isTensor:
		return errors.New("sequences and optionals are not supported as results")
	}
	im.g.Output(name, im.materialise(v))
	return nil
}

// initializers adds the weights of a graph to its scope as constants.
func (im *importer) initializers(p *pb.GraphProto, s *scope, f *frame) error {
	for _, t := range p.SparseInitializer {
		err := errors.New("sparse tensors are not supported")
		if !f.skipErrors {
			return fmt.Errorf("sparse initializer %q: %w", t.GetValues().GetName(), err)
		}
		im.skipValue(s, "sparse initializer", t.GetValues().GetName(), err)
	}
	for _, t := range p.Initializer {
		interrupt.Check(im.opts.Context)
		data, err := im.weightOf(t, f)
		switch {
		case err == nil:
			s.vals[t.Name] = &val{name: t.Name, data: data}
		case f.skipErrors:
			im.skipValue(s, "initializer", t.Name, err)
		default:
			return fmt.Errorf("initializer %q: %w", t.Name, err)
		}
	}
	return nil
}

// input adds an input of the graph.
func (im *importer) input(in *pb.ValueInfoProto) (*val, error) {
	if in.Name == "" {
		return nil, errors.New("it has no name")
	}
	t := in.GetType().GetTensorType()
	if t == nil {
		return nil, errors.New("only tensors are supported as inputs")
	}
	d, err := dtypeOf(t.ElemType)
	if err != nil {
		return nil, err
	}
	dims, err := im.dims(in.Name, t.Shape)
	if err != nil {
		return nil, err
	}
	for _, d := range dims {
		for _, symbol := range symbolsOf(d) {
			if _, ok := im.g.Symbols[symbol]; !ok {
				im.g.Symbols[symbol] = im.model.bounds(symbol)
			}
		}
	}
	v := im.g.InputDims(in.Name, d, tensor.NoFormat, dims...)
	im.named[v] = true
	x := &val{name: in.Name, v: v}
	if v.Dims != nil && len(im.symbols) > 0 { // not for a signature
		if im.shapes[v], err = im.sizesOf(dims); err != nil {
			return nil, err
		}
		im.recordInputSymbols(x, dims)
	}
	return x, nil
}

// sizesOf returns the declared sizes of an input as expressions over symbols.
func (im *importer) sizesOf(dims []graph.Dim) ([]sym.Int, error) {
	shape := make([]sym.Int, len(dims))
	for i, d := range dims {
		var err error
		if shape[i], err = d.In(im.symbols); err != nil {
			return nil, fmt.Errorf("size %d: %w", i, err)
		}
	}
	return shape, nil
}

// recordInputSymbols records the symbols that are sizes of an input.
func (im *importer) recordInputSymbols(x *val, dims []graph.Dim) {
	for _, d := range dims {
		if d.Symbol != "" && im.symbolInputs[d.Symbol] == nil {
			im.symbolInputs[d.Symbol] = x
		}
	}
}

// dims returns the sizes of an input. A size that is neither declared nor given is a symbol.
func (im *importer) dims(name string, shape *pb.TensorShapeProto) ([]graph.Dim, error) {
	given, ok := im.opts.Shapes[name]
	switch {
	case shape != nil && len(shape.Dim) > maxRank:
		return nil, fmt.Errorf("%d dimensions are not supported", len(shape.Dim))
	case shape == nil && !ok:
		return nil, errors.New("its rank is unknown: a shape must be given")
	case shape != nil && ok && len(given) != len(shape.Dim):
		return nil, fmt.Errorf("the model declares %d dimensions, the given shape is %s", len(shape.Dim),
			tensor.ListString(given))
	case shape == nil:
		dims := make([]graph.Dim, len(given))
		for i, n := range given {
			dims[i].Size = n
		}
		return dims, nil
	}
	dims := make([]graph.Dim, len(shape.Dim))
	for i, d := range shape.Dim {
		_, isSize := d.Value.(*pb.TensorShapeProto_Dimension_DimValue)
		switch {
		case isSize && d.GetDimValue() >= 0:
			dims[i].Size = int(d.GetDimValue())
		case ok:
			dims[i].Size = given[i]
		default:
			var err error
			if dims[i], err = im.model.dim(name, i, d.GetDimParam(), im.opts.Dims); err != nil {
				return nil, err
			}
		}
	}
	return dims, nil
}

// limit is the error of a model that exceeds a limit. It concerns the whole model instead of one branch or node.
type limit struct{ error }

// results converts the nodes of a graph and returns the values of its outputs. If the last node converted its
// continuation, it returns the outputs of the outermost graph, see [node.final].
func (im *importer) results(p *pb.GraphProto, s *scope, f *frame) ([]*val, error) {
	final, err := im.nodes(p, 0, s, f)
	if final != nil || err != nil {
		return final, err
	}
	out := make([]*val, len(p.Output))
	for i, o := range p.Output {
		if out[i] = s.lookup(o.Name); out[i] == nil && !f.skipErrors {
			return nil, fmt.Errorf("output %q is not made by any node", o.Name)
		}
	}
	return out, nil
}

// nodes converts the nodes that the outputs depend on, in order, from index from on. It returns [node.final] of the
// last node that it converts.
func (im *importer) nodes(p *pb.GraphProto, from int, s *scope, f *frame) ([]*val, error) {
	if f.depth > maxDepth {
		return nil, limit{errors.New("graphs or functions are nested too deep")}
	}
	live := liveNodes(p)
	for i, n := range p.Node {
		if i < from || !live[i] {
			continue
		}
		interrupt.Check(im.opts.Context)
		final, err := im.node(n, s, f, &continuation{graph: p, from: i + 1, scope: s, frame: f, bind: n.Output})
		if final != nil || err != nil {
			return final, err
		}
	}
	return nil, nil
}

// liveNodes marks the nodes that a graph's outputs depend on. Names that a nested graph of a node uses count as
// operands of the node.
func liveNodes(p *pb.GraphProto) []bool {
	needed := map[string]bool{}
	for _, o := range p.Output {
		needed[o.Name] = true
	}
	live := make([]bool, len(p.Node))
	for i := len(p.Node) - 1; i >= 0; i-- {
		n := p.Node[i]
		live[i] = slices.ContainsFunc(n.Output, func(o string) bool { return o != "" && needed[o] })
		if live[i] {
			need(n, needed, 0)
		}
	}
	return live
}

// need marks the names that a node and its nested graphs use.
func need(n *pb.NodeProto, needed map[string]bool, depth int) {
	for _, in := range n.Input {
		needed[in] = true
	}
	if depth > maxDepth {
		return
	}
	for _, a := range n.Attribute {
		for _, g := range append(slices.Clone(a.Graphs), a.G) {
			if g == nil {
				continue
			}
			for _, o := range g.Output {
				needed[o.Name] = true
			}
			for _, m := range g.Node {
				need(m, needed, depth+1)
			}
		}
	}
}

// materialise returns x as a value of the graph. If x is not yet in the graph, a constant or its computation is added.
func (im *importer) materialise(x *val) *graph.Value {
	switch {
	case x.v != nil:
	case x.elements != nil:
		x.v = im.materialise(x.elements.make())
	default:
		name := x.name
		if name == "" {
			name = "const"
		}
		x.v = im.g.Constant(im.g.Fresh(name), x.data.Contiguous())
		im.named[x.v] = true
	}
	return x.v
}
