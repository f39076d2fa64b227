package exec

import (
	"slices"
	"sort"

	"github.com/graphrun/graphrun/tensor"
)

// This file chooses addresses in the arena (the memory block of intermediate values) by affinity. The workers of a step
// divide its result into parts. In consecutive steps, a worker computes the part at the same relative position. For
// example, the first of two workers always computes the first half. Writing to a cache line that another core wrote
// last is slow, because the line is first fetched from that core. If a value reuses the memory of an earlier value,
// each worker should therefore write the bytes that it wrote for the earlier value.

// affinity has the last use of each range of the arena, sorted by address.
type affinity struct {
	workers  int
	lastUses []lastUse
}

// lastUse is a range of the arena and the storage that used it last. The range may be a piece of this storage.
type lastUse struct {
	begin, end   int // the range in bytes: [begin, end)
	storageStart int // address of the storage
	storageBytes int // size of the storage
}

const (
	// maxParts is the maximum number of parts (one for each worker) for which affinity is computed.
	maxParts = 16
	// With affinity, the arena may be at most 1/arenaGrowthDivisor larger than without it. If a step exceeds this limit,
	// the values that are live in this step lose their affinity. Memory is then planned again, at most maxPlans times.
	arenaGrowthDivisor = 8
	maxPlans           = 8
)

// foreignBytes returns the cost of placing a storage of the given size at an address. The cost is the number of foreign
// bytes: bytes that one worker will write and another worker wrote last. Parts are assumed to be contiguous. For
// example, two workers last used bytes 0 to 99 for one storage. At address 50, a storage of 100 bytes has 50 foreign
// bytes: worker 0 will write bytes 50 to 99, which worker 1 wrote. If the last use of the range is one storage with the
// same address and size, the cost is -1. This placement is best even if parts are not contiguous, for example if the
// workers divide both values by channels.
func (a *affinity) foreignBytes(start, size int) int {
	totalBytes, ownBytes := 0, 0
	uses := a.lastUsesIn(start, start+size)
	if len(uses) == 1 && uses[0].storageStart == start && uses[0].storageBytes == size {
		return -1
	}
	placed := lastUse{storageStart: start, storageBytes: size}
	// The bytes of an earlier use that the same worker writes again are the intersection of three ranges: the worker's
	// part of the new storage, its part of the earlier storage, and the bytes of the earlier storage that no later
	// storage has used, [use.begin, use.end).
	for _, use := range uses {
		totalBytes += min(use.end, start+size) - max(use.begin, start)
		for worker := range a.workers {
			from, to := placed.workerRange(worker, a.workers)
			begin, end := use.workerRange(worker, a.workers)
			ownBytes += max(0, min(to, end, use.end)-max(from, begin, use.begin))
		}
	}
	return totalBytes - ownBytes
}

// workerRange returns the range of a worker's part of a storage.
func (u *lastUse) workerRange(worker, workers int) (begin, end int) {
	return u.storageStart + u.storageBytes*worker/workers, u.storageStart + u.storageBytes*(worker+1)/workers
}

// lastUsesIn returns the last uses of the arena's bytes [start, end).
func (a *affinity) lastUsesIn(start, end int) []lastUse {
	first, limit := a.indexRange(start, end)
	return a.lastUses[first:limit]
}

// indexRange returns the range of indices, [first, limit), of the last uses that overlap the arena's bytes [start,
// end).
func (a *affinity) indexRange(start, end int) (first, limit int) {
	first = sort.Search(len(a.lastUses), func(i int) bool { return a.lastUses[i].end > start })
	limit = sort.Search(len(a.lastUses), func(i int) bool { return a.lastUses[i].begin >= end })
	return first, max(first, limit)
}

// chooseAddress returns the index of a free block, and an address in the block, at which a new storage of the given
// size has the fewest foreign bytes. Among blocks with equally few foreign bytes it prefers the smallest block. It
// returns -1 if no block is large enough. It considers these addresses in a block: the lowest, the highest, and for
// each earlier storage in the block the address at which both storages have the same middle. The parts of a worker then
// overlap.
func (a *affinity) chooseAddress(blocks []block, size int) (blockIndex, address int) {
	blockIndex, minForeign := -1, 0
	consider := func(k, candidate int) {
		foreign := a.foreignBytes(candidate, size)
		isSmaller := blockIndex >= 0 && blocks[k].size < blocks[blockIndex].size
		if blockIndex < 0 || foreign < minForeign || foreign == minForeign && isSmaller {
			blockIndex, address, minForeign = k, candidate, foreign
		}
	}
	for k := range blocks {
		candidateBlock := &blocks[k]
		if candidateBlock.size < size {
			continue
		}
		lastAddress := candidateBlock.offset + candidateBlock.size - size
		consider(k, candidateBlock.offset)
		consider(k, lastAddress)
		for _, use := range a.lastUsesIn(candidateBlock.offset, candidateBlock.offset+candidateBlock.size) {
			middle := (use.storageStart + (use.storageBytes-size)/2) &^ (tensor.Align - 1) // rounded down to Align
			consider(k, min(max(middle, candidateBlock.offset), lastAddress))
		}
	}
	return blockIndex, address
}

// record adds a storage of the given size at an address, as the last use of its range. If the storage covers an earlier
// use partly, only the bytes before or after the storage remain of the earlier use.
func (a *affinity) record(start, size int) {
	end := start + size
	first, limit := a.indexRange(start, end)
	replacement := make([]lastUse, 0, 3)
	if first < limit {
		if cut := a.lastUses[first]; cut.begin < start {
			cut.end = start
			replacement = append(replacement, cut)
		}
	}
	replacement = append(replacement, lastUse{begin: start, end: end, storageStart: start, storageBytes: size})
	if first < limit {
		if cut := a.lastUses[limit-1]; cut.end > end {
			cut.begin = end
			replacement = append(replacement, cut)
		}
	}
	a.lastUses = slices.Replace(a.lastUses, first, limit, replacement...)
}
