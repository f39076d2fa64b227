// Package copies has kernels and parts of kernels that copy: between layouts and dtypes, in phases of tiles, and to
// where the loops of other kernels find what they need ([Compound], [Converted]).
package copies

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/tiles"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// Side is one end of a copy: what lies where.
type Side struct {
	At   int         // index in Mem.Ptrs, or ScratchMem
	Off  int         // bytes from there to the first element
	Meta tensor.Meta // its offset does not count
}

// ScratchMem stands for Mem.Scratch in Side.At.
const ScratchMem = -1

// Job copies Src into Dst, which has the same shape, and converts where the dtypes
// differ. Dst and Src must not overlap.
type Job struct {
	Dst, Src Side
	// back lists dimensions in which Src is read from its end: Src.Off tells the last
	// element, and the stride counts downward.
	back []int
	// Fill is a 0-dim tensor that is written everywhere, in place of Src.
	Fill *tensor.Tensor
}

// copyPlan is a Job made ready.
type copyPlan struct {
	*tiles.Copy
	dst, src Side
	fill     unsafe.Pointer
}

// Grain is the number of elements worth a chunk of a copy.
const Grain = 32768

// plan chooses the walk. It returns nil where there is nothing to copy.
func (j Job) plan() (*copyPlan, error) {
	if j.Dst.Meta.Numel() == 0 {
		return nil, nil
	}
	p := &copyPlan{dst: j.Dst, src: j.Src}
	if j.Fill != nil {
		p.fill = j.Fill.Pointer()
		p.src.Meta = tensor.Meta{DType: j.Fill.DType, Shape: j.Dst.Meta.Shape, Strides: make([]int, j.Dst.Meta.Rank())}
	}
	axes, err := walkAxes(p.dst.Meta, p.src.Meta, j.back)
	if err != nil {
		return nil, err
	}
	p.Copy = tiles.New(p.dst.Meta.DType, p.src.Meta.DType, axes)
	return p, nil
}

// walkAxes coalesces the dimensions by an iteration over both sides; reversed dimensions,
// which an iterator has not, stand by themselves.
func walkAxes(dst, src tensor.Meta, back []int) ([]tiles.Axis, error) {
	var axes []tiles.Axis
	if len(back) > 0 {
		shape := append([]int(nil), dst.Shape...)
		for _, d := range back {
			axes = append(axes, tiles.Axis{N: shape[d], Dst: dst.Strides[d] * dst.DType.Size(), Src: -src.Strides[d] * src.DType.Size()})
			shape[d] = 1
		}
		dst.Shape, src.Shape = shape, shape
	}
	it, err := iter.Copy(iter.Of(dst), iter.Of(src)).Build()
	if err != nil {
		return nil, err
	}
	ds, ss := it.WalkStrides(0), it.WalkStrides(1)
	for d, n := range it.WalkShape() {
		axes = append(axes, tiles.Axis{N: n, Dst: ds[d], Src: ss[d]})
	}
	return axes, nil
}

// run copies tiles [from, to).
func (p *copyPlan) run(m *graph.Mem, from, to int) {
	src := p.fill
	if src == nil {
		src = p.src.Base(m)
	}
	p.Run(p.dst.Base(m), src, m.Worker, from, to)
}

// Base is the address of the side's memory in a run.
func (s Side) Base(m *graph.Mem) unsafe.Pointer {
	if s.At == ScratchMem {
		return unsafe.Add(unsafe.Pointer(unsafe.SliceData(m.Scratch)), s.Off)
	}
	return unsafe.Add(m.Ptrs[s.At], s.Off)
}

