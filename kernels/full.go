package kernels

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// cTypes are the C++ names of dtypes in PyTorch's messages about numbers.
var cTypes = map[tensor.DType]string{
	tensor.Bool: "bool", tensor.Uint8: "uint8_t", tensor.Int8: "int8_t", tensor.Int16: "int16_t", tensor.Int32: "int",
	tensor.Int64: "int64_t", tensor.Uint16: "uint16_t", tensor.Uint32: "uint32_t", tensor.Uint64: "uint64_t",
	tensor.Float16: "at::Half", tensor.BFloat16: "at::BFloat16", tensor.Float32: "float", tensor.Float64: "double",
	tensor.Complex64: "c10::complex<float>", tensor.Complex128: "c10::complex<double>",
}

// limits are the least and greatest values of dtypes that not every number fits.
var limits = map[tensor.DType][2]float64{
	tensor.Uint8: {-255, 255}, tensor.Int8: {-128, 127}, tensor.Int16: {-32768, 32767},
	tensor.Int32: {math.MinInt32, math.MaxInt32}, tensor.Int64: {math.MinInt64, math.MaxInt64},
	tensor.Uint16: {-65535, 65535}, tensor.Uint32: {-math.MaxUint32, math.MaxUint32}, tensor.Uint64: {-math.MaxUint64, math.MaxUint64},
	tensor.Float16: {-65504, 65504}, tensor.BFloat16: {-0x1.fep127, 0x1.fep127}, tensor.Float32: {-math.MaxFloat32, math.MaxFloat32},
}

