package product

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// This file describes the kernel of products of byte matrices (byteTiles) to the planner: the layouts that it supports,
// and the cost of a call. Operand a has the rows of the products, and operand b has the columns. A byteShape is the
// division of the products into tiles of height x width() sums. A group has the elements along the depth that one
// instruction multiplies.

// MultipliesBytes reports whether products of byte matrices run as machine code on this machine. Without machine code,
// such a product is slower than the float product that it would replace.
func MultipliesBytes() bool {
	return tile.SupportsIntegers(machine.HostFeatures()) && jit.Available() == nil
}

// bytesContraction describes a call as a contraction, and divides it into tiles. Batch dimensions become rows of one
// matrix if possible.
func bytesContraction(call *graph.Call) (product *contraction, shape byteShape, err error) {
	if product, err = productContraction(call, call.Out[0]); err != nil {
		return nil, shape, err
	}
	sharesMatrix := storedMatrices(call.Meta(bytesB)) == 1 // whether all entries multiply by the same matrix
	rows := product.m
	if sharesMatrix {
		rows *= product.entries()
	}
	// Entries are merged only into rows. If n is 1, mergeBatch could merge them into columns. If each row of an entry
	// has its own zero point (stride > 0), entries are not merged, because zero points have no batch dimension.
	if sharesMatrix && product.n > 1 && vectorStride(call, bytesAZero) == 0 {
		product.mergeBatch()
	}
	return product, newByteShape(product.m, product.n, product.k, rows), nil
}

// storedMatrices returns the number of matrices that an operand stores. Broadcasting may repeat them in the batch of
// the product.
func storedMatrices(operand tensor.Meta) int {
	return tensor.Numel(operand.Shape[:max(0, operand.Rank()-2)])
}

// bytesWalks implements [graph.Impl.Walks] for tiles. Tiles write only row-major results. They require machine code and
// a depth of at least 1.
func bytesWalks(call *graph.Call, _ []tensor.Order) []graph.Walk {
	a := call.Meta(bytesA)
	if !MultipliesBytes() || call.Out[0].Numel() == 0 || a.Shape[a.Rank()-1] == 0 {
		return nil
	}
	if out := call.Out[0]; !out.IsContiguous() {
		return []graph.Walk{call.WalkInOrder(tensor.RowMajorOrder(out.Rank()))}
	}
	return []graph.Walk{{}} // the zero Walk: the result keeps its layout
}

// bytesReadWork implements [graph.Impl.Read] for tiles. Scales must be contiguous. Matrices a and b may have any
// layout, but packing a matrix that is not row-major transposes it, which has a cost.
func bytesReadWork(call *graph.Call, _ graph.Walk, operand int, meta tensor.Meta) (work pricing.Work, ok bool) {
	switch {
	case operand == bytesScale:
		return work, meta.IsContiguous()
	case operand > bytesB || meta.IsContiguous() || call.IsConstant(operand): // a constant b is packed before the run
		return work, true
	}
	work.Bytes[pricing.Tiled] = float64(2 * meta.Numel())
	return work, true
}

// matrixTimeRatio is the time per multiply-add of instructions that multiply 2 x 8 by 8 x 2 bytes, divided by the time
// per multiply-add of dot products. It is llvm-mca's estimate for Neoverse V1: 109 multiply-adds per cycle instead of
// 64.
const matrixTimeRatio = 0.59

// bytesWork implements [graph.Impl.Work] for tiles. It counts the work of tiles and of copying the operands into
// groups.
func bytesWork(call *graph.Call, _ graph.Walk) pricing.Work {
	work := pricing.Work{StartedSteps: 1}
	call.AddStreamed(&work)
	product, shape, err := bytesContraction(rowMajor(call)) // bytesReadWork prices other layouts
	if err != nil {
		return work
	}
	entries := float64(product.entries())
	multiply.ReclassifyStores(&work, call)                  // the bytes of the result, from Dense to Copied
	multiply.ReclassifyPanels(&work, call, bytesB, shape.m) // bytes of a constant b, from DenseConstants to Panels
	work.AddUnits(multiply.RateStartStep, 1)                // in addition to StartedSteps: a product starts slower
	work.AddUnits(multiply.RateStartProduct, entries)
	if shape.usesMatrixUnit {
		work.AddUnits(multiply.RateUnitBytes, entries*multiply.UnitByteMACs(shape.m, shape.n,
			kit.DivUp(shape.groups, tile.UnitTerms)))
	} else {
		columns := kit.DivUp(shape.n, shape.lanes) * shape.lanes
		macs := entries * float64(shape.m) * float64(columns) * float64(shape.groups*shape.groupElements)
		if shape.multipliesMatrices() {
			macs *= matrixTimeRatio
		}
		work.AddUnits(multiply.RateTileBytes, macs)
	}
	work.AddUnits(multiply.RateTileCall, entries*float64(kit.DivUp(shape.m, shape.height)*shape.blocks()))
	bytesPerCopy := 1 + shape.groupBytes/shape.groupElements // an element is read as a byte and written as in a group
	a, hasPadding := call.Meta(bytesA), shape.k%shape.groupElements > 0
	// Rows are copied if bytes become words, if the sign bits of bytes may be flipped (int8), or if groups are padded.
	if shape.usesWords() || a.DType == tensor.Int8 || hasPadding {
		work.Bytes[pricing.Copied] += float64(a.Numel() * bytesPerCopy)
	}
	if b := call.Meta(bytesB); !call.IsConstant(bytesB) {
		work.Bytes[pricing.Copied] += float64(b.Numel() * bytesPerCopy)
	}
	work.Flops = productFlops(call)
	return work
}
