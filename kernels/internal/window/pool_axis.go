package window

import (
	"math"
	"math/bits"

	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// window is the range of a dimension of the operand that one result reads: indices from start to end, step apart. size
// is its length with padding, for averages.
type window struct{ start, end, step, size int }

// taps returns the number of elements of the window.
func (w window) taps() int { return max(0, kit.DivUp(w.end-w.start, w.step)) }

// poolAxis computes the windows of `out` results along a dimension of n elements. Its memory and the time to create it
// do not depend on out.
type poolAxis struct {
	n, out   int
	params   axisParams // of sliding windows
	include  bool       // sizes count the padding
	adaptive bool       // windows of adaptive pooling
	list     []window   // all windows, if there are few
}

// maxListed bounds the windows of an axis that are stored in a list.
const maxListed = 1 << 10

// slidingAxis returns sliding windows, clipped to n elements.
func slidingAxis(s axisParams, n, out int, include bool) poolAxis {
	return poolAxis{n: n, out: out, params: s, include: include}.listed()
}

// adaptiveAxis returns the windows of an adaptive pooling: result o reads the elements from floor(o*n/out) to
// ceil((o+1)*n/out).
func adaptiveAxis(n, out int) poolAxis { return poolAxis{n: n, out: out, adaptive: true}.listed() }

// wholeAxis returns the window of a dimension of size 1.
func wholeAxis() poolAxis { return adaptiveAxis(1, 1) }

// listed stores the windows in the list if there are few.
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
	if a.adaptive {
		start, _ := mulDiv(o, a.n, a.out)
		end, rest := mulDiv(o+1, a.n, a.out)
		if rest > 0 {
			end++
		}
		return window{start, end, 1, end - start}
	}
	s := &a.params
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

// mulDiv returns a*b/c and the remainder. a*b may exceed 64 bits; it requires a <= c and 0 < c.
func mulDiv(a, b, c int) (int, int) {
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high == 0 {
		return int(low / uint64(c)), int(low % uint64(c))
	}
	quotient, rest := bits.Div64(high, low, uint64(c))
	return int(quotient), int(rest)
}

// farReach bounds distances computed from attributes, so that sums of several distances do not overflow.
const farReach = min(1<<60, math.MaxInt/4)

// reach is the distance from the first element of a window to its last.
func (s *axisParams) reach() int { return mulBounded(s.dilation, s.kernel-1) }

// mulBounded returns a*b of non-negative numbers, at most farReach.
func mulBounded(a, b int) int {
	if high, low := bits.Mul64(uint64(max(a, 0)), uint64(max(b, 0))); high == 0 && low < farReach {
		return int(low)
	}
	return farReach
}

// unclipped returns the range of results whose sliding windows are not clipped.
func (a *poolAxis) unclipped() (first, end int) {
	s := &a.params
	first = min(kit.DivUp(s.begin, s.stride), a.out)
	if room := a.n + s.begin - s.reach() - 1; room >= 0 {
		end = min(room/s.stride+1, a.out)
	}
	return first, max(first, end)
}

// most returns the maximum number of elements of a window, or a bound on it for dilated windows that are all clipped.
func (a *poolAxis) most() int {
	if a.out == 0 || a.n == 0 {
		return 0
	}
	if a.adaptive {
		_, most := a.adaptiveTaps()
		return most
	}
	first, end := a.unclipped()
	if first < end {
		return a.params.kernel
	}
	if a.params.dilation > 1 {
		return min(a.params.kernel, kit.DivUp(a.n, a.params.dilation))
	}
	// The number of elements grows up to the first window that is not clipped at its begin, and shrinks after the last
	// window that is not clipped at its end.
	most := 0
	for _, o := range [...]int{0, first - 1, first, a.firstClippedEnd() - 1, a.firstClippedEnd(), a.out - 1} {
		if o >= 0 && o < a.out {
			w := a.at(o)
			most = max(most, w.taps())
		}
	}
	return most
}

// firstClippedEnd returns the first result whose sliding window is clipped at its end.
func (a *poolAxis) firstClippedEnd() int {
	room := a.n + a.params.begin - a.params.reach() - 1
	if room < 0 {
		return 0
	}
	return min(room/a.params.stride+1, a.out)
}

// adaptiveTaps returns the minimum and maximum number of elements of the windows of adaptive pooling: the remainders of
// their starts are multiples of the greatest common divisor.
func (a *poolAxis) adaptiveTaps() (least, most int) {
	g, b := a.n, a.out
	for b > 0 {
		g, b = b, g%b
	}
	return kit.DivUp(a.n, a.out), kit.DivUp(a.n+a.out-g, a.out)
}

// uniform reports whether all windows are known to have the same size.
func (a *poolAxis) uniform() bool {
	if a.out <= 1 {
		return true
	}
	if a.adaptive {
		least, most := a.adaptiveTaps()
		return least == most
	}
	first, end := a.unclipped()
	if first == 0 && end == a.out {
		return true
	}
	// With padding counted, sizes never increase.
	return a.include && a.at(0).size == a.at(a.out-1).size
}

// windowRun is n results from result `at` on, whose windows have the same number of elements and begin step apart.
type windowRun struct{ at, n, step int }

// run returns the run of windows from result `at` on, of at most `most` results. If sizes is set, the windows of a run
// also have the same size.
func (a *poolAxis) run(at, most int, sizes bool) windowRun {
	r := windowRun{at: at, n: 1}
	if !a.adaptive {
		if first, end := a.unclipped(); at >= first && at < end-1 && most > 1 {
			r.n, r.step = min(end-at, most), a.params.stride
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

// areaOf returns the divisor of an average: the number of elements of a window over up to three dimensions, including
// padding if it is counted. It is a float64 because a padded window may have more than 2^63 elements.
func areaOf(d, h, w int) float64 { return max(float64(d)*float64(h)*float64(w), 1) }

// divisorOf converts an area. Integers are exact up to 2^53 and at most 2^62: averages over greater areas are 0.
func divisorOf[A int64 | float32 | float64](area float64) A {
	if area > 1<<62 && A(3)/2 == 1 {
		return A(int64(1 << 62))
	}
	return A(area)
}
