// Command research is a template for experiments with layouts. It is the command graphrun with an op with kernels and
// prices (op.go), an implementation and a price of existing ops (impl.go), a cost profile and a strategy that chooses
// layouts (strategy.go), and a pass (pass.go). The graph is an ONNX model with the op as a custom operator (model.go).
//
//	go run ./examples/research demo
//	go run ./examples/research export block.onnx
//	go run ./examples/research compare block.onnx --strategies propagate,descent,optimal
package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

func main() {
	options, err := extensions()
	check(err)
	cli.Main(options...)
}

// ops returns the op of this program, and the ops of graphrun that it extends.
func ops() ([]*graph.Op, error) {
	norm, err := channelNorm()
	if err != nil {
		return nil, err
	}
	pool, err := tiledPool()
	if err != nil {
		return nil, err
	}
	conv, err := slowWindows()
	return []*graph.Op{norm, pool, conv}, err
}

// operators has the converter of the custom operator.
var operators = onnx.Operators{domain: {"ChannelNorm": onnx.As("channel_norm")}}

// extensions returns what this program adds to the command graphrun.
func extensions() ([]cli.Option, error) {
	list, err := ops()
	if err != nil {
		return nil, err
	}
	added := cse
	added.After = "infer"
	return []cli.Option{cli.WithOps(list...), cli.WithOperators(operators), cli.WithStrategy(descent{}),
		cli.WithPasses(added),
		cli.WithCommand(&cobra.Command{Use: "demo", Short: "Plan and measure the network of this program",
			RunE: func(*cobra.Command, []string) error { demonstrate(); return nil }}),
		cli.WithCommand(&cobra.Command{Use: "export FILE.onnx", Short: "Write the network of this program",
			Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, args []string) error { return export(args[0]) }}),
	}, nil
}

// demonstrate plans and measures the network in Go, with the same parts.
func demonstrate() {
	g, err := load()
	check(err)
	fmt.Println("a custom norm, priced by a custom cost profile:")
	costs := map[string]float64{}
	least := math.Inf(1)
	for _, s := range append(graphrun.Strategies(), descent{}) {
		p, err := graphrun.Compile(context.Background(), g, graphrun.Options{Strategy: s, Costs: phone})
		check(err)
		plan := p.Report()
		costs[s.Name()] = plan.CostNS
		least = min(least, plan.CostNS)
		if s == graphrun.Propagate || s == graphrun.ChannelsLast || s == graphrun.Optimal || s.Name() == "descent" {
			fmt.Printf("%s: implementation of the norm: %s, of the pooling: %s, the photo is copied: %t\n", s.Name(),
				implOf(plan, "norm"), implOf(plan, "small"), copies(plan, "photo"))
		}
	}
	fmt.Println("descent is cheaper than propagate:", costs["descent"] < costs["propagate"]*0.9)
	fmt.Println("no strategy is cheaper than optimal:", costs["optimal"] <= least+0.001)
	check(measure(g))
	check(compare(g))
}

// measure measures the plans of all strategies side by side, and prints the table and the verdict of graphrun compare
// to standard error.
func measure(g *graph.Graph) error {
	var list []experiment.Candidate
	for _, s := range append(graphrun.Strategies(), descent{}) {
		p, err := graphrun.Compile(context.Background(), g, graphrun.Options{Strategy: s, Costs: phone})
		if err != nil {
			return err
		}
		list = append(list, experiment.Candidate{Program: p})
	}
	c, err := experiment.Compare(context.Background(), list, photo(), experiment.Options{})
	if err != nil {
		return err
	}
	fmt.Fprint(os.Stderr, c.Table())
	fmt.Fprintln(os.Stderr, c.Verdict.Text)
	fmt.Println("all strategies give the same values:", len(c.Differences) == 0)
	return nil
}

// photo generates an image.
func photo() map[string]*tensor.Tensor {
	t := tensor.Zeros(tensor.Float32, 1, 3, 64, 64)
	for i := range t.Numel() {
		t.SetFlat(i, tensor.FloatScalar(math.Sin(float64(i))))
	}
	return map[string]*tensor.Tensor{"photo": t}
}

// copies reports whether a plan copies a value.
func copies(plan *report.Plan, value string) bool {
	return slices.ContainsFunc(plan.Copies, func(c report.Copy) bool { return c.Value == value })
}

// implOf returns the name of the implementation with which a plan computes a node.
func implOf(plan *report.Plan, node string) string {
	for _, s := range plan.Steps {
		if s.Name == node {
			return s.Impl
		}
	}
	return "nothing"
}

// compare runs the graph with all extensions, and compares the outputs with the results of the reference
// implementations.
func compare(g *graph.Graph) error {
	list, err := passes.After(passes.Passes(), "infer", cse)
	if err != nil {
		return err
	}
	p, err := graphrun.Compile(context.Background(), g, graphrun.Options{Strategy: descent{}, Costs: phone, Passes: list, Check: true})
	if err != nil {
		return err
	}
	plan := p.Report()
	for _, entry := range plan.Passes {
		if entry.Pass == cse.Name {
			fmt.Printf("pass %s (%s): %s\n", entry.Pass, entry.Doc, entry.Did)
		}
	}
	fmt.Println("outputs not checked after every pass:", len(plan.Unchecked))
	in := photo()
	out, err := p.Run(context.Background(), in)
	if err != nil {
		return err
	}
	references, err := graph.Evaluate(g, in)
	if err != nil {
		return err
	}
	for _, name := range []string{"class", "score"} {
		have, err := tensor.ToSlice[float32](out[name])
		if err != nil {
			return err
		}
		want, err := tensor.ToSlice[float32](references[name])
		if err != nil {
			return err
		}
		agree := true
		for i := range want {
			agree = agree && math.Abs(float64(have[i]-want[i])) < 1e-4*max(1, math.Abs(float64(want[i])))
		}
		fmt.Printf("%s: %d elements agree with the references: %t\n", name, len(want), agree)
	}
	return nil
}

// load writes the network to an ONNX file and imports it with the custom op.
func load() (*graph.Graph, error) {
	dir, err := os.MkdirTemp("", "research")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "block.onnx")
	if err := export(path); err != nil {
		return nil, err
	}
	list, err := ops()
	if err != nil {
		return nil, err
	}
	lookup, err := graphrun.Lookup(list...)
	if err != nil {
		return nil, err
	}
	return graphrun.Loader{Lookup: lookup, Operators: operators}.Load(context.Background(), path)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
