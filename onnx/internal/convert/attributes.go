package convert

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/onnx/internal/modelfile"
	"github.com/graphrun/graphrun/tensor"
)

// The methods of this file return attributes of a node in Go types. A method ends the converter (Failf) if the
// attribute has another type than the operator declares. An int64 beyond the range of int becomes the nearest int
// ([SaturatedInt]). A float32 becomes the float64 with the same decimal form ([ShortestDecimal]). Methods with many
// callers are not inlined, to save compile time.

// HasAttr reports whether an attribute is present.
func (n *Node) HasAttr(name string) bool { return n.attrs[name] != nil }

// RawAttr returns an attribute of any type, or nil if the attribute is omitted.
func (n *Node) RawAttr(name string) *pb.AttributeProto { return n.attrs[name] }

// Attr returns an attribute, which must have type t, or nil if the attribute is omitted.
func (n *Node) Attr(name string, t pb.AttributeType) *pb.AttributeProto {
	a := n.attrs[name]
	if a != nil && a.Type != t && a.Type != pb.AttributeUndefined {
		n.Failf("attribute %q is of type %s, want %s", name, strings.ToLower(a.Type.String()), strings.ToLower(t.String()))
	}
	return a
}

// Int returns an attribute, or defaultValue if the attribute is omitted.
//
//go:noinline
func (n *Node) Int(name string, defaultValue int) int {
	if a := n.Attr(name, pb.AttributeInt); a != nil {
		return SaturatedInt(a.I)
	}
	return defaultValue
}

// Flag is [Node.Int] for an attribute that is 0 or 1.
//
//go:noinline
func (n *Node) Flag(name string, defaultValue bool) bool {
	if a := n.Attr(name, pb.AttributeInt); a != nil {
		return a.I != 0
	}
	return defaultValue
}

// Float is [Node.Int] for a floating-point attribute.
func (n *Node) Float(name string, defaultValue float64) float64 {
	if a := n.Attr(name, pb.AttributeFloat); a != nil {
		return ShortestDecimal(a.F)
	}
	return defaultValue
}

// Text is [Node.Int] for a string attribute.
//
//go:noinline
func (n *Node) Text(name, defaultValue string) string {
	if a := n.Attr(name, pb.AttributeString); a != nil {
		return string(a.S)
	}
	return defaultValue
}

// Choice returns the entry of a table for text, which is the value of the attribute with the given name. If there is no
// entry, it ends the converter with an error that suggests a similar value.
func Choice[V any](n *Node, name, text string, table map[string]V) V {
	v, ok := table[text]
	if !ok {
		known := slices.Values(slices.Sorted(maps.Keys(table)))
		n.Failf("%s %q is not supported%s", name, text, suggest.ForUnknown(text, "values", known))
	}
	return v
}

// Ints returns a list attribute. ok is false if the attribute is omitted.
func (n *Node) Ints(name string) ([]int, bool) {
	attribute := n.Attr(name, pb.AttributeInts)
	if attribute == nil {
		return nil, false
	}
	return mapSlice(attribute.Ints, SaturatedInt), true
}

// Floats is [Node.Ints] for floating-point numbers.
func (n *Node) Floats(name string) ([]float64, bool) {
	attribute := n.Attr(name, pb.AttributeFloats)
	if attribute == nil {
		return nil, false
	}
	return mapSlice(attribute.Floats, ShortestDecimal), true
}

// Strings is [Node.Ints] for strings.
func (n *Node) Strings(name string) ([]string, bool) {
	a := n.Attr(name, pb.AttributeStrings)
	if a == nil {
		return nil, false
	}
	return mapSlice(a.Strings, func(s []byte) string { return string(s) }), true
}

// DTypeAttr returns the dtype for an attribute that has an element type of ONNX. It returns Invalid if the attribute is
// omitted or 0.
func (n *Node) DTypeAttr(name string) tensor.DType {
	a := n.Attr(name, pb.AttributeInt)
	if a == nil || a.I == 0 {
		return tensor.Invalid
	}
	dtype, err := modelfile.DTypeOf(int32(a.I))
	if err != nil {
		n.Failf("attribute %q: %v", name, err)
	}
	return dtype
}

