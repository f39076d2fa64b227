package window

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type avgPool3dAttrs struct {
	KernelSize      []int `attr:"kernel_size" doc:"depth, height and width of the window"`
	Stride          []int `attr:"stride" default:"" doc:"steps of the window; default: kernel_size"`
	Padding         []int `attr:"padding" default:"0" doc:"zeros on both sides of each dimension, or all begins and then all ends"`
	Dilation        []int `attr:"dilation" default:"1" doc:"distance between elements of the window; not in PyTorch"`
	CeilMode        bool  `attr:"ceil_mode" default:"false" doc:"round the output size up, so that windows may reach past the end"`
	CountIncludePad bool  `attr:"count_include_pad" default:"true" doc:"count the padding in the divisor"`
	DivisorOverride *int  `attr:"divisor_override" default:"none" range:"int64" doc:"divisor to use instead of the size of the window"`
}

type lpPoolAttrs struct {
	KernelSize []int   `attr:"kernel_size" doc:"sizes of the window, one for each pooled dimension"`
	Stride     []int   `attr:"stride" default:"" doc:"steps of the window; default: kernel_size"`
	Padding    []int   `attr:"padding" default:"0" doc:"ignored elements on both sides of each dimension, or all begins and then all ends"`
	Dilation   []int   `attr:"dilation" default:"1" doc:"distance between elements of the window"`
	CeilMode   bool    `attr:"ceil_mode" default:"false" doc:"round the output size up, so that windows may reach past the end"`
	NormType   float64 `attr:"norm_type" default:"2" doc:"the p of the p-norm"`
}

// Max poolings of volumes, and of sequences with indices.
var (
	MaxPool3d = maxVolumeOp("max_pool3d", "Takes the maximum of each window of an operand [N, C, D, H, W] or "+
		"[C, D, H, W]; the result is row-major.",
		3, nil)
	MaxPool3dWithIndices = maxVolumeOp("max_pool3d_with_indices", "Takes the maximum of each window of an "+
		"operand [N, C, D, H, W] or [C, D, H, W], and its index in the volume.",
		3, []string{"out", "indices"})
	MaxPool1dWithIndices = maxVolumeOp("max_pool1d_with_indices", "Takes the maximum of each window of an "+
		"operand [N, C, L] or [C, L], and its index in the sequence.",
		1, []string{"out", "indices"})
)

func maxVolumeOp(name, doc string, dims int, outputs []string) *graph.Op {
	message := name
	if dims == 3 {
		message = "max_pool3d"
	}
	p := &volumePool{name: message, dims: dims, kind: poolMax, args: func(c *graph.Call) *poolArgs {
		return kit.Attrs[maxPoolAttrs](c).args()
	}}
	shape := []int{2, 2, 5, 6, 4}[:2+dims]
	return kit.Define[maxPoolAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc, Params: []graph.Param{kit.Self}, Outputs: outputs,
			Infer: func(c *graph.Call) ([]graph.Result, error) { return p.infer(c, outputs != nil) },
			Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				return p.ref(c, in, outputs != nil)
			},
			Examples: []graph.Example{
				{In: []tensor.Meta{tensor.New(tensor.Float32, shape...)},
					Attrs: graph.Attrs{"kernel_size": 2, "stride": 1, "padding": 1}},
				{In: []tensor.Meta{tensor.New(tensor.Int8, shape...)},
					Attrs: graph.Attrs{"kernel_size": 2, "padding": append(make([]int, dims), []int{1, 1, 1}[:dims]...)}},
			},
		},
		Lowerings: graph.Lowerings{
			Impls: anyLayoutImpls(constDims(dims), poolWork{poolMax, p.windowArea}, p.compile),
		},
	})
}

var avgPool3d = &volumePool{name: "avg_pool3d", dims: 3, kind: poolAvg, args: func(c *graph.Call) *poolArgs {
	a := kit.Attrs[avgPool3dAttrs](c)
	return &poolArgs{kernel: a.KernelSize, stride: a.Stride, padding: a.Padding, dilation: a.Dilation, ceil: a.CeilMode,
		include: a.CountIncludePad, divisor: a.DivisorOverride}
}}

