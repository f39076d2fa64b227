package rowprog

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/expr"
)

// FoldOrder identifies the order in which the elements of a row are folded. Equal rows have equal results, bit for bit,
// in two plans of a program whose orders are equal. The order depends on the direction of loops and on the parts of
// rows, and thus on the number of rows. The result is empty if no result depends on the order.
func (p *Plan) FoldOrder() string {
	sums := p.program.Scans()
	for i := range p.program.Passes {
		sums = sums || slices.ContainsFunc(p.program.Passes[i].Folds, func(fold expr.Fold) bool {
			return fold.Op == expr.Add || fold.Op == expr.Mul
		})
	}
	if !sums || p.rowLen <= 1 {
		return ""
	}
	var lengths []int
	for _, reduced := range p.reduced {
		lengths = append(lengths, reduced.length)
	}
	direction := "rows"
	if p.alongColumns {
		direction = fmt.Sprint("columns ", p.columnsPerRow)
	}
	return fmt.Sprint(direction, lengths, p.cutAxis, p.partLen)
}

// FoldOrder is [Plan.FoldOrder] for rows that are cut into pieces.
func (p *Pieces) FoldOrder() string {
	order := "pieces " + p.joinPlan.FoldOrder()
	for _, plan := range p.piecePlans {
		order += fmt.Sprint(" ", plan.rowLen, " ", plan.FoldOrder())
	}
	return order
}
