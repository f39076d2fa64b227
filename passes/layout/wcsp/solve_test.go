package wcsp_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/passes/layout/wcsp/verify"
)

// random makes a small problem: sparse or dense, with factors of no cost, parallel ones, forbidden costs and ties.
func random(rng *rand.Rand) *wcsp.Problem {
	p := new(wcsp.Problem)
	for v := range 2 + rng.IntN(8) {
		p.Variables = append(p.Variables, wcsp.Variable{Name: fmt.Sprint("v", v),
			Labels: make([]string, 1+rng.IntN(4))})
	}
	forbidden, most := rng.IntN(4), 1+rng.Int64N(20)
	if rng.IntN(4) == 0 {
		most = 1 << 40
	}
	for range rng.IntN((2 + 3*rng.IntN(3)) * len(p.Variables)) {
		var f wcsp.Factor
		for range []int{0, 1, 1, 2, 2, 2, 2, 2}[rng.IntN(8)] {
			if v := rng.IntN(len(p.Variables)); len(f.Scope) == 0 || f.Scope[0] != v {
				f.Scope = append(f.Scope, v)
			}
		}
		size := 1
		for _, v := range f.Scope {
			size *= len(p.Variables[v].Labels)
		}
		zero := rng.IntN(8) == 0
		for range size {
			c := rng.Int64N(most)
			if zero {
				c = 0
			} else if rng.IntN(10) < forbidden {
				c = wcsp.Forbidden
			}
			f.Costs = append(f.Costs, c)
		}
		p.Factors = append(p.Factors, f)
	}
	return p
}

// dense makes a problem of groups of variables that all depend on one another: small tables do not settle it.
func dense(rng *rand.Rand, groups, size int) *wcsp.Problem {
	const labels = 3
	p := new(wcsp.Problem)
	for v := range groups * size {
		p.Variables = append(p.Variables, wcsp.Variable{Labels: make([]string, labels)})
		for u := v / size * size; u < v; u++ {
			f := wcsp.Factor{Scope: []int{v, u}}
			for range labels * labels {
				f.Costs = append(f.Costs, rng.Int64N(1000))
			}
			p.Factors = append(p.Factors, f)
		}
	}
	return p
}

// each calls f with all assignments.
func each(p *wcsp.Problem, f func(labels []int)) {
	labels := make([]int, len(p.Variables))
	for {
		f(labels)
		v := len(labels) - 1
		for ; v >= 0; v-- {
			if labels[v]++; labels[v] < len(p.Variables[v].Labels) {
				break
			}
			labels[v] = 0
		}
		if v < 0 {
			return
		}
	}
}

// cheapest is what the best assignment costs, by trying all.
func cheapest(t *testing.T, p *wcsp.Problem) int64 {
	t.Helper()
	best := wcsp.Forbidden
	each(p, func(labels []int) {
		c := int64(0)
		for _, f := range p.Factors {
			at := 0
			for _, v := range f.Scope {
				at = at*len(p.Variables[v].Labels) + labels[v]
			}
			if c += f.Costs[at]; c >= wcsp.Forbidden {
				return
			}
		}
		best = min(best, c)
	})
	return best
}

// TestExact holds optima against those that are found by trying everything, and has their proofs checked, with tables
// of any size.
func TestExact(t *testing.T) {
	few := testsize.Of(3, 1)
	infeasible, splits, parts, pruned, large, shifts, cuts := 0, 0, 0, 0, 0, 0, 0
	for seed := range testsize.Of[uint64](2000, 6000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		p := random(rng)
		switch seed % 20 {
		case 0:
			p = dense(rng, 1, 7)
		case 10:
			p = dense(rng, 2, 4)
		}
		options := wcsp.Options{TimeLimit: -1, MaxTable: []int{0, 1, 2, 4, 8, 16}[rng.IntN(6)], Proof: true}
		want := cheapest(t, p)
		s, err := wcsp.Exact.Solve(p, options)
		var none *wcsp.InfeasibleError
		if errors.As(err, &none) && want == wcsp.Forbidden {
			infeasible++
			continue
		}
		if err != nil {
			t.Fatalf("problem %d: %v; the best assignment costs %d", seed, err, want)
		}
		if s.Cost != want || !s.Optimal() {
			t.Errorf("problem %d: cost %d, bound %d; the best assignment costs %d", seed, s.Cost, s.Bound, want)
		}
		if err := verify.Solution(t.Context(), p, s); err != nil {
			t.Errorf("problem %d: %v", seed, err)
		}
		pruned += len(s.Proof.Prunings)
		walk(&s.Proof.Root, func(n *wcsp.Node) {
			splits, parts = splits+min(len(n.Branches), 1), parts+max(len(n.Parts), 1)-1
			shifts, cuts = shifts+len(n.Shifts), cuts+len(n.Cuts)
			for _, step := range n.Steps {
				large += max(len(step.Buckets), 1) - 1
			}
		})
	}
	t.Logf("%d infeasible, %d splits, %d parts, %d prunings, %d second buckets, %d shifts, %d cuts", infeasible, splits,
		parts, pruned, large, shifts, cuts)
	if infeasible < 100/few || splits < 100/few || parts < 10/few || pruned < 1000/few || large < 100/few ||
		shifts < 1000/few || cuts < 100/few {
		t.Error("there are too few of some kind")
	}
}

