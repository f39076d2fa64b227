package graph_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// A catalogue of a few ops, one of each kind: package graph must not need the real one,
// which is built on it.

type alphaAttrs struct {
	Alpha tensor.Scalar `attr:"alpha" default:"1" doc:"factor of other"`
}

type noAttrs struct{}

type permuteAttrs struct {
	Dims []int `attr:"dims"`
}

type sizeAttrs struct {
	Size []int `attr:"size"`
}

type chunkAttrs struct {
	Chunks int `attr:"chunks"`
	Dim    int `attr:"dim" default:"0"`
}

type windowAttrs struct {
	Stride  []int   `attr:"stride" default:"1" len:"2"`
	Padding []int   `attr:"padding" default:"0" len:"2"`
	Groups  int     `attr:"groups" default:"1"`
	Eps     float64 `attr:"eps" default:"1e-05"`
	Mode    string  `attr:"mode" default:"zeros" oneof:"zeros|reflect"`
}

type everyAttrs struct {
	Flag   bool                `attr:"flag" default:"false"`
	Int    int                 `attr:"int" default:"3"`
	Float  float64             `attr:"float" default:"0.5"`
	Text   string              `attr:"text" default:"a" oneof:"a|b"`
	Ints   []int               `attr:"ints" default:"1,2"`
	Floats []float64           `attr:"floats" default:"none"`
	Bools  []bool              `attr:"bools" default:"none"`
	MaybeI *int                `attr:"maybe_int" default:"none"`
	MaybeF *float64            `attr:"maybe_float" default:"none"`
	MaybeB *bool               `attr:"maybe_bool" default:"none"`
	Number tensor.Scalar       `attr:"number" default:"1"`
	DType  tensor.DType        `attr:"dtype" default:"none"`
	Format tensor.MemoryFormat `attr:"memory_format" default:"none"`
	Pair   []int               `attr:"pair" default:"0" len:"2"`
}

type bodyAttrs struct {
	Body *graph.Graph `attr:"body"`
	Int  int          `attr:"int" default:"1"`
}

func inferBody(c *graph.Call) ([]graph.Result, error) {
	return graph.New1(c.Attrs.(*bodyAttrs).Body.Outputs[0].Value.Type), nil
}

func binary(c *graph.Call, outs []iter.Operand) (iter.Config, error) {
	return iter.Binary(outs[0], c.In[0].Operand(), c.In[1].Operand()), nil
}

func unary(c *graph.Call, outs []iter.Operand) (iter.Config, error) {
	return iter.Unary(outs[0], c.In[0].Operand()), nil
}

func noBody(*graph.Call, *iter.Rule) (iter.Kernel, error) { return iter.Kernel{}, nil }

func pointwise(name string, s *graph.Schema, p *graph.Pointwise, params ...graph.Param) *graph.Op {
	p.Body = noBody
	return &graph.Op{Name: name, Doc: name, Params: params, Schema: s, Pointwise: p}
}

var (
	selfParam = graph.Param{Name: "self"}
	selfNum   = graph.Param{Name: "self", Number: true}
	otherNum  = graph.Param{Name: "other", Number: true}

	catalogue = map[string]*graph.Op{}
)

func init() {
	for _, o := range []*graph.Op{
		pointwise("add", graph.SchemaOf[alphaAttrs](), &graph.Pointwise{Config: binary}, selfNum, otherNum),
		pointwise("mul", graph.SchemaOf[noAttrs](), &graph.Pointwise{Config: binary}, selfNum, otherNum),
		pointwise("relu", graph.SchemaOf[noAttrs](), &graph.Pointwise{Config: unary}, selfParam),
		pointwise("every", graph.SchemaOf[everyAttrs](), &graph.Pointwise{Config: unary}, selfParam),
		{Name: "permute", Kind: graph.View, Params: []graph.Param{selfParam}, Schema: graph.SchemaOf[permuteAttrs](), Infer: inferPermute},
		{Name: "expand", Kind: graph.View, Params: []graph.Param{selfParam}, Schema: graph.SchemaOf[sizeAttrs](), Infer: inferExpand},
		{Name: "chunk", Kind: graph.View, Params: []graph.Param{selfParam}, Schema: graph.SchemaOf[chunkAttrs](), Infer: inferChunk, Many: true},
		{Name: "cat", Params: []graph.Param{{Name: "tensors", Variadic: true}}, Schema: graph.SchemaOf[noAttrs](), Infer: inferCat},
		{Name: "conv2d", Kind: graph.Requires, Schema: graph.SchemaOf[windowAttrs](), Infer: inferConv, Impls: convImpls(),
			Params: []graph.Param{{Name: "input"}, {Name: "weight"}, {Name: "bias", Optional: true}}},
		{Name: "var_mean", Params: []graph.Param{selfParam}, Schema: graph.SchemaOf[noAttrs](), Outputs: []string{"var", "mean"}, Infer: inferVarMean},
		{Name: "call", Params: []graph.Param{{Name: "values", Variadic: true, Optional: true}}, Infer: inferBody, Schema: graph.SchemaOf[bodyAttrs]()},
		{Name: "clone", Params: []graph.Param{selfParam}, Schema: graph.SchemaOf[struct {
			Format tensor.MemoryFormat `attr:"memory_format" default:"none"`
		}](), Infer: inferCat},
	} {
		o.NoRef = "nothing is evaluated here"
		if o.Compile == nil && o.Pointwise == nil && o.Impls == nil {
			o.Compile = func(*graph.Call) (*graph.Kernel, error) { return nil, errors.New("nothing is run here") }
		}
		catalogue[o.Name] = defined(*o)
	}
}

