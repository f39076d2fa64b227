package reduce_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// BenchmarkReduce runs with two workers.
func BenchmarkReduce(b *testing.B) {
	f32 := func(shape ...int) tensor.Meta { return tensor.New(tensor.Float32, shape...) }
	nhwc := tensor.New(tensor.Float32, 8, 64, 56, 56).WithStrides([]int{200704, 1, 3584, 64})
	for _, c := range []struct {
		name, op string
		a        graph.Attrs
		in       []tensor.Meta
	}{
		{"sum16M/all", "sum", nil, []tensor.Meta{f32(16 << 20)}},
		{"sum16M/inner", "sum", graph.Attrs{"dim": 1}, []tensor.Meta{f32(16384, 1024)}},
		{"sum16M/outer", "sum", graph.Attrs{"dim": 0}, []tensor.Meta{f32(16384, 1024)}},
		{"sum16M/middle", "sum", graph.Attrs{"dim": 1}, []tensor.Meta{f32(64, 4096, 64)}},
		{"amax16M/inner", "amax", graph.Attrs{"dim": 1}, []tensor.Meta{f32(16384, 1024)}},
		{"argmax16M/inner", "argmax", graph.Attrs{"dim": 1}, []tensor.Meta{f32(16384, 1024)}},
		{"var16M/inner", "var", graph.Attrs{"dim": 1}, []tensor.Meta{f32(16384, 1024)}},
		{"softmax/1024x1000", "softmax", graph.Attrs{"dim": 1}, []tensor.Meta{f32(1024, 1000)}},
		{"softmax/1000x1024/dim0", "softmax", graph.Attrs{"dim": 0}, []tensor.Meta{f32(1000, 1024)}},
		{"log_softmax/1024x1000", "log_softmax", graph.Attrs{"dim": 1}, []tensor.Meta{f32(1024, 1000)}},
		{"layer_norm/4096x1024", "layer_norm", graph.Attrs{"normalized_shape": 1024},
			[]tensor.Meta{f32(4096, 1024), f32(1024), f32(1024)}},
		{"group_norm/nhwc", "group_norm", graph.Attrs{"num_groups": 8}, []tensor.Meta{nhwc, f32(64), f32(64)}},
		{"max_pool3x3/nchw", "max_pool2d", graph.Attrs{"kernel_size": 3, "stride": 2, "padding": 1},
			[]tensor.Meta{f32(8, 64, 56, 56)}},
		{"max_pool3x3/nhwc", "max_pool2d", graph.Attrs{"kernel_size": 3, "stride": 2, "padding": 1}, []tensor.Meta{nhwc}},
		{"avg_pool_all/nchw", "adaptive_avg_pool2d", graph.Attrs{"output_size": 1}, []tensor.Meta{f32(8, 64, 56, 56)}},
		{"cumsum/1024x1024", "cumsum", graph.Attrs{"dim": 1}, []tensor.Meta{f32(1024, 1024)}},
	} {
		b.Run(c.name, func(b *testing.B) { benchReduce(b, c.op, c.a, c.in) })
	}
}

func benchReduce(b *testing.B, name string, a graph.Attrs, metas []tensor.Meta) {
	var in []*tensor.Tensor
	bytes := 0
	for _, m := range metas {
		t := tensor.Empty(m)
		f := unsafe.Slice((*float32)(t.Pointer()), t.Storage().Len()/4)
		for i := range f {
			f[i] = float32(i*7919%1000)/500 - 0.9
		}
		in = append(in, t)
		bytes += t.Storage().Len()
	}
	op, c, err := kerneltest.NewReduceCall(name, a, in)
	if err != nil {
		b.Fatal(err)
	}
	k, err := op.Compile(c)
	if err != nil {
		b.Fatal(err)
	}
	var ptrs []unsafe.Pointer
	for _, m := range c.Out {
		o := tensor.Empty(m)
		bytes += o.Storage().Len()
		ptrs = append(ptrs, o.Pointer())
	}
	for _, t := range in {
		ptrs = append(ptrs, t.Pointer())
	}
	const workers = 2
	scratch := tensor.NewStorage(k.Scratch).Bytes()
	var mems [workers]*graph.Mem
	for w := range mems {
		mems[w] = &graph.Mem{Ptrs: ptrs, Scratch: scratch, WorkerScratch: tensor.NewStorage(k.WorkerScratch).Bytes()}
	}
	b.SetBytes(int64(bytes))
	for b.Loop() {
		for _, p := range k.Phases {
			var next atomic.Int64
			var wg sync.WaitGroup
			for _, m := range mems {
				wg.Go(func() {
					for i := int(next.Add(1)) - 1; i < p.Chunks; i = int(next.Add(1)) - 1 {
						if err := p.Run(m, i); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
		}
	}
}
