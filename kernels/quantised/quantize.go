package quantised

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type quantizeAttrs struct {
	Axis      int          `attr:"axis" default:"1" doc:"dimension along which scales differ"`
	BlockSize int          `attr:"block_size" default:"0" doc:"elements along axis that share a scale; 0: a scale for each, or for all"`
	DType     tensor.DType `attr:"dtype" default:"none" doc:"dtype of the result where there is no zero_point; none: uint8"`
}

type dequantizeAttrs struct {
	Axis      int `attr:"axis" default:"1" doc:"dimension along which scales differ"`
	BlockSize int `attr:"block_size" default:"0" doc:"elements along axis that share a scale; 0: a scale for each, or for all"`
}

var (
	optZeroPoint = graph.Param{Name: "zero_point", Optional: true}
	scaleOperand = graph.Param{Name: "scale"}
)

// QuantizeLinear is ONNX's operator.
var QuantizeLinear = kit.Define[quantizeAttrs](graph.Op{
	AsInferred: "scales are applied to runs of a row-major value",
	Name:       "quantize_linear",
	Doc: "Divides input by scale, rounds half to even, adds zero_point and saturates to an integer dtype: that of " +
		"zero_point, or dtype. " +
		"scale and zero_point have one element, one for each index of axis, or the shape of input with axis cut into blocks.",
	Params: []graph.Param{kit.Input, scaleOperand, optZeroPoint},
	Infer: func(c *graph.Call) ([]graph.Result, error) {
		a, m := kit.Attrs[quantizeAttrs](c), c.Type(0)
		if err := checkScales(c, a.Axis, a.BlockSize); err != nil {
			return nil, fmt.Errorf("quantize_linear: %w", err)
		}
		if !quantFloat(m.DType) && m.DType != tensor.Int32 {
			return nil, kit.NotImplemented("quantize_linear", m.DType)
		}
		if !quantFloat(c.Type(1).DType) {
			return nil, kit.NotImplemented("quantize_linear", c.Type(1).DType)
		}
		d := quantDType(c, a.DType)
		if !quantServed(d) {
			return nil, kit.NotImplemented("quantize_linear", d)
		}
		return c.One(m.RowMajor().WithDType(d)), nil
	},
	Compile: func(c *graph.Call) (*graph.Kernel, error) {
		a := kit.Attrs[quantizeAttrs](c)
		q, err := quantPlace(c, a.Axis, a.BlockSize)
		if err != nil || c.Out[0].Numel() == 0 {
			return &graph.Kernel{}, err
		}
		x := copies.NewCompound(c)
		buffers := []kit.Buffer{x.Result(0, c.Out[0].DType), x.Dense(x.In(0), tensor.Float32),
			x.Dense(x.In(1), tensor.Float32), x.Dense(x.In(2), tensor.Int32)}
		x.Run(0, 0, buffers, quantizePhase(c.Out[0].DType, q, c.Out[0].Numel(), tensor.Numel(c.Meta(1).Shape)))
		return x.Kernel()
	},
	Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		a := kit.Attrs[quantizeAttrs](c)
		d := quantDType(c, a.DType)
		return quantReference(c, in, a.Axis, a.BlockSize, d, func(x, scale, zero float64) tensor.Scalar {
			return tensor.IntScalar(saturated(d, math.RoundToEven(float64(float32(x)/float32(scale)))+zero))
		})
	},
	Examples: []graph.Example{
		{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3), tensor.New(tensor.Float32)}},
		{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3).WithStrides([]int{1, 2}), tensor.New(tensor.Float32, 3),
			tensor.New(tensor.Int8, 3)}},
		{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 5), tensor.New(tensor.Float32, 2, 2),
			tensor.New(tensor.Int16, 2, 2)}, Attrs: graph.Attrs{"block_size": 3}},
	},
})

