package kit

import (
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// TestBuffer finds the first element of buffers and of views of them, wherever they are in storage.
func TestBuffer(t *testing.T) {
	values := make([]float32, 24)
	for i := range values {
		values[i] = float32(i)
	}
	data := tensor.Must(tensor.FromSlice(values, 4, 6))
	k := &graph.Kernel{Scratch: 256}
	m := k.NewMem()
	copy(unsafe.Slice((*float32)(unsafe.Pointer(&m.Scratch[64])), 24), values)
	m.Ptrs = []unsafe.Pointer{nil, data.Pointer()}

	meta := data.Meta
	meta.Offset = 7 // of the operand in its storage: addresses are those of its first element
	row := func(b Buffer, i int) tensor.Meta {
		v, err := b.Meta.Narrow(0, i, 1)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	known := PtrBuffer(1, data.Meta)
	known.Data = data
	for name, b := range map[string]Buffer{"ptr": PtrBuffer(1, meta), "scratch": ScratchBuffer(64, data.Meta),
		"data": DataBuffer(data), "known": known} {
		at := func(b Buffer) float32 { return *(*float32)(b.Address(m)) }
		if !b.IsGiven() || at(b) != 0 {
			t.Errorf("%s: begins at %v", name, at(b))
		}
		second := b.View(row(b, 1))
		third := second.View(tensor.Meta{DType: tensor.Float32, Shape: []int{6}, Strides: []int{1}, Offset: 6})
		if at(second) != 6 || at(third) != 12 || at(third.Shifted(8, third.Meta)) != 14 || at(b) != 0 {
			t.Errorf("%s: views begin at %v, %v and %v", name, at(second), at(third), at(third.Shifted(8, third.Meta)))
		}
		if third.Data != nil && third.Data.At(0).Float() != 12 {
			t.Errorf("%s: the data of a view begins with %v", name, third.Data.At(0))
		}
		if (third.Data != nil) != (b.Data != nil) {
			t.Errorf("%s: a view loses its data, or finds some", name)
		}
		if b.IsPtr(1) != (name == "ptr" || name == "known") || second.IsPtr(1) || b.IsInKernel() != (name == "data") {
			t.Errorf("%s: IsPtr %v, IsInKernel %v", name, b.IsPtr(1), b.IsInKernel())
		}
	}
	for name, b := range map[string]Buffer{"left out": {}, "without memory": PtrBuffer(0, data.Meta),
		"without elements": ScratchBuffer(256, tensor.New(tensor.Float32, 0))} {
		if b.Address(m) != nil {
			t.Errorf("%s: has an address", name)
		}
	}
}

// TestNest runs a kernel within a kernel.
func TestNest(t *testing.T) {
	var nest InnerKernels
	var got []unsafe.Pointer
	scratch := 0
	ph := nest.Phase(graph.Phase{Chunks: 3, Run: func(m *graph.Mem, chunk int) error {
		got, scratch = append([]unsafe.Pointer(nil), m.Ptrs...), len(m.Scratch)
		return nil
	}}, []Buffer{PtrBuffer(1, tensor.Meta{}), {}, ScratchBuffer(8, tensor.Meta{})})
	nest.ScratchOffset = 16 // known when all phases are
	k := &graph.Kernel{Scratch: 48}
	m := k.NewMem()
	x := new(int)
	m.Ptrs = []unsafe.Pointer{nil, unsafe.Pointer(x)}
	if err := ph.Run(m, 2); err != nil || ph.Chunks != 3 {
		t.Fatal(err, ph.Chunks)
	}
	if len(got) != 3 || got[0] != unsafe.Pointer(x) || got[1] != nil || got[2] != unsafe.Pointer(&m.Scratch[8]) ||
		scratch != 32 {
		t.Errorf("the kernel within saw %v and %d bytes", got, scratch)
	}
	if n := testing.AllocsPerRun(10, func() { _ = ph.Run(m, 0) }); n > 1 { // the test's own copy
		t.Errorf("%v allocations", n)
	}
}
