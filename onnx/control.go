package onnx

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// body returns a graph attribute, which must be present.
func (n *node) body(name string) *pb.GraphProto {
	a := n.attr(name, pb.AttributeGraph)
	if a == nil || a.G == nil {
		n.failf("attribute %q is missing", name)
	}
	return a.G
}

// convertInline converts a graph without inputs in place of the node. The conversion may include the node's
// continuation: see [node.finalOutputs].
func (n *node) convertInline(p *pb.GraphProto) []*val {
	f := *n.frame
	f.depth++
	f.continuation = n.continuation
	s := n.innerScope(p, nil, &f)
	var err error
	if n.finalOutputs, err = n.convertNodes(p, 0, s, &f); err != nil {
		n.failf("%w", err)
	}
	if n.finalOutputs != nil {
		return nil
	}
	return n.outputs(p, s)
}

// convertIteration converts graph p, the body of a loop of `times` iterations, in place of the node. in has the values
// of the body's inputs.
func (n *node) convertIteration(p *pb.GraphProto, in []*val, times int) []*val {
	f := *n.frame
	f.depth++
	f.unrollBudget /= times
	f.continuation, f.skipErrors = nil, false
	out, err := n.convertResults(p, n.innerScope(p, in, &f), &f)
	if err != nil {
		n.failf("%w", err)
	}
	return out
}

// innerScope makes the scope of a graph that is converted in place, with the values of its inputs.
func (n *node) innerScope(p *pb.GraphProto, in []*val, f *frame) *scope {
	if len(in) != len(p.Input) {
		n.failf("a graph of %d inputs cannot take %d values", len(p.Input), len(in))
	}
	s := &scope{im: n.importer, parent: n.scope, values: map[string]*val{}}
	if err := n.addInitializers(p, s, f); err != nil {
		n.failf("%w", err)
	}
	for i, v := range p.Input {
		s.values[v.Name] = in[i]
	}
	return s
}

// outputs returns the values of a graph's outputs.
func (n *node) outputs(p *pb.GraphProto, s *scope) []*val {
	out := make([]*val, len(p.Output))
	for i, o := range p.Output {
		if out[i] = s.lookup(o.Name); out[i] == nil {
			n.failf("output %q is not made by any node", o.Name)
		}
	}
	return out
}

// nestedGraph is a graph that is an attribute of a node, such as the body of a loop. Values of the enclosing graphs
// that its nodes use become additional inputs: see importer.captured.
type nestedGraph struct {
	im  *importer
	out []*val // the results
}

// nestedGraph returns an empty nested graph, which is built at the hints of the enclosing graph.
func (n *node) nestedGraph(name string) *nestedGraph { return n.nestedGraphAt(name, n.hints) }

// nestedGraphAt returns an empty nested graph, which is built at the given hints.
func (n *node) nestedGraphAt(name string, hints map[string]int) *nestedGraph {
	if name == "" {
		name = "body"
	}
	im := &importer{model: n.model, opts: n.opts, graph: graph.New(name, n.opts.Lookup),
		hasModelName: map[*graph.Value]bool{}, env: n.env, symbols: n.symbols, hints: hints, limits: n.limits,
		unknownCount: n.unknownCount, expressionTexts: n.expressionTexts, usedSymbols: map[string]bool{},
		symbolInputs: map[string]*val{}, shapes: map[*graph.Value][]sym.Int{}, referenced: map[*graph.Value]*val{},
		outer: n.importer, nodeCount: n.nodeCount, captures: map[*val]*val{}}
	im.graph.Symbols = map[string]graph.Bounds{}
	for name := range n.symbols {
		im.graph.Symbols[name] = graph.Bounds{}
	}
	_ = im.graph.BindOnly(hints) // hints has a size for each symbol
	return &nestedGraph{im: im}
}

// subgraph converts graph p, the body of a loop. in are the initial values of the body's inputs. If varies(i) is true,
// the shape of input i may change between iterations.
func (n *node) subgraph(p *pb.GraphProto, in []*val, varies func(i int) bool) *nestedGraph {
	b, err := n.trySubgraph(p, in, varies)
	if err != nil {
		n.failf("%w", err)
	}
	return b
}

// trySubgraph is [node.subgraph], but returns the error of the conversion.
func (n *node) trySubgraph(p *pb.GraphProto, in []*val, varies func(i int) bool) (*nestedGraph, error) {
	b := n.nestedGraph(p.Name)
	s := &scope{im: b.im, outerScope: n.scope, values: map[string]*val{}}
	if len(in) != len(p.Input) {
		n.failf("a graph of %d inputs cannot take %d values", len(p.Input), len(in))
	}
	for i, v := range p.Input {
		var x *val
		var err error
		if in[i] != nil && in[i].packed != nil {
			x, err = b.im.addSequence(v.Name, n, in[i].packed)
		} else {
			x, err = b.im.addOperandInput(v.Name, n, in[i], varies(i))
		}
		if err != nil {
			n.failf("input %q of the body: %w", v.Name, err)
		}
		s.values[v.Name] = x
	}
	f := *n.frame
	f.depth++
	f.continuation, f.skipErrors = nil, false
	err := b.im.addInitializers(p, s, &f)
	if err == nil {
		b.out, err = b.im.convertResults(p, s, &f)
	}
	if err == nil && slices.ContainsFunc(in, func(x *val) bool { return x != nil && x.packed != nil }) {
		inner := &node{importer: b.im, scope: s, frame: &f, proto: n.proto}
		err = inner.splitSequences(b, in)
	}
	n.nodeCount = b.im.nodeCount
	if err == nil {
		err = b.close()
	}
	return b, err
}

