package endtoend_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// withDefaults is a model of y = reshape(x * (w + w), s). The initializers w and s are also inputs. rows is the
// declared size of w.
func withDefaults(t *testing.T, irVersion int64, rows string) *graph.Graph {
	t.Helper()
	info := func(name string, dtype pb.DataType, dims ...*pb.Dimension) *pb.ValueInfoProto {
		return &pb.ValueInfoProto{Name: name, Type: &pb.TypeProto{TensorType: &pb.TensorType{ElemType: int32(dtype),
			Shape: &pb.TensorShapeProto{Dim: dims}}}}
	}
	size := func(n int64) *pb.Dimension { return &pb.Dimension{DimValue: &n} }
	declared := size(2)
	if rows != "" {
		declared = &pb.Dimension{DimParam: rows}
	}
	node := func(op, out string, in ...string) *pb.NodeProto {
		return &pb.NodeProto{OpType: op, Input: in, Output: []string{out}}
	}
	m := &pb.ModelProto{IrVersion: irVersion, OpsetImport: []*pb.OperatorSetIDProto{{Version: 13}}, Graph: &pb.GraphProto{
		Node: []*pb.NodeProto{node("Add", "twice", "w", "w"), node("Mul", "scaled", "x", "twice"),
			node("Reshape", "y", "scaled", "s")},
		Initializer: []*pb.TensorProto{{Name: "w", DataType: int32(pb.Float), Dims: []int64{2}, FloatData: []float32{1, 2}},
			{Name: "s", DataType: int32(pb.Int64), Dims: []int64{1}, Int64Data: []int64{-1}}},
		Input: []*pb.ValueInfoProto{info("x", pb.Float, size(3), size(1)), info("w", pb.Float, declared),
			info("s", pb.Int64, size(1))},
		Output: []*pb.ValueInfoProto{info("y", pb.Float)},
	}}
	g, err := graphrun.Loader{}.Read(ctx, bytes.NewReader(pb.Marshal(m)), "m.onnx")
	require.NoError(t, err)
	return g
}

// TestDefaultsAreOverridden checks the runs of a model whose weights are inputs with defaults.
func TestDefaultsAreOverridden(t *testing.T) {
	floats := func(shape []int, data ...float32) *tensor.Tensor {
		return tensor.Must(tensor.FromSlice(data, shape...))
	}
	x := floats([]int{3, 1}, 1, 10, 100)
	shape := tensor.Must(tensor.FromSlice([]int64{6}, 1))
	for name, test := range map[string]struct {
		irVersion int64
		rows      string
	}{"IR 3": {3, ""}, "IR 8": {8, ""}, "symbolic": {8, "K"}} {
		g := withDefaults(t, test.irVersion, test.rows)
		for runner, run := range map[string]func(in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error){
			"reference": func(in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) { return graph.Evaluate(g, in) },
			"Run": func(in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
				return graphrun.Run(context.Background(), g, in)
			},
			"Compile": func(in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
				p, err := graphrun.Compile(ctx, g, graphrun.Options{})
				if err != nil {
					return nil, err
				}
				return p.Run(context.Background(), in)
			},
			"RunInto": func(in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
				p, err := graphrun.Compile(ctx, g, graphrun.Options{})
				if err != nil {
					return nil, err
				}
				out := map[string]*tensor.Tensor{"y": floats([]int{6}, make([]float32, 6)...)}
				return out, p.RunInto(context.Background(), in, out)
			},
		} {
			if test.rows != "" && runner == "reference" {
				continue // the reference has the sizes for which the graph is bound
			}
			for _, c := range []struct {
				in   map[string]*tensor.Tensor
				want []float32
			}{
				{map[string]*tensor.Tensor{"x": x}, []float32{2, 4, 20, 40, 200, 400}},
				{map[string]*tensor.Tensor{"x": x, "w": floats([]int{2}, 3, 5)}, []float32{6, 10, 60, 100, 600, 1000}},
				{map[string]*tensor.Tensor{"x": x, "w": floats([]int{2}, 1, 2)}, []float32{2, 4, 20, 40, 200, 400}},
			} {
				out, err := run(c.in)
				require.NoError(t, err, "%s %s", name, runner)
				got, err := tensor.ToSlice[float32](out["y"])
				require.NoError(t, err)
				assert.Equal(t, c.want, got, "%s %s", name, runner)
			}
		}
	}
	p, err := graphrun.Compile(ctx, withDefaults(t, 8, ""), graphrun.Options{})
	require.NoError(t, err)
	assert.NotNil(t, p.Graph().Value("twice").Const, "without an override, the sum is folded")
	out, err := p.Run(context.Background(), map[string]*tensor.Tensor{"x": x, "s": shape})
	require.NoError(t, err)
	assert.Equal(t, []int{6}, out["y"].Shape)

	// With a symbolic size, the given tensor may have another size.
	p, err = graphrun.Compile(ctx, withDefaults(t, 8, "K"), graphrun.Options{})
	require.NoError(t, err)
	out, err = p.Run(context.Background(), map[string]*tensor.Tensor{"x": x, "w": floats([]int{1}, 4)})
	require.NoError(t, err)
	got, err := tensor.ToSlice[float32](out["y"])
	require.NoError(t, err)
	assert.Equal(t, []float32{8, 80, 800}, got)

	// In version 3 of the format, weights are inputs by necessity. One that determines shapes is a constant.
	g := withDefaults(t, 3, "")
	assert.False(t, g.Dynamic())
	_, err = graphrun.Run(context.Background(), g, map[string]*tensor.Tensor{"x": x, "s": shape})
	require.ErrorContains(t, err, `no input "s"`)
}