// AvgPool3d averages each window of a volume. Sums are float64, or in the compute dtype for small windows; sums of
// int64 are int64.
var AvgPool3d = kit.Define[avgPool3dAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "avg_pool3d",
		Doc: "Averages each window of an operand [N, C, D, H, W] or [C, D, H, W]; the result is row-major. int64 is " +
			"the only supported integer dtype.",
		Params: []graph.Param{kit.Self},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			if d := kit.Attrs[avgPool3dAttrs](c).DivisorOverride; d != nil && *d == 0 {
				return nil, errors.New("divisor must be not zero")
			}
			return avgPool3d.infer(c, false)
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			return avgPool3d.ref(c, in, false)
		},
		Examples: []graph.Example{
			{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3, 4, 5, 6)}, Attrs: graph.Attrs{"kernel_size": 2}},
			{In: []tensor.Meta{tensor.New(tensor.Float32, 3, 4, 5, 6).WithStrides([]int{1, 3, 12, 60})},
				Attrs: graph.Attrs{"kernel_size": 3, "stride": 2, "padding": []int{0, 1, 1, 1, 0, 1}, "count_include_pad": false}},
		},
	},
	Lowerings: graph.Lowerings{
		Impls: anyLayoutImpls(constDims(3), poolWork{poolAvg, avgPool3d.windowArea}, avgPool3d.compile),
	},
})

// lpPool returns the pooling of a call of lp_pool.
func lpPool(c *graph.Call) *volumePool {
	a := kit.Attrs[lpPoolAttrs](c)
	return &volumePool{name: "lp_pool", dims: len(a.KernelSize), kind: poolNorm, args: func(*graph.Call) *poolArgs {
		return &poolArgs{kernel: a.KernelSize, stride: a.Stride, padding: a.Padding, dilation: a.Dilation, ceil: a.CeilMode,
			norm: a.NormType}
	}}
}

// LpPool is the p-norm of each window, as ONNX defines it: of absolute values, ignoring padding.
var LpPool = kit.Define[lpPoolAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:   "lp_pool",
		Doc:    "Takes the p-norm of each window over the last len(kernel_size) dimensions, 1 to 3.",
		Params: []graph.Param{kit.Self},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			a := kit.Attrs[lpPoolAttrs](c)
			if n := len(a.KernelSize); n < 1 || n > 3 {
				return nil, fmt.Errorf("lp_pool: kernel_size must have 1 to 3 numbers, but got %d", n)
			}
			if a.NormType <= 0 {
				return nil, fmt.Errorf("lp_pool: norm_type must be positive, but got %v", a.NormType)
			}
			return lpPool(c).infer(c, false)
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			return lpPool(c).ref(c, in, false)
		},
		Examples: []graph.Example{
			{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3, 5, 6)},
				Attrs: graph.Attrs{"kernel_size": []int{2, 3}, "padding": []int{0, 1, 1, 0}}},
			{In: []tensor.Meta{tensor.New(tensor.Float64, 2, 3, 7)}, Attrs: graph.Attrs{"kernel_size": 3, "norm_type": 3}},
		},
	},
	Lowerings: graph.Lowerings{
		Impls: anyLayoutImpls(func(c *graph.Call) int { return len(kit.Attrs[lpPoolAttrs](c).KernelSize) },
			poolWork{poolNorm, func(c *graph.Call) float64 { return lpPool(c).windowArea(c) }},
			func(c *graph.Call, by poolWalk) (*graph.Kernel, error) { return lpPool(c).compile(c, by) }),
	},
})

func (a *maxPoolAttrs) args() *poolArgs {
	return &poolArgs{kernel: a.KernelSize, stride: a.Stride, padding: a.Padding, dilation: a.Dilation, ceil: a.CeilMode,
		include: true}
}
