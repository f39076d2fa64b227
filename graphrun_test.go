package graphrun_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/inspect"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/onnx"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

const residual = "examples/models/residual.json"

var ctx = context.Background()

// floats returns a tensor that counts up from -n/2 in steps of 1/8.
func floats(shape ...int) *tensor.Tensor {
	data := make([]float32, tensor.Numel(shape))
	for i := range data {
		data[i] = float32(i-len(data)/2) / 8
	}
	return tensor.Must(tensor.FromSlice(data, shape...))
}

// write makes a file and returns its path.
func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// symbolic is a graph with y = relu(x + b) where x is [N, C] and b is [C].
func symbolic() *graph.Graph {
	g := graphrun.New("symbolic")
	x := g.InputDims("x", tensor.Float32, tensor.NoFormat, graph.Dim{Symbol: "N"}, graph.Dim{Symbol: "C"})
	b := g.InputDims("b", tensor.Float32, tensor.NoFormat, graph.Dim{Symbol: "C"})
	return g.Output("y", op.Relu(op.Add(x, b)))
}

func equal(t *testing.T, want, got *tensor.Tensor) {
	t.Helper()
	if assert.NotNil(t, got) && assert.Equal(t, want.Meta, got.Meta) {
		assert.Equal(t, want.Storage().Bytes(), got.Storage().Bytes())
	}
}

// swishModel is an ONNX model with an operator of a domain of its own.
func swishModel(t *testing.T, change func(*pb.ModelProto)) []byte {
	shape := &pb.TensorShapeProto{Dim: []*pb.Dimension{
		{DimParam: "N"},
		{DimValue: new(int64(3))}}}
	info := func(name string) *pb.ValueInfoProto {
		return &pb.ValueInfoProto{Name: name, Type: &pb.TypeProto{
			TensorType: &pb.TensorType{ElemType: 1, Shape: shape}}}
	}
	m := &pb.ModelProto{IrVersion: 8,
		OpsetImport: []*pb.OperatorSetIDProto{{Version: 17}, {Domain: "com.example", Version: 2}},
		Graph: &pb.GraphProto{Name: "g", Input: []*pb.ValueInfoProto{info("x")}, Output: []*pb.ValueInfoProto{info("y")},
			Node: []*pb.NodeProto{
				{OpType: "Relu", Input: []string{"x"}, Output: []string{"r"}},
				{OpType: "Swish", Domain: "com.example", Name: "s", Input: []string{"r"}, Output: []string{"y"},
					Attribute: []*pb.AttributeProto{{Name: "beta", Type: pb.AttributeFloat, F: 2}}}}}}
	if change != nil {
		change(m)
	}
	data := pb.Marshal(m)
	return data
}

