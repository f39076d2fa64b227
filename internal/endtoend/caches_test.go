package endtoend_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// cachedDecoder returns a decoder of two layers with caches of keys and values, as optimum exports it. The caches of the
// second layer are written as by GroupQueryAttention: zeros are appended, and a scatter replaces them by the new keys
// and values at the given positions.
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
		plain, err := graphrun.Compile(g, graphrun.Options{Strategy: test.strategy})
		require.NoError(t, err)
		cached, err := graphrun.Compile(g, graphrun.Options{Strategy: test.strategy, Check: test.check,
			Caches: graphrun.RecognizedCaches(capacity)})
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
				all := map[string]*tensor.Tensor{}
				for _, list := range []map[string]*tensor.Tensor{in, caches} {
					for name, x := range list {
						all[name] = x
					}
				}
				return all
			}
			want, err := plain.Run(t.Context(), with(copies))
			require.NoError(t, err)
			got, err := cached.Run(t.Context(), with(caches))
			require.NoError(t, err)
			for name := range want {
				require.Equal(t, want[name].Shape, got[name].Shape, name)
				require.Equal(t, bitsOfFloats(t, want[name]), bitsOfFloats(t, got[name]), "%s after %d", name, past)
			}
			for _, c := range cached.Caches() {
				require.Same(t, caches[c.Input].Storage(), got[c.Output].Storage())
				caches[c.Input], copies[c.Input] = got[c.Output], want[c.Output]
			}
		}
		in := decoderStep(random, test.batch, capacity, 1)
		for name, x := range caches {
			in[name] = x
		}
		_, err = cached.Run(t.Context(), in)
		require.ErrorContains(t, err, "its capacity is 32")
		require.ErrorContains(t, err, "33")
	}
}
