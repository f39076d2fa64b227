package product

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type attentionAttrs struct {
	Dropout   float64  `attr:"dropout_p" default:"0" doc:"fraction of the weights that is dropped; only 0 is supported"`
	IsCausal  bool     `attr:"is_causal" default:"false" doc:"query i sees keys 0 to i only"`
	Scale     *float64 `attr:"scale" default:"none" doc:"factor of the scores; none: 1 / sqrt(e)"`
	EnableGQA bool     `attr:"enable_gqa" default:"false" doc:"groups of query heads share a head of keys and values"`
}

// attentionMask is the operand index of attn_mask, after query (0), key (1) and value (2).
const attentionMask = 3

// ScaledDotProductAttention is softmax(query @ keyᵀ * scale + mask) @ value. The scores are the argument of softmax,
// and the weights are its result. The last batch dimension has the heads. With enable_gqa (grouped queries), adjacent
// query heads share a head of keys and values. For example, with 8 query heads and 2 key heads, query heads 0 to 3 use
// key head 0.
var ScaledDotProductAttention = kit.Define[*attentionAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "scaled_dot_product_attention",
		Doc: "Weighs values by how keys match queries: `query` [..., l, e], `key` [..., s, e] and `value` [..., s, v] " +
			"give [..., l, v]. `attn_mask` is broadcast to [..., l, s]. Floats are added to the scores. Bools mark the keys " +
			"that a query sees. The result of a query that sees no key is 0.",
		Params: []graph.Param{{Name: "query"}, {Name: "key"}, {Name: "value"}, {Name: "attn_mask", Optional: true}},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			resultType, err := attentionType(c)
			if err != nil {
				return nil, err
			}
			return c.NewResult(resultType), nil
		},
		Ref: attentionReference,
		Examples: []graph.Example{
			{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3, 4, 5), tensor.New(tensor.Float32, 2, 3, 6, 5),
				tensor.New(tensor.Float32, 2, 3, 6, 4), tensor.New(tensor.Bool, 4, 6)}},
			{In: []tensor.Meta{tensor.New(tensor.Float64, 4, 5, 3), tensor.New(tensor.Float64, 2, 5, 3),
				tensor.New(tensor.Float64, 2, 5, 3)},
				Attrs: graph.Attrs{"is_causal": true, "enable_gqa": true, "scale": 0.3}},
		},
	},
	Facts: graph.Facts{
		Parallel:             attentionLoops,
		WritesAnyDenseLayout: true,
		Flops: func(c *graph.Call) float64 {
			query, value := c.Meta(0), c.Meta(2)
			queries := tensor.Numel(c.Out[0].Shape[:c.Out[0].Rank()-1])
			features := query.Shape[query.Rank()-1] + value.Shape[value.Rank()-1]
			return 2 * float64(queries) * float64(value.Shape[value.Rank()-2]) * float64(features)
		},
	},
	Lowerings: graph.Lowerings{
		Compile: func(c *graph.Call) (*graph.Kernel, error) {
			if c.Out[0].Numel() == 0 {
				return &graph.Kernel{}, nil
			}
			return lowerAttention(c)
		},
	},
})

// attentionType checks a call and returns the type of its result.
func attentionType(call *graph.Call) (result tensor.Type, err error) {
	attrs, query, key, value := kit.Attrs[*attentionAttrs](call), call.Type(0), call.Type(1), call.Type(2)
	if err := attrs.check(query, key, value, call.HasOperand(attentionMask)); err != nil {
		return result, err
	}
	rows := func(operand tensor.Type) sym.Int { return operand.Shape[operand.Rank()-2] }
	columns := func(operand tensor.Type) sym.Int { return operand.Shape[operand.Rank()-1] }
	queries, keys := rows(query), rows(key)
	// The message shows query and key even if only the number of values is wrong.
	if columns(key).Ne(columns(query)).Or(rows(value).Ne(keys)).Holds() {
		return result, fmt.Errorf("mat1 and mat2 shapes cannot be multiplied (%vx%v and %vx%v)", queries, columns(query),
			columns(key), keys)
	}
	batch, err := attentionBatch(query, key, value, attrs.EnableGQA)
	if err != nil {
		return result, err
	}
	result = tensor.NewType(query.DType, append(slices.Clone(batch), queries, columns(value))...)
	if !call.HasOperand(attentionMask) {
		return result, nil
	}
	mask := call.Type(attentionMask)
	if mask.DType != tensor.Bool && mask.DType != query.DType {
		return result, fmt.Errorf("Expected attn_mask dtype to be bool or to match query dtype, but got attn_mask.dtype: %s "+
			"and  query.dtype: %s instead.", kit.CppName(mask.DType), kit.CppName(query.DType))
	}
	_, err = mask.Expand(append(batch, queries, keys))
	return result, err
}