// A file is told by its name, else by what it begins with.
func TestLoadTellsFiles(t *testing.T) {
	model := swishModel(t, func(m *pb.ModelProto) {
		m.Graph.Node[1] = &pb.NodeProto{OpType: "Neg", Input: []string{"r"}, Output: []string{"y"}}
	})
	text := []byte("\n {\"version\": 1, \"inputs\": [{\"name\": \"x\", " +
		"\"dtype\": \"float32\", \"shape\": [\"N\", 3]}],\n" +
		"\"nodes\": [{\"name\": \"y\", \"op\": \"relu\", \"inputs\": [\"x\"]}], \"outputs\": [\"y\"]}")
	for name, data := range map[string][]byte{"m.onnx": model, "M.ONNX": model, "m.bin": model, "m": model,
		"g.json": text, "g.JSON": text, "g.txt": text, "g": text} {
		g, err := graphrun.Load(ctx, write(t, name, data))
		if assert.NoError(t, err, name) {
			assert.Equal(t, []string{"x"}, []string{g.Inputs[0].Name}, name)
			assert.Equal(t, tensor.New(tensor.Float32, 2, 3), g.Value("y").Meta, name)
			assert.Equal(t, map[string]int{"N": 2}, g.Assumed(), name)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.json")
	_, err := graphrun.Load(ctx, missing)
	assert.EqualError(t, err, missing+": there is no such file")
	assert.ErrorIs(t, err, os.ErrNotExist)
	folder := t.TempDir()
	_, err = graphrun.Load(ctx, folder)
	assert.EqualError(t, err, folder+": this is a folder, not a file")
	for name, c := range map[string]struct{ data, want string }{
		"empty.json": {"", ":1:1: the file is empty"},
		"g.json": {`{"version": 1, "inputs": [],
"nodes": [{"name": "y", "op": "rleu", "inputs": []}], "outputs": ["y"]}`,
			":2:"},
		"m.onnx": {"PK\x03\x04", "not an ONNX model"},
		"pins.json": {`{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [3]}], "nodes": [],
"outputs": [{"value": "x", "memory_format": "channels_last"}]}`, ":2:"},
	} {
		path := write(t, name, []byte(c.data))
		_, err := graphrun.Load(ctx, path)
		if assert.Error(t, err, name) {
			assert.Contains(t, err.Error(), path)
			assert.Contains(t, err.Error(), c.want)
		}
	}
}

// All nodes that are wrong for reasons of their own are in one error, with their places.
func TestLoadTellsAllMistakes(t *testing.T) {
	path := write(t, "g.json", []byte(`{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3]}],
"nodes": [{"name": "a", "op": "view", "inputs": ["x"], "attrs": {"size": [5]}},
 {"name": "b", "op": "relu", "inputs": ["a"]},
 {"name": "c", "op": "view", "inputs": ["x"], "attrs": {"size": [7]}}], "outputs": ["b", "c"]}`))
	_, err := graphrun.Load(ctx, path)
	var all graph.Errors
	require.ErrorAs(t, err, &all)
	require.Len(t, all, 2)
	assert.Equal(t, []int{2, 4}, []int{all[0].Line, all[1].Line})
}

// Sizes are given by name, or by the shapes of inputs.
func TestLoaderSizes(t *testing.T) {
	shapes := map[string][]int{"image": {5, 8, 16, 16}}
	for _, l := range []graphrun.Loader{{Sizes: map[string]int{"N": 5}}, {Shapes: shapes}} {
		g, err := l.Load(ctx, residual)
		require.NoError(t, err)
		assert.Equal(t, []int{5, 8, 16, 16}, g.Outputs[0].Value.Meta.Shape)
		assert.Empty(t, g.Assumed())
	}
	differ := map[string][]int{"image": {5, 8, 16, 16}, "skip": {4, 8, 16, 16}}
	for want, l := range map[string]graphrun.Loader{
		`the graph has no symbolic dimension "M"; it has N`:                                {Sizes: map[string]int{"M": 5}},
		`N is 5 in input "image", but 4 in input "skip"`:                                   {Shapes: differ},
		`a shape is given for "imag", but the file has no such input; did you mean image?`: {Shapes: map[string][]int{"imag": {5}}},
		`N=65 is outside its bounds: min 1, max 64`:                                        {Sizes: map[string]int{"N": 65}},
	} {
		_, err := l.Load(ctx, residual)
		assert.EqualError(t, err, residual+": "+want)
	}
}

// A program takes open sizes from the inputs of each run, from many goroutines at once.
func TestOpenSizes(t *testing.T) {
	p, err := graphrun.Compile(ctx, symbolic(), graphrun.Options{Threads: 2})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			in := map[string]*tensor.Tensor{"x": floats(1+i%12, 1+i%5), "b": floats(1 + i%5)}
			out, err := p.Run(ctx, in)
			if !assert.NoError(t, err) {
				return
			}
			want, err := graphrun.Run(ctx, symbolic(), in)
			if assert.NoError(t, err) {
				equal(t, want["y"], out["y"])
			}
		})
	}
	wg.Wait()
	assert.Equal(t, map[string]int{"N": 2, "C": 2}, p.Report().Assumed)
	assert.Equal(t, []int{2, 2}, p.Graph().Outputs[0].Value.Meta.Shape)
}

