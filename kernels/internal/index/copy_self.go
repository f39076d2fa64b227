package index

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// copySelfKernel returns a kernel that copies operand 0 to the output. The caller adds phases that modify the output.
// If operand 0 has the output's layout and shares its memory with no other operand, the output may be in the memory of
// operand 0; then nothing is copied.
func copySelfKernel(c *graph.Call) *graph.Kernel {
	kernel := copies.Kernel(copies.Job{Dst: kit.OutBuffer(c, 0), Src: kit.InBuffer(c, 0)})
	kernel.WorkerScratch = max(kernel.WorkerScratch, offsetBlockLen*8) // int offsets of the caller's indexed walk, if any
	if !c.Out[0].SameAddresses(c.Meta(0)) || !selfIsUnshared(c) {
		return kernel
	}
	kernel.InPlace = []graph.InPlace{{Out: 0, In: 0}}
	for i := range kernel.Phases {
		phase := &kernel.Phases[i]
		run := phase.Run
		phase.Run = func(m *graph.Mem, chunk int) error {
			if m.Ptrs[0] == m.Ptrs[1] { // the output is in the memory of operand 0
				return nil
			}
			return run(m, chunk)
		}
	}
	return kernel
}

// selfIsUnshared reports whether no other operand shares the memory of self, operand 0. The elements of such an operand
// would be overwritten before they are read if the result overwrote self.
func selfIsUnshared(c *graph.Call) bool {
	for _, arg := range c.In[1:] {
		if arg.Kind == graph.TensorArg && c.In[0].Kind == graph.TensorArg &&
			arg.Value.BufferOwner() == c.In[0].Value.BufferOwner() {
			return false
		}
	}
	return true
}
