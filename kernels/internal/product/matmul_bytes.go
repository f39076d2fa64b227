package product

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// MatmulBytes is the product of quantized matrices. It replaces several ops of quantized models and combines their
// constants. With zero points za and zb, the int32 sums are
//
//	sum[i, j] = bias[j] + sum over k of (a[i, k] - za[i]) * (b[k, j] - zb[j])
//
// and, with a scale, the result is saturate(round(sum[i, j] * scale[j]) + zero_point).
var MatmulBytes = kit.Define[*kit.EmptyAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "matmul_bytes",
		Doc: "Subtracts zero points from matrices of uint8 or int8 and multiplies them as matmul does. `input_zero_point` " +
			"has one element, or one for each row of `input`. `other_zero_point` has one element, or one for each column of " +
			"`other`. The sums are int32 and wrap. `bias`, int32 with one element for each column, is added to them. `scale` " +
			"is float32, with one element or one for each column. With `scale` and `zero_point`, sums are scaled, rounded to " +
			"even, added to `zero_point`, and clamped to its dtype, uint8 or int8.",
		Params: []graph.Param{kit.Input, kit.Other, {Name: "input_zero_point", Optional: true},
			{Name: "other_zero_point", Optional: true}, kit.OptBias, {Name: "scale", Optional: true},
			{Name: "zero_point", Optional: true}},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			t, err := bytesResultType(c)
			return c.NewResult(t), err
		},
		Ref: bytesRef,
		Examples: []graph.Example{
			{In: []tensor.Meta{tensor.New(tensor.Uint8, 2, 5, 8), tensor.New(tensor.Int8, 8, 33), tensor.New(tensor.Uint8),
				{}, tensor.New(tensor.Int32, 33), kit.F32(33), tensor.New(tensor.Int8)}},
			{In: []tensor.Meta{tensor.New(tensor.Int8, 3, 7), tensor.New(tensor.Uint8, 2, 7, 4), tensor.New(tensor.Int8, 3),
				tensor.New(tensor.Uint8, 4)}},
			{In: []tensor.Meta{tensor.New(tensor.Uint8, 9, 20), tensor.New(tensor.Int8, 20)}},
		},
	},
	Facts: graph.Facts{WritesAnyDenseLayout: true, Flops: productFlops},
	Lowerings: graph.Lowerings{
		Impls: []graph.Impl{
			{Name: "tiled", Doc: "Packs other into panels, once if it is constant. Multiplies groups of four or eight " +
				"bytes, or of two words, in tiles whose sums stay in registers. Quantizes strips of sums in the cache, or in " +
				"registers.",
				Epilogues: true, Walks: bytesWalks, Work: bytesWork, Read: bytesReadWork, Pack: packBytes, Lower: lowerBytes},
			{Name: "loops", Doc: "Computes each element by a plain loop.", Lower: lowerBytesLoops},
		},
	},
})

// bytesRef is the reference implementation. Its float64 sums are exact.
func bytesRef(call *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	result, err := bytesResultType(call)
	if err != nil {
		return nil, err
	}
	// Omitted last operands become nil.
	in = append(append([]*tensor.Tensor{}, in...), make([]*tensor.Tensor, 1+bytesZero-len(in))...)
	// elementOrZero returns the element of a vector operand for index[dim], or 0 if the operand is omitted.
	elementOrZero := func(vector int, index []int, dim int) float64 {
		if in[vector] == nil {
			return 0
		}
		return kit.ElementAlong(in[vector], index, dim)
	}
	// minusZeroPoint returns operand `matrix` minus operand `zeroPoint`, whose elements vary along dimension dim.
	minusZeroPoint := func(matrix, zeroPoint, dim int) *tensor.Tensor {
		operand := in[matrix]
		difference := tensor.Zeros(tensor.Float64, operand.Shape...)
		kit.EachIndex(operand.Shape, func(index []int) {
			difference.Set(tensor.FloatScalar(operand.At(index...).Float()-elementOrZero(zeroPoint, index, dim)), index...)
		})
		return difference
	}
	a := minusZeroPoint(bytesA, bytesAZero, in[bytesA].Rank()-2)
	b := minusZeroPoint(bytesB, bytesBZero, in[bytesB].Rank()-1)
	sums, err := productRef(&graph.Call{Attrs: &kit.EmptyAttrs{}, In: call.In[:2]}, []*tensor.Tensor{a, b})
	if err != nil {
		return nil, err
	}
	resultMeta := kit.KnownMeta(result)
	out := tensor.Zeros(resultMeta.DType, resultMeta.Shape...)
	kit.EachIndex(resultMeta.Shape, func(index []int) {
		last := len(index) - 1
		sum := int32(int64(sums[0].At(index...).Float())) + int32(elementOrZero(bytesBias, index, last))
		element := int64(sum)
		if in[bytesScale] != nil {
			element = multiply.Requantize(resultMeta.DType, sum, float32(elementOrZero(bytesScale, index, last)),
				elementOrZero(bytesZero, index, last))
		}
		out.Set(tensor.IntScalar(element), index...)
	})
	return []*tensor.Tensor{out}, nil
}

