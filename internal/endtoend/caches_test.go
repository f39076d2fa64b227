package endtoend_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/internal/jit"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/onnx"
	"github.com/graphrun/graphrun/tensor"
)

// cachedDecoder returns a decoder of two layers with caches of keys and values, as optimum exports it. The caches of
// the second layer are written as by GroupQueryAttention: zeros are appended, and a scatter replaces them by the new
// keys and values at the given positions.
func cachedDecoder(t *testing.T) *graph.Graph {
	var nodes, inputs, outputs []string
	node := func(name, op, attrs string, in ...string) string {
		for i, operand := range in {
			in[i] = fmt.Sprintf("%q", operand)
		}
		nodes = append(nodes, fmt.Sprintf(`{"name": %q, "op": %q, "inputs": [%s], "attrs": {%s}}`, name, op,
			strings.Join(in, ", "), attrs))
		return name
	}
	weight := func(name string, rows, columns int) string {
		node(name+".range", "arange", fmt.Sprintf(`"end": %d, "dtype": "float32"`, rows*columns))
		node(name+".sin", "sin", "", name+".range")
		return node(name, "reshape", fmt.Sprintf(`"shape": [%d, %d]`, rows, columns), name+".sin")
	}
	// index is [B, 2, S, 8].
	node("positions4", "reshape", `"shape": ["B", 1, "S", 1]`, "positions")
	node("index", "expand", `"size": ["B", 2, "S", 8]`, "positions4")
	x := "x"
	for layer := range 2 {
		name := func(text string) string { return fmt.Sprintf("%s.%d", text, layer) }
		heads := func(text string, count int) string {
			node(name(text+".linear"), "linear", "", x, weight(name(text+".w"), 8*count, 16))
			node(name(text+".heads"), "reshape", fmt.Sprintf(`"shape": ["B", "S", %d, 8]`, count), name(text+".linear"))
			return node(name(text), "transpose", `"dim0": 1, "dim1": 2`, name(text+".heads"))
		}
		present := map[string]string{}
		for _, kind := range []string{"key", "value"} {
			past, output := fmt.Sprintf("past_key_values.%d.%s", layer, kind), fmt.Sprintf("present.%d.%s", layer, kind)
			inputs = append(inputs, fmt.Sprintf(`{"name": %q, "dtype": "float32", "shape": ["B", 2, "P", 8]}`, past))
			outputs = append(outputs, fmt.Sprintf("%q", output))
			added := node(name(kind+".scaled"), "tanh", "", heads(kind, 2))
			if layer == 0 {
				present[kind] = node(output, "cat", `"dim": 2`, past, added)
				continue
			}
			node(output+".grown", "constant_pad_nd", `"pad": [0, 0, 0, "Max(P, T) - P"]`, past)
			present[kind] = node(output, "scatter", `"dim": -2`, output+".grown", "index", added)
		}
		node(name("kt"), "transpose", `"dim0": 2, "dim1": 3`, present["key"])
		node(name("scores"), "matmul", "", heads("query", 2), name("kt"))
		node(name("weights"), "softmax", `"dim": -1`, name("scores"))
		node(name("attended"), "matmul", "", name("weights"), present["value"])
		node(name("by_token"), "transpose", `"dim0": 1, "dim1": 2`, name("attended"))
		node(name("joined"), "reshape", `"shape": ["B", "S", 16]`, name("by_token"))
		x = node(name("residual"), "add", "", name("joined"), x)
	}
	g, err := graphfile.Parse(strings.NewReader(fmt.Sprintf(`{"version": 1, "symbols": {"B": {}, "S": {}, "P": {}, "T": {}},
		"inputs": [{"name": "x", "dtype": "float32", "shape": ["B", "S", 16]}, {"name": "mask", "dtype": "int64", "shape": ["B", "T"]},
		{"name": "positions", "dtype": "int64", "shape": ["B", "S"]}, %s],
		"nodes": [%s], "outputs": [%q, %s]}`, strings.Join(inputs, ", "), strings.Join(nodes, ",\n"), x,
		strings.Join(outputs, ", "))), kernels.Lookup, graphfile.Options{})
	require.NoError(t, err)
	return g
}

