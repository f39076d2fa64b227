package convert

import (
	"errors"
	"runtime"
	"slices"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/onnx/internal/modelfile"
	"github.com/graphrun/graphrun/tensor"
)

// This file finds mistakes of nodes with unavailable operands. An operand is unavailable if the node that computes it
// has a mistake, and mistakes are skipped (skipped.go). For example, in y = Unknown(x), z = Elu(y, alpha="a"), the
// second node also has a mistake: alpha must be a number for any y.
//
// An importer builds one graph.Graph. A scope has the values of a graph by name. A frame has the settings of the nodes
// of a graph, such as the nesting depth. A Node is a node of the model file with importer, scope, frame and operands.
// The continuation of a node has the nodes that follow.

// unavoidableError returns the error that a node has for all values of its unavailable operands, or nil. It converts
// the node once for each trial of assumedOperand. Each trial has a separate graph, which is then dropped. An error that
// occurs only in some trials, or differs between trials, may be due to the assumed value. A nested graph that reads
// another unavailable value ends the trial ([importer.capture]).
func (n *Node) unavoidableError(convertOperator Converter) error {
	count := n.nodeCount
	defer func() { n.nodeCount = count }() // trials do not count
	var first error
	for trial := range lastTrial + 1 {
		err := n.convertAssuming(convertOperator, trial)
		dependsOnValue := err == nil || errors.As(err, new(kindError)) || errors.Is(err, ErrUnavailableOperand)
		if dependsOnValue || trial > 0 && err.Error() != first.Error() {
			return nil
		}
		first = err
	}
	return first
}

// kindError is the error of an operand that must be a sequence or a map. Assumed values are tensors.
type kindError struct{ error }

// convertAssuming converts a node with the values that assumedOperand returns for its unavailable operands.
func (n *Node) convertAssuming(convertOperator Converter, trial int) (err error) {
	defer func() {
		switch panicked := recover().(type) {
		case nil:
		case runtime.Error: // a fault of the converter for assumed operands must not end the import
			err = ErrUnavailableOperand
		default:
			panic(panicked)
		}
	}()
	defer Recover(&err)
	// The graph of this trial, built at the hints (example sizes), and its settings.
	nested, frame := n.nestedGraph("", n.hints), *n.frame
	frame.continuation, frame.skipsInvalidNodes = nil, false // the trial ends at this node, or at a mistake

	attempt := *n // the same node in the nested graph, with separate operands and scope
	attempt.importer, attempt.scope, attempt.frame = nested.importer, nested.newScope(n.scope), &frame
	attempt.continuation, attempt.In = nil, nil
	for i, operand := range n.In {
		switch {
		case operand == nil: // omitted
		case operand.kind == unavailableKind:
			operand = n.assumedOperand(nested.importer.graph, i, trial)
			attempt.scope.values[n.proto.Input[i]] = operand // also for graphs in the attributes of the node
		default: // a value of the enclosing graph becomes an operand of the nested graph
			if operand, err = nested.importer.capture(operand); err != nil {
				return err
			}
		}
		attempt.In = append(attempt.In, operand)
	}
	convertOperator(&attempt)
	return nil
}

// assumedTypes has the types that are assumed for an unavailable operand of unknown type. In trial i, the operand is an
// input of type i. In the two last trials, it is a constant.
var assumedTypes = [...]struct {
	dtype      tensor.DType
	rank       int
	hasStrings bool
}{
	{tensor.Float32, 5, false}, {tensor.Float32, 4, false}, {tensor.Float32, 3, false}, {tensor.Float32, 2, false},
	{tensor.Float32, 1, false}, {tensor.Float32, 0, false}, {tensor.Int64, 2, false}, {tensor.Bool, 2, false},
	{tensor.Uint8, 2, false}, {tensor.Int64, 1, true},
}

const lastTrial = len(assumedTypes) + 1 // the first trial is 0

// assumedOperand returns the value that unavailable operand i has in a trial. If the model declares the type of the
// operand, the value has this type, and undeclared sizes are trial+1. In the last trial, such a value is a constant if
// it is small. For other operands, see assumedTypes.
func (n *Node) assumedOperand(g *graph.Graph, i, trial int) *Value {
	if declared, ok := n.declaredMeta(n.proto.Input[i], trial+1); ok {
		if trial == lastTrial && declared.Numel() <= FoldLimit {
			return Constant(tensor.Zeros(declared.DType, declared.Shape...))
		}
		return addAssumed(g, declared)
	}
	switch trial {
	case lastTrial:
		return FloatVector(1)
	case lastTrial - 1:
		return IntVector(1, 1)
	}
	assumed := assumedTypes[trial]
	x := addAssumed(g, tensor.New(assumed.dtype, slices.Repeat([]int{2}, assumed.rank)...))
	x.hasStrings = assumed.hasStrings
	return x
}

// addAssumed adds an input of the given type.
func addAssumed(g *graph.Graph, meta tensor.Meta) *Value {
	name := g.UniqueName("assumed")
	return &Value{name: name, graphValue: g.InputMeta(name, meta)}
}

// declaredMeta returns the type that the model declares for a value, with size in place of undeclared sizes. Invalid
// types count as undeclared. n.continuation.graph is the graph of the model that contains the node.
func (n *Node) declaredMeta(name string, size int) (_ tensor.Meta, ok bool) {
	if n.scope.declared == nil {
		n.scope.declared = map[string]*pb.ValueInfoProto{}
		for _, v := range n.continuation.graph.ValueInfo {
			if _, ok := metaOf(v, 1); ok { // the undeclared sizes may have any value, such as 1
				n.scope.declared[v.Name] = v
			}
		}
	}
	if value, ok := n.scope.declared[name]; ok {
		return metaOf(value, size)
	}
	return tensor.Meta{}, false
}

// metaOf returns a declared type, with size in place of undeclared sizes. ok is false if the type is invalid or has no
// shape.
func metaOf(value *pb.ValueInfoProto, size int) (_ tensor.Meta, ok bool) {
	if value.Shape() == nil {
		return tensor.Meta{}, false
	}
	dtype, err := modelfile.DTypeOf(value.TensorType().ElemType)
	if err != nil {
		return tensor.Meta{}, false
	}
	var sizes []int
	for _, dim := range value.Shape().Dim {
		if dim.DimValue != nil && *dim.DimValue >= 0 {
			sizes = append(sizes, int(*dim.DimValue))
		} else {
			sizes = append(sizes, size)
		}
	}
	meta := tensor.New(dtype, sizes...)
	return meta, meta.Check() == nil
}
