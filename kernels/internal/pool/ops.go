package pool

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Ops returns the ops of this package.
func Ops() []*graph.Op {
	return []*graph.Op{
		AdaptiveAvgPool2d, AdaptiveMaxPool2d,
		AdaptiveAvgPool3d, AdaptiveMaxPool3d, AdaptiveMaxPool1d,
		AvgPool2d,
		MaxPool2d, MaxPool2dWithIndices,
		MaxUnpool1d, MaxUnpool2d, MaxUnpool3d,
		MaxPool1d, AvgPool1d, AdaptiveAvgPool1d,
		MaxPool3d, MaxPool3dWithIndices, MaxPool1dWithIndices, AvgPool3d, LpPool,
	}
}

// define defines a pooling with attributes A, which have a method args. p.name is the name of the op in PyTorch's
// errors. The result of a pooling of images (dims 2) has the operand's memory format, so that implementations read and
// write in the same order.
func define[A any](name string, p pooling, doc string, examples ...graph.Example) *graph.Op {
	p.args = func(c *graph.Call) callAttrs { return c.Attrs.(interface{ args() callAttrs }).args() }
	op := graph.Op{Semantics: graph.Semantics{Name: name, Doc: doc, Examples: examples}}
	op.Parallel = kit.LoopsExceptLast(p.dims)
	if p.dims == 2 {
		op.Kind, op.ImageRole = graph.RequiresLayout, graph.ImageOp
	}
	if p.returnsIndices {
		op.Outputs = []string{"out", "indices"}
	}
	return kit.Define[A](withPooling(op, func(*graph.Call) *pooling { return &p }))
}

// withPooling completes op with the operand, the reference and the implementations of a pooling. If op has no
// inference, it also adds inference. poolingOf returns the pooling of a call.
func withPooling(op graph.Op, poolingOf func(c *graph.Call) *pooling) graph.Op {
	op.Params = []graph.Param{kit.Self}
	if op.Infer == nil {
		op.Infer = func(c *graph.Call) ([]graph.Result, error) { return poolingOf(c).infer(c) }
	}
	op.Ref = func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		return poolingOf(c).reference(c, in)
	}
	op.Impls = implementations(poolingOf, op.Kind == graph.RequiresLayout)
	return op
}

// Max poolings take the maximum of each window. NaN propagates.
var (
	MaxPool1d = define[*maxPool1dAttrs]("max_pool1d", pooling{name: "max_pool1d", dims: 1, kind: reduceMax},
		"Returns the maximum of each window of self [N, C, L] or [C, L]. The result is row-major.",
		rowMajorExample(graph.Attrs{"kernel_size": 2}, 2, 3, 8))
	MaxPool1dWithIndices = define[*maxPoolAttrs]("max_pool1d_with_indices",
		pooling{name: "max_pool1d_with_indices", dims: 1, kind: reduceMax, returnsIndices: true},
		"Returns the maximum of each window of self [N, C, L] or [C, L], and its index in the sequence.",
		maxExamples(2, 2, 5)...)
	MaxPool2d = define[*maxPoolAttrs]("max_pool2d", pooling{name: "max_pool2d", dims: 2, kind: reduceMax},
		"Returns the maximum of each window of self [N, C, H, W] or [C, H, W]. The result has the memory format "+
			"that the strides of self suggest.", imageExamples(graph.Attrs{"kernel_size": []int{2, 2}})...)
	MaxPool2dWithIndices = define[*maxPoolAttrs]("max_pool2d_with_indices",
		pooling{name: "max_pool2d", dims: 2, kind: reduceMax, returnsIndices: true},
		"Returns the maximum of each window and its index in the plane. The results have the memory format that "+
			"the strides of self suggest.", imageExamples(graph.Attrs{"kernel_size": []int{2, 2}})...)
	MaxPool3d = define[*maxPoolAttrs]("max_pool3d", pooling{name: "max_pool3d", dims: 3, kind: reduceMax},
		"Returns the maximum of each window of self [N, C, D, H, W] or [C, D, H, W]; the result is row-major.",
		maxExamples(2, 2, 5, 6, 4)...)
	MaxPool3dWithIndices = define[*maxPoolAttrs]("max_pool3d_with_indices",
		pooling{name: "max_pool3d", dims: 3, kind: reduceMax, returnsIndices: true},
		"Returns the maximum of each window of self [N, C, D, H, W] or [C, D, H, W], and its index in the volume.",
		maxExamples(2, 2, 5, 6, 4)...)
)

