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
func (n *node) convertInline(proto *pb.GraphProto) []*val {
	inlineFrame := *n.frame
	inlineFrame.depth++
	inlineFrame.continuation = n.continuation
	inner := n.innerScope(proto, nil, &inlineFrame)
	var err error
	if n.finalOutputs, err = n.convertNodes(proto, 0, inner, &inlineFrame); err != nil {
		n.failf("%w", err)
	}
	if n.finalOutputs != nil {
		return nil
	}
	return n.outputs(proto, inner)
}

// convertIteration converts the body of a loop of `times` iterations in place of the node. operands are the values of
// the body's inputs.
func (n *node) convertIteration(proto *pb.GraphProto, operands []*val, times int) []*val {
	iterationFrame := *n.frame
	iterationFrame.depth++
	iterationFrame.unrollBudget /= times
	iterationFrame.continuation, iterationFrame.skipErrors = nil, false
	out, err := n.convertResults(proto, n.innerScope(proto, operands, &iterationFrame), &iterationFrame)
	if err != nil {
		n.failf("%w", err)
	}
	return out
}

// innerScope makes the scope of a graph that is converted in place, with the values of its inputs.
func (n *node) innerScope(proto *pb.GraphProto, operands []*val, f *frame) *scope {
	if len(operands) != len(proto.Input) {
		n.failf("a graph of %d inputs cannot take %d values", len(proto.Input), len(operands))
	}
	inner := &scope{importer: n.importer, parent: n.scope, values: map[string]*val{}}
	if err := n.addInitializers(proto, inner, f); err != nil {
		n.failf("%w", err)
	}
	for i, v := range proto.Input {
		inner.values[v.Name] = operands[i]
	}
	return inner
}

// outputs returns the values of a graph's outputs.
func (n *node) outputs(proto *pb.GraphProto, inner *scope) []*val {
	out := make([]*val, len(proto.Output))
	for i, output := range proto.Output {
		if out[i] = inner.lookup(output.Name); out[i] == nil {
			n.failf("output %q is not made by any node", output.Name)
		}
	}
	return out
}

// nestedGraph is a graph that is an attribute of a node, such as the body of a loop. Values of the enclosing graphs
// that its nodes use become additional inputs: see importer.captured.
type nestedGraph struct {
	importer *importer
	out      []*val // the results
}

// nestedGraph returns an empty nested graph, which is built at the hints of the enclosing graph.
func (n *node) nestedGraph(name string) *nestedGraph { return n.nestedGraphAt(name, n.hints) }

// nestedGraphAt returns an empty nested graph, which is built at the given hints.
func (n *node) nestedGraphAt(name string, hints map[string]int) *nestedGraph {
	if name == "" {
		name = "body"
	}
	inner := &importer{model: n.model, opts: n.opts, graph: graph.New(name, n.opts.Lookup),
		hasModelName: map[*graph.Value]bool{}, env: n.env, symbols: n.symbols, hints: hints, limits: n.limits,
		unknownCount: n.unknownCount, expressionTexts: n.expressionTexts, usedSymbols: map[string]bool{},
		symbolInputs: map[string]*val{}, shapes: map[*graph.Value][]sym.Int{}, referenced: map[*graph.Value]*val{},
		outer: n.importer, nodeCount: n.nodeCount, captures: map[*val]*val{}}
	inner.graph.Symbols = map[string]graph.Bounds{}
	for name := range n.symbols {
		inner.graph.Symbols[name] = graph.Bounds{}
	}
	_ = inner.graph.BindOnly(hints) // hints has a size for each symbol
	return &nestedGraph{importer: inner}
}

// subgraph converts the body of a loop. operands are the initial values of the body's inputs. If varies(i) is true, the
// shape of input i may change between iterations.
func (n *node) subgraph(proto *pb.GraphProto, operands []*val, varies func(i int) bool) *nestedGraph {
	nested, err := n.trySubgraph(proto, operands, varies)
	if err != nil {
		n.failf("%w", err)
	}
	return nested
}

