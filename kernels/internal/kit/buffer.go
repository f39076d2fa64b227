package kit

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Buffer is an operand, a result or an intermediate value of a kernel. It has the meta of the value, and locates its
// first element in the memory of a run. The zero Buffer stands for an omitted operand.
type Buffer struct {
	// Meta describes the elements. Meta.Offset does not locate the first element: the field offset does.
	Meta tensor.Meta
	// Data has the elements if they are known when the kernel is compiled, else nil. A buffer with Data may also be in
	// the memory of a run: then it is a constant operand.
	Data *tensor.Tensor
	// Packed is set if the operand is in the packed form that the implementation requested. Meta then describes the
	// unpacked operand.
	Packed bool

	memory   memoryKind
	ptrIndex int // index in Mem.Ptrs, if memory is inPtrs
	offset   int // bytes from the start of the memory to the first element
}

// memoryKind is the kind of memory that holds a buffer.
type memoryKind uint8

const (
	noMemory  memoryKind = iota // an omitted operand
	inPtrs                      // a value whose address is in Mem.Ptrs
	inScratch                   // in Mem.Scratch
	inKernel                    // in Buffer.Data
)

// PtrIndex returns the index in Mem.Ptrs of the value that contains b; results come first, then operands. The offset is
// the distance in bytes from that pointer to the first element of b. PtrIndex returns false for other memory and for
// packed operands.
func (b Buffer) PtrIndex() (index, offset int, ok bool) {
	return b.ptrIndex, b.offset, b.memory == inPtrs && !b.Packed
}

// OutBuffer returns result i of a call.
func OutBuffer(c *graph.Call, i int) Buffer { return PtrBuffer(i, c.Out[i]) }

// InBuffer returns operand i of a call, or the zero Buffer if it was omitted.
func InBuffer(c *graph.Call, i int) Buffer {
	meta := c.Meta(i)
	if meta.DType == tensor.Invalid {
		return Buffer{}
	}
	buffer := PtrBuffer(len(c.Out)+i, meta)
	buffer.Packed = c.Packed(i) != nil
	return buffer
}

// PtrBuffer returns the buffer at Mem.Ptrs[i].
func PtrBuffer(i int, meta tensor.Meta) Buffer {
	return Buffer{Meta: meta, memory: inPtrs, ptrIndex: i}
}

// ScratchBuffer returns a buffer that starts at a byte offset of the run's scratch memory.
func ScratchBuffer(offset int, meta tensor.Meta) Buffer {
	return Buffer{Meta: meta, memory: inScratch, offset: offset}
}

// DataBuffer returns the buffer of a tensor whose elements the kernel holds, such as a constant.
func DataBuffer(data *tensor.Tensor) Buffer {
	meta := data.Meta
	meta.Offset = 0
	return Buffer{Meta: meta, Data: data, memory: inKernel}
}

// IsGiven reports whether the buffer has a value. It is false for an omitted operand.
func (b *Buffer) IsGiven() bool { return b.memory != noMemory }

// IsInKernel reports whether the elements belong to the kernel.
func (b *Buffer) IsInKernel() bool { return b.memory == inKernel }

// IsPtr reports whether the buffer starts at Mem.Ptrs[i].
func (b *Buffer) IsPtr(i int) bool { return b.memory == inPtrs && b.ptrIndex == i && b.offset == 0 }

// Address returns the address of the first element in a run. It is nil if the operand is omitted or its pointer in
// Mem.Ptrs is nil. It is also nil if the run has no scratch memory at this offset, because the value has no elements.
func (b *Buffer) Address(m *graph.Mem) unsafe.Pointer {
	switch b.memory {
	case inPtrs:
		if pointer := m.Ptrs[b.ptrIndex]; pointer != nil {
			return unsafe.Add(pointer, b.offset)
		}
	case inScratch:
		if b.offset < len(m.Scratch) {
			return unsafe.Pointer(&m.Scratch[b.offset])
		}
	case inKernel:
		return unsafe.Add(b.Data.Pointer(), b.offset)
	}
	return nil
}

// View returns a view of the buffer with the given meta. The first element of the view is meta.Offset - b.Meta.Offset
// elements after the first element of the buffer.
func (b Buffer) View(meta tensor.Meta) Buffer {
	shift := meta.Offset - b.Meta.Offset
	meta.Offset = 0
	if b.Data == nil {
		return b.Shifted(shift*meta.DType.Size(), meta)
	}
	// Data becomes a view, too. If the elements are in the memory of a run, the offset in that memory also changes.
	dataMeta := meta
	dataMeta.Offset = b.Data.Offset + shift
	data := tensor.Must(tensor.FromStorage(dataMeta, b.Data.Storage()))
	if !b.IsInKernel() {
		b = b.Shifted(shift*meta.DType.Size(), meta)
	}
	b.Meta, b.Data = meta, data
	return b
}

// Shifted returns the buffer with the given meta that starts the given number of bytes after the first element of b.
func (b Buffer) Shifted(bytes int, meta tensor.Meta) Buffer {
	b.offset += bytes
	b.Meta = meta
	return b
}
