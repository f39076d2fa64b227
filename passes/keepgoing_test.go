package passes_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

type nothing struct{}

// unplannable are ops that inference takes and planning does not.
var unplannable = map[string]*graph.Op{}

func init() {
	same := func(c *graph.Call) ([]graph.Result, error) { return c.NewResult(c.Type(0)), nil }
	for name, walks := range map[string]func(*graph.Call, []tensor.Order) []graph.Walk{
		"novariant": func(*graph.Call, []tensor.Order) []graph.Walk { return nil },
		"panics":    func(*graph.Call, []tensor.Order) []graph.Walk { panic("a mistake in the rule") },
	} {
		op, err := fusion.Define(graph.Op{
			Semantics: graph.Semantics{
				Name: name, Params: []graph.Param{{Name: "self"}},
				Schema: graph.SchemaOf[nothing](),
				Kind:   graph.RequiresLayout, Infer: same,
				Ref: func(_ *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) { return in, nil },
			},
			Lowerings: graph.Lowerings{
				Impls: []graph.Impl{{Name: "only", Walks: walks,
					Lower: func(*graph.Call) (*graph.Kernel, error) { return &graph.Kernel{}, nil }}},
			},
		})
		if err != nil {
			panic(err)
		}
		unplannable[name] = op
	}
}

func lookupMore(name string) *graph.Op {
	if o := unplannable[name]; o != nil {
		return o
	}
	return kernels.Lookup(name)
}

func TestKeepGoing(t *testing.T) {
	g := graph.New("g", lookupMore)
	x := g.Input("x", tensor.Float32, 2, 3, 4, 5)
	fine := g.Apply("relu", nil, x)[0]
	bad := g.Apply("novariant", nil, fine)[0]
	g.Output("fine", g.Apply("neg", nil, fine)[0]).Output("after", g.Apply("neg", nil, bad)[0])
	g.Output("panics", g.Apply("panics", nil, x)[0]).Output("bad", bad).Output("last", g.Apply("abs", nil, x)[0])
	if err := g.Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := passes.Run(g, passes.Options{}); err == nil || !strings.Contains(err.Error(), "novariant") {
		t.Errorf("without keeping going: %v", err)
	}
	for _, s := range layout.All() {
		p, err := passes.Run(g, passes.Options{Strategy: s, KeepGoing: true, Check: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Failed) != 2 || p.Failed[0].Node != "novariant" || p.Failed[1].Node != "panics" {
			t.Errorf("%s: failed are %v", s.Name(), p.Failed)
		}
		var outputs []string
		for _, o := range p.Graph.Outputs {
			outputs = append(outputs, o.Name)
		}
		if strings.Join(outputs, " ") != "fine last" {
			t.Errorf("%s: outputs %v", s.Name(), outputs)
		}
		if err := graph.Verify(p.Graph, graph.Sorted|graph.Typed|graph.LaidOut); err != nil {
			t.Errorf("%s: %v", s.Name(), err)
		}
		var one *graph.Error
		if !errors.As(p.Failed[1], &one) || !strings.Contains(one.Error(), "a mistake in the rule") {
			t.Errorf("%s: %v", s.Name(), p.Failed[1])
		}
	}
}
