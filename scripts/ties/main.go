// Among plans of equal cost, the planner takes the plan with the fewest copies, then with the least memory for copies.
// Command ties counts the copies of the cheapest plan of each network with and without this rule, and prints a table of
// the networks that differ.
//
//	go run ./scripts/ties MODEL.onnx MODEL.json ...
//
// The rule and the table count inserted copies, not copies that nodes of the graph make. The column KiB counts the
// memory of both. Symbolic sizes have the hints of the file, else 2. Networks whose sizes depend on data are not
// planned.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/onnx"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
)

// errStopped ends planning when the plans are compared.
var errStopped = errors.New("the plans are compared")

// plan has the figures of a chosen plan.
type plan struct {
	ps     int64 // the cost in picoseconds
	copies int   // inserted copies
	bytes  int   // the memory of all copies
}

// comparer is a strategy that solves the problem twice.
type comparer struct{ without, with plan }

// Name implements [layout.Strategy].
func (*comparer) Name() string { return "ties" }

// Choose implements [layout.Strategy]. It computes both plans, and always returns an error.
func (c *comparer) Choose(p *layout.Problem) (*layout.Assignment, error) {
	model, err := layout.NewModel(p)
	if err != nil {
		return nil, err
	}
	// In the first plan, copies and their bytes do not count.
	if c.without, err = solve(model, layout.Changed{Weights: layout.Weights{Time: 1}}); err != nil {
		return nil, err
	}
	if c.with, err = solve(model, layout.Changed{}); err != nil {
		return nil, err
	}
	return nil, errStopped
}

// solve returns the plan of least weighted cost.
func solve(model *layout.Model, changed layout.Changed) (plan, error) {
	solution, err := model.Solve(changed)
	if err != nil {
		return plan{}, err
	}
	if !solution.Optimal() {
		return plan{}, errors.New("the solver reached its time limit")
	}
	outcome, err := solution.Outcome()
	if err != nil {
		return plan{}, err
	}
	chosen := plan{ps: outcome.CostPS, copies: outcome.Inserted}
	for _, c := range outcome.Copies {
		chosen.bytes += c.Bytes
	}
	return chosen, nil
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./scripts/ties MODEL...")
		os.Exit(2)
	}
	var without, with plan
	planned, differCount := 0, 0
	fmt.Println("| network | copies without the rule | copies with it | KiB without it | KiB with it |\n" +
		"| --- | ---: | ---: | ---: | ---: |")
	row := func(name string, without, with plan) {
		fmt.Printf("| %s | %d | %d | %.1f | %.1f |\n", name, without.copies, with.copies, float64(without.bytes)/1024,
			float64(with.bytes)/1024)
	}
	for _, file := range os.Args[1:] {
		c, err := compare(file)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
			continue
		}
		if c.with.ps != c.without.ps {
			fmt.Fprintf(os.Stderr, "%s: the costs differ: %d and %d ps\n", file, c.without.ps, c.with.ps)
			os.Exit(1)
		}
		planned++
		without.copies, with.copies = without.copies+c.without.copies, with.copies+c.with.copies
		without.bytes, with.bytes = without.bytes+c.without.bytes, with.bytes+c.with.bytes
		if c.with != c.without {
			differCount++
			row(nameOf(file), c.without, c.with)
		}
	}
	row(fmt.Sprintf("%d networks; %d differ", planned, differCount), without, with)
}

// compare makes both plans of a file: see [comparer.Choose], which then stops the planner with errStopped.
func compare(file string) (*comparer, error) {
	g, err := load(file)
	if err != nil {
		return nil, err
	}
	if err := g.Bind(nil); err != nil {
		return nil, err
	}
	c := &comparer{}
	if _, err := passes.Run(g, passes.Options{Strategy: c}); !errors.Is(err, errStopped) {
		return nil, errors.Join(err, errors.New("no layouts are chosen for the whole graph"))
	}
	return c, nil
}

// load reads a graph file or an ONNX model.
func load(file string) (*graph.Graph, error) {
	if filepath.Ext(file) == ".onnx" {
		return onnx.Load(file, onnx.Options{})
	}
	return graphfile.Load(file, kernels.Lookup)
}

// nameOf returns the name of a network: its folder if the file is model.onnx.
func nameOf(file string) string {
	name := filepath.Base(file)
	if name == "model.onnx" {
		name = filepath.Base(filepath.Dir(file))
	}
	return strings.TrimSuffix(strings.TrimSuffix(name, ".onnx"), ".json")
}
