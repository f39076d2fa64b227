package convert

import (
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

// Limits that protect against small files that expand to large graphs.
const (
	maxDepth = 64      // nesting depth of graphs and functions
	maxNodes = 1 << 18 // converted nodes; the nodes of a function count at each call
	maxWork  = 1 << 25 // elements and arithmetic operations of the ops evaluated during the import
)

// limitError reports that a model exceeds a limit. It ends the import even if mistakes are skipped.
type limitError struct{ error }

// importer converts one graph of a model to a graph.Graph: the main graph, or the body of a loop or branch. For the
// main graph, method convert adds the constants (initializers) and the inputs, converts the nodes in the model's order,
// and adds the outputs. The scope maps the names of the model to the values made so far.
type importer struct {
	model        *Model
	opts         Options
	graph        *graph.Graph          // the graph that the importer builds
	hasModelName map[*graph.Value]bool // the values of graph that already have a name of the model

	// Symbolic sizes: see shapes.go.
	symbols      *symbolic.Symbols          // shared by the importers of a model
	hints        map[string]int             // the example sizes of symbols at which the graph is built
	usedSymbols  map[string]bool            // the symbols that occur in attributes
	symbolInputs map[string]*Value          // for each symbol, an input that has the symbol as a size
	shapes       map[*graph.Value][]sym.Int // the symbolic shapes of values

	valuesInAttrs map[*graph.Value]*Value // the values to which attributes refer
	nodeCount     int                     // number of converted nodes, including the nodes of nested graphs
	evaluatedWork float64                 // work of the ops evaluated so far: see maxWork

	// For conversions that skip mistakes: see skipped.go.
	skipped       graph.Errors // the errors of skipped initializers, inputs and outputs
	rejectedCount int          // number of nodes that are rejected for a reason other than a rejected operand

	// For the body of a loop or branch: see capture.go.
	outer    *importer         // the importer of the enclosing graph; nil for the main graph
	captured []*Value          // the values of the enclosing graph that became additional inputs of this graph
	captures map[*Value]*Value // for each used value of the enclosing graph, the value in this graph
}

// frame is the context in which nodes are converted: the main graph, a function call, or a nested graph.
type frame struct {
	opsets       map[string]int                // the operator-set version of each domain
	attrs        map[string]*pb.AttributeProto // the attributes of the function call
	depth        int                           // nesting depth of graphs and functions
	unrollBudget int                           // the number of nodes into which a loop may be unrolled
	// If this graph is converted in place of a node, continuation is the part of the model after that node. The
	// converter of the last node of this graph may also convert the continuation. If continuation is nil, the results
	// of this graph always become the outputs of that node.
	continuation *continuation
	// skipsInvalidNodes means that a node with a mistake is skipped instead of ending the import: see skipped.go.
	skipsInvalidNodes bool
}

// scope holds the values of a graph by name.
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
	im.addStringLabels()
	return im.graph, nil
}

// addInitializers adds the weights of a graph to its scope as constants. Sparse weights are mistakes.
func (im *importer) addInitializers(proto *pb.GraphProto, scope *scope, frame *frame) error {
	for _, sparse := range proto.SparseInitializer {
		name := ""
		if sparse.Values != nil {
			name = sparse.Values.Name
		}
		err := errors.New("sparse tensors are not supported")
		if !frame.skipsInvalidNodes {
			return fmt.Errorf("sparse initializer %q: %w", name, err)
		}
		im.skipValue(scope, "sparse initializer", name, err)
	}
	for _, initializer := range proto.Initializer {
		interrupt.Check(im.opts.Context)
		data, err := im.weightOf(initializer, frame)
		switch {
		case err == nil:
			scope.values[initializer.Name] = WeightValue(initializer, data)
			scope.values[initializer.Name].name = initializer.Name
		case frame.skipsInvalidNodes:
			im.skipValue(scope, "initializer", initializer.Name, err)
		default:
			return fmt.Errorf("initializer %q: %w", initializer.Name, err)
		}
	}
	return nil
}

