package convert

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/onnx/internal/modelfile"
	"github.com/graphrun/graphrun/onnx/internal/symbolic"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts a graph of a model (pb.GraphProto) to a graph.Graph. A graph of a model has initializers
// (weights), inputs, nodes in the order of their execution, and outputs. Nodes and outputs refer to values by name. For
// example, let a graph have the initializer w, the input x, the node y = MatMul(x, w) and the output y:
//
//   - addInitializers and addModelInputs (inputs.go) add w and x to the scope, a map from names to values.
//   - convertNodes looks up the operands x and w in the scope and calls the converter of MatMul, which adds ops to the
//     graph.Graph. The result is added to the scope as y.
//   - addModelOutputs makes y an output of the graph.Graph.
//
// A [Value] is a constant, a value of the graph.Graph, or a tensor computed from sizes. Method materialise adds a
// constant or a tensor computed from sizes to the graph.Graph if an op needs it there. A model with mistakes can be
// imported, too. If frame.skipsInvalidNodes is true, an initializer, an input or a node with a mistake becomes an
// unavailable value of the scope (skipped.go), and the import continues.

// Limits that protect against small files that expand to large graphs.
const (
	maxDepth = 64      // nesting depth of graphs and functions
	maxNodes = 1 << 18 // converted nodes; the nodes of a function count at each call
	maxWork  = 1 << 25 // elements and arithmetic operations of the ops evaluated for one graph
)

// limitError reports that a model exceeds a limit. It ends the import even if mistakes are skipped.
type limitError struct{ error }

// importer builds one graph.Graph from the main graph of a model, or from a nested graph: the body of a loop or branch.
type importer struct {
	model        *Model
	opts         Options
	graph        *graph.Graph
	hasModelName map[*graph.Value]bool // the values of graph that already have a name of the model

	// A symbol is a size that is unknown during the import, such as batch: see shapes.go.
	symbols      *symbolic.Symbols          // shared by the importers of a model
	hints        map[string]int             // for each symbol, the example size at which the graph is built
	usedSymbols  map[string]bool            // the symbols that occur in attributes
	symbolInputs map[string]*Value          // for each symbol, an input that has the symbol as a size
	shapes       map[*graph.Value][]sym.Int // the shapes of values, whose sizes are expressions over symbols

	// symbolElements has the elements for which symbols that depend on data stand: see parameters.go.
	symbolElements map[string]symbolElement

	valuesInAttrs map[*graph.Value]*Value // the values to which attributes refer
	failed        *failedNode             // the node that failed last; shared by the importers of a conversion
	nodeCount     int                     // number of converted nodes, including the nodes of nested graphs
	matrices      map[matrixType][]matrix // see shareDuplicate
	evaluatedWork float64                 // work of the ops evaluated so far: see maxWork

	// For conversions that skip mistakes: see skipped.go.
	skipped       graph.Errors // the errors of skipped initializers, inputs and outputs
	rejectedCount int          // number of nodes that are rejected, without nodes that only have a rejected operand

	// For a nested graph: see capture.go.
	outer    *importer         // the importer of the enclosing graph; nil for the main graph
	isBranch bool              // whether the nested graph is a branch of an If
	captured []*Value          // the values of the enclosing graph that became additional inputs of this graph
	captures map[*Value]*Value // for each used value of the enclosing graph, the value in this graph
}

// frame has the settings for the nodes of one graph: the main graph, the body of a called function, or a nested graph.
type frame struct {
	opsets       map[string]int                // the operator-set version of each domain
	attrs        map[string]*pb.AttributeProto // the attributes of the function call
	depth        int                           // nesting depth of graphs and functions
	unrollBudget int                           // maximum number of nodes into which a loop may be unrolled
	// If the graph is converted in place of a node, such as a function call, continuation has the nodes after this
	// node. The converter of an If at the end of the graph may also convert these nodes (branches.go). It does not do
	// so if continuation is nil.
	continuation *continuation
	// If skipsInvalidNodes is true, a mistake does not end the import: see skipped.go.
	skipsInvalidNodes bool
}

// forBody returns the frame of a graph that is an attribute of a node of frame f. The frame has no continuation.
func (f *frame) forBody() *frame {
	inner := *f
	inner.depth++
	inner.continuation, inner.skipsInvalidNodes = nil, false
	return &inner
}

