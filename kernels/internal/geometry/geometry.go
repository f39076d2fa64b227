// Package geometry describes the windows that poolings and convolutions slide over their operands. Each spatial
// dimension has one [Axis]. An op over several dimensions has a list of axes, outermost first.
//
// A window is the list of elements of a dimension that one result reads. A tap is an element of a window. Taps outside
// the operand are padding. [Window] holds the attributes of an op along a dimension. [Axis] adds the sizes of operand
// and result. [Range] is the part of one result's window that is not padding. For example, these are the windows of an
// axis of 5 elements with 3 taps, stride 2, and 1 element of padding (p) at both ends:
//
//	elements   p 0 1 2 3 4 p
//	result 0   x x x            Range: Start 0, End 2
//	result 1       x x x        Range: Start 1, End 4
//	result 2           x x x    Range: Start 3, End 5
package geometry

import (
	"math/bits"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
)

// Window has the attributes of an op along one dimension, in elements.
type Window struct {
	Taps                int  // number of taps of a window, PyTorch's kernel_size
	Stride              int  // distance between the windows of neighbouring results
	PadBefore, PadAfter int  // padding at the beginning and at the end of the operand
	Dilation            int  // distance between neighbouring taps
	CeilMode            bool // whether the number of results is rounded up; the last window may then exceed the padding
}

// Reach returns the distance from the first tap to the last tap of a window, at most [kit.MaxProduct].
func (w *Window) Reach() int { return kit.BoundedProduct(max(w.Dilation, 0), max(w.Taps-1, 0)) }

// ResultCount returns the number of windows over n elements, as PyTorch's pooling_output_shape does: (n + PadBefore +
// PadAfter - Reach - 1)/Stride + 1. The quotient is rounded down or, with CeilMode, up. Stride must not be 0.
func (w *Window) ResultCount(n sym.Int) sym.Int {
	one, stride := sym.Of(1), sym.Of(w.Stride)
	extra := w.PadBefore + w.PadAfter - w.Reach() - 1 // the numerator without n
	if w.CeilMode {
		extra += w.Stride - 1
	}
	results := n.Add(sym.Of(extra)).Div(stride).Add(one)
	if w.CeilMode && results.Sub(one).Mul(stride).Ge(n.Add(sym.Of(w.PadBefore))).Holds() {
		// The last window must begin inside the operand or the padding before it.
		results = results.Sub(one)
	}
	return results
}

// Axis is a dimension of Size elements with Results windows. An axis is either sliding or adaptive. In a sliding axis,
// the window of result o begins at element o*Stride-PadBefore. In an adaptive axis, the window of result o has the
// elements from floor(o*Size/Results) to ceil((o+1)*Size/Results)-1, and the field Window is not used.
type Axis struct {
	Window
	Size, Results int
	Adaptive      bool
	windows       []Range // all windows, or nil
}

// AdaptiveAxis returns the axis of an adaptive pooling of size elements.
func AdaptiveAxis(size, results int) Axis { return Axis{Size: size, Results: results, Adaptive: true} }

// MissingAxis returns the axis of a missing dimension, such as the height of a sequence. It has one element and one
// window of one tap.
func MissingAxis() Axis {
	return Axis{Window: Window{Taps: 1, Stride: 1, Dilation: 1}, Size: 1, Results: 1}
}

// Range is the part of a window that is inside the operand: the elements Start, Start+Step, ... below End. End is at
// most Start if all taps are padding.
type Range struct {
	Start, End, Step int
	// PaddedCount is the number of taps in the operand and its padding. It is less than Taps if the last window exceeds
	// the padding.
	PaddedCount int
}

// Count returns the number of taps inside the operand.
func (r Range) Count() int {
	if r.Step == 1 { // avoids the division
		return max(0, r.End-r.Start)
	}
	return max(0, kit.DivUp(r.End-r.Start, r.Step))
}

// maxTableWindows is the maximum number of windows in the table of an axis. Such a table has at most 32 KiB.
const maxTableWindows = 1 << 10

// WithWindowTable returns the axis with a table of its windows, which makes [Axis.WindowAt] faster. It makes no table
// for more than 1024 windows.
func (a Axis) WithWindowTable() Axis {
	if a.Results <= maxTableWindows {
		list := make([]Range, max(0, a.Results))
		for result := range list {
			list[result] = a.computeWindow(result)
		}
		a.windows = list
	}
	return a
}

// WindowAt returns the window of a result.
func (a *Axis) WindowAt(result int) Range {
	if result < len(a.windows) {
		return a.windows[result]
	}
	return a.computeWindow(result)
}

// computeWindow returns the window of a result without the table.
func (a *Axis) computeWindow(result int) Range {
	if a.Adaptive {
		start, _ := mulDiv(result, a.Size, a.Results)
		end, remainder := mulDiv(result+1, a.Size, a.Results)
		if remainder > 0 {
			end++
		}
		return Range{Start: start, End: end, Step: 1, PaddedCount: end - start}
	}
	start := result*a.Stride - a.PadBefore
	end := start + a.Reach() + 1
	window := Range{Start: start, End: min(end, a.Size), Step: a.Dilation,
		PaddedCount: kit.DivUp(min(end, a.Size+a.PadAfter)-start, a.Dilation)}
	if start < 0 { // the first tap that is not negative
		window.Start += kit.DivUp(-start, a.Dilation) * a.Dilation
	}
	return window
}

// mulDiv returns the quotient and the remainder of a*b/c. The product may exceed 64 bits. a must be at most c, so that
// the quotient is at most b, and c must be positive.
func mulDiv(a, b, c int) (quotient, remainder int) {
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high == 0 {
		return int(low / uint64(c)), int(low % uint64(c))
	}
	q, r := bits.Div64(high, low, uint64(c))
	return int(q), int(r)
}

