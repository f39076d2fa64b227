package graph_test

import (
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
)

// TestPerWorker makes memory once for each worker and each PerWorker.
func TestPerWorker(t *testing.T) {
	type list struct{ of []*int }
	made := 0
	p := graph.PerWorker[list]{Make: func() *list { made++; return &list{make([]*int, 0, 8)} }}
	var q graph.PerWorker[list]
	k := &graph.Kernel{Scratch: 32, WorkerScratch: 16}
	a, b := k.NewMem(), new(graph.Mem)
	pa, pb, qa := p.Get(a), p.Get(b), q.Get(a)
	if pa == pb || pa == qa || made != 2 || cap(pa.of) != 8 || qa.of != nil {
		t.Errorf("memory is shared: %p of worker a, %p of b, %p of another kind; %d made", pa, pb, qa, made)
	}
	if p.Get(a) != pa || p.Get(b) != pb || q.Get(a) != qa {
		t.Error("memory is not kept")
	}
	if n := testing.AllocsPerRun(10, func() { p.Get(a).of = p.Get(a).of[:0] }); n > 0 {
		t.Errorf("to ask for it allocates %v times", n)
	}
}

// TestWithin lends memory to a kernel within a kernel.
func TestWithin(t *testing.T) {
	k := &graph.Kernel{Scratch: 32, WorkerScratch: 16}
	m, in := k.NewMem(), new(graph.Mem)
	m.Walk = new(int)
	var p graph.PerWorker[int]
	own := p.Get(m)
	m.Within(in, 8)
	in.Ptrs = append(in.Ptrs, unsafe.Pointer(own))
	if len(in.Scratch) != 24 || &in.Scratch[0] != &m.Scratch[8] || &in.WorkerScratch[0] != &m.WorkerScratch[0] ||
		in.Walk != m.Walk {
		t.Error("it is not the worker's memory that was lent")
	}
	if p.Get(in) != own {
		t.Error("the kernel within has a state of its own")
	}
	in.Release()
	if len(in.Ptrs) != 0 || in.Ptrs[:1][0] != nil || in.Scratch != nil || in.WorkerScratch != nil || in.Walk != nil ||
		in.State != nil {
		t.Errorf("released memory holds on to %+v", *in)
	}
}
