package product

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// This file estimates the cost of the two products of an attention (attention_blocks.go) and of packing their operands.
// The first product computes scores, and the second computes results. The cost of the row program between the products
// is not included.

// attentionWork returns the cost of the two products, including the packing of their operands.
func attentionWork(spec *graph.Attention) (work pricing.Work) {
	sizes, dtype := attentionSizesOf(spec), spec.Out.DType
	blockCount := float64(sizes.entries * sizes.blocksPerEntry)
	work.AddUnits(multiply.RateStartStep, 1)
	work.AddUnits(multiply.RateStartProduct, 2*blockCount/float64(sizes.entriesPerBlock))
	thinScores, thinValues := sizes.thinProducts(spec)
	for _, product := range [...]struct {
		isThin  bool
		m, n, k int
	}{{thinScores, sizes.blockRows, sizes.keys, sizes.keySize},
		{thinValues, sizes.blockRows, sizes.valueSize, sizes.keys}} {
		if product.isThin {
			multiply.AddThinProduct(&work, dtype, blockCount, float64(product.m)*float64(product.n)*float64(product.k))
		} else {
			multiply.AddProduct(&work, dtype, blockCount, product.m, product.n, product.k)
		}
	}
	for operand, rate := range attentionPackRates(spec) {
		addPacking(&work, rate, sizes.packedElements(operand))
	}
	return work
}

// packedElements returns the number of elements that a run packs if it packs the given operand. Keys and values are
// packed again for each block.
func (sizes attentionSizes) packedElements(operand int) float64 {
	keys := float64(sizes.blocksPerEntry) * float64(sizes.keys)
	queries := float64(sizes.queries)
	return float64(sizes.entries) * [...]float64{attentionQuery: queries * float64(sizes.keySize),
		attentionKey: keys * float64(sizes.keySize), attentionValue: keys * float64(sizes.valueSize)}[operand]
}

// attentionPackRates returns, by operand, the name of the rate for packing or transposing it (see multiply/work.go). A
// name is empty if products read the operand in place.
func attentionPackRates(spec *graph.Attention) (rates [3]string) {
	sizes := attentionSizesOf(spec)
	scores, values := sizes.productSpecs(spec, sizes.blockRows)
	packsQuery, packsKey := gemm.Packs(scores)
	_, packsValue := gemm.Packs(values)
	thinScores, thinValues := sizes.thinProducts(spec)
	rows, columns := len(spec.Batch), len(spec.Batch)+1 // dimensions of matrices
	if packsQuery && !thinScores || sizes.transposesQuery(spec) {
		rates[attentionQuery] = packingRate(spec.Query.Strides[columns], spec.Query.Strides[rows])
	}
	if packsKey && !thinScores || sizes.transposesKey(spec) {
		rates[attentionKey] = packingRate(spec.Key.Strides[rows], spec.Key.Strides[columns])
	}
	if packsValue && !thinValues {
		rates[attentionValue] = packingRate(spec.Value.Strides[rows], spec.Value.Strides[columns])
	}
	return rates
}

// attentionRead returns the cost of reading an operand in its layout minus the cost of reading it in row-major order.
// The two costs differ in the rate for packing the operand.
func attentionRead(spec *graph.Attention, operand int) (work pricing.Work) {
	rowMajor := *spec
	for _, m := range []*tensor.Meta{&rowMajor.Query, &rowMajor.Key, &rowMajor.Value} {
		*m = tensor.New(m.DType, m.Shape...)
	}
	rate, rowMajorRate := attentionPackRates(spec)[operand], attentionPackRates(&rowMajor)[operand]
	replacePacking(&work, rowMajorRate, rate, attentionSizesOf(spec).packedElements(operand))
	return work
}
