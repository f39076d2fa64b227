package kit_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// TestLongRowsConvertAsElements converts rows that machine code converts and elements one by one: to the same bits, of
// numbers that are infinite, none, out of range, tiny and half-way between two others.
func TestLongRowsConvertAsElements(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 1))
	odd := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 0.5, -0.5, 1.5, 255.5, -128.5, 256,
		65504, 65520, 1e5, 1e-8, 6e-8, 1e-45, 1<<31 - 1, 1 << 31, -1<<31 - 1, 1 << 32, 9.3e18, -9.3e18, 1 << 64, 1e20,
		3.4e38, 3.5e38, 1e300, 1 + 1./2048, 1 + 3./2048, 1 + 1./256, 1 + 3./256}
	for src := tensor.Bool; src.Valid(); src++ {
		const n = 150
		x := tensor.Zeros(src, n)
		for i := range n {
			switch v := odd[r.IntN(len(odd))]; {
			case src.IsFloat() && r.IntN(2) == 0:
				x.Set(tensor.FloatScalar(v), i)
			case src.IsFloat():
				x.Set(tensor.FloatScalar(r.NormFloat64()*math.Exp(r.NormFloat64()*6)), i)
			case src == tensor.Bool:
				x.Set(tensor.BoolScalar(r.IntN(2) == 0), i)
			case !src.IsComplex():
				for b := range src.Size() {
					x.Storage().Bytes()[i*src.Size()+b] = byte(r.Uint32())
				}
			}
		}
		for dst := tensor.Bool; dst.Valid(); dst++ {
			long, each := tensor.Zeros(dst, n), tensor.Zeros(dst, n)
			row := kit.RowConverter(dst, src)
			to, from := dst.Size(), src.Size()
			row(unsafe.Pointer(&long.Storage().Bytes()[0]), unsafe.Pointer(&x.Storage().Bytes()[0]), to, from, n)
			for i := range n {
				row(unsafe.Pointer(&each.Storage().Bytes()[i*to]), unsafe.Pointer(&x.Storage().Bytes()[i*from]), to, from, 1)
			}
			for i := range n {
				a, b := long.At(i), each.At(i)
				if string(long.Storage().Bytes()[i*to:(i+1)*to]) != string(each.Storage().Bytes()[i*to:(i+1)*to]) {
					assert.Equal(t, b, a, "%v to %v: %v", src, dst, x.At(i))
				}
			}
		}
	}
}