// addModelInputs adds the inputs of the main graph.
func (im *importer) addModelInputs(proto *pb.GraphProto, mainScope *scope, frame *frame) error {
	for _, declared := range proto.Input {
		if mainScope.values[declared.Name] != nil {
			continue // an initializer replaces the input
		}
		if why := im.opts.UnavailableInputs[declared.Name]; frame.skipsInvalidNodes && why != nil {
			im.skipValue(mainScope, "input", declared.Name, why)
			continue
		}
		v, err := im.addModelInput(declared)
		if err == nil {
			mainScope.values[declared.Name], err = v, im.graph.Err()
		}
		switch {
		case err == nil:
		case frame.skipsInvalidNodes:
			im.skipValue(mainScope, "input", declared.Name, err)
		default:
			return withSubject("input", declared.Name, err)
		}
	}
	return nil
}

// addModelInput adds an input of the graph.
func (im *importer) addModelInput(declared *pb.ValueInfoProto) (*Value, error) {
	if declared.Name == "" {
		return nil, errors.New("it has no name")
	}
	if declared.Type != nil && declared.Type.MapType != nil {
		return im.addMapInput(declared, declared.Type.MapType)
	}
	tensorType := declared.TensorType()
	if tensorType == nil {
		return nil, errors.New("only tensors and maps are supported as inputs")
	}
	dtype, err := modelfile.DTypeOf(tensorType.ElemType)
	hasStrings := pb.DataType(tensorType.ElemType) == pb.String
	if hasStrings { // strings become codes
		dtype, err = tensor.Int64, nil
		im.label(declared.Name, graph.Labels{Strings: []string{}})
	}
	if err != nil {
		return nil, err
	}
	dims, err := im.declaredDims(declared.Name, tensorType.Shape)
	if err != nil {
		return nil, err
	}
	im.declareSymbols(dims)
	v := im.graph.InputDims(declared.Name, dtype, tensor.NoFormat, dims...)
	im.hasModelName[v] = true
	input := &Value{name: declared.Name, graphValue: v, hasStrings: hasStrings}
	if v.Dims != nil && len(im.symbols.Inputs()) > 0 { // Model.Signature binds no symbols
		if im.shapes[v], err = im.sizesOf(dims); err != nil {
			return nil, err
		}
		im.addSymbolInputs(input, dims)
	}
	return input, nil
}

// declareSymbols adds the symbols in the sizes of an input to the graph.
func (im *importer) declareSymbols(dims []graph.Dim) {
	for _, dim := range dims {
		for _, symbol := range symbolsOf(dim) {
			if _, ok := im.graph.Symbols[symbol]; !ok {
				im.graph.Symbols[symbol] = im.model.unlimited(symbol)
			}
		}
	}
}

// sizesOf returns the declared sizes of an input as expressions over symbols.
func (im *importer) sizesOf(dims []graph.Dim) ([]sym.Int, error) {
	shape := make([]sym.Int, len(dims))
	for i, dim := range dims {
		var err error
		if shape[i], err = dim.In(im.symbols.Inputs()); err != nil {
			return nil, fmt.Errorf("size %d: %w", i, err)
		}
	}
	return shape, nil
}

// addSymbolInputs adds the symbols that are sizes of an input to symbolInputs.
func (im *importer) addSymbolInputs(input *Value, dims []graph.Dim) {
	for _, dim := range dims {
		if dim.Symbol != "" && im.symbolInputs[dim.Symbol] == nil {
			im.symbolInputs[dim.Symbol] = input
		}
	}
}

