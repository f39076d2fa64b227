package window

import (
	"context"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// A [resamplePass] computes an array [outer, outSize, inner] from an array [outer, inSize, inner]. If inner is small,
// the functions of this file compute it element by element. For example, the pass that doubles the width of row-major
// images [3, 32, 48] has outer 96, inSize 48, outSize 96 and inner 1.

// gatherPhase returns the phase of the pass. A unit of work is a row of the result: `inner` elements at one outer index
// and one index of the resampled dimension.
func (p *resamplePass[T]) gatherPhase() graph.Phase {
	units := p.outer * p.taps.outSize
	unitsPerChunk := max(1, machine.GatherGrain/max(1, kit.BoundedProduct(p.inner, p.taps.maxTaps)))
	return graph.Phase{Chunks: kit.DivUp(units, unitsPerChunk), Run: func(mem *graph.Mem, chunk int) error {
		p.gatherRows(mem, chunk*unitsPerChunk, min(units, (chunk+1)*unitsPerChunk))
		return nil
	}}
}

// gatherRows computes rows [begin, end) of the result. Row outer*outSize + index is at index `outer` of the outer
// dimension, and at index `index` of the resampled dimension.
func (p *resamplePass[T]) gatherRows(mem *graph.Mem, begin, end int) {
	lists, operand, result := p.table.listsOf(mem), p.src.Address(mem), p.dst.Address(mem)
	outSize := p.taps.outSize
	for row := begin; row < end; {
		outer, index := row/outSize, row%outSize
		src := unsafe.Slice((*T)(kit.AddressOf[T](operand, outer*p.inSize*p.inner)), p.inSize*p.inner)
		endIndex := min(outSize, index+end-row)
		dst := unsafe.Slice((*T)(kit.AddressOf[T](result, row*p.inner)), (endIndex-index)*p.inner)
		for i := range p.inner {
			p.gatherLine(mem.Context, &lists, dst[i:], src[i:], index, endIndex)
		}
		row += endIndex - index
	}
}

// gatherLine computes the results at indices [begin, end) of the resampled dimension, for one outer and one inner
// index. dst begins at the first of these results, and src begins at index 0 of the operand. In both, elements with
// neighbouring indices are p.inner elements apart.
func (p *resamplePass[T]) gatherLine(ctx context.Context, lists *tapLists[T], dst, src []T, begin, end int) {
	inner, position := p.inner, 0 // position of the result in dst
	for index := begin; index < end; index++ {
		elements, weights := lists.at(index)
		switch len(elements) {
		case 0:
			dst[position] = p.outsideValue
		case 1:
			dst[position] = weights[0] * src[elements[0]*inner]
		case 2:
			dst[position] = T(weights[0]*src[elements[0]*inner]) + T(weights[1]*src[elements[1]*inner])
		default:
			var sum T
			for tap, weight := range weights {
				if tap%kit.CheckEvery == kit.CheckEvery-1 {
					interrupt.Check(ctx)
				}
				sum += T(weight * src[elements[tap]*inner])
			}
			dst[position] = sum
		}
		position += inner
	}
}
