package workerpool

import "sync/atomic"

// Parts are ranges of pending pieces of work. Each range belongs to one worker, or to several. A worker takes pieces
// from the front of its own range. When this range is empty, the worker steals the second half of another range.
// Results must not depend on which worker computes a piece.
//
// A worker therefore accesses memory in one direction, as hardware prefetchers expect. If a worker has the same range
// in consecutive steps, the results of the previous step are in its cache. Alternating pieces would be slower: a copy
// of 64 MiB by two cores takes 1.26 ms by halves, 1.43 ms in alternating pieces of 128 KiB, and 2.8 ms in alternating
// pieces of 16 KiB.
type Parts []atomic.Uint64 // by worker: the first piece in the upper 32 bits, the end in the lower 32 bits

// packRange packs a range into a word.
func packRange(first, end int) uint64 { return uint64(first)<<32 | uint64(end) }

// unpackRange is the inverse of packRange.
func unpackRange(x uint64) (first, end int) { return int(x >> 32), int(x & (1<<32 - 1)) }

// Distribute assigns each range its share of n pieces, n <= 2^31. It must be called before all other methods.
func (p Parts) Distribute(n int) {
	for i := range p {
		p[i].Store(packRange(n*i/len(p), n*(i+1)/len(p)))
	}
}

// Next takes the next piece of the range with the index part. It returns -1 if the range is empty.
func (p Parts) Next(part int) int {
	for {
		packed := p[part].Load()
		first, end := unpackRange(packed)
		if first >= end {
			return -1
		}
		if p[part].CompareAndSwap(packed, packRange(first+1, end)) {
			return first
		}
	}
}

// Steal moves the second half of the largest range to a worker whose own range is empty, and takes its first piece. It
// returns -1 if all ranges are empty. All callers must hold the same lock. While Steal moves pieces, they are in no
// range, and another call could return -1 although pieces are left.
func (p Parts) Steal(part int) int {
	if piece := p.Next(part); piece >= 0 {
		return piece // another worker of the same range has refilled it
	}
	for {
		victim, largest := -1, 0
		for i := range p {
			if first, end := unpackRange(p[i].Load()); end-first > largest {
				victim, largest = i, end-first
			}
		}
		if victim < 0 {
			return -1
		}
		packed := p[victim].Load()
		first, end := unpackRange(packed)
		middle := first + (end-first)/2
		if first >= end || !p[victim].CompareAndSwap(packed, packRange(first, middle)) {
			continue // the owner took pieces since the range was read
		}
		if middle+1 < end {
			p[part].Store(packRange(middle+1, end))
		}
		return middle
	}
}
