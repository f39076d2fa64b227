package onnx

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/tensor"
)

// Operators maps domains and operator names to converters. The default domain is "" or "ai.onnx". For
// example, if the operator Swish of the domain com.example equals the op silu, it is imported with
//
//	onnx.Operators{"com.example": {"Swish": onnx.As("silu")}}
type Operators map[string]map[string]Converter

// Converter converts a node of an operator, and returns the values of the node's outputs. Unused outputs at the end may
// be omitted. A Converter may be called several times for one node, because a model is converted for several sizes.
// Every call must give the same result. [As] returns a Converter for an operator that equals an op.
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
type Node struct {
	node     *convert.Node
	returned *bool // whether the Converter has returned; copies of the Node share it
}

// Value is a value of a model during its conversion. The zero Value is an omitted operand.
type Value struct{ val *convert.Value }

var errNoNode = errors.New("onnx: a Node is an argument of a Converter: it cannot be constructed")

// Name returns the node's name. A node without a name has the name of its first output.
func (n Node) Name() string {
	if n.node == nil {
		return ""
	}
	return n.node.Name()
}

// Operator returns the domain, the operator's name, and the version of the domain's operator set. The default domain is
// empty.
func (n Node) Operator() (domain, name string, version int) {
	if n.node == nil {
		return "", "", 0
	}
	op := n.node.Operator()
	return op.Domain, op.Name, n.node.Opset
}

// Inputs returns the operands.
func (n Node) Inputs() []Value {
	if n.node == nil {
		return nil
	}
	list := make([]Value, len(n.node.In))
	for i, v := range n.node.In {
		list[i] = Value{v}
	}
	return list
}

// Outputs returns the number of outputs of the node.
func (n Node) Outputs() int {
	if n.node == nil {
		return 0
	}
	return n.node.Outputs()
}

// Attrs returns the attributes in the form of op attributes: int, float64, string, lists of these types, and
// *tensor.Tensor. It returns an error if an attribute is a graph.
func (n Node) Attrs() (graph.Attrs, error) {
	if n.node == nil {
		return nil, errNoNode
	}
	return n.node.AllAttrs()
}

// Float returns the attribute with the given name, or defaultValue if it is omitted. It returns an error if the
// attribute has another type. [Node.Attrs] has lists and tensors.
func (n Node) Float(name string, defaultValue float64) (float64, error) {
	return attr(n, (*convert.Node).Float, name, defaultValue)
}

// Int is [Node.Float] for an integer.
func (n Node) Int(name string, defaultValue int) (int, error) {
	return attr(n, (*convert.Node).Int, name, defaultValue)
}

// Text is [Node.Float] for a string.
func (n Node) Text(name, defaultValue string) (string, error) {
	return attr(n, (*convert.Node).Text, name, defaultValue)
}

// attr returns an attribute by a getter of the importer's node, which panics if the attribute has another type.
func attr[V any](n Node, get func(*convert.Node, string, V) V, name string, defaultValue V) (value V, err error) {
	if n.node == nil {
		return value, errNoNode
	}
	defer convert.Recover(&err)
	return get(n.node, name, defaultValue), nil
}

