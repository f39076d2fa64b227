package alloc

import (
	"github.com/graphrun/graphrun/internal/sorted"
)

// Builder collects the instructions of a loop over the elements of a row. For example, let a loop compute x + 2*y,
// where y is one number for the whole row. The values 2 and y are invariant, so Row computes their product. Body
// computes the sum, because the element x varies.
type Builder struct {
	Values []Value // by Virt; entry 0 is unused
	Row    []Inst  // instructions that run once per row, before the iterations
	Body   []Inst  // instructions that run once per iteration
}

// New adds a virtual register with the given description. It is not inlined, because it has many callers, and no inner
// loop calls it.
//
//go:noinline
func (b *Builder) New(description Value) Virt {
	if len(b.Values) == 0 {
		b.Values = make([]Value, 1)
	}
	b.Values = append(b.Values, description)
	return Virt(len(b.Values) - 1)
}

// Add appends an instruction to Row if all its sources are invariant, else to Body. It sets the fields Invariant and
// Constant of inst.Dst, and returns inst.Dst.
func (b *Builder) Add(inst Inst) Virt {
	isInvariant, isConstant := true, true
	inst.eachUse(func(virt Virt) {
		if virt != 0 {
			isInvariant = isInvariant && b.Values[virt].Invariant
			isConstant = isConstant && b.Values[virt].Constant
		}
	})
	if inst.Dst != 0 {
		b.Values[inst.Dst].Invariant, b.Values[inst.Dst].Constant = isInvariant, isConstant
	}
	if isInvariant && inst.Dst != 0 { // a store runs once per iteration
		b.Row = append(b.Row, inst)
	} else {
		b.Body = append(b.Body, inst)
	}
	return inst.Dst
}

// Collect empties Body, calls `add`, and returns the new Body. add adds instructions to Body.
func (b *Builder) Collect(add func()) []Inst {
	b.Body = nil
	add()
	return b.Body
}

// Prune removes dead instructions from Body and Row. An instruction is live if it is a store, or if its result is used
// by a live instruction or by an instruction in `others`.
func (b *Builder) Prune(others ...[]Inst) {
	live := make([]bool, len(b.Values))
	mark := func(virt Virt) { live[virt] = virt != 0 }
	for _, list := range others {
		for i := range list {
			list[i].eachUse(mark)
		}
	}
	withoutDead := func(list []Inst) []Inst {
		isLive := make([]bool, len(list))
		count := 0
		for i := len(list) - 1; i >= 0; i-- {
			if live[list[i].Dst] || list[i].Store != nil {
				list[i].eachUse(mark)
				isLive[i] = true
				count++
			}
		}
		out := make([]Inst, 0, count)
		for i, inst := range list {
			if isLive[i] {
				out = append(out, inst)
			}
		}
		return out
	}
	b.Body = withoutDead(b.Body) // Body first, because it uses results of Row
	b.Row = withoutDead(b.Row)
}

// RowConstants returns the invariant values that lists read, in descending order of their number of uses.
func (b *Builder) RowConstants(lists ...[]Inst) []Virt {
	useCount := make([]int, len(b.Values))
	for _, list := range lists {
		for k := range list {
			list[k].eachUse(func(virt Virt) { useCount[virt]++ })
		}
	}
	var constants []Virt
	for v := 1; v < len(b.Values); v++ {
		if b.Values[v].Invariant && useCount[v] > 0 {
			constants = append(constants, Virt(v))
		}
	}
	sorted.Func(constants, func(x, y Virt) int { return useCount[y] - useCount[x] })
	return constants
}

// Interleave unrolls a list by two. Each instruction is followed by a copy for later iterations, so that the latencies
// of the instruction and its copy overlap. iterations is the number of iterations that the given list computes: 1 for a
// list that was not unrolled, 2 for a list that was unrolled once, and so on. Forms are shared with the given list.
func (b *Builder) Interleave(list []Inst, iterations int) []Inst {
	sourceCount := 0
	for k := range list {
		sourceCount += 2 * len(list[k].Src)
	}
	copier := interleaver{Builder: b, copyOf: make([]Virt, len(b.Values)), iterations: iterations,
		sources: make([]Arg, 0, sourceCount)}
	unrolled := make([]Inst, 0, 2*len(list))
	for _, inst := range list {
		unrolled = append(unrolled, copier.instIn(0, inst), copier.instIn(1, inst))
	}
	return unrolled
}

// interleaver copies a list of instructions for later iterations, which follow the iterations of the list.
type interleaver struct {
	*Builder
	iterations int    // number of iterations in the given list
	copyOf     []Virt // by Virt: its copy for the later iterations, or 0
	sources    []Arg  // memory of Inst.Src of all instructions
}

// instIn returns the instruction for the original iterations (copyIndex is 0) or for the later iterations (copyIndex is
// 1).
func (t *interleaver) instIn(copyIndex int, inst Inst) Inst {
	start := len(t.sources)
	t.sources = append(t.sources, inst.Src...)
	inst.Src = t.sources[start:len(t.sources):len(t.sources)]
	for k := range inst.Src {
		inst.Src[k].Virt = t.valueIn(copyIndex, inst.Src[k].Virt)
	}
	inst.Dst = t.valueIn(copyIndex, inst.Dst)
	inst.Tied = t.valueIn(copyIndex, inst.Tied)
	inst.Mask = t.valueIn(copyIndex, inst.Mask)
	if inst.Store != nil && copyIndex == 1 {
		destination := inst.Store.After(t.iterations)
		inst.Store = &destination
	}
	return inst
}

// valueIn returns the value that corresponds to virt. copyIndex is the argument of instIn.
func (t *interleaver) valueIn(copyIndex int, virt Virt) Virt {
	value := t.Values[virt]
	if copyIndex == 0 || virt == 0 || value.Invariant {
		return virt
	}
	if copied := t.copyOf[virt]; copied != 0 {
		return copied
	}
	if value.Reload != nil {
		reload := *value.Reload
		reload.Mem = reload.Mem.After(t.iterations)
		value.Reload = &reload
	}
	if value.Acc != nil {
		value.Acc = &Acc{Index: value.Acc.Index, Virt: value.Acc.Virt, Iteration: value.Acc.Iteration + t.iterations}
	}
	copied := t.New(value)
	t.copyOf[virt] = copied
	return copied
}
