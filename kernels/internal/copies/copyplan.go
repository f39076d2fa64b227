// Package copies has kernels, and parts of kernels, that copy between layouts and dtypes. [KernelBuilder] and
// [CompileInDType] make the copies that other kernels need for their operands and results.
package copies

import (
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Job is a copy of Src to Dst. Src and Dst have the same shape and do not overlap. Elements are converted if the dtypes
// differ.
type Job struct {
	Dst, Src kit.Buffer
	// reversedDims lists the dimensions along which Src is read in reverse. Src starts at the last element of these
	// dimensions, and the plan negates their strides.
	reversedDims []int
	// Fill is nil or a 0-dimensional tensor. If Fill is set, every element of Dst becomes the element of Fill, and Src
	// is not used.
	Fill *tensor.Tensor
}

// Reversed returns the job, except that Src is read in reverse along the given dimensions, which must be distinct.
func (j Job) Reversed(dims ...int) Job {
	j.reversedDims = slices.Clone(j.reversedDims)
	for _, dim := range dims {
		if size := j.Src.Meta.Shape[dim]; size > 1 {
			j.Src = j.Src.Shifted((size-1)*j.Src.Meta.Strides[dim]*j.Src.Meta.DType.Size(), j.Src.Meta)
			j.reversedDims = append(j.reversedDims, dim)
		}
	}
	return j
}

// copyPlan is a prepared Job. Its units of work are the tiles of [strided.Copy]: parts of the copy with MaxTileElems
// elements each, or fewer at the end of a dimension.
type copyPlan struct {
	*strided.Copy
	dst, src kit.Buffer
}

// plan chooses the loops of the copy and the order of dimensions ([strided.New]). It returns nil if there are no
// elements to copy.
func (j Job) plan() *copyPlan {
	if j.Dst.Meta.Numel() == 0 {
		return nil
	}
	plan := &copyPlan{dst: j.Dst, src: j.Src}
	if j.Fill != nil {
		plan.src = kit.DataBuffer(j.Fill)
		plan.src.Meta = tensor.Meta{DType: j.Fill.DType, Shape: j.Dst.Meta.Shape, Strides: make([]int, j.Dst.Meta.Rank())}
	}
	elem := kit.ElemOf(plan.dst.Meta.DType, plan.src.Meta.DType)
	axes := make([]strided.Axis, plan.dst.Meta.Rank())
	for dim, size := range plan.dst.Meta.Shape {
		axes[dim] = strided.Axis{N: size, Dst: plan.dst.Meta.Strides[dim] * elem.DstSize,
			Src: plan.src.Meta.Strides[dim] * elem.SrcSize}
	}
	for _, dim := range j.reversedDims {
		axes[dim].Src = -axes[dim].Src
	}
	plan.Copy = strided.New(elem, axes)
	return plan
}

// run copies tiles [begin, end).
func (p *copyPlan) run(m *graph.Mem, begin, end int) {
	p.Run(p.dst.Address(m), p.src.Address(m), m.WorkerScratch, begin, end)
}

// Phase returns the jobs as one phase, and the bytes of worker memory that the phase needs. Destinations must not
// overlap. A chunk copies about the number of elements that strided.Copy.Grain recommends. It copies more if there
// would otherwise be more than maxCopyChunks chunks. If every job has a tile for each chunk, each chunk copies an equal
// part of every job. Otherwise a chunk copies consecutive tiles of one job or of several small jobs.
func Phase(jobs ...Job) (phase graph.Phase, workerBytes int) {
	var plans []*copyPlan
	total, grain := 0, 0
	for _, job := range jobs {
		plan := job.plan()
		if plan == nil {
			continue
		}
		workerBytes = max(workerBytes, plan.ScratchBytes())
		total += plan.Tiles() * plan.MaxTileElems() // elements
		if jobGrain := plan.Grain(); grain == 0 || jobGrain < grain {
			grain = jobGrain
		}
		plans = append(plans, plan)
	}
	const elementCost = 1
	division := machine.DivideUnits(total, elementCost, max(grain, total/maxCopyChunks))
	hasSmallJob := slices.ContainsFunc(plans, func(p *copyPlan) bool { return p.Tiles() < division.Chunks })
	if !hasSmallJob {
		return equalPartsPhase(plans, division.Chunks), workerBytes
	}
	return consecutiveTilesPhase(plans, division), workerBytes
}

// maxCopyChunks bounds the number of chunks of a phase. Huge copies have larger chunks.
const maxCopyChunks = 1 << 14

// equalPartsPhase returns a phase in which each chunk copies an equal part of every plan. If the step that wrote an
// operand was divided in the same way, a worker copies the part of the operand that is in its cache.
func equalPartsPhase(plans []*copyPlan, chunks int) graph.Phase {
	if chunks == 1 {
		return graph.Phase{Chunks: 1, Run: func(m *graph.Mem, _ int) error {
			for _, plan := range plans {
				plan.run(m, 0, plan.Tiles())
			}
			return nil
		}}
	}
	return graph.Phase{Chunks: chunks, Run: func(m *graph.Mem, chunk int) error {
		for _, plan := range plans {
			first, end := machine.Division{Units: plan.Tiles(), Chunks: chunks}.ChunkRange(chunk)
			plan.run(m, first, end)
		}
		return nil
	}}
}

// consecutiveTilesPhase returns a phase in which each chunk copies consecutive tiles. division divides the elements of
// all plans, one plan after another, into chunks.
func consecutiveTilesPhase(plans []*copyPlan, division machine.Division) graph.Phase {
	cuts := cutCopies(plans, division)
	return graph.Phase{Chunks: len(cuts) - 1, Run: func(mem *graph.Mem, chunk int) error {
		from, to := cuts[chunk], cuts[chunk+1]
		for i := from.plan; i <= to.plan; i++ {
			begin, end := 0, plans[i].Tiles()
			if i == from.plan {
				begin = from.tile
			}
			if i == to.plan {
				end = to.tile
			}
			plans[i].run(mem, begin, end)
		}
		return nil
	}}
}

// tilePosition identifies a tile by the index of its plan and its index in the plan. The index in the plan may be the
// number of tiles, which is the end of the plan.
type tilePosition struct{ plan, tile int }

// cutCopies returns the tiles at which chunks start, followed by the end of the last chunk. A chunk starts at the tile
// boundary that is nearest to the start of its elements in the division. For example, let two plans have 3 and 2 tiles
// of 10 elements, and let the division have chunks of 25 elements. Chunk 1 then starts at tile 2 of plan 0 (element 20)
// or at its end (element 30), which are equally near; the earlier boundary is chosen.
func cutCopies(plans []*copyPlan, division machine.Division) []tilePosition {
	cuts := []tilePosition{{}}
	before := 0                      // elements of the previous plans
	_, end := division.ChunkRange(0) // the element after the current chunk, counted over all plans
	for i, plan := range plans {
		tileElements := plan.MaxTileElems()
		for tile := 0; tile < plan.Tiles(); {
			// Advance by at least one tile, to the last tile boundary that is not after the end of the chunk. In the
			// example, the first boundary is 20, because the chunk ends at 25.
			wholeTiles := (end - before - tile*tileElements) / tileElements // from tile to the end of the chunk
			tile += min(plan.Tiles()-tile, max(1, wholeTiles))
			boundary := before + tile*tileElements
			// Cut here if the next boundary (30) is not nearer. One boundary may be nearest to several ends.
			for boundary+tileElements/2 >= end && end < division.Units {
				_, end = division.ChunkRange(len(cuts))
				cuts = append(cuts, tilePosition{i, tile})
			}
		}
		before += plan.Tiles() * tileElements
	}
	return append(cuts, tilePosition{len(plans) - 1, plans[len(plans)-1].Tiles()})
}

// Kernel returns a kernel of jobs whose destinations do not overlap.
func Kernel(jobs ...Job) *graph.Kernel {
	phase, workerBytes := Phase(jobs...)
	return &graph.Kernel{Phases: []graph.Phase{phase}, WorkerScratch: workerBytes, Code: func() (list []expr.Listing) {
		for _, job := range jobs {
			if code, ok := kit.ConversionListing(job.Dst.Meta.DType, job.Src.Meta.DType); ok && job.Fill == nil {
				list = append(list, code)
			}
		}
		return list
	}}
}

// RowMajorKernel returns a kernel that copies src to dst in row-major order of their shapes, which may differ. If src
// has a view in the shape of dst, or dst a view in the shape of src, the kernel is a single copy. Otherwise the kernel
// copies src to scratch memory and from there to dst.
func RowMajorKernel(dst, src kit.Buffer) *graph.Kernel {
	if view, err := src.Meta.View(dst.Meta.Shape); err == nil {
		return Kernel(Job{Dst: dst, Src: src.View(view)})
	}
	if view, err := dst.Meta.View(src.Meta.Shape); err == nil {
		return Kernel(Job{Dst: dst.View(view), Src: src})
	}
	intermediate := kit.ScratchBuffer(0, tensor.New(src.Meta.DType, src.Meta.Shape...))
	copyIn, inBytes := Phase(Job{Dst: intermediate, Src: src})
	intermediate.Meta = tensor.New(src.Meta.DType, dst.Meta.Shape...) // the same row-major elements in the other shape
	copyOut, outBytes := Phase(Job{Dst: dst, Src: intermediate})
	return &graph.Kernel{Phases: []graph.Phase{copyIn, copyOut}, WorkerScratch: max(inBytes, outBytes),
		Scratch: intermediate.Meta.Bytes()}
}
