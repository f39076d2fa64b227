package reduce

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type batchNormAttrs struct {
	Training bool    `attr:"training" default:"false" doc:"use the statistics of the batch, not running_mean and running_var"`
	Momentum float64 `attr:"momentum" default:"0.1" doc:"of the running statistics, which are not updated here"`
	Eps      float64 `attr:"eps" default:"1e-5" doc:"added to the variance"`
	CuDNN    bool    `attr:"cudnn_enabled" default:"true" doc:"of no effect"`
}

// BatchNorm normalises each channel (dimension 1).
var BatchNorm = kit.Define[batchNormAttrs](graph.Op{
	AnyOrder: true, Images: graph.ImageOp,
	Each: graph.Each{Simple: 1},
	Name: "batch_norm",
	Doc: "Normalises each channel (dimension 1) by running or batch statistics, then scales by weight and adds bias. " +
		"Graphs are pure: running statistics are not updated.",
	Params: []graph.Param{kit.Input, kit.OptWeight, kit.OptBias, {Name: "running_mean", Optional: true},
		{Name: "running_var", Optional: true}},
	Infer: inferBatchNorm,
	Compile: func(c *graph.Call) (*graph.Kernel, error) {
		a, m := kit.Attrs[batchNormAttrs](c), c.Meta(0)
		s := channelNorm{rows: 1, eps: a.Eps, given: !a.Training, weight: kit.Operand(c, 1), bias: kit.Operand(c, 2),
			mean: kit.Operand(c, 3), variance: kit.Operand(c, 4)}
		if m.Rank() > 1 {
			s.groups = m.Shape[1]
		}
		return s.compile(c)
	},
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
})

func inferBatchNorm(c *graph.Call) ([]graph.Result, error) {
	m := c.Type(0)
	if kit.Empty(m) {
		out, err := emptyBatchNorm(c, m)
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
	rows := m.IsContiguous()
	contiguous := rows || m.IsChannelsLast() || kit.Is(m.Numel(), 1)
	for i := 1; i < 5; i++ {
		contiguous = contiguous && (!c.Has(i) || c.Type(i).IsContiguous())
	}
	// suggest_memory_format_contig: a value that is both counts as row-major.
	f := m.SuggestMemoryFormat(false)
	if contiguous && rows {
		f = tensor.Contiguous
	} else if contiguous {
		f = tensor.ChannelsLast
	}
	out, err := tensor.NewTypeFormat(m.DType, m.Shape, f)
	return c.One(out), err
}
