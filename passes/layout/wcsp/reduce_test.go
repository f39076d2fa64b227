package wcsp_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// TestPBQP compares the solver with all assignments: if it states a bound, that is the optimum; otherwise the cost is
// that of its labels, and not below the optimum.
func TestPBQP(t *testing.T) {
	exact, heuristic, better := 0, 0, 0
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		p := random(rng)
		if seed%5 == 0 {
			p = dense(rng, 1, 4+rng.IntN(3))
		}
		best := cheapest(t, p)
		s, err := wcsp.PBQP.Solve(p, wcsp.Options{})
		if err != nil {
			if best < wcsp.Forbidden && !errors.Is(err, wcsp.ErrNotFound) {
				t.Fatalf("seed %d: %v, the optimum is %d", seed, err, best)
			}
			continue
		}
		if cost, err := p.Cost(s.Labels); err != nil || cost != s.Cost || cost < best || s.Bound != 0 && s.Bound != best {
			t.Fatalf("seed %d: cost %d, bound %d, labels cost %d, %v; the optimum is %d", seed, s.Cost, s.Bound, cost, err,
				best)
		}
		switch {
		case s.Optimal():
			exact++
		case s.Cost > best:
			better++
		default:
			heuristic++
		}
	}
	if exact < 500 || heuristic < 100 || better < 100 {
		t.Errorf("%d solved exactly, %d optimal by heuristic, %d not optimal", exact, heuristic, better)
	}
}

// seriesParallel makes a problem that reductions R0, RI and RII solve: each variable depends on one earlier variable,
// or on both ends of an earlier edge.
func seriesParallel(rng *rand.Rand, variables int) *wcsp.Problem {
	p := new(wcsp.Problem)
	var edges [][2]int
	for v := range variables {
		p.Variables = append(p.Variables, wcsp.Variable{Labels: make([]string, 1+rng.IntN(3))})
		if v == 0 {
			continue
		}
		if u := rng.IntN(v); rng.IntN(2) == 0 || len(edges) == 0 {
			edges = append(edges, [2]int{u, v})
			continue
		}
		e := edges[rng.IntN(len(edges))]
		edges = append(edges, [2]int{e[0], v}, [2]int{e[1], v})
	}
	for _, e := range edges {
		f := wcsp.Factor{Scope: e[:]}
		for range len(p.Variables[e[0]].Labels) * len(p.Variables[e[1]].Labels) {
			f.Costs = append(f.Costs, rng.Int64N(50))
		}
		p.Factors = append(p.Factors, f)
	}
	return p
}

// TestPBQPReductions checks that series-parallel problems are solved exactly, without the heuristic.
func TestPBQPReductions(t *testing.T) {
	for seed := range uint64(400) {
		p := seriesParallel(rand.New(rand.NewPCG(seed, 3)), 9)
		s, err := wcsp.PBQP.Solve(p, wcsp.Options{})
		if best := cheapest(t, p); err != nil || s.Cost != best || !s.Optimal() {
			t.Fatalf("seed %d: %+v, %v; the optimum is %d", seed, s, err, best)
		}
	}
}

// TestPBQPHeuristic checks the choice of RN by hand: four variables depend on each other, so the first one gets a
// label by RN. Label 0 costs 5 with neighbours at their cheapest labels, label 1 costs 6; but the neighbours disagree
// at these labels, so that the optimum is label 1.
func TestPBQPHeuristic(t *testing.T) {
	two := []string{"a", "b"}
	p := &wcsp.Problem{Variables: []wcsp.Variable{{Labels: two}, {Labels: two}, {Labels: two}, {Labels: two}},
		Factors: []wcsp.Factor{{Scope: []int{0}, Costs: wcsp.Costs{5, 6}}}}
	for v := 1; v < 4; v++ {
		costs := wcsp.Costs{100, 0, 0, 0} // with label 0 of variable 0, label 0 is expensive
		if v == 1 {
			costs = wcsp.Costs{0, 100, 0, 0}
		}
		p.Factors = append(p.Factors, wcsp.Factor{Scope: []int{0, v}, Costs: costs})
		for u := 1; u < v; u++ { // equal labels are free
			p.Factors = append(p.Factors, wcsp.Factor{Scope: []int{u, v}, Costs: wcsp.Costs{0, 30, 30, 0}})
		}
	}
	s, err := wcsp.PBQP.Solve(p, wcsp.Options{})
	if err != nil || !slices.Equal(s.Labels, []int{0, 0, 1, 1}) || s.Cost != 65 || s.Bound != 0 {
		t.Errorf("%+v, %v; want labels 0 0 1 1 at 65 without a bound", s, err)
	}
	if best := cheapest(t, p); best != 6 {
		t.Errorf("the optimum is %d, want 6", best)
	}
}

// TestInOrder compares dynamic programming in random orders with all assignments, with tables of any limit.
func TestInOrder(t *testing.T) {
	solved, large := 0, 0
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 4))
		p := random(rng)
		order := rng.Perm(len(p.Variables))
		s, err := wcsp.InOrder(order).Solve(p, wcsp.Options{MaxTable: []int{0, 40, 400}[rng.IntN(3)]})
		best := cheapest(t, p)
		switch {
		case errors.Is(err, wcsp.ErrTooLarge):
			large++
		case best == wcsp.Forbidden:
			if err == nil {
				t.Fatalf("seed %d: a forbidden problem has solution %+v", seed, s)
			}
		case err != nil || s.Cost != best || s.Bound != best:
			t.Fatalf("seed %d: %+v, %v; the optimum is %d", seed, s, err, best)
		default:
			solved++
		}
	}
	if solved < 500 || large < 100 {
		t.Errorf("%d solved, %d too large", solved, large)
	}
	p := dense(rand.New(rand.NewPCG(1, 1)), 1, 3)
	for _, order := range [][]int{nil, {0, 1}, {0, 1, 1}, {0, 1, 3}, {-1, 0, 1}, {0, 1, 2, 2}} {
		if _, err := wcsp.InOrder(order).Solve(p, wcsp.Options{}); err == nil {
			t.Errorf("order %v is accepted", order)
		}
	}
}
