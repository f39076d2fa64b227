package window

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type maxPool1dAttrs struct {
	KernelSize []int `attr:"kernel_size" len:"1" doc:"length of the window"`
	Stride     []int `attr:"stride" default:"" doc:"step of the window; default: kernel_size"`
	Padding    []int `attr:"padding" default:"0" doc:"ignored elements on both sides, or [begin, end]"`
	Dilation   []int `attr:"dilation" default:"1" len:"1" doc:"distance between elements of the window"`
	CeilMode   bool  `attr:"ceil_mode" default:"false" doc:"round the output size up, so that windows may reach past the end"`
}

type avgPool1dAttrs struct {
	KernelSize      []int `attr:"kernel_size" len:"1" doc:"length of the window"`
	Stride          []int `attr:"stride" default:"" doc:"step of the window; default: kernel_size"`
	Padding         []int `attr:"padding" default:"0" doc:"zeros on both sides, or [begin, end]"`
	Dilation        []int `attr:"dilation" default:"1" len:"1" doc:"distance between elements of the window; not in PyTorch"`
	CeilMode        bool  `attr:"ceil_mode" default:"false" doc:"round the output size up, so that windows may reach past the end"`
	CountIncludePad bool  `attr:"count_include_pad" default:"true" doc:"count the padding in the divisor"`
}

type adaptivePool1dAttrs struct {
	OutputSize []sym.Int `attr:"output_size" len:"1" doc:"length of the result"`
}

var pool1dExamples = []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3, 8)},
	Attrs: graph.Attrs{"kernel_size": 2}}}

// MaxPool1d takes the maximum of each window; the result is row-major.
var MaxPool1d = kit.Define[maxPool1dAttrs](maxPool1dVolume.extend(graph.Op{
	Semantics: graph.Semantics{
		Name:   "max_pool1d",
		Doc:    "Takes the maximum of each window of an operand [N, C, L] or [C, L]. The result is row-major.",
		Params: []graph.Param{kit.Self},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			t := c.Type(0)
			if r := t.Rank(); r != 2 && r != 3 || kit.Is(t.Shape[r-1], 0) || kit.Is(t.Shape[r-2], 0) {
				return nil, errors.New("max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for " +
					"input, but got:" + tensor.Sizes(t.Shape))
			}
			g, err := maxPool1dGeometry(c)
			if err != nil {
				return nil, err
			}
			n, err := g.size(1, t.Shape[t.Rank()-1])
			if err != nil {
				return nil, err
			}
			if kit.Negative(n) {
				return nil, fmt.Errorf("max_pool1d() Invalid computed output size: %v", n)
			}
			if !t.DType.IsFloat() {
				return nil, kit.NotImplementedBy("max_pool1d_impl", t.DType)
			}
			return c.One(tensor.NewType(t.DType, kit.With(t.Shape, t.Rank()-1, n)...)), nil
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			g, err := maxPool1dGeometry(c)
			if err != nil {
				return nil, err
			}
			n, err := g.size(1, sym.Of(in[0].Shape[in[0].Rank()-1]))
			if err != nil {
				return nil, err
			}
			return lineReference(in[0], kit.NumberOf(n), func(t *tensor.Tensor, shape []int) *tensor.Tensor {
				return maxPoolReference(t, shape, g.axes(t.Meta, tensor.New(t.DType, shape...), true))[0]
			}), nil
		},
		Examples: pool1dExamples,
	},
	Lowerings: graph.Lowerings{
		Impls: anyLayoutImpls(constDims(1), poolWork{poolMax, maxPool1dVolume.windowArea},
			maxPool1dVolume.lowerWith(func(c *graph.Call, by poolWalk) (*graph.Kernel, error) {
				g, err := maxPool1dGeometry(c)
				if err != nil {
					return nil, err
				}
				return newPool(c, by, g.axes(planar(c.Meta(0)), planar(c.Out[0]), true)[1:], maxPoolOp(c.Meta(0).DType, false))
			})),
	},
}))

