package exec_test

import (
	"context"
	"fmt"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/tensor"
)

// A planned graph becomes a program. What it needs is known before it runs, and the memory of a session is for one run
// after the other, into tensors of the caller's own.
func Example() {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 4)
	sorted, _ := op.Sort(op.Mul(op.Exp(x), 2))
	g.Output("y", sorted)
	plan, err := passes.Run(g, passes.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := exec.Compile(plan.Graph, exec.Options{Threads: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range p.Steps() {
		fmt.Println(s.Node.Op.Name, s.Strides)
	}
	s := p.NewSession()
	out := []*tensor.Tensor{tensor.Zeros(tensor.Float32, 4)}
	for _, v := range []float32{0, 1} {
		in := tensor.Must(tensor.FromSlice([]float32{v, 0, 0, 0}, 4))
		if err := s.RunInto(context.Background(), []*tensor.Tensor{in}, out); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%.3f\n", out[0].At(3).Float())
	}
	// Output:
	// fused [1]
	// sort [1]
	// 2.000
	// 5.437
}
