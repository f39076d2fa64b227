package recurrent_test

import (
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// BenchmarkLSTM runs 100 steps of 8 sequences through 256 cells, on one worker.
func BenchmarkLSTM(b *testing.B) {
	r := rand.New(rand.NewPCG(54, 1))
	d := tensor.Float32
	in := []*tensor.Tensor{kerneltest.Filled(tensor.New(d, 100, 8, 128), kerneltest.NonzeroValues(r)),
		kerneltest.Filled(tensor.New(d, 1, 1024, 128), kerneltest.NonzeroValues(r)),
		kerneltest.Filled(tensor.New(d, 1, 1024, 256), kerneltest.NonzeroValues(r))}
	op, c, err := kerneltest.NewCall("onnx_lstm", nil, in, 1, 2)
	if err != nil {
		b.Fatal(err)
	}
	k, err := kerneltest.CompileAnyLayouts(op, c)
	if err != nil {
		b.Fatal(err)
	}
	m := kerneltest.MemOf(k, c, in, []*tensor.Tensor{tensor.Empty(c.Out[0]), tensor.Empty(c.Out[1]),
		tensor.Empty(c.Out[2])})
	for b.Loop() {
		for _, ph := range k.Phases {
			for i := range ph.Chunks {
				if err := ph.Run(m, i); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.ReportMetric(op.Flops(c)*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gflop/s")
}
