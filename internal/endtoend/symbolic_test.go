package endtoend_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// At all sizes for which the guards hold, inference of unknown sizes must agree with inference of these sizes. If the
// latter fails, a guard must not hold.

// sameInference compares symbolic inference, evaluated at sizes, with inference at these sizes, and reports
// whether the guards held there.
func sameInference(g *graph.Graph, s *graph.Symbolic, sizes map[string]int) (held bool, err error) {
	held = s.Holds(sizes)
	c := g.Clone()
	if err := c.Bind(sizes); err != nil {
		if held {
			return held, fmt.Errorf("at %v: %w, which guards %v should tell", sizes, err, conds(s))
		}
		return held, nil
	}
	if !held {
		return held, nil
	}
	at := s.Binding(sizes)
	c.Values(func(v *graph.Value) {
		w := s.Graph.Value(v.Name)
		if v.Dynamic || w.Dynamic {
			if v.Dynamic != w.Dynamic {
				err = errors.Join(err, fmt.Errorf("value %s (%s): dynamic is %v", v.Name, v.Kind(), w.Dynamic))
			}
			return
		}
		m, bad := w.Type.At(at)
		switch {
		case bad != nil:
			err = errors.Join(err, fmt.Errorf("value %s (%s): %w", v.Name, v.Kind(), bad))
		case m.String() != v.Meta.String() || nameOf(v.Alias) != nameOf(w.Alias):
			err = errors.Join(err, fmt.Errorf("value %s (%s) at %v: %v of %q, that is %v, want %v of %q; guards %v", v.Name,
				v.Kind(), sizes, w.Type, nameOf(w.Alias), m, v.Meta, nameOf(v.Alias), conds(s)))
		}
	})
	return held, err
}

func nameOf(v *graph.Value) string {
	if v == nil {
		return ""
	}
	return v.Name
}

func conds(s *graph.Symbolic) (list []string) {
	for _, g := range s.Guards {
		list = append(list, g.Cond.String())
	}
	return list
}

// inferredAlike infers a graph for unknown sizes with hints, and compares it at the hints and at random other sizes. It
// returns the number of other sizes at which the guards hold.
func inferredAlike(g *graph.Graph, hints map[string]int, draw func() map[string]int, times int) (int, error) {
	s, err := g.Symbolic(hints)
	if err != nil {
		c := g.Clone()
		if c.Bind(hints) == nil {
			return 0, fmt.Errorf("at %v: %w, which is not refused in numbers", hints, err)
		}
		return 0, nil
	}
	if held, err := sameInference(g, s, hints); err != nil || !held {
		return 0, fmt.Errorf("at the hints %v guards %v hold: %v; %w", hints, conds(s), held, err)
	}
	others := 0
	for range times {
		sizes := draw()
		held, err := sameInference(g, s, sizes)
		if err != nil {
			return others, err
		}
		if held {
			others++
		}
	}
	return others, nil
}

// forkedAlike is like inferredAlike, for all classes of sizes at once.
func forkedAlike(g *graph.Graph, hints map[string]int, draw func() map[string]int, times int) (int, error) {
	s, err := g.SymbolicForked(hints)
	if err != nil {
		if c := g.Clone(); c.Bind(hints) == nil {
			return 0, fmt.Errorf("at %v: %w, which is not refused in numbers", hints, err)
		}
		return 0, nil
	}
	others := 0
	for range times {
		held, err := sameInference(g, s, draw())
		if err != nil {
			return others, err
		}
		if held {
			others++
		}
	}
	return others, nil
}

