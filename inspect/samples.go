package inspect

import (
	"context"
	"slices"

	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/sorted"
)

// This file chooses the samples: the sets of sizes for which [ForAll] plans a graph. A list of sizes has one size for
// each open symbol. An open symbol is a symbol whose size comes from the inputs of a run.

// maxSamples is the maximum number of combinations of sizes among the samples.
const maxSamples = 4096

// samplesOf returns the samples of a program, each indexed by open symbol. The hints, the assumed sizes and the
// nondegenerate sizes come first. At the nondegenerate sizes, every size that depends on an open symbol is at least 2:
// see [program.Program.NondegenerateSizes]. They are followed by combinations of small sizes, bounds, and the sizes of
// the first samples.
func samplesOf(p *program.Program) [][]int {
	list := append(slices.Clone(p.Hints()), p.AssumedSizes())
	if sizes := p.NondegenerateSizes(context.Background()); sizes != nil {
		list = append(list, sizes)
	}
	combinations := [][]int{nil} // of the sizes of the symbols processed so far
	for i := range p.OpenSymbols() {
		candidates := candidateSizes(p, i, list)
		var extended [][]int
		for _, sizes := range combinations {
			for _, size := range candidates {
				extended = append(extended, append(slices.Clip(sizes), size))
			}
		}
		combinations = extended[:min(len(extended), maxSamples)]
	}
	return append(list, combinations...)
}

// candidateSizes returns sizes of open symbol i that samples combine: small sizes, the bounds, and the symbol's sizes
// in the first samples.
func candidateSizes(p *program.Program, i int, firstSamples [][]int) []int {
	bounds := p.Source().Symbols[p.OpenSymbols()[i]]
	candidates := []int{bounds.Min, bounds.Min + 1, bounds.Min + 2, 3, 8}
	for _, sizes := range firstSamples {
		candidates = append(candidates, sizes[i])
	}
	if bounds.Max > 0 {
		candidates = append(candidates, bounds.Max-1, bounds.Max)
	}
	for k, size := range candidates {
		candidates[k] = p.Clamp(i, size)
	}
	sorted.Ints(candidates)
	return slices.Compact(candidates)
}