// decoderStep returns the inputs of a run that adds tokens after past ones, without the caches.
func decoderStep(random *rand.Rand, batch, past, tokens int) map[string]*tensor.Tensor {
	x := tensor.Zeros(tensor.Float32, batch, tokens, 16)
	positions := tensor.Zeros(tensor.Int64, batch, tokens)
	for b := range batch {
		for s := range tokens {
			positions.Set(tensor.IntScalar(int64(past+s)), b, s)
			for i := range 16 {
				x.Set(tensor.FloatScalar(random.NormFloat64()), b, s, i)
			}
		}
	}
	return map[string]*tensor.Tensor{"x": x, "positions": positions, "mask": tensor.Zeros(tensor.Int64, batch, past+tokens)}
}

// emptyCaches returns empty caches of a decoder.
func emptyCaches(g *graph.Graph, batch int) map[string]*tensor.Tensor {
	caches := map[string]*tensor.Tensor{}
	for _, v := range g.Inputs {
		if strings.HasPrefix(v.Name, "past") {
			caches[v.Name] = tensor.Zeros(v.Meta.DType, batch, 2, 0, 8)
		}
	}
	return caches
}

// requireSame requires equal bits. Without machine code, sums over rows with other strides may have another order.
func requireSame(t *testing.T, want, got *tensor.Tensor, message string) {
	t.Helper()
	require.Equal(t, want.Shape, got.Shape, message)
	want, got = want.Contiguous(), got.Contiguous()
	if jit.Available() == nil {
		require.Equal(t, want.Storage().Bytes()[:want.Bytes()], got.Storage().Bytes()[:want.Bytes()], message)
		return
	}
	tolerance := 1e-5
	if want.DType.Size() == 2 {
		tolerance = 1e-2
	}
	flat := func(x *tensor.Tensor) *tensor.Tensor { return tensor.Must(x.View(tensor.New(x.DType, x.Numel()))) }
	for i := range want.Numel() {
		require.InDelta(t, flat(want).At(i).Float(), flat(got).At(i).Float(), tolerance, message)
	}
}

// bitsOfFloats returns the bits of the elements of a float32 tensor in row-major order.
func bitsOfFloats(t *testing.T, x *tensor.Tensor) []uint32 {
	elements, err := tensor.ToSlice[float32](x)
	require.NoError(t, err)
	bits := make([]uint32, len(elements))
	for i, element := range elements {
		bits[i] = math.Float32bits(element)
	}
	return bits
}

// A decoder with caches returns the same bits as one that copies its caches, for prompts of several lengths followed by
// single tokens, until the capacity is reached. Outputs are views of the caches.
func TestCachesGrow(t *testing.T) {
	const capacity = 32
	for _, test := range []struct {
		batch, prompt int
		strategy      graphrun.Strategy
		check         bool
	}{{batch: 1, prompt: 5, check: true}, {batch: 1, prompt: 1}, {batch: 2, prompt: 7, strategy: graphrun.Propagate},
		{batch: 2, prompt: 1, strategy: graphrun.Contiguous}} {
		g := cachedDecoder(t)
		plain, err := graphrun.Compile(ctx, g, graphrun.Options{Strategy: test.strategy})
		require.NoError(t, err)
		plans := 0
		cached, err := graphrun.Compile(ctx, g, graphrun.Options{Strategy: test.strategy, Check: test.check,
			Caches: graphrun.RecognizedCaches(capacity), Progress: func(string) { plans++ }})
		require.NoError(t, err)
		require.Len(t, cached.Caches(), 4)
		assert.Equal(t, graphrun.GrowingCache{Input: "past_key_values.0.key", Output: "present.0.key", Axis: 2,
			Capacity: capacity}, cached.Caches()[0])
		copies := emptyCaches(g, test.batch)
		caches, err := cached.CachesOf(copies)
		require.NoError(t, err)
		random := rand.New(rand.NewPCG(1, 2))
		for past, tokens := 0, test.prompt; past+tokens <= capacity; past, tokens = past+tokens, 1 {
			in := decoderStep(random, test.batch, past, tokens)
			with := func(caches map[string]*tensor.Tensor) map[string]*tensor.Tensor {
				all := maps.Clone(in)
				maps.Copy(all, caches)
				return all
			}
			want, err := plain.Run(t.Context(), with(copies))
			require.NoError(t, err)
			got, err := cached.Run(t.Context(), with(caches))
			require.NoError(t, err)
			for name := range want {
				requireSame(t, want[name], got[name], fmt.Sprintf("%s after %d", name, past))
			}
			for _, c := range cached.Caches() {
				require.Same(t, caches[c.Input].Storage(), got[c.Output].Storage())
				caches[c.Input], copies[c.Input] = got[c.Output], want[c.Output]
			}
		}
		assert.Equal(t, 3, plans, "Compile plans and compiles, the first other length plans; each further length binds this plan")
		in := decoderStep(random, test.batch, capacity, 1)
		for name, x := range caches {
			in[name] = x
		}
		_, err = cached.Run(t.Context(), in)
		require.ErrorContains(t, err, `cache "past_key_values.0.key" needs size 33 in dimension 2, but its capacity is 32`)
	}
}

