package index

import (
	"context"
	"math"
	"math/bits"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// lineRanker finds the first count elements of a line in sorted order.
type lineRanker struct {
	reader        *keyReader
	length, count int
	// selects is set if count is much less than length. Then the line is read in blocks, and only candidates for the
	// result are sorted.
	selects bool
}

const (
	wordBytes      = 8   // bytes of the numbers in the worker memory of a ranker
	selectBlockLen = 512 // number of elements that are read at once for a selection
)

// newLineRanker returns the ranker for lines of a length.
func newLineRanker(dtype tensor.DType, length, count int, isDescending bool) *lineRanker {
	return &lineRanker{reader: newKeyReader(dtype, isDescending), length: length, count: count,
		selects: count*4 < length}
}

// positionBits returns the number of bits of the indices of a list.
func positionBits(length int) int { return bits.Len(uint(max(1, length) - 1)) }

// needsKeys reports whether a key and an index may have more than 64 bits together.
func (r *lineRanker) needsKeys() bool { return r.reader.bits+positionBits(r.length) > 64 }

// scratchWords returns the size of the worker memory, in numbers of 64 bits.
func (r *lineRanker) scratchWords() int {
	switch {
	case r.selects:
		return 4 * r.maxCandidates()
	case r.needsKeys():
		return 3 * r.length
	}
	return 2 * r.length
}

// maxCandidates returns the maximum number of candidates.
func (r *lineRanker) maxCandidates() int { return 2*r.count + selectBlockLen }

// rank returns the indices of the first elements of a line in sorted order. The elements are step bytes apart, from
// address src on.
func (r *lineRanker) rank(mem *graph.Mem, src unsafe.Pointer, step int) []int {
	scratch := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))), r.scratchWords())
	if r.selects {
		return r.selectFirst(mem, scratch, src, step)
	}
	words, swapped := scratch[:r.length], scratch[r.length:2*r.length]
	keys := swapped
	if r.needsKeys() {
		keys = scratch[2*r.length:]
	}
	kit.ForEachBlock(mem.Context, r.length, func(begin, end int) {
		r.reader.read(keys[begin:end], unsafe.Add(src, begin*step), step)
	})
	sorted, _ := sortPositions(mem.Context, keys, words, swapped)
	return asInts(sorted)[:r.count]
}

// asInts returns indices as ints.
func asInts(words []uint64) []int {
	return unsafe.Slice((*int)(unsafe.Pointer(unsafe.SliceData(words))), len(words))
}

// selectFirst is rank for a count that is much less than the length of the line. It collects candidates, the elements
// that may be among the first. If there are many candidates, it sorts them and drops all except the first.
func (r *lineRanker) selectFirst(mem *graph.Mem, scratch []uint64, src unsafe.Pointer, step int) []int {
	capacity := r.maxCandidates()
	candidates := &candidateList{keys: scratch[:capacity], indices: scratch[capacity : 2*capacity],
		words: scratch[2*capacity : 3*capacity], swapped: scratch[3*capacity:]}
	if r.count == 0 {
		return nil
	}
	limit := uint64(math.MaxUint64) // the greatest key of candidates
	for begin := 0; begin < r.length; begin += selectBlockLen {
		block := candidates.keys[candidates.n:][:min(selectBlockLen, r.length-begin)]
		r.reader.read(block, unsafe.Add(src, begin*step), step)
		candidates.addBlock(block, begin, limit)
		if candidates.n > capacity-selectBlockLen {
			candidates.keepFirst(mem.Context, r.count)
			last := candidates.keys[r.count-1]
			if last == 0 { // no key is less
				break
			}
			limit = last - 1 // of equal elements, those with lesser indices are first
		}
		mem.CheckContextAfter(len(block))
	}
	candidates.keepFirst(mem.Context, r.count)
	return asInts(candidates.indices[:r.count])
}

// candidateList has elements of a line. Elements with equal keys are in the order of their indices.
type candidateList struct {
	n              int
	keys, indices  []uint64
	words, swapped []uint64 // temporary memory of the same lengths
}

// addBlock adds the elements of a block whose keys are at most limit. block has the keys of all elements of the block,
// in the memory of c.keys from element c.n on. begin is the index of the first of them in the line.
func (c *candidateList) addBlock(block []uint64, begin int, limit uint64) {
	keys, indices := block, c.indices[c.n:][:len(block)]
	n := 0
	for i, key := range block {
		keys[n], indices[n] = key, uint64(begin+i) // overwritten by the next element if the key is greater
		if key <= limit {
			n++
		}
	}
	c.n += n
}

// keepFirst sorts the list and drops all except the first count elements.
func (c *candidateList) keepFirst(ctx context.Context, count int) {
	sorted, free := sortPositions(ctx, c.keys[:c.n], c.words[:c.n], c.swapped[:c.n])
	c.n = min(c.n, count)
	for _, list := range [][]uint64{c.keys, c.indices} {
		for i, position := range sorted[:c.n] {
			free[i] = list[position]
		}
		copy(list, free[:c.n])
	}
}
