package rowprog

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/interrupt"
)

// scan is the scan of a stored row, such as a running sum. It runs in place after the pass that stores the row. An
// object is memory of a plan: an output, an operand or a buffer. It is identified by its index in Plan.objects.
type scan struct {
	rowObject   int // the object with the elements of the rows
	carryObject int // the object with the running result of each row
	scanner     *expr.Scanner
}

// compileScans adds a scan to a pass for each stored row (expr.AtRow) that the pass scans.
func (b *builder) compileScans(rowPass *expr.RowPass, pass *compiledPass) {
	for _, place := range rowPass.Out {
		if place.Kind != expr.AtRow || b.program.Rows[place.N].Scan == expr.Invalid {
			continue
		}
		row := b.program.Rows[place.N]
		rowScan := scan{rowObject: b.rowObjects[place.N], scanner: expr.Scanning(row.Scan, row.DType)}
		rowScan.carryObject = b.allocatePerRow(rowScan.scanner.Carry)
		pass.scans = append(pass.scans, rowScan)
	}
}

// scanCheckElements is the number of elements of a row that are scanned between two checks of the context.
const scanCheckElements = 1 << 16

// runScans scans the rows that a pass has written for a tile, in place. The tile has t.positions rows. A program with
// scans has one reduced axis, along the rows: p.reduced[0]. state.tileBase has the address of each object at the tile.
func (p *Plan) runScans(state *State, t tile, pass *compiledPass) {
	for _, rowScan := range pass.scans {
		row, carry := &p.objects[rowScan.rowObject], state.tileBase[rowScan.carryObject]
		rowScan.scanner.Begin(carry, t.positions)
		length, rows := p.reduced[0].length, state.tileBase[rowScan.rowObject]
		if p.alongColumns { // elements of different rows are contiguous: a step scans element i of all rows
			for i := range length {
				if i%scanCheckElements == scanCheckElements-1 {
					interrupt.Check(state.Context)
				}
				elements := unsafe.Add(rows, i*row.strides[firstReduced])
				rowScan.scanner.Columns(carry, elements, elements, t.positions) // in place: destination and source
			}
			continue
		}
		for i := range t.positions {
			elements := unsafe.Add(rows, i*row.strides[firstKept])
			for begin := 0; begin < length; begin += scanCheckElements {
				if begin > 0 {
					interrupt.Check(state.Context)
				}
				first := unsafe.Add(elements, begin*row.strides[firstReduced])
				rowScan.scanner.Row(unsafe.Add(carry, i*rowScan.scanner.Carry), first, first,
					min(scanCheckElements, length-begin))
			}
		}
	}
}

// isSinglePass reports whether the program processes each element only once: in one pass, without scans.
func (p *Plan) isSinglePass() bool { return len(p.program.Passes) == 1 && !p.program.Scans() }
