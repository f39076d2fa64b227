package tensor

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"
)

// Align is the alignment of fresh storage in bytes: a cache line, and an AVX-512 vector.
const Align = 64

// Storage is a block of bytes that tensors share. Tensors that point to the same Storage are aliases.
type Storage struct {
	data     []byte
	place    Place // the processor that uses the memory; the host can always access it
	released bool  // whether the storage was released; data is then nil
	pool     *Pool // the pool to which Release returns the memory; nil for storage without a pool
	// recyclableBytes is the number of bytes, from the start of data, that the pool may recycle. It is 0 if other
	// storage may share them.
	recyclableBytes int
	deferred        *deferred             // the bytes of storage that may leave memory; data is then nil
	texts           atomic.Pointer[Texts] // see Tensor.Texts
}

// NewStorage returns zeroed storage of n bytes, aligned to [Align]. It panics if n is negative. If the process may not
// take n more bytes, it panics with a [*MemoryError], because Go's allocator would end the process. [CatchMemory] turns
// this panic into an error.
func NewStorage(n int) *Storage {
	if n == 0 {
		return &Storage{}
	}
	end := mustBeginAllocation(n)
	block := make([]byte, n+Align-1)
	end()
	adviseLargePages(block)
	return &Storage{data: aligned(block)[:n:n]}
}

// mustBeginAllocation is beginAllocation, but panics if n bytes are not available, with a [*MemoryError] if memory is
// short.
func mustBeginAllocation(n int) (end func()) {
	end, err := beginAllocation(n)
	if err == nil {
		return end
	}
	var short *MemoryError
	if errors.As(err, &short) {
		panic(short)
	}
	panic("tensor: " + err.Error())
}

// aligned returns the part of a block from its first address that is a multiple of [Align].
func aligned(block []byte) []byte {
	address := uintptr(unsafe.Pointer(unsafe.SliceData(block)))
	return block[-address&(Align-1):] // -address modulo Align is the distance to the next multiple
}

// StorageOf wraps bytes without a copy. The memory may be mapped from a file; it must stay valid while tensors use it.
func StorageOf(b []byte) *Storage { return StorageAt(Host, b) }

// Bytes returns the bytes of the storage, not a copy, or nil for nil storage. It panics after [Storage.Release].
//
//go:noinline // saves compile time: it has many callers, none of them hot
func (s *Storage) Bytes() []byte {
	if s == nil {
		return nil
	}
	if s.released {
		panic("tensor: " + errUsedAfterRelease.Error())
	}
	if s.deferred != nil {
		return s.deferred.bytes()
	}
	return s.data
}

// Len returns the size in bytes, or 0 for nil storage. It panics after [Storage.Release].
//
//go:noinline // saves compile time: it has many callers, none of them hot
func (s *Storage) Len() int {
	if s != nil && s.deferred != nil {
		return s.deferred.size
	}
	return len(s.Bytes())
}

// Tensor is a Meta over Storage. The functions that make a tensor check that the storage holds all elements of the
// meta. Methods that read or write elements repeat this check, because callers can change the meta, and because the
// zero Tensor has no storage. If the check fails, they panic with a message that begins with "tensor:".
type Tensor struct {
	Meta
	storage *Storage
}

// Empty returns a zeroed tensor over fresh storage of [Meta.Extent] elements. It panics if m does not pass
// [Meta.Check], and where [NewStorage] does.
func Empty(m Meta) *Tensor {
	if err := m.Check(); err != nil {
		panic("tensor: " + err.Error())
	}
	return &Tensor{Meta: m, storage: NewStorage(m.Extent() * m.DType.Size())}
}

// Zeros returns a row-major tensor of zeros. It panics where [Empty] does.
func Zeros(d DType, shape ...int) *Tensor { return Empty(New(d, shape...)) }

// FromStorage returns a tensor over existing storage. It fails if m is inconsistent or extends beyond the end of the
// storage.
func FromStorage(m Meta, s *Storage) (*Tensor, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	if err := checkExtent(m, s); err != nil {
		return nil, err
	}
	return &Tensor{Meta: m, storage: s}, nil
}

// checkExtent returns an error if a checked meta extends beyond the end of the storage, or if the storage was released.
func checkExtent(meta Meta, storage *Storage) error {
	if storage != nil && storage.released {
		return errUsedAfterRelease
	}
	need := meta.Extent() * meta.DType.Size()
	if need <= storage.Len() {
		return nil
	}
	return fmt.Errorf("setStorage: sizes %s, strides %s, storage offset %d, and itemsize %d "+
		"requiring a storage size of %d are out of bounds for storage of size %d",
		ListString(meta.Shape), ListString(meta.Strides), meta.Offset, meta.DType.Size(), need, storage.Len())
}

var errUsedAfterRelease = errors.New("used after Release")

