package vector

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/jit/asm"
)

// tableRows is a pseudo-instruction that loads two rows of a table, selected by lanes k and k+4 of the first source,
// into the lower and upper half of the result.
const tableRows = "rows"

// Several tables with the same index are combined into one table with rows of rowTables numbers.
const (
	rowTables = 4
	rowBytes  = 4 * rowTables
	regTable  = regTwice // address of the table; this is free, because no element of 16 bytes has as many lanes
)

// lookedUp identifies the lookup of a table by the lanes of a value.
type lookedUp struct {
	table uint64
	at    val
}

// lookupOf selects elements of a table. With AVX2 a table of 32 takes four permutations, all on one port, and three
// blends. If several tables have the same index, as in a piecewise polynomial, rows of four tables are loaded and
// transposed instead, in three quarters of the time.
func (g *gen) lookupOf(i expr.Inst) val {
	at := g.get(i.A).v
	if v, ok := g.looked[lookedUp{i.Imm, at}]; ok {
		return v
	}
	table := i.Table()
	if group := g.lookedUpTogether(i); len(group) > 1 {
		g.lookupRows(group, at)
		return g.looked[lookedUp{i.Imm, at}]
	}
	return g.lookup(table[:], at)
}

// lookedUpTogether returns the lookups that are combined with i by rows.
func (g *gen) lookedUpTogether(i expr.Inst) []expr.Inst {
	if g.z || g.wide || g.width(4) != 32 {
		return nil
	}
	group := []expr.Inst{i}
	for _, x := range g.code.Insts {
		table, half := x.Table(), len(x.Table())/2
		_, known := g.looked[lookedUp{x.Imm, g.get(i.A).v}]
		if x.Op == expr.Lookup && x.A == i.A && !known && !slices.Equal(table[:half], table[half:]) &&
			!slices.Contains(group, x) && len(group) < rowTables {
			group = append(group, x)
		}
	}
	if table := i.Table(); slices.Equal(table[:len(table)/2], table[len(table)/2:]) {
		return nil
	}
	return group
}

// lookupRows performs several lookups: rows of four lanes become columns.
func (g *gen) lookupRows(group []expr.Inst, at val) {
	data := make([]byte, rowBytes*len(group[0].Table()))
	for k, i := range group {
		for n, x := range i.Table() {
			binary.LittleEndian.PutUint32(data[rowBytes*n+4*k:], math.Float32bits(x))
		}
	}
	bytes := g.rowOffsets(at)
	var r [4]val
	for k := range r {
		r[k] = g.add(inst{name: tableRows, src: []arg{{v: bytes}, {imm: int64(k)}}, dst: g.newVal(value{w: 32}), rm: -1,
			table: string(data)})
	}
	for k, unpack := range []string{"VUNPCKLPS", "VUNPCKHPS"} {
		if 2*k >= len(group) {
			break
		}
		a, b := g.op2(unpack, 0, r[1], r[0]), g.op2(unpack, 0, r[3], r[2])
		for n, imm := range []int64{0x44, 0xEE} {
			if c := 2*k + n; c < len(group) {
				g.looked[lookedUp{group[c].Imm, at}] = g.shuffle("VSHUFPS", imm, b, a)
			}
		}
	}
}

// rowOffsets returns the byte offsets of rows, from the lowest 5 bits of lanes.
func (g *gen) rowOffsets(at val) val {
	v, ok := g.offsets[at]
	if !ok {
		v = g.imm1("VPSRLD", 27-4, g.imm1("VPSLLD", 27, at))
		g.offsets[at] = v
	}
	return v
}

// rows places a tableRows pseudo-instruction: offsets reach general registers through memory.
func (a *allocator) rows(in *inst) {
	slot := a.newSlot()
	a.freed = append(a.freed, slot)
	a.put("VMOVUPS", a.operand(in.src[0]), memory{kind: inSlot, n: int(slot)})
	dst := a.result(in).(asm.Vec)
	offset := func(lane int64) memory { return memory{kind: inSlot, n: int(slot), off: int32(4 * lane)} }
	row := asm.Mem{Base: regTable, Index: regTemp, Scale: 1}
	k := in.src[1].imm
	a.put("LEAQ", memory{kind: inConstant, data: in.table}, regTable)
	a.put("MOVL", offset(k), regTemp)
	a.put("VMOVUPS", row, dst.X())
	a.put("MOVL", offset(k+4), regTemp)
	a.put("VINSERTF128", asm.Imm(1), row, dst, dst)
	a.finish(in)
}