// scope has the values of a graph by name.
type scope struct {
	importer        *importer
	inlineParent    *scope // an enclosing scope of the same importer, whose values nodes use directly; or nil
	outerGraphScope *scope // a scope of the outer importer, whose values become additional inputs; or nil
	values          map[string]*Value
	declared        map[string]*pb.ValueInfoProto // the declared types of values; nil until [Node.declaredMeta] needs them
}

// convert converts the main graph.
func (im *importer) convert(frame *frame) (*graph.Graph, error) {
	proto := im.model.file.Proto.Graph
	mainScope := &scope{importer: im, values: map[string]*Value{}}
	if err := im.addInitializers(proto, mainScope, frame); err != nil {
		return nil, err
	}
	if err := im.addModelInputs(proto, mainScope, frame); err != nil {
		return nil, err
	}
	results, err := im.convertResults(proto, mainScope, frame)
	if err != nil {
		return nil, err
	}
	if err := im.addModelOutputs(proto, results, frame); err != nil {
		return nil, err
	}
	if err := im.graph.Err(); err != nil {
		return nil, err
	}
	im.addTexts()
	return im.graph, nil
}

// addInitializers adds the weights of a graph to its scope as constants.
func (im *importer) addInitializers(proto *pb.GraphProto, scope *scope, frame *frame) error {
	add := func(values *pb.TensorProto, decode func() (*tensor.Tensor, error)) error {
		interrupt.Check(im.opts.Context)
		data, err := catchingMemory(frame, decode)
		switch {
		case err == nil:
			v := WeightValue(values, data)
			v.name, scope.values[values.Name] = values.Name, v
			im.shareDuplicate(matrix{v, func() bool { return isMultiplied(proto, values.Name) }})
		case frame.skipsInvalidNodes:
			im.skipValue(scope, "initializer", values.Name, err)
		default:
			return fmt.Errorf("initializer %q: %w", values.Name, err)
		}
		return nil
	}
	for _, sparse := range proto.SparseInitializer {
		values := cmp.Or(sparse.Values, &pb.TensorProto{})
		err := add(values, func() (*tensor.Tensor, error) { return im.model.file.Sparse(sparse) })
		if err != nil {
			return err
		}
	}
	for _, initializer := range proto.Initializer {
		err := add(initializer, func() (*tensor.Tensor, error) { return im.model.file.Tensor(initializer) })
		if err != nil {
			return err
		}
	}
	return nil
}

// convertResults converts the nodes of a graph. If the result of convertNodes is not nil, it returns this result.
// Otherwise it returns the values of the graph's outputs.
func (im *importer) convertResults(proto *pb.GraphProto, scope *scope, frame *frame) ([]*Value, error) {
	const firstNode = 0
	finalOutputs, err := im.convertNodes(proto, firstNode, scope, frame)
	if finalOutputs != nil || err != nil {
		return finalOutputs, err
	}
	results := make([]*Value, len(proto.Output))
	for i, output := range proto.Output {
		if results[i] = scope.lookup(output.Name); results[i] == nil && !frame.skipsInvalidNodes {
			return nil, fmt.Errorf("output %q is not made by any node", output.Name)
		}
	}
	return results, nil
}

// convertNodes converts the nodes proto.Node[first:] on which an output of the graph depends. It usually returns nil.
// If the converter of an If also converts all later nodes, convertNodes returns the outputs of the outermost graph
// ([Node.finalOutputs]).
func (im *importer) convertNodes(proto *pb.GraphProto, first int, scope *scope, frame *frame) ([]*Value, error) {
	if frame.depth > maxDepth {
		return nil, limitError{errors.New("graphs or functions are nested too deep")}
	}
	isLive := liveNodes(proto)
	for i, n := range proto.Node {
		if i < first || !isLive[i] {
			continue
		}
		interrupt.Check(im.opts.Context)
		following := &continuation{graph: proto, next: i + 1, scope: scope, frame: frame, resultNames: n.Output}
		finalOutputs, err := im.convertNode(n, scope, frame, following)
		if finalOutputs != nil || err != nil {
			return finalOutputs, err
		}
	}
	return nil, nil
}

