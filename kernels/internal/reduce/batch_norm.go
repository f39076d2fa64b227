package reduce

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type batchNormAttrs struct {
	Training bool    `attr:"training" default:"false" doc:"use the statistics of the batch, not running_mean and running_var"`
	Momentum float64 `attr:"momentum" default:"0.1" doc:"has no effect, because running statistics are not updated"`
	Eps      float64 `attr:"eps" default:"1e-5" doc:"number added to the variance"`
	CuDNN    bool    `attr:"cudnn_enabled" default:"true" doc:"has no effect"`
}

// BatchNorm normalizes each channel (dimension 1).
var BatchNorm = kit.Define[batchNormAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "batch_norm",
		Doc: "Normalizes each channel (dimension 1) by running or batch statistics, then scales by weight and adds bias. " +
			"Graphs are pure: running statistics are not updated. The result has the memory format that the strides of the " +
			"input suggest; it is row-major if they fit both row-major and channels-last.",
		Params: []graph.Param{kit.Input, kit.OptWeight, kit.OptBias, {Name: "running_mean", Optional: true},
			{Name: "running_var", Optional: true}},
		Infer: inferBatchNorm,
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			a := kit.Attrs[batchNormAttrs](c)
			for len(in) < 5 {
				in = append(in, nil)
			}
			if a.Training {
				in[3], in[4] = nil, nil
			}
			channel := func(index []int) int { return index[1] }
			return []*tensor.Tensor{normReference(in[0], a.Eps, channel, channel, in[1], in[2], in[3], in[4])}, nil
		},
		Examples: []graph.Example{{In: []tensor.Meta{
			tensor.New(tensor.Float32, 2, 3, 4, 5).WithStrides([]int{60, 1, 15, 3}), tensor.New(tensor.Float32, 3),
			tensor.New(tensor.Float32, 3),
			tensor.New(tensor.Float32, 3), tensor.New(tensor.Float32, 3)}},
			{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3, 4)}, Attrs: graph.Attrs{"training": true}}},
	},
	Lowerings: graph.Lowerings{Decompose: decomposeBatchNorm},
})

// decomposeBatchNorm computes input * scale + shift, as PyTorch does. With the statistics of a batch, it computes
// (input - mean) * scale + shift. The scale and the shift of each channel are computed in float64 and rounded once.
// They are constants if the parameters are constants.
func decomposeBatchNorm(into *graph.Parts, c *graph.Call) ([]*graph.Value, error) {
	p, a, m := compose.NewBuilder(into, c), kit.Attrs[batchNormAttrs](c), c.Meta(0)
	if m.Numel() == 0 {
		return decomposeEmptyBatchNorm(p)
	}
	const f = tensor.Float64
	loopDType, mean, variance := m.DType.OpMath(), graph.Arg{}, graph.Arg{}
	if a.Training {
		dims := []int{0}
		for d := 2; d < m.Rank(); d++ {
			dims = append(dims, d)
		}
		moments := p.AddMany(2, VarMean, graph.Attrs{"dim": dims, "correction": 0}, p.Convert(f, c.In[0]))
		variance, mean = moments[0], moments[1]
	} else {
		mean, variance = p.Convert(f, c.In[3]), p.Convert(f, c.In[4])
	}
	deviation := p.Add(pointwise.Sqrt, nil, p.Add(pointwise.Add, nil, variance, compose.Number(a.Eps)))
	scale := graph.Arg{}
	if c.Has(1) {
		scale = p.Add(pointwise.Div, nil, p.Convert(f, c.In[1]), deviation)
	} else {
		scale = p.Add(pointwise.Reciprocal, nil, deviation)
	}
	x := c.In[0]
	if a.Training {
		// Subtract the mean first. Otherwise input * scale and shift nearly cancel for values far from zero, which loses
		// digits. center is the rounded mean; shift includes the rounding error, mean - center.
		center := p.Convert(loopDType, mean)
		x = p.Add(pointwise.Sub, nil, x, p.BroadcastAlong(center, 1, m.Rank()))
		mean = p.Add(pointwise.Sub, nil, mean, p.Convert(f, center))
	}
	shift := p.Add(pointwise.Mul, nil, mean, scale)
	if c.Has(2) {
		shift = p.Add(pointwise.Sub, nil, p.Convert(f, c.In[2]), shift)
	} else {
		shift = p.Add(pointwise.Neg, nil, shift)
	}
	scale, shift = p.Convert(loopDType, scale), p.Convert(loopDType, shift)
	y := p.Add(pointwise.Mul, nil, x, p.BroadcastAlong(scale, 1, m.Rank()))
	return p.Result(p.Add(pointwise.Add, nil, y, p.BroadcastAlong(shift, 1, m.Rank())))
}

// decomposeEmptyBatchNorm computes the result for an input without elements. [emptyBatchNormType] describes this
// result.
func decomposeEmptyBatchNorm(p *compose.Builder) ([]*graph.Value, error) {
	y := p.Add(view.Clone, nil, p.Call.In[0])
	for i, op := range []*graph.Op{pointwise.Mul, pointwise.Add} {
		if p.Call.Has(1 + i) {
			y = p.Add(op, nil, y, p.Add(view.Select, graph.Attrs{"dim": 0, "index": 0}, p.Call.In[1+i]))
		}
	}
	return p.Result(y)
}

func inferBatchNorm(c *graph.Call) ([]graph.Result, error) {
	m := c.Type(0)
	if kit.IsEmpty(m) {
		out, err := emptyBatchNormType(c, m)
		return c.One(out), err
	}
	features := sym.Int{}
	if m.Rank() > 1 {
		features = m.Shape[1]
	}
	if err := checkFeatures(c, features, kit.Attrs[batchNormAttrs](c).Training); err != nil {
		return nil, err
	}
	if m.Rank() < 2 {
		return nil, fmt.Errorf("Expected input to have 2 or more dimensions, got %d", m.Rank())
	}
	if !m.DType.IsFloat() {
		return nil, kit.NotImplementedBy("batch_norm", m.DType)
	}
	if err := batchNormDTypes(c); err != nil {
		return nil, err
	}
	isRowMajor := m.IsContiguous()
	contiguous := isRowMajor || m.IsChannelsLast() || kit.SizeIs(m.Numel(), 1)
	for i := 1; i < 5; i++ {
		contiguous = contiguous && (!c.Has(i) || c.Type(i).IsContiguous())
	}
	// As in PyTorch's suggest_memory_format_contig, a value in both formats is row-major.
	f := m.SuggestMemoryFormat(false)
	if contiguous && isRowMajor {
		f = tensor.Contiguous
	} else if contiguous {
		f = tensor.ChannelsLast
	}
	out, err := tensor.NewTypeFormat(m.DType, m.Shape, f)
	return c.One(out), err
}
