package onnx

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// val is a value of the model during its conversion. A tensor is a value of the graph (graphValue), a constant (data),
// or a small tensor computed from sizes (elements). A constant or computed tensor gets a graphValue when an op needs it
// in the graph.
type val struct {
	name string // the name in the model
	kind valKind

	graphValue *graph.Value
	data       *tensor.Tensor
	narrow     pb.DataType   // the element type of a weight if the type has no dtype: see narrow.go
	elements   *symElements  // see symelements.go
	outline    graph.Outline // the known dtype and sizes of a tensor whose shape depends on data

	isText bool         // whether the elements are codes of strings: see texts.go
	labels graph.Labels // the keys of maps

	// members are the members of a sequence, if they are known; the keys and the values of a map (mapKind); or the
	// values of maps (mapsKind).
	members     []*val
	packed      *packedSequence // a sequence with unknown members; nil if the members are known
	memberDType tensor.DType    // the declared dtype of the members of an empty sequence

	source string // "initializer" or "input" if the value is unavailable and is not the result of a node
}

// valKind is the kind of a val.
type valKind uint8

const (
	tensorKind valKind = iota
	sequenceKind
	mapKind           // a map: an input
	mapsKind          // a sequence of maps with the same keys: an output
	emptyOptionalKind // an optional without a value
	unavailableKind   // a value that could not be converted: see skipped.go
)

// String describes the kind in errors.
func (k valKind) String() string {
	return [...]string{"a tensor", "a sequence", "a map", "a sequence of maps", "an optional without a value",
		"an unavailable value"}[k]
}

func constValue(t *tensor.Tensor) *val { return &val{data: t} }

func weightValue(proto *pb.TensorProto, t *tensor.Tensor) *val {
	weight := constValue(t)
	if isNarrow(pb.DataType(proto.DataType)) {
		weight.narrow = pb.DataType(proto.DataType)
	}
	weight.isText = pb.DataType(proto.DataType) == pb.String
	return weight
}

// sequence returns a sequence with known members.
func sequence(list []*val) *val { return &val{members: list, kind: sequenceKind} }

// meta returns the meta of a tensor, at the hints. Shape and strides are undefined if the shape depends on data.
func (x *val) meta() tensor.Meta {
	switch {
	case x.data != nil:
		return x.data.Meta
	case x.elements != nil:
		return tensor.New(x.elements.dtype, x.elements.shape...)
	case x.graphValue != nil:
		return x.graphValue.Meta
	}
	return tensor.Meta{}
}

// dtype returns the dtype of a tensor, or Invalid if the dtype depends on data.
func (x *val) dtype() tensor.DType {
	if x.isDynamic() && x.graphValue.Meta.DType == tensor.Invalid {
		return x.outline.DType
	}
	return x.meta().DType
}

// isDynamic reports whether the shape of x depends on data.
func (x *val) isDynamic() bool {
	return x.data == nil && x.elements == nil && x.graphValue != nil && x.graphValue.Dynamic
}

// withType records the dtype and the rank of a value whose shape depends on data, and returns the value. Converters
// call it if the op cannot infer dtype and rank.
//
//go:noinline
func (x *val) withType(dtype tensor.DType, rank int) *val {
	x.outline.DType = dtype
	return x.withRank(rank)
}

// withSizes is [val.withType] with sizes in place of the rank. An unknown size is -1.
func (x *val) withSizes(dtype tensor.DType, sizes ...int) *val {
	x.outline = graph.Outline{DType: dtype, Sizes: append([]int{}, sizes...)}
	return x
}

// withRank records the rank of a value whose shape depends on data, and returns the value. Rank -1 means unknown.
func (x *val) withRank(rank int) *val {
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
	list, _ := tensor.ToSlice[int64](src) // the dtype matches
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

// scalarOf returns the only element of a tensor. It returns false if the tensor has another number of elements.
func scalarOf(t *tensor.Tensor) (tensor.Scalar, bool) {
	if t.Numel() != 1 {
		return tensor.Scalar{}, false
	}
	return t.At(make([]int, t.Rank())...), true
}
