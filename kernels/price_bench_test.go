package kernels_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// pricedCall is a call whose implementations are priced and timed; constants are the operands known at compile time.
type pricedCall struct {
	op        string
	attrs     graph.Attrs
	in        []tensor.Meta
	constants []int
}

func pricedCalls() []pricedCall {
	pad, vec := graph.Attrs{"padding": 1}, kit.F32
	conv := func(a graph.Attrs, in ...tensor.Meta) pricedCall { return pricedCall{"conv2d", a, in, []int{1, 2}} }
	f32, last := kit.F32(1, 64, 56, 56), kit.NHWC(1, 64, 56, 56)
	calls := []pricedCall{
		conv(graph.Attrs{"padding": 3, "stride": 2}, kit.F32(1, 3, 224, 224), vec(64, 3, 7, 7)),
		conv(graph.Attrs{"padding": 3, "stride": 2}, kit.NHWC(1, 3, 224, 224), vec(64, 3, 7, 7)),
		conv(pad, f32, vec(64, 64, 3, 3)), conv(pad, last, vec(64, 64, 3, 3)),
		conv(nil, f32, vec(256, 64, 1, 1)), conv(nil, last, vec(256, 64, 1, 1)),
		conv(pad, kit.F32(1, 512, 7, 7), vec(512, 512, 3, 3)), conv(pad, kit.NHWC(1, 512, 7, 7), vec(512, 512, 3, 3)),
		conv(graph.Attrs{"padding": 1, "groups": 64}, f32, vec(64, 1, 3, 3)),
		conv(graph.Attrs{"padding": 1, "groups": 64}, last, vec(64, 1, 3, 3)),
		conv(graph.Attrs{"padding": 1, "groups": 8}, f32, vec(64, 8, 3, 3)),
		conv(graph.Attrs{"padding": 1, "groups": 8}, last, vec(64, 8, 3, 3)),
		{"conv3d", pad, []tensor.Meta{vec(1, 16, 16, 28, 28), vec(32, 16, 3, 3, 3)}, []int{1}},
		{"conv1d", pad, []tensor.Meta{vec(1, 64, 512), vec(64, 64, 3)}, []int{1}},
		{"conv_transpose2d", graph.Attrs{"stride": 2}, []tensor.Meta{vec(1, 64, 28, 28), vec(64, 32, 2, 2)}, []int{1}},
		{"matmul", nil, []tensor.Meta{vec(512, 512), vec(512, 512)}, nil},
		{"matmul", nil, []tensor.Meta{vec(512, 512), vec(512, 512).WithStrides([]int{1, 512})}, nil},
		{"matmul", nil, []tensor.Meta{vec(1, 1024), vec(1024, 1024)}, nil},
		{"matmul", nil, []tensor.Meta{vec(1024, 1024), vec(1024)}, nil},
		{"matmul", nil, []tensor.Meta{vec(12, 64, 64), vec(12, 64, 64)}, nil},
		{"matmul", nil, []tensor.Meta{tensor.New(tensor.Float64, 256, 256), tensor.New(tensor.Float64, 256, 256)}, nil},
		{"matmul", nil, []tensor.Meta{kit.I64(64, 64), kit.I64(64, 64)}, nil},
		{"linear", nil, []tensor.Meta{vec(128, 768), vec(3072, 768), vec(3072)}, []int{1, 2}},
		{"linear", nil, []tensor.Meta{vec(1, 768), vec(3072, 768), vec(3072)}, []int{1, 2}},
		{"scaled_dot_product_attention", nil, []tensor.Meta{vec(1, 12, 128, 64), vec(1, 12, 128, 64), vec(1, 12, 128, 64)},
			nil},
	}
	for _, m := range []tensor.Meta{f32, last} {
		window := graph.Attrs{"kernel_size": 3, "stride": 2, "padding": 1}
		calls = append(calls, pricedCall{"max_pool2d", window, []tensor.Meta{m}, nil},
			pricedCall{"avg_pool2d", window, []tensor.Meta{m}, nil},
			pricedCall{"adaptive_avg_pool2d", graph.Attrs{"output_size": 1}, []tensor.Meta{m}, nil},
			pricedCall{"softmax", graph.Attrs{"dim": 1}, []tensor.Meta{m}, nil},
			pricedCall{"softmax", graph.Attrs{"dim": 3}, []tensor.Meta{m}, nil},
			pricedCall{"sum", graph.Attrs{"dim": []int{1}}, []tensor.Meta{m}, nil},
			pricedCall{"sum", graph.Attrs{"dim": []int{2, 3}}, []tensor.Meta{m}, nil},
			pricedCall{"var", graph.Attrs{"dim": []int{2, 3}}, []tensor.Meta{m}, nil},
			pricedCall{"argmax", graph.Attrs{"dim": 1}, []tensor.Meta{m}, nil},
			pricedCall{"cumsum", graph.Attrs{"dim": 2}, []tensor.Meta{m}, nil},
			pricedCall{"layer_norm", graph.Attrs{"normalized_shape": []int{56}}, []tensor.Meta{m, vec(56), vec(56)},
				[]int{1, 2}},
			pricedCall{"group_norm", graph.Attrs{"num_groups": 8}, []tensor.Meta{m}, nil},
			pricedCall{"clone", graph.Attrs{"memory_format": "contiguous"}, []tensor.Meta{m}, nil},
			pricedCall{"clone", graph.Attrs{"memory_format": "channels_last"}, []tensor.Meta{m}, nil},
			pricedCall{"relu", nil, []tensor.Meta{m}, nil},
			pricedCall{"exp", nil, []tensor.Meta{m}, nil},
			pricedCall{"tanh", nil, []tensor.Meta{m}, nil},
			pricedCall{"gelu", nil, []tensor.Meta{m}, nil},
			pricedCall{"silu", nil, []tensor.Meta{m}, nil},
			pricedCall{"sqrt", nil, []tensor.Meta{m}, nil},
			pricedCall{"add", nil, []tensor.Meta{m, m}, nil},
			pricedCall{"add", nil, []tensor.Meta{m, f32}, nil},
			pricedCall{"pow", nil, []tensor.Meta{m, m}, nil},
			pricedCall{"cat", graph.Attrs{"dim": 1}, []tensor.Meta{m, f32}, nil},
			pricedCall{"constant_pad_nd", graph.Attrs{"pad": []int{1, 1, 1, 1}}, []tensor.Meta{m}, nil},
			pricedCall{"upsample_nearest2d", graph.Attrs{"output_size": []int{112, 112}}, []tensor.Meta{m}, nil},
			pricedCall{"sort", graph.Attrs{"dim": 3}, []tensor.Meta{m}, nil},
		)
	}
	for _, n := range []int{2, 4, 8, 16, 32} {
		lines := vec(1<<15/n, n)
		calls = append(calls, pricedCall{"softmax", graph.Attrs{"dim": 1}, []tensor.Meta{lines}, nil},
			pricedCall{"softmax", graph.Attrs{"dim": 0}, []tensor.Meta{lines}, nil},
			pricedCall{"cumsum", graph.Attrs{"dim": 1}, []tensor.Meta{lines}, nil},
			pricedCall{"cumsum", graph.Attrs{"dim": 0}, []tensor.Meta{lines}, nil})
	}
	return append(calls, pricedCall{"embedding", nil, []tensor.Meta{vec(30000, 768), kit.I64(1, 512)}, nil},
		pricedCall{"gather", graph.Attrs{"dim": 0}, []tensor.Meta{vec(512, 768), kit.I64(512, 768)}, nil},
		pricedCall{"to", graph.Attrs{"dtype": "bfloat16"}, []tensor.Meta{f32}, nil})
}

