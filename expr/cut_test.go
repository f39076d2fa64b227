package expr

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/tensor"
)

// Codes are cut where pieces tell what the row gives, and refused with a reason where not.
func TestPieces(t *testing.T) {
	const f32 = tensor.Float32
	for _, c := range []struct {
		want  string // of the error
		waits int
		make  func(b *Builder, x Value) Value
	}{
		{"", 0, func(b *Builder, x Value) Value { return b.Do(Sqrt, b.Reduce(Add, x)) }},
		{"", 1, func(b *Builder, x Value) Value { return leastWhere(b, b.Do(Eq, b.Reduce(Max, x), x)) }},
		{"", 1, func(b *Builder, x Value) Value {
			return leastWhere(b, b.Do(Or, b.Do(Ne, x, x), b.Do(Eq, x, b.Reduce(Min, x))))
		}},
		{"belongs to an extreme", 0, func(b *Builder, x Value) Value { // no extreme of the same
			return leastWhere(b, b.Do(Eq, x, b.Reduce(Max, b.Do(Neg, x))))
		}},
		{"belongs to an extreme", 0, func(b *Builder, x Value) Value {
			return leastWhere(b, b.Do(Eq, x, b.Reduce(Add, x)))
		}},
		{"belongs to an extreme", 0, func(b *Builder, x Value) Value {
			return leastWhere(b, b.Do(Or, b.Do(Lt, x, x), b.Do(Eq, x, b.Reduce(Max, x))))
		}},
		{"belongs to an extreme", 0, func(b *Builder, x Value) Value {
			return b.Reduce(Add, b.Do(Sub, x, b.Reduce(Max, x)))
		}},
		{"belongs to an extreme", 0, func(b *Builder, x Value) Value { // of what waits for a fold
			y := b.Do(Sub, x, b.Reduce(Min, x))
			return leastWhere(b, b.Do(Eq, y, b.Reduce(Max, y)))
		}},
		{"an element for each", 0, func(b *Builder, x Value) Value { return b.Do(Sub, x, b.Reduce(Max, x)) }},
		{"scanned", 0, func(b *Builder, x Value) Value { return b.Reduce(Max, b.Scan(Add, x)) }},
	} {
		b := NewBuilder(f32)
		code, err := b.Build(b.Real(c.make(b, b.Load(0))))
		require.NoError(t, err)
		p, err := code.Pieces([]bool{false})
		if c.want != "" {
			require.ErrorContains(t, err, c.want, "%v", code)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.waits, p.Waits)
		require.NoError(t, p.Each.Check())
		require.NoError(t, p.Join.Check())
		require.Len(t, p.Each.In, 2)
		_, err = code.Pieces(nil)
		require.ErrorContains(t, err, "0 operands of a row")
	}
}

func leastWhere(b *Builder, is Value) Value {
	return b.Reduce(Min, b.Do(Select, is, b.Position(), b.Int(tensor.Int32, math.MaxInt32)))
}
