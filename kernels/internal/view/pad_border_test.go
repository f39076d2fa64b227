package view_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/kernels/internal/view"
)

// TestBorderSpans compares the spans of all small paddings with the table of indices.
func TestBorderSpans(t *testing.T) {
	calls := 0
	for _, mode := range []string{"reflect", "replicate", "circular"} {
		for n := 1; n <= 5; n++ {
			most := n // of the padding
			if mode == "reflect" {
				most = 3 * n // reflections are reflected again
			}
			for before := -n; before <= most; before++ {
				for after := -n; after <= most; after++ {
					if n+before+after < 0 || mode == "circular" && n+min(before, 0)+min(after, 0) < 0 ||
						mode != "circular" && -min(before, after) >= n {
						continue
					}
					calls++
					table, next := view.BorderTable(mode, n, before, after), 0
					for _, s := range view.BorderSpans(mode, n, before, after) {
						for i := range s.Count {
							if at := s.InStart + i*s.InStep; s.OutStart != next-i || next >= len(table) || table[next] != at {
								t.Fatalf("%s of %d by %d, %d: index %d reads %d; the table is %v", mode, n, before, after, next, at, table)
							}
							next++
						}
					}
					if next != len(table) {
						t.Fatal(fmt.Sprint(mode, n, before, after), "spans cover", next, "of", len(table))
					}
				}
			}
		}
	}
	if calls < 100 {
		t.Fatal("only", calls, "paddings were compared")
	}
	if table := view.BorderTable("reflect", 3, 5, 5); !slices.Equal(table, []int{1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1}) {
		t.Fatal("3 elements reflected by 5 and 5:", table)
	}
	// The number of spans does not grow with the padding.
	if s := view.BorderSpans("replicate", 1, 0, min(1<<40, math.MaxInt)); len(s) != 2 {
		t.Fatal("a replicated border of 2^40 elements has spans", s)
	}
}
