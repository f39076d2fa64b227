package writer

import (
	"encoding/binary"

	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/jit/target/amd64/asm"
)

// Tiles is the number of tile registers of the matrix unit (AMX).
const Tiles = 8

// Tile is a tile register, from 0.
type Tile = asm.Tile

// TileShape is the size of the part of a tile register that instructions use.
type TileShape struct{ Rows, RowBytes int }

// ConfigureTiles sets the shapes of the tile registers. LDTILECFG defines the offsets in the configuration.
func (w *Writer) ConfigureTiles(shapes [Tiles]TileShape) {
	config := make([]byte, 64)
	config[0] = 1 // the palette, which is always 1
	for tile, shape := range shapes {
		binary.LittleEndian.PutUint16(config[16+2*tile:], uint16(shape.RowBytes))
		config[48+tile] = byte(shape.Rows)
	}
	w.Emit("LDTILECFG", w.Constant(config))
}

// ReleaseTiles frees the tile registers, at the end of the code.
func (w *Writer) ReleaseTiles() { w.Emit("TILERELEASE") }

// ClearTile sets a tile register to 0.
func (w *Writer) ClearTile(to Tile) { w.Emit("TILEZERO", to) }

// LoadTile loads the rows of a tile register. The index register of the address has the distance between rows in bytes.
// Without an index register, all rows are loaded from the same address.
func (w *Writer) LoadTile(addr target.Addr, to Tile) { w.Emit("TILELOADD", Mem(addr), to) }

// StoreTile stores the rows of a tile register. The index register of the address has the distance between rows in
// bytes.
func (w *Writer) StoreTile(from Tile, addr target.Addr) { w.Emit("TILESTORED", from, Mem(addr)) }

// DotTiles adds the product of x and y to sum. x has unsigned bytes, y signed bytes, and sum has int32. Row k of y has
// four bytes for each column of the sum. They are multiplied by the bytes 4k to 4k+3 of a row of x.
func (w *Writer) DotTiles(x, y, sum Tile) { w.Emit("TDPBUSD", y, x, sum) }

// MoveDistance sets a register to a constant. In contrast to the constant of [Writer.Move], it may be negative.
func (w *Writer) MoveDistance(n int, to target.GReg) { w.Emit("MOVQ", asm.Imm(n), Reg(to)) }
