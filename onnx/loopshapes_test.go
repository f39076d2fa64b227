package onnx

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// recurrentLayers returns a model of several layers, each with a loop that carries four states of the shape [B, 4]. The
// loops are scans over dimension 1 of the layer's operand, or loops whose number of iterations is the input n.
func recurrentLayers(layers int, scans bool) *pb.ModelProto {
	g := &pb.GraphProto{Initializer: []*pb.TensorProto{floats("w", []int64{8, 4}, make([]float32, 32)...),
		{Name: "yes", DataType: int32(tBool), Int32Data: []int32{1}}},
		Input: infos(info("x0", tFloat, "B", "T", 4), info("n", tInt64))}
	states := names("a", "b", "c", "d")
	for i := range layers {
		x, next := fmt.Sprint("x", i), fmt.Sprint("x", i+1)
		body := &pb.GraphProto{Name: "body"}
		slice := "row"
		if !scans {
			body.Node = append(body.Node, node1("Gather", names(x, "i"), names(slice), attrInt("axis", 1)),
				node1("ReduceMax", names(slice), names("most"), attrInt("keepdims", 0)),
				node1("Less", names("most", "most"), names("stops")), node1("Not", names("stops"), names("goes")))
			body.Input = infos(info("i", tInt64), info("going", tBool))
			body.Output = infos(info("goes", tBool))
		}
		for k, state := range states {
			next, joined := state+"_next", state+"_joined"
			body.Node = append(body.Node, node1("Concat", names(slice, states[(k+1)%len(states)]), names(joined),
				attrInt("axis", -1)), node1("MatMul", names(joined, "w"), names(state+"_product")),
				node1("Sigmoid", names(state+"_product"), names(state+"_gate")),
				node1("Mul", names(state+"_gate", state), names(next)))
			body.Input = append(body.Input, info(state, tFloat, "B", 4))
			body.Output = append(body.Output, info(next, tFloat, "B", 4))
		}
		if scans {
			body.Input = append(body.Input, info(slice, tFloat, "B", 4))
		}
		body.Node = append(body.Node, node1("Identity", names("a_next"), names("out")))
		body.Output = append(body.Output, info("out", tFloat, "B", 4))
		start, stacked := fmt.Sprint("start", i), fmt.Sprint("stacked", i)
		results := []string{}
		for _, state := range states {
			results = append(results, fmt.Sprint(state, i))
		}
		g.Node = append(g.Node, node1("ReduceMean", names(x), names(start), attrInts("axes", 1), attrInt("keepdims", 0)))
		if scans {
			g.Node = append(g.Node, node1("Scan", names(start, start, start, start, x), append(results, next),
				attrInt("num_scan_inputs", 1), attrInts("scan_input_axes", 1), attrInts("scan_output_axes", 1),
				attrGraph("body", body)))
			continue
		}
		g.Node = append(g.Node, node1("Loop", names("n", "yes", start, start, start, start), append(results, stacked),
			attrGraph("body", body)), node1("Transpose", names(stacked), names(next), attrInts("perm", 1, 0, 2)))
	}
	g.Output = infos(info(fmt.Sprint("x", layers), tFloat), info(fmt.Sprint("d", layers-1), tFloat))
	return model(13, g)
}

// TestShapesOfLoops infers models with loops that carry states. The shapes that the loops keep are known before the
// run, and each body is inferred about once, not for every guess of an unknown shape.
func TestShapesOfLoops(t *testing.T) {
	const layers = 6
	inferences := 0
	sigmoid := kernels.Lookup("sigmoid")
	infer := sigmoid.Infer
	sigmoid.Infer = func(c *graph.Call) ([]graph.Result, error) {
		inferences++
		return infer(c)
	}
	t.Cleanup(func() { sigmoid.Infer = infer })
	for kind, scans := range map[string]bool{"scan": true, "loop": false} {
		g, err := toGraph(recurrentLayers(layers, scans), Options{})
		require.NoError(t, err)
		require.True(t, g.Dynamic(), kind)
		inferences = 0
		unbacked := g.Unbacked()
		assert.LessOrEqual(t, inferences, 2*4*layers, kind) // each layer has four
		inferred := unbacked.Graph
		for i := range layers {
			for _, state := range names("a", "b", "c", "d") {
				v := inferred.Value(fmt.Sprint(state, i))
				require.Equal(t, []int{2, 4}, shapeOf(v), "%s %s", kind, v.Name)
				assert.Equal(t, tensor.Float32, v.Type.DType)
			}
		}
		last := inferred.Value(fmt.Sprint("x", layers)) // the number of iterations of a loop depends on data
		want := "[2 2 4]"
		if !scans {
			want = "[2 -1 4]"
		}
		assert.Equal(t, want, fmt.Sprint(shapeOf(last)), kind)

		// The run has these shapes and, where they are known, these strides.
		x := f32([]int{2, 2, 4}, make([]float32, 16)...)
		require.NoError(t, g.Bind(map[string]int{"B": 2, "T": 2}))
		out := runGraph(t, g, map[string]*tensor.Tensor{"x0": x, "n": i64(nil, 2)})
		for _, output := range inferred.Outputs {
			got := out[output.Name]
			assert.Equal(t, got.Rank(), len(output.Value.Type.Shape), kind)
			if output.Value.Dynamic {
				continue
			}
			if meta, known := output.Value.Type.Meta(); known {
				assert.Equal(t, meta.Shape, got.Shape, kind)
				assert.Equal(t, meta.Strides, got.Strides, "%s %s", kind, output.Name)
			}
		}
	}
	// A loop whose states grow has known ranks only.
	grows := recurrentLayers(1, true)
	for _, n := range grows.Graph.Node {
		if n.OpType == "Scan" {
			body := n.Attribute[len(n.Attribute)-1].G
			body.Node = append(body.Node, node1("Concat", names("d_next", "d"), names("d_more"), attrInt("axis", 0)))
			body.Output[3].Name = "d_more"
			for _, inner := range body.Node {
				if strings.HasPrefix(inner.Output[0], "c_") && inner.OpType == "Concat" {
					inner.Input[1] = "c"
				}
			}
		}
	}
	g, err := toGraph(grows, Options{})
	require.NoError(t, err)
	assert.Equal(t, []int{-1, -1}, shapeOf(g.Unbacked().Graph.Value("d0")))
}

