package rowprog

import (
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
)

// Prefetch distances in bytes of loops with one pass and of fused loops. On Zen 5, a sum of 64 MiB along rows takes 1.4
// ms with 8192, 1.6 ms with 4096 or 32768, and 1.8 ms without prefetching. softmax of the same size takes 3.5 ms with
// 16384, 3.7 ms with 8192, and 4.4 ms with 4096.
const (
	onePassPrefetch = 8192
	fusedPrefetch   = 16384
	// minPrefetchRatio is the minimum length of a contiguous read, divided by the prefetch distance. A long read wastes
	// few prefetches beyond its end.
	minPrefetchRatio = 8
)

// passPrefetch returns the prefetching of a pass that reads operands at the given places (in):
//
//   - A single pass prefetches its operands.
//   - If fused passes would evict shared operands, only the first pass prefetches, into L1.
//   - Otherwise the second pass, which reads from the cache, prefetches an operand that the first pass reads in the
//     next tile. Reading memory then overlaps with computation.
func (b *builder) passPrefetch(passIndex int, in []expr.Place) (result loops.Prefetch) {
	const groupRows = 1 // a loop of one pass processes row after row
	switch {
	case len(b.program.Passes) == 1:
		return b.prefetch(in, allOperands, groupRows, onePassPrefetch)
	case b.severalRowsPerCall && b.evictsSharedOperands(): // passes after the first read from the cache
		if passIndex == 0 {
			result = b.prefetch(in, allOperands, groupRows, onePassPrefetch)
			result.IntoL1 = true
		}
		return result
	}
	hasNextTile := b.severalRowsPerCall && b.tilesAlongFirstKept != 1
	if passIndex == 1 && hasNextTile {
		return b.prefetchNextTile(in)
	}
	return result
}

// prefetchNextTile returns the prefetching of one operand in the next tile: the last operand in the list `in` that the
// first pass reads.
func (b *builder) prefetchNextTile(in []expr.Place) (result loops.Prefetch) {
	for position, place := range in {
		isReadByFirstPass := slices.Contains(b.program.Passes[0].In, place)
		if !b.isReadInPlace(place) || !isReadByFirstPass {
			continue
		}
		distance := b.tileLen * b.kept[0].strides[b.outCount+place.N]
		if distance != 0 && fitsInt32(distance) {
			result = loops.Prefetch{Operands: 1 << position, Bytes: int32(distance)}
		}
	}
	return result
}

// prefetch returns the prefetching in a loop that processes groupRows rows together. The result has the set of
// prefetched operands, and the distance in bytes from the element that is read to the element that is prefetched.
// operands are the places of the loop's operands. isSelected reports whether an operand may be prefetched. Selected
// operands are prefetched only if they exceed L2.
//
// If rows are consecutive or long, the prefetch distance is the given number of bytes. Otherwise it spans a multiple of
// groupRows rows, which together have about this number of bytes. For 8192 bytes and rows of 1 KiB that are 4 KiB
// apart, this is 8 rows, or 32 KiB.
//
// A loop along columns prefetches into L1 (1.7 ms instead of 2 ms for 64 MiB). A loop along rows prefetches into L2,
// which is as fast.
func (b *builder) prefetch(operands []expr.Place, isSelected func(place expr.Place) bool,
	groupRows, bytes int) loops.Prefetch {
	result := loops.Prefetch{IntoL1: b.alongColumns}
	rows := b.kept[0].length // number of rows along the outer axis
	if b.outerAxis() != firstKept {
		rows = b.maxLength(b.outerAxis())
	}
	for position, place := range operands {
		if !b.isReadInPlace(place) || !isSelected(place) {
			continue
		}
		object := &b.objects[b.outCount+place.N]
		if b.elementCount(b.outCount+place.N)*object.size < machine.L2Bytes {
			continue
		}
		rowBytes, rowStride := b.maxLength(b.innerAxis())*object.size, object.strides[b.outerAxis()]
		distance, isLongRead := bytes, rowBytes*rows >= minPrefetchRatio*bytes
		areConsecutive := rowBytes == rowStride || rowStride == 0
		if rowBytes < 2*bytes && !areConsecutive { // short rows
			rowsAhead := groupRows * max(1, bytes/rowBytes/groupRows)
			distance, isLongRead = rowsAhead*rowStride, rows >= minPrefetchRatio*rowsAhead
		}
		// A loops.Prefetch has one distance, so an operand with another distance than the first operand is not
		// prefetched.
		isFirst, hasSameDistance := result.Operands == 0, result.Bytes == int32(distance)
		if isLongRead && fitsInt32(distance) && (isFirst || hasSameDistance) {
			result.Operands, result.Bytes = result.Operands|1<<position, int32(distance)
		}
	}
	return result
}

// isReadInPlace reports whether a place is an operand of the program that loops read at its address, not a copy.
func (b *builder) isReadInPlace(place expr.Place) bool {
	return place.Kind == expr.AtOperand && b.inObjects[place.N] == b.outCount+place.N
}

// fitsInt32 reports whether x can be represented as an int32.
func fitsInt32(x int) bool { return x == int(int32(x)) }

// allOperands selects all operands for prefetching.
func allOperands(expr.Place) bool { return true }
