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

// prefetch returns the prefetching in a loop that processes groupRows rows together. operands are the places of the
// loop's operands. isSelected reports whether an operand may be prefetched. If rows are consecutive or long, the
// prefetch distance is the given number of bytes. Otherwise the distance is a number of rows with about this number of
// bytes, a multiple of groupRows. A loop along columns prefetches into L1 (1.7 ms instead of 2 ms for 64 MiB). A loop
// along rows prefetches into L2, which is as fast.
func (b *builder) prefetch(operands []expr.Place, isSelected func(place expr.Place) bool,
	groupRows, bytes int) loops.Prefetch {
	result := loops.Prefetch{IntoL1: b.alongColumns}
	rows := 1 // number of consecutive rows
	switch outer := b.outerAxis(); {
	case outer == firstKept:
		rows = b.kept[0].length
	case outer < len(b.reduced):
		rows = b.maxLength(outer)
	}
	for position, place := range operands {
		// Only an operand that is read in place and exceeds L2 is prefetched.
		i := b.outCount + place.N
		if place.Kind != expr.AtOperand || !isSelected(place) || b.inObjects[place.N] != i ||
			b.elementCount(i)*b.objects[i].size < machine.L2Bytes {
			continue
		}
		rowBytes, step := b.maxLength(b.innerAxis())*b.objects[i].size, b.objects[i].stride(b.outerAxis())
		distance, isLong := bytes, rowBytes*rows >= minPrefetchRatio*bytes
		if rowBytes < 2*bytes && rowBytes != step && step != 0 { // short rows that are not consecutive
			rowsAhead := groupRows * max(1, bytes/rowBytes/groupRows)
			distance, isLong = rowsAhead*step, rows >= minPrefetchRatio*rowsAhead
		}
		// All operands have the same distance.
		if isLong && distance == int(int32(distance)) && (result.Operands == 0 || result.Bytes == int32(distance)) {
			result.Operands, result.Bytes = result.Operands|1<<position, int32(distance)
		}
	}
	return result
}

// allOperands selects all operands for prefetching.
func allOperands(expr.Place) bool { return true }

// passPrefetch returns the prefetching of a pass. A single pass prefetches its operands. If fused passes would evict
// shared operands, only the first pass prefetches, into L1. Otherwise the second of several passes, whose operands are
// in the cache, prefetches the operands of the first pass for the next tile. Reading memory then overlaps with
// computation.
func (b *builder) passPrefetch(passIndex int, in []expr.Place) (result loops.Prefetch) {
	switch {
	case len(b.program.Passes) == 1:
		return b.prefetch(in, allOperands, 1, onePassPrefetch)
	case b.severalRowsPerCall && b.evictsSharedOperands(): // passes after the first read from the cache
		if passIndex == 0 {
			result = b.prefetch(in, allOperands, 1, onePassPrefetch)
			result.IntoL1 = true
		}
		return result
	}
	if !b.severalRowsPerCall || b.tilesAlongFirstKept == 1 || passIndex != 1 {
		return result
	}
	for position, place := range in {
		if place.Kind != expr.AtOperand || b.inObjects[place.N] != b.outCount+place.N ||
			!slices.Contains(b.program.Passes[0].In, place) {
			continue
		}
		if distance := b.tileLen * b.kept[0].strides[b.outCount+place.N]; distance != 0 &&
			distance == int(int32(distance)) {
			result = loops.Prefetch{Operands: 1 << position, Bytes: int32(distance)}
		}
	}
	return result
}
