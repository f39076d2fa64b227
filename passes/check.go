package passes

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// checkLimit bounds the elements, those between strided ones counted, of all values of a
// graph that is evaluated by reference.
const checkLimit = 1 << 20

// Unchecked says what [Options.Check] could not compare with the graph's meaning, and why.
type Unchecked struct {
	// Node and Op are what stands in the way; empty where it is the graph as a whole.
	Node, Op string
	Why      string
	// Outputs names the outputs whose values were not compared because of it; none where the
	// graph has none.
	Outputs []string
}

// String says it in one sentence.
func (u Unchecked) String() string {
	switch {
	case len(u.Outputs) == 0:
		return "no values were checked: " + u.Why
	case u.Node == "":
		return fmt.Sprintf("the values of %s went unchecked: %s", quotedList(u.Outputs), u.Why)
	}
	return fmt.Sprintf("the values of %s went unchecked: node %q (%s): %s", quotedList(u.Outputs), u.Node, u.Op, u.Why)
}

// checker compares the graph with its meaning before the first pass.
type checker struct {
	inputs    map[string]*tensor.Tensor
	want      map[string]*tensor.Tensor // outputs that can be compared
	unchecked []Unchecked
	some      bool // passes may leave outputs out
}

// newChecker evaluates what it can of g by reference, on inputs that are made up, and notes
// what it cannot: a graph that is large, ops without a reference and what depends on them,
// and a reference that refuses the made-up data.
func newChecker(g *graph.Graph) *checker {
	c := &checker{}
	if len(g.Outputs) == 0 {
		c.note(nil, "the graph has no outputs", nil)
		return c
	}
	if n := elements(g); n > checkLimit {
		c.note(nil, fmt.Sprintf("the graph is too large, with more than %d elements in all values together", checkLimit),
			outputNames(g))
		return c
	}
	c.makeInputs(g)
	refused := withoutReference(g)
	for _, n := range g.Nodes {
		if n.Op.Ref != nil {
			continue
		}
		if outs := outputsOf(g, map[*graph.Node]*graph.Error{n: refused[n]}); len(outs) > 0 {
			c.note(n, graph.NoReference{Why: n.Op.NoRef}.Error(), outs)
		}
	}
	want, err := evaluate(g, refused, c.inputs)
	if err != nil {
		e := &graph.Error{Err: err}
		errors.As(err, &e)
		c.unchecked = append(c.unchecked, Unchecked{Node: e.Node, Op: e.Op, Outputs: outputNames(g),
			Why: fmt.Sprintf("its reference refuses the data that was made up: %v", e.Err)})
		return c
	}
	c.want = want
	return c
}

func (c *checker) note(n *graph.Node, why string, outputs []string) {
	u := Unchecked{Why: why, Outputs: outputs}
	if n != nil {
		u.Node, u.Op = n.Name, n.Op.Name
	}
	c.unchecked = append(c.unchecked, u)
}

// elements returns the number of elements of all values, which stops growing once it is
// past the limit.
func elements(g *graph.Graph) int {
	size := 0
	g.Values(func(v *graph.Value) {
		if size <= checkLimit {
			size += min(max(v.Meta.Numel(), v.Meta.Extent()), checkLimit+1)
		}
	})
	return size
}

// makeInputs makes up data of small values, the same in every run.
func (c *checker) makeInputs(g *graph.Graph) {
	c.inputs = map[string]*tensor.Tensor{}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, v := range g.Inputs {
		x := tensor.Empty(v.Meta)
		for i := range x.Numel() {
			if v.Meta.DType.IsFloat() || v.Meta.DType.IsComplex() {
				x.SetFlat(i, tensor.FloatScalar(rng.Float64()*2-1))
			} else {
				x.SetFlat(i, tensor.IntScalar(rng.Int64N(2)))
			}
		}
		c.inputs[v.Name] = x
	}
}

// withoutReference returns the nodes that cannot be evaluated: those whose ops have no
// reference, and those that depend on them.
func withoutReference(g *graph.Graph) map[*graph.Node]*graph.Error {
	refused := map[*graph.Node]*graph.Error{}
	for _, n := range g.Nodes {
		if n.Op.Ref == nil {
			refused[n] = g.Fail(n, graph.NoReference{Why: n.Op.NoRef})
		}
	}
	return dependents(g, refused)
}

