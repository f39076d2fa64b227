package onnx

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/ends"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Bounds of what a small file may blow up to.
const (
	maxDepth = 64      // graphs within graphs and functions within functions
	maxNodes = 1 << 18 // nodes that are converted, those of functions counted at each call
	maxRank  = 64      // dimensions
	maxWork  = 1 << 25 // elements that are computed here
)

// importer converts one graph of a model: the main one, or the body of a loop.
type importer struct {
	model *Model
	opts  Options
	g     *graph.Graph
	// named holds values that bear a name of the model.
	named map[*graph.Value]bool
	// What depends on sizes that are not known: see sizes.go. The importers of a model share all but the last two.
	env      *sym.Env
	symbols  map[string]sym.Int         // of the graph
	hints    map[string]int             // sizes of these that the graph is built for
	limits   map[string]int             // bounds of these, which arithmetic needs: see fractions.go
	unknowns *int                       // symbols for what data decide
	texts    map[string]bool            // expressions among attributes
	used     map[string]bool            // the symbols in attributes
	carriers map[string]*val            // an input of each symbol that is a size of it
	shapes   map[*graph.Value][]sym.Int // of values whose shapes are no numbers

	normed map[*graph.Value]groupsNormed // those that are normalised by groups of channels: see groups.go

	read  map[*graph.Value]*val // values that attributes are read from
	count int                   // nodes converted
	work  float64               // elements computed here

	// What is read past: see some.go.
	missing graph.Errors // initializers, inputs and outputs that cannot be had
	refused int          // nodes that were refused for a reason of their own

	// outer converts the graph around this one; captured are its values that became further
	// inputs here.
	outer    *importer
	captured []*val
	ours     map[*val]*val // by those outside
}

// frame is what a function sees of its call.
type frame struct {
	opsets map[string]int
	attrs  map[string]*pb.AttributeProto
	depth  int
	// unroll is how many nodes a loop may be written out to; loops within loops share it.
	unroll int
	// then is what comes after the graph that is converted in place of a node; nil where a
	// node takes the results.
	then *rest
	// some tells to go on past what is wrong: see some.go.
	some bool
}

// scope holds the values of a graph by name. Those of the scope around it are seen too: of
// parent as they are, of beyond, which is another importer's, as further inputs.
type scope struct {
	im             *importer
	parent, beyond *scope
	vals           map[string]*val
}