// A size that is given holds for all runs. What does not agree is told by its symbol.
func TestGivenSizes(t *testing.T) {
	_, err := graphrun.Compile(ctx, symbolic(), graphrun.Options{Sizes: map[string]int{"K": 1}})
	assert.EqualError(t, err, `Options.Sizes: the graph has no symbolic dimension "K"; it has C, N`)
	p, err := graphrun.Compile(ctx, symbolic(), graphrun.Options{Sizes: map[string]int{"C": 3}})
	require.NoError(t, err)
	for want, in := range map[string]map[string]*tensor.Tensor{
		"": {"x": floats(7, 3), "b": floats(3)},
		`input "x" has shape [7, 4], so C is 4, but the program was compiled with the fixed size C=3`: {
			"x": floats(7, 4), "b": floats(3)},
		`input "b" is missing`:                            {"x": floats(7, 3)},
		`the graph has no input "z"; it has x, b`:         {"x": floats(7, 3), "b": floats(3), "z": floats(1)},
		`input "x" has shape [7], the graph wants [N, 3]`: {"x": floats(7), "b": floats(3)},
	} {
		_, err := p.Run(ctx, in)
		if want == "" {
			assert.NoError(t, err)
		} else {
			assert.EqualError(t, err, want)
		}
	}
	g := symbolic()
	require.NoError(t, g.Bind(map[string]int{"C": 3})) // as a loader does
	p, err = graphrun.Compile(ctx, g, graphrun.Options{})
	require.NoError(t, err)
	_, err = p.Run(ctx, map[string]*tensor.Tensor{"x": floats(7, 4), "b": floats(4)})
	assert.ErrorContains(t, err, "the fixed size C=3")
	_, err = p.Run(ctx, map[string]*tensor.Tensor{"x": floats(7, 3), "b": floats(3)})
	assert.NoError(t, err)
	_, err = graphrun.Run(ctx, symbolic(), map[string]*tensor.Tensor{"x": floats(7, 4), "b": floats(3)})
	assert.EqualError(t, err, `C is 4 in input "x", but 3 in input "b"`)
}

// A program does not depend on the graph any more, and the graph is not changed.
func TestProgramsAreIndependent(t *testing.T) {
	for _, g := range []*graph.Graph{symbolic(), func() *graph.Graph {
		g := graphrun.New("plain")
		return g.Output("y", op.Relu(op.Add(g.Input("x", tensor.Float32, 4, 2), g.Input("b", tensor.Float32, 2))))
	}()} {
		p, err := graphrun.Compile(ctx, g, graphrun.Options{Pins: map[string]graph.Pin{"y": {Format: tensor.Contiguous}}})
		require.NoError(t, err)
		assert.Equal(t, graph.Pin{}, g.Outputs[0].Pin, "the pin is of the program")
		g.Output("more", op.Neg(g.Value("x")))
		out, err := p.Run(ctx, map[string]*tensor.Tensor{"x": floats(4, 2), "b": floats(2)})
		require.NoError(t, err)
		assert.Len(t, out, 1)
	}
}

// A graph whose shapes depend on data runs as any other.
func TestDataDependent(t *testing.T) {
	g := graphrun.New("dynamic")
	g.Output("y", op.Nonzero(op.Relu(g.Input("x", tensor.Float32, 6))))
	var plans atomic.Int32
	p, err := graphrun.Compile(ctx, g, graphrun.Options{Progress: func(stage string) {
		if stage == "planning" {
			plans.Add(1)
		}
	}})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			out, err := p.Run(ctx, map[string]*tensor.Tensor{"x": floats(6)})
			if assert.NoError(t, err) {
				assert.Equal(t, []int{2, 1}, out["y"].Shape)
			}
		})
	}
	wg.Wait()
	require.NotNil(t, p.Graph())
	r := p.Report()
	require.Len(t, r.Segments, 2)
	assert.Equal(t, []bool{true, false}, []bool{r.Segments[0].Planned, r.Segments[1].Planned})
	assert.Equal(t, "[u0,1]", fmt.Sprint(r.Segments[1].Outputs[0].Shape))
	assert.Len(t, r.Steps, 1)
	assert.Equal(t, int32(1), plans.Load(), "what was planned ahead is what runs")
	text, err := json.Marshal(r)
	require.NoError(t, err)
	assert.Contains(t, string(text), `"shape":["u0",1]`)
}

