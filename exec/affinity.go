package exec

import (
	"slices"
	"sort"

	"github.com/graphrun/graphrun/tensor"
)

// Each of several workers has a part of a value, the same part of each where steps follow one another, and finds in its
// cache what it wrote. To write where another worker wrote last takes as long as to read that: the line is fetched from
// the other core first. So memory is taken over where the bytes of a part were of the same part of what was there
// before, as far as there is a choice.

const (
	// mostParts bounds the parts that are told apart.
	mostParts = 16
	// moreArena is the part of the arena that it may be larger by. Where it would be more, what is in it when it grows
	// is in the way of something larger: it may then be anywhere, and all is planned anew, so often at most.
	moreArena  = 8
	plansTried = 8
)

// tenant is what lay last in some of the arena: from at on, as far as end, a piece of a storage that is at from, of so
// many bytes.
type tenant struct{ at, end, from, bytes int }

// affinity is who used what of the arena last, in the order of addresses.
type affinity struct {
	workers int
	tenants []tenant
}

// part is where worker w has its part of a storage.
func (t *tenant) part(w, workers int) (begin, end int) {
	return t.from + t.bytes*w/workers, t.from + t.bytes*(w+1)/workers
}

// over lists the tenants of the bytes from at to end.
func (a *affinity) over(at, end int) []tenant {
	first := sort.Search(len(a.tenants), func(i int) bool { return a.tenants[i].end > at })
	last := sort.Search(len(a.tenants), func(i int) bool { return a.tenants[i].at >= end })
	return a.tenants[first:max(first, last)]
}

// foreign is how many bytes of a storage at a place were another worker's. It is negative where a storage of the same
// size was, and nothing since: that is no other worker's either where they share channels, which lie side by side.
func (a *affinity) foreign(at, size int) int {
	all, own := 0, 0
	if was := a.over(at, at+size); len(was) == 1 && was[0].from == at && was[0].bytes == size {
		return -1
	}
	placed := tenant{from: at, bytes: size}
	for _, t := range a.over(at, at+size) {
		all += min(t.end, at+size) - max(t.at, at)
		for w := range a.workers {
			from, to := placed.part(w, a.workers)
			begin, end := t.part(w, a.workers)
			own += max(0, min(to, end, t.end)-max(from, begin, t.at))
		}
	}
	return all - own
}

// settle notes that a storage lies somewhere from now on.
func (a *affinity) settle(at, size int) {
	end := at + size
	first := sort.Search(len(a.tenants), func(i int) bool { return a.tenants[i].end > at })
	last := sort.Search(len(a.tenants), func(i int) bool { return a.tenants[i].at >= end })
	now := make([]tenant, 0, 3)
	if first < last {
		if t := a.tenants[first]; t.at < at {
			t.end = at
			now = append(now, t)
		}
	}
	now = append(now, tenant{at, end, at, size})
	if first < last {
		if t := a.tenants[last-1]; t.end > end {
			t.at = end
			now = append(now, t)
		}
	}
	a.tenants = slices.Replace(a.tenants, first, max(first, last), now...)
}

// choose returns the free block, and where in it, that has the fewest bytes of other workers; of several such, as
// memory is taken by one worker: the beginning of the smallest. It returns -1 where none is large enough.
func (a *affinity) choose(blocks []block, size int) (best, at int) {
	best, least := -1, 0
	try := func(k, place int) {
		n := a.foreign(place, size)
		if best < 0 || n < least || n == least && k != best && blocks[k].size < blocks[best].size {
			best, at, least = k, place, n
		}
	}
	for k := range blocks {
		b := &blocks[k]
		if b.size < size {
			continue
		}
		last := b.at + b.size - size
		try(k, b.at)
		try(k, last)
		for _, t := range a.over(b.at, b.at+b.size) {
			middle := (t.from + (t.bytes-size)/2) &^ (tensor.Align - 1)
			try(k, min(max(middle, b.at), last))
		}
	}
	return best, at
}