// firstClippedEnd returns the first result of a sliding axis whose window exceeds the end of the operand.
func (a *Axis) firstClippedEnd() int {
	// The window of result o ends at o*Stride - PadBefore + Reach. It is inside the operand if this is at most Size-1,
	// that is, if o*Stride is at most lastStart.
	lastStart := a.Size + a.PadBefore - a.Reach() - 1
	if lastStart < 0 {
		return 0
	}
	return min(lastStart/a.Stride+1, a.Results)
}

// resultsInside returns the range of results of a sliding axis whose taps are all inside the operand.
func (a *Axis) resultsInside() (first, end int) {
	first = min(kit.DivUp(a.PadBefore, a.Stride), a.Results)
	return first, max(first, a.firstClippedEnd())
}

// Span returns a range of elements that contains the windows of results first to end-1; first must be less than end.
func (a *Axis) Span(first, end int) (from, to int) {
	if a.Adaptive {
		from = a.WindowAt(first).Start
	} else {
		from = min(max(first*a.Stride-a.PadBefore, 0), a.Size)
	}
	return from, max(from, a.WindowAt(end-1).End)
}

// MaxSpan returns an upper bound of the length of [Axis.Span] for the given number of neighbouring results.
func (a *Axis) MaxSpan(results int) int {
	if a.Adaptive {
		// From floor(o*s) to ceil((o+results)*s), with s = Size/Results: at most results*s + 2 elements.
		span, _ := mulDiv(results, a.Size, a.Results)
		return min(a.Size, span+2)
	}
	return min(a.Size, (results-1)*a.Stride+a.Reach()+1)
}

// MaxCount returns the maximum of [Range.Count] over all windows. If windows are dilated and every window has taps in
// the padding, it returns an upper bound of this maximum.
func (a *Axis) MaxCount() int {
	if a.Results == 0 || a.Size == 0 {
		return 0
	}
	if a.Adaptive {
		_, maxCount := a.adaptiveCounts()
		return maxCount
	}
	first, end := a.resultsInside()
	if first < end {
		return a.Taps
	}
	if a.Dilation > 1 {
		return min(a.Taps, kit.DivUp(a.Size, a.Dilation))
	}
	// Every window begins or ends in the padding. From one window to the next, the windows that begin in the padding
	// get more elements, and the windows that end in the padding fewer. The maximum is at the first or last window,
	// next to the first window that does not begin in the padding (first), or next to the first window that ends in the
	// padding (clipped).
	maxCount, clipped := 0, a.firstClippedEnd()
	for _, o := range [...]int{0, first - 1, first, clipped - 1, clipped, a.Results - 1} {
		if o >= 0 && o < a.Results {
			maxCount = max(maxCount, a.WindowAt(o).Count())
		}
	}
	return maxCount
}

// TypicalCount estimates the number of taps of a window, for costs. It is at least 1.
func (a *Axis) TypicalCount() int {
	if a.Adaptive {
		return max(1, kit.DivUp(a.Size, max(1, a.Results)))
	}
	return max(1, min(a.Taps, a.Size))
}

// adaptiveCounts returns the number of elements of the smallest and of the largest window of an adaptive axis. Window o
// has ceil((r+Size)/Results) elements, where r is the remainder of o*Size divided by Results. The remainders r are the
// multiples of the greatest common divisor of Size and Results below Results. For Size 5 and Results 3, the windows
// have 2, 3 and 2 elements.
func (a *Axis) adaptiveCounts() (smallest, largest int) {
	divisor, remainder := a.Size, a.Results // Euclid's algorithm
	for remainder > 0 {
		divisor, remainder = remainder, divisor%remainder
	}
	greatestRemainder := a.Results - divisor
	return kit.DivUp(a.Size, a.Results), kit.DivUp(a.Size+greatestRemainder, a.Results)
}

// IsUniform reports whether all windows are known to have the same number of taps inside the operand or, with
// countPadding set, inside the operand and its padding.
func (a *Axis) IsUniform(countPadding bool) bool {
	if a.Results <= 1 {
		return true
	}
	if a.Adaptive {
		smallest, largest := a.adaptiveCounts()
		return smallest == largest
	}
	if first, end := a.resultsInside(); first == 0 && end == a.Results {
		return true
	}
	// PaddedCount never increases from one window to the next.
	return countPadding && a.WindowAt(0).PaddedCount == a.WindowAt(a.Results-1).PaddedCount
}

// Run is a sequence of neighbouring results. First is the index of the first result, and Results is their number. Their
// windows begin Step elements apart and have the same number of taps inside the operand.
type Run struct{ First, Results, Step int }

// RunAt returns a run of at most limit results that begins at result first. If countPadding is set, the windows of the
// run also have the same number of taps inside the operand and its padding.
func (a *Axis) RunAt(first, limit int, countPadding bool) Run {
	run := Run{First: first, Results: 1}
	if !a.Adaptive { // all windows without padding are a run
		if from, end := a.resultsInside(); first >= from && first < end-1 && limit > 1 {
			run.Results, run.Step = min(end-first, limit), a.Stride
		}
	}
	begin, last := a.WindowAt(first), a.WindowAt(first+run.Results-1)
	for run.Results < limit && first+run.Results < a.Results {
		window := a.WindowAt(first + run.Results)
		step := window.Start - last.Start
		sameCount := begin.Count() == window.Count() && (!countPadding || begin.PaddedCount == window.PaddedCount)
		sameStep := run.Results == 1 || step == run.Step // the second window sets the step
		if !sameCount || !sameStep {
			break
		}
		run.Results, run.Step, last = run.Results+1, step, window
	}
	return run
}