// Where nothing can be planned before a run, the report has nothing but the segments.
func TestNothingIsPlannedAhead(t *testing.T) {
	g := graphrun.New("dynamic")
	g.Output("y", op.Nonzero(g.Input("x", tensor.Float32, 6)))
	p, err := graphrun.Compile(ctx, g, graphrun.Options{Strategy: graphrun.Contiguous})
	require.NoError(t, err)
	r := p.Report()
	assert.Equal(t, "contiguous", r.Strategy)
	assert.Empty(t, r.Steps)
	require.Len(t, r.Segments, 1)
	assert.True(t, r.Segments[0].DecidesShapes)
	assert.Zero(t, p.Need().Total())
}

func TestPins(t *testing.T) {
	g, err := graphrun.Load(ctx, residual)
	require.NoError(t, err)
	p, err := graphrun.Compile(ctx, g, graphrun.Options{Pins: map[string]graph.Pin{"conv1": {Impl: "nchw"}}})
	require.NoError(t, err)
	for _, s := range p.Report().Steps {
		if s.Name == "conv1" {
			assert.Equal(t, "nchw", s.Impl)
		}
	}
	_, err = graphrun.Compile(ctx, g, graphrun.Options{Pins: map[string]graph.Pin{"conv3": {Impl: "nchw"}}})
	var wrong *graphrun.PinError
	require.ErrorAs(t, err, &wrong)
	assert.EqualError(t, err, `pin conv3=impl:nchw: there is no value or node "conv3"; did you mean "conv1"?`)
	_, err = graphrun.Compile(ctx, g, graphrun.Options{Pins: map[string]graph.Pin{"conv1": {Impl: "fft"}}})
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, "conv1", wrong.Name)
}

// All strategies give the same values, in the layout of the graph.
func TestStrategies(t *testing.T) {
	testsize.Long(t)
	g, err := graphrun.Load(ctx, residual)
	require.NoError(t, err)
	in := map[string]*tensor.Tensor{"image": floats(2, 8, 16, 16), "skip": floats(2, 8, 16, 16)}
	want, err := graphrun.Run(ctx, g, in)
	require.NoError(t, err)
	for _, s := range append(graphrun.Strategies(), rowMajorImages{}) {
		p, err := graphrun.Compile(ctx, g, graphrun.Options{Strategy: s})
		require.NoError(t, err, s.Name())
		assert.Equal(t, s.Name(), p.Report().Strategy)
		out, err := p.Run(ctx, in)
		require.NoError(t, err, s.Name())
		assert.Equal(t, want["y"].Meta, out["y"].Meta, s.Name())
		got, _ := tensor.ToSlice[float32](out["y"])
		ref, _ := tensor.ToSlice[float32](want["y"])
		assert.InDeltaSlice(t, ref, got, 1e-4, s.Name())
	}
	for _, s := range graphrun.Strategies() {
		same, err := graphrun.StrategyNamed(s.Name())
		require.NoError(t, err)
		assert.Equal(t, s.Name(), same.Name())
	}
	_, err = graphrun.StrategyNamed("fastest")
	assert.ErrorContains(t, err, "want one of propagate")
}

// A run that keeps going delivers what does not depend on a failure.
func TestKeepGoing(t *testing.T) {
	path := write(t, "g.json", []byte(`{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3]}],
"nodes": [{"name": "a", "op": "view", "inputs": ["x"], "attrs": {"size": [5]}},
 {"name": "b", "op": "relu", "inputs": ["a"]},
 {"name": "c", "op": "relu", "inputs": ["x"]}], "outputs": ["b", "c"]}`))
	f, err := graphrun.Loader{}.Open(ctx, path)
	require.NoError(t, err)
	g, err := f.Graph(ctx)
	require.NoError(t, err)
	_, err = graphrun.Compile(ctx, g, graphrun.Options{})
	assert.ErrorContains(t, err, path+":2:", "it is inferred first")
	p, err := graphrun.Compile(ctx, g, graphrun.Options{KeepGoing: true})
	require.NoError(t, err)
	out, err := p.Run(ctx, map[string]*tensor.Tensor{"x": floats(2, 3)})
	var part *exec.Incomplete
	require.ErrorAs(t, err, &part)
	assert.Equal(t, []exec.MissingOutput{{Output: "b", Node: "a"}}, part.MissingOutputs)
	assert.Len(t, part.Failed, 1)
	assert.Len(t, out, 1)
	assert.NotNil(t, out["c"])
}

