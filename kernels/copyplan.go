package kernels

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/tensor"
)

// side is one end of a copy: what lies where.
type side struct {
	at   int         // index in Mem.Ptrs, or scratchMem
	off  int         // bytes from there to the first element
	meta tensor.Meta // its offset does not count
}

// scratchMem stands for Mem.Scratch in side.at.
const scratchMem = -1

// copyJob copies src into dst, which has the same shape, and converts where the dtypes
// differ. dst and src must not overlap.
type copyJob struct {
	dst, src side
	// back lists dimensions in which src is read from its end: src.off tells the last
	// element, and the stride counts downward.
	back []int
	// fill is a 0-dim tensor that is written everywhere, in place of src.
	fill *tensor.Tensor
}

// copyPlan is a copyJob made ready.
type copyPlan struct {
	*strided.Copy
	dst, src side
	fill     unsafe.Pointer
}

const copyGrain = 32768 // elements worth a chunk

// elemOf returns how elements go from one dtype to another. Those of one dtype are moved as
// they are: the converter from bool to bool would look at every byte.
func elemOf(dst, src tensor.DType) strided.Elem {
	if dst == src {
		return strided.Move(dst.Size())
	}
	return strided.Convert(dst.Size(), src.Size(), tensor.Converter(dst, src))
}

// mover returns the loop over a row of a copy.
func mover(dst, src tensor.DType) strided.Row { return elemOf(dst, src).Row }

// plan chooses the walk. It returns nil where there is nothing to copy.
func (j copyJob) plan() (*copyPlan, error) {
	if j.dst.meta.Numel() == 0 {
		return nil, nil
	}
	p := &copyPlan{dst: j.dst, src: j.src}
	if j.fill != nil {
		p.fill = j.fill.Pointer()
		p.src.meta = tensor.Meta{DType: j.fill.DType, Shape: j.dst.meta.Shape, Strides: make([]int, j.dst.meta.Rank())}
	}
	e := elemOf(p.dst.meta.DType, p.src.meta.DType)
	axes := make([]strided.Axis, p.dst.meta.Rank())
	for d, n := range p.dst.meta.Shape {
		axes[d] = strided.Axis{N: n, Dst: p.dst.meta.Strides[d] * e.Dst, Src: p.src.meta.Strides[d] * e.Src}
	}
	for _, d := range j.back {
		axes[d].Src = -axes[d].Src
	}
	p.Copy = strided.New(e, axes)
	return p, nil
}

// run copies tiles [from, to).
func (p *copyPlan) run(m *graph.Mem, from, to int) {
	src := p.fill
	if src == nil {
		src = p.src.base(m)
	}
	p.Run(p.dst.base(m), src, m.Worker, from, to)
}

func (s side) base(m *graph.Mem) unsafe.Pointer {
	if s.at == scratchMem {
		return unsafe.Add(unsafe.Pointer(unsafe.SliceData(m.Scratch)), s.off)
	}
	return unsafe.Add(m.Ptrs[s.at], s.off)
}

// copyPhase returns the jobs as one phase; their destinations must not overlap. Chunks
// take tiles worth copyGrain elements, of several jobs where those are small. worker is
// the room that a worker needs.
func copyPhase(jobs ...copyJob) (phase graph.Phase, worker int, err error) {
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
	cuts := cutCopies(plans, max(copyGrain, total/maxCopyCuts))
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

// copyKernel returns a kernel of jobs whose destinations do not overlap.
func copyKernel(jobs ...copyJob) (*graph.Kernel, error) {
	phase, worker, err := copyPhase(jobs...)
	return &graph.Kernel{Phases: []graph.Phase{phase}, Worker: worker}, err
}

// outSide and inSide are an output and an operand of a call as they lie.

func outSide(c *graph.Call, i int) side { return side{at: i, meta: c.Out[i]} }

func inSide(c *graph.Call, i int) side { return side{at: len(c.Out) + i, meta: c.Meta(i)} }

// show returns the side under another meta of the same memory, a view, whose offset
// counts from the same start as the side's own.
func (s side) show(m tensor.Meta) side {
	s.off += (m.Offset - s.meta.Offset) * m.DType.Size()
	s.meta = m
	return s
}

// copyOrdered copies src to dst by logical order: where the shapes differ, by a view of
// either side in the other's shape, else through scratch memory.
func copyOrdered(dst, src side) (*graph.Kernel, error) {
	if m, err := src.meta.View(dst.meta.Shape); err == nil {
		return copyKernel(copyJob{dst: dst, src: src.show(m)})
	}
	if m, err := dst.meta.View(src.meta.Shape); err == nil {
		return copyKernel(copyJob{dst: dst.show(m), src: src})
	}
	mid := side{at: scratchMem, meta: tensor.New(src.meta.DType, src.meta.Shape...)}
	in, w0, err := copyPhase(copyJob{dst: mid, src: src})
	if err != nil {
		return nil, err
	}
	mid.meta = tensor.New(src.meta.DType, dst.meta.Shape...)
	out, w1, err := copyPhase(copyJob{dst: dst, src: mid})
	return &graph.Kernel{Phases: []graph.Phase{in, out}, Worker: max(w0, w1), Scratch: mid.meta.Bytes()}, err
}
