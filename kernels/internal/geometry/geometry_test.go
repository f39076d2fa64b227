package geometry

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/sym"
)

// taps lists the elements of window o by its definition, and counts its taps in operand and padding.
func taps(a *Axis, o int) (inside []int, padded int) {
	if a.Adaptive {
		for i := range a.Size {
			// Element i belongs to window o if their intervals of length 1/Size and 1/Results overlap.
			if i*a.Results < (o+1)*a.Size && (i+1)*a.Results > o*a.Size {
				inside = append(inside, i)
			}
		}
		return inside, len(inside)
	}
	for k := range a.Taps {
		i := o*a.Stride - a.PadBefore + k*a.Dilation
		if i >= 0 && i < a.Size {
			inside = append(inside, i)
		}
		if i < a.Size+a.PadAfter {
			padded++
		}
	}
	return inside, padded
}

// randomAxis returns a small axis, sliding or adaptive.
func randomAxis(r *rand.Rand) Axis {
	size := 1 + r.IntN(12)
	if r.IntN(3) == 0 {
		return AdaptiveAxis(size, 1+r.IntN(14))
	}
	w := Window{Taps: 1 + r.IntN(5), Stride: 1 + r.IntN(4), Dilation: 1 + r.IntN(3), CeilMode: r.IntN(2) == 0}
	w.PadBefore, w.PadAfter = r.IntN(w.Taps), r.IntN(w.Taps)
	n, _ := w.ResultCount(sym.Of(size)).Known()
	return Axis{Window: w, Size: size, Results: max(0, n)}
}

// TestWindows compares ranges and their bounds with lists of taps.
func TestWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 1))
	for range 4000 {
		a := randomAxis(r)
		listed := a.WithWindowTable()
		var counts, paddeds []int
		for o := range a.Results {
			inside, padded := taps(&a, o)
			w := a.WindowAt(o)
			var got []int
			for i := w.Start; i < w.End; i += w.Step {
				got = append(got, i)
			}
			if !slices.Equal(got, inside) || w.Count() != len(inside) || w.PaddedCount != padded ||
				listed.WindowAt(o) != w {
				t.Fatalf("%+v: window %d is %+v; want %v, %d taps with padding", a, o, w, inside, padded)
			}
			counts, paddeds = append(counts, len(inside)), append(paddeds, padded)
		}
		if len(counts) == 0 {
			continue
		}
		most := slices.Max(counts)
		if bound := a.MaxCount(); bound < most || bound > most && (a.Adaptive || a.Dilation == 1) {
			t.Fatalf("%+v: at most %d taps, want %d", a, bound, most)
		}
		if a.IsUniform(false) && slices.Min(counts) != most {
			t.Fatalf("%+v: counts %v are called uniform", a, counts)
		}
		if a.IsUniform(true) && slices.Min(paddeds) != slices.Max(paddeds) {
			t.Fatalf("%+v: counts %v with padding are called uniform", a, paddeds)
		}
		checkRuns(t, &a, 1+r.IntN(8), r.IntN(2) == 0)
		checkSpan(t, &a, r)
	}
}

// checkSpan checks that the span of some neighbouring results contains their windows.
func checkSpan(t *testing.T, a *Axis, r *rand.Rand) {
	first := r.IntN(a.Results)
	end := first + 1 + r.IntN(a.Results-first)
	from, to := a.Span(first, end)
	if from < 0 || to < from || to > a.Size || to-from > a.MaxSpan(end-first) {
		t.Fatalf("%+v: results %d to %d span %d to %d, bound %d", a, first, end, from, to, a.MaxSpan(end-first))
	}
	for o := first; o < end; o++ {
		if w := a.WindowAt(o); w.Count() > 0 && (w.Start < from || w.End > to) {
			t.Fatalf("%+v: window %+v is outside the span %d to %d", a, w, from, to)
		}
	}
}

// checkRuns divides the results of an axis into runs of at most limit and checks that the windows of a run agree.
func checkRuns(t *testing.T, a *Axis, limit int, padded bool) {
	for next := 0; next < a.Results; {
		run := a.RunAt(next, limit, padded)
		if run.First != next || run.Results < 1 || run.Results > limit || next+run.Results > a.Results {
			t.Fatalf("%+v: run %+v at result %d, limit %d", a, run, next, limit)
		}
		first := a.WindowAt(next)
		for i := range run.Results {
			w := a.WindowAt(next + i)
			if w.Count() != first.Count() || w.Start != first.Start+i*run.Step || padded && w.PaddedCount != first.PaddedCount {
				t.Fatalf("%+v: run %+v has windows %+v and %+v", a, run, first, w)
			}
		}
		next += run.Results
	}
}

// TestResults compares the number of windows with a search for the last one.
func TestResults(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 2))
	for range 2000 {
		a := randomAxis(r)
		if a.Adaptive {
			continue
		}
		want := 0
		for start := 0; ; start += a.Stride {
			last := start + a.Reach()
			fits := last < a.PadBefore+a.Size+a.PadAfter
			// The last window may exceed the padding with CeilMode, if it begins inside the operand or the padding before it.
			if !fits && !(a.CeilMode && last-a.Stride+1 < a.PadBefore+a.Size+a.PadAfter && start < a.PadBefore+a.Size) {
				break
			}
			want++
		}
		if a.Results != want {
			t.Fatalf("%+v: %d results, want %d", a, a.Results, want)
		}
	}
}

// TestHugeAxes covers sizes whose products exceed 64 bits.
func TestHugeAxes(t *testing.T) {
	const n = min(1<<40, math.MaxInt-1)
	a := AdaptiveAxis(n+1, n)
	if w := a.WindowAt(n - 1); w.Start != n-1 || w.End != n+1 {
		t.Errorf("the last window is %+v", w)
	}
	b := Axis{Window: Window{Taps: n, Stride: 1, Dilation: n}, Size: 10, Results: 1}
	if w := b.WindowAt(0); w.Count() != 1 {
		t.Errorf("a window that reaches far beyond the operand is %+v", w)
	}
}