func defined(o graph.Op) *graph.Op {
	d, err := graph.Define(o)
	if err != nil {
		panic(err)
	}
	return d
}

func lookup(name string) *graph.Op { return catalogue[name] }

func inferPermute(c *graph.Call) ([]graph.Result, error) {
	m, err := c.Meta(0).Permute(c.Attrs.(*permuteAttrs).Dims)
	return []graph.Result{{Type: m.Type(), Alias: 0}}, err
}

func inferExpand(c *graph.Call) ([]graph.Result, error) {
	m, err := c.Meta(0).Expand(c.Attrs.(*sizeAttrs).Size)
	return []graph.Result{{Type: m.Type(), Alias: 0}}, err
}

func inferChunk(c *graph.Call) ([]graph.Result, error) {
	a := c.Attrs.(*chunkAttrs)
	ms, err := c.Meta(0).Chunk(a.Chunks, a.Dim)
	var res []graph.Result
	for _, m := range ms {
		res = append(res, graph.Result{Type: m.Type(), Alias: 0})
	}
	return res, err
}

func inferCat(c *graph.Call) ([]graph.Result, error) {
	m := c.Meta(0)
	return graph.New1(tensor.New(m.DType, m.Shape...).Type()), nil
}

func inferConv(c *graph.Call) ([]graph.Result, error) {
	x, w := c.Meta(0), c.Meta(1)
	if x.Rank() != 4 || w.Rank() != 4 {
		return nil, errors.New("expected 4D operands")
	}
	m, err := tensor.NewFormat(x.DType, []int{x.Shape[0], w.Shape[0], x.Shape[2], x.Shape[3]}, x.SuggestMemoryFormat(false))
	return graph.New1(m.Type()), err
}

// convImpls are two ways to convolve images, each of which wants them in one order.
func convImpls() []graph.Impl {
	one := func(name string, f tensor.MemoryFormat) graph.Impl {
		o, _ := f.Order(4)
		return graph.Impl{Name: name,
			Walks: func(c *graph.Call, _ []tensor.Order) []graph.Walk { return []graph.Walk{c.InOrder(o)} },
			Read: func(_ *graph.Call, _ graph.Walk, i int, m tensor.Meta) (graph.Work, bool) {
				return graph.Work{}, i > 0 || o.Holds(m)
			},
			Lower: func(*graph.Call) (*graph.Kernel, error) { return nil, errors.New("nothing is run here") }}
	}
	return []graph.Impl{one("nchw", tensor.Contiguous), one("nhwc", tensor.ChannelsLast)}
}

func inferVarMean(c *graph.Call) ([]graph.Result, error) {
	m := tensor.New(c.Meta(0).DType)
	return []graph.Result{{Type: m.Type(), Alias: graph.Fresh}, {Type: m.Type(), Alias: graph.Fresh}}, nil
}

// load reads a graph from text; files are not served.
func load(text string) (*graph.Graph, error) {
	return graph.Load(strings.NewReader(text), "g.json", ".", lookup, nil)
}

func mustLoad(t testing.TB, text string) *graph.Graph {
	t.Helper()
	g, err := load(text)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// chain is a graph file of n adds in a row; reversed puts the last node first.
func chain(n int, reversed bool) string {
	var b strings.Builder
	b.WriteString(`{"version": 1, "name": "chain", "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3, 4, 5]}], "nodes": [` + "\n")
	for k := range n {
		i := k
		if reversed {
			i = n - 1 - k
		}
		from := "x"
		if i > 0 {
			from = fmt.Sprintf("n%d", i-1)
		}
		if k > 0 {
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, `{"name": "n%d", "op": "add", "inputs": [%q, "x"], "attrs": {"alpha": 2}}`, i, from)
	}
	fmt.Fprintf(&b, `], "outputs": ["n%d"]}`, n-1)
	return b.String()
}
