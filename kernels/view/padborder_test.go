package view

import (
	"slices"
	"testing"
)

// TestCircularPads holds the third source against numbers from PyTorch 1.13: the
// reference shares the tables of indices with the kernel.
func TestCircularPads(t *testing.T) {
	for _, tc := range []struct {
		mode          string
		before, after int
		want          []int
	}{
		{"circular", 2, 1, []int{3, 4, 0, 1, 2, 3, 4, 0}},
		{"circular", -3, 3, []int{3, 4, 3, 4, 3}},
		{"reflect", 2, 3, []int{2, 1, 0, 1, 2, 3, 4, 3, 2, 1}},
		{"reflect", -3, 3, []int{3, 4, 3, 2, 1}},
		{"replicate", 1, 2, []int{0, 0, 1, 2, 3, 4, 4, 4}},
		{"replicate", -3, 3, []int{3, 4, 4, 4, 4}},
	} {
		if got := borderTable(tc.mode, 5, tc.before, tc.after); !slices.Equal(got, tc.want) {
			t.Errorf("%s %d, %d: %v, want %v", tc.mode, tc.before, tc.after, got, tc.want)
		}
	}
}
