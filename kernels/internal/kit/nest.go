package kit

import "github.com/graphrun/graphrun/graph"

// InnerKernels runs inner kernels within an outer kernel, in the memory of the outer kernel.
type InnerKernels struct {
	// Scratch is the offset in bytes of the inner kernels' scratch memory within the outer kernel's scratch memory. It
	// must be set before the outer kernel runs.
	Scratch int

	mems graph.PerWorker[graph.Mem]
}

// Phase returns the phase of the outer kernel that runs ph, a phase of an inner kernel. The inner kernel's Mem.Ptrs are
// the addresses of the buffers.
func (n *InnerKernels) Phase(ph graph.Phase, buffers []Buffer) graph.Phase {
	return graph.Phase{Chunks: ph.Chunks, Run: func(m *graph.Mem, chunk int) error {
		in := n.mems.Of(m)
		m.Within(in, n.Scratch)
		for i := range buffers {
			in.Ptrs = append(in.Ptrs, buffers[i].Address(m))
		}
		err := ph.Run(in, chunk)
		m.Walk = in.Walk // the worker's first loop creates the Walk; later phases reuse it
		in.Release()
		return err
	}}
}
