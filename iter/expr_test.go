package iter_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// mulAdd is x*y + x in a dtype.
func mulAdd(t *testing.T, d tensor.DType) iter.Kernel {
	t.Helper()
	b := expr.NewBuilder(d, d)
	x, y := b.Load(0), b.Load(1)
	c, err := b.Build(b.Real(b.Emit(expr.Add, b.Emit(expr.Mul, x, y), x)))
	require.NoError(t, err)
	return iter.Expr(c)
}

// drawn returns a tensor of small whole numbers whose layout is drawn: permuted, with gaps, or broadcast.
func drawn(r *rand.Rand, d tensor.DType, shape ...int) *tensor.Tensor {
	perm := r.Perm(len(shape))
	padded := make([]int, len(shape))
	for i, p := range perm {
		padded[i] = shape[p] + r.IntN(3)*r.IntN(2)
	}
	t := tensor.Zeros(d, padded...)
	drawInto(r, t)
	back := make([]int, len(shape))
	for i, p := range perm {
		back[p] = i
	}
	m, err := t.Meta.Permute(back)
	if err != nil {
		panic(err)
	}
	m.Shape = append([]int(nil), shape...)
	for i := range shape {
		if r.IntN(5) == 0 {
			m.Strides[i] = 0
		}
	}
	return tensor.Must(t.View(m))
}

func drawInto(r *rand.Rand, t *tensor.Tensor) {
	index := make([]int, t.Rank())
	for {
		t.Set(tensor.IntScalar(int64(r.IntN(5))), index...)
		d := len(index) - 1
		for ; d >= 0; d-- {
			if index[d]++; index[d] < t.Shape[d] {
				break
			}
			index[d] = 0
		}
		if d < 0 {
			return
		}
	}
}

// TestExprInAllLayouts compares kernels of expressions with kernels of Go functions over drawn layouts and dtypes.
func TestExprInAllLayouts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	plain := iter.Map2(func(a, b float32) float32 { return a*b + a })
	dtypes := []tensor.DType{tensor.Float32, tensor.Int8, tensor.Uint8, tensor.Bool, tensor.Float16, tensor.Int32}
	for range 400 {
		shape := []int{1 + r.IntN(5), 1 + r.IntN(40), 1 + r.IntN(20)}[:1+r.IntN(3)]
		a, b := drawn(r, dtypes[r.IntN(len(dtypes))], shape...), drawn(r, tensor.Float32, shape...)
		it, err := iter.Binary(iter.UndefinedOutput(), iter.OperandOfTensor(a), iter.OperandOfTensor(b)).Build()
		require.NoError(t, err)
		want, err := it.Apply(plain)
		require.NoError(t, err)
		got, err := it.Apply(mulAdd(t, tensor.Float32))
		require.NoError(t, err)
		require.Equal(t, want[0].Meta, got[0].Meta)
		require.Equal(t, want[0].Storage().Bytes(), got[0].Storage().Bytes(), "%v with %v", a.Meta, b.Meta)
	}
}
