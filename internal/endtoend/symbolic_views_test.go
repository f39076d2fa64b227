package endtoend_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// viewCase is a call of testdata/symbolic_views.py: its operands and attributes depend on C and D.
type viewCase struct {
	Op                    string
	Attrs                 graph.Attrs
	Shape, Strides, Other []string
	Offset                string
	// Answers are those of PyTorch by sizes and result: shape, strides, offset, and whether the result has the storage of
	// the operand. It is null for a call that is rejected.
	Answers [][][4]any
}

func (c *viewCase) graph(hints map[string]int) (*graph.Graph, error) {
	g := graph.New(c.Op, kernels.Lookup)
	g.Symbols = map[string]graph.Bounds{"C": {}, "D": {}}
	dims := func(texts []string) (list []graph.Dim) {
		for _, text := range texts {
			list = append(list, graph.Dim{Expr: text})
		}
		return list
	}
	operands := []any{g.InputDecl("x", graph.Decl{DType: f32, Dims: dims(c.Shape), Strides: dims(c.Strides),
		Offset: graph.Dim{Expr: c.Offset}})}
	if c.Other != nil {
		operands = append(operands, g.InputDecl("other", graph.Decl{DType: f32, Dims: dims(c.Other)}))
	}
	if err := g.Bind(hints); err != nil {
		return nil, err
	}
	g.Apply(c.Op, c.Attrs, operands...)
	return g, g.Err()
}

// answer formats a result like the answers of PyTorch.
func answer(m tensor.Meta, alias *graph.Value) string {
	text, _ := json.Marshal([]any{append([]int{}, m.Shape...), append([]int{}, m.Strides...), m.Offset, alias != nil})
	return string(text)
}

// TestSymbolicViews compares views, and ops that are views only at some sizes, with PyTorch: inference for known sizes
// at all sizes, and inference for unknown sizes at all sizes for which its guards hold.
func TestSymbolicViews(t *testing.T) {
	testsize.Long(t)
	f, err := os.Open("testdata/symbolic_views.json.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	var doc struct {
		Sizes [][2]int
		Cases []*viewCase
	}
	require.NoError(t, json.NewDecoder(z).Decode(&doc))
	bound, held, refused := 0, 0, 0
	step := testsize.Of(5, 1)
	if testing.Short() {
		step = 5
	}
	for i := 0; i < len(doc.Cases); i += step {
		c := doc.Cases[i]
		for k, v := range c.Attrs {
			c.Attrs[k] = wholeNumbers(v)
		}
		for at, sizes := range doc.Sizes {
			hints := map[string]int{"C": sizes[0], "D": sizes[1]}
			g, err := c.graph(hints)
			if c.Answers[at] == nil {
				require.Error(t, err, "case %d: %s %v at %v is not refused", i, c.Op, c.Attrs, hints)
				refused++
				continue
			}
			if len(c.Answers[at]) == 0 {
				continue // a node without results is an error
			}
			require.NoError(t, err, "case %d: %s %v of %v by %v at %v", i, c.Op, c.Attrs, c.Shape, c.Strides, hints)
			for k, v := range g.Nodes[0].Out {
				want, _ := json.Marshal(c.Answers[at][k])
				require.Equal(t, string(want), answer(v.Meta, v.Alias), "case %d: %s %v of %v by %v at %v", i, c.Op,
					c.Attrs, c.Shape, c.Strides, hints)
				bound++
			}
			if (at+i)%6 == 0 {
				held += c.compareClass(t, g, hints, doc.Sizes, fmt.Sprint("case ", i))
			}
		}
	}
	require.Greater(t, bound, 1000)
	require.Greater(t, refused, 100)
	require.Greater(t, held, 1000)
}

// compareClass infers a graph for unknown sizes with hints, and returns the number of other sizes for which its guards
// hold.
func (c *viewCase) compareClass(t *testing.T, g *graph.Graph, hints map[string]int, sizes [][2]int,
	name string) (n int) {
	s, err := g.Symbolic(hints)
	require.NoError(t, err, name)
	for at, one := range sizes {
		other := map[string]int{"C": one[0], "D": one[1]}
		if !s.Holds(other) {
			continue
		}
		n++
		what := fmt.Sprintf("%s: %s %v of %v by %v at %v, inferred at %v with guards %v", name, c.Op, c.Attrs, c.Shape,
			c.Strides, other, hints, conds(s))
		require.Len(t, c.Answers[at], len(g.Nodes[0].Out), what)
		for k, v := range s.Graph.Nodes[0].Out {
			m, err := v.Type.At(s.Binding(other))
			require.NoError(t, err, what)
			want, _ := json.Marshal(c.Answers[at][k])
			require.Equal(t, string(want), answer(m, v.Alias), what)
		}
	}
	return n - 1
}

// wholeNumbers replaces the floats of decoded JSON by integers.
func wholeNumbers(v any) any {
	switch x := v.(type) {
	case float64:
		return int(x)
	case []any:
		x = slices.Clone(x)
		for i := range x {
			x[i] = wholeNumbers(x[i])
		}
		return x
	}
	return v
}
