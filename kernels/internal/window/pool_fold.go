package window

import (
	"encoding/binary"
	"math"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/tensor"
)

// fewTaps is the most elements of a window that one loop takes at once, and manyTaps how many it takes of windows that
// have more: results, what was folded so far and a divisor are operands, too.
const (
	fewTaps  = 20
	manyTaps = 16
)

// poolFold is what a pooling makes of a window: its kind, and the divisor of averages where it is not the window's
// size.
type poolFold struct {
	kind    poolKind
	divisor int
	indices bool
}

// tapFold folds the elements of windows by compiled loops. Those of few elements are one loop. Those of many are folded
// manyTaps at a time: first begins, next goes on from what there is, and last divides. Elements are folded in the order
// of the window however they are cut into loops, and the neutral element stands for those that there are not.
type tapFold struct {
	poolFold
	d, sum            tensor.DType      // of elements, and in which averages are summed up
	taps              int               // of a loop
	offset            func(tap int) int // the distance from the index of the first tap
	single            bool
	first, next, last *loops.Loop
}

// newTapFold returns nil if the loops do not become machine code. offset returns the distance between the indices of
// the first tap and another.
func newTapFold(f poolFold, d tensor.DType, taps int, offset func(tap int) int) (*tapFold, error) {
	t := &tapFold{poolFold: f, d: d, sum: d.OpMath(), taps: taps, offset: offset}
	t.single = taps <= fewTaps
	if !loops.Compiles() || f.kind == poolNorm || f.indices && !t.single {
		return nil, nil
	}
	if !t.single {
		t.taps = manyTaps
		if d.IsFloat() {
			t.sum = tensor.Float64
		}
	}
	for _, l := range []struct {
		loop       **loops.Loop
		taps       int
		begin, end bool
		wanted     bool
	}{
		{&t.first, t.taps, true, t.single || f.kind == poolMax, true},
		{&t.next, t.taps, false, f.kind == poolMax, !t.single},
		{&t.last, 0, false, true, !t.single && f.kind == poolAvg},
	} {
		if !l.wanted {
			continue
		}
		e, err := t.loop(l.taps, l.begin, l.end)
		if err != nil {
			return nil, err
		}
		if *l.loop, err = loops.New(e, loops.Options{}); err != nil || !(*l.loop).Compiled() {
			return nil, err
		}
	}
	return t, nil
}

// loop is one that folds so many taps. Operands are what was folded before, unless it begins, the taps, and at the end
// of averages the divisor; of indices that of the first tap.
func (t *tapFold) loop(taps int, begin, end bool) (*expr.Loop, error) {
	var in []tensor.DType
	var scalar []bool
	add := func(d tensor.DType, s bool) int {
		in, scalar = append(in, d), append(scalar, s)
		return len(in) - 1
	}
	if !begin {
		add(t.carried(), false)
	}
	first := len(in)
	for range taps {
		add(t.d, false)
	}
	extra := -1
	switch {
	case t.indices:
		extra = add(tensor.Int64, true)
	case t.kind == poolAvg && end:
		extra = add(t.sum, true)
	}
	b := expr.NewBuilder(in...)
	tap := func(k int) expr.Value { return b.Convert(t.sum, b.Load(first+k)) }
	var out []expr.Output
	switch {
	case t.indices:
		out = t.greatest(b, tap, b.Load(extra))
	case t.kind == poolMax:
		out = t.extreme(b, tap, taps, begin)
	default:
		var sum expr.Value
		if begin {
			sum = b.Const(t.sum, 0)
		} else {
			sum = b.Load(0)
		}
		for k := range taps {
			sum = b.Do(expr.Add, sum, tap(k))
		}
		if !end {
			out = []expr.Output{b.Real(sum)}
			break
		}
		out = []expr.Output{b.Real(b.Convert(t.d, b.Do(t.divides(), sum, b.Load(extra))))}
	}
	c, err := b.Build(out...)
	return &expr.Loop{Code: c, Scalar: scalar}, err
}

// carried is the dtype of what one loop hands to the next: greatest elements are kept where the results go.
func (t *tapFold) carried() tensor.DType {
	if t.kind == poolMax {
		return t.d
	}
	return t.sum
}

// divides tells how averages are made of sums.
func (t *tapFold) divides() expr.Op {
	if inverse(t.d, t.sum) {
		return expr.Mul
	}
	return expr.Div
}

// inverse reports whether averages are sums times the inverse of what they are divided by: where sums have more bits
// than results, so that the rounding of an inverse does not show.
func inverse(d, sum tensor.DType) bool { return d.IsFloat() && d.Size() < sum.Size() }

// putDivisor writes the divisor of the sum over a window, or its inverse.
func (f poolFold) putDivisor(to []byte, d, sum tensor.DType, area float64) {
	n, x := divisorOf[int64](area), area
	if f.divisor != 0 {
		n, x = int64(f.divisor), float64(f.divisor)
	}
	if inverse(d, sum) {
		x = 1 / x
	}
	switch sum {
	case tensor.Int64:
		binary.LittleEndian.PutUint64(to, uint64(n))
	case tensor.Float32:
		binary.LittleEndian.PutUint32(to, math.Float32bits(float32(x)))
	default:
		binary.LittleEndian.PutUint64(to, math.Float64bits(x))
	}
}

// extreme is the greatest of the taps and of what there is. A NaN counts as greatest.
func (t *tapFold) extreme(b *expr.Builder, tap func(int) expr.Value, taps int, begin bool) []expr.Output {
	best, k := expr.Value(0), 0
	if begin {
		best, k = tap(0), 1
	} else {
		best = b.Convert(t.sum, b.Load(0))
	}
	for ; k < taps; k++ {
		best = b.Do(expr.Max, tap(k), best)
	}
	return []expr.Output{b.Real(b.Convert(t.d, best))}
}

// greatest is the greatest of all taps, and its index: of equal ones the first, of several NaNs the last.
func (t *tapFold) greatest(b *expr.Builder, tap func(int) expr.Value, first expr.Value) []expr.Output {
	best, where := tap(0), b.Int(tensor.Int32, 0)
	for k := 1; k < t.taps; k++ {
		x := tap(k)
		take := b.Do(expr.Lt, best, x)
		if t.d.IsFloat() {
			take = b.Do(expr.Or, take, b.Do(expr.Ne, x, x))
		}
		best = b.Do(expr.Select, take, x, best)
		where = b.Do(expr.Select, take, b.Int(tensor.Int32, int64(t.offset(k))), where)
	}
	return []expr.Output{b.Real(b.Convert(t.d, best)),
		b.Real(b.Do(expr.Add, b.Convert(tensor.Int64, where), first))}
}

// fill fills memory with the neutral element of a dtype.
func (f poolFold) fill(d tensor.DType, mem []byte) {
	if f.kind != poolMax {
		clear(mem)
		return
	}
	bits := expr.Neutral(expr.Max, d)
	switch d {
	case tensor.Float16:
		bits = 0xfc00
	case tensor.BFloat16:
		bits = 0xff80
	}
	var e [8]byte
	binary.LittleEndian.PutUint64(e[:], bits)
	for i := 0; i < len(mem); i += d.Size() {
		copy(mem[i:], e[:d.Size()])
	}
}

// listings lists the loops.
func (t *tapFold) listings() []expr.Listing {
	var list []expr.Listing
	for _, l := range []struct {
		name string
		loop *loops.Loop
	}{{"the first elements of windows", t.first}, {"more elements of windows", t.next}, {"averages of sums", t.last}} {
		if l.loop != nil {
			list = append(list, l.loop.Listing(l.name))
		}
	}
	return list
}
