package arm64

// This file selects the instructions of folds, such as the sum of a row. A fold combines the elements of a row into
// lane.FoldLanes (32) accumulators: element k is combined with accumulator k modulo 32. In a loop with totals
// (lane.Loop.CombinesLanes), the accumulators start at the neutral element in each row. After the row they are combined
// into one element, the total. In other loops, the accumulators are operands in memory.
//
// A pass computes a fixed number of adjacent elements. In a pass, each value of the loop is divided into parts of 16
// bytes, and each part has a virtual register (alloc.Virt). For example, a float32 has four parts in a pass of 16
// elements. A sum of it takes four "fadd 4s", which add the four parts to four accumulator registers. The next pass of
// an iteration does the same with the other 16 accumulators.
//
// [Lists], which the generator g embeds, are the selected instructions of the current pass before folds are added:
// g.Lanes is the number of elements, and g.Parts has the registers of each value. The methods loadParts, applyAll and
// addStores append further instructions to g.Builder.Body. g.Collect(f) empties this body, calls f, and returns the
// instructions that f appended.

import (
	"slices"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/lane"
)

// noFoldableSource is alloc.Inst.FoldableSource, the index of the source that may be a memory operand, for an
// instruction without one. NEON instructions have no memory operands.
const noFoldableSource = -1

// pass has the instructions that compute some adjacent elements of a row, with folds and stores. There are two
// variants: with accumulators in memory, and in registers.
type pass struct {
	lanes         int          // number of adjacent elements
	length        int          // number of instructions without folds and stores
	memoryInsts   []alloc.Inst // accumulators are in memory
	registerInsts []alloc.Inst // accumulators are in registers; nil without folds
	accLoads      []alloc.Inst // set accumulator registers: from memory or, with totals, to the neutral element
	accStores     []alloc.Inst // store accumulator registers

	// accCount is the number of accumulator registers of one pass. An iteration of the main loop has several passes,
	// each with its own set of these registers (see passCountOf).
	accCount int
}

// selectPass selects the instructions of a pass with the given number of elements.
func (g *generator) selectPass(lanes int) (*pass, error) {
	g.Builder.Body = nil
	lists, err := g.selectLists(lanes)
	if err != nil {
		return nil, err
	}
	selected := &pass{lanes: lanes, length: len(lists.Body)}
	var memoryFolds, registerFolds []alloc.Inst
	for k := range g.loop.Folds {
		memoryFolds = append(memoryFolds, g.Collect(func() { g.foldInMemory(k) })...)
		registerFolds = append(registerFolds, g.foldInRegisters(selected, k)...)
	}
	selected.memoryInsts = slices.Concat(lists.Body, memoryFolds, lists.Stores)
	if len(g.loop.Folds) > 0 {
		selected.registerInsts = slices.Concat(lists.Body, registerFolds, lists.Stores)
	}
	return selected, nil
}

// foldInMemory selects the instructions of fold k with accumulators in memory.
func (g *generator) foldInMemory(k int) {
	fold := g.loop.Folds[k]
	laneType, folded, mem := g.loop.Type(fold.Value), g.foldedParts(fold), g.accMemory(k, g.Lanes)
	accs := g.loadParts(mem, laneType, len(folded))
	g.addStores(mem, laneType, g.applyAll(fold.Op, laneType, accs, folded))
}

// foldInRegisters returns the instructions of fold k with accumulators in registers. It adds the loads and stores of
// these registers to p.accLoads and p.accStores.
func (g *generator) foldInRegisters(p *pass, k int) []alloc.Inst {
	fold := g.loop.Folds[k]
	laneType, folded, mem := g.loop.Type(fold.Value), g.foldedParts(fold), g.accMemory(k, g.Lanes)
	accs := make([]alloc.Virt, len(folded))
	for i := range accs {
		accs[i] = g.New(alloc.Value{Bytes: vectorBytes})
		g.Values[accs[i]].Acc = &alloc.Acc{Index: p.accCount, Virt: accs[i]}
		p.accCount++
	}
	p.accLoads = append(p.accLoads, g.Collect(func() {
		initial := slices.Repeat([]alloc.Virt{g.neutral(fold.Op, laneType)}, len(folded))
		if !g.loop.CombinesLanes { // without totals
			initial = g.loadParts(mem, laneType, len(folded))
		}
		g.moveTo(accs, initial)
	})...)
	p.accStores = append(p.accStores, g.Collect(func() { g.addStores(mem, laneType, accs) })...)
	return g.Collect(func() { g.moveTo(accs, g.applyAll(fold.Op, laneType, accs, folded)) })
}

// foldedParts returns the registers of the value that a fold combines with its accumulators, one for each part. If the
// value is uniform (the same for all elements), all parts are the same register.
func (g *generator) foldedParts(fold lane.Fold) []alloc.Virt {
	parts := g.Parts[fold.Value]
	if len(parts) == 1 {
		passBytes := g.Lanes * g.loop.Type(fold.Value).Size()
		return slices.Repeat(parts, max(1, passBytes/vectorBytes)) // a pass shorter than a register has one part
	}
	return parts
}

