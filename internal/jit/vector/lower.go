package vector

import (
	"math"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// lower selects instructions for the whole loop.
func (g *gen) lower() error {
	for _, v := range evaluationOrder(g.loop) {
		g.selected[v] = g.selectInst(v)
	}
	for k, o := range g.code.Out {
		mem := memory{kind: inOperand, index: k, step: int32(g.lanes * o.DType.Size())}
		switch {
		case o.DType == tensor.Invalid:
		case o.Im != expr.None:
			g.stores = append(g.stores, g.storeComplex(k, o.DType, g.selectedValue(o.Re).reg, g.selectedValue(o.Im).reg)...)
		default:
			g.stores = append(g.stores, g.store(mem, g.selectedValue(o.Re)))
		}
	}
	g.lowerFolds()
	g.prune()
	return g.err
}

// lowerFolds selects instructions for folds. In full iterations, accumulators are in registers if possible, with loads
// before the loop and stores after it. In tails, accumulators are in memory, unless the loop has totals.
func (g *gen) lowerFolds() {
	for _, f := range g.loop.Folds {
		if v := g.selectedValue(f.V); f.Op == expr.Min || f.Op == expr.Max {
			g.extended(v) // once, for accumulators in registers and in memory
		}
	}
	if !g.avx512 || g.loop.Totals {
		g.tailLanes = g.newVal(g.boolVal())
	}
	body := g.body
	for k := range g.loop.Folds {
		if g.loop.Totals {
			g.foldTotal(k)
			continue
		}
		g.foldInMemory(k)
		g.foldInRegisters(k)
	}
	g.body = body
}

// accMemory returns the memory of the accumulators of fold k.
func (g *gen) accMemory(k int) memory {
	return memory{kind: inAcc, index: g.outputs + len(g.code.In) + k, step: int32(g.lanes * g.loop.DType(k).Size())}
}

// collectBody returns the instructions that the function selecting adds to the body.
func (g *gen) collectBody(selecting func()) []inst {
	g.body = nil
	selecting()
	return g.body
}

// foldInMemory selects instructions for fold k with accumulators in memory, for the body and for tails.
func (g *gen) foldInMemory(k int) {
	f, mem := g.loop.Folds[k], g.accMemory(k)
	v := g.selectedValue(f.V)
	for _, way := range []int{foldsInMemory, foldsInTail} {
		var s inst
		list := g.collectBody(func() {
			old := g.loadVector(mem, v.dtype)
			sum := g.apply(f.Op, v.dtype, old, v)
			if way == foldsInTail && !g.avx512 && v.dtype.Size() < 4 { // there are no masked stores
				sum = g.selectLanes(&lowered{reg: g.tailLanes, dtype: tensor.Bool}, sum, old)
			}
			s = g.store(mem, sum)
		})
		g.foldInsts[way] = append(append(g.foldInsts[way], list...), s)
	}
}

// newAcc adds an accumulator with the description x and returns its number.
func (g *gen) newAcc(x value) val {
	x.acc = &accRef{index: len(g.accs)}
	v := g.newVal(x)
	x.acc.val = v
	g.accs = append(g.accs, x.acc)
	return v
}

// foldInRegisters selects instructions for fold k in the body with accumulators in registers.
func (g *gen) foldInRegisters(k int) {
	f, mem := g.loop.Folds[k], g.accMemory(k)
	v := g.selectedValue(f.V)
	d := v.dtype
	proto := value{bytes: g.width(laneSize(d))}
	if d == tensor.Bool {
		proto = g.boolVal()
	}
	acc := &lowered{reg: g.newAcc(proto), dtype: d, dirty: true}
	ordered := val(0)
	if g.losesNaN(f.Op, d) {
		ordered = g.newAcc(g.boolVal())
	}
	folded := g.collectBody(func() { g.foldInto(f.Op, acc.reg, ordered, v) })
	g.foldInsts[foldsInRegisters] = append(g.foldInsts[foldsInRegisters], folded...)
	g.accLoadInsts = append(g.accLoadInsts, g.collectBody(func() {
		x := g.loadVector(mem, d)
		g.body = append(g.body, inst{name: move, src: sources(x.reg), dst: acc.reg})
		if ordered != 0 {
			g.compareFloats(laneSize(d), 7, acc.reg, acc.reg)
			g.body[len(g.body)-1].dst = ordered
		}
	})...)
	g.accStoreInsts = append(g.accStoreInsts, g.collectBody(func() {
		sum := acc
		if ordered != 0 {
			sum = &lowered{reg: g.blend(laneSize(d), ordered, acc.reg, g.floatConst(laneSize(d), math.NaN())), dtype: d}
		}
		s := g.store(mem, sum)
		g.body = append(g.body, s)
	})...)
}

// losesNaN reports whether the instruction of a fold may replace a NaN in the accumulator by a number. Such a fold also
// has a mask of the lanes without NaN, whose computation is off the critical path.
func (g *gen) losesNaN(op expr.Op, d tensor.DType) bool {
	return g.avx512 && d.IsFloat() && (op == expr.Min || op == expr.Max)
}

// foldInto folds value v into the register of acc. ordered is the mask of lanes without NaN, or 0. The comparison for
// this mask is masked by the old mask, so a cleared lane stays cleared.
func (g *gen) foldInto(op expr.Op, acc, ordered val, v *lowered) {
	if ordered != 0 {
		l := laneSize(v.dtype)
		g.body = append(g.body, inst{name: "VCMP" + floatSuffix(l), src: []arg{{imm: 7}, {v: v.reg}, {v: v.reg}},
			mask: ordered, dst: ordered, memSource: -1},
			inst{name: extremumName(op, l), src: sources(v.reg, acc), dst: acc, memSource: 0, lane: uint8(l)})
		return
	}
	r := g.apply(op, v.dtype, &lowered{reg: acc, dtype: v.dtype}, v)
	if last := len(g.body) - 1; last >= 0 && g.body[last].dst == r.reg {
		g.body[last].dst = acc
	} else {
		g.fail("a fold by %v", op)
	}
}

// prune removes instructions whose results are unused.
func (g *gen) prune() {
	live := make([]bool, len(g.vals))
	mark := func(in *inst) {
		for _, s := range in.src {
			live[s.v] = true
		}
		live[in.tied], live[in.mask] = true, true
	}
	for _, list := range [][]inst{g.stores, g.foldInsts[foldsInRegisters], g.foldInsts[foldsInMemory],
		g.foldInsts[foldsInTail], g.accLoadInsts, g.accStoreInsts} {
		for k := range list {
			mark(&list[k])
		}
	}
	sweep := func(list []inst) []inst {
		keep := make([]bool, len(list))
		n := 0
		for k := len(list) - 1; k >= 0; k-- {
			if live[list[k].dst] || list[k].store != nil {
				mark(&list[k])
				keep[k] = true
				n++
			}
		}
		out := make([]inst, 0, n)
		for k, in := range list {
			if keep[k] {
				out = append(out, in)
			}
		}
		return out
	}
	live[0] = false
	g.body = sweep(g.body)
	g.rowInsts = sweep(g.rowInsts)
}