// DequantizeLinear is ONNX's operator.
var DequantizeLinear = kit.Define[dequantizeAttrs](graph.Op{
	AsInferred: "scales are applied to runs of a row-major value",
	Name:       "dequantize_linear",
	Doc: "Subtracts zero_point from integers and multiplies by scale; the result has the dtype of scale. " +
		"scale and zero_point have one element, one for each index of axis, or the shape of input with axis cut into blocks.",
	Params: []graph.Param{kit.Input, scaleOperand, optZeroPoint},
	Infer: func(c *graph.Call) ([]graph.Result, error) {
		a, m := kit.Attrs[dequantizeAttrs](c), c.Type(0)
		if err := checkScales(c, a.Axis, a.BlockSize); err != nil {
			return nil, fmt.Errorf("dequantize_linear: %w", err)
		}
		if !quantServed(m.DType) {
			return nil, kit.NotImplemented("dequantize_linear", m.DType)
		}
		if !quantFloat(c.Type(1).DType) {
			return nil, kit.NotImplemented("dequantize_linear", c.Type(1).DType)
		}
		return c.One(m.RowMajor().WithDType(c.Type(1).DType)), nil
	},
	Compile: func(c *graph.Call) (*graph.Kernel, error) {
		a, n := kit.Attrs[dequantizeAttrs](c), c.Out[0].Numel()
		q, err := quantPlace(c, a.Axis, a.BlockSize)
		if err != nil || n == 0 {
			return &graph.Kernel{}, err
		}
		x := copies.NewCompound(c)
		scales := c.Meta(1).Numel()
		buffers := []kit.Buffer{x.Result(0, tensor.Float32), x.Dense(x.In(0), tensor.Int32), x.Dense(x.In(1), tensor.Float32),
			x.Dense(x.In(2), tensor.Int32)}
		x.Run(0, 0, buffers, copies.CutUnits(n, 1, func(m *graph.Mem, begin, end int) error {
			y, v := kit.ElementsOf[float32](m.Ptrs[0], n), kit.ElementsOf[int32](m.Ptrs[1], n)
			scale, zero := kit.ElementsOf[float32](m.Ptrs[2], scales), kit.ElementsOf[int32](m.Ptrs[3], scales)
			for begin < end {
				to, at := q.Run(begin, end)
				s, z := scale[at], int64(0)
				if zero != nil {
					z = int64(zero[at])
				}
				for i := begin; i < to; i++ {
					y[i] = float32(int64(v[i])-z) * s
				}
				begin = to
			}
			return nil
		}))
		return x.Kernel()
	},
	Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		a := kit.Attrs[dequantizeAttrs](c)
		return quantReference(c, in, a.Axis, a.BlockSize, c.Meta(1).DType, func(x, scale, zero float64) tensor.Scalar {
			return tensor.FloatScalar((x - zero) * scale)
		})
	},
	Examples: []graph.Example{
		{In: []tensor.Meta{tensor.New(tensor.Int8, 2, 3), tensor.New(tensor.Float32)}},
		{In: []tensor.Meta{tensor.New(tensor.Uint8, 3, 2), tensor.New(tensor.Float16, 3), tensor.New(tensor.Uint8, 3)},
			Attrs: graph.Attrs{"axis": 0}},
	},
})

// quantDType is the dtype of a quantised result.
func quantDType(c *graph.Call, d tensor.DType) tensor.DType {
	switch {
	case c.Has(2):
		return c.Type(2).DType
	case d != tensor.Invalid:
		return d
	}
	return tensor.Uint8
}

func quantServed(d tensor.DType) bool {
	switch d {
	case tensor.Int8, tensor.Uint8, tensor.Int16, tensor.Uint16, tensor.Int32:
		return true
	}
	return false
}

// checkScales checks the shapes of scale and zero point.
func checkScales(c *graph.Call, axis, block int) error {
	t, s := c.Type(0), c.Type(1)
	if z := c.Type(2); c.Has(2) && (z.Numel().Ne(s.Numel()).Holds() || z.Rank() != s.Rank() && !kit.IsOne(c, 1)) {
		return fmt.Errorf("zero_point has shape %s, scale %s", tensor.Sizes(z.Shape), tensor.Sizes(s.Shape))
	}
	if block == 0 && kit.IsOne(c, 1) {
		return nil
	}
	d, err := tensor.WrapDim(axis, t.Rank())
	if err != nil {
		return err
	}
	if t.Rank() == 0 {
		return errors.New("a 0-dim input has one scale")
	}
	want := []sym.Int{t.Shape[d]}
	if block > 0 {
		want = slices.Clone(t.Shape)
		want[d] = t.Shape[d].Add(sym.Of(block - 1)).Div(sym.Of(block))
	}
	if block < 0 || !tensor.SameSizes(s.Shape, want) {
		return fmt.Errorf("expected scale to have shape %s, but got %s", tensor.Sizes(want), tensor.Sizes(s.Shape))
	}
	return nil
}

