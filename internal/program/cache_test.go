package program_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/graphtest/networks"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// randomFloats returns a tensor of numbers from -0.1 to 0.1.
func randomFloats(r *rand.Rand, shape ...int) *tensor.Tensor {
	t := tensor.Zeros(tensor.Float32, shape...)
	data := make([]float32, t.Numel())
	for i := range data {
		data[i] = (r.Float32() - 0.5) / 5
	}
	return tensor.Must(tensor.FromSlice(data, shape...))
}

// perceptron has weights that are computed from constants, a table that runs read as it is, and an open batch N.
func perceptron() *graph.Graph {
	r := rand.New(rand.NewPCG(1, 2))
	g := graphrun.New("perceptron")
	x := g.InputDims("x", tensor.Float32, tensor.NoFormat, graph.Dim{Symbol: "N"}, graph.Dim{Size: 96})
	index := g.InputDims("index", tensor.Int64, tensor.NoFormat, graph.Dim{Symbol: "N"})
	w := op.Mul(g.Constant("w", randomFloats(r, 96, 96)), g.Constant("scale", randomFloats(r, 96, 1)))
	v := op.Relu(op.Linear(x, w, g.Constant("b", randomFloats(r, 96))))
	v = op.Add(v, op.Embedding(g.Constant("table", randomFloats(r, 64, 96)), index))
	return g.Output("y", op.Linear(v, op.Transpose(g.Constant("u", randomFloats(r, 96, 80)), 0, 1), nil))
}

// bottlenecks is a convolutional network with open sizes and random weights.
func bottlenecks() *graph.Graph {
	g, r := networks.Bottlenecks(32, 1, 1), rand.New(rand.NewPCG(3, 4))
	for _, v := range g.Constants {
		v.Const = randomFloats(r, v.Const.Shape...)
	}
	return g
}

// decided has a large constant and a shape that depends on data.
func decided() *graph.Graph {
	g := graphrun.New("decided")
	x := g.InputDims("x", tensor.Float32, tensor.NoFormat, graph.Dim{Symbol: "N"}, graph.Dim{Size: 96})
	y := op.Linear(x, g.Constant("w", randomFloats(rand.New(rand.NewPCG(5, 6)), 96, 96)), nil)
	g.Output("y", y)
	return g.Output("places", op.Nonzero(op.Relu(y)))
}

var cachedGraphs = map[string]func() *graph.Graph{"perceptron": perceptron, "bottlenecks": bottlenecks,
	"decided": decided}

// inputsOf returns random inputs for a batch.
func inputsOf(g *graph.Graph, batch int) map[string]*tensor.Tensor {
	r, in := rand.New(rand.NewPCG(uint64(batch), 7)), map[string]*tensor.Tensor{}
	for _, v := range g.Inputs {
		shape := []int{batch, 96}
		switch {
		case len(v.Dims) == 4:
			shape = []int{batch, 3, 20, 20}
		case v.Meta.DType == tensor.Int64:
			in[v.Name] = tensor.Zeros(tensor.Int64, batch)
			continue
		}
		in[v.Name] = randomFloats(r, shape...)
	}
	return in
}

// openCache opens a cache that fails the test on a warning.
func openCache(t *testing.T, dir string) *graphrun.Cache {
	return graphrun.OpenCache(dir, graphrun.CacheOptions{Warn: func(err error) { t.Error(err) }})
}

// bitsOf compiles a graph and returns the outputs of runs with several batches, as text that has all bits.
func bitsOf(t *testing.T, g *graph.Graph, o graphrun.Options) (string, *graphrun.Program) {
	t.Helper()
	p, err := graphrun.Compile(t.Context(), g, o)
	require.NoError(t, err)
	var b bytes.Buffer
	for _, batch := range []int{1, 3, 8} {
		out, err := p.Run(t.Context(), inputsOf(g, batch))
		require.NoError(t, err)
		for _, output := range g.Outputs {
			y := out[output.Name]
			fmt.Fprintf(&b, "%s %v %x\n", output.Name, y.Meta, y.Storage().Bytes())
		}
	}
	return b.String(), p
}

// isSolved reports whether strategy Optimal solved the layout problem of a program, which then did not follow a plan.
func isSolved(p *graphrun.Program) bool {
	return p.Internal().FirstBinding().Plan.Solution != nil
}

// stepsOf describes the nodes of the planned graph.
func stepsOf(p *graphrun.Program) string {
	var b bytes.Buffer
	for _, n := range p.Graph().Nodes {
		impl := ""
		if n.Impl != nil {
			impl = n.Impl.Name
		}
		fmt.Fprintf(&b, "%s %s %s %q %q\n", n.Name, n.Op.Name, impl, n.Walk.LoopOrder, n.Walk.ResultOrders)
		for _, v := range n.Out {
			fmt.Fprintf(&b, "  %s %v\n", v.Name, v.Meta)
		}
	}
	return b.String()
}

