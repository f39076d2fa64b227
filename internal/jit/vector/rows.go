package vector

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/jit/asm"
)

// tableRows is a pseudo-instruction that loads two rows of a table into the lower and the upper half of the result.
// Lanes k and k+4 of the first source are the byte offsets of the rows. The second source is k.
const tableRows = "rows"

// Up to rowTables tables with the same index are combined into one table. Row i of the combined table has entry i of
// each table.
const (
	rowTables = 4
	rowBytes  = 4 * rowTables
	regTable  = regDoubleIndex // address of the table; regDoubleIndex is free: no element has 16 bytes
)

// lookupKey identifies the lookup of a table.
type lookupKey struct {
	table   uint64 // number of the table
	indices val    // the lanes are the indices
}

// lookupOf selects instructions for a Lookup. With AVX2, a table of 32 entries needs three blends and four
// permutations, which all use the same port. If several tables have the same index, as in a piecewise polynomial,
// lookupOf loads rows of four tables and transposes them instead. This takes three quarters of the time.
func (g *gen) lookupOf(i expr.Inst) val {
	at := g.selectedValue(i.A).reg
	if v, ok := g.lookups[lookupKey{i.Imm, at}]; ok {
		return v
	}
	table := i.Table()
	if group := g.lookedUpTogether(i); len(group) > 1 {
		g.lookupRows(group, at)
		return g.lookups[lookupKey{i.Imm, at}]
	}
	return g.lookup(table[:], at)
}

// lookedUpTogether returns i and the lookups with the same index that are combined with i, or nil if i is not combined.
func (g *gen) lookedUpTogether(i expr.Inst) []expr.Inst {
	if g.avx512 || g.has64Bits || g.width(4) != 32 {
		return nil
	}
	group := []expr.Inst{i}
	for _, x := range g.code.Insts {
		table, half := x.Table(), len(x.Table())/2
		_, known := g.lookups[lookupKey{x.Imm, g.selectedValue(i.A).reg}]
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

// lookupRows selects instructions for several lookups with the indices at. The instructions load rows of four lanes and
// transpose them.
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
		r[k] = g.add(inst{name: tableRows, src: []arg{{v: bytes}, {imm: int64(k)}}, dst: g.newVal(value{bytes: 32}),
			memSource: -1, table: string(data)})
	}
	for k, unpack := range []string{"VUNPCKLPS", "VUNPCKHPS"} {
		if 2*k >= len(group) {
			break
		}
		a, b := g.binaryOp(unpack, 0, r[1], r[0]), g.binaryOp(unpack, 0, r[3], r[2])
		for n, imm := range []int64{0x44, 0xEE} {
			if c := 2*k + n; c < len(group) {
				g.lookups[lookupKey{group[c].Imm, at}] = g.shuffle("VSHUFPS", imm, b, a)
			}
		}
	}
}

// rowOffsets returns the byte offsets of the rows whose indices are the lowest 5 bits of the lanes of at.
func (g *gen) rowOffsets(at val) val {
	v, ok := g.offsets[at]
	if !ok {
		v = g.immediateOp("VPSRLD", 27-4, g.immediateOp("VPSLLD", 27, at))
		g.offsets[at] = v
	}
	return v
}

// allocateTableRows adds the instructions of tableRows. Offsets are moved to general registers through memory.
func (a *allocator) allocateTableRows(in *inst) {
	slot := a.newSlot()
	a.freedSlots = append(a.freedSlots, slot)
	a.put("VMOVUPS", a.operand(in.src[0]), memory{kind: inSlot, index: int(slot)})
	dst := a.result(in).(asm.Vec)
	offset := func(lane int64) memory { return memory{kind: inSlot, index: int(slot), offset: int32(4 * lane)} }
	row := asm.Mem{Base: regTable, Index: regTemp, Scale: 1}
	k := in.src[1].imm
	a.put("LEAQ", memory{kind: inConstant, data: in.table}, regTable)
	a.put("MOVL", offset(k), regTemp)
	a.put("VMOVUPS", row, dst.X())
	a.put("MOVL", offset(k+4), regTemp)
	a.put("VINSERTF128", asm.Imm(1), row, dst, dst)
	a.finish(in)
}