func maxPool1dGeometry(c *graph.Call) (g poolGeometry, err error) {
	a := kit.Attrs[maxPool1dAttrs](c)
	k, dil := a.KernelSize[0], a.Dilation[0]
	s, err := stride1d("max_pool1d", a.Stride, k)
	if err == nil {
		err = checkOnePadding("max_pool1d", a.Padding)
	}
	if err != nil {
		return g, err
	}
	pad := a.Padding[0]
	switch {
	case k <= 0:
		err = fmt.Errorf("max_pool1d() kernel_size must be greater than zero, but got %d", k)
	case s <= 0:
		err = fmt.Errorf("max_pool1d() stride must be greater than zero, but got %d", s)
	case pad < 0:
		err = fmt.Errorf("max_pool1d() padding must be non-negative, but got %d", pad)
	case pad > k/2:
		err = fmt.Errorf("max_pool1d() padding should be at most half of kernel size, but got padding=%d and kernel_size=%d",
			pad, k)
	case dil <= 0:
		err = fmt.Errorf("max_pool1d() dilation must be greater than zero, but got %d", dil)
	}
	return line1d(k, s, pad, dil, a.CeilMode), err
}

func stride1d(name string, stride []int, kernel int) (int, error) {
	switch len(stride) {
	case 0:
		return kernel, nil
	case 1:
		return stride[0], nil
	}
	return 0, fmt.Errorf("%s() stride must be an int, list of ints or tuple of ints of size 1 but got size %d", name,
		len(stride))
}

// checkOnePadding rejects a padding of several numbers. Paddings of two numbers are handled before.
func checkOnePadding(name string, padding []int) error {
	if len(padding) != 1 {
		return fmt.Errorf("%s() argument 'padding' should contain one int (got %d)", name, len(padding))
	}
	return nil
}

// The poolings of sequences with asymmetric padding.
var (
	maxPool1dVolume = &volumePool{name: "max_pool1d", dims: 1, kind: poolMax, args: func(c *graph.Call) *poolArgs {
		a := kit.Attrs[maxPool1dAttrs](c)
		return &poolArgs{kernel: a.KernelSize, stride: a.Stride, padding: a.Padding, dilation: a.Dilation, ceil: a.CeilMode,
			include: true}
	}}
	avgPool1dVolume = &volumePool{name: "avg_pool1d", dims: 1, kind: poolAvg, args: func(c *graph.Call) *poolArgs {
		a := kit.Attrs[avgPool1dAttrs](c)
		return &poolArgs{kernel: a.KernelSize, stride: a.Stride, padding: a.Padding, dilation: a.Dilation, ceil: a.CeilMode,
			include: a.CountIncludePad}
	}}
)

// line1d returns the geometry of a window over sequences, as images of height 1.
func line1d(k, s, pad, dil int, ceil bool) poolGeometry {
	return poolGeometry{kernel: [2]int{1, k}, stride: [2]int{1, s}, padding: [2]int{0, pad}, dilation: [2]int{1, dil},
		ceil: ceil}
}

// planar returns m with a dimension of size 1 before its last one.
func planar(m tensor.Meta) tensor.Meta {
	p, err := m.Unsqueeze(-2)
	if err != nil {
		panic(err)
	}
	return p
}

func lineShape(m tensor.Meta, n int) []int {
	return append(append([]int{}, m.Shape[:m.Rank()-1]...), n)
}

// lineReference pools sequences as images of height 1.
func lineReference(t *tensor.Tensor, n int, f func(t *tensor.Tensor, shape []int) *tensor.Tensor) []*tensor.Tensor {
	p := tensor.Must(t.View(planar(t.Meta)))
	out := f(p, append(append([]int{}, p.Shape[:p.Rank()-1]...), n))
	return []*tensor.Tensor{tensor.Must(out.View(tensor.New(out.DType, lineShape(t.Meta, n)...)))}
}

