package rowprog_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/rowprog"
	"github.com/graphrun/graphrun/tensor"
)

// firstExtreme returns the position of the first extreme of x*w, or of NaN, and a sum with an operand of one element
// per row.
func firstExtreme(b *expr.Builder, op expr.Op) []expr.Output {
	x := b.Emit(expr.Mul, b.Load(0), b.Load(1))
	is := b.Emit(expr.Or, b.Emit(expr.Eq, b.Reduce(op, x), x), b.Emit(expr.Ne, x, x))
	place := b.Reduce(expr.Min, b.Emit(expr.Select, is, b.Position(), b.Int(tensor.Int32, math.MaxInt32)))
	sum := b.Reduce(expr.Add, b.Convert(tensor.Int64, b.Load(1)))
	return []expr.Output{b.Real(place), b.Real(b.Emit(expr.Add, sum, b.Convert(tensor.Int64, b.Load(2))))}
}

// TestPieces compares rows that are cut into pieces with the definition: any layout, reduced dimensions that cannot be
// merged, a shorter last piece, rows shorter than a piece, ties, and NaN anywhere.
func TestPieces(t *testing.T) {
	shapes := []struct {
		full []int
		mask []bool
	}{
		{[]int{4096}, []bool{true}}, {[]int{10007}, []bool{true}}, {[]int{3, 9000}, []bool{false, true}},
		{[]int{5000, 9}, []bool{true, false}}, {[]int{3, 4500}, []bool{true, true}},
		{[]int{2, 70, 2, 90}, []bool{true, true, false, true}}, {[]int{33, 2, 130}, []bool{true, false, true}},
		{[]int{300}, []bool{true}}, {[]int{5, 3, 8192}, []bool{true, false, true}},
		{[]int{19, 300, 2}, []bool{true, true, false}}, {[]int{19, 300}, []bool{true, true}},
	}
	for seed := uint64(0); seed < 22; seed += testsize.Of[uint64](2, 1) {
		rng := rand.New(rand.NewPCG(seed, 11))
		op := []expr.Op{expr.Max, expr.Min}[seed/11%2]
		tc := testCode{in: []tensor.DType{f32, f32, f32}, one: []bool{true, true}}
		b := expr.NewBuilder(tc.in...)
		c, err := b.Build(firstExtreme(b, op)...)
		require.NoError(t, err)
		s := shapes[seed%uint64(len(shapes))]
		in, outs := metasOf(rng, tc, c, s.full, s.mask)
		p, err := rowprog.NewPieces(c, outs, in, s.mask, rowprog.Direction(rng.IntN(3)))
		require.NoError(t, err)
		require.NotNil(t, p)
		results, operands, ptrs := filled(rng, outs, in)
		for range rng.IntN(3) {
			x := operands[0]
			x.Set(tensor.FloatScalar(math.NaN()), unravel(rng.IntN(x.Numel()), x.Shape)...)
		}
		runChunks(t, rng, p, ptrs)
		checkRows(t, fmt.Sprintf("seed %d: %v of %v", seed, s.mask, in), c, operands, results, s.mask, s.full)
		if t.Failed() {
			return
		}
		require.ErrorContains(t, p.Run(new(rowprog.State), p.Phases(), 0, ptrs, nil, nil), "has no chunk")
		require.ErrorContains(t, p.Run(new(rowprog.State), 0, 0, ptrs[:1], nil, nil), "addresses for")
		require.ErrorContains(t, p.Run(new(rowprog.State), 0, 0, ptrs, nil, nil), "scratch memory")
	}
}

// NewPieces returns nil for results that pieces do not determine.
func TestNoPieces(t *testing.T) {
	x, row := tensor.New(f32, 2, 9000), tensor.New(f32, 2, 1)
	pieces := func(out tensor.Meta, make func(b *expr.Builder) expr.Value) *rowprog.Pieces {
		b := expr.NewBuilder(f32)
		c, err := b.Build(b.Real(make(b)))
		require.NoError(t, err)
		p, err := rowprog.NewPieces(c, []tensor.Meta{out}, []tensor.Meta{x}, []bool{false, true}, rowprog.AnyDirection)
		require.NoError(t, err)
		return p
	}
	require.Nil(t, pieces(row, func(b *expr.Builder) expr.Value { return b.Reduce(expr.Max, b.Load(0)) }))
	require.Nil(t, pieces(row, func(b *expr.Builder) expr.Value {
		return b.Reduce(expr.Max, b.Emit(expr.Sub, b.Load(0), b.Reduce(expr.Max, b.Load(0))))
	}))
	require.Nil(t, pieces(x, func(b *expr.Builder) expr.Value {
		return b.Emit(expr.Sub, b.Load(0), b.Reduce(expr.Max, b.Load(0)))
	}))
	_, err := rowprog.NewPieces(&expr.Code{}, nil, []tensor.Meta{x}, []bool{false, true}, rowprog.AnyDirection)
	require.ErrorContains(t, err, "but the expression has")
}

// The position of the maximum of a long row: the maximum of each piece, and then the first among the greatest of these.
func ExampleNewPieces() {
	b := expr.NewBuilder(tensor.Float32)
	x := b.Load(0)
	is := b.Emit(expr.Eq, x, b.Reduce(expr.Max, x))
	first := b.Reduce(expr.Min, b.Emit(expr.Select, is, b.Position(), b.Int(tensor.Int32, math.MaxInt32)))
	code, _ := b.Build(b.Real(first))

	in := tensor.Zeros(tensor.Float32, 1, 10_000)
	in.Set(tensor.FloatScalar(2), 0, 7_000)
	in.Set(tensor.FloatScalar(2), 0, 9_000)
	out := tensor.Empty(tensor.New(tensor.Int32, 1, 1))
	p, err := rowprog.NewPieces(code, []tensor.Meta{out.Meta}, []tensor.Meta{in.Meta}, []bool{false, true},
		rowprog.AnyDirection)
	if err != nil {
		fmt.Println(err)
		return
	}
	worker, scratch := tensor.NewStorage(p.WorkerScratch()).Bytes(), tensor.NewStorage(p.Scratch()).Bytes()
	var s rowprog.State
	for phase := range p.Phases() {
		for chunk := range p.Chunks(phase) {
			if err := p.Run(&s, phase, chunk, []unsafe.Pointer{out.Pointer(), in.Pointer()}, scratch, worker); err != nil {
				fmt.Println(err)
			}
		}
	}
	fmt.Println(out.At(0, 0).Int())
	// Output: 7000
}
