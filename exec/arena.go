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
