package interp

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/internal/exprtest"
	"github.com/graphrun/graphrun/tensor"
)

// TestCombine compares the results with folding halves, element by element.
func TestCombine(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 4))
	for _, d := range exprtest.AllDTypes {
		for _, o := range []expr.Op{expr.Add, expr.Mul, expr.Min, expr.Max, expr.And, expr.Or} {
			if d.IsComplex() || d.IsReducedFloat() {
				if Combine(o, d) != nil {
					t.Errorf("Combine(%v, %v) is not nil", o, d)
				}
				continue
			}
			if !validFold(o, d) {
				continue
			}
			join, err := expr.Joining(o, d)
			if err != nil {
				t.Fatal(err)
			}
			const n = 3
			acc, dst := make([]uint64, n*expr.FoldLanes), make([]uint64, n)
			at := func(p unsafe.Pointer, i int) (bits uint64) {
				moves[sizeIndex(d.Size())](operands{dst: operand{ptr: unsafe.Pointer(&bits)},
					a: operand{ptr: p, offset: i * d.Size()}, n: 1})
				return bits
			}
			want := make([]uint64, n)
			for i := range n {
				lanes := make([]expr.Number, expr.FoldLanes)
				for k := range lanes {
					lanes[k].Re = exprtest.RandomBits(rng, d)
					moves[sizeIndex(d.Size())](operands{dst: operand{ptr: unsafe.Pointer(&acc[0]),
						offset: (i*expr.FoldLanes + k) * d.Size()},
						a: operand{ptr: unsafe.Pointer(&lanes[k].Re)}, n: 1})
				}
				for half := expr.FoldLanes / 2; half > 0; half /= 2 {
					for k := range half {
						lanes[k] = join.Eval(lanes[k], lanes[k+half])[0]
					}
				}
				want[i] = lanes[0].Re
			}
			Combine(o, d)(unsafe.Pointer(&dst[0]), unsafe.Pointer(&acc[0]), n)
			for i := range n {
				if got := at(unsafe.Pointer(&dst[0]), i); !exprtest.SameBits(d, got, want[i]) {
					t.Errorf("%v of %v: row %d is %#x, want %#x", o, d, i, got, want[i])
				}
			}
		}
	}
}

func validFold(o expr.Op, d tensor.DType) bool {
	load := expr.Inst{Op: expr.Load, DType: d, A: 0, B: expr.None, C: expr.None}
	c := &expr.Code{In: []tensor.DType{d}, Insts: []expr.Inst{load}, Out: []expr.Output{{DType: d, Re: 0, Im: expr.None}}}
	return (&expr.Loop{Code: c, Uniform: []bool{false}, Folds: []expr.Fold{{Op: o, Value: 0}}}).Check() == nil
}