// FromSlice returns a row-major tensor that shares the slice's memory. len(data) must be the product of shape.
func FromSlice[T Element](data []T, shape ...int) (*Tensor, error) {
	meta := New(DTypeOf[T](), shape...)
	if err := meta.Check(); err != nil {
		return nil, err
	}
	if meta.Numel() != len(data) {
		return nil, fmt.Errorf("shape '%s' is invalid for input of size %d", ListString(shape), len(data))
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), len(data)*meta.DType.Size())
	return &Tensor{Meta: meta, storage: &Storage{data: bytes}}, nil
}

// Must returns t and panics on an error. It is meant for literal tensors in tests and examples.
func Must(t *Tensor, err error) *Tensor {
	if err != nil {
		panic(fmt.Errorf("tensor: %w", err))
	}
	return t
}

// ToSlice returns the elements in logical (row-major) order in a new slice. T must be the Go type of the tensor's
// dtype. [Data] needs no copy.
func ToSlice[T Element](t *Tensor) ([]T, error) {
	if err := t.checkElements(DTypeOf[T]()); err != nil {
		return nil, err
	}
	end, err := beginAllocation(t.Bytes())
	if err != nil {
		return nil, err
	}
	defer end()
	if t.IsContiguous() && t.DType != Bool {
		return append([]T{}, elementsOf[T](t)...), nil // does not clear the new slice
	}
	out := make([]T, t.Numel())
	copyElements(Must(FromSlice(out, t.Shape...)), t)
	return out, nil
}

// Data returns the elements of a row-major tensor without gaps as a slice that shares the tensor's memory, until
// [Tensor.Release]. T must be the Go type of the tensor's dtype. Data panics with the reason if it is not, or if the
// tensor has other strides, as results have if the graph gives them: [ToSlice] copies the elements of any tensor, and
// returns errors.
func Data[T Element](t *Tensor) []T {
	err := t.checkElements(DTypeOf[T]())
	if err == nil && !t.IsContiguous() {
		err = fmt.Errorf("the tensor is not contiguous: it has shape %s and strides %s", ListString(t.Shape),
			ListString(t.Strides))
	}
	if err != nil {
		panic(fmt.Errorf("tensor: Data: %w", err))
	}
	return elementsOf[T](t)
}

// checkElements returns an error if the tensor is not valid, or has another dtype than want.
func (t *Tensor) checkElements(want DType) error {
	if err := t.Check(); err != nil {
		return err
	}
	if want != t.DType {
		return fmt.Errorf("tensor holds %v, not %v", t.DType, want)
	}
	return nil
}

// elementsOf returns the elements of a contiguous tensor, which share its memory.
func elementsOf[T Element](t *Tensor) []T { return unsafe.Slice((*T)(t.Pointer()), t.Numel()) }

// Walk calls f for every element, in logical order. offset is the distance of the element from [Tensor.Pointer], in
// elements. Walk panics if f is nil.
func (m Meta) Walk(f func(offset int)) {
	m.mustMatchRanks()
	if f == nil {
		panic("tensor: Walk needs a function")
	}
	if m.Numel() == 0 {
		return
	}
	last := len(m.Shape) - 1
	if last < 0 {
		f(0)
		return
	}
	index := make([]int, len(m.Shape)) // of the current row; index[last] stays 0
	offset := 0
	for {
		n, stride := m.Shape[last], m.Strides[last]
		for i := range n {
			f(offset + i*stride)
		}
		// Advance the outer dimensions: a dimension at its end goes back to 0, and the next slower one advances.
		dim := last - 1
		for ; dim >= 0; dim-- {
			index[dim]++
			offset += m.Strides[dim]
			if index[dim] < m.Shape[dim] {
				break
			}
			offset -= m.Strides[dim] * m.Shape[dim]
			index[dim] = 0
		}
		if dim < 0 {
			return
		}
	}
}

// Storage returns the storage, which other tensors may share.
func (t *Tensor) Storage() *Storage { return t.storage }

// Pointer returns the address of the element at index (0, ..., 0), or nil if the tensor has no elements or no storage.
// It panics if the offset is outside the storage, and after [Tensor.Release].
func (t *Tensor) Pointer() unsafe.Pointer {
	if t.Numel() == 0 || t.storage.Len() == 0 {
		return nil
	}
	bytes, byteOffset := t.storage.Bytes(), t.Offset*t.DType.Size()
	if byteOffset < 0 || byteOffset >= len(bytes) {
		panic(fmt.Sprintf("tensor: offset %d is outside the storage of %d bytes", t.Offset, len(bytes)))
	}
	return unsafe.Pointer(&bytes[byteOffset])
}

// View returns a tensor over the same storage with the meta m. It fails where [FromStorage] fails.
func (t *Tensor) View(m Meta) (*Tensor, error) { return FromStorage(m, t.storage) }

// Contiguous returns t itself if it is row-major, else a row-major copy.
func (t *Tensor) Contiguous() *Tensor {
	if t.IsContiguous() {
		return t
	}
	return t.CopyTo(New(t.DType, t.Shape...))
}

// Expanded returns a view of t broadcast to the shape.
func (t *Tensor) Expanded(shape []int) (*Tensor, error) {
	m, err := t.Meta.Expand(shape)
	if err != nil {
		return nil, err
	}
	return t.View(m)
}
