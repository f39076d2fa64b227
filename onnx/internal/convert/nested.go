package convert

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

// This file converts the graphs that are attributes of a node, such as the branches of If and the body of Loop. The
// nodes of such a graph either replace the node ([Node.convertInline], [Node.convertIteration]), or become a separate
// graph, a nestedGraph ([Node.convertBody]). For example, a loop whose body computes s + x, where x is a value of the
// enclosing graph, becomes a node with the body
//
//	inputs: iteration, condition, s, outer.x    results: condition, s + outer.x
//
// An importer builds one graph.Graph. A scope has the values of a graph by name. A name that a scope lacks is looked up
// in inlineParent, a scope of the same graph.Graph, or in outerGraphScope, whose values become inputs. A frame has the
// settings of the nodes of a graph, such as the nesting depth. A frame also has the continuation, which consists of the
// nodes after the node that the graph replaces.

// body returns a graph attribute, which must be present.
func (n *Node) body(name string) *pb.GraphProto {
	a := n.Attr(name, pb.AttributeGraph)
	if a == nil || a.G == nil {
		n.Failf("attribute %q is missing", name)
	}
	return a.G
}

// convertInline converts a graph without inputs in place of the node. If the graph ends with an If whose branches
// differ in rank, the converter of this If also converts the nodes of the model that follow n (the continuation).
// convertInline then sets [Node.finalOutputs] and returns nil.
func (n *Node) convertInline(proto *pb.GraphProto) []*Value {
	inlineFrame := *n.frame
	inlineFrame.depth++
	inlineFrame.continuation = n.continuation
	inner := n.innerScope(proto, nil, &inlineFrame)
	var err error
	if n.finalOutputs, err = n.convertNodes(proto, 0, inner, &inlineFrame); err != nil {
		n.Failf("%w", err)
	}
	if n.finalOutputs != nil {
		return nil
	}
	return n.outputs(proto, inner)
}

// convertIteration converts one iteration of a loop's body in place of the node. `times` is the number of iterations
// that share the budget of unrolled nodes. operands are the values of the body's inputs.
func (n *Node) convertIteration(proto *pb.GraphProto, operands []*Value, times int) []*Value {
	iterationFrame := n.frame.forBody()
	iterationFrame.unrollBudget /= times
	out, err := n.convertResults(proto, n.innerScope(proto, operands, iterationFrame), iterationFrame)
	if err != nil {
		n.Failf("%w", err)
	}
	return out
}

// innerScope makes the scope of a graph that is converted in place. The scope has the values of the graph's inputs.
func (n *Node) innerScope(proto *pb.GraphProto, operands []*Value, f *frame) *scope {
	if len(operands) != len(proto.Input) {
		n.Failf("a graph of %d inputs cannot take %d values", len(proto.Input), len(operands))
	}
	inner := &scope{importer: n.importer, inlineParent: n.scope, values: map[string]*Value{}}
	if err := n.addInitializers(proto, inner, f); err != nil {
		n.Failf("%w", err)
	}
	for i, v := range proto.Input {
		inner.values[v.Name] = operands[i]
	}
	return inner
}

// outputs returns the values of a graph's outputs.
func (n *Node) outputs(proto *pb.GraphProto, inner *scope) []*Value {
	out := make([]*Value, len(proto.Output))
	for i, output := range proto.Output {
		if out[i] = inner.lookup(output.Name); out[i] == nil {
			n.Failf("output %q is not made by any node", output.Name)
		}
	}
	return out
}

// nestedGraph is a graph that is an attribute of a node, such as the body of a loop. If nodes of the nested graph use
// values of the enclosing graphs, these values become additional inputs: see importer.captured.
type nestedGraph struct {
	importer *importer
	out      []*Value // the results
}