// exampleGraph returns a graph of one call. open reports which sizes of operands are the symbol N, whose size is n.
func exampleGraph(op *graph.Op, e graph.Example, n int, b graph.Bounds, open func(operand, dim int) bool) (*graph.Graph,
	error) {
	g := graph.New(op.Name, kernels.Lookup)
	var operands []any
	for i, m := range e.In {
		if m.DType == tensor.Invalid {
			operands = append(operands, nil)
			continue
		}
		decl := graph.Decl{DType: m.DType, Dims: graph.Numbers(m.Shape...)}
		if o, dense := tensor.OrderOf(m); dense && slices.Equal(o.Strides(m.Shape), m.Strides) {
			decl.Layout.Order = o
		} else {
			decl.Strides = graph.Numbers(m.Strides...)
		}
		for d := range decl.Dims {
			if open(i, d) {
				decl.Dims[d] = graph.Dim{Symbol: "N"}
				g.Symbols = map[string]graph.Bounds{"N": b}
			}
		}
		operands = append(operands, g.InputDecl(fmt.Sprint("x", i), decl))
	}
	if g.Symbols != nil {
		if err := g.Bind(map[string]int{"N": n}); err != nil {
			return nil, err
		}
	}
	g.Apply(op.Name, e.Attrs, operands...)
	return g, g.Err()
}

// TestSymbolicExamples makes a symbol of each dimension of each example of all ops.
func TestSymbolicExamples(t *testing.T) {
	testsize.Long(t)
	all := slices.Clone(kernels.All())
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	for _, op := range all[:randomGraphs(uint64(len(all)))] {
		for i, e := range op.Examples {
			for at, m := range e.In {
				for dim, n := range m.Shape {
					one := func(operand, d int) bool { return operand == at && d == dim }
					g, err := exampleGraph(op, e, n, graph.Bounds{}, one)
					require.NoError(t, err, "%s, example %d", op.Name, i)
					for _, hint := range []int{n, 0, 1, 2, n + 3} {
						r := 0
						draw := func() map[string]int { r++; return map[string]int{"N": r % 9} }
						_, err := inferredAlike(g, map[string]int{"N": hint}, draw, 9)
						assert.NoError(t, err, "%s, example %d, dimension %d of operand %d", op.Name, i, dim, at)
						if hint == n {
							_, err := forkedAlike(g, map[string]int{"N": hint}, draw, 9)
							assert.NoError(t, err, "%s, example %d, dimension %d of operand %d, forked", op.Name, i, dim, at)
						}
					}
				}
			}
		}
	}
}

// symbolicGraph returns a random graph whose inputs, and some of whose attributes, depend on symbols.
func symbolicGraph(seed uint64) (*graph.Graph, map[string]int, *rand.Rand) {
	r := &grower{rng: rand.New(rand.NewPCG(seed, 7)), g: graph.New(fmt.Sprint("seed", seed), kernels.Lookup)}
	hints := map[string]int{"N": 1 + r.rng.IntN(3), "C": 4, "H": 2 + r.rng.IntN(3), "W": 3 + r.rng.IntN(3)}
	r.g.Symbols = map[string]graph.Bounds{}
	for _, name := range []string{"N", "C", "H", "W"} {
		n := hints[name]
		r.g.Symbols[name] = graph.Bounds{Min: r.rng.IntN(min(n, 3) + 1), Max: []int{0, n + r.rng.IntN(9)}[r.rng.IntN(2)]}
	}
	sym := func(name string) graph.Dim {
		if r.rng.IntN(3) == 0 {
			return graph.Dim{Size: hints[name]}
		}
		return graph.Dim{Symbol: name}
	}
	dims := []graph.Dim{sym("N"), sym("C"), sym("H"), sym("W")}
	w := graph.Dim{Expr: "W*2 - 1"}
	strided := graph.Decl{DType: f32,
		Dims:    []graph.Dim{{Symbol: "N"}, {Symbol: "C"}, {Symbol: "H"}, {Symbol: "W"}},
		Strides: []graph.Dim{{Symbol: "C"}, {Size: 1}, {Expr: "2*N*C*W"}, {Expr: "N*C"}}, Offset: graph.Dim{Expr: "W//2"}}
	decls := []graph.Decl{
		{DType: f32, Dims: dims},
		{DType: f32, Dims: dims, Layout: graph.Pin{Format: tensor.ChannelsLast}},
		strided,
		{DType: f32, Dims: []graph.Dim{{Symbol: "C"}, {Size: 1}, {Size: 1}}},
		{DType: f32, Dims: []graph.Dim{{Symbol: "N"}, w}},
	}
	for i, d := range decls {
		r.vals = append(r.vals, r.g.InputDecl(fmt.Sprint("x", i), d))
	}
	r.g.Input("w", f32, 4, 4, 3, 3)
	r.g.InputFormat("wl", f32, tensor.ChannelsLast, 4, 4, 3, 3)
	if err := r.g.Bind(hints); err != nil {
		return nil, nil, nil
	}
	for range 4 + r.rng.IntN(10) {
		v := r.value()
		d, e := 0, 0
		if n := v.Meta.Rank(); n > 0 {
			d, e = r.rng.IntN(n), r.rng.IntN(n)
		}
		if r.rng.IntN(2) == 0 && hasImage(r) {
			steps[r.rng.IntN(len(steps))](r, v, d, e)
		} else if r.rng.IntN(4) == 0 {
			symbolicSteps[r.rng.IntN(len(symbolicSteps))](r, v, d)
		} else {
			r.anyOp(v)
		}
		if r.rng.IntN(8) == 0 {
			r.pinLast()
		}
	}
	return r.g, hints, r.rng
}

