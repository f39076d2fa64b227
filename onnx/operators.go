package onnx

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// Operators maps domains and operator names to converters. The default domain is "" or "ai.onnx".
type Operators map[string]map[string]Converter

// Converter returns the outputs of an operator's node. Unused outputs at the end may be omitted. A Converter may be
// called several times for one node, because a model is converted for several sizes. Every call must give the same
// result. [As] returns a Converter for an operator that equals an op.
type Converter func(n Node) ([]Value, error)

// As returns the Converter of an operator that equals an op of the graph's catalogue. The op must have the same
// operands and attribute names.
func As(op string) Converter {
	return func(n Node) ([]Value, error) {
		attrs, err := n.Attrs()
		if err != nil {
			return nil, err
		}
		operands := make([]any, len(n.Inputs()))
		for i, v := range n.Inputs() {
			operands[i] = v
		}
		return n.Apply(op, attrs, operands...)
	}
}

// Node is a node of a model, the argument of a [Converter]. It is valid until the Converter returns.
type Node struct{ node *node }

// Value is a value of a model during its conversion. The zero Value is an omitted operand.
type Value struct{ val *val }

var errNoNode = errors.New("onnx: a Node is an argument of a Converter: it cannot be constructed")

// Name returns the node's name. A node without a name has the name of its first output.
func (n Node) Name() string {
	if n.node == nil {
		return ""
	}
	return nameOf(n.node.proto)
}

// Operator returns the domain, the operator's name, and the version of the domain's operator set. The default domain is
// empty.
func (n Node) Operator() (domain, name string, version int) {
	if n.node == nil {
		return "", "", 0
	}
	return domainOf(n.node.proto.Domain), n.node.proto.OpType, n.node.opset
}

// Inputs returns the operands.
func (n Node) Inputs() []Value {
	if n.node == nil {
		return nil
	}
	list := make([]Value, len(n.node.in))
	for i, v := range n.node.in {
		list[i] = Value{v}
	}
	return list
}

// Outputs returns the number of outputs of the node.
func (n Node) Outputs() int {
	if n.node == nil {
		return 0
	}
	return len(n.node.proto.Output)
}

// Attrs returns the attributes in the form of op attributes: int, float64, string, lists of these types, and
// *tensor.Tensor. It returns an error if an attribute is a graph.
func (n Node) Attrs() (graph.Attrs, error) {
	if n.node == nil {
		return nil, errNoNode
	}
	attrs := graph.Attrs{}
	for name, a := range n.node.attrs {
		v, err := n.node.attrValue(a)
		if err != nil {
			return nil, fmt.Errorf("attribute %q: %w", name, err)
		}
		attrs[name] = v
	}
	return attrs, nil
}

func (n *node) attrValue(attribute *pb.AttributeProto) (any, error) {
	switch attribute.Type {
	case pb.AttributeInt:
		return int(attribute.I), nil
	case pb.AttributeFloat:
		return shortestDecimal(attribute.F), nil
	case pb.AttributeString:
		return string(attribute.S), nil
	case pb.AttributeInts:
		return mapSlice(attribute.Ints, func(i int64) int { return int(i) }), nil
	case pb.AttributeFloats:
		return mapSlice(attribute.Floats, shortestDecimal), nil
	case pb.AttributeStrings:
		return mapSlice(attribute.Strings, func(s []byte) string { return string(s) }), nil
	case pb.AttributeTensor:
		if attribute.T == nil {
			return nil, errors.New("it has no tensor")
		}
		return n.model.weight(attribute.T)
	}
	return nil, fmt.Errorf("attributes of type %s are not supported", strings.ToLower(attribute.Type.String()))
}

func mapSlice[A, B any](list []A, f func(A) B) []B {
	out := make([]B, len(list))
	for i, a := range list {
		out[i] = f(a)
	}
	return out
}

