package rowprog

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/ends"
)

// scan is a row that is scanned in place when its sweep has ended: objects of its elements and of carries.
type scan struct {
	row, carry int
	by         *expr.Scanner
}

// scans prepares those of a sweep.
func (b *builder) scans(w *expr.RowPass, st *step) {
	for _, q := range w.Out {
		if q.Kind != expr.AtRow || b.s.Rows[q.N].Scan == expr.Invalid {
			continue
		}
		r := b.s.Rows[q.N]
		sc := scan{row: b.rows[q.N], by: expr.Scanning(r.Scan, r.DType)}
		sc.carry = b.number(sc.by.Carry)
		st.scans = append(st.scans, sc)
	}
}

// scanPiece is how many elements are scanned between two looks at the context.
const scanPiece = 1 << 16

// scanned scans the rows that a step has written over the tile, which are one axis long.
func (p *Plan) scanned(s *State, t tile, st *step) {
	for _, sc := range st.scans {
		row, carry := &p.objects[sc.row], s.base[sc.carry]
		sc.by.Begin(carry, t.n)
		n, at := p.red[0].n, s.base[sc.row]
		if p.columns {
			for i := range n {
				if i%scanPiece == scanPiece-1 {
					ends.Look(s.Context)
				}
				x := unsafe.Add(at, i*row.red[0])
				sc.by.Columns(carry, x, x, t.n)
			}
			continue
		}
		for i := range t.n {
			x := unsafe.Add(at, i*row.kept)
			for begin := 0; begin < n; begin += scanPiece {
				if begin > 0 {
					ends.Look(s.Context)
				}
				from := unsafe.Add(x, begin*row.red[0])
				sc.by.Row(unsafe.Add(carry, i*sc.by.Carry), from, from, min(scanPiece, n-begin))
			}
		}
	}
}

// once reports whether each element is gone over once.
func (p *Plan) once() bool { return len(p.s.Passes) == 1 && !p.s.Scans() }
