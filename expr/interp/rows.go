package interp

import "unsafe"

// Several short rows share a block. Their elements are contiguous in temporary blocks. Only the steps that access
// operands or outputs of the loop run row by row.

// addresses returns the addresses of the results and operands of a step, and the strides of their elements in bytes.
func (t *step) addresses() ([6]address, [6]int) {
	return [6]address{t.d, t.a, t.b, t.c, t.e, t.g}, [6]int{t.strides.d, t.strides.a, t.strides.b, t.strides.c,
		t.strides.e, t.strides.g}
}

// markOuter sets accessesRows of each step, and sharesBlock of the Runner.
func (p *Runner) markOuter() {
	inner := false
	p.sharesBlock = len(p.folds) == 0 && p.blocks > 0
	for k := range p.body {
		t := &p.body[k]
		at, by := t.addresses()
		for i := range at {
			t.accessesRows = t.accessesRows || by[i] != 0 && at[i].slot < p.outs+p.ins
		}
		inner = inner || !t.accessesRows
		if t.loop == nil && t.accessesRows { // the mask is an operand, whose rows are not contiguous
			p.sharesBlock = false
		}
	}
	p.sharesBlock = p.sharesBlock && inner
}

// rowsTogether returns the number of rows of n0 elements that share a block. If an operand with one element for each
// row differs between rows, the number is 1.
func (p *Runner) rowsTogether(strides []int, n0, n1 int) int {
	if !p.sharesBlock || 2*n0 > p.block {
		return 1
	}
	for k, scalar := range p.scalar {
		if scalar && strides[k] != 0 {
			return 1
		}
	}
	return min(p.block/n0, n1)
}

// runTogether computes n1 rows in groups. A group has the given number of rows, which share a block.
func (p *Runner) runTogether(s *Scratch, ptrs []unsafe.Pointer, strides []int, n0, n1, rows int) {
	for j := 0; j < n1; j += rows {
		rows = min(rows, n1-j)
		for k, q := range ptrs {
			if q != nil {
				q = unsafe.Add(q, j*strides[k])
			}
			s.slots[k] = q
		}
		if j == 0 {
			s.run(p.row, 1)
		}
		for k := 0; k < len(p.body); k++ {
			switch t := &p.body[k]; {
			case t.loop == nil:
				if noElementWanted(unsafe.Add(s.slots[t.a.slot], t.a.offset), n0*rows, t.strides.a, t.want) {
					k += t.skip
				}
			case t.accessesRows:
				p.runByRow(t, s.slots, strides, n0, rows)
			default:
				s.run(p.body[k:k+1], n0*rows)
			}
		}
	}
}

// runByRow runs a step row by row.
func (p *Runner) runByRow(t *step, slots []unsafe.Pointer, strides []int, n0, rows int) {
	places, by := t.addresses()
	var at [6]unsafe.Pointer
	dense := true
	for k, x := range places {
		at[k] = unsafe.Add(slots[x.slot], x.offset)
		switch inner := n0 * by[k]; {
		case by[k] != 0 && x.slot < p.outs+p.ins:
			dense = dense && strides[x.slot] == inner
			by[k] = strides[x.slot]
		default:
			by[k] = inner
		}
	}
	if dense {
		n0, rows = n0*rows, 1
	}
	for {
		t.loop(at[0], at[1], at[2], at[3], at[4], at[5], n0, &t.strides)
		if rows--; rows == 0 {
			return
		}
		for k := range at {
			at[k] = unsafe.Add(at[k], by[k])
		}
	}
}