// quantPlace tells where the scales and zero points lie.
func quantPlace(c *graph.Call, axis, block int) (*kit.AxisIndex, error) {
	m := c.Meta(0)
	if err := checkScales(c, axis, block); err != nil {
		return nil, err
	}
	if block == 0 && c.Meta(1).Numel() == 1 {
		return &kit.AxisIndex{Inner: max(m.Numel(), 1), N: 1}, nil
	}
	d, err := tensor.WrapDim(axis, m.Rank())
	if err != nil {
		return nil, err
	}
	return &kit.AxisIndex{Inner: tensor.Numel(m.Shape[d+1:]), N: m.Shape[d], Block: block}, nil
}

// quantizePhase quantises n float32 elements at operand 1 by the scales at 2 and the zero
// points at 3.
func quantizePhase(d tensor.DType, q *kit.AxisIndex, n, scales int) graph.Phase {
	switch d {
	case tensor.Int8:
		return quantizeInto[int8](q, n, scales, math.MinInt8, math.MaxInt8)
	case tensor.Uint8:
		return quantizeInto[uint8](q, n, scales, 0, math.MaxUint8)
	case tensor.Int16:
		return quantizeInto[int16](q, n, scales, math.MinInt16, math.MaxInt16)
	case tensor.Uint16:
		return quantizeInto[uint16](q, n, scales, 0, math.MaxUint16)
	}
	return quantizeInto[int32](q, n, scales, math.MinInt32, math.MaxInt32)
}

func quantizeInto[T quantInt](q *kit.AxisIndex, n, scales int, least, most float64) graph.Phase {
	return copies.CutUnits(n, 1, func(m *graph.Mem, begin, end int) error {
		y, v := kit.ElementsOf[T](m.Ptrs[0], n), kit.ElementsOf[float32](m.Ptrs[1], n)
		scale, zero := kit.ElementsOf[float32](m.Ptrs[2], scales), kit.ElementsOf[int32](m.Ptrs[3], scales)
		for begin < end {
			to, at := q.Run(begin, end)
			s, z := scale[at], 0.0
			if zero != nil {
				z = float64(zero[at])
			}
			for i := begin; i < to; i++ {
				y[i] = clipTo[T](math.RoundToEven(float64(v[i]/s))+z, least, most)
			}
			begin = to
		}
		return nil
	})
}

// quantReference applies f to each element with its scale and zero point.
func quantReference(c *graph.Call, in []*tensor.Tensor, axis, block int, d tensor.DType,
	f func(x, scale, zero float64) tensor.Scalar) ([]*tensor.Tensor, error) {
	if _, err := quantPlace(c, axis, block); err != nil {
		return nil, err
	}
	x := in[0]
	out := tensor.Zeros(d, x.Shape...)
	one := in[1].Numel() == 1 && block == 0
	kit.EachIndex(x.Shape, func(index []int) {
		var at []int
		switch {
		case one:
			at = make([]int, in[1].Rank())
		case block > 0:
			at = append(at, index...)
			at[(axis+len(at))%len(at)] /= block
		default:
			at = []int{index[(axis+x.Rank())%x.Rank()]}
		}
		zero := 0.0
		if len(in) > 2 && in[2] != nil {
			z := at
			if one {
				z = make([]int, in[2].Rank())
			}
			zero = in[2].At(z...).Float()
		}
		out.Set(f(x.At(index...).Float(), in[1].At(at...).Float(), zero), index...)
	})
	return []*tensor.Tensor{out}, nil
}

