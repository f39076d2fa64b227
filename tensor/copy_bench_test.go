package tensor_test

import (
	"testing"

	"github.com/graphrun/graphrun/tensor"
)

// BenchmarkCopyElements copies between equal and different layouts, small and large.
func BenchmarkCopyElements(b *testing.B) {
	f := tensor.Float32
	turned := func(d tensor.DType, n int) tensor.Meta {
		return tensor.Meta{DType: d, Shape: []int{n, n}, Strides: []int{1, n}}
	}
	images, _ := tensor.NewFormat(f, []int{4, 64, 56, 56}, tensor.ChannelsLast)
	strided := tensor.Meta{DType: f, Shape: []int{512, 512}, Strides: []int{1024, 2}}
	for _, c := range []struct {
		name     string
		dst, src tensor.Meta
	}{
		{"Scalar", tensor.New(f), tensor.New(f)},
		{"Dense8", tensor.New(f, 2, 4), tensor.New(f, 2, 4)},
		{"Dense", tensor.New(f, 64, 16, 16, 64), tensor.New(f, 64, 16, 16, 64)},
		{"Turn16", tensor.New(f, 16, 16), turned(f, 16)},
		{"Turn1024", tensor.New(f, 1024, 1024), turned(f, 1024)},
		{"Turn1024u8", tensor.New(tensor.Uint8, 1024, 1024), turned(tensor.Uint8, 1024)},
		{"Turn1024to64", tensor.New(tensor.Float64, 1024, 1024), turned(f, 1024)},
		{"Images", tensor.New(f, 4, 64, 56, 56), images},
		{"Strided", tensor.New(f, 512, 512), strided},
		{"Broadcast", tensor.New(f, 512, 512), tensor.Meta{DType: f, Shape: []int{512, 512}, Strides: []int{1, 0}}},
		{"Thin", tensor.New(f, 65536, 3), tensor.Meta{DType: f, Shape: []int{65536, 3}, Strides: []int{4, 1}}},
		{"Bool", tensor.New(tensor.Bool, 512, 512), tensor.New(tensor.Bool, 512, 512)},
	} {
		b.Run(c.name, func(b *testing.B) {
			dst, src := tensor.Empty(c.dst), tensor.Empty(c.src)
			b.SetBytes(int64(c.dst.Bytes()))
			b.ReportAllocs()
			for b.Loop() {
				tensor.CopyElements(dst, src)
			}
		})
	}
}
