package kit

import "github.com/graphrun/graphrun/graph"

// InnerKernels runs inner kernels within an outer kernel, in the memory of the outer kernel.
type InnerKernels struct {
	// ScratchOffset is the offset in bytes of the inner kernels' scratch memory within the outer kernel's scratch memory.
	// It must be set before the outer kernel runs.
	ScratchOffset int

	mems graph.PerWorker[graph.Mem]
}

// Phase wraps innerPhase, a phase of an inner kernel, as a phase of the outer kernel. The inner kernel's Mem.Ptrs are
// the addresses of the buffers.
func (n *InnerKernels) Phase(innerPhase graph.Phase, buffers []Buffer) graph.Phase {
	outerPhase := graph.Phase{Chunks: innerPhase.Chunks, Run: func(m *graph.Mem, chunk int) error {
		inner := n.enter(m, buffers)
		err := innerPhase.Run(inner, chunk)
		leave(m, inner)
		return err
	}}
	if innerPhase.RunRange != nil {
		outerPhase.RunRange = func(m *graph.Mem, begin, end int) error {
			inner := n.enter(m, buffers)
			err := innerPhase.RunRange(inner, begin, end)
			leave(m, inner)
			return err
		}
	}
	return outerPhase
}

// enter returns the memory of the inner kernel, which is within m, the memory of the outer kernel.
func (n *InnerKernels) enter(m *graph.Mem, buffers []Buffer) *graph.Mem {
	inner := n.mems.Get(m)
	m.Within(inner, n.ScratchOffset) // inner gets the worker, the context and the scratch memory of m
	for i := range buffers {
		inner.Ptrs = append(inner.Ptrs, buffers[i].Address(m))
	}
	return inner
}

// leave clears inner after a call of the inner kernel.
func leave(m, inner *graph.Mem) {
	m.Walk = inner.Walk // state of package fusion that innerPhase may have made, for later phases of this worker
	inner.Release()
}
