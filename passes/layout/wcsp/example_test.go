package wcsp_test

import (
	"fmt"

	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// pictures are two convolutions in a row, each of which can be computed in two layouts. What differs has to be copied
// in between.
func pictures() *wcsp.Problem {
	layouts := []string{"nchw", "nhwc"}
	return &wcsp.Problem{
		Variables: []wcsp.Variable{{Name: "conv1", Labels: layouts}, {Name: "conv2", Labels: layouts}},
		Factors: []wcsp.Factor{
			{Scope: []int{0}, Costs: []int64{50, 60}},
			{Scope: []int{1}, Costs: []int64{80, 40}},
			{Scope: []int{0, 1}, Costs: []int64{0, 25, 25, 0}},
		},
	}
}

// The first convolution is faster in one layout, the second in the other, by more; a copy costs more than the first
// would save.
func ExampleSolver() {
	p := pictures()
	s, err := wcsp.Exact.Solve(p, wcsp.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for v, l := range s.Labels {
		fmt.Println(p.Variables[v].Name, p.Variables[v].Labels[l])
	}
	fmt.Println("costs", s.Cost, "and nothing less than", s.Bound, "is possible")
	// Output:
	// conv1 nhwc
	// conv2 nhwc
	// costs 100 and nothing less than 100 is possible
}

// What comes next, and what it costs more.
func ExampleKBest() {
	p := pictures()
	list, _, err := wcsp.KBest(p, 3, wcsp.Options{}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range list {
		fmt.Println(p.Variables[0].Labels[s.Labels[0]], p.Variables[1].Labels[s.Labels[1]], s.Cost, s.Cost-s.Bound)
	}
	// Output:
	// nhwc nhwc 100 0
	// nchw nhwc 115 15
	// nchw nchw 130 30
}
