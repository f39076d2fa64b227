package exec

import (
	"math"
	"slices"
	"sort"

	"github.com/graphrun/graphrun/tensor"
)

// arena is the plan of a memory block that a run allocates on the host or on the device. Steps take and free parts of
// the arena when the program is compiled. A step that takes memory waits for the last users of the memory: the steps
// that read or wrote it.
type arena struct {
	*waits              // records that a step waits for another
	size        int     // in bytes
	blocks      []block // the free parts, by offset; no two are adjacent
	extendsLast bool    // grow extends a free block at the end; otherwise it leaves this block free
	couldExtend bool    // whether the arena grew while there was a free block at its end
}

// block is a free part of an arena.
type block struct {
	offset, size int     // in bytes
	users        []int32 // the last users, ascending
}

// maxArenaBytes is the maximum size of an arena. It is small enough that sums of sizes do not overflow.
const maxArenaBytes = math.MaxInt / 4

// alignedSize rounds a size up to a multiple of [tensor.Align], a power of two.
func alignedSize(size int) int { return (size + tensor.Align - 1) &^ (tensor.Align - 1) }

// alloc allocates size bytes (aligned) for step i: in the smallest block that is large enough, or by growing the arena.
func (a *arena) alloc(i, size int) (offset int, previousUsers []int32) {
	best := -1
	for k := range a.blocks {
		if candidate := &a.blocks[k]; candidate.size >= size && (best < 0 || candidate.size < a.blocks[best].size) {
			best = k
		}
	}
	if best < 0 {
		return a.grow(i, size)
	}
	offset = a.blocks[best].offset
	return offset, a.take(i, size, best, offset)
}

// grow allocates size bytes for step i at the end of the arena. It is called if no block is large enough.
func (a *arena) grow(i, size int) (offset int, previousUsers []int32) {
	offset = a.size
	if last := len(a.blocks) - 1; last >= 0 && a.blocks[last].offset+a.blocks[last].size == a.size {
		a.couldExtend = true
		if a.extendsLast {
			offset = a.blocks[last].offset
			previousUsers = a.take(i, a.blocks[last].size, last, offset)
		}
	}
	a.size = min(offset+size, maxArenaBytes)
	return offset, previousUsers
}

// take takes size bytes at an offset out of a free block for step i, and returns the users of the block.
func (a *arena) take(i, size, blockIndex, offset int) (previousUsers []int32) {
	taken := a.blocks[blockIndex]
	for _, user := range taken.users {
		a.addWait(i, user)
	}
	var unusedParts []block // the parts of the block before and after [offset, offset+size)
	if offset > taken.offset {
		unusedParts = append(unusedParts, block{taken.offset, offset - taken.offset, taken.users})
	}
	if end := taken.offset + taken.size; offset+size < end {
		unusedParts = append(unusedParts, block{offset + size, end - offset - size, taken.users})
	}
	a.blocks = slices.Replace(a.blocks, blockIndex, blockIndex+1, unusedParts...)
	return taken.users
}

// free adds memory to the blocks, and merges it with adjacent blocks. users are the steps that used the memory,
// ascending.
func (a *arena) free(offset, size int, users []int32) {
	size = alignedSize(size)
	if size == 0 {
		return
	}
	k := sort.Search(len(a.blocks), func(k int) bool { return a.blocks[k].offset > offset })
	a.blocks = slices.Insert(a.blocks, k, block{offset, size, a.truncateUsers(users)})
	a.joinWithNext(k)
	a.joinWithNext(k - 1)
}

// joinWithNext merges block k with the next one if both exist and are adjacent.
func (a *arena) joinWithNext(k int) {
	if k < 0 || k+1 >= len(a.blocks) || a.blocks[k].offset+a.blocks[k].size != a.blocks[k+1].offset {
		return
	}
	current, next := a.blocks[k], a.blocks[k+1]
	users := slices.Concat(current.users, next.users)
	slices.Sort(users)
	a.blocks[k] = block{current.offset, current.size + next.size, a.truncateUsers(slices.Compact(users))}
	a.blocks = slices.Delete(a.blocks, k+1, k+2)
}

// maxBlockUsers is the maximum length of a block's list of users.
const maxBlockUsers = 32

// truncateUsers keeps lists of users short, so that planning takes linear time. It replaces a list that is too long by
// the latest step of the list, and makes this step wait for the other steps. users is ascending.
func (a *arena) truncateUsers(users []int32) []int32 {
	if len(users) <= maxBlockUsers {
		return users
	}
	latest := users[len(users)-1]
	for _, user := range users[:len(users)-1] {
		a.addWait(int(latest), user)
	}
	return []int32{latest}
}

// This part chooses addresses in the arena (the memory block of intermediate values) by affinity. The workers of a step
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
