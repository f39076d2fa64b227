package wcsp_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/internal/testsize"
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
		list, _, err := wcsp.Classes(p, 6, wcsp.Options{TimeLimit: -1, MaxTable: []int{0, 3}[rng.IntN(2)]}, classes)
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

// colours returns a problem of variables with three labels, of which neighbours must not have the same.
func colours(rng *rand.Rand, n, edges int) *wcsp.Problem {
	p := new(wcsp.Problem)
	for v := range n {
		p.Variables = append(p.Variables, wcsp.Variable{Name: fmt.Sprint("v", v), Labels: make([]string, 3)})
	}
	for range edges {
		a := rng.IntN(n)
		f := wcsp.Factor{Scope: []int{a, (a + 1 + rng.IntN(n-1)) % n}}
		for k := range 9 {
			c := rng.Int64N(9)
			if k%4 == 0 {
				c = wcsp.Forbidden
			}
			f.Costs = append(f.Costs, c)
		}
		p.Factors = append(p.Factors, f)
	}
	return p
}

// TestClassesCut holds lists of problems that are not searched: of some parts nothing is found, and what was found of
// others stays.
func TestClassesCut(t *testing.T) {
	listed := 0
	for seed := range testsize.Of[uint64](25, 100) {
		rng := rand.New(rand.NewPCG(seed, 10))
		p := colours(rng, 20+rng.IntN(15), 60)
		classes := make([][]int, len(p.Variables))
		for v := range classes {
			classes[v] = []int{0, rng.IntN(2), 2}
		}
		options := wcsp.Options{MaxTable: 1 + rng.IntN(8)}
		first, failed := wcsp.Exact.Solve(p, options)
		list, _, err := wcsp.Classes(p, 6, options, classes)
		if failed != nil {
			if err == nil || err.Error() != failed.Error() {
				t.Fatalf("problem %d: %v, alone %v", seed, err, failed)
			}
			continue
		}
		if err != nil || len(list) == 0 || !slices.Equal(list[0].Labels, first.Labels) {
			t.Fatalf("problem %d: %d combinations, %v; one is known", seed, len(list), err)
		}
		seen := map[string]bool{}
		for _, s := range list {
			var of []int
			for v, l := range s.Labels {
				of = append(of, classes[v][l])
			}
			c, err := p.Cost(s.Labels)
			if err != nil || c != s.Cost || c == wcsp.Forbidden || s.Bound > c || seen[fmt.Sprint(of)] {
				t.Errorf("problem %d: %v costs %d, said to be %d with bound %d: %v", seed, of, c, s.Cost, s.Bound, err)
			}
			seen[fmt.Sprint(of)] = true
			listed++
		}
	}
	if listed < testsize.Of(25, 100) {
		t.Errorf("only %d assignments were listed", listed)
	}
}

func TestClassesRefuses(t *testing.T) {
	p := pictures()
	if _, _, err := wcsp.Classes(nil, 1, wcsp.Options{}, nil); err == nil {
		t.Error("no problem is solved")
	}
	if _, _, err := wcsp.Classes(p, 0, wcsp.Options{}, make([][]int, len(p.Variables))); err == nil {
		t.Error("no combinations are listed")
	}
	if _, _, err := wcsp.Classes(p, 1, wcsp.Options{}, nil); err == nil {
		t.Error("there are no classes")
	}
	classes := make([][]int, len(p.Variables))
	classes[0] = []int{1, 2, 3, 4, 5, 6, 7, 8, 9}
	if _, _, err := wcsp.Classes(p, 1, wcsp.Options{}, classes); err == nil {
		t.Error("there are more classes than labels")
	}
}
