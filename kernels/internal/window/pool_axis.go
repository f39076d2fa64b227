package window

import (
	"math"
	"math/bits"

	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// window is the part of a dimension of the operand that one result takes: the indices from start to end in steps.
// size is its length with padding, for averages.
type window struct{ start, end, step, size int }

// taps is the number of elements that the window takes.
func (w window) taps() int { return max(0, kit.DivUp(w.end-w.start, w.step)) }

// poolAxis computes the windows of out results along a dimension of n elements. Memory and time to make it do not
// depend on out.
type poolAxis struct {
	n, out  int
	side    poolSide // of sliding windows
	include bool     // sizes count the border
	shares  bool     // the windows are those of adaptive pooling; they do not slide
	list    []window // all windows if they are few
}

// maxListed bounds the windows of an axis that are kept in a list.
const maxListed = 1 << 10

// slidingAxis returns the windows of a side of a pooling, cut to n elements.
func slidingAxis(s poolSide, n, out int, include bool) poolAxis {
	return poolAxis{n: n, out: out, side: s, include: include}.listed()
}

// sharedAxis returns the windows of an adaptive pooling: result o takes the elements from floor(o*n/out) to
// ceil((o+1)*n/out).
func sharedAxis(n, out int) poolAxis { return poolAxis{n: n, out: out, shares: true}.listed() }

// wholeAxis returns the window of a dimension of size 1.
func wholeAxis() poolAxis { return sharedAxis(1, 1) }

func (a poolAxis) listed() poolAxis {
	if a.out <= maxListed {
		list := make([]window, max(0, a.out))
		for o := range list {
			list[o] = a.compute(o)
		}
		a.list = list
	}
	return a
}

// at returns the window of result o.
func (a *poolAxis) at(o int) window {
	if o < len(a.list) {
		return a.list[o]
	}
	return a.compute(o)
}

func (a *poolAxis) compute(o int) window {
	if a.shares {
		start, _ := mulDiv(o, a.n, a.out)
		end, rest := mulDiv(o+1, a.n, a.out)
		if rest > 0 {
			end++
		}
		return window{start, end, 1, end - start}
	}
	s := &a.side
	start := o*s.stride - s.begin
	end := start + s.reach() + 1
	w := window{start: start, end: min(end, a.n), step: s.dilation}
	w.size = kit.DivUp(min(end, a.n+s.end)-start, s.dilation)
	if start < 0 {
		w.start += kit.DivUp(-start, s.dilation) * s.dilation
	}
	if !a.include {
		w.size = w.taps()
	}
	return w
}

// mulDiv returns a*b/c and the remainder, where a*b may exceed 64 bits, a <= c and 0 < c.
func mulDiv(a, b, c int) (int, int) {
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high == 0 {
		return int(low / uint64(c)), int(low % uint64(c))
	}
	quotient, rest := bits.Div64(high, low, uint64(c))
	return int(quotient), int(rest)
}

// farReach bounds distances computed from attributes, so that sums of several do not overflow.
const farReach = min(1<<60, math.MaxInt/4)

// reach is the distance from the first element of a window to its last.
func (s *poolSide) reach() int { return mulBounded(s.dilation, s.kernel-1) }

// mulBounded returns a*b, farReach at most, of numbers that are not negative.
func mulBounded(a, b int) int {
	if high, low := bits.Mul64(uint64(max(a, 0)), uint64(max(b, 0))); high == 0 && low < farReach {
		return int(low)
	}
	return farReach
}

// inner returns the results from first to end whose sliding windows are not cut.
func (a *poolAxis) inner() (first, end int) {
	s := &a.side
	first = min(kit.DivUp(s.begin, s.stride), a.out)
	if room := a.n + s.begin - s.reach() - 1; room >= 0 {
		end = min(room/s.stride+1, a.out)
	}
	return first, max(first, end)
}

// most is the greatest number of elements that a window takes, or, of sliding windows with a dilation that are all
// cut, a bound on it.
func (a *poolAxis) most() int {
	if a.out == 0 || a.n == 0 {
		return 0
	}
	if a.shares {
		_, most := a.share()
		return most
	}
	first, end := a.inner()
	if first < end {
		return a.side.kernel
	}
	if a.side.dilation > 1 {
		return min(a.side.kernel, kit.DivUp(a.n, a.side.dilation))
	}
	// The number of elements grows up to the first window that is not cut at its begin, and shrinks after the last window
	// that is not cut at its end.
	most := 0
	for _, o := range [...]int{0, first - 1, first, a.uncutEnd() - 1, a.uncutEnd(), a.out - 1} {
		if o >= 0 && o < a.out {
			w := a.at(o)
			most = max(most, w.taps())
		}
	}
	return most
}

// uncutEnd is the first result whose sliding window is cut at its end.
func (a *poolAxis) uncutEnd() int {
	room := a.n + a.side.begin - a.side.reach() - 1
	if room < 0 {
		return 0
	}
	return min(room/a.side.stride+1, a.out)
}

// share returns the least and the greatest number of elements of the windows of adaptive pooling: the remainders of
// their starts are multiples of the greatest common divisor.
func (a *poolAxis) share() (least, most int) {
	g, b := a.n, a.out
	for b > 0 {
		g, b = b, g%b
	}
	return kit.DivUp(a.n, a.out), kit.DivUp(a.n+a.out-g, a.out)
}

// even reports whether all windows are known to have the same size.
func (a *poolAxis) even() bool {
	if a.out <= 1 {
		return true
	}
	if a.shares {
		least, most := a.share()
		return least == most
	}
	first, end := a.inner()
	if first == 0 && end == a.out {
		return true
	}
	// With the border counted, sizes only fall.
	return a.include && a.at(0).size == a.at(a.out-1).size
}

// windowRun is n results from at on whose windows have the same number of elements and begin step apart.
type windowRun struct{ at, n, step int }

// run returns the run of windows from result at on, of at most most results. With sizes, windows of a run also have the
// same size.
func (a *poolAxis) run(at, most int, sizes bool) windowRun {
	r := windowRun{at: at, n: 1}
	if !a.shares {
		if first, end := a.inner(); at >= first && at < end-1 && most > 1 {
			r.n, r.step = min(end-at, most), a.side.stride
		}
	}
	first := a.at(at)
	last := a.at(at + r.n - 1)
	for r.n < most && at+r.n < a.out {
		w := a.at(at + r.n)
		step := w.start - last.start
		if first.taps() != w.taps() || sizes && first.size != w.size || r.n > 1 && step != r.step {
			break
		}
		r.n, r.step, last = r.n+1, step, w
	}
	return r
}

// areaOf returns the divisor of an average: the number of elements of a window over up to three dimensions, with the
// border if it is counted. It is a float64 because a window with its border may have more than 2^63 elements.
func areaOf(d, h, w int) float64 { return max(float64(d)*float64(h)*float64(w), 1) }

// divisorOf converts an area. Integers are exact up to 2^53 and bounded by 2^62: averages of greater areas are 0.
func divisorOf[A int64 | float32 | float64](area float64) A {
	if area > 1<<62 && A(3)/2 == 1 {
		return A(int64(1 << 62))
	}
	return A(area)
}
