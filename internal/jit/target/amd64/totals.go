package amd64

import (
	"math"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// This file selects instructions for totals: folds of a loop that folds each row into one number
// (lane.Loop.CombinesLanes). Accumulators stay in registers and start as the neutral element. The neutral element also
// replaces the missing elements of a tail. After the tail, the accumulators are combined pairwise into one element. For
// example, a float32 sum with AVX-512 has two registers of 16 lanes. The second register is added to the first, then
// lanes 8 to 15 to lanes 0 to 7, and so on.
//
// The methods append instructions to Body. g.Collect(f) empties Body, calls f, and returns the appended instructions.

// foldTotal selects instructions for the total of a fold.
func (g *generator) foldTotal(fold lane.Fold) {
	value := g.selectedValue(fold.Value)
	dtype := value.dtype
	description := alloc.Value{Bytes: g.width(laneSize(dtype))}
	if dtype == tensor.Bool {
		description = g.boolRegister()
	}
	acc := g.newAcc(description)
	neutral := g.constOf(dtype, lane.Neutral(fold.Op, dtype))
	noNaN := alloc.Virt(0) // the mask of the lanes that have folded no NaN; 0 if the instruction of the fold keeps NaN
	if g.mayLoseNaN(fold.Op, dtype) {
		noNaN = g.newAcc(g.boolRegister())
	}
	folded := g.Collect(func() { g.foldInto(fold.Op, acc, noNaN, value) }) // passes of whole registers
	g.foldInsts[foldsInRegisters] = append(g.foldInsts[foldsInRegisters], folded...)
	g.foldInsts[foldsInTail] = append(g.foldInsts[foldsInTail], g.Collect(func() {
		hasElement := &laneValue{reg: g.tailLanes, dtype: tensor.Bool}
		element := &laneValue{reg: g.unpackedReg(value), dtype: dtype, hasUndefinedHighBits: value.hasUndefinedHighBits}
		g.foldInto(fold.Op, acc, noNaN, g.selectLanes(hasElement, element, neutral))
	})...)
	g.accInitInsts = append(g.accInitInsts, alloc.Inst{Name: alloc.Move, Src: alloc.Sources(neutral.reg), Dst: acc})
	if noNaN != 0 {
		// KXNORW of a register with itself sets all bits: no lane has folded a NaN.
		g.accInitInsts = append(g.accInitInsts, alloc.Inst{Name: "KXNORW", Src: alloc.Sources(noNaN, noNaN), Dst: noNaN,
			FoldableSource: noFoldableSource})
	}
	g.accStoreInsts = append(g.accStoreInsts, g.Collect(func() {
		mem := alloc.Mem{Space: alloc.PerRow, Index: fold.Ptr}
		g.Body = append(g.Body, g.storeFirstLane(mem, dtype, g.combine(fold.Op, dtype, acc, noNaN)))
	})...)
}

// combine combines the registers of an accumulator into one register, and the lanes of that register into the first.
// noNaN is as in foldTotal. If a lane has folded a NaN, the result is NaN.
func (g *generator) combine(op lane.Op, dtype tensor.DType, acc, noNaN alloc.Virt) alloc.Virt {
	accs := g.accCopies(acc)
	join := func(a, b alloc.Virt) alloc.Virt { return g.join(op, dtype, a, b) }
	var result alloc.Virt
	laneDType := dtype // dtype of the lanes of result
	switch {
	case noNaN != 0: // Min or Max: lanes that have folded a NaN become NaN
		laneBytes := laneSize(dtype)
		result = foldPairwise(accs, func(a, b alloc.Virt) alloc.Virt {
			return g.binaryOp(extremumName(op, laneBytes), laneBytes, b, a)
		})
		and := func(a, b alloc.Virt) alloc.Virt { return g.maskOp("AND", a, b) }
		withoutNaN := foldPairwise(g.accCopies(noNaN), and)
		result = g.blend(laneBytes, withoutNaN, result, g.floatConst(laneBytes, math.NaN()))
	case dtype == tensor.Bool: // the lanes of a mask cannot be shifted, so they become numbers
		laneDType = tensor.Int32
		result = g.boolToNumber(laneDType, foldPairwise(accs, join)).reg
	default:
		result = foldPairwise(accs, join)
	}
	for half := g.lanes / 2; half > 0; half /= 2 {
		result = g.join(op, laneDType, result, g.shiftDown(half*laneSize(laneDType), result))
	}
	return result
}

// join combines two registers with lanes of a dtype by the operation of a fold.
func (g *generator) join(op lane.Op, dtype tensor.DType, a, b alloc.Virt) alloc.Virt {
	return g.apply(op, dtype, &laneValue{reg: a, dtype: dtype}, &laneValue{reg: b, dtype: dtype}).reg
}

// accCopies returns the registers of the accumulator acc, one in each set. Successive passes use successive sets, which
// Acc.Iteration numbers.
func (g *generator) accCopies(acc alloc.Virt) []alloc.Virt {
	copies := []alloc.Virt{acc}
	for pass := 1; pass < lane.FoldLanes/g.lanes; pass++ {
		value := g.Values[acc]
		value.Acc = &alloc.Acc{Index: value.Acc.Index, Virt: acc, Iteration: pass}
		copies = append(copies, g.New(value))
	}
	return copies
}

// foldPairwise joins the second half of a list with the first half, element by element, until one value remains, and
// returns this value. The length of the list is a power of 2.
func foldPairwise(values []alloc.Virt, join func(a, b alloc.Virt) alloc.Virt) alloc.Virt {
	for half := len(values) / 2; half > 0; half /= 2 {
		for k := range half {
			values[k] = join(values[k], values[k+half])
		}
	}
	return values[0]
}

// storeFirstLane returns the store of the first lane of v.
func (g *generator) storeFirstLane(mem alloc.Mem, dtype tensor.DType, v alloc.Virt) alloc.Inst {
	store := alloc.Inst{Store: &mem, FoldableSource: noFoldableSource}
	laneNumber, vector := alloc.Arg{Imm: 0}, alloc.Arg{Virt: v, Bytes: 16}
	switch dtype.Size() {
	case 1:
		store.Name, store.Src = "VPEXTRB", []alloc.Arg{laneNumber, vector}
	case 2:
		store.Name, store.Src = "VPEXTRW", []alloc.Arg{laneNumber, vector}
	case 4:
		store.Name, store.Src = "VMOVD", []alloc.Arg{vector}
	default:
		store.Name, store.Src = "VMOVQ", []alloc.Arg{vector}
	}
	return store
}

// shiftDown returns a vector that starts with bytes n to 2n-1 of v. The other bytes of the result are arbitrary. n is a
// power of 2 from 4 to 32.
func (g *generator) shiftDown(n int, v alloc.Virt) alloc.Virt {
	const (
		swapPairs     = 0x4e // quarters 2, 3, 0, 1
		swapNeighbors = 0xb1 // quarters 1, 0, 3, 2
	)
	switch {
	case n == 32:
		return g.shuffle("VSHUFF64X2", swapPairs, v, v)
	case n == 16 && g.avx512:
		return g.shuffle("VSHUFF64X2", swapNeighbors, v, v)
	case n == 16: // AVX2: the immediate 1 selects the upper half
		return g.shuffle("VPERM2F128", 1, v, v)
	case n == 8:
		return g.immediateOp("VPSHUFD", swapPairs, v)
	}
	return g.immediateOp("VPSHUFD", swapNeighbors, v)
}