// cacheGraph parses a graph with the symbols P and S and the inputs past [1, 2, P, 4] and new [1, 2, S, 4].
func cacheGraph(t *testing.T, nodes, outputs string) *graph.Graph {
	g, err := graphfile.Parse(strings.NewReader(fmt.Sprintf(`{"version": 1, "symbols": {"P": {}, "S": {}}, "inputs": [
		{"name": "past", "dtype": "float32", "shape": [1, 2, "P", 4]},
		{"name": "new", "dtype": "float32", "shape": [1, 2, "S", 4]},
		{"name": "index", "dtype": "int64", "shape": [1, 2, "S", 4]}], "nodes": [%s], "outputs": [%s]}`, nodes, outputs)),
		kernels.Lookup, graphfile.Options{})
	require.NoError(t, err)
	return g
}

// presentNode and storeNodes compute the output present.
const (
	presentNode = `{"name": "present", "op": "cat", "inputs": ["past", "new"], "attrs": {"dim": 2}}`
	storeNodes  = `{"name": "grown", "op": "constant_pad_nd", "inputs": ["past"], "attrs": {"pad": [0, 0, 0, "S"]}},
		{"name": "present", "op": "scatter", "inputs": ["grown", "index", "new"], "attrs": {"dim": 2}}`
)

