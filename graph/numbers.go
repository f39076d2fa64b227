package graph

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/internal/numerals"
)

// In aten's schemas a plain number is written among the attributes, whatever place it takes
// among the arguments: masked_fill(self, mask, value=0), pow(self=2, exponent). Here it is
// an operand, so that one op takes numbers and tensors; what is among the attributes
// under the operand's name is moved to its place when the node is made.

// attrName is the name under which aten's schema has the operand as a number.
func (p Param) attrName() string {
	if p.Attr != "" {
		return p.Attr
	}
	return p.Name
}

// numberAt returns the operand that an attribute of the name stands for; -1 if there is
// none, or the op has such an attribute.
func (o *Op) numberAt(name string) int {
	if o.Schema == nil { // an op that Define did not make
		return -1
	}
	if o.Schema.has(name) {
		return -1
	}
	return slices.IndexFunc(o.Params, func(p Param) bool { return p.Number && !p.Variadic && p.attrName() == name })
}

// NumberAttr returns the name of the attribute that may stand for an operand which is a
// number; empty if there is none.
func (o *Op) NumberAttr(p Param) string {
	if i := o.numberAt(p.attrName()); i < 0 || o.Params[i].Name != p.Name {
		return ""
	}
	return p.attrName()
}

// hasNumbers reports whether some attributes stand for operands.
func (o *Op) hasNumbers(given Attrs) bool {
	for name, v := range given {
		if v != nil && o.numberAt(name) >= 0 {
			return true
		}
	}
	return false
}

// splitNumbers parts the attributes that stand for operands, by operand, from the rest; numbers is nil
// where there are none.
func (o *Op) splitNumbers(given Attrs) (rest Attrs, numbers []any) {
	if !o.hasNumbers(given) {
		return given, nil
	}
	rest, numbers = Attrs{}, make([]any, len(o.Params))
	for name, v := range given {
		if i := o.numberAt(name); i >= 0 {
			numbers[i] = v
		} else {
			rest[name] = v
		}
	}
	return rest, numbers
}

// takeNumbers puts what splitNumbers found among the operands.
func (n *Node) takeNumbers(numbers []any) error {
	if numbers == nil {
		return nil
	}
	// An operand is inserted, unless null keeps its place: the tensors are among the
	// inputs in their order, without gaps.
	whole := len(n.In) == len(n.Op.Params)
	in := slices.Clone(n.In)
	for i, v := range numbers {
		if v == nil {
			continue
		}
		a, err := numberArg(v)
		if err != nil {
			return fmt.Errorf("attribute %q: %w", n.Op.Params[i].attrName(), err)
		}
		switch {
		case whole && in[i].Kind == Null:
			in[i] = a
		case whole:
			return fmt.Errorf("operand %q is given twice, the second time as attribute %q", n.Op.Params[i].Name,
				n.Op.Params[i].attrName())
		default:
			in = append(in, make([]Arg, max(0, i-len(in)))...)
			in = slices.Insert(in, i, a)
		}
	}
	n.In = in
	return nil
}

// numberArg makes an operand of an attribute.
func numberArg(v any) (Arg, error) {
	if r, ok := v.(Ref); ok && r.Value != nil {
		return Arg{Kind: TensorArg, Value: r.Value}, nil
	}
	s, ok := numerals.Scalar(v)
	if !ok {
		return Arg{}, fmt.Errorf("want a number, got %v", v)
	}
	return Arg{Kind: NumberArg, Number: s}, nil
}
