package verify_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/internal/interrupt/interrupttest"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/passes/layout/wcsp/verify"
)

// TestSolutionEnds checks that the check of a long proof ends with the context.
func TestSolutionEnds(t *testing.T) {
	const variables, labels = 20, 64 // a ring
	p, rng := new(wcsp.Problem), rand.New(rand.NewPCG(3, 0))
	for v := range variables {
		p.Variables = append(p.Variables, wcsp.Variable{Name: fmt.Sprint("v", v), Labels: make([]string, labels)})
		f := wcsp.Factor{Scope: []int{v, (v + 1) % variables}}
		for range labels * labels {
			f.Costs = append(f.Costs, 1+rng.Int64N(1000))
		}
		p.Factors = append(p.Factors, f)
	}
	s, err := wcsp.Exact.Solve(p, wcsp.Options{TimeLimit: -1, Proof: true})
	if err != nil {
		t.Fatal(err)
	}
	all := interrupttest.EndAtCheck(0)
	if err := verify.Solution(all, p, s); err != nil || all.Checks() < 8 {
		t.Fatalf("%v after %d looks", err, all.Checks())
	}
	for n := 1; n <= all.Checks(); n += n {
		if err := verify.Solution(interrupttest.EndAtCheck(n), p, s); err != interrupttest.ErrEnded {
			t.Errorf("at look %d of %d: %v", n, all.Checks(), err)
		}
	}
}