// declaredDims returns the sizes of an input: the sizes that the model declares or Options.Shapes gives, otherwise
// symbols or expressions over symbols, with the numbers of Options.Dims for symbols ([Model.dim]).
func (im *importer) declaredDims(name string, shape *pb.TensorShapeProto) ([]graph.Dim, error) {
	given, isGiven := im.opts.Shapes[name]
	if shape == nil { // the model does not declare the rank
		if !isGiven {
			return nil, errors.New("its rank is unknown: a shape must be given")
		}
		dims := make([]graph.Dim, len(given))
		for i, size := range given {
			dims[i].Size = size
		}
		return dims, nil
	}
	switch {
	case len(shape.Dim) > modelfile.MaxRank:
		return nil, fmt.Errorf("%d dimensions are not supported", len(shape.Dim))
	case isGiven && len(given) != len(shape.Dim):
		return nil, fmt.Errorf("the model declares %d dimensions, the given shape is %s", len(shape.Dim),
			tensor.ListString(given))
	}
	dims := make([]graph.Dim, len(shape.Dim))
	for i, dim := range shape.Dim {
		switch {
		case dim.DimValue != nil && *dim.DimValue >= 0:
			dims[i].Size = int(*dim.DimValue)
		case isGiven:
			dims[i].Size = given[i]
		default:
			var err error
			if dims[i], err = im.model.dim(name, i, dim.DimParam, im.opts.Dims); err != nil {
				return nil, err
			}
		}
	}
	return dims, nil
}

// convertResults converts the nodes of a graph and returns the values of its outputs. If the last converted node also
// converted its continuation, convertResults returns [Node.finalOutputs] of this node instead.
func (im *importer) convertResults(proto *pb.GraphProto, scope *scope, frame *frame) ([]*Value, error) {
	finalOutputs, err := im.convertNodes(proto, 0, scope, frame)
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

// convertNodes converts proto.Node[first:], except nodes that the outputs do not depend on. It stops after a node that
// converted its continuation, and returns [Node.finalOutputs] of this node; otherwise it returns nil.
func (im *importer) convertNodes(proto *pb.GraphProto, first int, scope *scope, frame *frame) ([]*Value, error) {
	if frame.depth > maxDepth {
		return nil, limitError{errors.New("graphs or functions are nested too deep")}
	}
	live := liveNodes(proto)
	for i, n := range proto.Node {
		if i < first || !live[i] {
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

// liveNodes reports, for each node, whether an output of the graph depends on the node. The names that a node's nested
// graphs use count as operands of the node.
func liveNodes(proto *pb.GraphProto) []bool {
	needed := map[string]bool{}
	for _, output := range proto.Output {
		needed[output.Name] = true
	}
	live := make([]bool, len(proto.Node))
	for i, n := range slices.Backward(proto.Node) {
		live[i] = slices.ContainsFunc(n.Output, func(output string) bool { return output != "" && needed[output] })
		if live[i] {
			markNeeded(n, needed, 0)
		}
	}
	return live
}

// markNeeded adds the names that a node and its nested graphs use to needed.
func markNeeded(n *pb.NodeProto, needed map[string]bool, depth int) {
	for _, input := range n.Input {
		needed[input] = true
	}
	if depth > maxDepth {
		return
	}
	for _, attr := range n.Attribute {
		for _, nested := range append(slices.Clone(attr.Graphs), attr.G) {
			if nested == nil {
				continue
			}
			for _, output := range nested.Output {
				needed[output.Name] = true
			}
			for _, nestedNode := range nested.Node {
				markNeeded(nestedNode, needed, depth+1)
			}
		}
	}
}

// addModelOutputs adds the outputs of the main graph. results are their values.
func (im *importer) addModelOutputs(proto *pb.GraphProto, results []*Value, frame *frame) error {
	for i, output := range proto.Output {
		err := im.addOutput(output.Name, results[i])
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

// addOutput adds an output of the graph. A sequence of maps is returned as its matrix of values, labelled with the
// keys. An unavailable value can be an output only if it is in the graph.
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
		v = v.members[0]
	case v.kind != tensorKind:
		return fmt.Errorf("%v is not supported as a result", v.kind)
	case v.hasStrings && im.outer == nil:
		im.label(name, graph.Labels{Strings: []string{}})
	}
	im.graph.Output(name, im.materialise(v))
	return nil
}

// materialise returns v as a value of the graph. If v is not yet in the graph, it adds a constant or the computation.
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
		v.graphValue = im.graph.Constant(im.graph.UniqueName(name), v.data.Contiguous())
		im.hasModelName[v.graphValue] = true
	}
	return v.graphValue
}
