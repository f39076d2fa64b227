package tensor

import (
	"errors"
	"strings"
	"sync"
	"unsafe"
	"weak"
)

// Pool allocates storage, for example for the results of runs, and recycles the memory of released storage. The zero
// Pool is ready for use, and safe for concurrent use.
//
// The pool holds memory by weak pointers, so a garbage collection empties it. Only [Tensor.Release] and
// [Storage.Release] add memory to the pool. The garbage collector frees storage that is not released. Reference counts
// of tensors could not replace the collector, because they would not count slices of the bytes and pointers into them.
type Pool struct {
	mu      sync.Mutex
	entries []releasedArray // in the order of release
	bytes   int             // the sum of the sizes of entries
}

// releasedArray is the memory of released storage.
type releasedArray struct {
	// array is a weak.Pointer. It is an interface because otherwise every package that uses Tensor would also compile the
	// methods of weak.Pointer, which slows builds.
	array interface{ Value() *byte }
	size  int
}

// A pool keeps at most maxPooledArrays arrays with a total size of at most maxPooledBytes, or a single larger array.
// Arrays of less than minPooledBytes bytes are not kept: Go allocates and clears such an array in less than a
// microsecond.
const (
	maxPooledArrays = 32
	maxPooledBytes  = 1 << 30
	minPooledBytes  = 4 << 10
)

// Take returns storage of n bytes, aligned to [Align], that [Storage.Release] returns to the pool. The bytes are 0 if
// zeroed is set. Otherwise they are arbitrary, and the caller must write them before it reads them. Take panics where
// [NewStorage] does.
func (p *Pool) Take(n int, zeroed bool) *Storage {
	if n < minPooledBytes {
		s := NewStorage(n)
		s.pool = p
		return s
	}
	array := p.find(n)
	switch {
	case array != nil && zeroed:
		clear(array[:n])
	case array == nil && zeroed:
		array = NewStorage(n).data
	case array == nil:
		array = uninitialized(n)
	}
	return &Storage{data: array[:n:n], recyclableBytes: len(array), pool: p}
}

// Adopt returns new storage over the bytes of s. [Storage.Release] marks the new storage as released, but the pool does
// not recycle its memory, because other storage may share it.
func (p *Pool) Adopt(s *Storage) *Storage {
	return &Storage{data: s.Bytes(), place: s.Place(), pool: p}
}

// find removes an array of n bytes, or up to a quarter more, from the pool and returns it. It returns nil if there is
// no such array. It prefers the most recently released array, because the data of this array may still be in a cache.
func (p *Pool) find(n int) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.entries) - 1; i >= 0; i-- {
		entry := p.entries[i]
		if entry.size < n || entry.size-n > n/4 {
			continue
		}
		p.removeEntry(i) // the pointer is nil if the garbage collector has freed the array
		if first := entry.array.Value(); first != nil {
			return unsafe.Slice(first, entry.size)
		}
	}
	return nil
}

// removeEntry removes entry i. The lock must be held.
func (p *Pool) removeEntry(i int) {
	p.bytes -= p.entries[i].size
	p.entries = append(p.entries[:i], p.entries[i+1:]...)
}

var (
	errNoResult = errors.New("the tensor is not the result of a run")
	errReleased = errors.New("the tensor was released before")
)

// release marks storage as released, and keeps its memory for [Pool.Take].
func (p *Pool) release(storage *Storage) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if storage.released {
		return errReleased
	}
	data := storage.data
	storage.data, storage.released = nil, true
	if storage.recyclableBytes < minPooledBytes {
		return nil
	}
	p.entries = append(p.entries, releasedArray{weak.Make(unsafe.SliceData(data)), storage.recyclableBytes})
	p.bytes += storage.recyclableBytes
	for len(p.entries) > maxPooledArrays || p.bytes > maxPooledBytes && len(p.entries) > 1 {
		p.removeEntry(0)
	}
	return nil
}

// Release returns the memory of a tensor to the [Pool] of its storage, which reuses this memory. The pool of a result
// belongs to the program that computed it, which uses it for later results. Views of the tensor are released too. Using
// a released tensor panics with "tensor: used after Release", and a run returns an error if an input is released.
// Slices of the tensor's bytes and pointers into these bytes must not be used any more.
//
// Only results of runs, other tensors over storage of a pool, and their views can be released. Release returns an error
// for any other tensor (constants, and inputs whose storage has no pool), and if t was released before. No run may read
// or write t during the call.
func (t *Tensor) Release() error {
	if t == nil {
		return errors.New("Release: the tensor is nil")
	}
	return t.storage.Release()
}

// Release releases all tensors over the storage, as [Tensor.Release] does.
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

// Releasable reports whether the storage belongs to a pool and was not released.
func (s *Storage) Releasable() bool { return s != nil && s.pool != nil && !s.released }

// uninitialized returns n bytes or more with arbitrary contents, aligned to [Align]. It uses strings.Builder, because
// no other function of Go returns heap memory that the runtime does not clear. make clears recycled memory, and append
// clears the new elements. Allocating 64 MiB of recycled memory and writing it takes 7.5 ms. It takes 14 ms with
// append, and more with make.
func uninitialized(n int) []byte {
	end := mustBeginAllocation(n)
	var b strings.Builder
	b.Grow(n + Align - 1)
	end()
	size := b.Cap()
	b.WriteByte(0) // because StringData is unspecified for an empty string
	all := unsafe.Slice(unsafe.StringData(b.String()), size)
	adviseLargePages(all)
	return aligned(all)
}
