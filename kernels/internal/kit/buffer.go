package kit

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Buffer is a value as a kernel finds it in a run: what it is, and where its first element lies.
// The zero Buffer is that of an operand that was left out.
type Buffer struct {
	// Meta describes the elements. Its offset says nothing but to [Buffer.Show].
	Meta tensor.Meta
	// Data is what the elements are, where that is known when the kernel is compiled; else nil.
	Data *tensor.Tensor
	// Packed says that it is an operand in the form for which the implementation asked: Meta is that of what it
	// stands for.
	Packed bool

	in  place
	at  int // index in Mem.Ptrs
	off int // bytes from the beginning of that memory to the first element
}

// place is the memory in which a buffer lies.
type place uint8

const (
	nowhere place = iota
	inPtrs
	inScratch
	inKernel // the Data
)

// OutBuffer is result i of a call.
func OutBuffer(c *graph.Call, i int) Buffer { return PtrBuffer(i, c.Out[i]) }

// InBuffer is operand i of a call; the zero Buffer where it was left out.
func InBuffer(c *graph.Call, i int) Buffer {
	m := c.Meta(i)
	if m.DType == tensor.Invalid {
		return Buffer{}
	}
	b := PtrBuffer(len(c.Out)+i, m)
	b.Packed = c.Packed(i) != nil
	return b
}

// PtrBuffer is what is at Mem.Ptrs[i].
func PtrBuffer(i int, m tensor.Meta) Buffer { return Buffer{Meta: m, in: inPtrs, at: i} }

// ScratchBuffer is room in the run's scratch memory, from byte off on.
func ScratchBuffer(off int, m tensor.Meta) Buffer { return Buffer{Meta: m, in: inScratch, off: off} }

// DataBuffer is a tensor that the kernel brings itself.
func DataBuffer(t *tensor.Tensor) Buffer {
	m := t.Meta
	m.Offset = 0
	return Buffer{Meta: m, Data: t, in: inKernel}
}

// Given reports whether the buffer is not that of an operand that was left out.
func (b *Buffer) Given() bool { return b.in != nowhere }

// IsData reports whether the kernel brings the elements itself.
func (b *Buffer) IsData() bool { return b.in == inKernel }

// IsPtr reports whether the buffer begins at Mem.Ptrs[i].
func (b *Buffer) IsPtr(i int) bool { return b.in == inPtrs && b.at == i && b.off == 0 }

// Address is where the first element is in a run. It is nil if the operand was left out or has
// no memory.
func (b *Buffer) Address(m *graph.Mem) unsafe.Pointer {
	switch b.in {
	case inPtrs:
		if p := m.Ptrs[b.at]; p != nil {
			return unsafe.Add(p, b.off)
		}
	case inScratch:
		if b.off < len(m.Scratch) {
			return unsafe.Pointer(&m.Scratch[b.off])
		}
	case inKernel:
		return unsafe.Add(b.Data.Pointer(), b.off)
	}
	return nil
}

// Show returns the buffer under another meta of the same memory, a view, whose offset counts
// from where that of the buffer's own meta does.
func (b Buffer) Show(m tensor.Meta) Buffer {
	shift := m.Offset - b.Meta.Offset
	m.Offset = 0
	if b.Data == nil {
		return b.Shifted(shift*m.DType.Size(), m)
	}
	part := m
	part.Offset = b.Data.Offset + shift
	t := tensor.Must(tensor.Over(part, b.Data.Storage()))
	if !b.IsData() {
		b = b.Shifted(shift*m.DType.Size(), m)
	}
	b.Meta, b.Data = m, t
	return b
}

// Shifted returns what begins some bytes behind the buffer's first element.
func (b Buffer) Shifted(bytes int, m tensor.Meta) Buffer {
	b.off += bytes
	b.Meta = m
	return b
}