// Average poolings average each window. Sums of floats have dtype float64 or, for small windows, the compute dtype.
// Sums of int64 have dtype int64.
var (
	AvgPool1d = define[*avgPool1dAttrs]("avg_pool1d", pooling{name: "avg_pool1d", dims: 1, kind: reduceAvg},
		"Averages each window of self [N, C, L] or [C, L].", rowMajorExample(graph.Attrs{"kernel_size": 2}, 2, 3, 8))
	AvgPool2d = define[*avgPoolAttrs]("avg_pool2d", pooling{name: "avg_pool2d", dims: 2, kind: reduceAvg},
		"Averages each window of self [N, C, H, W] or [C, H, W]. int64 is the only supported integer dtype. The "+
			"result has the memory format that the strides of self suggest.",
		imageExamples(graph.Attrs{"kernel_size": []int{2, 2}})...)
	AvgPool3d = define[*avgPoolAttrs]("avg_pool3d", pooling{name: "avg_pool3d", dims: 3, kind: reduceAvg},
		"Averages each window of self [N, C, D, H, W] or [C, D, H, W]; the result is row-major. int64 is the only "+
			"supported integer dtype.",
		rowMajorExample(graph.Attrs{"kernel_size": 2}, 2, 3, 4, 5, 6),
		graph.Example{In: []tensor.Meta{tensor.New(tensor.Float32, 3, 4, 5, 6).WithStrides([]int{1, 3, 12, 60})},
			Attrs: graph.Attrs{"kernel_size": 3, "stride": 2, "padding": []int{0, 1, 1, 1, 0, 1}, "count_include_pad": false}})
)

// Adaptive average poolings average windows that divide the operand evenly among the results.
var (
	AdaptiveAvgPool1d = define[*adaptivePool1dAttrs]("adaptive_avg_pool1d",
		pooling{name: "adaptive_avg_pool1d", dims: 1, kind: reduceAvg, isAdaptive: true},
		"Averages windows that divide self [N, C, L] or [C, L] evenly among `output_size` results.",
		rowMajorExample(graph.Attrs{"output_size": 2}, 2, 3, 8))
	AdaptiveAvgPool2d = define[*adaptivePoolAttrs]("adaptive_avg_pool2d",
		pooling{name: "adaptive_avg_pool2d", dims: 2, kind: reduceAvg, isAdaptive: true},
		"Averages windows that divide self [N, C, H, W] or [C, H, W] evenly among `output_size` results. The "+
			"result has the memory format that the strides of self suggest.",
		imageExamples(graph.Attrs{"output_size": []int{2, 2}})...)
	AdaptiveAvgPool3d = define[*adaptivePoolAttrs]("adaptive_avg_pool3d",
		pooling{name: "adaptive_avg_pool3d", dims: 3, kind: reduceAvg, isAdaptive: true},
		"Averages windows that divide self [N, C, D, H, W] or [C, D, H, W] evenly among `output_size` results.",
		rowMajorExample(graph.Attrs{"output_size": []int{2, 3, 1}}, 2, 3, 5, 4, 6))
)

// Adaptive max poolings take the maximum of windows that divide the operand evenly among the results, and its index.
var (
	AdaptiveMaxPool1d = define[*adaptivePoolAttrs]("adaptive_max_pool1d",
		pooling{name: "adaptive_max_pool1d", dims: 1, kind: reduceMax, returnsIndices: true, isAdaptive: true},
		"Returns the maximum, and its index in the sequence, of windows that divide self evenly among "+
			"`output_size` results.", rowMajorExample(graph.Attrs{"output_size": []int{2}}, 2, 3, 5))
	AdaptiveMaxPool2d = define[*adaptivePoolAttrs]("adaptive_max_pool2d",
		pooling{name: "adaptive_max_pool2d", dims: 2, kind: reduceMax, returnsIndices: true, isAdaptive: true},
		"Returns the maximum, and its index in the plane, of windows that divide self evenly among `output_size` "+
			"results. Both results have the memory format that the strides of self suggest.",
		imageExamples(graph.Attrs{"output_size": []int{2, 2}})...)
	AdaptiveMaxPool3d = define[*adaptivePoolAttrs]("adaptive_max_pool3d",
		pooling{name: "adaptive_max_pool3d", dims: 3, kind: reduceMax, returnsIndices: true, isAdaptive: true},
		"Returns the maximum, and its index in the volume, of windows that divide self evenly among `output_size` "+
			"results.", rowMajorExample(graph.Attrs{"output_size": []int{2, 3, 1}}, 2, 3, 5, 4, 6))
)

// LpPool is the p-norm of each window. As in ONNX, norms are of absolute values and ignore padding.
var LpPool = kit.Define[*lpPoolAttrs](withPooling(graph.Op{
	Semantics: graph.Semantics{
		Name: "lp_pool",
		Doc: "Takes the p-norm of each window over the last n dimensions, where n is the length of `kernel_size`, " +
			"1 to 3. `norm_type` is p.",
		Infer: inferLpPool,
		Examples: []graph.Example{
			rowMajorExample(graph.Attrs{"kernel_size": []int{2, 3}, "padding": []int{0, 1, 1, 0}}, 2, 3, 5, 6),
			{In: []tensor.Meta{tensor.New(tensor.Float64, 2, 3, 7)},
				Attrs: graph.Attrs{"kernel_size": 3, "norm_type": 3}},
		},
	},
	Facts: graph.Facts{Parallel: func(c *graph.Call) []graph.Parallel {
		return kit.LoopsExceptLast(len(kit.Attrs[*lpPoolAttrs](c).KernelSize))(c)
	}},
}, lpPool))

