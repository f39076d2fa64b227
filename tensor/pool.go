package tensor

import (
	"errors"
	"strings"
	"sync"
	"unsafe"
	"weak"
)

// Pool hands out storage for results, and keeps the memory of released results for the next ones. The zero Pool is
// ready, and safe for concurrent use.
//
// It holds memory by weak pointers: a garbage collection empties it. Memory enters it by [Tensor.Release] alone. The
// memory of a result that is dropped without a release belongs to the collector, which sees slices of its bytes and
// pointers into it where a count of tensors would not.
type Pool struct {
	mu    sync.Mutex
	kept  []keptArray // the last released at the end
	bytes int
}

// keptArray is released memory.
type keptArray struct {
	array weak.Pointer[byte]
	size  int
}

// A pool keeps at most maxKept arrays, and maxKeptBytes unless a single array is larger. Arrays below minKept are not
// kept: Go allocates and clears one in less than a microsecond.
const (
	maxKept      = 32
	maxKeptBytes = 1 << 30
	minKept      = 4 << 10
)

// Take returns storage of n bytes, aligned to [Align], that [Storage.Release] gives back to the pool. Its contents are
// zero if zeroed is set, else arbitrary: then the caller must write all of it before it is read. It panics where
// [NewStorage] does.
func (p *Pool) Take(n int, zeroed bool) *Storage {
	if n < minKept {
		s := NewStorage(n)
		s.pool = p
		return s
	}
	b := p.find(n)
	switch {
	case b != nil && zeroed:
		clear(b[:n])
	case b == nil && zeroed:
		b = NewStorage(n).data
	case b == nil:
		b = uninitialized(n)
	}
	return &Storage{data: b[:n:n], room: len(b), pool: p}
}

// Adopt returns storage over the same bytes that [Storage.Release] marks as released. The pool does not keep such
// memory, which other storage may share.
func (p *Pool) Adopt(s *Storage) *Storage { return &Storage{data: s.Bytes(), pool: p} }

// find takes an array of n bytes or a little more from the pool; nil where it has none. The last released is preferred:
// caches may hold it.
func (p *Pool) find(n int) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.kept) - 1; i >= 0; i-- {
		k := p.kept[i]
		if k.size < n || k.size-n > n/4 {
			continue
		}
		p.drop(i)
		if at := k.array.Value(); at != nil {
			return unsafe.Slice(at, k.size)
		}
	}
	return nil
}

// drop forgets an array.
func (p *Pool) drop(i int) {
	p.bytes -= p.kept[i].size
	p.kept = append(p.kept[:i], p.kept[i+1:]...)
}

var (
	errNoResult = errors.New("the tensor is not the result of a run")
	errReleased = errors.New("the tensor was released before")
)

// release marks storage as released, and keeps its memory.
func (p *Pool) release(s *Storage) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.released {
		return errReleased
	}
	b := s.data
	s.data, s.released = nil, true
	if s.room < minKept {
		return nil
	}
	p.kept = append(p.kept, keptArray{weak.Make(unsafe.SliceData(b)), s.room})
	p.bytes += s.room
	for len(p.kept) > maxKept || p.bytes > maxKeptBytes && len(p.kept) > 1 {
		p.drop(0)
	}
	return nil
}

// Release gives the memory of a result back to the program that made it, which uses it for later results. Views are
// released with it: using one panics with "tensor: used after Release", and a run returns an error for one. Slices of
// the result's bytes and pointers into it must not be used any more.
//
// Results of runs, and views of them, can be released. The error says that t was released before, or that it is not a
// result: inputs, constants, their views and all other tensors are refused. A run must not read or write t meanwhile.
func (t *Tensor) Release() error {
	if t == nil {
		return errors.New("Release: the tensor is nil")
	}
	return t.storage.Release()
}

// Release is [Tensor.Release] of all tensors over the storage.
func (s *Storage) Release() error {
	err := errNoResult
	if s != nil && s.pool != nil {
		err = s.pool.release(s)
	}
	if err != nil {
		return errors.New("Release: " + err.Error())
	}
	return nil
}

// Releasable reports whether the storage is that of a result which was not released.
func (s *Storage) Releasable() bool { return s != nil && s.pool != nil && !s.released }

// uninitialized returns n bytes or more with arbitrary contents, aligned to [Align]. Only strings.Builder returns
// memory of Go's heap that the runtime does not clear: make clears memory that a collection freed, and append clears
// the part that it does not copy to. 64 MiB of freed memory, written once: 7.5 ms, 14 ms by append, more by make.
func uninitialized(n int) []byte {
	mustAllocate(n)
	var b strings.Builder
	b.Grow(n + Align - 1)
	size := b.Cap()
	b.WriteByte(0)
	all := unsafe.Slice(unsafe.StringData(b.String()), size)
	ownPages(all)
	return aligned(all)
}
