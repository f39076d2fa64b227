package tensor

import (
	"sync"
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
)

// This file has storage whose bytes need not be in memory all the time: they are computed when they are read. It holds
// the weights of a model. For example, a weight in float16 is read from a file. A product needs it in float32, and
// reads it from packed panels of float16:
//
//	weight in float16       NewWeights; its memory is freed (Discard) once the panels have its numbers
//	  weight in float32     Widened; it takes no memory, because packing reads the float16 (Narrow)
//	    panels of float16   ordinary storage
//
// If the weight is read again, Discard's function restores it from the panels.

// deferred computes the bytes of a storage when they are read.
type deferred struct {
	size int
	mu   sync.Mutex
	data []byte           // nil while the bytes are not in memory
	fill func(dst []byte) // computes the bytes; nil if they are in memory and cannot be computed

	narrow       *Storage // of a result of Widened: the elements before the conversion; otherwise nil
	narrowDType  DType
	narrowOffset int // first element in narrow
}

// NewWeights returns storage as [NewStorage] does, for data that are written once. Its memory can be freed while the
// storage is in use: see [Storage.Discard].
func NewWeights(n int) *Storage {
	return NewStorage(n).AsWeights()
}

// AsWeights returns storage with the bytes of s, as [NewWeights] does. s is a result of [NewStorage], and must not be
// used any more.
func (s *Storage) AsWeights() *Storage {
	data := s.Bytes()
	machine.Hold(data)
	return &Storage{deferred: &deferred{size: len(data), data: data}}
}

// EmptyPacked returns a zeroed tensor for weights in the form that kernels read. It panics where [Empty] does.
func EmptyPacked(m Meta) *Tensor {
	t := Empty(m)
	machine.Hold(t.storage.data)
	return t
}

// Discard frees the memory of storage from [NewWeights] or [Tensor.Widened]. When the bytes are read again, restore
// writes them to fresh memory; it must write the same bytes. Memory to which there are pointers stays valid. Discard
// does nothing, and returns false, for other storage, and if the bytes are not in memory. It is safe for concurrent
// use.
func (s *Storage) Discard(restore func(dst []byte)) bool {
	if s == nil || s.deferred == nil {
		return false
	}
	d := s.deferred
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.data == nil {
		return false
	}
	if d.narrow == nil {
		d.fill = restore
	}
	d.data = nil
	return true
}

// bytes returns the bytes, and computes them if they are not in memory.
func (d *deferred) bytes() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.data == nil && d.size > 0 {
		data := NewStorage(d.size).data
		d.fill(data)
		d.data = data
	}
	return d.data
}

// Widened returns a tensor of float32 with the layout of meta and the elements of t, whose dtype is a 16-bit float. The
// tensor takes no memory until its elements are read. Widened returns nil if the elements of t and of meta do not have
// the same order in memory, without gaps, or if a dtype differs.
func (t *Tensor) Widened(meta Meta) *Tensor {
	if !t.DType.IsReducedFloat() || meta.DType != Float32 || meta.Offset != 0 || !meta.SameLayout(t.Meta) ||
		!t.IsNonOverlappingAndDense() || t.Numel() == 0 {
		return nil
	}
	source, dtype, offset := t.storage, t.DType, t.Offset
	fill := func(dst []byte) {
		from := unsafe.Pointer(&source.Bytes()[offset*dtype.Size()])
		Converter(Float32, dtype)(unsafe.Pointer(unsafe.SliceData(dst)), from, Float32.Size(), dtype.Size(),
			len(dst)/Float32.Size())
	}
	storage := &Storage{deferred: &deferred{size: t.Numel() * Float32.Size(), fill: fill, narrow: source,
		narrowDType: dtype, narrowOffset: offset}}
	return Must(FromStorage(meta, storage))
}

// Unwidened returns the elements of a result of [Tensor.Widened], or of a view of it, before their conversion to
// float32. It returns nil for other tensors.
func (t *Tensor) Unwidened() *Tensor {
	if t == nil || t.storage == nil || t.storage.deferred == nil || t.storage.deferred.narrow == nil ||
		t.DType != Float32 {
		return nil
	}
	d, meta := t.storage.deferred, t.Meta
	meta.DType, meta.Offset = d.narrowDType, meta.Offset+d.narrowOffset
	return Must(FromStorage(meta, d.narrow))
}
