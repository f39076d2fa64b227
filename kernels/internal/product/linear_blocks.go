package product

import (
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// LinearBlocks is a linear layer whose weight is quantized by blocks.
var LinearBlocks = kit.Define[*linearBlocksAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "linear_blocks",
		Doc: "Applies a fully connected layer whose weight is quantized by blocks: `input` [..., in] and `bias` [out] " +
			"give [..., out] in float32. `weight` is uint8 [out, bytes]: a row has an integer of `bits` bits for each of in " +
			"elements, the first in the lowest bits. `scale` and `zero_point` are [out, blocks], with one number for each " +
			"block of `block_size` elements of a row. `zero_point` is uint8, by default 2^(bits-1), and only its lowest bits " +
			"are read. An integer q stands for (q - zero_point) * scale.",
		Params: []graph.Param{kit.Input, kit.Weight, {Name: "scale"}, {Name: "zero_point", Optional: true}, kit.OptBias},
		Infer:  inferLinearBlocks,
		Ref:    linearBlocksRef,
		Examples: []graph.Example{
			{In: []tensor.Meta{kit.F32(3, 40), tensor.New(tensor.Uint8, 70, 20), kit.F32(70, 3), {}, kit.F32(70)},
				Attrs: graph.Attrs{"block_size": 16}},
			{In: []tensor.Meta{kit.F32(2, 9, 8), tensor.New(tensor.Uint8, 64, 8), kit.F32(64, 1),
				tensor.New(tensor.Uint8, 64, 1)}, Attrs: graph.Attrs{"block_size": 32, "bits": 8}},
			{In: []tensor.Meta{kit.F32(32), tensor.New(tensor.Uint8, 3, 8), kit.F32(3, 2), tensor.New(tensor.Uint8, 3, 2)},
				Attrs: graph.Attrs{"block_size": 16, "bits": 2}},
		},
	},
	Facts: graph.Facts{ConstantsByAddress: true, Parallel: linearLoops, Flops: linearBlocksFlops,
		FixedLayoutReason: "vectors hold the sums of adjacent columns"},
	Lowerings: graph.Lowerings{Impls: []graph.Impl{
		{Name: "tiled",
			Doc: "Multiplies panels by register tiles. For few rows, tiles read integers, and scale the sums of " +
				"blocks. For many rows, parts of panels are first converted to float32, in the cache.", Epilogues: true,
			Walks: levelWalks, Read: readLevels, Work: levelWork, Pack: packLevels, Lower: lowerLevels},
		{Name: "loops", Doc: "Converts one row of weight at a time, and multiplies by plain loops.", Read: readLevels,
			Work: blockLoopsWork, Lower: lowerBlockLoops},
	}},
})

// inferLinearBlocks checks a call. The result is row-major.
func inferLinearBlocks(call *graph.Call) ([]graph.Result, error) {
	const name = "linear_blocks"
	attrs := kit.Attrs[*linearBlocksAttrs](call)
	if attrs.Bits != 2 && attrs.Bits != 4 && attrs.Bits != 8 || attrs.BlockSize < 1 {
		return nil, fmt.Errorf("%s: expected bits of 2, 4 or 8 and a positive block_size, but got %d and %d", name,
			attrs.Bits, attrs.BlockSize)
	}
	input, weight, scale := call.Type(blocksInput), call.Type(blocksWeight), call.Type(blocksScale)
	for _, operand := range []struct {
		value tensor.Type
		dtype tensor.DType
	}{{input, tensor.Float32}, {weight, tensor.Uint8}, {scale, tensor.Float32}} {
		if operand.value.DType != operand.dtype {
			return nil, kit.NotImplemented(name, operand.value.DType)
		}
	}
	if input.Rank() < 1 || weight.Rank() != 2 {
		return nil, fmt.Errorf("%s: expected input [..., in] and weight [out, bytes], but got %s and %s", name,
			tensor.Sizes(input.Shape), tensor.Sizes(weight.Shape))
	}
	in, out := input.Shape[input.Rank()-1], weight.Shape[0]
	blocks := in.Add(sym.Of(attrs.BlockSize - 1)).Div(sym.Of(attrs.BlockSize)) // rounded up, as are bytes
	if bytes := in.Mul(sym.Of(attrs.Bits)).Add(sym.Of(7)).Div(sym.Of(8)); weight.Shape[1].Lt(bytes).Holds() {
		return nil, fmt.Errorf("%s: expected at least %v bytes in a row of weight, but got %v", name, bytes, weight.Shape[1])
	}
	for _, operand := range []struct {
		index int
		name  string
		dtype tensor.DType
		shape []sym.Int
	}{{blocksScale, "scale", tensor.Float32, []sym.Int{out, blocks}},
		{blocksZero, "zero_point", tensor.Uint8, []sym.Int{out, blocks}},
		{blocksBias, "bias", tensor.Float32, []sym.Int{out}}} {
		if operandType := call.Type(operand.index); call.HasOperand(operand.index) &&
			(operandType.DType != operand.dtype || !tensor.SameSizes(operandType.Shape, operand.shape)) {
			return nil, fmt.Errorf("%s: expected %s to be %v %s, but got %v %s", name, operand.name, operand.dtype,
				tensor.Sizes(operand.shape), operandType.DType, tensor.Sizes(operandType.Shape))
		}
	}
	shape := append(append([]sym.Int{}, input.Shape[:input.Rank()-1]...), out)
	return call.NewResult(tensor.NewType(tensor.Float32, shape...)), nil
}

// linearBlocksRef is the reference implementation. It rounds sums as [kit.Accumulator] does for float32. A level is an
// integer of the weight minus its zero point.
func linearBlocksRef(call *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	input, format := in[blocksInput], newBlockWeight(call)
	weight, rank := in[blocksWeight].CopyTo(tensor.New(tensor.Uint8, in[blocksWeight].Shape...)), input.Rank()
	format.rowStride, format.colStride = weight.Strides[0], weight.Strides[1]
	shape := append(append([]int{}, input.Shape[:rank-1]...), weight.Shape[0])
	out := tensor.Zeros(tensor.Float32, shape...)
	kit.EachIndex(shape, func(index []int) {
		column := index[rank-1]
		inputIndex := append([]int{}, index...)
		sum := kit.Accumulator{DType: tensor.Float32}
		for k := range input.Shape[rank-1] {
			inputIndex[rank-1] = k
			zeroPoint := float64(format.defaultZero)
			if len(in) > blocksZero && in[blocksZero] != nil {
				zeroPoint = float64(format.zeroPoint(uint8(in[blocksZero].At(column, k/format.blockElements).Float())))
			}
			level := float64(format.integer(unsafe.Add(weight.Pointer(), column*format.rowStride), k)) - zeroPoint
			element := float32(level) * float32(in[blocksScale].At(column, k/format.blockElements).Float())
			sum.AddProduct(input.At(inputIndex...), tensor.FloatScalar(float64(element)))
		}
		if len(in) > blocksBias && in[blocksBias] != nil {
			sum.Add(in[blocksBias].At(column))
		}
		out.Set(sum.Value(), index...)
	})
	return []*tensor.Tensor{out}, nil
}

// readLevels implements [graph.Impl.Read]: all operands must be row-major.
func readLevels(_ *graph.Call, _ graph.Walk, _ int, meta tensor.Meta) (pricing.Work, bool) {
	return pricing.Work{}, meta.IsContiguous()
}