// pinLast pins the layout of the last node, which may be a view.
func (r *grower) pinLast() {
	if len(r.g.Nodes) == 0 {
		return
	}
	n := r.g.Nodes[len(r.g.Nodes)-1]
	order, err := tensor.NewOrder(r.rng.Perm(n.Out[0].Meta.Rank())...)
	if err != nil || slices.ContainsFunc(n.Out, func(v *graph.Value) bool { return v.Meta.Rank() != order.Rank() }) {
		return
	}
	was := n.Pin
	if n.Pin.Order = order; n.Infer() != nil {
		n.Pin = was
		if err := n.Infer(); err != nil {
			panic(err)
		}
	}
}

func hasImage(r *grower) bool {
	return slices.ContainsFunc(r.vals, func(v *graph.Value) bool {
		return v.Meta.Rank() == 4 && v.Meta.Shape[1] == 4 && v.Meta.Shape[2] > 1 && v.Meta.Shape[3] > 1
	})
}

// symbolicSteps have attributes that are expressions.
var symbolicSteps = []func(r *grower, v *graph.Value, d int){
	func(r *grower, v *graph.Value, d int) {
		r.apply("slice", graph.Attrs{"dim": d, "start": "N - 1", "end": "H + W//2"}, v)
	},
	func(r *grower, v *graph.Value, _ int) { r.apply("reshape", graph.Attrs{"shape": []any{"N", -1}}, v) },
	func(r *grower, v *graph.Value, _ int) {
		r.apply("reshape", graph.Attrs{"shape": []any{"N*C", "H*W"}}, v)
	},
	func(r *grower, v *graph.Value, _ int) {
		r.apply("reshape", graph.Attrs{"shape": []any{-1, "Max(C, 2)"}}, v)
	},
	func(r *grower, v *graph.Value, d int) {
		r.apply("narrow", graph.Attrs{"dim": d, "start": 0, "length": "Min(N, H, W)"}, v)
	},
	func(r *grower, v *graph.Value, d int) {
		r.apply("split", graph.Attrs{"split_size": "W//2 + 1", "dim": d}, v)
	},
	func(r *grower, v *graph.Value, _ int) {
		r.apply("constant_pad_nd", graph.Attrs{"pad": []any{"N", "W % 3"}, "value": 0}, v)
	},
	func(r *grower, v *graph.Value, d int) { r.apply("softmax", graph.Attrs{"dim": "N - N"}, v) },
	func(r *grower, v *graph.Value, d int) {
		r.apply("split", graph.Attrs{"split_size": []any{"N", 1, "C*H - N"}, "dim": d}, v)
	},
	func(r *grower, _ *graph.Value, d int) {
		r.apply("arange", graph.Attrs{"start": "N", "end": "2*H - 1", "step": r.rng.IntN(7) - 3})
	},
	func(r *grower, _ *graph.Value, _ int) { r.apply("arange", graph.Attrs{"start": 0.5, "end": "W"}) },
	func(r *grower, _ *graph.Value, _ int) {
		r.apply("full", graph.Attrs{"size": []any{"N", 2}, "fill_value": "H//2"})
	},
	func(r *grower, v *graph.Value, _ int) {
		d := []tensor.DType{tensor.Int8, tensor.Float16, f32}[r.rng.IntN(3)]
		r.apply("full_like", graph.Attrs{"fill_value": "N - 31*W", "dtype": d}, v)
	},
}

