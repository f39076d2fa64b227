package amd64

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/target/amd64/asm"
	"github.com/graphrun/graphrun/internal/lane"
)

// This file selects instructions for lookups in tables of 32 float32, in one of two ways: by permutations of vectors
// that contain the table (g.lookup), or by loads of rows (lookupRows). Up to rowTables tables that are looked up with
// the same indices are combined into one table. Row i of the combined table has entry i of each table:
//
//	row 0    a[0]  b[0]  c[0]  ...
//	row 1    a[1]  b[1]  c[1]  ...
//	...
//	row 31   a[31] b[31] c[31] ...
//
// A lookup with eight indices loads eight rows and transposes them, which gives eight entries of a, eight entries of b,
// and so on.

const (
	rowTables = 8              // maximum number of tables that are combined
	rowBytes  = 4 * rowTables  // size of a row; with fewer tables, the last bytes are unused
	regTable  = regDoubleIndex // address of the table; regDoubleIndex is free, because no element has 16 bytes
)

// loadTableRow is a pseudo-instruction that loads a row of a combined table. It has three sources: a vector of the byte
// offsets of four rows, the lane k of this vector, and the index of the combined table in generator.tables. It loads
// the row whose offset is in lane k.
const loadTableRow = "row"

// lookupKey identifies the lookup of a table.
type lookupKey struct {
	table   *[32]float32
	indices alloc.Virt // the lanes are the indices into the table
}

