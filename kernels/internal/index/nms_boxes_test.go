package index_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/kernels/internal/index"
)

// TestSuppress compares the search in strips with a search of all boxes.
func TestSuppress(t *testing.T) {
	all := func(boxes []index.Box, scores []float64, iou float64, least float64, n int) (kept []int) {
		var order []int
		for i, s := range scores {
			if s > least {
				order = append(order, i)
			}
		}
		slices.SortStableFunc(order, func(a, b int) int {
			switch {
			case scores[a] > scores[b]:
				return -1
			case scores[a] < scores[b]:
				return 1
			}
			return 0
		})
		for _, i := range order {
			if len(kept) < n && !slices.ContainsFunc(kept, func(k int) bool { return boxes[k].IOU(&boxes[i]) > iou }) {
				kept = append(kept, i)
			}
		}
		return kept
	}
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e308, -1e308, 0}
	few := 0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 7))
		boxes, scores := make([]index.Box, rng.IntN(300)), []float64{}
		spread, size := math.Exp(rng.NormFloat64()*4), math.Exp(rng.NormFloat64())
		for i := range boxes {
			x, y := rng.Float64()*spread, rng.Float64()*4
			boxes[i] = index.Box{x, y, x + rng.Float64()*size, y + rng.Float64()*size}
			if rng.IntN(50) == 0 {
				boxes[i] = index.NewBox(rng.IntN(2) == 0, [4]float64{x, y, x - size, y - size})
			}
			if seed%5 == 0 && rng.IntN(40) == 0 {
				boxes[i].X0 = odd[rng.IntN(len(odd))]
			}
			if seed%5 == 1 && rng.IntN(40) == 0 { // negative width
				boxes[i].X1 = boxes[i].X0 - 3*spread
			}
			scores = append(scores, math.Round(rng.Float64()*100)/100)
		}
		iou, least, n := []float64{0.3, 0.7, 0, -1, 1, math.NaN()}[rng.IntN(6)], rng.Float64()/2, 1+rng.IntN(300)
		got, want := index.Suppress(t.Context(), boxes, scores, iou, &least, n), all(boxes, scores, iou, least, n)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: kept %v, want %v", seed, got, want)
		}
		if len(want) < len(boxes)/2 {
			few++
		}
	}
	if few < 20 {
		t.Errorf("only %d cases drop half of their boxes", few)
	}
}

// TestSuppressNaN checks that NaN scores are the best, in their order, as in PyTorch's sort, and that a score threshold
// drops them.
func TestSuppressNaN(t *testing.T) {
	nan, least := math.NaN(), math.Inf(-1)
	boxes := []index.Box{{0, 0, 1, 1}, {0, 0, 1, 1}, {5, 0, 6, 1}, {9, 0, 10, 1}, {9, 0, 10, 1}, {2, 0, 3, 1}}
	scores := []float64{math.Inf(1), nan, 0.5, 0.5, nan, math.Copysign(0, -1)}
	if got := index.Suppress(t.Context(), boxes, scores, 0.5, nil, len(boxes)); !slices.Equal(got, []int{1, 4, 2, 5}) {
		t.Errorf("kept %v", got)
	}
	if got := index.Suppress(t.Context(), boxes, scores, 0.5, &least, len(boxes)); !slices.Equal(got, []int{0, 2, 3, 5}) {
		t.Errorf("with a threshold: kept %v", got)
	}
	if got := index.Suppress(t.Context(), nil, nil, 0.5, nil, 3); len(got) > 0 {
		t.Errorf("without boxes: kept %v", got)
	}
}
