package kit

import "github.com/graphrun/graphrun/graph"

// Nest lends the memory of a run to kernels within a kernel.
type Nest struct {
	// Scratch is where their scratch memory begins. It may be set until the kernel runs.
	Scratch int

	mems graph.PerWorker[graph.Mem]
}

// Phase returns a phase of a kernel within the kernel, which finds the buffers as its Mem.Ptrs.
func (n *Nest) Phase(ph graph.Phase, buffers []Buffer) graph.Phase {
	return graph.Phase{Chunks: ph.Chunks, Run: func(m *graph.Mem, chunk int) error {
		in := n.mems.Of(m)
		m.Within(in, n.Scratch)
		for i := range buffers {
			in.Ptrs = append(in.Ptrs, buffers[i].Address(m))
		}
		err := ph.Run(in, chunk)
		in.Release()
		return err
	}}
}
