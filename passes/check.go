package passes

import (
	"fmt"
	"io"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// checkLimit bounds the elements, those between strided ones counted, of all values of a
// graph that is evaluated by reference.
const checkLimit = 1 << 20

// checker compares the graph with its meaning before the first pass.
type checker struct {
	inputs map[string]*tensor.Tensor
	want   map[string]*tensor.Tensor
	some   bool // passes may leave outputs out
}

// newChecker evaluates g by reference, if it is small and all its ops can be.
func newChecker(g *graph.Graph) *checker {
	size := 0
	g.Values(func(v *graph.Value) { size = min(size+v.Meta.Extent(), checkLimit+1) })
	if size > checkLimit {
		return &checker{}
	}
	c := &checker{inputs: map[string]*tensor.Tensor{}}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, v := range g.Inputs {
		t := tensor.Zeros(v.Meta.DType, v.Meta.Shape...)
		for i := range t.Numel() {
			if v.Meta.DType.IsFloat() || v.Meta.DType.IsComplex() {
				t.SetFlat(i, tensor.FloatScalar(rng.Float64()*2-1))
			} else {
				t.SetFlat(i, tensor.IntScalar(rng.Int64N(2)))
			}
		}
		m := v.Meta
		x := tensor.Empty(m)
		tensor.CopyElements(x, t)
		c.inputs[v.Name] = x
	}
	c.want, _ = graph.Evaluate(g, c.inputs)
	return c
}

// after verifies the graph's structure, the properties that hold, and its meaning.
func (c *checker) after(g *graph.Graph, props graph.Props) error {
	if err := graph.Verify(g, props); err != nil {
		return err
	}
	if c.want == nil {
		return nil
	}
	got, err := graph.Evaluate(g, c.inputs)
	if err != nil {
		return err
	}
	for name, w := range c.want {
		if got[name] == nil && c.some {
			continue
		}
		if err := same(got[name], w); err != nil {
			return fmt.Errorf("output %q changed its value: %w", name, err)
		}
	}
	return nil
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