func TestCacheBits(t *testing.T) {
	testsize.Long(t)
	strategies := graphrun.Strategies()
	if !testsize.All() {
		strategies = []graphrun.Strategy{graphrun.Propagate, graphrun.ChannelsLast, graphrun.Optimal}
	}
	for name, build := range cachedGraphs {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, s := range strategies {
				for _, o := range []graphrun.Options{{}, {Exact: true}, {Hints: []map[string]int{{"N": 8}, {"N": 1}}},
					{Sizes: map[string]int{}, NoFusion: true}} {
					if s != graphrun.Optimal && (o.Exact || o.NoFusion) {
						continue
					}
					o.Strategy = s
					want, plain := bitsOf(t, build(), o)
					for start := range 2 {
						o.Cache = openCache(t, dir)
						got, p := bitsOf(t, build(), o)
						if got != want {
							t.Fatalf("%s, start %d: other bits", s.Name(), start)
						}
						if s == graphrun.Optimal && name != "decided" {
							assert.Equal(t, start == 0, isSolved(p), "a later start follows the stored plan")
							assert.Equal(t, stepsOf(plain), stepsOf(p), "%s", s.Name())
						}
					}
				}
			}
		})
	}
}

// TestDamagedCache changes every file of a cache: programs have the same bits, and the files are made again.
func TestDamagedCache(t *testing.T) {
	testsize.Long(t)
	dir := t.TempDir()
	o := graphrun.Options{Cache: openCache(t, dir)}
	want, _ := bitsOf(t, bottlenecks(), o)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Greater(t, len(files), 10)
	contents := map[string][]byte{}
	for _, path := range files {
		contents[path], err = os.ReadFile(path)
		require.NoError(t, err)
	}
	damages := map[string]func([]byte) []byte{
		"flipped":   func(b []byte) []byte { b[len(b)*3/4] ^= 1; return b },
		"truncated": func(b []byte) []byte { return b[:len(b)/2] },
		"empty":     func(b []byte) []byte { return nil },
		"foreign":   func(b []byte) []byte { b[15]++; return b },
	}
	for name, damage := range damages {
		for _, path := range files { // a new file, because this process has mapped the old one
			require.NoError(t, os.Remove(path))
			require.NoError(t, os.WriteFile(path, damage(bytes.Clone(contents[path])), 0o600))
		}
		o.Cache = openCache(t, dir)
		got, p := bitsOf(t, bottlenecks(), o)
		if got != want {
			t.Fatalf("%s: other bits", name)
		}
		assert.True(t, isSolved(p), name)
		for path, b := range contents {
			now, err := os.ReadFile(path)
			require.NoError(t, err)
			if !bytes.Equal(b, now) {
				t.Errorf("%s: %s was not made again", name, path)
			}
		}
	}
}

// custom is a strategy of a user, with a state that no digest has.
type custom struct{ calls *int }

func (custom) Name() string { return "optimal" }
func (c custom) Choose(p *layout.Problem) (*layout.Assignment, error) {
	*c.calls++
	return graphrun.Propagate.Choose(p)
}

func TestUncachedPlans(t *testing.T) {
	testsize.Long(t)
	dir, calls := t.TempDir(), 0
	want, _ := bitsOf(t, bottlenecks(), graphrun.Options{Strategy: custom{&calls}})
	for range 2 {
		before := calls
		got, _ := bitsOf(t, bottlenecks(), graphrun.Options{Strategy: custom{&calls}, Cache: openCache(t, dir)})
		assert.True(t, want == got)
		assert.Greater(t, calls, before, "the strategy is called again")
	}
}

func TestCacheOfOtherOps(t *testing.T) {
	copied := *kernels.Lookup("relu")
	copied.Compile = nil // Define sets it
	own, err := graph.Define(copied)
	require.NoError(t, err)
	lookup := func(name string) *graph.Op {
		if name == "relu" {
			return own
		}
		return kernels.Lookup(name)
	}
	dir := t.TempDir()
	g := graph.New("own", lookup)
	x := g.Input("x", tensor.Float32, 96, 96)
	g.Output("y", op.Relu(op.Linear(x, g.Constant("w", randomFloats(rand.New(rand.NewPCG(8, 9)), 96, 96)), nil)))
	_, err = graphrun.Compile(t.Context(), g, graphrun.Options{Cache: openCache(t, dir)})
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	assert.Empty(t, files)
}

