package reduce

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type hardmaxAttrs struct {
	Dim int `attr:"dim" default:"-1" doc:"dimension along which one element is 1"`
}

// Hardmax is ONNX's operator.
var Hardmax = kit.Define[hardmaxAttrs](graph.Op{
	AnyOrder: true,
	Name:     "hardmax",
	Doc: "Gives 1 at the first greatest element along a dimension and 0 elsewhere. Supports floats only; the " +
		"result is row-major.",
	Params: []graph.Param{kit.Self},
	Infer: func(c *graph.Call) ([]graph.Result, error) {
		m := c.Type(0)
		if _, err := tensor.WrapDim(kit.Attrs[hardmaxAttrs](c).Dim, m.Rank()); err != nil {
			return nil, err
		}
		if !m.DType.IsFloat() {
			return nil, kit.NotImplemented("hardmax", m.DType)
		}
		return c.One(m.RowMajor()), nil
	},
	Compile: func(c *graph.Call) (*graph.Kernel, error) {
		if c.Out[0].Numel() == 0 {
			return &graph.Kernel{}, nil
		}
		if c.Out[0].DType.OpMath() == tensor.Float32 {
			return compileHardmax[float32](c)
		}
		return compileHardmax[float64](c)
	},
	Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		x := in[0]
		out := tensor.Zeros(x.DType, x.Shape...)
		if x.Rank() == 0 {
			out.Set(tensor.IntScalar(1))
			return []*tensor.Tensor{out}, nil
		}
		d, err := tensor.WrapDim(kit.Attrs[hardmaxAttrs](c).Dim, x.Rank())
		kit.EachIndex(x.Shape, func(index []int) {
			best, at := x.At(index...).Float(), append([]int{}, index...)
			for i := range x.Shape[d] {
				if at[d] = i; i < index[d] && x.At(at...).Float() >= best || x.At(at...).Float() > best {
					return
				}
			}
			out.Set(tensor.IntScalar(1), index...)
		})
		return []*tensor.Tensor{out}, err
	},
	Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 3, 4)}},
		{In: []tensor.Meta{kit.ExTurned}, Attrs: graph.Attrs{"dim": 0}}},
})

// compileHardmax looks for the greatest element line by line, in a worker's memory.
func compileHardmax[T float32 | float64](c *graph.Call) (*graph.Kernel, error) {
	d, m, out := tensor.DTypeOf[T](), c.Meta(0), c.Out[0]
	n, dim := 1, 0
	if m.Rank() > 0 {
		var err error
		if dim, err = tensor.WrapDim(kit.Attrs[hardmaxAttrs](c).Dim, m.Rank()); err != nil {
			return nil, err
		}
		n = m.Shape[dim]
	}
	l := kit.NewLineSet(m.Shape, dim, m, out)
	load, from, to := tensor.Converter(d, m.DType), kit.StepAt(m, dim), kit.StepAt(out, dim)
	zero, one := tensor.Zeros(out.DType).Pointer(), tensor.IntScalar(1).Tensor(out.DType).Pointer()
	move := tensor.Converter(out.DType, out.DType)
	return &graph.Kernel{Worker: n * d.Size(), Phases: []graph.Phase{l.Phase(2*n, func(mem *graph.Mem, off [4]int) error {
		x := kit.SliceOf[T](mem.Worker, 0, n)
		load(unsafe.Pointer(unsafe.SliceData(x)), unsafe.Add(mem.Ptrs[1], off[0]), d.Size(), from, n)
		best := 0
		for i, v := range x {
			if v > x[best] {
				best = i
			}
		}
		y := unsafe.Add(mem.Ptrs[0], off[1])
		move(y, zero, to, 0, n)
		move(unsafe.Add(y, best*to), one, 0, 0, 1)
		return nil
	})}}, nil
}
