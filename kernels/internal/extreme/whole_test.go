//go:build (linux || darwin) && !386 && !arm

package extreme_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// planLimit bounds the memory that a program needs besides operands with far elements.
const planLimit = 64 << 20

// planBytes bounds the allocations of planning: a multiple of the program's memory, and a constant for each result.
// Tables of a Fourier transform take several times its result.
func (c *call) planBytes(g *graph.Graph) (n uint64) {
	n = 3 * planLimit
	for _, node := range g.Nodes {
		n += 16384*uint64(len(node.Out)) + uint64(min(64*node.Out[0].Meta.Bytes(), 1<<30))
	}
	return n
}

// plan compiles a call whose results are too large to be computed, which must be refused or cost no memory.
func (c *call) plan(g *graph.Graph) error {
	before := allocated()
	now.begin(c, "plan")
	_, err := graphrun.Compile(context.Background(), g, c.options())
	if n := allocated() - before; n > c.planBytes(g) {
		return fmt.Errorf("planning allocates %d bytes: %w", n, err)
	}
	return unexpected(err)
}

// options are those of a program for the call.
func (c *call) options() graphrun.Options {
	d, limit := c.choices, planLimit
	for _, m := range c.in {
		if isFar(m) {
			limit += farBytes
		}
	}
	return graphrun.Options{Strategy: pick(d, graphrun.Strategies()...), Threads: 1 + d.n(2), MemoryLimit: limit,
		Exact: d.one(2), SolveLimit: -1}
}

// unexpected is an error that planning or running must not end with.
func unexpected(err error) error {
	if err == nil || errors.As(err, new(*graphrun.MemoryError)) || errors.As(err, new(*tensor.MemoryError)) {
		return nil
	}
	if strings.Contains(err.Error(), "2^47 bytes") { // values of a composite's parts
		return nil
	}
	return err
}

// whole compiles and runs the call under two strategies.
func (c *call) whole(in, want []*tensor.Tensor, refErr error) error {
	for range 2 {
		constant := make([]bool, len(in))
		for i := range constant {
			constant[i] = c.choices.one(3) && !isFar(c.in[i])
		}
		now.begin(c, "compile")
		g, n, err := c.graph(in, constant, "")
		if err != nil {
			if refErr == nil { // elements of constants may be refused
				return fmt.Errorf("with constants %v: %w", constant, err)
			}
			continue
		}
		behind := c.follower(n)
		if behind != "" {
			g, _, err = c.graph(in, constant, behind)
		}
		o := c.options()
		if err == nil {
			err = c.ran(g, o, in, followed(want, behind), refErr)
		}
		if err != nil {
			return fmt.Errorf("strategy %s, constants %v, then %s: %w", o.Strategy.Name(), constant, behind, err)
		}
	}
	return nil
}

// follower names an op that takes the first result: one that shares the call's step, or joins two of it.
func (c *call) follower(n *graph.Node) string {
	m := n.Out[0].Meta
	switch {
	case n.Out[0].Dynamic || m.Rank() == 0 || m.Numel() == 0 || len(n.Out) > 1:
	case m.DType.IsFloat() && c.choices.one(3):
		return "neg"
	case c.choices.one(4):
		return "cat"
	}
	return ""
}

// followed are the results of a call with the first one as an op that follows makes it.
func followed(want []*tensor.Tensor, behind string) []*tensor.Tensor {
	if behind == "" || len(want) == 0 {
		return want
	}
	x, shape := want[0], slices.Clone(want[0].Shape)
	if behind == "cat" {
		shape[0] *= 2
	}
	y := tensor.Zeros(x.DType, shape...)
	kit.EachIndex(shape, func(at []int) {
		from := slices.Clone(at)
		from[0] %= x.Shape[0]
		v := x.At(from...)
		if behind == "neg" {
			v = tensor.FloatScalar(-v.Float())
		}
		y.Set(v, at...)
	})
	return slices.Concat([]*tensor.Tensor{y}, want[1:])
}

// spread reports whether the storage of a result exceeds the limit, however few its elements are.
func spread(g *graph.Graph) bool {
	return slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool {
		return slices.ContainsFunc(n.Out, func(v *graph.Value) bool {
			return !v.Dynamic && v.Meta.Extent()*v.Meta.DType.Size() > planLimit
		})
	})
}

// ran compiles and runs a graph of the call.
func (c *call) ran(g *graph.Graph, o graphrun.Options, in, want []*tensor.Tensor, refErr error) error {
	before := allocated()
	p, err := graphrun.Compile(context.Background(), g, o)
	if n := allocated() - before; n > c.planBytes(g) {
		return fmt.Errorf("planning allocates %d bytes: %w", n, err)
	}
	var out map[string]*tensor.Tensor
	if err == nil {
		inputs := map[string]*tensor.Tensor{}
		for _, v := range g.Inputs {
			var i int
			_, _ = fmt.Sscanf(v.Name, "x%d", &i)
			inputs[v.Name] = in[i]
		}
		now.begin(c, "run")
		out, err = p.Run(context.Background(), inputs)
	}
	if err != nil {
		if refErr != nil && !strings.Contains(err.Error(), "internal error:") {
			return nil
		}
		if errors.As(err, new(*graphrun.MemoryError)) && spread(g) {
			return nil
		}
		return err
	}
	if refErr != nil {
		return fmt.Errorf("it runs, and the reference says: %w", refErr)
	}
	got := make([]*tensor.Tensor, len(want))
	for k := range got {
		got[k] = out[fmt.Sprint("y", k)]
	}
	if c.special {
		return nil
	}
	return agree(got, want, !o.Exact)
}