func (s *scope) lookup(name string) *val {
	var beyond *scope
	for at := s; at != nil; at = at.parent {
		if v := at.vals[name]; v != nil {
			return v
		}
		beyond = at.beyond
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

// capture makes a value of the graph outside one of the body: known data is shared, any
// other becomes an input.
func (im *importer) capture(v *val) (*val, error) {
	if c := im.ours[v]; c != nil {
		return c, nil
	}
	if v.kind == isLost {
		return nil, &dependency{v}
	}
	c := &val{name: v.name, data: v.data, kind: v.kind, outline: v.outline}
	im.ours[v] = c
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
		im.ours[v] = c
	}
	return c, nil
}

// enterCaptured makes a value of the graph outside an input.
func (im *importer) enterCaptured(v *val) (*val, error) {
	c, err := im.entering("outer."+v.v.Name, v, im.outer.shapeOf(v))
	if err == nil {
		im.captured = append(im.captured, v)
	}
	return c, err
}

// convert converts the model's graph.
func (im *importer) convert(f *frame) (*graph.Graph, error) {
	p := im.model.proto.Graph
	s := &scope{im: im, vals: map[string]*val{}}
	if err := im.initializers(p, s, f); err != nil {
		return nil, err
	}
	for _, in := range p.Input {
		if s.vals[in.Name] != nil {
			continue // a default that stands for good
		}
		if why := im.opts.Lost[in.Name]; f.some && why != nil {
			im.miss(s, "input", in.Name, why)
			continue
		}
		v, err := im.input(in)
		if err == nil {
			s.vals[in.Name], err = v, im.g.Err()
		}
		switch {
		case err == nil:
		case f.some:
			im.miss(s, "input", in.Name, err)
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
		if err == nil && f.some && im.g.Err() != nil {
			err = im.g.Err() // of a name that there is already
		}
		switch {
		case err == nil:
		case f.some:
			im.missOutput(out.Name, err)
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
	case v.kind == isLost && v.v == nil:
		return &dependency{v}
	case v.kind == isLost:
		im.g.Output(name, v.v)
		return nil
	case v.kind != isTensor:
		return errors.New("sequences and optionals are not supported as results")
	}
	im.g.Output(name, im.materialise(v))
	return nil
}

// initializers makes the weights known.
func (im *importer) initializers(p *pb.GraphProto, s *scope, f *frame) error {
	for _, t := range p.SparseInitializer {
		err := errors.New("sparse tensors are not supported")
		if !f.some {
			return fmt.Errorf("sparse initializer %q: %w", t.GetValues().GetName(), err)
		}
		im.miss(s, "sparse initializer", t.GetValues().GetName(), err)
	}
	for _, t := range p.Initializer {
		ends.Look(im.opts.Context)
		data, err := im.weightOf(t, f)
		switch {
		case err == nil:
			s.vals[t.Name] = &val{name: t.Name, data: data}
		case f.some:
			im.miss(s, "initializer", t.Name, err)
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
	if v.Dims != nil && len(im.symbols) > 0 { // a signature has none
		if im.shapes[v], err = im.sizesOf(dims); err != nil {
			return nil, err
		}
		im.carry(x, dims)
	}
	return x, nil
}

// sizesOf returns declared sizes as expressions.
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

// carry notes that the shape of an input tells the sizes of symbols.
func (im *importer) carry(x *val, dims []graph.Dim) {
	for _, d := range dims {
		if d.Symbol != "" && im.carriers[d.Symbol] == nil {
			im.carriers[d.Symbol] = x
		}
	}
}

// dims returns the sizes of an input, with symbols for those that nobody knows.
func (im *importer) dims(name string, shape *pb.TensorShapeProto) ([]graph.Dim, error) {
	given, ok := im.opts.Shapes[name]
	switch {
	case shape != nil && len(shape.Dim) > maxRank:
		return nil, fmt.Errorf("%d dimensions are not supported", len(shape.Dim))
	case shape == nil && !ok:
		return nil, errors.New("its rank is unknown: a shape must be given")
	case shape != nil && ok && len(given) != len(shape.Dim):
		return nil, fmt.Errorf("the model wants %d dimensions, the shape given is %s", len(shape.Dim),
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

// limit is an error that is no matter of one branch: the model is too much.
type limit struct{ error }

// results converts the nodes of a graph and returns its outputs: where the frame says what
// comes then, the outputs of that may be returned in their place, see [node.final].
func (im *importer) results(p *pb.GraphProto, s *scope, f *frame) ([]*val, error) {
	final, err := im.nodes(p, 0, s, f)
	if final != nil || err != nil {
		return final, err
	}
	out := make([]*val, len(p.Output))
	for i, o := range p.Output {
		if out[i] = s.lookup(o.Name); out[i] == nil && !f.some {
			return nil, fmt.Errorf("output %q is not made by any node", o.Name)
		}
	}
	return out, nil
}

// nodes converts the nodes that the outputs need, in order, from a given one on. It returns
// what [node.final] of the last one is.
func (im *importer) nodes(p *pb.GraphProto, from int, s *scope, f *frame) ([]*val, error) {
	if f.depth > maxDepth {
		return nil, limit{errors.New("graphs or functions are nested too deep")}
	}
	live := liveNodes(p)
	for i, n := range p.Node {
		if i < from || !live[i] {
			continue
		}
		ends.Look(im.opts.Context)
		final, err := im.node(n, s, f, &rest{graph: p, from: i + 1, scope: s, frame: f, bind: n.Output})
		if final != nil || err != nil {
			return final, err
		}
	}
	return nil, nil
}

// liveNodes tells which nodes of a graph its outputs depend on. Names that a subgraph uses
// count as its node's operands.
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

// materialise returns the value of the graph; known data becomes a constant.
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