// Apply adds an op of the graph's catalogue to the graph and returns its results. An operand is a [Value], a number, a
// bool, a tensor, or nil if omitted. If all operands are small constants, the results are constants, and the graph is
// not changed. For an op with a variable number of results, Apply returns one result for each output of the node.
func (n Node) Apply(op string, attrs graph.Attrs, operands ...any) (out []Value, err error) {
	if n.node == nil {
		return nil, errNoNode
	}
	if *n.returned {
		return nil, errors.New("the node is no longer valid: its converter has returned")
	}
	defer convert.Recover(&err)
	args := make([]any, len(operands))
	for i, operand := range operands {
		switch x := operand.(type) {
		case Value:
			if x.val != nil && !x.val.IsTensor() {
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
			args[i] = convert.Constant(x)
		default:
			if _, isNumber := tensor.ScalarOf(operand); operand != nil && !isNumber {
				return nil, fmt.Errorf("operand %d of %s is a %T: want a Value, a tensor or a number", i, op, operand)
			}
			args[i] = operand
		}
	}
	for _, v := range n.node.Ops(op, maps.Clone(attrs), args...) {
		out = append(out, Value{v})
	}
	return out, nil
}

// IsPresent reports whether v is a value. It returns false for an omitted operand.
func (v Value) IsPresent() bool { return v.val != nil }

// DType returns the dtype. It returns [tensor.Invalid] if the dtype is not known before the graph runs, or if the value
// is not a tensor.
func (v Value) DType() tensor.DType {
	if v.val == nil || !v.val.IsTensor() {
		return tensor.Invalid
	}
	return v.val.DType()
}

// Data returns the elements of a constant, which is a weight or a value computed from constants. The caller must not
// change the elements. It returns nil for any other value.
func (v Value) Data() *tensor.Tensor {
	if v.val == nil {
		return nil
	}
	return v.val.Data()
}

// Shape returns the sizes of an operand. Sizes that depend on symbols or data are -1. ok is false if the rank is
// unknown.
func (n Node) Shape(v Value) (sizes []int, ok bool) {
	if n.node == nil || v.val == nil || !v.val.IsTensor() {
		return nil, false
	}
	sizes, ok = n.node.TrySizes(v.val)
	return slices.Clone(sizes), ok
}

// complete returns the options of the conversion, with the table of converters and the default lookup.
func (o *Options) complete() (convert.Options, error) {
	full := convert.Options{Dims: o.Dims, Shapes: o.Shapes, Lookup: o.Lookup, UnavailableInputs: o.UnavailableInputs,
		Context: o.Context}
	if full.Lookup == nil {
		full.Lookup = kernels.Lookup
	}
	table := &convert.Table{Converters: map[convert.Operator]convert.Converter{}, Custom: map[convert.Operator]bool{},
		Strings: stringOperators, Instead: insteadOf, Domains: sorted.Keys(domains)}
	for domain, list := range domains {
		for name, converter := range list {
			table.Converters[convert.Operator{Domain: domain, Name: name}] = converter
		}
	}
	const replace, add = true, false
	if err := o.Replaced.addConverters(table, replace); err != nil {
		return full, fmt.Errorf("Options.Replaced: %w", err)
	}
	if err := o.Operators.addConverters(table, add); err != nil {
		return full, fmt.Errorf("Options.Operators: %w", err)
	}
	full.Table = table
	return full, nil
}

// addConverters adds converters to a table. If replace is true, each operator must already have a converter in the
// table. Otherwise no operator may have a converter, and the converters take precedence over functions of the model.
func (o Operators) addConverters(table *convert.Table, replace bool) error {
	for _, domain := range sorted.Keys(o) {
		for _, name := range sorted.Keys(o[domain]) {
			key := convert.Operator{Domain: convert.CanonicalDomain(domain), Name: name}
			added := o[domain][name]
			switch old := table.Converters[key]; {
			case added == nil:
				return fmt.Errorf("the converter of %s is nil", key)
			case old == nil && replace:
				return fmt.Errorf("%s has no converter to replace%s", key, suggest.DidYouMean(table.Nearest(key)))
			case old != nil && !replace:
				return fmt.Errorf("%s already has a converter; to replace it, use Options.Replaced", key)
			}
			table.Converters[key], table.Custom[key] = added.convert, !replace
		}
	}
	return nil
}

// convert adapts c to the importer.
func (c Converter) convert(n *convert.Node) []*convert.Value {
	returned := false
	defer func() { returned = true }()
	values, err := c(Node{n, &returned})
	if err != nil {
		n.Failf("%w", err)
	}
	if len(values) > n.Outputs() {
		n.Failf("its converter returns %d values, but the node has %d outputs", len(values), n.Outputs())
	}
	out := make([]*convert.Value, len(values))
	for i, v := range values {
		out[i] = v.val
	}
	return out
}
