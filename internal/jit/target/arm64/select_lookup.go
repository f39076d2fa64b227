package arm64

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/lane"
)

// This file selects instructions for lookups in tables of 32 float32. A table that repeats itself after at most
// maxPermuted entries is in registers, which tbl indexes by bytes (permute). Entries of other tables are loaded from
// memory, one lane after another. If several tables have the same indices, one load fetches an entry of each table
// (lookupRows). The lanes of a value may fill several registers, its parts.

// lookupKey identifies the lookup of a table.
type lookupKey struct {
	table   *[32]float32
	indices lane.Value
}

// indexKey identifies a result of tableIndices.
type indexKey struct {
	entries int
	indices lane.Value
}

// maxCombined is the maximum number of tables with the same indices that are combined into one table. Row i of the
// combined table has entry i of each table, and is loaded into one register.
const maxCombined = 4

// maxPermuted is the maximum period of a table that is in registers.
const maxPermuted = 8

// laneBytes is the size of a lane: an entry of a table, or an index.
const laneBytes = 4

// lookup selects instructions that look up entries of a table. The lowest 5 bits of each lane are its index.
func (s *selector) lookup(inst *lane.Inst) []alloc.Virt {
	key := lookupKey{inst.Table, inst.A}
	if found, ok := s.lookups[key]; ok {
		return found
	}
	if entries := period(inst.Table); entries <= maxPermuted {
		s.lookups[key] = s.permute(inst.Table[:entries], inst.A)
	} else { // with the other long tables that the loop looks up at the same indices
		s.lookupRows(s.loop.Tables(inst, maxCombined, isLong), inst.A)
	}
	return s.lookups[key]
}

// period returns the number of entries after which a table repeats itself: a power of two of at least 4.
func period(table *[32]float32) int {
	entries := len(table)
	for entries > 4 && slices.Equal(table[:entries/2], table[entries/2:entries]) {
		entries /= 2
	}
	return entries
}

// isLong reports whether a table is too large for permute.
func isLong(table *[32]float32) bool { return period(table) > maxPermuted }

// tableBytes returns the bytes of entries in memory.
func tableBytes(entries []float32) string {
	var data []byte
	for _, entry := range entries {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(entry))
	}
	return string(data)
}

// permute selects instructions that look up entries of a table of 4 or 8 entries. The table is in one or two registers,
// which tbl and tbx index by bytes.
func (s *selector) permute(table []float32, indices lane.Value) []alloc.Virt {
	index := s.tableIndices(len(table), indices)
	return s.makeParts(laneBytes, func(p int) alloc.Virt {
		found := s.op("tbl", "16b {16b} 16b", s.constantBytes(tableBytes(table[:4])), index[p])
		if len(table) > 4 {
			// Byte 16 of the table is byte 0 of the second register. Indices below 16 wrap around and are out of range.
			// For these, tbx keeps the bytes of found.
			second := s.op("sub", "16b", index[p], s.constant(1, vectorBytes)) // each byte minus 16
			found = s.tiedOp("tbx", "16b {16b} 16b", found, s.constantBytes(tableBytes(table[4:])), second)
		}
		return found
	})
}

// tableIndices returns byte indices for a table of n entries. A lane with index e has the indices of the four bytes of
// entry e: 4*e to 4*e + 3.
func (s *selector) tableIndices(n int, indices lane.Value) []alloc.Virt {
	key := indexKey{n, indices}
	if s.byteIndices[key] == nil {
		s.byteIndices[key] = s.makeParts(laneBytes, func(p int) alloc.Virt {
			entry := s.bitwise("and", s.part(indices, p), s.constant(laneBytes, uint64(n-1)))
			// Byte k of a lane is 4*entry + k.
			return s.tiedOp("mla", "4s", s.constant(laneBytes, 0x03020100), entry, s.constant(laneBytes, 0x04040404))
		})
	}
	return s.byteIndices[key]
}

// lookupRows selects instructions for lookups with the same indices, and adds their results to lookups. The
// instructions load a row of the combined table (see maxCombined) for each lane, and transpose the rows.
func (s *selector) lookupRows(tables []*[32]float32, indices lane.Value) {
	combined, rowBytes := combineTables(tables)
	columns := make([][]alloc.Virt, len(tables))
	for p := range s.partCount(laneBytes) {
		rows := s.loadRows(combined, rowBytes, s.part(indices, p))
		for k, column := range s.transposeRows(rows, len(tables)) {
			columns[k] = append(columns[k], column)
		}
	}
	for k, table := range tables {
		s.lookups[lookupKey{table, indices}] = columns[k]
	}
}

// combineTables returns the contents of the combined table, and the number of bytes of a row. The number of entries of
// a row is len(tables), rounded up to a power of two.
func combineTables(tables []*[32]float32) (combined string, rowBytes int) {
	rowEntries := 1
	for rowEntries < len(tables) {
		rowEntries *= 2
	}
	entries := make([]float32, rowEntries*32)
	for k, table := range tables {
		for row, entry := range table {
			entries[rowEntries*row+k] = entry
		}
	}
	return tableBytes(entries), 4 * rowEntries
}

// loadRows selects instructions that load, for each of four lanes, the row of the combined table with the index in this
// lane.
func (s *selector) loadRows(combined string, rowBytes int, indices alloc.Virt) (rows [4]alloc.Virt) {
	const unusedBits = 32 - 5 // bits of a lane above the index
	// The two shifts compute (index modulo 32) times rowBytes.
	shifted := s.immediateOp("shl", "4s", indices, unusedBits)
	offsets := s.immediateOp("ushr", "4s", shifted, int64(unusedBits-bits.TrailingZeros(uint(rowBytes))))
	for k := range rows {
		// tableRow is a pseudo-instruction of 3 instructions. Its name has the size of a row and the table's bytes.
		rows[k] = s.add(alloc.Inst{Name: tableRow + " " + registerLetter[rowBytes] + " " + combined,
			InstructionCount: 3, Src: []alloc.Arg{{Virt: offsets}, {Imm: int64(k)}}})
	}
	return rows
}

// transposeRows selects instructions that transpose four rows. Column k has entry k of each row.
func (s *selector) transposeRows(rows [4]alloc.Virt, columnCount int) (columns []alloc.Virt) {
	for k, zip := range []string{"zip1", "zip2"} { // columns 2*k and 2*k+1
		if 2*k >= columnCount {
			break
		}
		// Let r0 to r3 be the rows. For k = 0, a is r0[0] r2[0] r0[1] r2[1], and b is r1[0] r3[0] r1[1] r3[1].
		a, b := s.op(zip, "4s", rows[0], rows[2]), s.op(zip, "4s", rows[1], rows[3])
		columns = append(columns, s.op("zip1", "4s", a, b))
		if 2*k+1 < columnCount {
			columns = append(columns, s.op("zip2", "4s", a, b))
		}
	}
	return columns
}
