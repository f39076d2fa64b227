package convert

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/onnx/internal/modelfile"
	"github.com/graphrun/graphrun/onnx/internal/symbolic"
	"github.com/graphrun/graphrun/tensor"
)

// Value is a value of the model during its conversion. A tensor is a value of the graph (graphValue), a constant
// (data), or a small tensor computed from sizes (elements). A constant or computed tensor gets a graphValue when an op
// needs it in the graph.
type Value struct {
	name string // the name in the model
	kind valueKind

	graphValue  *graph.Value
	data        *tensor.Tensor
	elementType pb.DataType       // the element type of a weight, if package tensor has no dtype for it
	elements    *symbolic.Tensor  // a tensor computed from sizes
	addToGraph  func() *Value     // adds a tensor with elements to the graph
	outline     graph.PartialType // for a tensor whose shape depends on data: see shapes.go
	rounded     tensor.DType      // the 16-bit dtype that a float32 tensor stands for: see float32.go
	isWidened   bool              // whether the dtype is unknown, and is float32 where a 16-bit dtype is recorded

	hasStrings bool         // whether the elements are codes of strings: see strings.go
	labels     graph.Labels // the keys of maps

	// members are the known members of a sequence, the keys and the values of a map (mapKind), or the matrix of the
	// values of maps (mapsKind).
	members     []*Value
	packed      *packedSequence // a sequence with unknown members; nil if the members are known
	memberDType tensor.DType    // the declared dtype of the members of an empty sequence

	Note   any    // a fact that a converter records for the converters of later nodes
	source string // "initializer" or "input" if the value is unavailable and is not the result of a node
}

// valueKind is the kind of a value.
type valueKind uint8

const (
	tensorKind valueKind = iota
	sequenceKind
	mapKind           // a map: an input
	mapsKind          // a sequence of maps with the same keys: an output
	emptyOptionalKind // an optional without a value
	unavailableKind   // a value that could not be converted: see skipped.go
)

// String describes the kind in errors.
func (k valueKind) String() string {
	return [...]string{"a tensor", "a sequence", "a map", "a sequence of maps", "an optional without a value",
		"an unavailable value"}[k]
}

// Constant returns a tensor as a constant.
func Constant(t *tensor.Tensor) *Value { return &Value{data: t} }

// WeightValue returns tensor t of the message proto as a constant with the element type of the message.
func WeightValue(proto *pb.TensorProto, t *tensor.Tensor) *Value {
	weight := Constant(t)
	if modelfile.IsNarrow(pb.DataType(proto.DataType)) {
		weight.elementType = pb.DataType(proto.DataType)
	}
	weight.hasStrings = pb.DataType(proto.DataType) == pb.String
	return weight
}

// computedValue returns a tensor with the given elements. It is a constant if all elements are numbers. addToGraph adds
// the tensor to the graph.
func computedValue(elements *symbolic.Tensor, addToGraph func() *Value) *Value {
	if data := elements.Data(); data != nil {
		return Constant(data)
	}
	return &Value{elements: elements, addToGraph: addToGraph}
}

// sequenceOf returns a sequence with known members.
func sequenceOf(list []*Value) *Value { return &Value{members: list, kind: sequenceKind} }

// FromGraph returns a tensor that is a value of the graph.
func FromGraph(v *graph.Value) *Value { return &Value{graphValue: v} }

// Maps returns a sequence of maps. Only outputs of the model are sequences of maps. The rows of a matrix have the
// values of the maps. labels has the keys.
func Maps(matrix *Value, labels graph.Labels) *Value {
	return &Value{kind: mapsKind, members: []*Value{matrix}, labels: labels}
}

// Data returns the elements of a constant. The caller must not change them. It returns nil for any other value.
func (x *Value) Data() *tensor.Tensor { return x.data }

// Name returns the name of the value in the model.
func (x *Value) Name() string { return x.name }

// IsTensor reports whether the value is a tensor.
func (x *Value) IsTensor() bool { return x.kind == tensorKind }

// HasStrings reports whether the value is a tensor of strings, whose elements are codes: see strings.go.
func (x *Value) HasStrings() bool { return x.hasStrings }

// ElementType returns the element type of ONNX if no dtype corresponds to it (see [modelfile.IsNarrow]), otherwise
// Undefined.
func (x *Value) ElementType() pb.DataType { return x.elementType }

// WithElementType records an element type without a corresponding dtype, and returns the value.
func (x *Value) WithElementType(t pb.DataType) *Value {
	x.elementType = t
	return x
}