// shapeOf returns the shape of a value, with -1 for an unknown size.
func shapeOf(v *graph.Value) []int {
	sizes := make([]int, len(v.Type.Shape))
	for i, size := range v.Type.Shape {
		sizes[i] = -1
		if n, known := size.Known(); known {
			sizes[i] = n
		}
	}
	return sizes
}

// TestDeeplyNestedLoops checks that the time of an import does not grow exponentially with the depth of loops.
func TestDeeplyNestedLoops(t *testing.T) {
	const depth = 14
	start := time.Now()
	var bodyOf func(level int) *pb.GraphProto
	bodyOf = func(level int) *pb.GraphProto {
		name := func(prefix string) string { return fmt.Sprint(prefix, level) }
		i, c, v, next := name("i"), name("c"), name("v"), name("next")
		n := node1("Neg", names(v), names(next))
		if level < depth {
			n = node1("Loop", names("trips", "", v), names(next), attrGraph("body", bodyOf(level+1)))
		}
		return &pb.GraphProto{Input: infos(info(i, tInt64), info(c, tBool), info(v, tFloat, 2)),
			Node:   []*pb.NodeProto{n, node1("Identity", names(c), names(c+"out"))},
			Output: infos(info(c+"out", tBool), info(next, tFloat, 2))}
	}
	g, err := toGraph(model(13, &pb.GraphProto{Input: infos(info("x", tFloat, 2), info("trips", tInt64)),
		Node:   []*pb.NodeProto{node1("Loop", names("trips", "", "x"), names("y"), attrGraph("body", bodyOf(1)))},
		Output: infos(info("y", tFloat, 2))}), Options{})
	require.NoError(t, err)
	out := runGraph(t, g, map[string]*tensor.Tensor{"x": f32([]int{2}, 1, 2), "trips": i64(nil, 1)})
	require.Equal(t, []float32{-1, -2}, floatsOf(t, out["y"]))
	require.Less(t, time.Since(start), 20*time.Second) // minutes if each level doubled it
}

// TestTextOfLoop reads a model as text that was written from it. In the body, a carried value has a size of its own,
// at which the other types in the text are inferred.
func TestTextOfLoop(t *testing.T) {
	body := &pb.GraphProto{
		Node:   []*pb.NodeProto{node1("Add", names("v", "i"), names("w")), node1("Identity", names("c"), names("d"))},
		Input:  infos(info("i", tInt64, 1), info("c", tBool), info("v", tInt64, 1)),
		Output: infos(info("d", tBool), info("w", tInt64, 1)),
	}
	for size, want := range map[int]string{1: "w: int64[1] = add(v, i)", 5: "w: int64[5] = add(v, i)"} {
		g, err := toGraph(model(13, &pb.GraphProto{
			Node:   []*pb.NodeProto{node1("Loop", names("trips", "", "x"), names("y"), attrGraph("body", body))},
			Input:  infos(info("trips", tInt64), info("x", tInt64, size)),
			Output: infos(info("y", tInt64, size)),
		}), Options{})
		require.NoError(t, err)
		var text, again strings.Builder
		require.NoError(t, g.WriteText(&text, ""))
		require.Contains(t, text.String(), want)
		read, err := graph.Parse(text.String(), kernels.Lookup)
		require.NoError(t, err, text.String())
		require.NoError(t, read.WriteText(&again, ""))
		require.Equal(t, text.String(), again.String())
	}
}