// lowerBytesLoops implements [graph.Impl.Lower] by loops in Go. A chunk computes some rows of the result of one entry.
func lowerBytesLoops(call *graph.Call) (*graph.Kernel, error) {
	product, err := productContraction(call, call.Out[0])
	if err != nil {
		return nil, err
	}
	loops := newByteLoops(call, product)
	rowsPerChunk := max(1, loopsMACs/max(1, product.n*product.k))
	chunksPerEntry := kit.DivUp(product.m, rowsPerChunk)
	return &graph.Kernel{Phases: []graph.Phase{{Chunks: product.entries() * chunksPerEntry,
		Run: func(mem *graph.Mem, chunk int) error {
			entry, firstRow := chunk/chunksPerEntry, chunk%chunksPerEntry*rowsPerChunk
			for i := firstRow; i < min(product.m, firstRow+rowsPerChunk); i++ {
				for j := range product.n {
					loops.store(mem, loops.sum(mem, entry, i, j), entry, i, j)
				}
			}
			return nil
		}}}}, nil
}

// byteLoops computes a product of byte matrices element by element.
type byteLoops struct {
	*contraction
	call                         *graph.Call
	aDType, bDType, resultDType  tensor.DType
	vectorStrides                [1 + bytesZero]int // strides of the vector operands, by operand
	aOffsets, bOffsets, cOffsets []int              // offsets of the entries' matrices; nil if all are 0
}

func newByteLoops(call *graph.Call, product *contraction) *byteLoops {
	loops := &byteLoops{contraction: product, call: call, aDType: call.Meta(bytesA).DType,
		bDType: call.Meta(bytesB).DType, resultDType: call.Out[0].DType, aOffsets: product.a.offsets(product.batch),
		bOffsets: product.b.offsets(product.batch), cOffsets: product.c.offsets(product.batch)}
	for operand := bytesAZero; operand <= bytesZero; operand++ {
		loops.vectorStrides[operand] = vectorStride(call, operand)
	}
	return loops
}

// address returns the address of an operand, or nil if the operand is omitted.
func (l *byteLoops) address(mem *graph.Mem, operand int) unsafe.Pointer {
	if operand >= len(l.call.In) {
		return nil
	}
	return mem.Ptrs[1+operand]
}

// offsetOf returns the offset of an entry's matrix. offsets is nil if all offsets are 0.
func offsetOf(offsets []int, entry int) int {
	if offsets == nil {
		return 0
	}
	return offsets[entry]
}

// sum returns element (i, j) of the sums of an entry, with the bias.
func (l *byteLoops) sum(mem *graph.Mem, entry, i, j int) (sum int32) {
	aZero := byteAt(l.address(mem, bytesAZero), l.aDType, i*l.vectorStrides[bytesAZero])
	bZero := byteAt(l.address(mem, bytesBZero), l.bDType, j*l.vectorStrides[bytesBZero])
	if biases := l.address(mem, bytesBias); biases != nil {
		sum = *(*int32)(kit.AddressOf[int32](biases, j*l.vectorStrides[bytesBias]))
	}
	aRow := offsetOf(l.aOffsets, entry) + i*l.a.row
	bColumn := offsetOf(l.bOffsets, entry) + j*l.b.col
	kit.ForEachBlock(mem.Context, l.k, func(begin, end int) {
		for k := begin; k < end; k++ {
			a := byteAt(mem.Ptrs[1+bytesA], l.aDType, aRow+k*l.a.col)
			b := byteAt(mem.Ptrs[1+bytesB], l.bDType, bColumn+k*l.b.row)
			sum += (a - aZero) * (b - bZero)
		}
	})
	mem.CheckContextAfter(2 * l.k)
	return sum
}

// store converts a sum to element (i, j) of the result of an entry.
func (l *byteLoops) store(mem *graph.Mem, sum int32, entry, i, j int) {
	resultOffset := offsetOf(l.cOffsets, entry) + i*l.c.row + j*l.c.col
	scales := l.address(mem, bytesScale)
	if scales == nil {
		*(*int32)(kit.AddressOf[int32](mem.Ptrs[0], resultOffset)) = sum
		return
	}
	scale := *(*float32)(kit.AddressOf[float32](scales, j*l.vectorStrides[bytesScale]))
	zeroPoint := byteAt(l.address(mem, bytesZero), l.resultDType, 0)
	element := multiply.Requantize(l.resultDType, sum, scale, float64(zeroPoint))
	*(*uint8)(unsafe.Add(mem.Ptrs[0], resultOffset)) = uint8(element) // the same byte for uint8 and int8
}
