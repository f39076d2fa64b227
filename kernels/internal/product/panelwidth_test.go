package product

import (
	"testing"

	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// TestPanelsDoNotDependOnRows compares the panels of a constant matrix for adjacent and for strided rows of the other
// operand. The panels must be equal, because the matrix is packed before the layout of the rows is known.
func TestPanelsDoNotDependOnRows(t *testing.T) {
	formats := map[string]bool{}
	for _, rows := range [][2]int{{2, 20}, {20, 2}, {1, 40}, {13, 5}, {7, 7}, {64, 3}, {3, 64}, {29, 1}, {200, 9}} {
		want := ""
		for i, apart := range [][2]int{{rows[1] * 128, 128}, {128, rows[0] * 128}, {rows[1] * 512, 512}, {1 << 20, 1 << 14}} {
			x := &contraction{batch: []int{rows[0]}, m: rows[1], n: 128, k: 128,
				a: matrixStrides{batch: []int{apart[0]}, row: apart[1], col: 1},
				b: matrixStrides{batch: []int{0}, row: 1, col: 128},
				c: matrixStrides{batch: []int{apart[0]}, row: apart[1], col: 1}}
			x.mergeBatch()
			p := x.panelsOfB(tensor.Float32, 0)
			format := "none"
			if p != nil {
				format = p.Format
			}
			if i == 0 {
				want = format
			}
			if format != want && min(rows[0], rows[1]) > multiply.MaxThin {
				t.Errorf("%d by %d rows, %v apart: %s, but %s for adjacent rows", rows[0], rows[1], apart, format, want)
			}
			formats[format] = true
		}
	}
	if len(formats) < 2 {
		t.Errorf("all panels are %v", formats)
	}
}
