package expr_test

import (
	"math"
	"testing"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
	"github.com/stretchr/testify/require"
)

// Codes are cut where pieces tell what the row gives, and refused with a reason where not.
func TestPieces(t *testing.T) {
	const f32 = tensor.Float32
	for _, c := range []struct {
		want      string // of the error
		dependent int
		make      func(b *expr.Builder, x expr.Value) expr.Value
	}{
		{"", 0, func(b *expr.Builder, x expr.Value) expr.Value { return b.Emit(expr.Sqrt, b.Reduce(expr.Add, x)) }},
		{"", 1, func(b *expr.Builder, x expr.Value) expr.Value {
			return leastWhere(b, b.Emit(expr.Eq, b.Reduce(expr.Max, x), x))
		}},
		{"", 1, func(b *expr.Builder, x expr.Value) expr.Value {
			return leastWhere(b, b.Emit(expr.Or, b.Emit(expr.Ne, x, x), b.Emit(expr.Eq, x, b.Reduce(expr.Min, x))))
		}},
		{"not an argmin or argmax", 0, func(b *expr.Builder, x expr.Value) expr.Value { // no extreme of the same
			return leastWhere(b, b.Emit(expr.Eq, x, b.Reduce(expr.Max, b.Emit(expr.Neg, x))))
		}},
		{"not an argmin or argmax", 0, func(b *expr.Builder, x expr.Value) expr.Value {
			return leastWhere(b, b.Emit(expr.Eq, x, b.Reduce(expr.Add, x)))
		}},
		{"not an argmin or argmax", 0, func(b *expr.Builder, x expr.Value) expr.Value {
			return leastWhere(b, b.Emit(expr.Or, b.Emit(expr.Lt, x, x), b.Emit(expr.Eq, x, b.Reduce(expr.Max, x))))
		}},
		{"not an argmin or argmax", 0, func(b *expr.Builder, x expr.Value) expr.Value {
			return b.Reduce(expr.Add, b.Emit(expr.Sub, x, b.Reduce(expr.Max, x)))
		}},
		{"not an argmin or argmax", 0, func(b *expr.Builder, x expr.Value) expr.Value { // of what waits for a fold
			y := b.Emit(expr.Sub, x, b.Reduce(expr.Min, x))
			return leastWhere(b, b.Emit(expr.Eq, y, b.Reduce(expr.Max, y)))
		}},
		{"differs within a row", 0, func(b *expr.Builder, x expr.Value) expr.Value {
			return b.Emit(expr.Sub, x,
				b.Reduce(expr.Max, x))
		}},
		{"with a Scan", 0, func(b *expr.Builder, x expr.Value) expr.Value { return b.Reduce(expr.Max, b.Scan(expr.Add, x)) }},
	} {
		b := expr.NewBuilder(f32)
		code, err := b.Build(b.Real(c.make(b, b.Load(0))))
		require.NoError(t, err)
		p, err := code.Pieces([]bool{false})
		if c.want != "" {
			require.ErrorContains(t, err, c.want, "%v", code)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.dependent, p.DependentFolds)
		require.NoError(t, p.PieceCode.Check())
		require.NoError(t, p.Join.Check())
		require.Len(t, p.PieceCode.In, 2)
		_, err = code.Pieces(nil)
		require.ErrorContains(t, err, "uniform has 0 entries")
	}
}

func leastWhere(b *expr.Builder, is expr.Value) expr.Value {
	return b.Reduce(expr.Min, b.Emit(expr.Select, is, b.Position(), b.Int(tensor.Int32, math.MaxInt32)))
}
