package rowprog_test

import (
	"testing"
	"time"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/rowprog"
	"github.com/graphrun/graphrun/tensor"
)

// normed is layer_norm with a weight over float32, with statistics in float64.
func normed(b *expr.Builder, n int) []expr.Output {
	x := b.Load(0)
	inv := b.Const(f64, 1/float64(n))
	wide := b.Convert(f64, x)
	mean := b.Emit(expr.Mul, b.Reduce(expr.Add, wide), inv)
	v := b.Emit(expr.Sub, b.Emit(expr.Mul, b.Reduce(expr.Add, b.Emit(expr.Mul, wide, wide)), inv),
		b.Emit(expr.Mul, mean, mean))
	f := b.Emit(expr.Div, b.Const(f64, 1), b.Emit(expr.Sqrt, b.Emit(expr.Add, v, b.Const(f64, 1e-5))))
	y := b.Emit(expr.Mul, b.Emit(expr.Sub, x, b.Convert(f32, mean)), b.Convert(f32, f))
	return []expr.Output{b.Real(b.Emit(expr.Mul, y, b.Load(1)))}
}

// BenchmarkPlan runs in one worker. On a busy machine CPU time is more reliable than wall time.
func BenchmarkPlan(b *testing.B) {
	cube := []int{256, 256, 256}
	square := []int{4096, 4096}
	for _, bc := range []struct {
		name string
		code int // of testCodes
		full []int
		mask []bool
	}{
		{"sum/last", 0, cube, []bool{false, false, true}},
		{"sum/middle", 0, cube, []bool{false, true, false}},
		{"sum/first", 0, cube, []bool{true, false, false}},
		{"sum/all", 0, cube, []bool{true, true, true}},
		{"softmax/4096", 3, square, []bool{false, true}},
		{"softmax/columns", 3, square, []bool{true, false}},
		{"sum/1024x256", 0, []int{1024, 256}, []bool{false, true}},
		{"sum/256x1024 columns", 0, []int{256, 1024}, []bool{true, false}},
		{"softmax/64x4096", 3, []int{64, 4096}, []bool{false, true}},
		{"layer_norm/64x4096", -1, []int{64, 4096}, []bool{false, true}},
		{"softmax/8x4096", 3, []int{8, 4096}, []bool{false, true}},
		{"layer_norm/8x4096", -1, []int{8, 4096}, []bool{false, true}},
		{"softmax/32x512", 3, []int{32, 512}, []bool{false, true}},
		{"layer_norm/32x512", -1, []int{32, 512}, []bool{false, true}},
		{"z/softmax/20000x33", 3, []int{20000, 33}, []bool{false, true}},
		{"z/softmax/20000x128", 3, []int{20000, 128}, []bool{false, true}},
		{"z/layer_norm/20000x128", -1, []int{20000, 128}, []bool{false, true}},
		{"z/softmax/2000x1024", 3, []int{2000, 1024}, []bool{false, true}},
		{"z/layer_norm/2000x1024", -1, []int{2000, 1024}, []bool{false, true}},
		{"z/softmax/400x1024", 3, []int{400, 1024}, []bool{false, true}},
		{"z/layer_norm/400x1024", -1, []int{400, 1024}, []bool{false, true}},
		{"z/layer_norm/197x768", -1, []int{197, 768}, []bool{false, true}},
		{"softmax/8x197", 3, []int{8, 197}, []bool{false, true}},
		{"softmax/197", 3, []int{2364, 197}, []bool{false, true}},
		{"layer_norm/4096", -1, square, []bool{false, true}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			in := []tensor.DType{f32}
			if bc.code < 0 {
				in = append(in, f32)
			}
			e := expr.NewBuilder(in...)
			var outs []expr.Output
			if bc.code < 0 {
				outs = normed(e, bc.full[1])
			} else {
				outs = testCodes[bc.code].make(e)
				if bc.code == 3 {
					y := e.Emit(expr.Exp, e.Emit(expr.Sub, e.Load(0), e.Reduce(expr.Max, e.Load(0))))
					outs[0] = e.Real(e.Emit(expr.Mul, y, e.Emit(expr.Div, e.Const(f32, 1), e.Reduce(expr.Add, y))))
				}
			}
			c, err := e.Build(outs...)
			if err != nil {
				b.Fatal(err)
			}
			benchCode(b, c, bc.full, bc.mask, bc.code == 0)
		})
	}
}

func benchCode(b *testing.B, c *expr.Code, full []int, mask []bool, one bool) {
	x := tensor.Empty(tensor.New(f32, full...))
	for i := range tensor.Must(tensor.FromStorage(tensor.New(f32, x.Numel()), x.Storage())).Shape[0] {
		*(*float32)(unsafeAt(x, i)) = float32(i*7919%1000)/500 - 0.9
	}
	out := x.Meta
	if one {
		shape := append([]int{}, full...)
		for d := range shape {
			if mask[d] {
				shape[d] = 1
			}
		}
		out = tensor.New(f32, shape...)
	}
	ins := []tensor.Meta{x.Meta}
	k := &call{outs: []*tensor.Tensor{tensor.Empty(out)}}
	k.ptrs = append(k.ptrs, k.outs[0].Pointer(), x.Pointer())
	if len(c.In) == 2 {
		w := tensor.Empty(tensor.New(f32, full[1]))
		ins = append(ins, tensor.Meta{DType: f32, Shape: full, Strides: []int{0, 1}})
		k.ptrs = append(k.ptrs, w.Pointer())
	}
	p, err := rowprog.New(c, []tensor.Meta{out}, ins, mask, rowprog.AnyDirection)
	if err != nil {
		b.Fatal(err)
	}
	worker, scratch := tensor.NewStorage(p.WorkerScratch()).Bytes(), tensor.NewStorage(p.Scratch()).Bytes()
	var s rowprog.State
	b.SetBytes(int64(x.Bytes() + k.outs[0].Bytes()))
	b.ReportAllocs()
	run := func() time.Duration {
		start := time.Now()
		for phase := range p.Phases() {
			for chunk := range p.Chunks(phase) {
				if err := p.Run(&s, phase, chunk, k.ptrs, scratch, worker); err != nil {
					b.Fatal(err)
				}
			}
		}
		return time.Since(start)
	}
	least := time.Hour
	run() // the first touch of fresh memory faults its pages in
	for b.Loop() {
		least = min(least, run())
	}
	b.ReportMetric(float64(least.Nanoseconds())/1e6, "least-ms")
}

func unsafeAt(x *tensor.Tensor, i int) unsafe.Pointer {
	return unsafe.Add(x.Pointer(), i*x.DType.Size())
}