// anyOp adds a call of any op of the catalogue with the attributes of one of its examples.
func (r *grower) anyOp(v *graph.Value) {
	all := kernels.All()
	for range 20 {
		op := all[r.rng.IntN(len(all))]
		if len(op.Examples) == 0 {
			continue
		}
		e := op.Examples[r.rng.IntN(len(op.Examples))]
		operands := make([]any, len(e.In))
		for i, m := range e.In {
			if m.DType == tensor.Invalid {
				continue
			}
			fits := []*graph.Value{}
			for _, w := range append(r.vals, r.g.Inputs...) {
				if w.Meta.DType == m.DType && w.Meta.Rank() == m.Rank() {
					fits = append(fits, w)
				}
			}
			switch {
			case i == 0 && v.Meta.DType == m.DType:
				operands[i] = v
			case len(fits) > 0:
				operands[i] = fits[r.rng.IntN(len(fits))]
			default:
				operands[i] = r.g.InputMeta(r.g.UniqueName("k"), m)
			}
		}
		if len(r.apply(op.Name, e.Attrs, operands...)) > 0 {
			return
		}
	}
}

// inferSymbolic compares inference of a random graph at random sizes.
func inferSymbolic(t *testing.T, seed uint64) (others int) {
	g, hints, rng := symbolicGraph(seed)
	if g == nil {
		return 0
	}
	require.NoError(t, g.Err(), "seed %d", seed)
	draw := func() map[string]int {
		sizes := map[string]int{}
		for _, name := range []string{"N", "C", "H", "W"} {
			b := g.Symbols[name]
			sizes[name] = hints[name]
			if rng.IntN(3) > 0 {
				sizes[name] = max(b.Min, []int{0, 1, 2, 3, 4, 5, 8, hints[name]*2 - 1, hints[name] + 1}[rng.IntN(9)])
			}
			if b.Max > 0 {
				sizes[name] = min(sizes[name], b.Max)
			}
		}
		return sizes
	}
	for range 3 {
		n, err := inferredAlike(g, hints, draw, 12)
		others += n
		require.NoError(t, err, "seed %d", seed)
		hints = draw() // another class
	}
	return others
}

func TestSymbolicGraphs(t *testing.T) {
	testsize.Long(t)
	others, seeds := 0, randomGraphs(300)
	for seed := range seeds {
		others += inferSymbolic(t, seed)
	}
	require.Greater(t, others, int(seeds), "guards held at other sizes than the hints")
}

func FuzzSymbolic(f *testing.F) {
	f.Add(uint64(1000))
	f.Fuzz(func(t *testing.T, seed uint64) {
		inferSymbolic(t, seed)
		inferForked(t, seed)
	})
}

// inferForked infers a random graph for all classes of sizes at once and compares it at random sizes.
func inferForked(t *testing.T, seed uint64) (others int) {
	g, hints, rng := symbolicGraph(seed)
	if g == nil {
		return 0
	}
	draw := func() map[string]int {
		sizes := map[string]int{}
		for _, name := range []string{"N", "C", "H", "W"} {
			b := g.Symbols[name]
			sizes[name] = max(b.Min, rng.IntN(9))
			if b.Max > 0 {
				sizes[name] = min(sizes[name], b.Max)
			}
		}
		return sizes
	}
	others, err := forkedAlike(g, hints, draw, 12)
	require.NoError(t, err, "seed %d", seed)
	return others
}

// TestForkedGraphs infers random graphs for all classes of sizes at once. Facts follow from guards that are
// alternatives, and inference must end.
func TestForkedGraphs(t *testing.T) {
	testsize.Long(t)
	others, seeds := 0, randomGraphs(300)
	for seed := range seeds {
		others += inferForked(t, seed)
	}
	require.Greater(t, others, int(seeds), "guards held at other sizes than the hints")
}
