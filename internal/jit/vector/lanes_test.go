//go:build linux || darwin

package vector

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/expand"
	"github.com/graphrun/graphrun/expr/interp"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/tensor"
)

// TestLanesOfRandomLoops interprets the lanes of random loops, with several numbers of lanes, and compares the results
// with those of Code.Eval and of the interpreter of expressions.
func TestLanesOfRandomLoops(t *testing.T) {
	for seed := range testsize.Of[uint64](400, 4000) {
		rng := rand.New(rand.NewPCG(seed, 11))
		l, err := randomLoop(rng, 12)
		require.NoError(t, err)
		l, err = expandLoop(l, expand.Target{HasScale: rng.IntN(2) == 0})
		require.NoError(t, err)
		lanes, err := lowerLoop(l)
		require.NoError(t, err, "seed %d\n%v", seed, l.Code)
		n := 1 << rng.IntN(6)
		rest := max(1, n>>rng.IntN(4))
		row := newLaneRow(rng, l, 1+rng.IntN(80))
		evaluated, interpreted := row.clone(), row.clone()
		evaluated.eval(l)
		interpreted.interpret(t, l)
		require.NoError(t, lanes.Emulate(n, rest, row.n, row.mem))
		equal := func(what, difference string) {
			if difference != "" {
				t.Fatalf("seed %d, %s, row of %d by %d and %d: %s\n%v%v", seed, what, row.n, n, rest, difference, l.Code, lanes)
			}
		}
		outs := len(l.Code.Out)
		equal("Eval", row.difference(evaluated, 0, outs))
		equal("interpreter", row.difference(interpreted, 0, outs))
		equal("interpreter", row.difference(interpreted, outs+len(l.Code.In), len(row.mem)))
	}
}

// laneRow is the memory of a row: by pointer the elements, which have the dtypes ds.
type laneRow struct {
	n   int
	ds  []tensor.DType
	mem [][]byte
}

// newLaneRow returns random elements. Outputs sometimes have the memory of an operand.
func newLaneRow(rng *rand.Rand, l *expr.Loop, n int) *laneRow {
	r := &laneRow{n: n}
	add := func(d tensor.DType, n int) {
		m := make([]byte, n*d.Size())
		for k := range n {
			putElement(m, k, d, rng)
		}
		r.ds, r.mem = append(r.ds, d), append(r.mem, m)
	}
	for _, o := range l.Code.Out {
		add(o.DType, n)
	}
	for k, d := range l.Code.In {
		if l.Uniform[k] {
			add(d, 1)
		} else {
			add(d, n)
		}
	}
	for k := range l.Folds {
		if l.CombinesLanes {
			add(l.DType(k), 1)
		} else {
			add(l.DType(k), expr.FoldLanes)
		}
	}
	outs := len(l.Code.Out)
	k, j := rng.IntN(outs), rng.IntN(len(l.Code.In))
	if rng.IntN(2) == 0 && !l.Uniform[j] && len(r.mem[k]) == len(r.mem[outs+j]) {
		r.mem[k] = r.mem[outs+j]
	}
	return r
}

// clone copies the row. Pointers that share memory share their copy.
func (r *laneRow) clone() *laneRow {
	c := &laneRow{n: r.n, ds: r.ds}
	copies := map[*byte][]byte{}
	for _, m := range r.mem {
		first := unsafe.SliceData(m)
		if copies[first] == nil {
			copies[first] = slices.Clone(m)
		}
		c.mem = append(c.mem, copies[first])
	}
	return c
}

// eval computes the outputs with Code.Eval.
func (r *laneRow) eval(l *expr.Loop) {
	outs := len(l.Code.Out)
	for k := range r.n {
		var in []expr.Number
		for j, d := range l.Code.In {
			at := k
			if l.Uniform[j] {
				at = 0
			}
			e := slices.Concat(r.mem[outs+j][at*d.Size():][:d.Size()], make([]byte, 16))
			part := d.ToReal().Size()
			x := expr.Number{Re: littleEndian(e[:part])}
			if d.IsComplex() {
				x.Im = littleEndian(e[part : 2*part])
			}
			in = append(in, x)
		}
		for j, x := range l.Code.Eval(in...) {
			d := r.ds[j]
			for part, bits := range []uint64{x.Re, x.Im} {
				if part == 0 && d != tensor.Invalid || d.IsComplex() {
					size := d.ToReal().Size()
					copy(r.mem[j][k*d.Size()+part*size:], binary.LittleEndian.AppendUint64(nil, bits)[:size])
				}
			}
		}
	}
}

func littleEndian(b []byte) (x uint64) {
	for k, e := range b {
		x |= uint64(e) << (8 * k)
	}
	return x
}

// interpret computes the row with package interp.
func (r *laneRow) interpret(t *testing.T, l *expr.Loop) {
	p, err := interp.New(l)
	require.NoError(t, err)
	var ptrs []unsafe.Pointer
	for _, m := range r.mem {
		ptrs = append(ptrs, unsafe.Pointer(unsafe.SliceData(m)))
	}
	operands := len(l.Code.Out) + len(l.Code.In)
	p.Run(p.NewScratch(), ptrs[:operands], make([]int, operands), ptrs[operands:], r.n, 1)
}

// difference describes the first difference in the memory of some pointers.
func (r *laneRow) difference(to *laneRow, first, end int) string {
	for k := first; k < end; k++ {
		size := max(1, r.ds[k].Size())
		for at := 0; at < len(r.mem[k]); at += size {
			if a, b := r.mem[k][at:][:size], to.mem[k][at:][:size]; !sameElement(r.ds[k], a, b) {
				return fmt.Sprintf("pointer %d (%v), element %d: % x instead of % x", k, r.ds[k], at/size, a, b)
			}
		}
	}
	return ""
}
