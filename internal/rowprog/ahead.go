package rowprog

import (
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
)

// How far ahead memory is asked for, by loops over one sweep and by those over all at once. With 8192 a sum of 64
// MiB along rows takes 1.4 ms instead of 1.8 (Zen 5), with 4096 or 32768 it takes 1.6; softmax of as many 3.5 with
// 16384, 3.7 with 8192, and 4.4 with 4096.
const (
	aheadOne = 8192
	aheadAll = 16384
	// aheadShare is how many times as much must be read in order, so that little is asked for in vain behind the
	// end.
	aheadShare = 8
)

// aheadOf has a loop ask for what it will read of operands, of each so many bytes ahead: in memory where rows of
// the loop, so many of which go together, follow one another or are long, else in those of its rows to come.
// Columns want it in the nearest cache (1.7 ms instead of 2 for 64 MiB), where rows are read as fast from the next
// one.
func (b *builder) aheadOf(in []expr.Place, which func(q expr.Place) bool, together, bytes int) loops.Ahead {
	a := loops.Ahead{Near: b.columns}
	rows := 1 // that follow one another
	switch outer := b.outer(); {
	case outer == kept0:
		rows = b.kept[0].n
	case outer < len(b.red):
		rows = b.span(outer)
	}
	for n, q := range in {
		i := b.nouts + q.N
		if q.Kind != expr.AtOperand || !which(q) || b.ins[q.N] != i ||
			b.elements(i)*b.objects[i].size < machine.L2Bytes {
			continue
		}
		run, step := b.span(b.inner())*b.objects[i].size, b.objects[i].along(b.outer())
		d, all, need := bytes, run*rows, bytes
		if run < 2*bytes && run != step && step != 0 {
			next := together * max(1, bytes/run/together)
			d, all, need = next*step, rows, next
		}
		if all >= aheadShare*need && d == int(int32(d)) && (a.Operands == 0 || a.Bytes == int32(d)) {
			a.Operands, a.Bytes = a.Operands|1<<n, int32(d)
		}
	}
	return a
}

func every(expr.Place) bool { return true }

// ahead is what sweep k asks for. Of several sweeps it is the one that reads an operand again, and finds it in the
// cache, which asks for the operand's rows of the tile to come: memory is read while there is much to compute.
func (b *builder) ahead(k int, in []expr.Place) (a loops.Ahead) {
	switch {
	case len(b.s.Passes) == 1:
		return b.aheadOf(in, every, 1, aheadOne)
	case b.single && b.crowded(): // and k reads again what is in a cache, or a row that is put aside
		if k == 0 {
			a = b.aheadOf(in, every, 1, aheadOne)
			a.Near = true
		}
		return a
	}
	if !b.single || b.pieces == 1 || k != 1 {
		return a
	}
	for n, q := range in {
		if q.Kind != expr.AtOperand || b.ins[q.N] != b.nouts+q.N || !slices.Contains(b.s.Passes[0].In, q) {
			continue
		}
		if d := b.tile * b.kept[0].step[b.nouts+q.N]; d != 0 && d == int(int32(d)) {
			a = loops.Ahead{Operands: 1 << n, Bytes: int32(d)}
		}
	}
	return a
}
