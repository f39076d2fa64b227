package kit

import "github.com/graphrun/graphrun/graph"

// InnerKernels runs inner kernels within an outer kernel, in the memory of the outer kernel.
type InnerKernels struct {
	// Scratch is the offset in bytes of the inner kernels' scratch memory within the outer kernel's scratch memory. It
	// must be set before the outer kernel runs.
	Scratch int

	mems graph.PerWorker[graph.Mem]
}

// Phase returns the phase of the outer kernel that runs a phase of an inner kernel. The inner kernel's Mem.Ptrs are the
// addresses of the buffers.
func (n *InnerKernels) Phase(innerPhase graph.Phase, buffers []Buffer) graph.Phase {
	return graph.Phase{Chunks: innerPhase.Chunks, Run: func(m *graph.Mem, chunk int) error {
		inner := n.mems.Get(m)
		m.Within(inner, n.Scratch) // inner gets the worker, the context and the scratch memory of m
		for i := range buffers {
			inner.Ptrs = append(inner.Ptrs, buffers[i].Address(m))
		}
		err := innerPhase.Run(inner, chunk)
		m.Walk = inner.Walk // the phase may have created the worker's Walk, which later phases reuse
		inner.Release()
		return err
	}}
}
