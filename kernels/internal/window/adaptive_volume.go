package window

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type adaptiveVolumeAttrs struct {
	OutputSize []sym.Int `attr:"output_size" doc:"sizes of the result"`
}

// Adaptive poolings of volumes and sequences.
var (
	AdaptiveAvgPool3d = adaptiveVolumeOp("adaptive_avg_pool3d", "Averages windows that divide an operand "+
		"[N, C, D, H, W] or [C, D, H, W] evenly among output_size results.", 3, poolAvg)
	AdaptiveMaxPool3d = adaptiveVolumeOp("adaptive_max_pool3d", "Takes the maximum, and its index in the "+
		"volume, of windows that divide the operand evenly among output_size results.", 3, poolMax)
	AdaptiveMaxPool1d = adaptiveVolumeOp("adaptive_max_pool1d", "Takes the maximum, and its index in the sequence, "+
		"of windows that divide the operand evenly among output_size results.", 1, poolMax)
)

func adaptiveVolumeOp(name, doc string, dims int, kind poolKind) *graph.Op {
	var outputs []string
	if kind == poolMax {
		outputs = []string{"out", "indices"}
	}
	return kit.Define[adaptiveVolumeAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc, Params: []graph.Param{kit.Self}, Outputs: outputs,
			Infer: func(c *graph.Call) ([]graph.Result, error) { return inferAdaptiveVolume(name, dims, kind, c) },
			Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				sizes, err := adaptiveVolumeShape(name, dims, kind, c)
				if err != nil {
					return nil, err
				}
				if in[0].DType.IsComplex() {
					return adaptiveMean(in[0].Meta, dims).Reference(in[0]), nil
				}
				shape := kit.NumbersOf(sizes)
				lead := in[0].Rank() - dims
				return volumeReference(in[0], shape, dims, kind, nil, len(outputs) > 1, func(d, o int) (_ int, at []int, _ int) {
					n, results := in[0].Shape[lead+d], shape[lead+d]
					for i := range n {
						// Element i belongs to the window of result o if their intervals of length 1/n and 1/results overlap.
						if i*results < (o+1)*n && (i+1)*results > o*n {
							at = append(at, i)
						}
					}
					return at[0], at, len(at)
				}), nil
			},
			Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, []int{2, 3, 5, 4, 6}[:2+dims]...)},
				Attrs: graph.Attrs{"output_size": []int{2, 3, 1}[:dims]}}},
		},
		Lowerings: graph.Lowerings{
			Impls: anyLayoutImpls(constDims(dims), poolWork{kind, adaptiveArea(constDims(dims))},
				func(c *graph.Call, by poolWalk) (*graph.Kernel, error) {
					m := c.Meta(0)
					if m.DType.IsComplex() {
						return adaptiveMean(m, dims).Compile(c)
					}
					if c.Out[0].Numel() == 0 {
						return &graph.Kernel{}, nil
					}
					return volumeKernel(c, by, kind, &poolArgs{}, adaptiveAxes(m, c.Out[0].Shape[m.Rank()-dims:]...))
				}),
		},
	})
}

// inferAdaptiveVolume returns row-major results for volumes; sequences get the layout of images of height 1.
func inferAdaptiveVolume(name string, dims int, kind poolKind, c *graph.Call) ([]graph.Result, error) {
	shape, err := adaptiveVolumeShape(name, dims, kind, c)
	if err != nil {
		return nil, err
	}
	t := c.Type(0)
	// For a single result element PyTorch takes the mean, which also supports complex numbers.
	mean := kind == poolAvg && dims == 3 && kit.Is(tensor.Product(shape[len(shape)-dims:]), 1)
	if !t.DType.IsFloat() && !(mean && t.DType.IsComplex()) {
		if dims == 1 {
			return nil, kit.NotImplementedBy("adaptive_max_pool2d", t.DType)
		}
		return nil, kit.NotImplementedBy(name+"_cpu", t.DType)
	}
	out, err := kit.FreshType(t.DType, shape)
	if err != nil {
		return nil, err
	}
	if dims == 1 {
		out, err = likeLine(t, out)
	}
	if kind == poolMax {
		return kit.WithIndices(c, out), err
	}
	return c.One(out), err
}

// adaptiveVolumeShape checks a call and returns the shape of the result.
func adaptiveVolumeShape(name string, dims int, kind poolKind, c *graph.Call) ([]sym.Int, error) {
	t, size := c.Type(0), kit.Attrs[adaptiveVolumeAttrs](c).OutputSize
	if len(size) != dims {
		switch {
		case dims == 1:
			return nil, fmt.Errorf("%s() argument 'output_size' should contain one int (got %d)", name, len(size))
		case kind == poolMax:
			return nil, fmt.Errorf("%s(): internal error: output_size.size() must be %d", name, dims)
		}
		return nil, fmt.Errorf("%s: output_size must be %d", name, dims)
	}
	for _, n := range size {
		if kit.Negative(n) {
			return nil, fmt.Errorf("%s: elements of output_size must be greater than or equal to 0 but received {%s}",
				"adaptive_avg_pool2d", strings.Trim(tensor.Sizes(size), "[]"))
		}
	}
	lead := t.Rank() - dims
	if lead != 1 && lead != 2 {
		if dims == 1 {
			return nil, check1d(name, t.Rank())
		}
		return nil, fmt.Errorf("%s(): Expected %dD or %dD tensor, but got: %s", name, dims+1, dims+2, tensor.Sizes(t.Shape))
	}
	for d := lead - 1; d < t.Rank(); d++ {
		if d > 0 && kit.Is(t.Shape[d], 0) {
			in := t
			if dims == 1 {
				name, in, d = "adaptive_max_pool2d", lineOf(t), d+d/lead
			}
			return nil, fmt.Errorf("%s(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "+
				"%s with dimension %d being empty",
				name, tensor.Sizes(in.Shape), d)
		}
	}
	return kit.With(t.Shape, lead, size...), nil
}
