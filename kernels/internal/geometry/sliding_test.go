package geometry

import (
	"math/rand/v2"
	"testing"
)

// TestSliding compares the ranges and counts of sliding axes with their definition by positions.
func TestSliding(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 8))
	bordered := 0
	for range 2000 {
		w := Window{Taps: 1 + r.IntN(5), Stride: 1 + r.IntN(4), PadBefore: r.IntN(6), Dilation: 1 + r.IntN(3)}
		a := Axis{Window: w, Size: 1 + r.IntN(9), Results: 1 + r.IntN(6)}
		count, reaches := 0, false
		for o := range a.Results {
			taps, tapsEnd := a.TapsOf(o)
			for k := range a.Taps {
				inside := a.Contains(o*a.Stride - a.PadBefore + k*a.Dilation)
				results, resultsEnd := a.ResultsOf(k)
				if inside != (k >= taps && k < tapsEnd) || inside != (o >= results && o < resultsEnd) {
					t.Fatalf("%+v: tap %d of result %d: taps %d to %d, results %d to %d", a, k, o, taps, tapsEnd, results,
						resultsEnd)
				}
				if inside {
					count++
				}
				reaches = reaches || !inside
				if p := a.Position(o, k); p < a.Begin(o) || p >= a.Begin(o)+a.Extent(1) || p-a.Begin(0) >= a.MaxDistance() {
					t.Fatalf("%+v: tap %d of result %d is at %d", a, k, o, p)
				}
				if clamped := a.Clamped(); clamped.Position(o, k) != a.Position(o, k) {
					t.Fatalf("%+v: clamped, tap %d of result %d is at %d", a, k, o, clamped.Position(o, k))
				}
			}
		}
		if n := a.CountAll(); n != count || reaches && !a.ReadsPadding() {
			t.Fatalf("%+v: %d taps, want %d; bordered %v, want %v", a, n, count, a.ReadsPadding(), reaches)
		}
		if a.ReadsPadding() {
			bordered++
		}
	}
	if bordered < 500 || bordered > 1990 {
		t.Errorf("%d axes are bordered", bordered)
	}
}