// AvgPool1d averages each window.
var AvgPool1d = kit.Define[avgPool1dAttrs](avgPool1dVolume.extend(graph.Op{
	Semantics: graph.Semantics{
		Name:   "avg_pool1d",
		Doc:    "Averages each window of an operand [N, C, L] or [C, L].",
		Params: []graph.Param{kit.Self},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			t := c.Type(0)
			if err := check1d("avg_pool1d", t.Rank()); err != nil {
				return nil, err
			}
			g, err := avgPool1dGeometry(c)
			if err != nil {
				return nil, err
			}
			p := lineOf(t)
			shape, err := g.shape(p)
			if err != nil {
				return nil, err
			}
			if !t.DType.IsFloat() && t.DType != tensor.Int64 {
				return nil, poolDTypeError("avg_pool2d", p)
			}
			return squeezed(poolResults(c, p, shape, t.DType, false))
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			g, err := avgPool1dGeometry(c)
			if err != nil {
				return nil, err
			}
			n, err := g.size(1, sym.Of(in[0].Shape[in[0].Rank()-1]))
			if err != nil {
				return nil, err
			}
			return lineReference(in[0], kit.NumberOf(n), func(t *tensor.Tensor, shape []int) *tensor.Tensor {
				include := kit.Attrs[avgPool1dAttrs](c).CountIncludePad
				return avgPoolReference(t, shape, g.axes(t.Meta, tensor.New(t.DType, shape...), include), 0)
			}), nil
		},
		Examples: pool1dExamples,
	},
	Lowerings: graph.Lowerings{
		Impls: anyLayoutImpls(constDims(1), poolWork{poolAvg, avgPool1dVolume.windowArea},
			avgPool1dVolume.lowerWith(func(c *graph.Call, by poolWalk) (*graph.Kernel, error) {
				g, err := avgPool1dGeometry(c)
				if err != nil {
					return nil, err
				}
				include := kit.Attrs[avgPool1dAttrs](c).CountIncludePad
				return newPool(c, by, g.axes(planar(c.Meta(0)), planar(c.Out[0]), include)[1:], avgPoolOp(c.Meta(0).DType, 0))
			})),
	},
}))

func avgPool1dGeometry(c *graph.Call) (poolGeometry, error) {
	a := kit.Attrs[avgPool1dAttrs](c)
	s, err := stride1d("avg_pool1d", a.Stride, a.KernelSize[0])
	if err == nil {
		err = checkOnePadding("avg_pool1d", a.Padding)
	}
	if err != nil {
		return poolGeometry{}, err
	}
	return line1d(a.KernelSize[0], s, a.Padding[0], 1, a.CeilMode), err
}

// squeezed removes the dimension that planar adds.
func squeezed(res []graph.Result, err error) ([]graph.Result, error) {
	if err != nil {
		return nil, err
	}
	res[0].Type, err = res[0].Type.Squeeze(-2)
	return res, err
}

// AdaptiveAvgPool1d averages windows that divide the operand evenly among the results.
var AdaptiveAvgPool1d = kit.Define[adaptivePool1dAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:   "adaptive_avg_pool1d",
		Doc:    "Averages windows that divide an operand [N, C, L] or [C, L] evenly among output_size results.",
		Params: []graph.Param{kit.Self},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			t, n := c.Type(0), kit.Attrs[adaptivePool1dAttrs](c).OutputSize[0]
			if err := check1d("adaptive_avg_pool1d", t.Rank()); err != nil {
				return nil, err
			}
			return squeezed(inferAdaptiveTo(c, lineOf(t), [2]sym.Int{sym.Of(1), n}))
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			n := kit.NumberOf(kit.Attrs[adaptivePool1dAttrs](c).OutputSize[0])
			if t := in[0]; n == 1 && (t.DType.IsComplex() || t.Numel() == 0) {
				return lineMean(t.Meta).Reference(t), nil
			}
			return lineReference(in[0], n, func(t *tensor.Tensor, shape []int) *tensor.Tensor {
				return avgPoolReference(t, shape, adaptiveAxes(t.Meta, 1, n), 0)
			}), nil
		},
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3, 8)},
			Attrs: graph.Attrs{"output_size": 2}}},
	},
	Lowerings: graph.Lowerings{
		Impls: anyLayoutImpls(constDims(1), poolWork{poolAvg, adaptiveArea(constDims(1))},
			func(c *graph.Call, by poolWalk) (*graph.Kernel, error) {
				m := c.Meta(0)
				if c.Out[0].Numel() == 0 {
					return &graph.Kernel{}, nil
				}
				if m.DType.IsComplex() || m.Numel() == 0 {
					return lineMean(m).Compile(c)
				}
				return newPool(c, by, adaptiveAxes(m, c.Out[0].Shape[m.Rank()-1]), avgPoolOp(m.DType, 0))
			}),
	},
})

// lineMean returns the mean over the last dimension.
func lineMean(m tensor.Meta) *folds.Spec {
	mask := make([]bool, m.Rank())
	mask[m.Rank()-1] = true
	n := float64(m.Shape[m.Rank()-1])
	return &folds.Spec{Mask: mask, Keepdim: true, Cast: m.DType, Outs: []tensor.DType{m.DType},
		How: func() folds.How {
			return folds.How{Fold: func() *iter.Fold { return folds.Sum(m.DType, n) }, Ref: folds.RefSum(m.DType, n)}
		}}
}
