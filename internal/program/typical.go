package program

import (
	"context"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
)

// typicalSize is the least size of an open dimension in [Program.PlanTypicalSizes], such as the height of an image or
// the length of a sequence.
const typicalSize = 200

// PlanTypicalSizes adds a hint with typical sizes, and plans it. It is for programs whose later sizes are unknown. The
// assumed sizes of a model can be much smaller than usual: 16x16 for a network that halves images four times. A plan
// for these sizes may cost 12% more at 224x224. A typical size is the least size of at least 200 that is the size in
// the first hint (or the assumed size) times a power of two, within the bounds of the symbol. A symbol that is the
// first dimension of an input, such as the batch size, keeps its size. PlanTypicalSizes adds no hint if the graph
// cannot be planned for typical sizes, or if an input would exceed maxElements. It must be called before the first run.
// The only error is that of an ended context.
func (p *Program) PlanTypicalSizes(ctx context.Context) (err error) {
	defer interrupt.Catch(&err)
	if !p.Specializes() {
		return nil
	}
	first := p.firstHint()
	typical := slices.Clone(first)
	for i, symbol := range p.openSymbols {
		isBatchSize := func(v *graph.Value) bool { return len(v.Dims) > 0 && v.Dims[0].Symbol == symbol }
		if slices.ContainsFunc(p.graph.Inputs, isBatchSize) {
			continue
		}
		for typical[i] > 0 && typical[i] < typicalSize {
			typical[i] *= 2
		}
		typical[i] = p.Clamp(i, typical[i])
	}
	g, err := p.GraphAt(ctx, typical)
	isPossible := err == nil && largestInputElements(g) <= maxElements
	if !isPossible || slices.Equal(typical, first) || p.SpecializationAt(ctx, typical) == nil {
		return nil
	}
	if len(p.hints) == 0 {
		p.hints = [][]int{first} // Compile planned at these sizes
	}
	p.hints = append(p.hints, typical)
	return nil
}
