package geometry

import "github.com/graphrun/graphrun/kernels/internal/kit"

// The methods of this file are for sliding axes. A position is an index of an element. Positions in the padding are
// negative or at least Size. The window of a result has its taps at the positions result*Stride - PadBefore +
// k*Dilation, for k from 0 to Taps-1. With Size 5, Taps 3, Stride 2, PadBefore 1 and Dilation 1, there are three
// windows:
//
//	position   -1  0  1  2  3  4  5
//	result 0    x  x  x
//	result 1          x  x  x
//	result 2                x  x  x
//
// The taps of result 0 inside the operand (TapsOf) are 1 and 2, and the results whose tap 0 is inside (ResultsOf) are 1
// and 2.

// Clamped returns an axis with the same positions, for which Position does not overflow. Two attributes can be large
// without effect on positions: the stride of a single window, and the dilation of windows of one tap. Clamped bounds
// them by Size. The stride of several windows and the dilation of several taps are bounded already, because the windows
// fit in the padded operand, whose size is bounded.
func (a Axis) Clamped() Axis {
	if a.Results <= 1 {
		a.Stride = min(a.Stride, max(a.Size, 1))
	}
	if a.Taps <= 1 {
		a.Dilation = min(a.Dilation, max(a.Size, 1))
	}
	return a
}

// Begin returns the position of the first tap of a result.
func (a *Axis) Begin(result int) int { return result*a.Stride - a.PadBefore }

// Position returns the position of a tap of a result.
func (a *Axis) Position(result, tap int) int { return result*a.Stride - a.PadBefore + tap*a.Dilation }

// Contains reports whether a position is inside the operand.
func (a *Axis) Contains(position int) bool { return uint(position) < uint(a.Size) }

// TapsOf returns the range of the taps of a result that are inside the operand. If there is no such tap, end is at most
// first.
func (a *Axis) TapsOf(result int) (first, end int) {
	return IndicesInside(a.Begin(result), a.Dilation, a.Size, a.Taps)
}

// ResultsOf returns the range of results whose tap with the given index is inside the operand. If there is no such
// result, end is at most first.
//
//go:noinline
func (a *Axis) ResultsOf(tap int) (first, end int) {
	return IndicesInside(a.Position(0, tap), a.Stride, a.Size, a.Results)
}

// CountAll returns the number of taps inside the operand, summed over all windows.
func (a *Axis) CountAll() (count int) {
	if a.Results < a.Taps { // the shorter loop
		for result := range a.Results {
			first, end := a.TapsOf(result)
			count += max(0, end-first)
		}
		return count
	}
	for tap := range a.Taps {
		first, end := a.ResultsOf(tap)
		count += max(0, end-first)
	}
	return count
}

// Extent returns the number of positions from the first tap to the last tap of neighbouring windows.
func (a *Axis) Extent(windows int) int { return (windows-1)*a.Stride + (a.Taps-1)*a.Dilation + 1 }

// ReadsPadding reports whether windows reach into the padding.
func (a *Axis) ReadsPadding() bool { return a.PadBefore > 0 || a.Extent(a.Results) > a.Size }

// IsPointwise reports whether each result reads the element of the same index and nothing else.
func (a *Axis) IsPointwise() bool {
	return a.Taps == 1 && a.Stride == 1 && a.PadBefore == 0 && a.Results == a.Size
}

// MaxDistance returns an upper bound of the distance between any two positions that windows contain, padding included.
// It is at least Size.
func (a *Axis) MaxDistance() int {
	return max(a.Size, a.PadBefore, a.Results*a.Stride+(a.Taps-1)*a.Dilation+1)
}

// IndicesInside returns the range of i in [0, n) for which begin + i*step is in [0, size). If there is no such i, end
// is at most first.
//
//go:noinline
func IndicesInside(begin, step, size, n int) (first, end int) {
	if begin < 0 {
		first = kit.DivUp(-begin, step)
	}
	if begin < size {
		end = min(n, (size-1-begin)/step+1)
	}
	return first, end
}