// DynamicQuantizeLinear is ONNX's operator.
var DynamicQuantizeLinear = kit.Define[kit.None](graph.Op{
	AsInferred: "scales are applied to runs of a row-major value",
	Name:       "dynamic_quantize_linear",
	Doc: "Quantises float32 to uint8 by a scale and zero point that cover its range and 0; gives the " +
		"three of them.",
	Params:  []graph.Param{kit.Input},
	Outputs: []string{"y", "y_scale", "y_zero_point"},
	Infer: func(c *graph.Call) ([]graph.Result, error) {
		m := c.Type(0)
		if m.DType != tensor.Float32 {
			return nil, kit.NotImplemented("dynamic_quantize_linear", m.DType)
		}
		fresh := func(d tensor.DType, shape ...sym.Int) graph.Result {
			return graph.Result{Type: tensor.NewType(d, shape...), Alias: graph.Fresh}
		}
		return []graph.Result{fresh(tensor.Uint8, m.Shape...), fresh(tensor.Float32), fresh(tensor.Uint8)}, nil
	},
	Compile: compileDynamicQuantize,
	Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		least, most := 0.0, 0.0
		kit.EachIndex(in[0].Shape, func(index []int) {
			v := in[0].At(index...).Float()
			least, most = min(least, v), max(most, v)
		})
		y, s, z := tensor.Zeros(tensor.Uint8, in[0].Shape...), tensor.Zeros(tensor.Float32), tensor.Zeros(tensor.Uint8)
		scale, zero := rangeScale(float32(least), float32(most))
		s.Set(tensor.FloatScalar(float64(scale)))
		z.Set(tensor.IntScalar(int64(zero)))
		kit.EachIndex(in[0].Shape, func(index []int) {
			q := math.RoundToEven(float64(float32(in[0].At(index...).Float()) / scale))
			y.Set(tensor.IntScalar(saturated(tensor.Uint8, q+float64(zero))), index...)
		})
		return []*tensor.Tensor{y, s, z}, nil
	},
	Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 3, 4).WithStrides([]int{1, 3})}}},
})

// rangeScale is the scale and zero point of uint8 values from least to most.
func rangeScale(least, most float32) (scale float32, zero int32) {
	if scale = (most - least) / 255; scale == 0 {
		scale = 1
	}
	return scale, int32(clipTo[uint8](math.RoundToEven(float64(-least/scale)), 0, 255))
}

func compileDynamicQuantize(c *graph.Call) (*graph.Kernel, error) {
	x := copies.NewCompound(c)
	n := c.Meta(0).Numel()
	from := x.Dense(x.In(0), tensor.Float32)
	chunks := kit.DivUp(n, machine.MoveGrain)
	ranges, zero := x.Temp(tensor.Float32, chunks, 2), x.Temp(tensor.Int32, 1)
	scale, point := x.Result(1, tensor.Float32), x.Result(2, tensor.Uint8)
	x.Run(0, 0, []kit.Buffer{ranges, from}, graph.Phase{Chunks: chunks, Run: func(m *graph.Mem, chunk int) error {
		r := kit.ElementsOf[[2]float32](m.Ptrs[0], chunks)
		least, most := float32(0), float32(0)
		for _, v := range kit.ElementsOf[float32](m.Ptrs[1],
			n)[chunk*machine.MoveGrain : min(n, (chunk+1)*machine.MoveGrain)] {
			least, most = min(least, v), max(most, v)
		}
		r[chunk] = [2]float32{least, most}
		return nil
	}})
	x.Run(0, 0, []kit.Buffer{ranges, scale, point, zero}, graph.Phase{Chunks: 1, Run: func(m *graph.Mem, _ int) error {
		least, most := float32(0), float32(0)
		for _, r := range kit.ElementsOf[[2]float32](m.Ptrs[0], chunks) {
			least, most = min(least, r[0]), max(most, r[1])
		}
		s, z := rangeScale(least, most)
		*(*float32)(m.Ptrs[1]), *(*uint8)(m.Ptrs[2]), *(*int32)(m.Ptrs[3]) = s, uint8(z), z
		return nil
	}})
	if n > 0 {
		x.Run(0, 0, []kit.Buffer{x.Result(0, tensor.Uint8), from, scale, zero},
			quantizeInto[uint8](&kit.AxisIndex{Inner: n, N: 1}, n, 1, 0, math.MaxUint8))
	}
	return x.Kernel()
}