// TestCacheWithoutAccess compiles with a cache whose directory cannot be made.
func TestCacheWithoutAccess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	want, _ := bitsOf(t, perceptron(), graphrun.Options{})
	var warnings []error
	c := graphrun.OpenCache(file, graphrun.CacheOptions{Warn: func(err error) { warnings = append(warnings, err) }})
	got, _ := bitsOf(t, perceptron(), graphrun.Options{Cache: c})
	assert.True(t, got == want)
	assert.Len(t, warnings, 1)
}

// TestSharedCache compiles and runs in many goroutines, with caches of one directory that is often too small.
func TestSharedCache(t *testing.T) {
	dir := t.TempDir()
	want, _ := bitsOf(t, perceptron(), graphrun.Options{})
	errs := make(chan error)
	for i := range 6 {
		c := graphrun.OpenCache(dir, graphrun.CacheOptions{MaxBytes: int64(40_000 * (1 + i))})
		run := func() error {
			g := perceptron()
			p, err := graphrun.Compile(context.Background(), g, graphrun.Options{Cache: c})
			if err != nil {
				return err
			}
			var b bytes.Buffer
			for _, batch := range []int{1, 3, 8} {
				out, err := p.Run(context.Background(), inputsOf(g, batch))
				if err != nil {
					return err
				}
				fmt.Fprintf(&b, "y %v %x\n", out["y"].Meta, out["y"].Storage().Bytes())
			}
			if b.String() != want {
				return errors.New("other bits")
			}
			return nil
		}
		go func() { errs <- run() }()
	}
	for range 6 {
		assert.NoError(t, <-errs)
	}
}

// addModel returns an ONNX model that adds a weight of 64 KiB, whose data are in file w.bin if external is set.
func addModel(external bool) (model, weight []byte) {
	weight = make([]byte, 1<<16)
	for i := range weight {
		weight[i] = byte(i % 61) // no infinities
	}
	shape := &pb.TensorShapeProto{Dim: []*pb.Dimension{{DimValue: new(int64(1 << 14))}}}
	info := func(name string) []*pb.ValueInfoProto {
		return []*pb.ValueInfoProto{{Name: name, Type: &pb.TypeProto{
			TensorType: &pb.TensorType{ElemType: int32(pb.Float), Shape: shape}}}}
	}
	w := &pb.TensorProto{Name: "w", DataType: int32(pb.Float), Dims: []int64{1 << 14}}
	if w.RawData = weight; external {
		w.RawData, w.DataLocation = nil, pb.External
		w.ExternalData = []*pb.StringStringEntryProto{{Key: "location", Value: "w.bin"}}
	}
	return pb.Marshal(&pb.ModelProto{IrVersion: 8, OpsetImport: []*pb.OperatorSetIDProto{{Version: 17}},
		Graph: &pb.GraphProto{Name: "g", Initializer: []*pb.TensorProto{w}, Input: info("x"), Output: info("y"),
			Node: []*pb.NodeProto{{OpType: "Add", Input: []string{"x", "w"}, Output: []string{"y"}}}}}), weight
}

// TestCacheOfModels loads ONNX models with a cache: their weights are those of the files, and then those of the entry.
func TestCacheOfModels(t *testing.T) {
	for _, external := range []bool{false, true} {
		dir := t.TempDir()
		path, cacheDir := filepath.Join(dir, "m.onnx"), filepath.Join(dir, "cache")
		model, weight := addModel(external)
		require.NoError(t, os.WriteFile(path, model, 0o600))
		if external {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "w.bin"), weight, 0o600))
		}
		load := func() *graph.Graph {
			g, err := graphrun.Loader{Cache: openCache(t, cacheDir)}.Load(t.Context(), path)
			require.NoError(t, err)
			require.True(t, bytes.Equal(weight, g.Value("w").Const.Storage().Bytes()))
			return g
		}
		load()
		g := load()
		files, err := filepath.Glob(filepath.Join(cacheDir, "*"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		require.NoError(t, os.Remove(files[0])) // load has mapped it
		require.NoError(t, os.WriteFile(files[0], make([]byte, 100), 0o600))
		load()

		weight = bytes.Clone(weight)
		weight[4] ^= 3 // a model that changes has another entry
		if external {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "w.bin"), weight, 0o600))
		} else {
			at := bytes.Index(model, weight[8:1000]) - 8
			copy(model[at:], weight)
			require.NoError(t, os.WriteFile(path, model, 0o600))
		}
		load()
		require.False(t, bytes.Equal(weight, g.Value("w").Const.Storage().Bytes()))
	}
}