// PerDim returns a list attribute that must have the given length, such as a number for each spatial dimension. If the
// attribute is omitted, all elements are defaultValue.
func (n *Node) PerDim(name string, length, defaultValue int) []int {
	list, ok := n.Ints(name)
	if !ok {
		list = make([]int, length)
		for i := range list {
			list[i] = defaultValue
		}
	}
	if len(list) != length {
		n.Failf("attribute %q has %d numbers, want %d", name, len(list), length)
	}
	return list
}

// TensorAttr returns a tensor attribute, or nil if the attribute is omitted.
func (n *Node) TensorAttr(name string) *tensor.Tensor {
	a := n.Attr(name, pb.AttributeTensor)
	if a == nil || a.T == nil {
		return nil
	}
	t, err := n.Weight(a.T)
	if err != nil {
		n.Failf("attribute %q: %w", name, err)
	}
	return t
}

// SparseAttr returns a sparse tensor attribute, which must be present.
func (n *Node) SparseAttr(name string) (*tensor.Tensor, *pb.SparseTensorProto) {
	a := n.Attr(name, pb.AttributeSparseTensor)
	if a == nil {
		n.Failf("attribute %q is missing", name)
	}
	t, err := n.model.file.Sparse(a.SparseTensor)
	if err != nil {
		n.Failf("attribute %q: %w", name, err)
	}
	return t, a.SparseTensor
}

// AllAttrs returns the attributes in the form of op attributes: int, float64, string, lists of these types, and
// *tensor.Tensor. It returns an error if an attribute is a graph.
func (n *Node) AllAttrs() (graph.Attrs, error) {
	attrs := graph.Attrs{}
	for name, a := range n.attrs {
		v, err := n.attrValue(a)
		if err != nil {
			return nil, fmt.Errorf("attribute %q: %w", name, err)
		}
		attrs[name] = v
	}
	return attrs, nil
}

// attrValue returns an attribute in the form of [Node.AllAttrs].
func (n *Node) attrValue(attribute *pb.AttributeProto) (any, error) {
	switch typeOf(attribute) {
	case pb.AttributeInt:
		return SaturatedInt(attribute.I), nil
	case pb.AttributeFloat:
		return ShortestDecimal(attribute.F), nil
	case pb.AttributeString:
		return string(attribute.S), nil
	case pb.AttributeInts:
		return mapSlice(attribute.Ints, SaturatedInt), nil
	case pb.AttributeFloats:
		return mapSlice(attribute.Floats, ShortestDecimal), nil
	case pb.AttributeStrings:
		return mapSlice(attribute.Strings, func(s []byte) string { return string(s) }), nil
	case pb.AttributeTensor:
		if attribute.T == nil {
			return nil, errors.New("it has no tensor")
		}
		return n.model.file.Tensor(attribute.T)
	}
	return nil, fmt.Errorf("attributes of type %s are not supported", strings.ToLower(attribute.Type.String()))
}

// typeOf returns the type of an attribute. Old exporters do not write the type, and typeOf then returns the type of the
// value. A number 0 has no written value either. It counts as an int, which also serves as a float.
func typeOf(attribute *pb.AttributeProto) pb.AttributeType {
	switch {
	case attribute.Type != pb.AttributeUndefined:
		return attribute.Type
	case attribute.G != nil || len(attribute.Graphs) > 0:
		return pb.AttributeGraph
	case attribute.T != nil:
		return pb.AttributeTensor
	case attribute.S != nil:
		return pb.AttributeString
	case len(attribute.Floats) > 0:
		return pb.AttributeFloats
	case len(attribute.Ints) > 0:
		return pb.AttributeInts
	case len(attribute.Strings) > 0:
		return pb.AttributeStrings
	case attribute.F != 0:
		return pb.AttributeFloat
	}
	return pb.AttributeInt
}

// mapSlice returns the results of f for all elements.
func mapSlice[A, B any](list []A, f func(A) B) []B {
	out := make([]B, len(list))
	for i, a := range list {
		out[i] = f(a)
	}
	return out
}