// Phase returns the jobs as one phase; their destinations must not overlap. Chunks
// take tiles worth Grain elements, of several jobs where those are small. worker is
// the room that a worker needs.
func Phase(jobs ...Job) (phase graph.Phase, worker int, err error) {
	var plans []*copyPlan
	total := 0
	for _, j := range jobs {
		p, err := j.plan()
		if err != nil {
			return phase, 0, err
		}
		if p == nil {
			continue
		}
		worker = max(worker, p.Room())
		total += p.Tiles() * p.Len()
		plans = append(plans, p)
	}
	cuts := cutCopies(plans, max(Grain, total/maxCopyCuts))
	phase = graph.Phase{Chunks: len(cuts) - 1, Run: func(m *graph.Mem, chunk int) error {
		from, to := cuts[chunk], cuts[chunk+1]
		for i := from.plan; i <= to.plan; i++ {
			first, last := 0, plans[i].Tiles()
			if i == from.plan {
				first = from.tile
			}
			if i == to.plan {
				last = to.tile
			}
			plans[i].run(m, first, last)
		}
		return nil
	}}
	return phase, worker, nil
}

// place is a tile of a plan.
type place struct{ plan, tile int }

// maxCopyCuts bounds the chunks of a phase, which are listed: the copy of a huge tensor has
// larger ones.
const maxCopyCuts = 1 << 14

// cutCopies returns where chunks of about grain elements begin, and where the last ends.
func cutCopies(plans []*copyPlan, grain int) []place {
	cuts := []place{{}}
	cost := 0
	for i, p := range plans {
		each := p.Len()
		for left := 0; left < p.Tiles(); {
			n := min(p.Tiles()-left, max(1, (grain-cost+each-1)/each))
			left += n
			if cost += n * each; cost >= grain {
				cuts, cost = append(cuts, place{i, left}), 0
			}
		}
	}
	if cost > 0 {
		cuts = append(cuts, place{len(plans) - 1, plans[len(plans)-1].Tiles()})
	}
	return cuts
}

// Kernel returns a kernel of jobs whose destinations do not overlap.
func Kernel(jobs ...Job) (*graph.Kernel, error) {
	phase, worker, err := Phase(jobs...)
	return &graph.Kernel{Phases: []graph.Phase{phase}, Worker: worker}, err
}

// OutSide is result i of a call as the side of a copy.
func OutSide(c *graph.Call, i int) Side { return Side{At: i, Meta: c.Out[i]} }

// InSide is operand i of a call as the side of a copy.
func InSide(c *graph.Call, i int) Side { return Side{At: len(c.Out) + i, Meta: c.Meta(i)} }

// Show returns the side under another meta of the same memory, a view, whose offset
// counts from the same start as the side's own.
func (s Side) Show(m tensor.Meta) Side {
	s.Off += (m.Offset - s.Meta.Offset) * m.DType.Size()
	s.Meta = m
	return s
}

// Ordered copies src to dst by logical order: where the shapes differ, by a view of
// either side in the other's shape, else through scratch memory.
func Ordered(dst, src Side) (*graph.Kernel, error) {
	if m, err := src.Meta.View(dst.Meta.Shape); err == nil {
		return Kernel(Job{Dst: dst, Src: src.Show(m)})
	}
	if m, err := dst.Meta.View(src.Meta.Shape); err == nil {
		return Kernel(Job{Dst: dst.Show(m), Src: src})
	}
	mid := Side{At: ScratchMem, Meta: tensor.New(src.Meta.DType, src.Meta.Shape...)}
	in, w0, err := Phase(Job{Dst: mid, Src: src})
	if err != nil {
		return nil, err
	}
	mid.Meta = tensor.New(src.Meta.DType, dst.Meta.Shape...)
	out, w1, err := Phase(Job{Dst: dst, Src: mid})
	return &graph.Kernel{Phases: []graph.Phase{in, out}, Worker: max(w0, w1), Scratch: mid.Meta.Bytes()}, err
}

// Reversed returns the job with src read from the end in the given dimensions, which are
// distinct.
func (j Job) Reversed(dims ...int) Job {
	j.back = slices.Clone(j.back)
	for _, d := range dims {
		if n := j.Src.Meta.Shape[d]; n > 1 {
			j.Src.Off += (n - 1) * j.Src.Meta.Strides[d] * j.Src.Meta.DType.Size()
			j.back = append(j.back, d)
		}
	}
	return j
}
