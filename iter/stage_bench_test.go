package iter_test

import (
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// BenchmarkStage adds two operands of which the second is not laid out as the result does.
func BenchmarkStage(b *testing.B) {
	f, n := tensor.Float32, 1024
	meta := func(d tensor.DType, strides ...int) tensor.Meta {
		return tensor.Meta{DType: d, Shape: []int{n, n}, Strides: strides}
	}
	for _, c := range []struct {
		name string
		y    tensor.Meta
	}{
		{"Dense", meta(f, n, 1)},
		{"Turned", meta(f, 1, n)},
		{"EverySecond", meta(f, 2*n, 2)},
		{"Row", meta(f, 0, 1)},
		{"Column", meta(f, 1, 0)},
		{"Int", meta(tensor.Int32, n, 1)},
		{"TurnedInt", meta(tensor.Int32, 1, n)},
		{"Thin", tensor.Meta{DType: f, Shape: []int{n * n / 8, 8}, Strides: []int{1, n * n / 8}}},
		{"Turned4096", tensor.Meta{DType: f, Shape: []int{4096, 4096}, Strides: []int{1, 4096}}},
		{"Padded", tensor.Meta{DType: f, Shape: []int{n * n / 8, 8}, Strides: []int{9, 1}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			x, y := tensor.New(f, c.y.Shape...), c.y
			it, err := iter.Binary(iter.OperandOfMeta(x), iter.OperandOfMeta(x), iter.OperandOfMeta(y)).Build()
			if err != nil {
				b.Fatal(err)
			}
			p, err := it.Prepare(iter.Slice2(func(out, a, b []float32) {
				a, b = a[:len(out)], b[:len(out)]
				for i := range out {
					out[i] = a[i] + b[i]
				}
			}))
			if err != nil {
				b.Fatal(err)
			}
			ptrs := []unsafe.Pointer{tensor.Empty(x).Pointer(), tensor.Empty(x).Pointer(), tensor.Empty(y).Pointer()}
			var cursor iter.Cursor
			b.SetBytes(int64(x.Bytes()))
			b.ReportAllocs()
			for b.Loop() {
				for i := range it.Chunks(0) {
					if err := p.RunRange(&cursor, ptrs, it.Chunk(i, 0)); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
