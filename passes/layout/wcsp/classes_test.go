package wcsp_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// TestClasses holds lists against all assignments: the cheapest of each combination of classes, sorted by cost.
func TestClasses(t *testing.T) {
	listed := 0
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 9))
		p := random(rng)
		classes := make([][]int, len(p.Variables))
		for v := range classes {
			if rng.IntN(3) == 0 {
				continue
			}
			for range p.Variables[v].Labels {
				classes[v] = append(classes[v], rng.IntN(3))
			}
		}
		of := func(labels []int) string {
			var list []int
			for v, c := range classes {
				if c != nil {
					list = append(list, c[labels[v]])
				}
			}
			return fmt.Sprint(list)
		}
		best := map[string]int64{}
		each(p, func(labels []int) {
			c, err := p.Cost(labels)
			if err != nil {
				t.Fatal(err)
			}
			if least, there := best[of(labels)]; c < wcsp.Forbidden && (!there || c < least) {
				best[of(labels)] = c
			}
		})
		want := slices.Sorted(maps.Values(best))
		want = want[:min(6, len(want))]
		list, err := wcsp.Classes(p, 6, wcsp.Options{TimeLimit: -1, MaxTable: []int{0, 3}[rng.IntN(2)]}, classes)
		var none *wcsp.InfeasibleError
		if len(want) == 0 && errors.As(err, &none) {
			continue
		}
		if err != nil || len(list) != len(want) {
			t.Fatalf("problem %d: %d combinations of %d, %v", seed, len(list), len(want), err)
		}
		seen := map[string]bool{}
		for i, s := range list {
			listed++
			c, err := p.Cost(s.Labels)
			if err != nil || c != s.Cost || c != want[i] || s.Bound != want[0] || seen[of(s.Labels)] {
				t.Errorf("problem %d: combination %d (%s) costs %d, said to be %d with bound %d; it should be %d: %v", seed, i,
					of(s.Labels), c, s.Cost, s.Bound, want[i], err)
			}
			seen[of(s.Labels)] = true
		}
	}
	if listed < 1000 {
		t.Errorf("only %d assignments were listed", listed)
	}
}

func TestClassesRefuses(t *testing.T) {
	p := pictures()
	if _, err := wcsp.Classes(nil, 1, wcsp.Options{}, nil); err == nil {
		t.Error("no problem is solved")
	}
	if _, err := wcsp.Classes(p, 0, wcsp.Options{}, make([][]int, len(p.Variables))); err == nil {
		t.Error("no combinations are listed")
	}
	if _, err := wcsp.Classes(p, 1, wcsp.Options{}, nil); err == nil {
		t.Error("there are no classes")
	}
	classes := make([][]int, len(p.Variables))
	classes[0] = []int{1, 2, 3, 4, 5, 6, 7, 8, 9}
	if _, err := wcsp.Classes(p, 1, wcsp.Options{}, classes); err == nil {
		t.Error("there are more classes than labels")
	}
}