// Compile refuses a cache that is no store, and names what is wrong.
func TestCachesRefused(t *testing.T) {
	for _, test := range []struct {
		nodes, outputs, want string
		cache                graphrun.GrowingCache // the default is past, present, 2 and 16
		options              graphrun.Options
	}{
		{nodes: presentNode, want: `no input "pust"; did you mean past?`, cache: graphrun.GrowingCache{Input: "pust"}},
		{nodes: presentNode, want: `no output "presant"; did you mean present?`,
			cache: graphrun.GrowingCache{Output: "presant"}},
		{nodes: presentNode, want: `node "present" (cat) extends dimension 2, not 1`, cache: graphrun.GrowingCache{Axis: 1}},
		{nodes: presentNode, want: "the capacity is -1", cache: graphrun.GrowingCache{Capacity: -1}},
		{nodes: presentNode, want: "capacity is 1", cache: graphrun.GrowingCache{Capacity: 1}},
		{nodes: presentNode, want: "too large", cache: graphrun.GrowingCache{Capacity: tensor.MaxBytes}},
		{nodes: `{"name": "once", "op": "cat", "inputs": ["past", "new"], "attrs": {"dim": 2}},
			{"name": "present", "op": "scatter", "inputs": ["once", "index", "new"], "attrs": {"dim": 2}}`,
			want: `"present" (scatter), which extends "once", not input "past"`},
		{nodes: `{"name": "present", "op": "cat", "inputs": ["new", "past"], "attrs": {"dim": 2}}`,
			want: `"present" (cat), which extends "new", not input "past"`},
		{nodes: `{"name": "present", "op": "neg", "inputs": ["past"]}`,
			want: `"present" (neg), which is no concatenation of input "past"`},
		{nodes: `{"name": "present", "op": "cat", "inputs": ["past", "new", "new"], "attrs": {"dim": 2}}`,
			want: `"present" (cat), which does not write other values behind a value`},
		{nodes: presentNode, outputs: `{"name": "present", "value": "past"}`, want: `output "present" is input "past" itself`},
		{nodes: `{"name": "kept", "op": "nonzero", "inputs": ["past"]}, {"name": "present", "op": "cat", "inputs": ["kept", "kept"]}`,
			want: `known only when the graph runs: it depends on node "kept" (nonzero)`},
		{nodes: presentNode, outputs: `{"name": "present", "value": "present", "memory_format": "contiguous"}`,
			want: "there is the pin contiguous"},
		{nodes: storeNodes + `, {"name": "sum", "op": "sum", "inputs": ["past"]}`, outputs: `"present", "sum"`,
			want: `node "sum" (sum) reads input "past", of which node "present" (scatter) may overwrite elements`},
		{nodes: storeNodes + `, {"name": "sum", "op": "sum", "inputs": ["grown"]}`, outputs: `"present", "sum"`,
			want: `node "sum" (sum) reads input "past"`},
		{nodes: storeNodes, outputs: `"present", {"name": "same", "value": "past"}`, want: `output "same" reads input "past"`},
		{nodes: presentNode, want: "KeepGoing", options: graphrun.Options{KeepGoing: true}},
		{nodes: presentNode, want: `input "past" and output "present": one of them is part of two caches`,
			options: graphrun.Options{Caches: []graphrun.GrowingCache{{Input: "past", Output: "present", Axis: 2, Capacity: 8}}}},
		{nodes: strings.ReplaceAll(presentNode, `"present"`, `"other"`), outputs: `"other"`,
			want:    "no input and output have the names of a cache",
			options: graphrun.Options{Caches: graphrun.RecognizedCaches(8)}},
	} {
		if test.outputs == "" {
			test.outputs = `"present"`
		}
		g := cacheGraph(t, test.nodes, test.outputs)
		cache := graphrun.GrowingCache{Input: "past", Output: "present", Axis: 2, Capacity: 16}
		if test.cache.Input != "" {
			cache.Input = test.cache.Input
		}
		if test.cache.Output != "" {
			cache.Output = test.cache.Output
		}
		if test.cache.Axis != 0 {
			cache.Axis = test.cache.Axis
		}
		if test.cache.Capacity != 0 {
			cache.Capacity = test.cache.Capacity
		}
		test.options.Caches = append(test.options.Caches, cache)
		_, err := graphrun.Compile(ctx, g, test.options)
		assert.ErrorContains(t, err, test.want)
	}
}

