package exec

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
)

// This file joins chunks of kernels. Each phase of a kernel has independent chunks, which workers run concurrently.

// maxChunks is the maximum number of chunks of a phase, which are counted in 32 bits.
const maxChunks = math.MaxInt32

// joinChunks returns a kernel with fewer chunks. In phases that it changes, a chunk is a group of consecutive chunks of
// the given kernel. It changes phases with more than maxChunks chunks, and phases whose RunRange runs the chunks of a
// group faster than calls of Run.
func joinChunks(kernel *graph.Kernel, workers int) *graph.Kernel {
	limit := func(phase graph.Phase) int {
		if phase.RunRange != nil {
			return min(workers, maxChunks)
		}
		return maxChunks
	}
	if !slices.ContainsFunc(kernel.Phases, func(phase graph.Phase) bool { return phase.Chunks > limit(phase) }) {
		return kernel
	}
	joined := *kernel
	joined.Phases = slices.Clone(kernel.Phases)
	for i, phase := range kernel.Phases {
		if maxGroups := limit(phase); phase.Chunks > maxGroups {
			joined.Phases[i] = joinPhase(phase, maxGroups)
		}
	}
	return &joined
}

// joinPhase returns a phase with at most maxGroups chunks, each a group of consecutive chunks of the given phase. For
// example, 10 chunks in at most 4 groups become the groups 0-2, 3-5, 6-8 and 9.
func joinPhase(phase graph.Phase, maxGroups int) graph.Phase {
	chunksPerGroup := (phase.Chunks-1)/maxGroups + 1 // ceil(Chunks / maxGroups)
	last := func(group int) int { return min((group+1)*chunksPerGroup, phase.Chunks) - 1 }
	joined := phase
	joined.Chunks = (phase.Chunks-1)/chunksPerGroup + 1
	joined.Run = func(mem *graph.Mem, group int) error {
		if phase.RunRange != nil {
			return phase.RunRange(mem, group*chunksPerGroup, last(group)+1)
		}
		for chunk := group * chunksPerGroup; chunk <= last(group); chunk++ {
			if err := phase.Run(mem, chunk); err != nil {
				return err
			}
		}
		return nil
	}
	if flow := phase.Flow; flow != nil {
		joined.Flow = &graph.Flow{FinalElements: func(group int) int { return flow.FinalElements(last(group)) },
			NeededElements: func(group int) int { return flow.NeededElements(last(group)) }}
	}
	return joined
}