// check makes the first checks of attentionType, which do not depend on sizes.
func (attrs *attentionAttrs) check(query, key, value tensor.Type, hasMask bool) error {
	switch {
	case key.DType != query.DType || value.DType != query.DType:
		return fmt.Errorf("Expected query, key, and value to have the same dtype, but got query.dtype: %s "+
			"key.dtype: %s and value.dtype: %s instead.", kit.CppName(query.DType), kit.CppName(key.DType),
			kit.CppName(value.DType))
	case query.Rank() < 2 || key.Rank() < 2 || value.Rank() < 2:
		return fmt.Errorf("Expected query, key, and value to all be  at least 2 dimensional, but got query.dim(): "+
			"%d, key.dim(): %d and value.dim(): %d instead.", query.Rank(), key.Rank(), value.Rank())
	case !query.DType.IsFloat():
		return kit.NotImplementedBy("softmax_lastdim_kernel_impl", query.DType)
	case attrs.Dropout != 0:
		return errors.New("scaled_dot_product_attention: dropout_p other than 0 is not supported")
	case attrs.IsCausal && hasMask:
		return errors.New("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
	}
	return nil
}

// attentionBatch returns the sizes of the result before the last two. If enableGQA is set, the heads of key and value
// are repeated to the number of query heads.
func attentionBatch(query, key, value tensor.Type, enableGQA bool) ([]sym.Int, error) {
	batchOf := func(operand tensor.Type) []sym.Int { return slices.Clone(operand.Shape[:operand.Rank()-2]) }
	queryBatch, keyBatch, valueBatch := batchOf(query), batchOf(key), batchOf(value)
	if enableGQA {
		heads := len(queryBatch) - 1 // the dimension of the heads
		haveHeads := heads >= 0 && len(keyBatch) == heads+1 && len(valueBatch) == heads+1
		if !haveHeads || kit.SizeIs(keyBatch[heads], 0) ||
			!kit.SizeIs(queryBatch[heads].Mod(keyBatch[heads]), 0) || valueBatch[heads].Ne(keyBatch[heads]).Holds() {
			return nil, errors.New("Number of heads in key and value must divide the number of heads in query")
		}
		keyBatch[heads], valueBatch[heads] = queryBatch[heads], queryBatch[heads]
	}
	batch, err := tensor.BroadcastSizes(queryBatch, keyBatch)
	if err != nil {
		return nil, err
	}
	return tensor.BroadcastSizes(batch, valueBatch)
}

// scaleOf returns the number by which scores are multiplied. elements is the number of elements of a query.
func (attrs *attentionAttrs) scaleOf(elements int) float64 {
	if attrs.Scale != nil {
		return *attrs.Scale
	}
	return 1 / math.Sqrt(float64(elements))
}

// headGroupSize returns the number of adjacent query heads that share a head of keys and values.
func (attrs *attentionAttrs) headGroupSize(query, key tensor.Meta) int {
	if !attrs.EnableGQA {
		return 1
	}
	return query.Shape[query.Rank()-3] / key.Shape[key.Rank()-3]
}

// lowerAttention makes the kernel of a call. It describes the call as a [graph.Attention] for [compileAttention].
// Package fusion uses the same description for attentions that it finds in a graph. The description has a row program,
// an expression that computes the weights of a query from the scores of the query. The first operand of the row program
// is the scores. The field Others lists the further operands, such as the mask. Operands in 16-bit floats are converted
// first.
func lowerAttention(call *graph.Call) (*graph.Kernel, error) {
	attrs, builder, dtype := kit.Attrs[*attentionAttrs](call), copies.NewKernelBuilder(call), call.Out[0].DType.OpMath()
	out := builder.StridedResult(0, dtype)
	var operands [1 + attentionMask]kit.Buffer // query, key, value and mask; the mask may be omitted
	for i := range operands {
		operands[i] = builder.Operand(i)
		if meta := operands[i].Meta; operands[i].IsGiven() && meta.DType != tensor.Bool && meta.DType != dtype {
			operands[i] = builder.ToRowMajor(operands[i], dtype)
		}
	}
	query, key, value, mask := operands[0].Meta, operands[1].Meta, operands[2].Meta, operands[attentionMask]
	queries, keys := query.Shape[query.Rank()-2], key.Shape[key.Rank()-2]
	if attrs.IsCausal { // query i sees only the keys 0 to i, so no query sees keys from index `queries` on
		keys = min(keys, queries)
		key, value = withRows(key, keys), withRows(value, keys)
	}
	if keys == 0 {
		builder.AddCall(view.Zeros, graph.Attrs{"size": out.Meta.Shape, "dtype": dtype}, []kit.Buffer{out})
		return builder.Kernel()
	}
	heads := headGroups{batchRank: out.Meta.Rank() - 2, groupSize: attrs.headGroupSize(query, key)}
	spec := heads.attention(out.Meta, query, key, value)
	buffers := []kit.Buffer{out, operands[0], operands[1], operands[2]} // followed by Others
	switch {
	case attrs.IsCausal: // the row program compares the indices of query and key
		indices := causalIndices(builder, queries, keys)
		buffers = append(buffers, indices[:]...)
		spec.Others = []tensor.Meta{indices[0].Meta, indices[1].Meta}
	case call.HasOperand(attentionMask):
		buffers = append(buffers, mask)
		spec.Others = []tensor.Meta{heads.withSplitHeads(mask.Meta, heads.groupSize)}
	}
	if err := setRowProgram(spec, attrs.scaleOf(query.Shape[query.Rank()-1])); err != nil {
		return nil, err
	}
	kernel, err := compileAttention(spec)
	if err != nil {
		return nil, err
	}
	builder.AddPhases(kernel.Scratch, kernel.WorkerScratch, buffers, kernel.Phases...)
	builder.AddListings(kernel.Code)
	builder.AddFoldOrder(kernel.FoldOrder)
	return builder.Kernel()
}

// attention returns the description of a call, without Others and the row program. Key is transposed to [..., e, s].
// For grouped queries, the dimension of the heads is split in two: [..., key heads, query heads per key head]. Key and
// Value have size 1 in the second of these dimensions, because the query heads of a group share them.
func (g headGroups) attention(out, query, key, value tensor.Meta) *graph.Attention {
	spec := &graph.Attention{Out: g.withSplitHeads(out, g.groupSize), Query: g.withSplitHeads(query, g.groupSize),
		Key: swapLastDims(g.withSplitHeads(key, 1)), Value: g.withSplitHeads(value, 1)}
	spec.Batch = spec.Out.Shape[:spec.Out.Rank()-2]
	return spec
}

// attentionReference computes the weights and the result of each query in float64. Conversions of products to float64
// prevent fused multiply-adds.
func attentionReference(call *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	resultType, err := attentionType(call)
	if err != nil {
		return nil, err
	}
	result, _ := resultType.Meta()
	attrs, out := kit.Attrs[*attentionAttrs](call), tensor.Zeros(result.DType, result.Shape...)
	groupSize := attrs.headGroupSize(in[0].Meta, in[1].Meta)
	kit.EachIndex(result.Shape[:result.Rank()-1], func(index []int) {
		batch := index[:len(index)-1]
		weights, maxScore := attrs.scores(in, batch, index[len(index)-1])
		sum := 0.0
		for i, score := range weights {
			weights[i] = math.Exp(score - maxScore)
			if math.IsInf(maxScore, -1) { // the query sees no key
				weights[i] = 0
			}
			sum += weights[i]
		}
		for column := range result.Shape[result.Rank()-1] {
			mean := 0.0
			for i, weight := range weights {
				if weight != 0 {
					mean += float64(weight / sum * headElement(in[2], batch, i, column, groupSize))
				}
			}
			out.Set(tensor.FloatScalar(mean), append(slices.Clone(index), column)...)
		}
	})
	return []*tensor.Tensor{out}, nil
}

// scores returns the scores of all keys for the query in the given row, and their maximum. batch is the index in the
// batch dimensions of the result.
func (attrs *attentionAttrs) scores(in []*tensor.Tensor, batch []int, row int) (scores []float64, maxScore float64) {
	query, key := in[0], in[1]
	elements, groupSize := query.Shape[query.Rank()-1], attrs.headGroupSize(query.Meta, key.Meta)
	const ungrouped = 1 // each query head has its own matrix of queries and mask
	var mask *tensor.Tensor
	if len(in) > attentionMask {
		mask = in[attentionMask]
	}
	scores, maxScore = make([]float64, key.Shape[key.Rank()-2]), math.Inf(-1)
	for i := range scores {
		for k := range elements {
			keyElement := headElement(key, batch, i, k, groupSize)
			scores[i] += float64(headElement(query, batch, row, k, ungrouped) * keyElement)
		}
		scores[i] *= attrs.scaleOf(elements)
		switch {
		case mask != nil && mask.DType == tensor.Bool:
			if headElement(mask, batch, row, i, ungrouped) == 0 {
				scores[i] = math.Inf(-1)
			}
		case mask != nil:
			scores[i] += headElement(mask, batch, row, i, ungrouped)
		case attrs.IsCausal && i > row:
			scores[i] = math.Inf(-1)
		}
		maxScore = max(maxScore, scores[i])
	}
	return scores, maxScore
}

// headElement returns element (i, j) of one matrix of an operand. batch is the index of the matrix in the result, and
// the last number of batch is the query head. groupSize adjacent query heads share a matrix.
func headElement(matrix *tensor.Tensor, batch []int, i, j, groupSize int) float64 {
	index := append(slices.Clone(batch), i, j)
	if groupSize > 1 {
		index[len(batch)-1] /= groupSize
	}
	return broadcastElement(matrix, index).Float()
}

// attentionLoops returns a parallel loop for each batch dimension along which query, key and value are not broadcast.
// The mask may be broadcast along such a dimension. If enable_gqa is set, attentionLoops returns no loop over heads.
func attentionLoops(call *graph.Call) []graph.Parallel {
	out := call.Out[0]
	batchRank := out.Rank() - 2
	if kit.Attrs[*attentionAttrs](call).EnableGQA {
		batchRank--
	}
	var loops []graph.Parallel
	for batchDim := range batchRank {
		loop := kit.LoopOverResults(call)
		// The mask may be broadcast.
		loop.ResultDims[0], loop.MayBroadcast = batchDim, []bool{false, false, false, true}[:len(call.In)]
		for i := range call.In {
			operand := call.Meta(i)
			dim := batchDim - (out.Rank() - operand.Rank())
			if dim >= 0 && dim < operand.Rank()-2 && operand.Shape[dim] == out.Shape[batchDim] {
				loop.OperandDims[i] = dim
			}
		}
		// A negative dimension ([graph.Whole]) means that an operand is not divided.
		if loop.OperandDims[0] >= 0 && loop.OperandDims[1] >= 0 && loop.OperandDims[2] >= 0 {
			loops = append(loops, loop)
		}
	}
	return loops
}