func walk(n *wcsp.Node, f func(*wcsp.Node)) {
	f(n)
	for i := range n.Branches {
		walk(&n.Branches[i].Node, f)
	}
	for i := range n.Parts {
		walk(&n.Parts[i], f)
	}
}

// TestGap has no time for a search, next to none, or ends it on the way: the bound must be one all the same, with a
// proof.
func TestGap(t *testing.T) {
	gaps, split, few := 0, 0, testsize.Of(3, 1)
	for seed := range testsize.Of[uint64](1400, 4000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		p := random(rng)
		if seed%8 == 0 {
			p = dense(rng, 1, 7)
		}
		options := wcsp.Options{MaxTable: 1 + rng.IntN(4), Proof: true, TimeLimit: time.Duration(rng.IntN(3) - 1)}
		want := cheapest(t, p)
		s, err := wcsp.Exact.Solve(p, options)
		if options.TimeLimit < 0 {
			s, err = wcsp.SolveCutShort(p, options, rng.IntN(1000))
		}
		if err != nil {
			var none *wcsp.InfeasibleError
			if want < wcsp.Forbidden || !errors.As(err, &none) && !errors.Is(err, wcsp.ErrNotFound) {
				t.Errorf("problem %d: %v; the best assignment costs %d", seed, err, want)
			}
			continue
		}
		if s.Bound > want || want > s.Cost {
			t.Errorf("problem %d: cost %d, bound %d; the best assignment costs %d", seed, s.Cost, s.Bound, want)
		}
		if err := verify.Solution(t.Context(), p, s); err != nil {
			t.Errorf("problem %d: %v", seed, err)
		}
		if !s.Optimal() {
			gaps++
			walk(&s.Proof.Root, func(n *wcsp.Node) { split += min(len(n.Branches), 1) })
		}
	}
	if t.Logf("%d gaps, %d splits in proofs of them", gaps, split); gaps < 50/few || split < 20/few {
		t.Error("there are too few gaps, or splits")
	}
}

// TestMaxNodes bounds searches by their nodes: more must not find less, and enough find the optimum.
func TestMaxNodes(t *testing.T) {
	gaps := 0
	for seed := range uint64(50) {
		p := dense(rand.New(rand.NewPCG(seed, 8)), 1, 7)
		want, before := cheapest(t, p), int64(0)
		for _, nodes := range []int{1, 4, 16, 1 << 20} {
			s, err := wcsp.Exact.Solve(p, wcsp.Options{MaxTable: 2, TimeLimit: -1, MaxNodes: nodes, Proof: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := verify.Solution(t.Context(), p, s); err != nil {
				t.Errorf("problem %d, %d nodes: %v", seed, nodes, err)
			}
			if s.Bound < before || s.Bound > want || nodes == 1<<20 && (!s.Optimal() || s.Cost != want) {
				t.Errorf("problem %d, %d nodes: cost %d, bound %d; the best costs %d", seed, nodes, s.Cost, s.Bound, want)
			}
			if before = s.Bound; !s.Optimal() {
				gaps++
			}
		}
	}
	if gaps < 50 {
		t.Errorf("only %d searches were cut short", gaps)
	}
}

// TestSameEachTime solves problems twice: ties must be broken the same way.
func TestSameEachTime(t *testing.T) {
	for seed := range uint64(300) {
		var files [2]bytes.Buffer
		for i := range files {
			p := random(rand.New(rand.NewPCG(seed, 6)))
			s, err := wcsp.Exact.Solve(p, wcsp.Options{MaxTable: 4, TimeLimit: -1, Proof: true})
			if err != nil {
				files[i].WriteString(err.Error())
			} else if err := s.Write(&files[i]); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(files[0].Bytes(), files[1].Bytes()) {
			t.Errorf("problem %d: %s, then %s", seed, &files[0], &files[1])
		}
	}
}