// addOperandInput adds an input for an operand x of node n. If varies is true, the sizes of the input are unknown.
func (im *importer) addOperandInput(name string, n *node, x *val, varies bool) (*val, error) {
	if x == nil {
		return nil, errors.New("its operand is missing")
	}
	shape := slices.Clone(n.shapeOf(x))
	if varies {
		for i := range shape {
			shape[i] = im.newUnknown(0)
		}
	}
	return im.addInput(name, x, shape)
}

// close names the graph's results. It also ensures that each used symbol is a size of an input, so that the shapes of
// the inputs determine the symbols.
func (b *nestedGraph) close() error {
	for i, x := range b.out {
		name := x.name
		if name == "" {
			name = "result"
		}
		if err := b.im.addOutput(fmt.Sprintf("%s.%d", name, i), x); err != nil {
			return fmt.Errorf("result %d: %w", i, err)
		}
	}
	g := b.im.graph
	for _, name := range sorted.Keys(b.im.symbols) {
		if b.im.usedSymbols[name] {
			if _, err := b.im.symbolInput(name); err != nil {
				return err
			}
		}
		if b.im.symbolInputs[name] == nil {
			delete(g.Symbols, name)
		}
	}
	return g.Err()
}

// addInput adds an input for value x of the enclosing graph, with the given symbolic shape.
func (im *importer) addInput(name string, x *val, shape []sym.Int) (*val, error) {
	if x.kind != tensorKind {
		return nil, errors.New("sequences and optionals are not supported here")
	}
	name = im.graph.Fresh(name)
	d := x.dtype()
	switch {
	case !d.Valid():
		return nil, errors.New("its dtype depends on data")
	case shape == nil:
		return nil, errors.New("its number of dimensions depends on data")
	}
	dims, open := make([]graph.Dim, len(shape)), false
	for i, s := range shape {
		n, known := s.Known()
		switch {
		case known:
			dims[i].Size = n
			continue
		case im.symbols[s.String()].Same(s):
			dims[i].Symbol = s.String()
		default:
			dims[i].Symbol = fmt.Sprintf("%s_dim%d", name, i)
		}
		open = true
	}
	y := &val{name: name}
	if y.graphValue = im.graph.InputDims(name, d, tensor.NoFormat, dims...); open {
		im.shapes[y.graphValue] = shape
		im.addSymbolInputs(y, dims)
	}
	switch {
	case x.isDynamic():
		y.graphValue.Dynamic = true // the sizes are known only when the graph runs
		y.outline = graph.Outline{DType: d, Sizes: numericSizes(shape)}
	case open:
		sizes, err := im.atHints(shape, x.meta().Shape)
		if err != nil {
			return nil, err
		}
		y.graphValue.SetMeta(tensor.New(d, sizes...))
	}
	im.hasModelName[y.graphValue] = true
	return y, nil
}

// atHints evaluates a symbolic shape at the hints. Sizes that depend on data are taken from known.
func (im *importer) atHints(shape []sym.Int, known []int) ([]int, error) {
	sizes := slices.Clone(known)
	for i, s := range shape {
		n, err := s.At(im.hints)
		switch {
		case err != nil:
			continue
		case n < 0:
			return nil, fmt.Errorf("the size %v is negative at %v", s, im.hints)
		}
		sizes[i] = n
	}
	return sizes, nil
}

// symbolInput returns an input that has the symbol as a size. It adds an input if the graph has none.
func (im *importer) symbolInput(symbol string) (*val, error) {
	if im.symbolInputs[symbol] != nil || im.outer == nil {
		return im.symbolInputs[symbol], nil
	}
	v, err := im.outer.symbolInput(symbol)
	if err != nil || v == nil {
		return nil, err
	}
	return im.capture(v)
}

// operandsOf joins lists of operands.
func (n *node) operandsOf(lists ...[]*val) []any {
	var out []any
	for _, l := range lists {
		for _, v := range l {
			out = append(out, v)
		}
	}
	return out
}

