//go:build !386 && !arm

package extreme_test

import (
	"strings"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// bodies are calls of ops that run graphs. Their examples cannot be in the catalogue, since a graph needs it.
var bodies = map[string]graph.Example{
	"if": {In: []tensor.Meta{tensor.New(tensor.Bool), f32(2, 3), f32(2, 3)}, Attrs: branches()},
	"loop": {In: []tensor.Meta{tensor.New(tensor.Int64), tensor.New(tensor.Bool), f32(2, 3)},
		Attrs: graph.Attrs{"body": loopBody(), "carried": 1}},
	"scan": {In: []tensor.Meta{f32(3), f32(4, 3)},
		Attrs: graph.Attrs{"body": scanBody(), "states": 1, "num_scan_inputs": 1, "scan_input_axes": []int{0},
			"scan_output_axes": []int{0}}},
}

func f32(shape ...int) tensor.Meta { return tensor.New(tensor.Float32, shape...) }

// examples are an op's, or that of its bodies.
func examples(op *graph.Op) []graph.Example {
	if ex, ok := bodies[op.Name]; ok {
		return []graph.Example{ex}
	}
	return op.Examples
}

func branches() graph.Attrs {
	branch := func(op string) *graph.Graph {
		g := graph.New(op, kernels.Lookup)
		g.Output("y", g.Apply(op, nil, g.Input("x", tensor.Float32, 2, 3))[0])
		return g
	}
	return graph.Attrs{"then_branch": branch("neg"), "else_branch": branch("abs")}
}

// loopBody ends the loop after a few iterations, whatever its operands say.
func loopBody() *graph.Graph {
	g := graph.New("body", kernels.Lookup)
	i, _, x := g.Input("i", tensor.Int64), g.Input("going", tensor.Bool), g.Input("x", tensor.Float32, 2, 3)
	g.Output("more", g.Apply("lt", nil, i, 3)[0])
	y := g.Apply("neg", nil, x)[0]
	g.Output("x'", y)
	g.Output("each", g.Apply("abs", nil, y)[0])
	return g
}

func scanBody() *graph.Graph {
	g := graph.New("body", kernels.Lookup)
	s, x := g.Input("s", tensor.Float32, 3), g.Input("x", tensor.Float32, 3)
	sum := g.Apply("add", nil, s, x)[0]
	g.Output("s'", sum)
	g.Output("each", g.Apply("neg", nil, sum)[0])
	return g
}

// TestScanOfNothing scans no index of an operand whose slices are beyond memory: the type of the collected value is
// inferred without a slice.
func TestScanOfNothing(t *testing.T) {
	g := graph.New("scan", kernels.Lookup)
	state, scanned := f32(3), f32(0, 1<<40).WithStrides([]int{0, 0})
	v := g.Apply("scan", bodies["scan"].Attrs, g.InputMeta("s", state), g.InputMeta("x", scanned))
	if err := g.Err(); err != nil {
		t.Fatal(err)
	}
	_, err := v[0].Node.Op.Ref(v[0].Node.Call(), []*tensor.Tensor{tensor.Empty(state), tensor.Empty(scanned)})
	if err == nil || !strings.Contains(err.Error(), "must match the size") {
		t.Errorf("%v, want that slices and states do not fit one another", err)
	}
}
