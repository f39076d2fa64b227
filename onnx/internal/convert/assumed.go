package convert

import (
	"errors"
	"runtime"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// assumedOperands make values that an unavailable operand may have. Inputs are added to the graph.
var assumedOperands = [...]func(g *graph.Graph) *Value{
	assumedInput(tensor.Float32, 5), assumedInput(tensor.Float32, 4), assumedInput(tensor.Float32, 3),
	assumedInput(tensor.Float32, 2), assumedInput(tensor.Float32, 1), assumedInput(tensor.Float32, 0),
	assumedInput(tensor.Int64, 2), assumedInput(tensor.Bool, 2), assumedInput(tensor.Uint8, 2),
	func(g *graph.Graph) *Value {
		text := assumedInput(tensor.Int64, 1)(g)
		text.isText = true
		return text
	},
	func(*graph.Graph) *Value { return IntVector(1, 1) },
	func(*graph.Graph) *Value { return FloatVector(1) },
}

// assumedInput returns a function that adds an input of a dtype and rank.
func assumedInput(dtype tensor.DType, rank int) func(g *graph.Graph) *Value {
	return func(g *graph.Graph) *Value {
		name := g.UniqueName("assumed")
		return &Value{name: name, graphValue: g.Input(name, dtype, slices.Repeat([]int{2}, rank)...)}
	}
}

// kindError is the error of an operand that must be a sequence or a map.
type kindError struct{ error }

// rejectedAnyway returns the error of a node that no value of its unavailable operands would avoid, such as that of an
// attribute, or nil. It converts the node once for each of assumedOperands, in a graph of its own. An error of some
// values only, or errors that differ, may be due to the value. A nested graph that reads another unavailable value ends
// the trial ([importer.capture]).
func (n *Node) rejectedAnyway(convertOperator Converter) error {
	count := n.nodeCount
	defer func() { n.nodeCount = count }()
	var first error
	for i, assumed := range assumedOperands {
		err := n.convertAssuming(convertOperator, assumed)
		if err == nil || errors.As(err, new(kindError)) || errors.Is(err, ErrUnavailableOperand) ||
			i > 0 && err.Error() != first.Error() {
			return nil
		}
		first = err
	}
	return first
}

// convertAssuming converts a node with assumed values of its unavailable operands.
func (n *Node) convertAssuming(convertOperator Converter, assumed func(g *graph.Graph) *Value) (err error) {
	defer func() {
		switch panicked := recover().(type) {
		case nil:
		case runtime.Error: // a fault of the converter that only assumed operands show must not end the import
			err = ErrUnavailableOperand
		default:
			panic(panicked)
		}
	}()
	defer Recover(&err)
	nested, frame := n.nestedGraph(""), *n.frame
	frame.continuation, frame.skipErrors = nil, false
	attempt := *n
	attempt.importer, attempt.frame, attempt.continuation, attempt.In = nested.importer, &frame, nil, nil
	attempt.scope = &scope{importer: nested.importer, outerScope: n.scope, values: map[string]*Value{}}
	for i, operand := range n.In {
		switch {
		case operand == nil:
		case operand.kind == unavailableKind:
			operand = assumed(nested.importer.graph)
			attempt.scope.values[n.proto.Input[i]] = operand
		default:
			if operand, err = nested.importer.capture(operand); err != nil {
				return err
			}
		}
		attempt.In = append(attempt.In, operand)
	}
	convertOperator(&attempt)
	return nil
}
