package expr

import (
	"math/rand/v2"
	"testing"
	"unsafe"
)

// TestCombine holds the numbers of rows against halves folded into one another, element by element.
func TestCombine(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 4))
	for _, d := range allDTypes {
		for _, o := range []Op{Add, Mul, Min, Max, And, Or} {
			if d.IsComplex() || folds(o, d) != nil {
				if !d.IsComplex() && !d.IsReducedFloat() && Combine(o, d) != nil && takes(o, d) == nil {
					t.Errorf("%v of %v is combined, and no fold", o, d)
				}
				continue
			}
			join, err := Joining(o, d)
			if err != nil {
				t.Fatal(err)
			}
			const n = 3
			acc, dst := make([]uint64, n*Lanes), make([]uint64, n)
			at := func(p unsafe.Pointer, i int) (bits uint64) {
				moves[sizeIndex(d.Size())](unsafe.Pointer(&bits), unsafe.Add(p, i*d.Size()), nil, nil, nil, nil, 1, &strides{})
				return bits
			}
			want := make([]uint64, n)
			for i := range n {
				lanes := make([]Number, Lanes)
				for k := range lanes {
					lanes[k].Re = randomBits(rng, d)
					moves[sizeIndex(d.Size())](unsafe.Add(unsafe.Pointer(&acc[0]), (i*Lanes+k)*d.Size()),
						unsafe.Pointer(&lanes[k].Re), nil, nil, nil, nil, 1, &strides{})
				}
				for half := Lanes / 2; half > 0; half /= 2 {
					for k := range half {
						lanes[k] = join.Eval(lanes[k], lanes[k+half])[0]
					}
				}
				want[i] = lanes[0].Re
			}
			Combine(o, d)(unsafe.Pointer(&dst[0]), unsafe.Pointer(&acc[0]), n)
			for i := range n {
				if got := at(unsafe.Pointer(&dst[0]), i); !sameBits(d, got, want[i]) {
					t.Errorf("%v of %v: row %d is %#x, want %#x", o, d, i, got, want[i])
				}
			}
		}
	}
}
