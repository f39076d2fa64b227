package kit

import "github.com/graphrun/graphrun/graph"

// Nest runs kernels within a kernel, in its memory.
type Nest struct {
	// Scratch is the offset of their scratch memory. It may be set until the kernel runs.
	Scratch int

	mems graph.PerWorker[graph.Mem]
}

// Phase returns a phase of a nested kernel, whose Mem.Ptrs are the buffers.
func (n *Nest) Phase(ph graph.Phase, buffers []Buffer) graph.Phase {
	return graph.Phase{Chunks: ph.Chunks, Run: func(m *graph.Mem, chunk int) error {
		in := n.mems.Of(m)
		m.Within(in, n.Scratch)
		for i := range buffers {
			in.Ptrs = append(in.Ptrs, buffers[i].Address(m))
		}
		err := ph.Run(in, chunk)
		m.Walk = in.Walk // the first loop of a worker makes it
		in.Release()
		return err
	}}
}
