package copies_test

import (
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// benchCopy measures bytes written by one worker; as many are read.
func benchCopy(b *testing.B, dst, src tensor.Meta) {
	k := copies.Kernel(copies.Job{Dst: kit.PtrBuffer(0, dst), Src: kit.PtrBuffer(1, src)})
	d, s := tensor.Empty(dst), tensor.Empty(src)
	m := &graph.Mem{Ptrs: []unsafe.Pointer{d.Pointer(), s.Pointer()},
		WorkerScratch: tensor.NewStorage(k.WorkerScratch).Bytes()}
	b.SetBytes(int64(dst.Bytes()))
	b.ReportAllocs()
	for b.Loop() {
		for i := range k.Phases[0].Chunks {
			if err := k.Phases[0].Run(m, i); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkCopy copies between layouts that agree and that do not.
func BenchmarkCopy(b *testing.B) {
	nhwc := func(d tensor.DType, n, c, h, w int) tensor.Meta {
		m, _ := tensor.NewFormat(d, []int{n, c, h, w}, tensor.ChannelsLast)
		return m
	}
	turned := func(d tensor.DType, n int) tensor.Meta {
		return tensor.Meta{DType: d, Shape: []int{n, n}, Strides: []int{1, n}}
	}
	f := tensor.Float32
	for name, c := range map[string][2]tensor.Meta{
		"Dense":       {tensor.New(f, 4096, 4096), tensor.New(f, 4096, 4096)},
		"Turn4096":    {tensor.New(f, 4096, 4096), turned(f, 4096)},
		"Turn4000":    {tensor.New(f, 4000, 4000), turned(f, 4000)},
		"Turn512":     {tensor.New(f, 512, 512), turned(f, 512)},
		"Turn4096u8":  {tensor.New(tensor.Uint8, 4096, 4096), turned(tensor.Uint8, 4096)},
		"Turn4096f64": {tensor.New(tensor.Float64, 4096, 4096), turned(tensor.Float64, 4096)},
		"TurnTo64":    {tensor.New(tensor.Float64, 4096, 4096), turned(f, 4096)},
		"NHWC64":      {nhwc(f, 8, 64, 112, 112), tensor.New(f, 8, 64, 112, 112)},
		"NCHW64":      {tensor.New(f, 8, 64, 112, 112), nhwc(f, 8, 64, 112, 112)},
		"NHWC3":       {nhwc(f, 8, 3, 224, 224), tensor.New(f, 8, 3, 224, 224)},
		"NCHW3":       {tensor.New(f, 8, 3, 224, 224), nhwc(f, 8, 3, 224, 224)},
	} {
		b.Run(name, func(b *testing.B) { benchCopy(b, c[0], c[1]) })
	}
}