// accMemory returns the memory of the accumulators of fold k for a pass of the given number of elements. In a loop with
// totals, the accumulators are in the spill area, to which accPointer points.
func (g *generator) accMemory(k, lanes int) alloc.Mem {
	fold := g.loop.Folds[k]
	size := g.loop.Type(fold.Value).Size()
	mem := alloc.Mem{Space: alloc.AccumulatorMemory, Index: fold.Ptr, ElementBytes: uint8(size),
		Step: int32(lanes * size)}
	if g.loop.CombinesLanes {
		mem.Index = g.accPointer(k)
	}
	return mem
}

// moveTo sets accumulators to values. If g.Builder.Body has the instruction that computes a value, and writeTo accepts
// it, the instruction writes to the accumulator directly; otherwise a move is added. Nothing else reads the values. A
// constant is not in the body: it is loaded where it is used.
func (g *generator) moveTo(accs, values []alloc.Virt) {
	for i, acc := range accs {
		producer := slices.IndexFunc(g.Builder.Body, func(in alloc.Inst) bool { return in.Dst == values[i] })
		if producer >= 0 && writeTo(&g.Builder.Body[producer], acc) {
			continue
		}
		g.Builder.Body = append(g.Builder.Body, alloc.Inst{Name: alloc.Move, Src: alloc.Sources(values[i]), Dst: acc,
			FoldableSource: noFoldableSource})
	}
}

// writeTo makes accumulator acc the result of an instruction, and reports whether this is possible. It is impossible if
// the instruction must overwrite the register of another value, or is a move or another pseudo-instruction (with an
// InstructionCount).
//
// Some instructions overwrite a source. If the encoding is chosen, inst.Tied is the overwritten value (0: none).
// Otherwise inst.Forms has the possible encodings: form.Tied is the index of the source that a form overwrites, and
// form.Order has the indices of the two other sources. For example, a selection by a mask has bsl, which overwrites the
// mask, and bit and bif, which overwrite one of the two values. writeTo chooses the form that overwrites acc.
func writeTo(inst *alloc.Inst, acc alloc.Virt) bool {
	for _, form := range inst.Forms {
		if inst.Src[form.Tied].Virt == acc {
			inst.Name, inst.Tied, inst.Forms = form.Name, acc, nil
			inst.Src = []alloc.Arg{inst.Src[form.Order[0]], inst.Src[form.Order[1]]}
			break
		}
	}
	overwritesOther := inst.Forms != nil || inst.Tied != 0 && inst.Tied != acc
	isPseudo := inst.InstructionCount > 0 || inst.Name == alloc.Move
	if overwritesOther || isPseudo {
		return false
	}
	inst.Dst = acc
	return true
}

// neutral returns a vector with the neutral element of a fold in all lanes.
func (g *generator) neutral(op lane.Op, laneType lane.Type) alloc.Virt {
	bits := lane.Neutral(op, laneType.DType)
	if laneType.Mask != 0 {
		bits = -bits // 1 becomes all ones, the true lane of a mask
	}
	return g.constant(laneType.Size(), bits)
}

// selectTotals selects the instructions before and after each row of a loop with totals. The list initialize sets the
// accumulators in memory to neutral elements. The list finish loads them after the row, combines them and stores the
// totals.
func (g *generator) selectTotals() (initialize, finish []alloc.Inst) {
	// The instructions access all accumulators at once, like a pass of FoldLanes elements: loadParts and addStores read
	// g.Lanes. The next call of selectPass sets g.Lists again.
	g.Lanes = lane.FoldLanes
	for k, fold := range g.loop.Folds {
		laneType, mem := g.loop.Type(fold.Value), g.accMemory(k, lane.FoldLanes)
		parts := lane.FoldLanes * laneType.Size() / vectorBytes
		initialize = append(initialize, g.Collect(func() {
			g.addStores(mem, laneType, slices.Repeat([]alloc.Virt{g.neutral(fold.Op, laneType)}, parts))
		})...)
		finish = append(finish, g.Collect(func() {
			total := g.combine(fold.Op, laneType, g.loadParts(mem, laneType, parts))
			to := alloc.Mem{Space: alloc.PerRow, Index: fold.Ptr, ElementBytes: uint8(laneType.Size())}
			g.addStores(to, laneType, total)
		})...)
	}
	return initialize, finish
}

// combine repeatedly combines the second half of the accumulators with the first half, until one element remains: 8
// registers of four float32 become 4, 2 and 1 registers, and then 2 and 1 lanes. The result has one register, with the
// element in the lowest lane.
func (g *generator) combine(op lane.Op, laneType lane.Type, accs []alloc.Virt) []alloc.Virt {
	for len(accs) > 1 {
		half := len(accs) / 2
		accs = g.applyAll(op, laneType, accs[:half], accs[half:])
	}
	for bytes := vectorBytes / 2; bytes >= laneType.Size(); bytes /= 2 {
		// ext with both sources equal rotates the register: the lanes from byte `bytes` on become the lowest ones.
		upper := g.New(alloc.Value{Bytes: vectorBytes})
		g.Add(alloc.Inst{Name: "ext 16b 16b 16b #", Src: []alloc.Arg{{Virt: accs[0]}, {Virt: accs[0]},
			{Imm: int64(bytes)}},
			Dst: upper, FoldableSource: noFoldableSource})
		accs = g.applyAll(op, laneType, accs, []alloc.Virt{upper})
	}
	return accs
}