// A run refuses tensors that are no caches before it writes anything.
func TestCachesMisused(t *testing.T) {
	g := cacheGraph(t, presentNode+`, {"name": "sum", "op": "sum", "inputs": ["present"]}`, `"present", "sum"`)
	p, err := graphrun.Compile(ctx, g, graphrun.Options{
		Caches: []graphrun.GrowingCache{{Input: "past", Output: "present", Axis: -2, Capacity: 16}}})
	require.NoError(t, err)
	inputs := func(past int) map[string]*tensor.Tensor {
		in, err := p.CachesOf(map[string]*tensor.Tensor{"past": tensor.Zeros(tensor.Float32, 1, 2, past, 4),
			"new": tensor.Zeros(tensor.Float32, 1, 2, 1, 4), "index": tensor.Zeros(tensor.Int64, 1, 2, 1, 4)})
		require.NoError(t, err)
		return in
	}
	in := inputs(3)
	in["past"] = in["past"].Contiguous()
	_, err = p.Run(t.Context(), in)
	assert.ErrorContains(t, err, `input "past" is a cache, but the tensor given for it has the strides [24, 12, 4, 1]: want [128, 64, 4, 1]`)

	in = inputs(0)
	in["past"] = tensor.Zeros(tensor.Float32, 1, 2, 0, 4)
	_, err = p.Run(t.Context(), in)
	assert.Error(t, err, "an empty tensor has no memory for the new elements")

	in = inputs(3)
	short, err := tensor.FromStorage(in["past"].Meta, tensor.StorageOf(in["past"].Storage().Bytes()[:4*(64+4*3)]))
	require.NoError(t, err)
	in["past"] = short
	_, err = p.Run(t.Context(), in)
	assert.ErrorContains(t, err, `input "past" is a cache, but the tensor given for it has space for 76 elements in its storage: want 80`)

	in = inputs(3) // new is where the new elements are written
	meta := in["past"].Meta
	meta.Shape, meta.Offset = []int{1, 2, 1, 4}, 12
	in["new"] = tensor.Must(in["past"].View(meta))
	_, err = p.Run(t.Context(), in)
	assert.ErrorContains(t, err, `input "past" is a cache, but shares memory with input "new"`)
	meta.Offset = 16 // new is behind
	in["new"] = tensor.Must(in["past"].View(meta))
	_, err = p.Run(t.Context(), in)
	assert.NoError(t, err)

	in = inputs(3)
	sum := tensor.Must(in["past"].View(tensor.Meta{DType: tensor.Float32, Offset: 12}))
	assert.ErrorContains(t, p.RunInto(t.Context(), in, map[string]*tensor.Tensor{"sum": sum}),
		`input "past" is a cache, but shares memory with the tensor given for output "sum"`)

	_, err = p.CachesOf(map[string]*tensor.Tensor{"past": tensor.Zeros(tensor.Float32, 1, 2, 17, 4)})
	assert.ErrorContains(t, err, `input "past" has size 17 in dimension 2, but its capacity is 16`)
	_, err = p.CachesOf(nil)
	assert.ErrorContains(t, err, `input "past" is missing`)
}

// RunInto needs no tensor for the output of a cache. It accepts the view of the cache, and no other tensor.
func TestCachesInto(t *testing.T) {
	g := cacheGraph(t, presentNode+`, {"name": "sum", "op": "sum", "inputs": ["present"]}`, `"present", "sum"`)
	p, err := graphrun.Compile(ctx, g, graphrun.Options{Caches: graphrun.RecognizedCaches(16)})
	require.NoError(t, err)
	ones, err := tensor.FromSlice([]float32{1, 1, 1, 1, 1, 1, 1, 1}, 1, 2, 1, 4)
	require.NoError(t, err)
	in, err := p.CachesOf(map[string]*tensor.Tensor{"past": tensor.Zeros(tensor.Float32, 1, 2, 3, 4), "new": ones,
		"index": tensor.Zeros(tensor.Int64, 1, 2, 1, 4)})
	require.NoError(t, err)
	meta := in["past"].Meta
	meta.Shape = []int{1, 2, 4, 4}
	grown, other := tensor.Must(in["past"].View(meta)), tensor.Zeros(tensor.Float32, 1, 2, 4, 4)
	for _, out := range []map[string]*tensor.Tensor{{}, {"present": grown}} {
		sum := tensor.Zeros(tensor.Float32)
		out["sum"] = sum
		tensor.CopyElements(grown, tensor.Zeros(tensor.Float32, 1, 2, 4, 4))
		require.NoError(t, p.RunInto(t.Context(), in, out))
		assert.Equal(t, 8.0, sum.At().Float())
		assert.Equal(t, 1.0, grown.At(0, 1, 3, 3).Float())
	}
	assert.ErrorContains(t, p.RunInto(t.Context(), in, map[string]*tensor.Tensor{"present": other}),
		`output "present" is in the memory of input "past": the tensor given for it must be the view of this memory`)
}

