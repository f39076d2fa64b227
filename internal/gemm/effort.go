package gemm

import "github.com/graphrun/graphrun/tensor"

// Effort estimates the work of [Tiled] for a product of m x k by k x n elements. macs is the number of multiply-adds of
// all register tiles, including multiply-adds on padding. calls is the number of calls of an inner kernel.
func Effort(dtype tensor.DType, m, n, k int) (macs, calls float64) {
	set := kernelsOf(dtype)
	if set.hasMachineCode() {
		return set.machineCodeEffort(m, n, k)
	}
	// A call computes a register tile of mr rows and nr columns, for a block of at most kc terms.
	tiles := float64(ceilDiv(m, set.mr) * ceilDiv(n, set.nr))
	return tiles * float64(set.mr*set.nr) * float64(k), tiles * float64(ceilDiv(max(k, 1), set.kc))
}

// PadsRows reports whether [Tiled] computes whole panels of rows even if A has fewer rows.
func PadsRows(dtype tensor.DType) bool { return !kernelsOf(dtype).hasMachineCode() }

// latencySums is the number of accumulator vectors below which the latency of multiply-adds limits the speed of a tile.
const latencySums = 8

// machineCodeEffort computes [Effort] for machine code. For each term, a register tile takes the maximum of three
// numbers of cycles: for its multiplications, for its loads, and for the latency of multiply-adds. A cycle counts as
// one multiply-add for each lane of a vector.
func (s *kernelSet) machineCodeEffort(m, n, k int) (macs, calls float64) {
	addPanels := func(cols, count int) { // adds `count` panels of `cols` columns
		if cols == 0 {
			return
		}
		vectors := s.vectors(cols)
		tallRows, tallCount, shortCount := divideEvenly(max(m, 1), s.maxHeights[vectors])
		for _, tiles := range [2]struct{ rows, count int }{{tallRows, tallCount}, {tallRows - 1, shortCount}} {
			multiplications, loads := tiles.rows*vectors, tiles.rows+vectors
			cycles := max(multiplications, loads, latencySums)
			// The conversions to float64 prevent fused multiply-adds, so that all architectures give the same estimate.
			macs += float64(float64(count*tiles.count) * float64(cycles*s.lanes) * float64(k))
		}
		calls += float64(count * (tallCount + shortCount) * ceilDiv(max(k, 1), s.kc))
	}
	addPanels(min(n, s.nr), n/s.nr) // whole panels of columns
	addPanels(n%s.nr, 1)            // the last columns
	return macs, calls
}
