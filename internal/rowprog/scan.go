package rowprog

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/interrupt"
)

// scan is the scan of a stored row, such as a running sum. It runs in place after the pass that stores the row.
type scan struct {
	row     int // the object with the elements of the row
	carry   int // the object with the running result of each row
	scanner *expr.Scanner
}

// compileScans adds the scans of a pass.
func (b *builder) compileScans(rowPass *expr.RowPass, pass *compiledPass) {
	for _, q := range rowPass.Out {
		if q.Kind != expr.AtRow || b.program.Rows[q.N].Scan == expr.Invalid {
			continue
		}
		r := b.program.Rows[q.N]
		sc := scan{row: b.rowObjects[q.N], scanner: expr.Scanning(r.Scan, r.DType)}
		sc.carry = b.perRowMemory(sc.scanner.Carry)
		pass.scans = append(pass.scans, sc)
	}
}

// scanCheckElements is the number of elements scanned between two checks of the context.
const scanCheckElements = 1 << 16

// runScans scans the rows that a pass has written for a tile. A program with scans has one reduced axis.
func (p *Plan) runScans(s *State, t tile, pass *compiledPass) {
	for _, sc := range pass.scans {
		row, carry := &p.objects[sc.row], s.tileBase[sc.carry]
		sc.scanner.Begin(carry, t.positions)
		n, rows := p.reduced[0].length, s.tileBase[sc.row]
		if p.alongColumns {
			for i := range n {
				if i%scanCheckElements == scanCheckElements-1 {
					interrupt.Check(s.Context)
				}
				x := unsafe.Add(rows, i*row.reducedStrides[0])
				sc.scanner.Columns(carry, x, x, t.positions)
			}
			continue
		}
		for i := range t.positions {
			x := unsafe.Add(rows, i*row.keptStride)
			for begin := 0; begin < n; begin += scanCheckElements {
				if begin > 0 {
					interrupt.Check(s.Context)
				}
				first := unsafe.Add(x, begin*row.reducedStrides[0])
				sc.scanner.Row(unsafe.Add(carry, i*sc.scanner.Carry), first, first, min(scanCheckElements, n-begin))
			}
		}
	}
}

// isSinglePass reports whether the program processes each element only once: in one pass, without scans.
func (p *Plan) isSinglePass() bool { return len(p.program.Passes) == 1 && !p.program.Scans() }
