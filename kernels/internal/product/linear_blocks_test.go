package product_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// blocksOperands draws a product by a weight that is quantized by blocks.
func blocksOperands(r *rand.Rand, m, n, k int) ([]*tensor.Tensor, graph.Attrs) {
	bits, block := []int{2, 4, 8}[r.IntN(3)], []int{1, 7, 16, 32, 128}[r.IntN(5)]
	blocks := kit.DivUp(k, block)
	in := []*tensor.Tensor{kerneltest.RandomOperand(r, tensor.Float32, m, k),
		wholeNumbers(r, tensor.Uint8, 256, n, kit.DivUp(k*bits, 8)+r.IntN(2)),
		kerneltest.RandomOperand(r, tensor.Float32, n, blocks), wholeNumbers(r, tensor.Uint8, 256, n, blocks),
		kerneltest.RandomOperand(r, tensor.Float32, n)}
	for i := 3; i < 5; i++ {
		if r.IntN(2) == 0 {
			in[i] = nil
		}
	}
	for i, t := range in {
		if t != nil {
			in[i] = t.CopyTo(tensor.New(t.DType, t.Shape...))
		}
	}
	return in, graph.Attrs{"bits": bits, "block_size": block}
}

// TestLinearBlocks compares all implementations with the reference: few and many rows, incomplete panels and blocks,
// and operands that are packed or not.
func TestLinearBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 5))
	compiled := 0
	cases := testsize.Of(40, 200)
	for i := range cases {
		m, n, k := 1+r.IntN(6), 1+r.IntN(150), 1+r.IntN(90)
		switch r.IntN(8) {
		case 0, 3:
			m = 1 + r.IntN(200)
		case 1:
			n = 128
		case 2:
			k = 500 + r.IntN(100)
		}
		in, attrs := blocksOperands(r, m, n, k)
		var constants []int
		for k := 1; k < len(in); k++ {
			if in[k] != nil {
				constants = append(constants, k)
			}
		}
		p, err := kerneltest.NewProductCall("linear_blocks", attrs, in, constants...)
		require.NoError(t, err)
		want, err := p.Op.Ref(p.Call, in)
		require.NoError(t, err)
		for j := range p.Op.Impls {
			impl := &p.Op.Impls[j]
			for _, walk := range impl.Walks(p.Call, nil) {
				p.Call.Impl, p.Call.Walk = impl, walk
				for _, packed := range []bool{false, true} {
					got := p.Result(t, packed)
					compiled++
					bound := blocksError(attrs["block_size"].(int), in)
					kit.EachIndex(got.Shape, func(at []int) {
						a, b := got.At(at...).Float(), want[0].At(at...).Float()
						if math.Abs(a-b) > bound(at) {
							t.Fatalf("%d: %s, packed %v, %v %v: element %v is %v, want %v", i, impl.Name, packed, attrs,
								[]int{m, n, k}, at, a, b)
						}
					})
				}
			}
		}
	}
	if tile.Supports(machine.HostFeatures()) && jit.Available() == nil {
		assert.Equal(t, 4*cases, compiled)
	}
}

// blocksError returns a bound of the rounding errors of an element: the sum of the magnitudes of its terms, times the
// number of roundings.
func blocksError(block int, in []*tensor.Tensor) func(at []int) float64 {
	k := in[0].Shape[1]
	return func(at []int) float64 {
		total := 1.0
		for i := range k {
			total += math.Abs(in[0].At(at[0], i).Float()*in[2].At(at[1], i/block).Float()) * 256
		}
		return total * 0x1p-24 * math.Sqrt(float64(k)) * 4
	}
}