// What cannot be read is told beside the graph, and left out of its runs: a constant of a graph file,
// a node of a model.
func TestLoadKeepsGoing(t *testing.T) {
	text := []byte(`{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 3]}],
"constants": [{"name": "w", "dtype": "float32", "shape": [3], "file": "none.npy"}],
"nodes": [{"name": "r", "op": "relu", "inputs": ["x"]}, {"name": "y", "op": "mul", "inputs": ["r", "w"]}],
"outputs": ["y", "r"]}`)
	model := swishModel(t, func(m *pb.ModelProto) {
		m.Graph.Output = append(m.Graph.Output, &pb.ValueInfoProto{Name: "r", Type: m.Graph.Output[0].Type})
	})
	for name, c := range map[string]struct {
		data    []byte
		missing string // of what is no node
	}{
		"g.json": {text, "there is no such file"},
		"m.onnx": {model, ""},
	} {
		path := write(t, name, c.data)
		_, err := graphrun.Load(ctx, path)
		require.Error(t, err)
		g, err := graphrun.Loader{KeepGoing: true}.Load(ctx, path)
		require.NotNil(t, g, "%v", err)
		if c.missing == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, path+":2:")
			assert.ErrorContains(t, err, c.missing)
		}
		p, err := graphrun.Compile(ctx, g, graphrun.Options{KeepGoing: true})
		require.NoError(t, err)
		for _, n := range []int{2, 5} {
			out, err := p.Run(ctx, map[string]*tensor.Tensor{"x": floats(n, 3)})
			var part *graphrun.Incomplete
			require.ErrorAs(t, err, &part)
			require.Len(t, part.MissingOutputs, 1)
			assert.Equal(t, "y", part.MissingOutputs[0].Output)
			assert.Equal(t, []int{n, 3}, out["r"].Shape)
		}
	}
}

func TestMemoryLimit(t *testing.T) {
	g := graphrun.New("large")
	g.Output("y", op.Relu(g.Input("x", tensor.Float32, 1<<20)))
	_, err := graphrun.Compile(ctx, g, graphrun.Options{MemoryLimit: 1 << 20})
	var short *exec.MemoryError
	require.ErrorAs(t, err, &short)
	assert.GreaterOrEqual(t, short.Need.Total(), 8<<20)
	p, err := graphrun.Compile(ctx, g, graphrun.Options{MemoryLimit: 1 << 24})
	require.NoError(t, err)
	assert.Equal(t, p.Report().Memory.Total, p.Need().Total())
	assert.Equal(t, 2*p.Need().Outputs, experiment.Together(p, nil, p).Outputs)
}

// The report's JSON has lists where there is nothing to list, and no key that is not described.
func TestReport(t *testing.T) {
	testsize.Long(t)
	g, err := graphrun.Load(ctx, residual)
	require.NoError(t, err)
	var dump bytes.Buffer
	var stages []string
	p, err := graphrun.Compile(ctx, g, graphrun.Options{Check: true, Dump: &dump,
		Progress: func(s string) { stages = append(stages, s) }})
	require.NoError(t, err)
	assert.Contains(t, dump.String(), "after layout")
	assert.Equal(t, []string{"planning", "compiling"}, stages)
	r := p.Report()
	assert.NotNil(t, r.Unchecked)
	assert.Positive(t, r.CostNS)
	assert.Equal(t, p.Need().Total(), r.Memory.Total)
	text, err := json.Marshal(r)
	require.NoError(t, err)
	var keys map[string]any
	require.NoError(t, json.Unmarshal(text, &keys))
	assert.Len(t, keys["steps"], len(r.Steps))
	assert.Equal(t, []any{}, keys["unchecked"])
	assert.Equal(t, map[string]any{"N": 2.0}, keys["assumed"])
	assert.Nil(t, (*graphrun.Program)(nil).Report())
}

