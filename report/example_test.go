package report_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// summary lists the costs of a plan.
func summary(r *report.Plan) string {
	return fmt.Sprint(r.Costs().Copies, " copies, ", r.Costs().MovedBytes, " bytes moved")
}

// A plan is data: its fields, and JSON with the keys of graphrun plan --json.
func ExamplePlan() {
	g := graphrun.New("example")
	x := g.InputFormat("x", tensor.Float32, tensor.ChannelsLast, 2, 3, 4, 5)
	g.Output("y", op.Relu(x).Pinned(tensor.Contiguous))
	p, err := graphrun.Compile(context.Background(), g, graphrun.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := p.Report()
	for _, s := range r.Steps {
		fmt.Println(s.Ops, s.Op, s.Strides)
	}
	fmt.Println(summary(r))
	text, err := json.Marshal(r.Elided)
	fmt.Println(string(text), err)
	// Output:
	// [relu] relu [60 20 5 1]
	// 0 copies, 960 bytes moved
	// [] <nil>
}