// Apply applies an op of the graph's catalogue and returns its results. An operand is a [Value], a number, a bool, a
// tensor, or nil if omitted. If all operands are small constants, the results are constants, and the graph is not
// changed. For an op with a variable number of results, Apply returns one result for each output of the node.
func (n Node) Apply(op string, attrs graph.Attrs, operands ...any) (out []Value, err error) {
	if n.node == nil {
		return nil, errNoNode
	}
	if n.node.converterReturned {
		return nil, errors.New("the node is no longer valid: its converter has returned")
	}
	defer recoverFailure(&err)
	args := make([]any, len(operands))
	for i, operand := range operands {
		switch x := operand.(type) {
		case Value:
			if x.val != nil && x.val.kind != tensorKind {
				return nil, fmt.Errorf("operand %d of %s must be a tensor", i, op)
			}
			args[i] = x.val
		case *tensor.Tensor:
			if x == nil {
				continue
			}
			if err := x.Check(); err != nil {
				return nil, fmt.Errorf("operand %d of %s: %w", i, op, err)
			}
			args[i] = constValue(x)
		default:
			if _, number := tensor.ScalarOf(operand); operand != nil && !number {
				return nil, fmt.Errorf("operand %d of %s is a %T: want a Value, a tensor or a number", i, op, operand)
			}
			args[i] = operand
		}
	}
	for _, v := range n.node.ops(op, maps.Clone(attrs), args...) {
		out = append(out, Value{v})
	}
	return out, nil
}

// IsPresent reports whether the operand is present.
func (v Value) IsPresent() bool { return v.val != nil }

// DType returns the dtype. It returns [tensor.Invalid] if the dtype is not known before the graph runs, or if the value
// is not a tensor.
func (v Value) DType() tensor.DType {
	if v.val == nil || v.val.kind != tensorKind {
		return tensor.Invalid
	}
	return v.val.dtype()
}

// Data returns the elements of a constant, which is a weight or a value computed from constants. The caller must not
// change the elements. It returns nil for any other value.
func (v Value) Data() *tensor.Tensor {
	if v.val == nil {
		return nil
	}
	return v.val.data
}

// Shape returns the sizes of an operand. Sizes that depend on symbols or data are -1. ok is false if the rank is
// unknown.
func (n Node) Shape(v Value) (sizes []int, ok bool) {
	if n.node == nil || v.val == nil || v.val.kind != tensorKind {
		return nil, false
	}
	if v.val.isDynamic() {
		return slices.Clone(v.val.outline.Sizes), v.val.outline.Sizes != nil
	}
	return append([]int{}, n.node.sizes(v.val)...), true
}

// operator is a key of the table of converters.
type operator struct{ domain, name string }

// complete sets the default lookup, and builds the table of converters.
func (o *Options) complete() error {
	if o.Lookup == nil {
		o.Lookup = kernels.Lookup
	}
	if o.table != nil {
		return nil
	}
	table := make(map[operator]converter, len(standard))
	for domain, list := range domains {
		for name, c := range list {
			table[operator{domain, name}] = c
		}
	}
	if err := o.Replaced.addConverters(table, true); err != nil {
		return fmt.Errorf("Options.Replaced: %w", err)
	}
	if err := o.Operators.addConverters(table, false); err != nil {
		return fmt.Errorf("Options.Operators: %w", err)
	}
	o.table = table
	return nil
}

// addConverters adds converters to a table. If replace is true, each operator must already have a converter in the
// table. Otherwise no operator may have a converter.
func (o Operators) addConverters(table map[operator]converter, replace bool) error {
	for _, domain := range sorted.Keys(o) {
		for _, name := range sorted.Keys(o[domain]) {
			key := operator{domainOf(domain), name}
			added := o[domain][name]
			switch old := table[key]; {
			case added == nil:
				return fmt.Errorf("the converter of %s is nil", key)
			case old == nil && replace:
				return fmt.Errorf("%s has no converter to replace%s", key, suggest.DidYouMean(nearest(key, table)))
			case old != nil && !replace:
				return fmt.Errorf("%s has a converter: Options.Replaced replaces it", key)
			}
			table[key] = added.convert
		}
	}
	return nil
}

// String returns domain and name.
func (o operator) String() string {
	if o.domain == "" {
		return o.name
	}
	return o.domain + "." + o.name
}

// convert adapts c to the importer.
func (c Converter) convert(n *node) []*val {
	defer func() { n.converterReturned = true }()
	values, err := c(Node{n})
	if err != nil {
		n.failf("%w", err)
	}
	if len(values) > len(n.proto.Output) {
		n.failf("its converter returns %d values, but the node has %d outputs", len(values), len(n.proto.Output))
	}
	out := make([]*val, len(values))
	for i, v := range values {
		out[i] = v.val
	}
	return out
}

// function returns the function of the model that a node calls. It returns nil for an operator, and for a function that
// a converter in Options.Operators replaces.
func (m *Model) function(n *pb.NodeProto, o Options) *pb.FunctionProto {
	domain := domainOf(n.Domain)
	for d, list := range o.Operators {
		if domainOf(d) == domain && list[n.OpType] != nil {
			return nil
		}
	}
	return m.functions[functionKey{domain, n.OpType, n.Overload}]
}