// selectLookup selects instructions for a Lookup. With AVX2, a table of 32 entries needs three blends and four
// permutations. If several tables have the same indices, as in a piecewise polynomial, the code instead loads a row of
// all tables for each lane and transposes the rows, which takes half of the time for six tables (Zen 3).
func (g *generator) selectLookup(inst *lane.Inst) alloc.Virt {
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

// isLong reports whether the two halves of a table differ. Otherwise g.lookup uses only the first half, which takes
// half of the permutations.
func isLong(table *[32]float32) bool {
	return !slices.Equal(table[:len(table)/2], table[len(table)/2:])
}

// lookup selects instructions that look up entries of a table, whose length is a power of two. The lowest bits of the
// lanes of `indices` are the indices. If the two halves of a table are equal, only the first half is used. If a table
// is too large for one instruction, entries of both halves are looked up, and the highest bit of the index selects one.
func (g *generator) lookup(table []float32, indices alloc.Virt) alloc.Virt {
	lanes, half := int(g.width(4))/4, len(table)/2
	switch {
	case len(table) == lanes: // one vector has the table
		if lanes == 4 { // VPERMPS needs eight lanes
			return g.binaryOp("VPERMILPS", noBroadcast, indices, g.float32Vector(table))
		}
		return g.binaryOp("VPERMPS", noBroadcast, g.float32Vector(table), indices)
	case slices.Equal(table[:half], table[half:]):
		return g.lookup(table[:half], indices)
	case len(table) == 2*lanes && g.avx512: // two vectors have the table
		return g.permute2By(g.float32Vector(table[:half]), g.float32Vector(table[half:]), indices, 4)
	}
	low, high := g.lookup(table[:half], indices), g.lookup(table[half:], indices) // they ignore the highest bit
	return g.blend(4, g.bitMask(indices, half), high, low)
}

// float32Vector returns a constant vector.
func (g *generator) float32Vector(lanes []float32) alloc.Virt {
	var data []byte
	for _, x := range lanes {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}
	return g.constantVector(data)
}

// bitKey identifies a mask of bitMask.
type bitKey struct {
	value alloc.Virt
	bit   int // a power of two
}

// bitMask returns the mask of the lanes of `indices` in which a bit is set. The argument `bit` is the value of this
// bit, a power of two.
func (g *generator) bitMask(indices alloc.Virt, bit int) alloc.Virt {
	key := bitKey{indices, bit}
	mask, ok := g.bitMasks[key]
	if !ok {
		if g.avx512 {
			mask = g.Add(alloc.Inst{Name: "VPTESTMD", Src: alloc.Sources(g.constLanes(4, uint64(bit)), indices),
				Dst: g.New(g.boolRegister()), FoldableSource: noFoldableSource})
		} else {
			toSignBit := int64(bits.LeadingZeros32(uint32(bit))) // blend reads the sign bit only
			mask = g.immediateOp("VPSLLD", toSignBit, indices)
		}
		g.bitMasks[key] = mask
	}
	return mask
}

// lookupRows selects instructions for several lookups with the same indices, and adds their results to g.lookups.
// Sources are in the order of Go's assembler: the last one is the first one of Intel's manual.
func (g *generator) lookupRows(group []*[32]float32, indices alloc.Virt) {
	quads := g.loadQuads(group, indices)
	// In each half, the four quads are transposed. For the tables a and b, the lower halves are:
	//	pairs01  = a[0] a[1] b[0] b[1]
	//	pairs23  = a[2] a[3] b[2] b[3]
	//	result a = a[0] a[1] a[2] a[3]
	// VUNPCKLPS pairs the entries of the tables a and b (or e and f), and VUNPCKHPS of c and d (or g and h).
	for column := 0; column < len(group); column += 2 {
		unpack, quad := "VUNPCKLPS", quads[column/4]
		if column%4 == 2 {
			unpack = "VUNPCKHPS"
		}
		pairs01 := g.binaryOp(unpack, noBroadcast, quad[1], quad[0])
		pairs23 := g.binaryOp(unpack, noBroadcast, quad[3], quad[2])
		const lowPairs, highPairs = 0x44, 0xEE
		for n, imm := range []int64{lowPairs, highPairs} {
			if column+n < len(group) {
				g.lookups[lookupKey{group[column+n], indices}] = g.shuffle("VSHUFPS", imm, pairs23, pairs01)
			}
		}
	}
}

// loadQuads selects instructions that load a row of the combined table of a group for each of eight lanes. a[i] to h[i]
// are the entries of the row of lane i, and | separates the halves of a register:
//
//	quads[0][k] = a[k] b[k] c[k] d[k] | a[k+4] b[k+4] c[k+4] d[k+4]
//	quads[1][k] = e[k] f[k] g[k] h[k] | e[k+4] f[k+4] g[k+4] h[k+4]   (only if the group has more than four tables)
func (g *generator) loadQuads(group []*[32]float32, indices alloc.Virt) (quads [2][4]alloc.Virt) {
	offsets, table := g.rowOffsets(indices), len(g.tables) // table: the index in g.tables
	g.tables = append(g.tables, combinedTable(group))
	halves := [2]alloc.Virt{offsets, g.upperHalf(offsets)} // the offsets of lanes 0 to 3, and of lanes 4 to 7
	for k := range 4 {
		var rows [2]alloc.Virt // of lanes k and k+4
		for half := range rows {
			rows[half] = g.Add(alloc.Inst{Name: loadTableRow, Src: []alloc.Arg{{Virt: halves[half]}, {Imm: int64(k)},
				{Imm: int64(table)}}, Dst: g.newVector(32), FoldableSource: noFoldableSource, InstructionCount: 3})
		}
		const lowHalves, highHalves = 0x20, 0x31
		quads[0][k] = g.shuffle("VPERM2F128", lowHalves, rows[1], rows[0])
		if len(group) > 4 {
			quads[1][k] = g.shuffle("VPERM2F128", highHalves, rows[1], rows[0])
		}
	}
	return quads
}

// combinedTable returns the contents of the combined table of several tables.
func combinedTable(group []*[32]float32) string {
	data := make([]byte, rowBytes*len(group[0]))
	for k, entries := range group {
		for row, entry := range entries {
			binary.LittleEndian.PutUint32(data[rowBytes*row+4*k:], math.Float32bits(entry))
		}
	}
	return string(data)
}

// rowOffsets returns the byte offsets of rows of a combined table. The lowest 5 bits of the lanes of `indices` are the
// indices of the rows.
func (g *generator) rowOffsets(indices alloc.Virt) alloc.Virt {
	offsets, ok := g.tableOffsets[indices]
	if !ok {
		const (
			unusedBits  = 32 - 5 // bits of a lane above the index
			rowBytesLog = 5      // rowBytes is 2^5
		)
		offsets = g.immediateOp("VPSRLD", unusedBits-rowBytesLog, g.immediateOp("VPSLLD", unusedBits, indices))
		g.tableOffsets[indices] = offsets
	}
	return offsets
}

// writeTableRow writes the instructions of loadTableRow. args are its sources and the result.
func (g *generator) writeTableRow(args []asm.Arg) {
	emit := g.asm.Emit
	offsets, laneNumber, table := args[0].(asm.Vec).X(), args[1].(asm.Imm), args[2].(asm.Imm)
	if laneNumber == 0 {
		emit("VMOVD", offsets, regTemp)
	} else {
		emit("VPEXTRD", laneNumber, offsets, regTemp)
	}
	emit("LEAQ", g.asm.Constant([]byte(g.tables[table])), regTable)
	emit("VMOVUPS", asm.Mem{Base: regTable, Index: regTemp, Scale: 1}, args[3])
}