// A plan with caches has no copy of the cache. A reader that needs dense rows has a copy, with a reason.
func TestCachesInPlan(t *testing.T) {
	const capacity, past = 64, 50
	g := cachedDecoder(t)
	hint := map[string]int{"B": 1, "S": 1, "P": past, "T": past + 1}
	cached, err := graphrun.Compile(ctx, g, graphrun.Options{Caches: graphrun.RecognizedCaches(capacity), Hints: []map[string]int{hint}})
	require.NoError(t, err)
	assert.Empty(t, cached.Report().Copies)
	stores := 0
	for _, step := range cached.Report().Steps {
		if step.Op == "append" {
			stores++
			assert.Less(t, step.CostNS, 2000.0, step.Name) // the price of a step
		}
		assert.NotContains(t, []string{"cat", "scatter", "constant_pad_nd"}, step.Op)
	}
	assert.Equal(t, 4, stores)

	const toStrided = `{"name": "flat", "op": "view", "inputs": ["rows"], "attrs": {"size": [1, -1]}}`
	g = cacheGraph(t, presentNode+`, {"name": "rows", "op": "contiguous", "inputs": ["present"]}, `+toStrided+
		`, {"name": "y", "op": "neg", "inputs": ["flat"]}`, `"present", "y"`)
	p, err := graphrun.Compile(ctx, g, graphrun.Options{Caches: graphrun.RecognizedCaches(capacity),
		Hints: []map[string]int{{"S": 1, "P": past}}})
	require.NoError(t, err)
	require.Len(t, p.Report().Copies, 1)
	assert.Equal(t, "present", p.Report().Copies[0].Value)
	assert.Contains(t, p.Report().Copies[0].Why, "with stride 256 along dimension 1")
}

// A step allocates no memory for caches: it allocates less than a copy of one of four caches would need.
func TestCachesAllocateLittle(t *testing.T) {
	const capacity, batch, first = 20000, 1, 16000
	g := cachedDecoder(t)
	p, err := graphrun.Compile(ctx, g, graphrun.Options{Threads: 1, Caches: graphrun.RecognizedCaches(capacity),
		Hints: []map[string]int{{"B": 1, "S": 1, "P": first, "T": first + 1}}})
	require.NoError(t, err)
	caches, err := p.CachesOf(emptyCaches(g, batch))
	require.NoError(t, err)
	past := first
	for name, cache := range caches {
		meta := cache.Meta
		meta.Shape = []int{batch, 2, past, 8}
		caches[name] = tensor.Must(cache.View(meta))
	}
	random := rand.New(rand.NewPCG(1, 2))
	in := decoderStep(random, batch, past, 1)
	step := func() {
		in["mask"] = tensor.Zeros(tensor.Int64, batch, past+1)
		in["positions"].Set(tensor.IntScalar(int64(past)), 0, 0)
		for name, cache := range caches {
			in[name] = cache
		}
		out, err := p.Run(t.Context(), in)
		require.NoError(t, err)
		for _, c := range p.Caches() {
			caches[c.Input] = out[c.Output]
		}
		past++
	}
	for range 5 {
		step()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		step()
	}
	runtime.ReadMemStats(&after)
	perStep, oneCache := (after.TotalAlloc-before.TotalAlloc)/100, uint64(2*8*4*past)
	t.Logf("%d bytes are allocated in a step; each of 4 caches has %d bytes", perStep, oneCache)
	assert.Less(t, perStep, oneCache)
}