// dependents adds to a set of nodes all that depend on them.
func dependents(g *graph.Graph, set map[*graph.Node]*graph.Error) map[*graph.Node]*graph.Error {
	if len(set) == 0 {
		return set
	}
	for _, n := range g.Nodes {
		for _, a := range n.In {
			if a.Kind == graph.TensorArg && a.Value.Node != nil && set[a.Value.Node] != nil && set[n] == nil {
				set[n] = set[a.Value.Node]
			}
		}
	}
	return set
}

// outputsOf names the outputs that depend on the nodes.
func outputsOf(g *graph.Graph, nodes map[*graph.Node]*graph.Error) (names []string) {
	nodes = dependents(g, nodes)
	for _, o := range g.Outputs {
		if o.Value.Node != nil && nodes[o.Value.Node] != nil {
			names = append(names, o.Name)
		}
	}
	return names
}

func outputNames(g *graph.Graph) []string {
	names := make([]string, len(g.Outputs))
	for i, o := range g.Outputs {
		names[i] = o.Name
	}
	return names
}

// evaluate is graph.Evaluate without the nodes that it cannot evaluate.
func evaluate(g *graph.Graph, refused map[*graph.Node]*graph.Error,
	in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	if len(refused) > 0 {
		g = g.Drop(refused)
	}
	return graph.Evaluate(g, in)
}

// after verifies the graph's structure, the properties that hold, and its meaning.
func (c *checker) after(g *graph.Graph, props graph.Props) error {
	if err := graph.Verify(g, props); err != nil {
		return err
	}
	if len(c.want) == 0 {
		return nil
	}
	got, err := evaluate(g, withoutReference(g), c.inputs)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.want)) {
		if got[name] == nil && c.some {
			continue
		}
		if got[name] == nil {
			return fmt.Errorf("output %q cannot be evaluated any more", name)
		}
		if err := same(got[name], c.want[name]); err != nil {
			return fmt.Errorf("output %q changed its value: %w", name, err)
		}
	}
	return nil
}

func quotedList(names []string) string {
	const most = 8
	quoted := make([]string, min(len(names), most))
	for i := range quoted {
		quoted[i] = fmt.Sprintf("%q", names[i])
	}
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more outputs", strings.Join(quoted, ", "), more)
	}
	if len(names) == 1 {
		return "output " + quoted[0]
	}
	return "outputs " + strings.Join(quoted, ", ")
}

func same(got, want *tensor.Tensor) error {
	if got.DType != want.DType || tensor.ListString(got.Shape) != tensor.ListString(want.Shape) {
		return fmt.Errorf("%v, want %v", got.Meta, want.Meta)
	}
	f := tensor.New(tensor.Complex128, want.Shape...)
	a, _ := tensor.ToSlice[complex128](got.CopyTo(f))
	b, _ := tensor.ToSlice[complex128](want.CopyTo(f))
	for i := range a {
		if bits(a[i]) != bits(b[i]) {
			return fmt.Errorf("element %d is %v, want %v", i, a[i], b[i])
		}
	}
	return nil
}

func bits(c complex128) [2]uint64 {
	if cmplx.IsNaN(c) {
		return [2]uint64{1, 1}
	}
	return [2]uint64{math.Float64bits(real(c)), math.Float64bits(imag(c))}
}

// dump prints the graph, one value a line.
func dump(w io.Writer, g *graph.Graph) {
	for _, v := range g.Inputs {
		fmt.Fprintf(w, "  %s: %v = input\n", v.Name, v.Meta)
	}
	for _, v := range g.Constants {
		fmt.Fprintf(w, "  %s: %v = constant\n", v.Name, v.Meta)
	}
	for _, n := range g.Nodes {
		var in []string
		for _, a := range n.In {
			switch a.Kind {
			case graph.TensorArg:
				in = append(in, a.Value.Name)
			case graph.NumberArg:
				in = append(in, a.Number.String())
			default:
				in = append(in, "null")
			}
		}
		for _, v := range n.Out {
			fmt.Fprintf(w, "  %s: %v = %s(%s)", v.Name, v.Meta, n.Op.Name, strings.Join(in, ", "))
			if v.Alias != nil {
				fmt.Fprintf(w, " view of %s", v.Alias.Name)
			}
			if n.Why != "" {
				fmt.Fprintf(w, " # %s", n.Why)
			}
			fmt.Fprintln(w)
		}
	}
	for _, o := range g.Outputs {
		fmt.Fprintf(w, "  output %s = %s\n", o.Name, o.Value.Name)
	}
}
