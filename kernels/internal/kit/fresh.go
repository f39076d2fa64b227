package kit

import (
	"context"
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// LikeType returns the type of the result of empty_like for the operand t and the memory format f. The format Preserve
// keeps the strides of t if t is non-overlapping and dense. Otherwise it keeps only the order of t's dimensions.
func LikeType(t tensor.Type, f tensor.MemoryFormat) (tensor.Type, error) {
	if f == tensor.Preserve {
		return rule.PreserveType(t), nil
	}
	return tensor.NewTypeFormat(t.DType, t.Shape, f)
}

// cTypes are the C++ names of dtypes in PyTorch's messages about numbers that overflow.
var cTypes = map[tensor.DType]string{
	tensor.Bool: "bool", tensor.Uint8: "uint8_t", tensor.Int8: "int8_t", tensor.Int16: "int16_t", tensor.Int32: "int",
	tensor.Int64: "int64_t", tensor.Uint16: "uint16_t", tensor.Uint32: "uint32_t", tensor.Uint64: "uint64_t",
	tensor.Float16: "at::Half", tensor.BFloat16: "at::BFloat16", tensor.Float32: "float", tensor.Float64: "double",
	tensor.Complex64: "c10::complex<float>", tensor.Complex128: "c10::complex<double>",
}

// limits are the bounds within which NumberFits accepts a number. The lower bound of an unsigned dtype is negative,
// because negative integers wrap in PyTorch. Dtypes without an entry accept every number.
var limits = map[tensor.DType][2]float64{
	tensor.Uint8: {-255, 255}, tensor.Int8: {-128, 127}, tensor.Int16: {-32768, 32767},
	tensor.Int32: {math.MinInt32, math.MaxInt32}, tensor.Int64: {math.MinInt64, math.MaxInt64},
	tensor.Uint16: {-65535, 65535}, tensor.Uint32: {-math.MaxUint32, math.MaxUint32},
	tensor.Uint64:  {-math.MaxUint64, math.MaxUint64},
	tensor.Float16: {-65504, 65504}, tensor.BFloat16: {-0x1.fep127, 0x1.fep127},
	tensor.Float32: {-math.MaxFloat32, math.MaxFloat32},
}

// NumberFits fails if dtype d cannot hold the number s (c10::checked_convert). The fraction of a float is ignored, and
// a negative integer may wrap in an unsigned dtype.
func NumberFits(s tensor.Scalar, d tensor.DType) error {
	if d == tensor.Bool {
		return nil
	}
	bad := !d.IsComplex() && imag(s.Complex()) != 0
	parts := []float64{s.Float()}
	if d.IsComplex() {
		parts = append(parts, imag(s.Complex()))
	}
	lim, bounded := limits[d.ToReal()]
	if !d.IsSigned() && !s.DType().IsIntegral(true) {
		lim[0] = 0
	}
	for _, f := range parts {
		switch {
		case !bounded:
		case math.IsNaN(f) || math.IsInf(f, 0):
			bad = bad || d.IsIntegral(false)
		default:
			bad = bad || f < lim[0] || f > lim[1]
		}
	}
	if bad {
		return fmt.Errorf("value cannot be converted to type %s without overflow", cTypes[d])
	}
	return nil
}

// NumberOrSizeFits is [NumberFits] for a number or an unknown size. For an unknown size it adds guards.
func NumberOrSizeFits(n graph.NumberOrSize, d tensor.DType) error {
	if n.Number.IsSet() {
		return NumberFits(n.Number, d)
	}
	lim, bounded := limits[d.ToReal()]
	if !bounded || lim[1] >= math.MaxInt64 || d == tensor.Bool {
		return nil
	}
	if n.Size.Ge(sym.Of(int(lim[0]))).Holds() && n.Size.Le(sym.Of(int(lim[1]))).Holds() {
		return nil
	}
	return fmt.Errorf("value cannot be converted to type %s without overflow", cTypes[d])
}

// FreshType returns the row-major type of new memory with user-given sizes. It keeps a reference to size.
func FreshType(d tensor.DType, size []sym.Int) (tensor.Type, error) {
	return FreshIn(d, size, tensor.Contiguous)
}

// FreshIn is [FreshType] with a memory format.
func FreshIn(d tensor.DType, size []sym.Int, f tensor.MemoryFormat) (tensor.Type, error) {
	for _, s := range size {
		if Negative(s) {
			return tensor.Type{}, fmt.Errorf("Trying to create tensor with negative dimension %v: %s", s, tensor.Sizes(size))
		}
	}
	if err := tensor.CheckSizes(d, size); err != nil {
		return tensor.Type{}, err
	}
	if size == nil {
		size = []sym.Int{}
	}
	return tensor.NewTypeFormat(d, size, f)
}

// WithIndices returns the results of an op that computes values of type t and their int64 indices. Both results have
// the same layout.
func WithIndices(c *graph.Call, t tensor.Type) []graph.Result {
	return c.All(t, t.WithDType(tensor.Int64))
}

// SumType returns the type of a + b for the parts of a complex convolution, which have the same shape.
func SumType(a, b tensor.Type) tensor.Type {
	r, err := rule.Binary(rule.Undefined(), rule.OfType(a), rule.OfType(b)).Rule()
	if err != nil {
		panic("kernels: parts of a complex convolution have one shape: " + err.Error())
	}
	return r.Type(0)
}

// RowMajorAs returns the elements of t in row-major order with the given shape. It is a view of t if t is contiguous,
// else a copy.
func RowMajorAs(ctx context.Context, t *tensor.Tensor, shape ...int) (*tensor.Tensor, error) {
	if !t.IsContiguous() {
		t = CopyTo(ctx, t, tensor.New(t.DType, t.Shape...))
	}
	m := tensor.New(t.DType, shape...)
	m.Offset = t.Offset
	return t.View(m)
}

// InferWithLayout returns the Infer function of an op that computes the loop p but chooses the layout of its result.
// layout returns the type of the result. Its dtype is replaced by the dtype that the loop computes.
func InferWithLayout(p *graph.Pointwise, layout func(c *graph.Call) (tensor.Type,
	error)) func(*graph.Call) ([]graph.Result,
	error) {
	return func(c *graph.Call) ([]graph.Result, error) {
		res, err := p.Infer(c)
		if err != nil {
			return nil, err
		}
		t, err := layout(c)
		if err != nil {
			return nil, err
		}
		return c.One(t.WithDType(res[0].Type.DType)), nil
	}
}

// LaidOutType returns the type of the first result of an iteration. Its layout follows from PyTorch's permutation rule
// (package rule). The dtypes of the operands may differ.
func LaidOutType(c rule.Config) (tensor.Type, error) {
	r, err := c.CheckAllSameDType(false).Rule()
	if err != nil {
		return tensor.Type{}, err
	}
	return r.Type(0), nil
}