// groupQueryModel returns a model with one GroupQueryAttention, as the builder of onnxruntime-genai writes it: the
// numbers of valid keys follow from a mask.
func groupQueryModel(t *testing.T, dtype pb.DataType) *graph.Graph {
	node := func(op, domain string, in, out []string, attrs ...*pb.AttributeProto) *pb.NodeProto {
		return &pb.NodeProto{OpType: op, Domain: domain, Input: in, Output: out, Attribute: attrs}
	}
	integer := func(name string, n int64) *pb.AttributeProto {
		return &pb.AttributeProto{Name: name, Type: pb.AttributeInt, I: n}
	}
	value := func(name string, dtype pb.DataType, dims ...any) *pb.ValueInfoProto {
		shape := &pb.TensorShapeProto{}
		for _, dim := range dims {
			declared := &pb.Dimension{}
			if n, ok := dim.(int); ok {
				declared.DimValue = new(int64(n))
			} else {
				declared.DimParam = dim.(string)
			}
			shape.Dim = append(shape.Dim, declared)
		}
		return &pb.ValueInfoProto{Name: name, Type: &pb.TypeProto{TensorType: &pb.TensorType{ElemType: int32(dtype), Shape: shape}}}
	}
	int64s := func(name string, numbers ...int64) *pb.TensorProto {
		return &pb.TensorProto{Name: name, DataType: int32(pb.Int64), Dims: []int64{int64(len(numbers))}, Int64Data: numbers}
	}
	past, present := []string{"past_key_values.0.key", "past_key_values.0.value"}, []string{"present.0.key", "present.0.value"}
	g := &pb.GraphProto{Name: "attention", Node: []*pb.NodeProto{
		node("ReduceSum", "", []string{"attention_mask", "one"}, []string{"counts"}, integer("keepdims", 1)),
		node("Sub", "", []string{"counts", "one"}, []string{"lasts"}),
		node("Cast", "", []string{"lasts"}, []string{"seqlens_k"}, integer("to", int64(pb.Int32))),
		node("Shape", "", []string{"attention_mask"}, []string{"shape"}),
		node("Gather", "", []string{"shape", "one"}, []string{"total64"}, integer("axis", 0)),
		node("Cast", "", []string{"total64"}, []string{"total"}, integer("to", int64(pb.Int32))),
		node("GroupQueryAttention", "com.microsoft", append(append([]string{"q", "k", "v"}, past...), "seqlens_k", "total"),
			append([]string{"y"}, present...), integer("num_heads", 4), integer("kv_num_heads", 2)),
	}, Initializer: []*pb.TensorProto{int64s("one", 1)}}
	g.Input = append(g.Input, value("q", dtype, "batch_size", "sequence_length", 32),
		value("k", dtype, "batch_size", "sequence_length", 16), value("v", dtype, "batch_size", "sequence_length", 16),
		value("attention_mask", pb.Int64, "batch_size", "total_sequence_length"))
	g.Output = append(g.Output, value("y", dtype, "batch_size", "sequence_length", 32))
	for i := range past {
		g.Input = append(g.Input, value(past[i], dtype, "batch_size", 2, "past_sequence_length", 8))
		g.Output = append(g.Output, value(present[i], dtype, "batch_size", 2, "total_sequence_length", 8))
	}
	model, err := onnx.Parse(pb.Marshal(&pb.ModelProto{IrVersion: 8, Graph: g,
		OpsetImport: []*pb.OperatorSetIDProto{{Version: 14}, {Domain: "com.microsoft", Version: 1}}}), "")
	require.NoError(t, err)
	loaded, err := model.Graph(onnx.Options{})
	require.NoError(t, err)
	return loaded
}

// GroupQueryAttention with caches gives the bits of copied caches, also if rows of the batch have fewer valid keys,
// whose positions the new keys then overwrite. Its readers have no copies of the cache; float16 is converted.
func TestCachesOfGroupQueryAttention(t *testing.T) {
	const capacity, batch = 24, 2
	for _, dtype := range []pb.DataType{pb.Float, pb.Float16} {
		g := groupQueryModel(t, dtype)
		plain, err := graphrun.Compile(ctx, g, graphrun.Options{})
		require.NoError(t, err)
		cached, err := graphrun.Compile(ctx, g, graphrun.Options{Caches: graphrun.RecognizedCaches(capacity)})
		require.NoError(t, err)
		assert.Empty(t, cached.Report().Copies)
		for _, step := range cached.Report().Steps {
			assert.NotContains(t, []string{"reshape", "cat", "constant_pad_nd", "scatter"}, step.Op, step.Name)
		}
		random := rand.New(rand.NewPCG(3, 4))
		filled := func(shape ...int) *tensor.Tensor {
			x := tensor.Zeros(g.Inputs[0].Meta.DType, shape...)
			for i := range x.Numel() {
				flat := tensor.Must(x.View(tensor.New(x.DType, x.Numel())))
				flat.Set(tensor.FloatScalar(random.NormFloat64()), i)
			}
			return x
		}
		empty := func() map[string]*tensor.Tensor {
			return map[string]*tensor.Tensor{"past_key_values.0.key": tensor.Zeros(g.Inputs[0].Meta.DType, batch, 2, 0, 8),
				"past_key_values.0.value": tensor.Zeros(g.Inputs[0].Meta.DType, batch, 2, 0, 8)}
		}
		copies := empty()
		caches, err := cached.CachesOf(empty())
		require.NoError(t, err)
		for past, tokens := 0, 3; past+tokens <= capacity; past, tokens = past+tokens, 1 {
			mask := tensor.Zeros(tensor.Int64, batch, past+tokens)
			for b := range batch {
				valid := past + tokens
				if b > 0 {
					valid -= random.IntN(1 + past/2)
				}
				for i := range valid {
					mask.Set(tensor.IntScalar(1), b, i)
				}
			}
			in := map[string]*tensor.Tensor{"q": filled(batch, tokens, 32), "k": filled(batch, tokens, 16),
				"v": filled(batch, tokens, 16), "attention_mask": mask}
			with := func(caches map[string]*tensor.Tensor) map[string]*tensor.Tensor {
				all := maps.Clone(in)
				maps.Copy(all, caches)
				return all
			}
			want, err := plain.Run(t.Context(), with(copies))
			require.NoError(t, err)
			got, err := cached.Run(t.Context(), with(caches))
			require.NoError(t, err)
			for name := range want {
				requireSame(t, want[name], got[name], fmt.Sprintf("%s after %d", name, past))
			}
			for _, c := range cached.Caches() {
				caches[c.Input], copies[c.Input] = got[c.Output], want[c.Output]
			}
		}
	}
}