// An op of one's own is found in graph files, and an operator of one's own in models.
func TestOwnOps(t *testing.T) {
	lookup, err := graphrun.Lookup(swish())
	require.NoError(t, err)
	want := func(x float32) float64 { return max(float64(x), 0) / (1 + math.Exp(-2*max(float64(x), 0))) }
	text := []byte(`{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 3]}],
"nodes": [{"name": "r", "op": "relu", "inputs": ["x"]},
 {"name": "y", "op": "swish", "inputs": ["r"], "attrs": {"beta": 2}}], "outputs": ["y"]}`)
	l := graphrun.Loader{Lookup: lookup, Operators: onnx.Operators{"com.example": {"Swish": onnx.As("swish")}}}
	for _, path := range []string{write(t, "own.json", text), write(t, "own.onnx", swishModel(t, nil))} {
		_, err := graphrun.Load(ctx, path)
		assert.Error(t, err, "nobody else knows it")
		g, err := l.Load(ctx, path)
		require.NoError(t, err)
		in := floats(4, 3)
		out, err := graphrun.Run(ctx, g, map[string]*tensor.Tensor{"x": in})
		require.NoError(t, err)
		for i := range 4 {
			assert.InDelta(t, want(float32(in.At(i, 1).Float())), out["y"].At(i, 1).Float(), 1e-6)
		}
	}
}

func TestLookupRefuses(t *testing.T) {
	o := swish()
	relu, err := fusion.Define(graph.Op{Semantics: graph.Semantics{Name: "relu", Params: o.Params, NoRef: "a test"},
		Lowerings: graph.Lowerings{Pointwise: o.Pointwise}})
	require.NoError(t, err)
	for want, own := range map[string][]*graph.Op{
		`op 1 is nil`:               {swish(), nil},
		`two ops are named "swish"`: {swish(), swish()},
		`op "relu": package kernels already has an op with this name`: {relu},
		`op 0 has no name`: {{}},
	} {
		_, err := graphrun.Lookup(own...)
		assert.EqualError(t, err, want)
	}
}

// What is nil or was made by nobody is an error.
func TestMisuse(t *testing.T) {
	_, err := graphrun.Compile(ctx, nil, graphrun.Options{})
	assert.EqualError(t, err, "the graph to compile is nil")
	_, err = graphrun.Run(ctx, nil, nil)
	assert.Error(t, err)
	assert.Error(t, graphrun.Infer(ctx, nil))
	for _, p := range []*graphrun.Program{nil, {}} {
		_, err = p.Run(ctx, nil)
		assert.EqualError(t, err, "the program was not made by Compile")
		assert.Nil(t, p.Report())
		assert.Nil(t, p.Graph())
		assert.Zero(t, p.Need().Total())
	}
	g := graphrun.New("wrong")
	g.Output("y", op.Relu(g.Input("x", tensor.Float32, -1)))
	_, err = graphrun.Compile(ctx, g, graphrun.Options{})
	assert.ErrorContains(t, err, `input "x"`)
	_, err = new(graphrun.File).Graph(ctx)
	assert.Error(t, err)
	p, err := graphrun.Compile(ctx, symbolic(), graphrun.Options{})
	require.NoError(t, err)
	var none context.Context
	_, err = p.Run(none, map[string]*tensor.Tensor{"x": floats(2, 2), "b": floats(2)})
	assert.Error(t, err)
}