// TestLinearBlocksPacks packs the same operands for weights of 2, 4 and 8 bits: packings with the same form have the
// same data, and Unpack restores all bits.
func TestLinearBlocksPacks(t *testing.T) {
	if !tile.Supports(machine.HostFeatures()) || jit.Available() != nil {
		t.Skip("no machine code")
	}
	r := rand.New(rand.NewPCG(4, 7))
	in := []*tensor.Tensor{kerneltest.RandomOperand(r, tensor.Float32, 3, 64), wholeNumbers(r, tensor.Uint8, 256, 70, 64),
		kerneltest.RandomOperand(r, tensor.Float32, 70, 4), wholeNumbers(r, tensor.Uint8, 256, 70, 4), nil}
	for i, operand := range in[:4] {
		in[i] = operand.CopyTo(tensor.New(operand.DType, operand.Shape...))
	}
	seen := map[string][]byte{}
	for _, bits := range []int{2, 4, 8} {
		p, err := kerneltest.NewProductCall("linear_blocks", graph.Attrs{"bits": bits, "block_size": 16}, in, 1, 2, 3)
		require.NoError(t, err)
		p.Call.Impl = &p.Op.Impls[0]
		for i := 1; i < 4; i++ {
			packing, ok := p.Call.Impl.Pack(p.Call, i)
			require.True(t, ok)
			packed := tensor.Zeros(packing.DType, packing.Len)
			packing.Fill(t.Context(), packed, in[i])
			key := fmt.Sprint(i, packing.Format)
			if other, ok := seen[key]; ok {
				assert.Equal(t, other, packed.Storage().Bytes(), "%s, %d bits", key, bits)
			}
			seen[key] = packed.Storage().Bytes()
			if packing.Unpack != nil {
				restored := tensor.Zeros(in[i].DType, in[i].Shape...)
				packing.Unpack(restored, packed)
				assert.Equal(t, in[i].Storage().Bytes(), restored.Storage().Bytes(), "%s, %d bits", key, bits)
			}
		}
	}
}

// TestLinearBlocksRejects checks the errors of calls with operands that do not fit.
func TestLinearBlocksRejects(t *testing.T) {
	f, u := tensor.Float32, tensor.Uint8
	in := []tensor.Meta{tensor.New(f, 3, 40), tensor.New(u, 70, 20), tensor.New(f, 70, 3), tensor.New(u, 70, 3),
		tensor.New(f, 70)}
	for i, c := range []struct {
		attrs   graph.Attrs
		operand int
		meta    tensor.Meta
		message string
	}{
		{graph.Attrs{"bits": 3, "block_size": 16}, 0, in[0], "expected bits of 2, 4 or 8"},
		{graph.Attrs{"block_size": 0}, 0, in[0], "expected bits of 2, 4 or 8"},
		{graph.Attrs{"block_size": 16}, 0, tensor.New(tensor.Float64, 3, 40), "not implemented for 'Double'"},
		{graph.Attrs{"block_size": 16}, 0, tensor.New(f), "expected input [..., in]"},
		{graph.Attrs{"block_size": 16}, 1, tensor.New(u, 70, 19), "expected at least 20 bytes"},
		{graph.Attrs{"block_size": 16}, 2, tensor.New(f, 70, 2), "expected scale to be"},
		{graph.Attrs{"block_size": 16}, 3, tensor.New(f, 70, 3), "expected zero_point to be"},
		{graph.Attrs{"block_size": 16}, 4, tensor.New(f, 71), "expected bias to be"},
	} {
		metas := append([]tensor.Meta{}, in...)
		metas[c.operand] = c.meta
		call, err := kerneltest.CallOf(kernels.Lookup("linear_blocks"), c.attrs, metas)
		require.NoError(t, err)
		_, err = kerneltest.Infer(kernels.Lookup("linear_blocks"), call)
		assert.ErrorContains(t, err, c.message, "case %d", i)
	}
}

func BenchmarkLinearBlocks(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, m := range []int{1, 4, 8, 16, 24, 25, 32, 64, 128} {
		for _, bits := range []int{4, 8} {
			in := []*tensor.Tensor{kerneltest.RandomOperand(r, tensor.Float32, m, 1024),
				wholeNumbers(r, tensor.Uint8, 256, 3072, 1024*bits/8),
				kerneltest.RandomOperand(r, tensor.Float32, 3072, 32), nil, nil}
			for i, t := range in {
				if t != nil {
					in[i] = t.CopyTo(tensor.New(t.DType, t.Shape...))
				}
			}
			b.Run(fmt.Sprintf("rows=%d/bits=%d", m, bits), func(b *testing.B) {
				p, err := kerneltest.NewProductCall("linear_blocks", graph.Attrs{"bits": bits, "block_size": 32}, in, 1, 2)
				require.NoError(b, err)
				p.BenchImpl(b, "tiled", true)
			})
		}
	}
}