// numberFits refuses a number that its dtype cannot hold (c10::checked_convert): the fraction
// of a float may go, and a negative integer may wrap in an unsigned dtype.
func numberFits(s tensor.Scalar, d tensor.DType) error {
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

// fillOp defines an op that fills fresh memory with a number. kind says where, value what.
func fillOp[A any](o graph.Op, kind func(c *graph.Call) (tensor.Type, error), value func(c *graph.Call) tensor.Scalar) *graph.Op {
	o.Infer = func(c *graph.Call) ([]graph.Result, error) {
		t, err := kind(c)
		if err == nil {
			err = numberFits(value(c), t.DType)
		}
		return graph.New1(t), err
	}
	o.Compile = func(c *graph.Call) (*graph.Kernel, error) {
		return copyKernel(copyJob{dst: outSide(c, 0), fill: value(c).Tensor(c.Out[0].DType)})
	}
	o.Ref = func(c *graph.Call, _ []*tensor.Tensor) ([]*tensor.Tensor, error) {
		t, err := kind(c)
		if err != nil {
			return nil, err
		}
		out := tensor.Zeros(t.DType, numbersOf(t.Shape)...)
		eachIndex(out.Shape, func(index []int) { out.Set(value(c), index...) })
		return []*tensor.Tensor{out}, nil
	}
	return define[A](o)
}

// freshType is [fresh] for sizes that may be unknown. It keeps size.
func freshType(d tensor.DType, size []sym.Int) (tensor.Type, error) {
	for _, s := range size {
		if negative(s) {
			return tensor.Type{}, fmt.Errorf("Trying to create tensor with negative dimension %v: %s", s, tensor.Sizes(size))
		}
	}
	t := tensor.Type{DType: d, Shape: size, Strides: make([]sym.Int, len(size))}
	if t.Shape == nil {
		t.Shape = []sym.Int{}
	}
	if err := t.Check(); err != nil {
		return t, err
	}
	t.Strides = tensor.RowMajor(t.Shape)
	return t, nil
}

type fullAttrs struct {
	Size      []sym.Int     `attr:"size" doc:"sizes of the result"`
	FillValue tensor.Scalar `attr:"fill_value" doc:"the number"`
	DType     tensor.DType  `attr:"dtype" default:"none" doc:"dtype of the result; none: bool, int64, float32 or complex64 after the number"`
}

// Full is torch.full.
var Full = fillOp[fullAttrs](graph.Op{
	Name:     "full",
	Doc:      "Makes a value of one number everywhere.",
	Examples: []graph.Example{{Attrs: graph.Attrs{"size": []int{2, 3}, "fill_value": 1.5}}},
}, func(c *graph.Call) (tensor.Type, error) {
	a := attrs[fullAttrs](c)
	d := a.DType
	if d == tensor.Invalid {
		d = numberDType(a.FillValue)
	}
	return freshType(d, a.Size)
}, func(c *graph.Call) tensor.Scalar { return attrs[fullAttrs](c).FillValue })

// numberDType is the dtype of a tensor made of a plain number: the default dtype of its
// kind.
func numberDType(s tensor.Scalar) tensor.DType {
	var p tensor.Promotion
	p.AddNumber(s)
	d, _ := p.Result() // one operand promotes with itself
	return d
}

type newAttrs struct {
	Size  []sym.Int    `attr:"size" doc:"sizes of the result"`
	DType tensor.DType `attr:"dtype" default:"float32" doc:"dtype of the result"`
}

// Zeros and Ones are torch.zeros and torch.ones.
var (
	Zeros = constantOp("zeros", "Makes a value of zeros.", 0)
	Ones  = constantOp("ones", "Makes a value of ones.", 1)
)

func constantOp(name, doc string, v int64) *graph.Op {
	return fillOp[newAttrs](graph.Op{Name: name, Doc: doc, Examples: []graph.Example{{Attrs: graph.Attrs{"size": []int{2, 3}}}}},
		func(c *graph.Call) (tensor.Type, error) {
			a := attrs[newAttrs](c)
			if a.DType == tensor.Invalid { // null
				return freshType(tensor.Float32, a.Size)
			}
			return freshType(a.DType, a.Size)
		}, func(*graph.Call) tensor.Scalar { return tensor.IntScalar(v) })
}

type fullLikeAttrs struct {
	FillValue    tensor.Scalar       `attr:"fill_value" doc:"the number"`
	DType        tensor.DType        `attr:"dtype" default:"none" doc:"dtype of the result; none: self's"`
	MemoryFormat tensor.MemoryFormat `attr:"memory_format" default:"preserve" doc:"layout of the result"`
}

type likeAttrs struct {
	DType        tensor.DType        `attr:"dtype" default:"none" doc:"dtype of the result; none: self's"`
	MemoryFormat tensor.MemoryFormat `attr:"memory_format" default:"preserve" doc:"layout of the result"`
}

// FullLike, ZerosLike and OnesLike fill a value of the shape of another.
var (
	FullLike = fillOp[fullLikeAttrs](graph.Op{
		Name:     "full_like",
		Doc:      "Makes a value of one number everywhere, with the shape, dtype and layout of self.",
		Params:   []graph.Param{self},
		Examples: oneExample(nhwc(2, 3, 4, 5), graph.Attrs{"fill_value": 1.5}),
	}, func(c *graph.Call) (tensor.Type, error) {
		a := attrs[fullLikeAttrs](c)
		return likeOf(c.Type(0), a.DType, a.MemoryFormat)
	}, func(c *graph.Call) tensor.Scalar { return attrs[fullLikeAttrs](c).FillValue })
	ZerosLike = constantLike("zeros_like", "Makes a value of zeros, with the shape, dtype and layout of self.", 0)
	OnesLike  = constantLike("ones_like", "Makes a value of ones, with the shape, dtype and layout of self.", 1)
)

func constantLike(name, doc string, v int64) *graph.Op {
	return fillOp[likeAttrs](graph.Op{Name: name, Doc: doc, Params: []graph.Param{self}, Examples: oneExample(nhwc(2, 3, 4, 5), nil)},
		func(c *graph.Call) (tensor.Type, error) {
			a := attrs[likeAttrs](c)
			return likeOf(c.Type(0), a.DType, a.MemoryFormat)
		}, func(*graph.Call) tensor.Scalar { return tensor.IntScalar(v) })
}

// likeOf is empty_like.
func likeOf(t tensor.Type, d tensor.DType, f tensor.MemoryFormat) (tensor.Type, error) {
	if d != tensor.Invalid {
		t = t.WithDType(d)
	}
	return like(t, f)
}