// A size that the model calls by what is no identifier is given by that name, or by the graph's.
func TestSizesByTheNamesOfTheModel(t *testing.T) {
	path := write(t, "m.onnx", swishModel(t, func(m *pb.ModelProto) {
		m.Graph.Node[1] = &pb.NodeProto{OpType: "Neg", Input: []string{"r"}, Output: []string{"y"}}
		for _, x := range []*pb.ValueInfoProto{m.Graph.Input[0], m.Graph.Output[0]} {
			x.Type.TensorType.Shape.Dim[0].DimParam = "batch-size"
		}
	}))
	g, err := graphrun.Load(ctx, path)
	require.NoError(t, err)
	require.Equal(t, "batch_size (batch-size)", g.SymbolText("batch_size"))
	for _, name := range []string{"batch-size", "batch_size"} {
		p, err := graphrun.Compile(ctx, g, graphrun.Options{Hints: []map[string]int{{name: 1}, {name: 64}}})
		require.NoError(t, err, name)
		classes, err := inspect.Specializations(p)
		require.NoError(t, err)
		require.Len(t, classes, 2)
		_, err = graphrun.Compile(ctx, g, graphrun.Options{Sizes: map[string]int{name: 3}})
		require.NoError(t, err, name)
		require.NoError(t, g.Clone().Bind(map[string]int{name: 3}))
		s, err := g.Symbolic(map[string]int{name: 3})
		require.NoError(t, err)
		require.Equal(t, 3, s.Hints["batch_size"])
	}
	require.ErrorContains(t, g.Clone().Bind(map[string]int{"batch-size": 3, "batch_size": 3}),
		"batch-size is another name")
	_, err = graphrun.Compile(ctx, g, graphrun.Options{Sizes: map[string]int{"L": 3}})
	require.EqualError(t, err, `Options.Sizes: the graph has no symbolic dimension "L"; it has batch_size (batch-size)`)
}

// Own passes plan the graph in their places, for every size that runs bring, and the report tells what they did.
func TestOwnPasses(t *testing.T) {
	runs := 0
	own := passes.Pass{Name: "negate", Doc: "negates outputs", Needs: graph.Typed, Run: func(p *passes.Plan) error {
		runs++
		for i, o := range p.Graph.Outputs {
			n, err := p.Graph.Insert("negated", "neg", []graph.Arg{graph.ArgOf(o.Value)}, nil, "")
			if err != nil {
				return err
			}
			p.Graph.Nodes = append(p.Graph.Nodes, n)
			p.Graph.Outputs[i].Value = n.Out[0]
		}
		p.Note("%d negated", len(p.Graph.Outputs))
		return nil
	}}
	list, err := passes.After(passes.Passes(), "infer", own)
	require.NoError(t, err)
	plain, err := graphrun.Compile(ctx, symbolic(), graphrun.Options{})
	require.NoError(t, err)
	p, err := graphrun.Compile(ctx, symbolic(), graphrun.Options{Passes: list})
	require.NoError(t, err)
	list[1] = passes.Pass{} // the program has the list as it was given
	var names []string
	for _, done := range p.Report().Passes {
		names = append(names, done.Pass)
		if done.Pass == "negate" {
			assert.Equal(t, report.Pass{Pass: "negate", Doc: "negates outputs", Did: "1 negated", Nodes: 3,
				MS: done.MS}, done)
		}
	}
	assert.Equal(t, []string{"infer", "negate", "rewrite", "decompose"}, names[:4])
	for _, n := range []int{3, 5} {
		in := map[string]*tensor.Tensor{"x": floats(n, 4), "b": floats(4)}
		want, err := plain.Run(ctx, in)
		require.NoError(t, err)
		got, err := p.Run(ctx, in)
		require.NoError(t, err)
		for i := range n {
			for k := range 4 {
				assert.Equal(t, -want["y"].At(i, k).Float(), got["y"].At(i, k).Float())
			}
		}
	}
	assert.Equal(t, 4, runs, "for each set of sizes, and for unknown ones")

	_, err = graphrun.Compile(ctx, symbolic(), graphrun.Options{Passes: []passes.Pass{own}})
	assert.ErrorContains(t, err, "pass negate needs a graph that is")
	_, err = graphrun.Compile(ctx, symbolic(), graphrun.Options{Passes: list})
	assert.ErrorContains(t, err, "pass 1 has no name")
}
