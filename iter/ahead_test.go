package iter_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// expAdd is exp(x) + y, or x + y.
func expAdd(t *testing.T, d tensor.DType, exp bool) iter.Kernel {
	t.Helper()
	b := expr.NewBuilder(d, d)
	x, y := b.Convert(tensor.Float32, b.Load(0)), b.Convert(tensor.Float32, b.Load(1))
	if exp {
		x = b.Emit(expr.Exp, x)
	}
	c, err := b.Build(b.Real(b.Convert(d, b.Emit(expr.Add, x, y))))
	require.NoError(t, err)
	return iter.Expr(c)
}

var prefetch = regexp.MustCompile(`PREFETCHT0\s+\d+\((\w+)\)`)

// TestReadAhead: loops of costly operations that write past the caches prefetch what they read in order. Loops for
// arm64 do not prefetch.
func TestReadAhead(t *testing.T) {
	if !loops.CodeAvailable() || !machine.HostFeatures().Has(machine.AVX2) {
		t.Skip("no machine code for amd64")
	}
	const far = 8 << 20
	for _, tc := range []struct {
		d     tensor.DType
		exp   bool
		a, b  tensor.Meta
		wants int // operands that are asked for
	}{
		{tensor.Float32, true, tensor.New(tensor.Float32, far), tensor.New(tensor.Float32, far), 2},
		{tensor.Float32, true, tensor.New(tensor.Float32, 16, far/16), tensor.New(tensor.Float32, 1, 1), 1},
		{tensor.Float32, true, tensor.New(tensor.Float32, 512), tensor.New(tensor.Float32, 512), 0},
		{tensor.Float32, true, tensor.New(tensor.Float32, far/512, 512), tensor.New(tensor.Float32, 512), 0},
		{tensor.Float32, false, tensor.New(tensor.Float32, far), tensor.New(tensor.Float32, far), 0},
		{tensor.BFloat16, false, tensor.New(tensor.BFloat16, far), tensor.New(tensor.BFloat16, far), 2},
	} {
		it, err := iter.Binary(iter.UndefinedOutput(), iter.OperandOfMeta(tc.a), iter.OperandOfMeta(tc.b)).Build()
		require.NoError(t, err)
		p, err := it.Prepare(expAdd(t, tc.d, tc.exp))
		require.NoError(t, err)
		asked := map[string]bool{}
		for _, reg := range prefetch.FindAllStringSubmatch(p.Listings()[0].Assembly(), -1) {
			asked[reg[1]] = true
		}
		require.Len(t, asked, tc.wants, "%v and %v, exp %v", tc.a, tc.b, tc.exp)
	}
}