// nestedGraph returns an empty nested graph, which is built at the given hints (example sizes).
func (n *Node) nestedGraph(name string, hints map[string]int) *nestedGraph {
	if name == "" {
		name = "body"
	}
	inner := &importer{model: n.model, opts: n.opts, graph: graph.New(name, n.opts.Lookup),
		hasModelName: map[*graph.Value]bool{}, symbols: n.symbols, hints: hints, usedSymbols: map[string]bool{},
		symbolInputs: map[string]*Value{}, shapes: map[*graph.Value][]sym.Int{}, valuesInAttrs: map[*graph.Value]*Value{},
		symbolElements: map[string]symbolElement{},
		outer:          n.importer, failed: n.failed, nodeCount: n.nodeCount, captures: map[*Value]*Value{}}
	inner.graph.Symbols = map[string]graph.Bounds{}
	for name := range n.symbols.Inputs() {
		inner.graph.Symbols[name] = graph.Bounds{}
	}
	_ = inner.graph.BindWithoutInference(hints) // hints has a size for each symbol
	return &nestedGraph{importer: inner}
}

// newScope returns an empty scope for the nodes of the graph, in the given scope of the enclosing graph.
func (nested *nestedGraph) newScope(outer *scope) *scope {
	return &scope{importer: nested.importer, outerGraphScope: outer, values: map[string]*Value{}}
}

// node returns node n, without its operands, in the nested graph.
func (nested *nestedGraph) node(n *Node) *Node {
	bodyFrame := *n.frame
	bodyFrame.depth++
	return &Node{Opset: n.Opset, importer: nested.importer, scope: nested.newScope(n.scope), frame: &bodyFrame,
		proto: n.proto, attrs: n.attrs}
}

// convert converts a graph of the model to the nested graph. The scope has the values of the graph's inputs.
func (nested *nestedGraph) convert(proto *pb.GraphProto, inner *scope, f *frame) (err error) {
	if err = nested.importer.addInitializers(proto, inner, f); err == nil {
		nested.out, err = nested.importer.convertResults(proto, inner, f)
	}
	return err
}

// convertBody converts the body of a loop. operands are the initial values of the body's inputs. If varies(i) is true,
// the shape of input i may change between iterations.
func (n *Node) convertBody(proto *pb.GraphProto, operands []*Value, varies func(i int) bool) *nestedGraph {
	nested, err := n.tryConvertBody(proto, operands, varies)
	if err != nil {
		n.Failf("%w", err)
	}
	return nested
}

// tryConvertBody is [Node.convertBody], but returns the error of the conversion.
func (n *Node) tryConvertBody(proto *pb.GraphProto, operands []*Value, varies func(i int) bool) (*nestedGraph, error) {
	nested := n.nestedGraph(proto.Name, n.hints)
	bodyScope, bodyFrame := nested.newScope(n.scope), n.frame.forBody()
	if len(operands) != len(proto.Input) {
		n.Failf("a graph of %d inputs cannot take %d values", len(proto.Input), len(operands))
	}
	for i, declared := range proto.Input {
		x, err := nested.importer.addBodyInput(declared.Name, n, operands[i], varies(i))
		if err != nil {
			n.Failf("input %q of the body: %w", declared.Name, err)
		}
		bodyScope.values[declared.Name] = x
	}
	err := nested.convert(proto, bodyScope, bodyFrame)
	if err == nil && slices.ContainsFunc(operands, func(x *Value) bool { return x != nil && x.packed != nil }) {
		inner := &Node{importer: nested.importer, scope: bodyScope, frame: bodyFrame, proto: n.proto}
		err = inner.splitSequences(nested, operands) // each sequence becomes two results (packedbodies.go)
	}
	n.nodeCount = nested.importer.nodeCount
	if err == nil {
		err = nested.finish()
	}
	return nested, err
}

// addBodyInput adds an input for an operand x of node n. It adds two inputs if x is a sequence whose members are not
// known.
func (im *importer) addBodyInput(name string, n *Node, x *Value, varies bool) (*Value, error) {
	if x != nil && x.packed != nil {
		return im.addSequence(name, n, x.packed)
	}
	return im.addOperandInput(name, n, x, varies)
}