// Several goroutines run one program, each with caches of its own.
func TestCachesOfGoroutines(t *testing.T) {
	const capacity, batch = 16, 1
	g := cachedDecoder(t)
	p, err := graphrun.Compile(ctx, g, graphrun.Options{Threads: 2, Caches: graphrun.RecognizedCaches(capacity)})
	require.NoError(t, err)
	last := make([][]uint32, 4)
	var group errgroup.Group
	for i := range last {
		group.Go(func() error {
			caches, err := p.CachesOf(emptyCaches(g, batch))
			if err != nil {
				return err
			}
			random := rand.New(rand.NewPCG(1, 2))
			for past, tokens := 0, 3; past < capacity; past, tokens = past+tokens, 1 {
				in := decoderStep(random, batch, past, tokens)
				maps.Copy(in, caches)
				out, err := p.Run(t.Context(), in)
				if err != nil {
					return err
				}
				for _, c := range p.Caches() {
					caches[c.Input] = out[c.Output]
				}
				last[i] = bitsOfFloats(t, out[g.Outputs[0].Name])
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	for _, bits := range last {
		assert.Equal(t, last[0], bits)
	}
}

// A capacity may be less than the sizes that a graph assumes.
func TestSmallCaches(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	past := g.InputDims("past", f32, tensor.NoFormat, graph.Dim{Size: 2}, graph.Dim{Symbol: "P"}, graph.Dim{Size: 4})
	added := g.InputDims("new", f32, tensor.NoFormat, graph.Dim{Size: 2}, graph.Dim{Symbol: "S"}, graph.Dim{Size: 4})
	g.Output("present", g.Apply("cat", graph.Attrs{"dim": 1}, past, added)[0])
	require.NoError(t, g.Err())
	for capacity := 2; capacity <= 4; capacity++ {
		p, err := graphrun.Compile(ctx, g.Clone(), graphrun.Options{Threads: 1,
			Caches: []graph.GrowingCache{{Input: "past", Output: "present", Axis: 1, Capacity: capacity}}})
		require.NoError(t, err)
		in, err := p.CachesOf(map[string]*tensor.Tensor{"past": tensor.Zeros(f32, 2, 0, 4)})
		require.NoError(t, err)
		for n := range capacity {
			in["new"] = iota32(8, 2, 1, 4)
			out, err := p.Run(t.Context(), in)
			require.NoError(t, err)
			require.Equal(t, n+1, out["present"].Shape[1])
			require.Equal(t, 8.0, out["present"].At(1, n, 3).Float())
			in["past"] = out["present"]
		}
		_, err = p.Run(t.Context(), in)
		require.ErrorContains(t, err, fmt.Sprintf("needs size %d", capacity+1))
	}
}
