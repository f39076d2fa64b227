package wcsp_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/passes/layout/wcsp/verify"
)

// TestKBest holds lists against all assignments, sorted by cost: those that are told apart by all their labels, and
// those that are by the first two.
func TestKBest(t *testing.T) {
	listed := 0
	for seed := range uint64(1500) {
		rng := rand.New(rand.NewPCG(seed, 3))
		p := random(rng)
		var costs []int64
		classes := map[[2]int]int64{}
		each(p, func(labels []int) {
			c, err := p.Cost(labels)
			if err != nil {
				t.Fatal(err)
			}
			if c == wcsp.Forbidden {
				return
			}
			costs = append(costs, c)
			class := [2]int(labels)
			if least, there := classes[class]; !there || c < least {
				classes[class] = c
			}
		})
		var same func(a, b []int) bool
		if rng.IntN(2) == 0 {
			if len(costs) > 300 {
				continue // more than are looked at for ten
			}
			costs = nil
			for _, c := range classes {
				costs = append(costs, c)
			}
			same = func(a, b []int) bool { return slices.Equal(a[:2], b[:2]) }
		}
		slices.Sort(costs)
		options := wcsp.Options{TimeLimit: -1, MaxTable: []int{0, 1, 3, 9}[rng.IntN(4)], Proof: true}
		list, _, err := wcsp.KBest(p, 10, options, same)
		var none *wcsp.InfeasibleError
		if len(costs) == 0 && errors.As(err, &none) {
			continue
		}
		if err != nil || len(list) != min(10, len(costs)) {
			t.Errorf("problem %d: %d assignments of %d, %v", seed, len(list), len(costs), err)
			continue
		}
		if err := verify.Solution(t.Context(), p, list[0]); err != nil {
			t.Errorf("problem %d: %v", seed, err)
		}
		for i, s := range list {
			listed++
			c, err := p.Cost(s.Labels)
			if err != nil || c != s.Cost || c != costs[i] || s.Bound != costs[0] {
				t.Errorf("problem %d: assignment %d costs %d, said to be %d with bound %d; it should be %d: %v", seed, i, c,
					s.Cost, s.Bound, costs[i], err)
			}
			for _, other := range list[:i] {
				if slices.Equal(s.Labels, other.Labels) || same != nil && same(s.Labels, other.Labels) {
					t.Errorf("problem %d: %v is there twice", seed, s.Labels)
				}
			}
		}
	}
	if listed < 5000 {
		t.Errorf("only %d assignments were listed", listed)
	}
}

// TestKBestOfTopology lists many assignments of a problem of a thousand ops.
func TestKBestOfTopology(t *testing.T) {
	p := resnet(3)
	list, _, err := wcsp.KBest(p, 200, wcsp.Options{}, nil)
	if err != nil || len(list) != 200 {
		t.Fatalf("%d assignments, %v", len(list), err)
	}
	for i, s := range list[1:] {
		if c, err := p.Cost(s.Labels); err != nil || c != s.Cost || c < list[i].Cost {
			t.Errorf("assignment %d costs %d, said to be %d, after one of %d: %v", i+1, c, s.Cost, list[i].Cost, err)
		}
	}
}

// TestKBestTimedOut lists plans of a problem that is not solved without a search, and permits no search.
func TestKBestTimedOut(t *testing.T) {
	p := colours(rand.New(rand.NewPCG(7, 10)), 12, 60)
	for i := range p.Factors { // every assignment is feasible
		for k, c := range p.Factors[i].Costs {
			p.Factors[i].Costs[k] = min(c, 99)
		}
	}
	limited := wcsp.Options{MaxTable: 1}
	list, timedOut, err := wcsp.KBest(p, 3, limited, nil)
	if err != nil || len(list) != 1 || !timedOut {
		t.Errorf("%d assignments, timed out: %v, %v", len(list), timedOut, err)
	}
	limited.TimeLimit = -1
	if list, timedOut, err := wcsp.KBest(p, 3, limited, nil); err != nil || len(list) != 3 || timedOut {
		t.Errorf("%d assignments, timed out: %v, %v", len(list), timedOut, err)
	}
}

func TestKBestRefuses(t *testing.T) {
	if _, _, err := wcsp.KBest(pictures(), 0, wcsp.Options{}, nil); err == nil {
		t.Error("no assignments are listed")
	}
	if _, _, err := wcsp.KBest(nil, 1, wcsp.Options{}, nil); err == nil {
		t.Error("no problem is solved")
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