func inferLpPool(c *graph.Call) ([]graph.Result, error) {
	attrs := kit.Attrs[*lpPoolAttrs](c)
	if dims := len(attrs.KernelSize); dims < 1 || dims > 3 {
		return nil, fmt.Errorf("lp_pool: kernel_size must have 1 to 3 numbers, but got %d", dims)
	}
	if attrs.NormType <= 0 {
		return nil, fmt.Errorf("lp_pool: norm_type must be positive, but got %v", attrs.NormType)
	}
	return lpPool(c).infer(c)
}

// lpPool returns the pooling of a call of lp_pool. The length of kernel_size is the number of pooled dimensions.
func lpPool(c *graph.Call) *pooling {
	attrs := kit.Attrs[*lpPoolAttrs](c)
	return &pooling{name: "lp_pool", dims: len(attrs.KernelSize), kind: reduceNorm,
		args: func(*graph.Call) callAttrs { return attrs.args() }}
}

// InIntegers converts the attributes of call, a max_pool2d on floats, for an operand of the integer type dtype. The
// converted attributes give the same windows. The padding has ONNX's form, which integers require: [top, left, bottom,
// right]. InIntegers returns false if call is nil or not a max_pool2d of a rank-4 operand. It also returns false if
// inference with dtype fails or gives another shape.
func InIntegers(call *graph.Call, dtype tensor.DType) (graph.Attrs, bool) {
	if call == nil || len(call.Out) != 1 || call.Type(0).Rank() != 4 {
		return nil, false
	}
	attrs, ok := call.Attrs.(*maxPoolAttrs)
	if !ok {
		return nil, false
	}
	padding := attrs.Padding
	switch len(padding) {
	case 1:
		padding = slices.Repeat(padding, 4)
	case 2:
		padding = slices.Repeat(padding, 2)
	}
	intAttrs := graph.Attrs{"kernel_size": attrs.KernelSize, "stride": attrs.Stride, "padding": padding,
		"dilation": attrs.Dilation, "ceil_mode": attrs.CeilMode}
	decoded, err := MaxPool2d.Schema.Decode(intAttrs, nil)
	if err != nil {
		return nil, false
	}
	inferred, err := kit.InferredType(MaxPool2d, decoded, tensor.NewType(dtype, call.Type(0).Shape...))
	return intAttrs, err == nil && tensor.SameSizes(inferred.Shape, call.Out[0].Type().Shape)
}

type maxPoolAttrs struct {
	KernelSize []int `attr:"kernel_size" doc:"sizes of the window"`
	Stride     []int `attr:"stride" default:"" doc:"steps of the window; default: kernel_size"`
	Padding    []int `attr:"padding" default:"0" doc:"ignored elements before and after each dimension; twice as many numbers are those before all dimensions, then those after all dimensions"`
	Dilation   []int `attr:"dilation" default:"1" doc:"distance between elements of the window"`
	CeilMode   bool  `attr:"ceil_mode" default:"false" doc:"round the output size up, so that windows may reach past the end"`
}

type maxPool1dAttrs struct {
	KernelSize []int `attr:"kernel_size" len:"1" doc:"length of the window"`
	Stride     []int `attr:"stride" default:"" doc:"step of the window; default: kernel_size"`
	Padding    []int `attr:"padding" default:"0" doc:"ignored elements on both sides, or [begin, end]"`
	Dilation   []int `attr:"dilation" default:"1" len:"1" doc:"distance between elements of the window"`
	CeilMode   bool  `attr:"ceil_mode" default:"false" doc:"round the output size up, so that windows may reach past the end"`
}

type avgPoolAttrs struct {
	KernelSize      []int `attr:"kernel_size" doc:"sizes of the window"`
	Stride          []int `attr:"stride" default:"" doc:"steps of the window; default: kernel_size"`
	Padding         []int `attr:"padding" default:"0" doc:"zeros before and after each dimension; twice as many numbers are those before all dimensions, then those after all dimensions"`
	Dilation        []int `attr:"dilation" default:"1" doc:"distance between elements of the window; not in PyTorch"`
	CeilMode        bool  `attr:"ceil_mode" default:"false" doc:"round the output size up, so that windows may reach past the end"`
	CountIncludePad bool  `attr:"count_include_pad" default:"true" doc:"count the padding in the divisor"`
	DivisorOverride *int  `attr:"divisor_override" default:"none" range:"int64" doc:"divisor to use instead of the size of the window"`
}

