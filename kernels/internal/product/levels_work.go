package product

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/pricing"
)

// levelWork implements [graph.Impl.Work] for products by panels of levels (see [levelProduct]).
func levelWork(call *graph.Call, _ graph.Walk) pricing.Work {
	work := pricing.Work{StartedSteps: 1, Flops: linearBlocksFlops(call)}
	call.AddStreamed(&work)
	multiply.ReclassifyStores(&work, call)
	work.AddUnits(multiply.RateStartStep, 1)
	work.AddUnits(multiply.RateStartProduct, 1)
	shape := newLevelShape(call)
	columns := float64(shape.panels() * shape.width())
	algorithm := shape.algorithm()
	levels, tileRows := columns*float64(shape.k), shape.maxTileRows(algorithm)
	if algorithm == thinLevels {
		tiles := float64(kit.DivUp(shape.m, tileRows)) // tiles of a panel
		if tileRows >= hidingRows {
			work.AddUnits(multiply.RateLevels, levels) // the first tile reads them from memory
		} else {
			work.AddUnits(multiply.RateLevels, tiles*levels)
		}
		work.AddUnits(multiply.RateTile32, float64(shape.m)*levels)
		work.AddUnits(multiply.RateTileCall, tiles*float64(shape.panels()))
	} else {
		multiply.ReclassifyPanels(&work, call, blocksWeight, shape.m)
		work.AddUnits(multiply.RateConvertLevels, float64(kit.DivUp(shape.m, levelBandRows))*levels)
		work.AddUnits(multiply.RateTile32, float64(shape.m)*levels)
		calls := float64(kit.DivUp(shape.m, tileRows) * kit.DivUp(shape.k, levelTerms)) // per column of tiles
		work.AddUnits(multiply.RateTileCall, calls*columns/float64(2*shape.lanes))      // tiles have 2 vectors
	}
	for operand := blocksWeight; operand <= blocksZero; operand++ {
		if call.HasOperand(operand) && !call.IsConstant(operand) {
			work.AddUnits(multiply.RatePackRow, levels)
		}
	}
	return work
}