// BenchmarkPrices runs implementations on one core, with results in their own layout and as images, and reports the
// price beside the time: ns/op and predicted-ns/op. Both should rank implementations alike.
func BenchmarkPrices(b *testing.B) {
	profile := pricing.DefaultProfile()
	for i, pc := range pricedCalls() {
		op := kernels.Lookup(pc.op)
		c, err := kerneltest.CallOf(op, pc.attrs, pc.in)
		if err != nil {
			b.Fatalf("%s: %v", pc.op, err)
		}
		draw := kerneltest.IndexValues(rand.New(rand.NewPCG(1, 2)))
		in := make([]*tensor.Tensor, len(pc.in))
		for k, m := range pc.in {
			in[k] = kerneltest.Filled(m, draw)
		}
		for _, k := range pc.constants {
			if k < len(in) {
				c.In[k].Value.Const = in[k]
			}
		}
		if _, err := kerneltest.Infer(op, c); err != nil {
			b.Fatalf("%s: %v", pc.op, err)
		}
		for k := range op.Impls {
			m := &op.Impls[k]
			var orders []tensor.Order
			if last, err := tensor.ChannelsLast.Order(c.Out[0].Rank()); err == nil {
				orders = append(orders, tensor.RowMajorOrder(4), last)
			}
			for _, w := range m.Walks(c, orders) {
				if !m.Reads(c, w) {
					continue
				}
				to, _ := tensor.OrderOf(w.ResultLayout(0, c.Out[0]))
				b.Run(fmt.Sprintf("%02d_%s/%v/%s>%v", i, pc.op, pc.in[0], m.Name, to), func(b *testing.B) {
					price(b, profile, m, *c, w, in)
				})
			}
		}
	}
}

func price(b *testing.B, p *pricing.Profile, m *graph.Impl, c graph.Call, w graph.Walk, in []*tensor.Tensor) {
	ns := p.PriceNS(m.Work(&c, w))
	for k, a := range c.In {
		if a.Kind == graph.TensorArg {
			r, _ := m.Read(&c, w, k, a.Meta())
			ns += p.PriceNS(r)
		}
	}
	c.Impl, c.Walk, c.Out = m, w, append([]tensor.Meta(nil), c.Out...)
	outs := make([]*tensor.Tensor, len(c.Out))
	for i, o := range c.Out {
		c.Out[i] = w.ResultLayout(i, o)
		outs[i] = tensor.Empty(c.Out[i])
	}
	k, err := m.Lower(&c)
	if err != nil {
		b.Fatal(err)
	}
	best := time.Duration(1 << 62)
	for b.Loop() {
		begin := time.Now()
		if err := kerneltest.RunKernel(k, &c, in, outs); err != nil {
			b.Fatal(err)
		}
		best = min(best, time.Since(begin))
	}
	b.ReportMetric(ns, "predicted-ns/op")
	b.ReportMetric(float64(best.Nanoseconds()), "best-ns/op")
	b.ReportMetric(ns/float64(best.Nanoseconds()), "predicted/best")
}
