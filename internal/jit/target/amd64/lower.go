package amd64

import (
	"math"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// This file selects instructions for a whole loop ([lane.Loop]): for its values, its stores and its folds (reductions
// of a row). It makes these lists of the generator:
//
//	full pass       Body, foldInsts[foldsInRegisters] or foldInsts[foldsInMemory], stores
//	tail pass       Body, foldInsts[foldsInTail], stores
//	before passes   accInitInsts, which set the accumulator registers
//	after passes    accStoreInsts, which store the accumulator registers
//
// For example, a sum of float32 has one VADDPS in foldsInRegisters, and VADDPS and a store in foldsInMemory. The load
// of the accumulators is a Reload, not an instruction of the list.
//
// The methods append instructions to Body. g.Collect(f) empties Body, calls f, and returns the appended instructions.
// "Foldable" in FoldableSource has another meaning: the source may be an operand in memory.

// lower selects instructions for the whole loop.
func (g *generator) lower() error {
	for k := range g.loop.Insts {
		switch inst := &g.loop.Insts[k]; {
		case inst.Op != lane.Store:
			g.selected[k] = g.selectInst(inst)
		case inst.B != lane.None: // A and B are the parts of a complex number
			g.stores = append(g.stores, g.storeComplex(int(inst.Ptr), inst.Type.DType, g.selected[inst.A].reg,
				g.selected[inst.B].reg)...)
		default:
			mem := alloc.Mem{Space: alloc.AlongRow, Index: int(inst.Ptr), Step: int32(g.lanes * inst.Type.DType.Size())}
			g.stores = append(g.stores, g.store(mem, g.selected[inst.A]))
		}
	}
	g.lowerFolds()
	// Prune removes instructions from Body whose results neither Body nor these lists read.
	g.Prune(g.stores, g.foldInsts[foldsInRegisters], g.foldInsts[foldsInMemory], g.foldInsts[foldsInTail],
		g.accInitInsts, g.accStoreInsts)
	return g.err
}

// lowerFolds selects instructions for folds. In full passes, accumulators are in registers if possible, with loads
// before the loop and stores after it. In tails, accumulators are in memory. If CombinesLanes is set, each fold reduces
// a row to one number; its accumulators then stay in registers also in tails.
func (g *generator) lowerFolds() {
	for _, fold := range g.loop.Folds {
		if folded := g.selectedValue(fold.Value); fold.Op == lane.Min || fold.Op == lane.Max {
			g.extendedReg(folded) // in Body, once for all variants of the fold: folded keeps the extended register
		}
	}
	if !g.avx512 || g.loop.CombinesLanes { // folds in tails select lanes by this mask
		g.tailLanes = g.New(g.boolRegister())
	}
	body := g.Body // restored below, because Collect empties it
	for _, fold := range g.loop.Folds {
		if g.loop.CombinesLanes {
			g.foldTotal(fold)
			continue
		}
		g.foldInMemory(fold)
		g.foldInRegisters(fold)
	}
	g.Body = body
}

// accMemory returns the memory of the accumulators of a fold.
func (g *generator) accMemory(fold lane.Fold) alloc.Mem {
	return alloc.Mem{Space: alloc.AccumulatorMemory, Index: fold.Ptr,
		Step: int32(g.lanes * g.loop.Ptrs[fold.Ptr].DType.Size())}
}

// foldInMemory selects instructions for a fold with accumulators in memory, for full passes and for tails.
func (g *generator) foldInMemory(fold lane.Fold) {
	mem, value := g.accMemory(fold), g.selectedValue(fold.Value)
	for _, kind := range []int{foldsInMemory, foldsInTail} {
		var store alloc.Inst
		list := g.Collect(func() {
			old := g.loadVector(mem, value.dtype)
			sum := g.apply(fold.Op, value.dtype, old, value)
			if kind == foldsInTail && !g.avx512 && value.dtype.Size() < 4 { // AVX2 has no masked store of such elements
				sum = g.selectLanes(&laneValue{reg: g.tailLanes, dtype: tensor.Bool}, sum, old)
			}
			store = g.store(mem, sum)
		})
		g.foldInsts[kind] = append(append(g.foldInsts[kind], list...), store)
	}
}

// foldInRegisters selects instructions for a fold in full passes with accumulators in registers: the initialization,
// the fold, and the stores. If the instruction of the fold may lose a NaN (mayLoseNaN), a second accumulator, noNaN,
// has the mask of the lanes that have folded no NaN.
func (g *generator) foldInRegisters(fold lane.Fold) {
	mem, value := g.accMemory(fold), g.selectedValue(fold.Value)
	dtype := value.dtype
	description := alloc.Value{Bytes: g.width(laneSize(dtype))}
	if dtype == tensor.Bool {
		description = g.boolRegister()
	}
	// Additions of integers of fewer than 32 bits leave the bits above them undefined.
	acc := &laneValue{reg: g.newAcc(description), dtype: dtype, hasUndefinedHighBits: true}
	noNaN := alloc.Virt(0)
	if g.mayLoseNaN(fold.Op, dtype) {
		noNaN = g.newAcc(g.boolRegister())
	}
	folds := g.Collect(func() { g.foldInto(fold.Op, acc.reg, noNaN, value) })
	initialization := g.Collect(func() {
		loaded := g.loadVector(mem, dtype)
		g.Body = append(g.Body, alloc.Inst{Name: alloc.Move, Src: alloc.Sources(loaded.reg), Dst: acc.reg})
		if noNaN != 0 {
			g.compareFloats(laneSize(dtype), cmpOrdered, acc.reg, acc.reg)
			g.Body[len(g.Body)-1].Dst = noNaN // the comparison writes noNaN instead of a new register
		}
	})
	stores := g.Collect(func() {
		sum := acc
		if noNaN != 0 { // the lanes that have folded a NaN become NaN
			nan := g.floatConst(laneSize(dtype), math.NaN())
			sum = &laneValue{reg: g.blend(laneSize(dtype), noNaN, acc.reg, nan), dtype: dtype}
		}
		store := g.store(mem, sum)
		g.Body = append(g.Body, store)
	})
	g.foldInsts[foldsInRegisters] = append(g.foldInsts[foldsInRegisters], folds...)
	g.accInitInsts = append(g.accInitInsts, initialization...)
	g.accStoreInsts = append(g.accStoreInsts, stores...)
}

// newAcc adds an accumulator and returns its virtual register. value describes the register; newAcc sets value.Acc.
func (g *generator) newAcc(value alloc.Value) alloc.Virt {
	value.Acc = &alloc.Acc{Index: len(g.accs)}
	v := g.New(value)
	value.Acc.Virt = v
	g.accs = append(g.accs, value.Acc)
	return v
}

// mayLoseNaN reports whether a fold is one instruction that may replace a NaN in the accumulator by a number. Such a
// fold needs the accumulator noNaN, whose computation does not wait for acc. Without AVX-512, the fold is several
// instructions, which keep a NaN (extremum).
func (g *generator) mayLoseNaN(op lane.Op, dtype tensor.DType) bool {
	return g.avx512 && dtype.IsFloat() && (op == lane.Min || op == lane.Max)
}

// foldInto folds a value into the accumulator acc. noNaN is 0, or the accumulator with the mask of the lanes that have
// folded no NaN. The comparison that updates noNaN is masked by the old noNaN, so a cleared lane stays cleared.
func (g *generator) foldInto(op lane.Op, acc, noNaN alloc.Virt, value *laneValue) {
	if noNaN != 0 { // Min or Max: the comparison of the value with itself, and then the extremum
		laneBytes := laneSize(value.dtype)
		g.Body = append(g.Body, alloc.Inst{Name: "VCMP" + floatSuffix(laneBytes),
			Src:  withImmediate(cmpOrdered, value.reg, value.reg),
			Mask: noNaN, Dst: noNaN, FoldableSource: noFoldableSource},
			alloc.Inst{Name: extremumName(op, laneBytes), Src: alloc.Sources(value.reg, acc), Dst: acc,
				BroadcastBytes: uint8(laneBytes)})
		return
	}
	result := g.apply(op, value.dtype, &laneValue{reg: acc, dtype: value.dtype}, value)
	if last := len(g.Body) - 1; last >= 0 && g.Body[last].Dst == result.reg {
		g.Body[last].Dst = acc // the last instruction writes acc instead of a new register
	} else {
		g.fail("there is no instruction that folds by %v", op)
	}
}