// addOperandInput adds an input for an operand x of node n. If varies is true, the sizes of the input are unknown.
func (im *importer) addOperandInput(name string, n *Node, x *Value, varies bool) (*Value, error) {
	if x == nil {
		return nil, errors.New("its operand is missing")
	}
	shape := slices.Clone(n.TrySymShape(x))
	if varies {
		for i := range shape {
			shape[i] = im.symbols.NewUnknown(0) // at least 0
		}
	}
	return im.addInput(name, x, shape)
}

// finish names the graph's results. It also ensures that each used symbol is a size of an input, so that the shapes of
// the inputs determine the symbols.
func (nested *nestedGraph) finish() error {
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
	for _, name := range sorted.Keys(nested.importer.symbols.Inputs()) {
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
func (im *importer) addInput(name string, x *Value, shape []sym.Int) (*Value, error) {
	if x.kind != tensorKind {
		return nil, errors.New("sequences and optionals are not supported here")
	}
	name = im.graph.UniqueName(name)
	dtype := x.DType()
	switch {
	case !dtype.Valid():
		return nil, errors.New("its dtype depends on data")
	case shape == nil:
		return nil, errors.New("its number of dimensions depends on data")
	}
	dims, hasSymbols := im.dimsOf(name, shape)
	var sizes []int // if they are symbols, but do not depend on data
	if hasSymbols && !x.IsDynamic() {
		var err error
		if sizes, err = im.atHints(shape, x.Meta().Shape); err != nil {
			return nil, err
		}
		for i, size := range sizes { // the graph is inferred for these sizes, also when it is read from a file
			symbol := dims[i].Symbol
			if _, isOfModel := im.symbols.Inputs()[symbol]; symbol != "" && !isOfModel {
				im.graph.Symbols[symbol] = graph.Bounds{Hint: &size}
			}
		}
	}
	input := &Value{name: name, hasStrings: x.hasStrings}
	input.graphValue = im.graph.InputDims(name, dtype, tensor.NoFormat, dims...)
	if hasSymbols {
		im.shapes[input.graphValue] = shape
		im.addSymbolInputs(input, dims)
	}
	switch {
	case x.IsDynamic():
		input.graphValue.Dynamic = true // the sizes are known only when the graph runs
		input.outline = graph.PartialType{DType: dtype, Sizes: sym.KnownOrMinusOne(shape)}
	case hasSymbols:
		input.graphValue.SetMeta(tensor.New(dtype, sizes...))
	}
	im.hasModelName[input.graphValue] = true
	return input, nil
}

// dimsOf returns a symbolic shape as the sizes of an input with the given name. A size that is neither a number nor a
// symbol of the model gets a new symbol.
func (im *importer) dimsOf(name string, shape []sym.Int) (dims []graph.Dim, hasSymbols bool) {
	dims = make([]graph.Dim, len(shape))
	for i, size := range shape {
		n, known := size.Known()
		switch {
		case known:
			dims[i].Size = n
			continue
		case im.symbols.Inputs()[size.String()].Same(size): // a symbol of the model
			dims[i].Symbol = size.String()
		default:
			dims[i].Symbol = fmt.Sprintf("%s_dim%d", name, i)
		}
		hasSymbols = true
	}
	return dims, hasSymbols
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

// symbolInput returns an input that has the symbol as a size. If a nested graph has no such input, it adds one, whose
// operand is the symbolInput of the enclosing graph. If the main graph has no such input, it returns nil.
func (im *importer) symbolInput(symbol string) (*Value, error) {
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
func (n *Node) operandsOf(lists ...[]*Value) []any {
	var out []any
	for _, list := range lists {
		for _, v := range list {
			out = append(out, v)
		}
	}
	return out
}
