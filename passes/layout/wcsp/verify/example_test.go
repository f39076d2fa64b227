package verify_test

import (
	"context"
	"fmt"

	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/passes/layout/wcsp/verify"
)

// The proof of a solution can be checked. A solution that claims more than its proof shows is rejected.
func ExampleSolution() {
	labels := []string{"nchw", "nhwc"}
	p := &wcsp.Problem{
		Variables: []wcsp.Variable{{Name: "conv1", Labels: labels}, {Name: "conv2", Labels: labels}},
		Factors: []wcsp.Factor{
			{Scope: []int{0}, Costs: []int64{50, 60}},
			{Scope: []int{1}, Costs: []int64{80, 40}},
			{Scope: []int{0, 1}, Costs: []int64{0, 25, 25, 0}},
		},
	}
	s, err := wcsp.Exact.Solve(p, wcsp.Options{Proof: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Cost, verify.Solution(context.Background(), p, s))
	p.Factors[0].Costs[0] = 10
	fmt.Println(verify.Solution(context.Background(), p, s))
	// Output:
	// 100 <nil>
	// verify: pruning 1: variable 0: label 0 can cost less than label 1
}
