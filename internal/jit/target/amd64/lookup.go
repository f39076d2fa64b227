package amd64

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/internal/jit/target/amd64/asm"
)

// tableRows is a pseudo-instruction that loads two rows of a combined table into the lower and the upper half of the
// result. Lanes k and k+4 of the first source are the byte offsets of the rows. The other sources are k and the index
// of the combined table in gen.tables.
const tableRows = "rows"

// Up to rowTables tables that are looked up with the same indices are combined into one table. Row i of the combined
// table has entry i of each table.
const (
	rowTables = 4
	rowBytes  = 4 * rowTables
	regTable  = regDoubleIndex // address of the table; regDoubleIndex is free, because no element has 16 bytes
)

// lookupKey identifies the lookup of a table.
type lookupKey struct {
	table   *[32]float32
	indices alloc.Virt // the lanes are the indices into the table
}

// lookupOf selects instructions for a Lookup. With AVX2, a table of 32 entries needs three blends and four
// permutations, which all use the same execution port. If several tables have the same indices, as in a piecewise
// polynomial, the code instead loads rows of four tables and transposes them, which takes three quarters of the time.
func (g *gen) lookupOf(inst *lane.Inst) alloc.Virt {
	indices := g.selectedValue(inst.A).reg
	if found, ok := g.lookups[lookupKey{inst.Table, indices}]; ok {
		return found
	}
	if !g.avx512 && !g.has64Bits { // vectors have eight 32-bit lanes
		if tables := g.loop.Tables(inst, rowTables, isLong); len(tables) > 1 {
			g.lookupRows(tables, indices)
			return g.lookups[lookupKey{inst.Table, indices}]
		}
	}
	return g.lookup(inst.Table[:], indices)
}

// isLong reports whether the two halves of a table differ. Otherwise its lookup is short.
func isLong(table *[32]float32) bool {
	return !slices.Equal(table[:len(table)/2], table[len(table)/2:])
}

// lookupRows selects instructions for several lookups with the same indices. The instructions load rows of four lanes
// and transpose them.
func (g *gen) lookupRows(group []*[32]float32, indices alloc.Virt) {
	data := make([]byte, rowBytes*len(group[0]))
	for k, entries := range group {
		for n, entry := range entries {
			binary.LittleEndian.PutUint32(data[rowBytes*n+4*k:], math.Float32bits(entry))
		}
	}
	offsets, table := g.rowOffsets(indices), len(g.tables)
	g.tables = append(g.tables, string(data))
	var rows [4]alloc.Virt
	for k := range rows {
		rows[k] = g.Add(alloc.Inst{Name: tableRows, Src: []alloc.Arg{{Virt: offsets}, {Imm: int64(k)}, {Imm: int64(table)}},
			Dst: g.newVector(32), FoldableSource: noFoldableSource, TempSlot: true, InstructionCount: 6})
	}
	// rows[k] has the row of lane k in its lower half, and that of lane k+4 in its upper half. In each half, the four
	// rows are transposed: the unpack instructions pair the entries of two tables, and VSHUFPS joins the pairs of one
	// table.
	for k, unpack := range []string{"VUNPCKLPS", "VUNPCKHPS"} {
		if 2*k >= len(group) { // there are no tables 2*k and 2*k+1
			break
		}
		a, b := g.binaryOp(unpack, noBroadcast, rows[1], rows[0]), g.binaryOp(unpack, noBroadcast, rows[3], rows[2])
		for n, imm := range []int64{0x44, 0xEE} { // the low pairs of a and b, and the high pairs
			if column := 2*k + n; column < len(group) {
				g.lookups[lookupKey{group[column], indices}] = g.shuffle("VSHUFPS", imm, b, a)
			}
		}
	}
}

// rowOffsets returns the byte offsets of rows of a combined table. The lowest 5 bits of the lanes of `indices` are the
// indices of the rows.
func (g *gen) rowOffsets(indices alloc.Virt) alloc.Virt {
	offsets, ok := g.tableOffsets[indices]
	if !ok {
		const (
			unusedBits  = 32 - 5 // bits of a lane above the index
			rowBytesLog = 4      // rowBytes is 2^4
		)
		offsets = g.immediateOp("VPSRLD", unusedBits-rowBytesLog, g.immediateOp("VPSLLD", unusedBits, indices))
		g.tableOffsets[indices] = offsets
	}
	return offsets
}

// writeTableRows writes the instructions of tableRows. args are its sources, a temporary slot, and the result. The code
// moves the offsets to a general register through the slot.
func (g *gen) writeTableRows(args []asm.Arg) {
	emit := g.asm.Emit
	lane, table, slot, dst := args[1].(asm.Imm), args[2].(asm.Imm), args[3].(asm.Mem), args[4].(asm.Vec)
	emit("VMOVUPS", args[0], slot)
	emit("LEAQ", g.asm.Constant([]byte(g.tables[table])), regTable)
	row := asm.Mem{Base: regTable, Index: regTemp, Scale: 1}
	slot.Disp += int32(4 * lane)
	emit("MOVL", slot, regTemp)
	emit("VMOVUPS", row, dst.X())
	slot.Disp += 16
	emit("MOVL", slot, regTemp)
	emit("VINSERTF128", asm.Imm(1), row, dst, dst)
}