// liveNodes reports, for each node, whether an output of the graph depends on the node. A node depends on its operands
// and on the values that its nested graphs use.
func liveNodes(proto *pb.GraphProto) (isLive []bool) {
	needed := map[string]bool{} // the names of values
	for _, output := range proto.Output {
		needed[output.Name] = true
	}
	isLive = make([]bool, len(proto.Node))
	const depth = 0 // of nested graphs
	for i, n := range slices.Backward(proto.Node) {
		isLive[i] = slices.ContainsFunc(n.Output, func(output string) bool { return output != "" && needed[output] })
		if isLive[i] {
			markNeeded(n, needed, depth)
		}
	}
	return isLive
}

// markNeeded adds the names of the values that a node and its nested graphs use to `needed`.
func markNeeded(n *pb.NodeProto, needed map[string]bool, depth int) {
	for _, input := range n.Input {
		needed[input] = true
	}
	if depth > maxDepth {
		return
	}
	for _, nested := range n.Graphs() {
		for _, output := range nested.Output {
			needed[output.Name] = true
		}
		for _, nestedNode := range nested.Node {
			markNeeded(nestedNode, needed, depth+1)
		}
	}
}

// addModelOutputs adds the outputs of the main graph. results has the values of the outputs, in the order of
// proto.Output.
func (im *importer) addModelOutputs(proto *pb.GraphProto, results []*Value, frame *frame) error {
	isListed := map[string]bool{}
	for i, output := range proto.Output {
		if isListed[output.Name] {
			continue // the same value
		}
		isListed[output.Name] = true
		err := checkDeclaredType(output, results[i])
		if err == nil {
			err = im.addOutput(output.Name, results[i])
		}
		if err == nil && frame.skipsInvalidNodes && im.graph.Err() != nil {
			err = im.graph.Err() // a duplicate name
		}
		switch {
		case err == nil:
		case frame.skipsInvalidNodes:
			im.skipOutput(output.Name, err)
		default:
			return fmt.Errorf("output %q: %w", output.Name, err)
		}
	}
	return nil
}

// checkDeclaredType returns an error if the model declares another element type for an output than its nodes give. ONNX
// Runtime rejects such models, too: either the type or an operator is not what the exporter meant.
func checkDeclaredType(declared *pb.ValueInfoProto, v *Value) error {
	if v == nil || v.kind != tensorKind || declared.TensorType() == nil {
		return nil
	}
	elementType := pb.DataType(declared.TensorType().ElemType)
	dtype, err := modelfile.DTypeOf(int32(elementType))
	want, got := dtype.String(), v.DType().String()
	if elementType == pb.String {
		want, err = "string", nil
	}
	if v.hasStrings {
		got = "string"
	}
	// Types without a dtype are stored in the dtype of another type.
	isStored := modelfile.IsNarrow(elementType) || v.elementType != pb.Undefined
	if err != nil || isStored || !v.DType().Valid() || want == got { // err: an undeclared type
		return nil
	}
	return fmt.Errorf("the model declares elements of type %s, but its nodes give %s", want, got)
}

// addOutput adds an output of the graph. A sequence of maps becomes a matrix of the maps' values, whose columns have
// the keys as labels. An unavailable value can be an output only if it is in the graph.
func (im *importer) addOutput(name string, v *Value) error {
	switch {
	case v == nil:
		return errors.New("it is not made by any node")
	case v.kind == unavailableKind && v.graphValue == nil:
		return &unavailableError{v}
	case v.kind == unavailableKind:
		im.graph.Output(name, v.graphValue)
		return nil
	case v.kind == mapsKind:
		im.label(name, v.labels)
		v = v.members[0] // the matrix, one row for each map
	case v.kind != tensorKind:
		return fmt.Errorf("%v is not supported as a result", v.kind)
	case v.hasStrings && im.outer == nil:
		im.label(name, graph.Labels{Texts: noTexts})
	}
	im.graph.Output(name, im.materialise(v))
	return nil
}

// materialise returns v as a value of the graph. If v is not yet in the graph, it adds v as a constant, or adds the
// computation of v.
func (im *importer) materialise(v *Value) *graph.Value {
	switch {
	case v.graphValue != nil:
	case v.elements != nil:
		v.graphValue = im.materialise(v.addToGraph())
	default:
		name := v.name
		if name == "" {
			name = "const"
		}
		data := v.data
		if data.Numel() <= FoldLimit || !data.IsNonOverlappingAndDense() { // a transpose of weights takes no memory
			data = data.Contiguous()
		}
		v.graphValue = im.graph.Constant(im.graph.UniqueName(name), data)
		im.hasModelName[v.graphValue] = true
	}
	return v.graphValue
}