type avgPool1dAttrs struct {
	KernelSize      []int `attr:"kernel_size" len:"1" doc:"length of the window"`
	Stride          []int `attr:"stride" default:"" doc:"step of the window; default: kernel_size"`
	Padding         []int `attr:"padding" default:"0" doc:"zeros on both sides, or [begin, end]"`
	Dilation        []int `attr:"dilation" default:"1" len:"1" doc:"distance between elements of the window; not in PyTorch"`
	CeilMode        bool  `attr:"ceil_mode" default:"false" doc:"round the output size up, so that windows may reach past the end"`
	CountIncludePad bool  `attr:"count_include_pad" default:"true" doc:"count the padding in the divisor"`
}

type lpPoolAttrs struct {
	KernelSize []int   `attr:"kernel_size" doc:"sizes of the window, one for each pooled dimension"`
	Stride     []int   `attr:"stride" default:"" doc:"steps of the window; default: kernel_size"`
	Padding    []int   `attr:"padding" default:"0" doc:"ignored elements before and after each dimension; twice as many numbers are those before all dimensions, then those after all dimensions"`
	Dilation   []int   `attr:"dilation" default:"1" doc:"distance between elements of the window"`
	CeilMode   bool    `attr:"ceil_mode" default:"false" doc:"round the output size up, so that windows may reach past the end"`
	NormType   float64 `attr:"norm_type" default:"2" doc:"the p of the p-norm"`
}

type adaptivePoolAttrs struct {
	OutputSize []sym.Int `attr:"output_size" doc:"sizes of the result"`
}

type adaptivePool1dAttrs struct {
	OutputSize []sym.Int `attr:"output_size" len:"1" doc:"length of the result"`
}

// The methods args convert the attributes of an op to callAttrs, the attributes of all poolings.

func (attrs *maxPoolAttrs) args() callAttrs {
	return callAttrs{kernel: attrs.KernelSize, stride: attrs.Stride, padding: attrs.Padding, dilation: attrs.Dilation,
		ceilMode: attrs.CeilMode}
}

func (attrs *maxPool1dAttrs) args() callAttrs { return (*maxPoolAttrs)(attrs).args() }

func (attrs *avgPoolAttrs) args() callAttrs {
	return callAttrs{kernel: attrs.KernelSize, stride: attrs.Stride, padding: attrs.Padding, dilation: attrs.Dilation,
		ceilMode: attrs.CeilMode, countPadding: attrs.CountIncludePad, divisor: attrs.DivisorOverride}
}

func (attrs *avgPool1dAttrs) args() callAttrs {
	return callAttrs{kernel: attrs.KernelSize, stride: attrs.Stride, padding: attrs.Padding, dilation: attrs.Dilation,
		ceilMode: attrs.CeilMode, countPadding: attrs.CountIncludePad}
}

func (attrs *lpPoolAttrs) args() callAttrs {
	return callAttrs{kernel: attrs.KernelSize, stride: attrs.Stride, padding: attrs.Padding, dilation: attrs.Dilation,
		ceilMode: attrs.CeilMode, exponent: attrs.NormType}
}

func (attrs *adaptivePoolAttrs) args() callAttrs { return callAttrs{output: attrs.OutputSize} }

func (attrs *adaptivePool1dAttrs) args() callAttrs { return callAttrs{output: attrs.OutputSize} }

// rowMajorExample returns a call of a pooling with a row-major float32 operand.
func rowMajorExample(attrs graph.Attrs, shape ...int) graph.Example {
	return graph.Example{In: []tensor.Meta{tensor.New(tensor.Float32, shape...)}, Attrs: attrs}
}

// imageExamples returns calls with a row-major and with a channels-last operand.
func imageExamples(attrs graph.Attrs) []graph.Example {
	channelsLast := tensor.New(tensor.Float32, 2, 3, 4, 6).WithStrides([]int{72, 1, 18, 3})
	return []graph.Example{rowMajorExample(attrs, 2, 3, 4, 6), {In: []tensor.Meta{channelsLast}, Attrs: attrs}}
}

// maxExamples returns two calls of a max pooling over the last dimensions of shape [N, C, ...]. The first call has
// floats. The second call has integers and padding in ONNX's form.
func maxExamples(shape ...int) []graph.Example {
	dims := len(shape) - 2
	padding := append(make([]int, dims), slices.Repeat([]int{1}, dims)...) // 0 before and 1 after each dimension
	return []graph.Example{
		rowMajorExample(graph.Attrs{"kernel_size": 2, "stride": 1, "padding": 1}, shape...),
		{In: []tensor.Meta{tensor.New(tensor.Int8, shape...)}, Attrs: graph.Attrs{"kernel_size": 2, "padding": padding}},
	}
}
