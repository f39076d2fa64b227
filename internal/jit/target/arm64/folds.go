package arm64

import (
	"slices"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/lane"
)

// pass has the instructions of a pass with its folds and stores, in two forms.
type pass struct {
	lanes         int
	length        int          // number of instructions without folds and stores
	memoryInsts   []alloc.Inst // accumulators are in memory
	registerInsts []alloc.Inst // accumulators are in registers; nil without folds
	accLoads      []alloc.Inst // loads of accumulator registers, or their initial values in a loop with totals
	accStores     []alloc.Inst // stores of accumulator registers
	accCount      int          // number of accumulators of registerInsts; each has one register per set
}

// selectPass selects instructions for passes of n elements.
func (g *generator) selectPass(n int) (*pass, error) {
	g.Builder.Body = nil
	l, err := g.selectLists(n)
	if err != nil {
		return nil, err
	}
	p := &pass{lanes: n, length: len(l.Body)}
	var memoryFolds, registerFolds []alloc.Inst
	for k := range g.loop.Folds {
		memoryFolds = append(memoryFolds, g.Collect(func() { g.foldInMemory(l, k) })...)
		registerFolds = append(registerFolds, g.foldInRegisters(l, p, k)...)
	}
	p.memoryInsts = slices.Concat(l.Body, memoryFolds, l.Stores)
	if len(g.loop.Folds) > 0 {
		p.registerInsts = slices.Concat(l.Body, registerFolds, l.Stores)
	}
	return p, nil
}

// accMemory returns the memory of the accumulators of fold k for passes of n elements. In a loop with totals, they
// are in the spill area.
func (g *generator) accMemory(k, n int) alloc.Mem {
	f := g.loop.Folds[k]
	size := g.loop.Type(f.V).Size()
	m := alloc.Mem{Space: alloc.AccumulatorMemory, Index: f.Ptr, ElementBytes: uint8(size), Step: int32(n * size)}
	if g.loop.Totals {
		m.Index = g.accPointer(k)
	}
	return m
}

// foldInMemory selects the instructions of fold k with accumulators in memory.
func (g *generator) foldInMemory(l *Lists, k int) {
	f := g.loop.Folds[k]
	t, v, m := g.loop.Type(f.V), g.foldedParts(l, f), g.accMemory(k, l.Lanes)
	l.Store(m, t, l.Select(f.Op, t, l.Load(m, t, len(v)), v))
}

// foldedParts returns the parts of the value of a fold. A uniform value has the same register in all parts.
func (g *generator) foldedParts(l *Lists, f lane.Fold) []alloc.Virt {
	x := l.Parts[f.V]
	if len(x) == 1 {
		return slices.Repeat(x, max(1, l.Lanes*g.loop.Type(f.V).Size()/vectorBytes))
	}
	return x
}

// foldInRegisters selects the instructions of fold k with accumulators in registers, and adds the loads and stores of
// these registers to p.
func (g *generator) foldInRegisters(l *Lists, p *pass, k int) []alloc.Inst {
	f := g.loop.Folds[k]
	t, v, m := g.loop.Type(f.V), g.foldedParts(l, f), g.accMemory(k, l.Lanes)
	acc := make([]alloc.Virt, len(v))
	for i := range acc {
		acc[i] = g.New(alloc.Value{Bytes: vectorBytes})
		g.Values[acc[i]].Acc = &alloc.Acc{Index: p.accCount, Virt: acc[i]}
		p.accCount++
	}
	p.accLoads = append(p.accLoads, g.Collect(func() {
		from := slices.Repeat([]alloc.Virt{g.neutral(f.Op, t)}, len(v))
		if !g.loop.Totals {
			from = l.Load(m, t, len(v))
		}
		g.moveTo(acc, from)
	})...)
	p.accStores = append(p.accStores, g.Collect(func() { l.Store(m, t, acc) })...)
	return g.Collect(func() { g.moveTo(acc, l.Select(f.Op, t, acc, v)) })
}

// moveTo sets accumulators to values that the body computes. The last instruction of a value writes the accumulator,
// if it can.
func (g *generator) moveTo(acc, values []alloc.Virt) {
	for i, a := range acc {
		last := slices.IndexFunc(g.Builder.Body, func(in alloc.Inst) bool { return in.Dst == values[i] })
		if last >= 0 && writeTo(&g.Builder.Body[last], a) {
			continue
		}
		g.Builder.Body = append(g.Builder.Body, alloc.Inst{Name: alloc.Move, Src: sources(values[i]), Dst: a,
			Fold: -1})
	}
}

// writeTo makes accumulator acc the result of an instruction, and reports whether this is possible: the instruction
// must not overwrite the register of another value.
func writeTo(in *alloc.Inst, acc alloc.Virt) bool {
	for _, f := range in.Forms {
		if in.Src[f.Tied].Virt == acc {
			in.Name, in.Tied, in.Forms = f.Name, acc, nil
			in.Src = []alloc.Arg{in.Src[f.Order[0]], in.Src[f.Order[1]]}
			break
		}
	}
	if in.Forms != nil || in.Tied != 0 && in.Tied != acc || in.CountedLength > 0 || in.Name == alloc.Move {
		return false
	}
	in.Dst = acc
	return true
}

// neutral returns a vector with the neutral element of a fold in all lanes.
func (g *generator) neutral(op lane.Op, t lane.Type) alloc.Virt {
	bits := lane.Neutral(op, t.D)
	if t.Mask != 0 {
		bits = -bits
	}
	return g.constant(t.Size(), bits)
}

// selectTotals selects two lists of instructions for a loop with totals whose accumulators are in memory. start sets
// the accumulators to neutral elements. finish combines them after the row and stores the totals.
func (g *generator) selectTotals() (start, finish []alloc.Inst) {
	l := *g.Lists
	l.Lanes = lane.FoldLanes
	g.Lists = &l
	for k, f := range g.loop.Folds {
		t, m := g.loop.Type(f.V), g.accMemory(k, lane.FoldLanes)
		n := lane.FoldLanes * t.Size() / vectorBytes
		start = append(start, g.Collect(func() {
			l.Store(m, t, slices.Repeat([]alloc.Virt{g.neutral(f.Op, t)}, n))
		})...)
		finish = append(finish, g.Collect(func() {
			to := alloc.Mem{Space: alloc.PerRow, Index: f.Ptr, ElementBytes: uint8(t.Size())}
			l.Store(to, t, g.combine(&l, f.Op, t, l.Load(m, t, n)))
		})...)
	}
	return start, finish
}

// combine combines the second half of the accumulators with the first half until one element remains, in the lowest
// lane of the result.
func (g *generator) combine(l *Lists, op lane.Op, t lane.Type, acc []alloc.Virt) []alloc.Virt {
	for len(acc) > 1 {
		half := len(acc) / 2
		acc = l.Select(op, t, acc[:half], acc[half:])
	}
	for bytes := vectorBytes / 2; bytes >= t.Size(); bytes /= 2 {
		upper := g.New(alloc.Value{Bytes: vectorBytes})
		g.Add(alloc.Inst{Name: "ext 16b 16b 16b #", Src: []alloc.Arg{{Virt: acc[0]}, {Virt: acc[0]},
			{Imm: int64(bytes)}},
			Dst: upper, Fold: -1})
		acc = l.Select(op, t, acc, []alloc.Virt{upper})
	}
	return acc
}