// trySubgraph is [node.subgraph], but returns the error of the conversion.
func (n *node) trySubgraph(proto *pb.GraphProto, operands []*val, varies func(i int) bool) (*nestedGraph, error) {
	nested := n.nestedGraph(proto.Name)
	bodyScope := &scope{importer: nested.importer, outerScope: n.scope, values: map[string]*val{}}
	if len(operands) != len(proto.Input) {
		n.failf("a graph of %d inputs cannot take %d values", len(proto.Input), len(operands))
	}
	for i, declared := range proto.Input {
		var x *val
		var err error
		if operands[i] != nil && operands[i].packed != nil {
			x, err = nested.importer.addSequence(declared.Name, n, operands[i].packed)
		} else {
			x, err = nested.importer.addOperandInput(declared.Name, n, operands[i], varies(i))
		}
		if err != nil {
			n.failf("input %q of the body: %w", declared.Name, err)
		}
		bodyScope.values[declared.Name] = x
	}
	bodyFrame := *n.frame
	bodyFrame.depth++
	bodyFrame.continuation, bodyFrame.skipErrors = nil, false
	err := nested.importer.addInitializers(proto, bodyScope, &bodyFrame)
	if err == nil {
		nested.out, err = nested.importer.convertResults(proto, bodyScope, &bodyFrame)
	}
	if err == nil && slices.ContainsFunc(operands, func(x *val) bool { return x != nil && x.packed != nil }) {
		inner := &node{importer: nested.importer, scope: bodyScope, frame: &bodyFrame, proto: n.proto}
		err = inner.splitSequences(nested, operands)
	}
	n.nodeCount = nested.importer.nodeCount
	if err == nil {
		err = nested.close()
	}
	return nested, err
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
func (nested *nestedGraph) close() error {
	for i, x := range nested.out {
		name := x.name
		if name == "" {
			name = "result"
		}
		if err := nested.importer.addOutput(fmt.Sprintf("%s.%d", name, i), x); err != nil {
			return fmt.Errorf("result %d: %w", i, err)
		}
	}
	g := nested.importer.graph
	for _, name := range sorted.Keys(nested.importer.symbols) {
		if nested.importer.usedSymbols[name] {
			if _, err := nested.importer.symbolInput(name); err != nil {
				return err
			}
		}
		if nested.importer.symbolInputs[name] == nil {
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
	dtype := x.dtype()
	switch {
	case !dtype.Valid():
		return nil, errors.New("its dtype depends on data")
	case shape == nil:
		return nil, errors.New("its number of dimensions depends on data")
	}
	dims, open := make([]graph.Dim, len(shape)), false
	for i, size := range shape {
		n, known := size.Known()
		switch {
		case known:
			dims[i].Size = n
			continue
		case im.symbols[size.String()].Same(size):
			dims[i].Symbol = size.String()
		default:
			dims[i].Symbol = fmt.Sprintf("%s_dim%d", name, i)
		}
		open = true
	}
	input := &val{name: name, isText: x.isText}
	if input.graphValue = im.graph.InputDims(name, dtype, tensor.NoFormat, dims...); open {
		im.shapes[input.graphValue] = shape
		im.addSymbolInputs(input, dims)
	}
	switch {
	case x.isDynamic():
		input.graphValue.Dynamic = true // the sizes are known only when the graph runs
		input.outline = graph.Outline{DType: dtype, Sizes: numericSizes(shape)}
	case open:
		sizes, err := im.atHints(shape, x.meta().Shape)
		if err != nil {
			return nil, err
		}
		input.graphValue.SetMeta(tensor.New(dtype, sizes...))
	}
	im.hasModelName[input.graphValue] = true
	return input, nil
}

// atHints evaluates a symbolic shape at the hints. Sizes that depend on data are taken from known.
func (im *importer) atHints(shape []sym.Int, known []int) ([]int, error) {
	sizes := slices.Clone(known)
	for i, size := range shape {
		number, err := size.At(im.hints)
		switch {
		case err != nil:
			continue
		case number < 0:
			return nil, fmt.Errorf("the size %v is negative at %v", size, im.hints)
		}
		sizes[i] = number
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
	operands := n.in[min(1, len(n.in)):]
	if len(operands) == 0 || operands[0] == nil || n.rank(operands[0]) == 0 {
		n.failf("operands are missing")
	}
	batch := n.knownSize(operands[0], 0)
	if batch < 1 || batch > maxUnrolled {
		n.failf("a batch of %d is not supported", batch)
	}
	var lists [][]any
	for index := range batch {
		part := make([]*val, len(operands))
		for i, v := range operands {
			if v == nil {
				n.failf("operands are missing")
			}
			part[i] = n.op("select", graph.Attrs{"dim": 0, "index": index}, v)
		}
		for i, o := range n.scanOnce(part) {
			if index == 0 {
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

func (n *node) scanOnce(operands []*val) []*val {
	proto := n.body("body")
	scanned := n.int("num_scan_inputs", 0)
	states := len(operands) - scanned
	if scanned < 1 || states < 0 || len(proto.Input) != len(operands) || len(proto.Output) < states ||
		slices.Contains(operands, nil) {
		n.failf("a body with %d inputs and %d outputs does not suit %d operands, %d of them scanned", len(proto.Input),
			len(proto.Output), len(operands), scanned)
	}
	inBackward, outBackward := n.directionsOf("scan_input_directions", scanned),
		n.directionsOf("scan_output_directions", len(proto.Output)-states)
	if n.opset < 9 {
		inBackward = n.directionsOf("directions", scanned)
	}
	inAxes, outAxes := n.perDim("scan_input_axes", scanned, 0), n.perDim("scan_output_axes", len(proto.Output)-states, 0)
	length, known := -1, true
	for k := range scanned {
		x := operands[states+k]
		inAxes[k] = n.axis(inAxes[k], n.rank(x))
		known = known && n.isStatic(x)
		if known && n.rank(x) > 0 {
			length = n.shape(x)[inAxes[k]]
		}
	}
	slicesAt := func(i int) []*val {
		part := slices.Clone(operands[:states])
		for k := range scanned {
			index := i
			if inBackward[k] {
				index = length - 1 - i
			}
			part = append(part, n.op("select", graph.Attrs{"dim": inAxes[k], "index": index},
				operands[states+k]).withRank(n.rank(operands[states+k])-1))
		}
		return part
	}
	if known && length >= 1 && length <= n.frame.unrollBudget/max(len(proto.Node), 1) {
		return n.unrolledScan(proto, length, states, slicesAt, outAxes, outBackward)
	}
	body := n.subgraph(proto, slicesAt(0), func(int) bool { return false })
	attrs := graph.Attrs{"body": body.importer.graph, "states": states, "num_scan_inputs": scanned,
		"scan_input_axes":       inAxes,
		"scan_input_directions": inBackward, "scan_output_axes": outAxes, "scan_output_directions": outBackward}
	out := n.emitN("scan", len(body.out), attrs, n.operandsOf(operands, body.importer.captured)...)
	for i, o := range out {
		if o.outline = body.outline(i); i >= states {
			o.outline = o.outline.Stacked(outAxes[i-states])
		}
	}
	return out
}

func (n *node) unrolledScan(proto *pb.GraphProto, length, states int, slicesAt func(int) []*val, axes []int,
	backward []bool) []*val {
	var values []*val
	collected := make([][]any, len(proto.Output)-states)
	for i := range length {
		operands := slicesAt(i)
		if i > 0 {
			copy(operands, values)
		}
		out := n.convertIteration(proto, operands, length)
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
	proto := n.body("body")
	count := len(n.members(0))
	lists := make([][]*val, len(proto.Output))
	for i := range count {
		operands := make([]*val, len(n.in))
		for k, operand := range n.in {
			operands[k] = operand
			if operand != nil && operand.kind == sequenceKind {
				if len(operand.members) != count {
					n.failf("sequences differ in length")
				}
				operands[k] = operand.members[i]
			}
		}
		for k, o := range n.convertIteration(proto, operands, 1) {
			lists[k] = append(lists[k], o)
		}
	}
	out := make([]*val, len(lists))
	for k, l := range lists {
		out[k] = sequence(l)
	}
	return out
}
