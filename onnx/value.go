package onnx

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// val is a value of the model during its conversion. It is a value of the graph, a constant, or a sequence of values. A
// constant is added to the graph only if an op needs it.
type val struct {
	name string
	v    *graph.Value
	data *tensor.Tensor
	// elements are the symbolic elements of a value computed from sizes: see symelements.go. The value is added to the
	// graph only if an op needs it.
	elements *symElements
	list     []*val       // the members of a sequence
	packed   *packed      // a sequence with unknown members; it has no list
	member   tensor.DType // of an empty sequence, if declared
	kind     valKind
	// outline has the known dtype and sizes of a value whose shape depends on data.
	outline graph.Outline
	// source is the kind ("initializer" or "input") of an unavailable value that is not the result of a node.
	source string
}

// valKind is the kind of a val.
type valKind uint8

// isEmptyOptional is an optional without a value. isUnavailable is a value that could not be converted: see skipped.go.
const (
	isTensor valKind = iota
	isSequence
	isEmptyOptional
	isUnavailable
)

// constValue returns a constant.
func constValue(t *tensor.Tensor) *val { return &val{data: t} }

// sequence returns a sequence with known members.
func sequence(list []*val) *val { return &val{list: list, kind: isSequence} }

// meta returns the meta of the value. Shape and strides are undefined if the shape depends on data.
func (x *val) meta() tensor.Meta {
	switch {
	case x.data != nil:
		return x.data.Meta
	case x.elements != nil:
		return tensor.New(x.elements.dtype, x.elements.shape...)
	case x.v != nil:
		return x.v.Meta
	}
	return tensor.Meta{}
}

func (x *val) dtype() tensor.DType {
	if x.dynamic() && x.v.Meta.DType == tensor.Invalid {
		return x.outline.DType
	}
	return x.meta().DType
}

// dynamic reports whether the shape of x depends on data.
func (x *val) dynamic() bool { return x.data == nil && x.elements == nil && x.v != nil && x.v.Dynamic }

// recordType records dtype and rank of a value whose shape depends on data, if its op cannot infer them.
func (x *val) recordType(d tensor.DType, rank int) *val {
	x.outline.DType = d
	return x.ofRank(rank)
}

// sized is [val.recordType] with sizes instead of the rank. An unknown size is -1.
func (x *val) sized(d tensor.DType, sizes ...int) *val {
	x.outline = graph.Outline{DType: d, Sizes: append([]int{}, sizes...)}
	return x
}

// ofRank records the rank of a value whose shape depends on data. If rank is -1, it is unknown, and nothing changes.
func (x *val) ofRank(rank int) *val {
	if rank < 0 {
		return x
	}
	if x.outline.Sizes == nil || len(x.outline.Sizes) != rank {
		x.outline.Sizes = slices.Repeat([]int{-1}, rank)
	}
	return x
}

// ints returns the elements of an integer tensor.
func ints(t *tensor.Tensor) []int {
	out := make([]int, 0, t.Numel())
	src := t
	if t.DType != tensor.Int64 {
		src = t.CopyTo(tensor.New(tensor.Int64, t.Shape...))
	}
	list, _ := tensor.ToSlice[int64](src) // the dtype is right
	for _, x := range list {
		out = append(out, int(x))
	}
	return out
}

// intTensor returns a vector of int64.
func intTensor(list ...int) *tensor.Tensor {
	data := make([]int64, len(list))
	for i, x := range list {
		data[i] = int64(x)
	}
	return tensor.Must(tensor.FromSlice(data, len(data)))
}

// scalarOf returns the only element of a tensor as a plain number.
func scalarOf(t *tensor.Tensor) (tensor.Scalar, bool) {
	if t.Numel() != 1 {
		return tensor.Scalar{}, false
	}
	return t.At(make([]int, t.Rank())...), true
}
