package onnx

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// These functions build small models as exporters write them.

func model(opset int64, g *pb.GraphProto, functions ...*pb.FunctionProto) *pb.ModelProto {
	return &pb.ModelProto{IrVersion: 8, Graph: g, Functions: functions,
		OpsetImport: []*pb.OperatorSetIDProto{{Version: opset}, {Domain: "mine", Version: 1}}}
}

func node1(op string, in, out []string, attrs ...*pb.AttributeProto) *pb.NodeProto {
	return &pb.NodeProto{OpType: op, Input: in, Output: out, Attribute: attrs}
}

func names(s ...string) []string { return s }

func attrInt(name string, v int64) *pb.AttributeProto {
	return &pb.AttributeProto{Name: name, Type: pb.AttributeInt, I: v}
}

func attrInts(name string, v ...int64) *pb.AttributeProto {
	return &pb.AttributeProto{Name: name, Type: pb.AttributeInts, Ints: v}
}

func attrFloat(name string, v float32) *pb.AttributeProto {
	return &pb.AttributeProto{Name: name, Type: pb.AttributeFloat, F: v}
}

func attrGraph(name string, g *pb.GraphProto) *pb.AttributeProto {
	return &pb.AttributeProto{Name: name, Type: pb.AttributeGraph, G: g}
}

// attrRef makes an attribute of a node refer to an attribute of the enclosing function.
func attrRef(name, of string) *pb.AttributeProto {
	return &pb.AttributeProto{Name: name, RefAttrName: of, Type: pb.AttributeFloat}
}

// info declares an input or output; a dim is a size, a symbol's name, or nil.
func info(name string, d pb.DataType, dims ...any) *pb.ValueInfoProto {
	shape := &pb.TensorShapeProto{}
	for _, dim := range dims {
		p := &pb.Dimension{}
		switch x := dim.(type) {
		case int:
			p.DimValue = new(int64(x))
		case string:
			p.DimParam = x
		}
		shape.Dim = append(shape.Dim, p)
	}
	t := &pb.TensorType{ElemType: int32(d), Shape: shape}
	return &pb.ValueInfoProto{Name: name, Type: &pb.TypeProto{TensorType: t}}
}

func infos(list ...*pb.ValueInfoProto) []*pb.ValueInfoProto { return list }

func floats(name string, dims []int64, data ...float32) *pb.TensorProto {
	return &pb.TensorProto{Name: name, DataType: int32(pb.Float), Dims: dims, FloatData: data}
}

func int64s(name string, dims []int64, data ...int64) *pb.TensorProto {
	return &pb.TensorProto{Name: name, DataType: int32(pb.Int64), Dims: dims, Int64Data: data}
}

func rawFloats(data ...float32) []byte {
	var out []byte
	for _, f := range data {
		b := math.Float32bits(f)
		out = append(out, byte(b), byte(b>>8), byte(b>>16), byte(b>>24))
	}
	return out
}

// toGraph reads a model as from a file.
func toGraph(m *pb.ModelProto, o Options) (*graph.Graph, error) {
	data := pb.Marshal(m)
	p, err := Parse(data, "")
	if err != nil {
		return nil, err
	}
	return p.Graph(o)
}

// run converts and runs a model. Inputs are float32 or int64 tensors by name.
func run(t *testing.T, m *pb.ModelProto, in map[string]*tensor.Tensor) map[string]*tensor.Tensor {
	t.Helper()
	shapes := map[string][]int{}
	for name, x := range in {
		shapes[name] = x.Shape
	}
	g, err := toGraph(m, Options{Shapes: shapes})
	require.NoError(t, err)
	return runGraph(t, g, in)
}

func runGraph(t testing.TB, g *graph.Graph, in map[string]*tensor.Tensor) map[string]*tensor.Tensor {
	t.Helper()
	out, err := execute(g, in)
	require.NoError(t, err)
	return out
}

// execute runs a graph. If the graph is planned as a whole, it checks that the run executes the plan.
func execute(g *graph.Graph, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	compiled, err := program.Compile(context.Background(), g, program.Options{Threads: 2, Strategy: layout.Propagate})
	if err != nil {
		return nil, err
	}
	if binding := compiled.FirstBinding(); !binding.Segmented() {
		p := binding.Program
		nodes := slices.DeleteFunc(slices.Clone(compiled.Planned().Nodes), (*graph.Node).IsView)
		for i, s := range p.Steps() {
			if i >= len(nodes) || s.Node != nodes[i] {
				return nil, fmt.Errorf("step %d, %q, is not the node that was planned", i, s.Name)
			}
		}
		if len(p.Steps()) != len(nodes) {
			return nil, fmt.Errorf("%d steps of %d nodes", len(p.Steps()), len(nodes))
		}
	}
	return compiled.Run(context.Background(), in)
}

func f32(shape []int, data ...float32) *tensor.Tensor {
	return tensor.Must(tensor.FromSlice(data, shape...))
}

func i64(shape []int, data ...int64) *tensor.Tensor {
	return tensor.Must(tensor.FromSlice(data, shape...))
}

func floatsOf(t testing.TB, x *tensor.Tensor) []float32 {
	t.Helper()
	out, err := tensor.ToSlice[float32](x)
	require.NoError(t, err)
	return out
}

func intsOf(t testing.TB, x *tensor.Tensor) []int64 {
	t.Helper()
	out, err := tensor.ToSlice[int64](x)
	require.NoError(t, err)
	return out
}

const (
	tFloat = pb.Float
	tInt64 = pb.Int64
	tBool  = pb.Bool
)
