package onnx

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// val is what a name of the model stands for: a value of the graph, known data, which
// becomes a constant of the graph only if an op takes it, or a sequence of these.
type val struct {
	name string
	v    *graph.Value
	data *tensor.Tensor
	// elements are what is known of integers that are computed from sizes: see arithmetic.go. Such a value is one
	// of the graph only if an op takes it.
	elements *entries
	list     []*val       // the members of a sequence
	packed   *packed      // a sequence with unknown members; it has no list
	member   tensor.DType // of an empty sequence, if it is stated
	kind     valKind
	// outline is what is known of a value whose shape depends on data.
	outline graph.Outline
	// lack is what a lost val of no node is: an initializer or an input.
	lack string
}

// valKind tells what a val is.
type valKind uint8

// A missing val is an optional without a value. A lost one cannot be had: see some.go.
const (
	isTensor valKind = iota
	isSequence
	isMissing
	isLost
)

// known wraps data.
func known(t *tensor.Tensor) *val { return &val{data: t} }

// sequence wraps members.
func sequence(list []*val) *val { return &val{list: list, kind: isSequence} }

// meta returns dtype and shape; shape and strides mean nothing for a value that is
// dynamic.
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

// dynamic reports whether only the dtype is known before the graph runs.
func (x *val) dynamic() bool { return x.data == nil && x.elements == nil && x.v != nil && x.v.Dynamic }

// as notes what is known of a value whose shape depends on data, where its op cannot tell.
func (x *val) as(d tensor.DType, rank int) *val {
	x.outline.DType = d
	return x.ofRank(rank)
}

// sized is as for a value of which some sizes are known, -1 standing for the others.
func (x *val) sized(d tensor.DType, sizes ...int) *val {
	x.outline = graph.Outline{DType: d, Sizes: append([]int{}, sizes...)}
	return x
}

// ofRank notes the number of dimensions of such a value; -1 adds nothing to what the op
// tells.
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
