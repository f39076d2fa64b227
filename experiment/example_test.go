package experiment_test

import (
	"fmt"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/experiment"
)

// A certificate proves to anyone who has the graph that no plan of the forms considered costs less at the prices of its
// profile.
func ExampleVerify() {
	g, err := graphrun.Load(ctx, "../examples/models/residual.json")
	check(err)
	p, err := graphrun.Compile(ctx, g, graphrun.Options{Strategy: graphrun.Optimal})
	check(err)
	c, err := experiment.Certify(p)
	check(err)
	v, err := experiment.Verify(ctx, g, c)
	check(err)
	fmt.Println(v.Optimal, v.CostNS == v.BoundNS)
	c.Solution.Cost-- // a false claim
	_, err = experiment.Verify(ctx, g, c)
	fmt.Println(err != nil)
	// Output:
	// true true
	// true
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