// GraphValue returns the value of the graph. It returns nil if the value is not yet in the graph.
func (x *Value) GraphValue() *graph.Value { return x.graphValue }

// Meta returns the meta of a tensor, at the example sizes of the symbols. Shape and strides are undefined if the shape
// depends on data.
func (x *Value) Meta() tensor.Meta {
	switch {
	case x.data != nil:
		return x.data.Meta
	case x.elements != nil:
		return tensor.New(x.elements.DType, x.elements.Shape...)
	case x.graphValue != nil:
		return x.graphValue.Meta
	}
	return tensor.Meta{}
}

// DType returns the dtype of a tensor, or Invalid if the dtype depends on data.
func (x *Value) DType() tensor.DType {
	if x.rounded != tensor.Invalid {
		return x.rounded
	}
	if x.IsDynamic() && x.graphValue.Meta.DType == tensor.Invalid {
		return x.outline.DType
	}
	return x.Meta().DType
}

// IsDynamic reports whether the shape of x depends on data.
func (x *Value) IsDynamic() bool {
	return x.data == nil && x.elements == nil && x.graphValue != nil && x.graphValue.Dynamic
}

// WithType records the dtype and the rank of a value whose shape depends on data, and returns the value. Converters
// call WithType if the op cannot infer dtype and rank. It has many callers, so it is not inlined, which saves compile
// time.
//
//go:noinline
func (x *Value) WithType(dtype tensor.DType, rank int) *Value {
	x.setDType(dtype)
	return x.WithRank(rank)
}

func (x *Value) setDType(dtype tensor.DType) {
	if dtype.IsReducedFloat() && (x.isWidened || x.rounded == dtype) {
		x.rounded, dtype = dtype, tensor.Float32
	}
	x.outline.DType = dtype
}

// WithSizes is [Value.WithType] with sizes in place of the rank. An unknown size is -1.
func (x *Value) WithSizes(dtype tensor.DType, sizes ...int) *Value {
	x.setDType(dtype)
	x.outline.Sizes = append([]int{}, sizes...)
	return x
}

// WithRank records the rank of a value whose shape depends on data, and returns the value. Rank -1 means unknown.
func (x *Value) WithRank(rank int) *Value {
	if rank < 0 {
		return x
	}
	if x.outline.Sizes == nil || len(x.outline.Sizes) != rank {
		x.outline.Sizes = slices.Repeat([]int{-1}, rank)
	}
	return x
}

// HasRank reports whether the rank is known.
func (x *Value) HasRank() bool { return !x.IsDynamic() || x.outline.Sizes != nil }

// SetSizes records the known sizes of a value whose shape depends on data. An unknown size is -1.
func (x *Value) SetSizes(sizes []int) { x.outline.Sizes = sizes }

// SetSize records one size of a value whose shape depends on data and whose rank is known.
func (x *Value) SetSize(i, size int) { x.outline.Sizes[i] = size }

// IntsOf returns the elements of an integer tensor.
func IntsOf(t *tensor.Tensor) []int {
	out := make([]int, 0, t.Numel())
	src := t
	if t.DType != tensor.Int64 {
		src = t.CopyTo(tensor.New(tensor.Int64, t.Shape...))
	}
	list, _ := tensor.ToSlice[int64](src) // the dtype matches
	for _, x := range list {
		out = append(out, SaturatedInt(x))
	}
	return out
}

// SaturatedInt converts x to the nearest int. If int has 32 bits, an index such as the end INT64_MAX of a Slice remains
// beyond all dimensions.
func SaturatedInt(x int64) int { return int(min(max(x, math.MinInt), math.MaxInt)) }

// IntVector returns a constant vector of int64. It is not inlined for the same reason as [Value.WithType].
//
//go:noinline
func IntVector(list ...int) *Value {
	data := make([]int64, len(list))
	for i, x := range list {
		data[i] = int64(x)
	}
	return Constant(tensor.Must(tensor.FromSlice(data, len(data))))
}

// FloatVector returns a constant vector of float32.
func FloatVector(list ...float64) *Value {
	data := make([]float32, len(list))
	for i, f := range list {
		data[i] = float32(f)
	}
	return Constant(tensor.Must(tensor.FromSlice(data, len(data))))
}

// scalarOf returns the only element of a tensor. It returns false if the tensor has another number of elements.
func scalarOf(t *tensor.Tensor) (tensor.Scalar, bool) {
	if t.Numel() != 1 {
		return tensor.Scalar{}, false
	}
	return t.At(make([]int, t.Rank())...), true
}