// scan converts Scan. In operator set 8, Scan had a batch dimension and sequence lengths.
func scan(n *node) []*val {
	if n.opset >= 9 {
		return n.scanOnce(n.in)
	}
	if n.hasOperand(0) {
		n.failf("lengths of sequences are not supported")
	}
	in := n.in[min(1, len(n.in)):]
	if len(in) == 0 || in[0] == nil || n.rank(in[0]) == 0 {
		n.failf("operands are missing")
	}
	batch := n.knownSize(in[0], 0)
	if batch < 1 || batch > maxUnrolled {
		n.failf("a batch of %d is not supported", batch)
	}
	var lists [][]any
	for b := range batch {
		part := make([]*val, len(in))
		for i, v := range in {
			if v == nil {
				n.failf("operands are missing")
			}
			part[i] = n.op("select", graph.Attrs{"dim": 0, "index": b}, v)
		}
		for i, o := range n.scanOnce(part) {
			if b == 0 {
				lists = append(lists, nil)
			}
			lists[i] = append(lists[i], o)
		}
	}
	out := make([]*val, len(lists))
	for i, l := range lists {
		out[i] = n.op("stack", graph.Attrs{"dim": 0}, l...)
	}
	return out
}

// directionsOf reads an attribute with the directions of count values. True means backwards.
func (n *node) directionsOf(name string, count int) []bool {
	out := make([]bool, count)
	for i, d := range n.perDim(name, count, 0) {
		out[i] = d != 0
	}
	return out
}

func (n *node) scanOnce(in []*val) []*val {
	p := n.body("body")
	scanned := n.int("num_scan_inputs", 0)
	states := len(in) - scanned
	if scanned < 1 || states < 0 || len(p.Input) != len(in) || len(p.Output) < states || slices.Contains(in, nil) {
		n.failf("a body with %d inputs and %d outputs does not suit %d operands, %d of them scanned", len(p.Input),
			len(p.Output), len(in), scanned)
	}
	inBackward, outBackward := n.directionsOf("scan_input_directions", scanned),
		n.directionsOf("scan_output_directions", len(p.Output)-states)
	if n.opset < 9 {
		inBackward = n.directionsOf("directions", scanned)
	}
	inAxes, outAxes := n.perDim("scan_input_axes", scanned, 0), n.perDim("scan_output_axes", len(p.Output)-states, 0)
	length, known := -1, true
	for k := range scanned {
		x := in[states+k]
		inAxes[k] = n.axis(inAxes[k], n.rank(x))
		known = known && n.isStatic(x)
		if known && n.rank(x) > 0 {
			length = n.shape(x)[inAxes[k]]
		}
	}
	slicesAt := func(i int) []*val {
		part := slices.Clone(in[:states])
		for k := range scanned {
			index := i
			if inBackward[k] {
				index = length - 1 - i
			}
			part = append(part, n.op("select", graph.Attrs{"dim": inAxes[k], "index": index},
				in[states+k]).withRank(n.rank(in[states+k])-1))
		}
		return part
	}
	if known && length >= 1 && length <= n.frame.unrollBudget/max(len(p.Node), 1) {
		return n.unrolledScan(p, length, states, slicesAt, outAxes, outBackward)
	}
	body := n.subgraph(p, slicesAt(0), func(int) bool { return false })
	attrs := graph.Attrs{"body": body.im.graph, "states": states, "num_scan_inputs": scanned, "scan_input_axes": inAxes,
		"scan_input_directions": inBackward, "scan_output_axes": outAxes, "scan_output_directions": outBackward}
	out := n.emitN("scan", len(body.out), attrs, n.operandsOf(in, body.im.captured)...)
	for i, o := range out {
		if o.outline = body.outline(i); i >= states {
			o.outline = o.outline.Stacked(outAxes[i-states])
		}
	}
	return out
}

func (n *node) unrolledScan(p *pb.GraphProto, length, states int, slicesAt func(int) []*val, axes []int,
	backward []bool) []*val {
	var values []*val
	collected := make([][]any, len(p.Output)-states)
	for i := range length {
		in := slicesAt(i)
		if i > 0 {
			copy(in, values)
		}
		out := n.convertIteration(p, in, length)
		values = out[:states:states]
		for k, v := range out[states:] {
			collected[k] = append(collected[k], v)
		}
	}
	for k, list := range collected {
		if backward[k] {
			slices.Reverse(list)
		}
		values = append(values, n.op("stack", graph.Attrs{"dim": axes[k]}, list...))
	}
	return values
}

// sequenceMap applies a graph to each member of a sequence.
func sequenceMap(n *node) []*val {
	p := n.body("body")
	count := len(n.members(0))
	lists := make([][]*val, len(p.Output))
	for i := range count {
		in := make([]*val, len(n.in))
		for k, v := range n.in {
			in[k] = v
			if v != nil && v.kind == sequenceKind {
				if len(v.members) != count {
					n.failf("sequences differ in length")
				}
				in[k] = v.members[i]
			}
		}
		for k, o := range n.convertIteration(p, in, 1) {
			lists[k] = append(lists[k], o)
		}
	}
	out := make([]*val, len(lists))
	for k, l := range lists {
		out[k] = sequence(l)
	}
	return out
}
