package team

import "sync/atomic"

// Parts are pieces of work, numbered from 0, that are not handed out yet, a run of them for each worker. A worker takes
// from the front of its own part, and then the second half of what somebody else has left. So it goes through memory in
// one direction, as prefetchers of hardware do, where pieces taken in turn give each core short stretches with gaps
// (a copy of 64 MiB by two cores: 1.26 ms by halves, 1.43 in turns of 128 KiB, 2.8 in turns of 16 KiB); and one that
// does the same parts step after step finds in its cache what it wrote. Which worker does a piece decides nothing else.
type Parts []atomic.Uint64 // the first piece in the upper half, behind the last in the lower one

func run(first, end int) uint64 { return uint64(first)<<32 | uint64(end) }

func bounds(x uint64) (first, end int) { return int(x >> 32), int(x & (1<<32 - 1)) }

// Deal gives each part its share of n pieces, fewer than 2^31. It comes before all else.
func (p Parts) Deal(n int) {
	for i := range p {
		p[i].Store(run(n*i/len(p), n*(i+1)/len(p)))
	}
}

// Next takes the next piece of a part; -1 where there is none.
func (p Parts) Next(part int) int {
	for {
		x := p[part].Load()
		first, end := bounds(x)
		if first >= end {
			return -1
		}
		if p[part].CompareAndSwap(x, run(first+1, end)) {
			return first
		}
	}
}

// Steal is for a worker whose part is done: it takes the second half of the largest part, as its own, and of that the
// first piece. It returns -1 where nothing is left to hand out. Whoever calls it has a lock, the same for all: what is
// on its way from part to part is seen by nobody, and where workers share a part, it is that of one.
func (p Parts) Steal(part int) int {
	if c := p.Next(part); c >= 0 {
		return c // another worker of the part has stolen meanwhile
	}
	for {
		from, most := -1, 0
		for i := range p {
			if first, end := bounds(p[i].Load()); end-first > most {
				from, most = i, end-first
			}
		}
		if from < 0 {
			return -1
		}
		x := p[from].Load()
		first, end := bounds(x)
		middle := first + (end-first)/2
		if first >= end || !p[from].CompareAndSwap(x, run(first, middle)) {
			continue // its worker was faster
		}
		if middle+1 < end {
			p[part].Store(run(middle+1, end))
		}
		return middle
	}
}
