package exec_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// chain is half(half(half(x))) + c, of n floats each, with two outputs.
func chain(n int) *graph.Graph {
	g := graph.New("chain", lookup)
	x := g.Input("x", tensor.Float32, n)
	c := g.Constant("c", tensor.Zeros(tensor.Float32, n))
	a := g.Apply("half", nil, x)[0]
	b := g.Apply("add", nil, a, c)[0]
	s := g.Apply("total", nil, b)[0]
	d := g.Apply("mul", nil, b, x)[0]
	return g.Output("d", d).Output("s", s).Output("c", c)
}

func TestNeedByCategory(t *testing.T) {
	const n = 1 << 20
	p, err := exec.Compile(chain(n), exec.Options{Threads: 3})
	require.NoError(t, err)
	need := p.Need()
	assert.Equal(t, 4*n, need.Inputs)
	assert.Equal(t, 4*n, need.Constants)
	assert.Equal(t, 4*n+4+4*n, need.Outputs) // d, s, and a copy of c
	assert.Equal(t, p.ArenaBytes(), need.Arena)
	assert.GreaterOrEqual(t, need.Arena, 4*n)
	assert.Zero(t, need.Scratch%3)
	assert.Equal(t, need.Inputs+need.Constants+need.Packed+need.Arena+need.Outputs+need.Scratch, need.Total())
	names := map[string]string{}
	for i, h := range need.Largest {
		names[h.Name] = h.Kind
		assert.LessOrEqual(t, i, 4)
		assert.True(t, i == 0 || h.Bytes <= need.Largest[i-1].Bytes)
	}
	assert.Equal(t, "input", names["x"])
	assert.Equal(t, "constant", names["c"])
}

func taken(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestMemoryLimit(t *testing.T) {
	const n = 1 << 22
	g := chain(n)
	p, err := exec.Compile(g, exec.Options{Threads: 1, MemoryLimit: -1})
	require.NoError(t, err)
	total := p.Need().Total()
	_, err = exec.Compile(g, exec.Options{Threads: 1, MemoryLimit: total})
	require.NoError(t, err)
	for _, limit := range []int{1, total / 4, total - 1} {
		bytes := taken(func() {
			_, err = exec.Compile(g, exec.Options{Threads: 1, MemoryLimit: limit})
		})
		var e *exec.MemoryError
		require.ErrorAs(t, err, &e, "limit %d", limit)
		assert.Equal(t, limit, e.Limit)
		assert.ErrorContains(t, err, "the memory limit of the program's options")
		assert.ErrorContains(t, err, `input "x" (float32[4194304], 16 MiB)`)
		assert.Less(t, bytes, uint64(4*n), "limit %d", limit)
	}
}

func TestWhatNoMachineHas(t *testing.T) {
	m := tensor.Meta{DType: tensor.Float32, Shape: []int{1 << 21, 1 << 21}, Strides: []int{1 << 21, 1}}
	g := graph.New("g", lookup)
	x := g.InputMeta("x", m)
	y := g.Apply("add", nil, x, x)[0]
	for range 12 {
		y = g.Apply("add", nil, y, x)[0]
		g.Output(fmt.Sprint(y.Name), y)
	}
	require.NoError(t, g.Err())
	_, err := exec.Compile(g, exec.Options{})
	var e *exec.MemoryError
	require.ErrorAs(t, err, &e)
	assert.Greater(t, e.Need.Total(), 0) // sums do not wrap around
	assert.Len(t, e.Need.Largest, 5)
	_, err = exec.Compile(g, exec.Options{MemoryLimit: -1})
	require.NoError(t, err, "nobody asks")
}

func TestTogether(t *testing.T) {
	a, err := exec.Compile(chain(1000), exec.Options{Threads: 1})
	require.NoError(t, err)
	b, err := exec.Compile(chain(1000), exec.Options{Threads: 1})
	require.NoError(t, err)
	one, both := a.Need(), exec.CombinedNeed(a, b)
	assert.Equal(t, one.Inputs, both.Inputs)
	assert.Equal(t, one.Constants, both.Constants)
	assert.Equal(t, 2*one.Arena, both.Arena)
	assert.Equal(t, 2*one.Outputs, both.Outputs)
	assert.Len(t, both.Largest, 5)
	assert.NoError(t, both.Check(both.Total(), 0))
	assert.Error(t, both.Check(both.Total()-1, 0))
}

func TestFoldingLeavesToTheRunWhatDoesNotFit(t *testing.T) {
	const n = 1 << 18
	g := graph.New("g", lookup)
	v := g.Constant("c", tensor.Zeros(tensor.Float32, n))
	for range 20 {
		v = g.Apply("add", nil, v, 1)[0]
	}
	g.Output("y", g.Apply("add", nil, v, g.Input("x", tensor.Float32, n))[0])
	// All sums together are 20 MiB, and two at a time 2 MiB.
	p, err := exec.Compile(g, exec.Options{MemoryLimit: 8 << 20})
	require.NoError(t, err)
	assert.Less(t, p.Need().Total(), 8<<20)
	out, err := p.Run(context.Background(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, n)})
	require.NoError(t, err)
	assert.Equal(t, float32(20), bits(t, out["y"])[n-1])
}

func TestKeepGoingWithinALimit(t *testing.T) {
	g := graph.New("g", lookup)
	x := g.Input("x", tensor.Float32, 1000)
	wide := g.InputMeta("w", tensor.Meta{DType: tensor.Float32, Shape: []int{1000, 1}, Strides: []int{1, 1}})
	g.Output("small", g.Apply("half", nil, x)[0])
	g.Output("large", g.Apply("half", nil, g.Apply("add", nil, x, wide)[0])[0])
	for i := range 40 {
		g.Output(fmt.Sprintf("s%d", i), g.Apply("half", nil, x)[0])
	}
	require.NoError(t, g.Err())
	in := map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 1000), "w": tensor.Zeros(tensor.Float32, 1000, 1)}
	for limit, least := range map[int]int{1 << 20: 41, 100_000: 15, 1000: 0} {
		p, err := compileParts(g, nil, exec.Options{Threads: 1, KeepGoing: true, MemoryLimit: limit})
		if least == 0 {
			assert.Error(t, err, "the inputs alone are more")
			continue
		}
		require.NoError(t, err)
		out, err := p.Run(context.Background(), in)
		var part *exec.Incomplete
		require.True(t, errors.As(err, &part))
		assert.Nil(t, out["large"])
		assert.GreaterOrEqual(t, len(out), least)
		assert.Equal(t, 42, len(out)+len(part.MissingOutputs))
		assert.LessOrEqual(t, p.Need().Total(), limit)
	}
}

// A value that would fit alone is not refused as if it were larger than what is left.
func TestTooMuchTogether(t *testing.T) {
	g := graph.New("g", lookup)
	x := g.Input("x", tensor.Float32, 250)
	for i := range 4 {
		g.Output(fmt.Sprintf("y%d", i), g.Apply("half", nil, x)[0])
	}
	require.NoError(t, g.Err())
	p, err := compileParts(g, nil, exec.Options{Threads: 1, KeepGoing: true, MemoryLimit: 3500})
	require.NoError(t, err)
	_, err = p.Run(context.Background(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 250)})
	var part *exec.Incomplete
	require.ErrorAs(t, err, &part)
	require.Len(t, part.Failed, 2)
	for _, e := range part.Failed {
		var one *tensor.MemoryError
		require.ErrorAs(t, e, &one)
		assert.Equal(t, 1000, one.Bytes)
		assert.ErrorContains(t, e, "the value takes 1000 bytes of the 4.883 KiB of memory that a run needs: "+
			"the memory limit of the program's options is 3.418 KiB, of which 3.418 KiB is left")
	}
}

func TestEagerResultsThatDoNotFit(t *testing.T) {
	huge := defined(graph.Op{
		Semantics: graph.Semantics{
			Name: "huge", Params: []graph.Param{one}, Schema: graph.SchemaOf[noAttrs](),
			Infer: dynamicOps["positive"].Infer,
		},
		Lowerings: graph.Lowerings{
			RunDynamic: func(graph.Runtime, *graph.Call, []*tensor.Tensor) ([]*tensor.Tensor, error) {
				return []*tensor.Tensor{tensor.Zeros(tensor.Float32, min(1<<44, math.MaxInt))}, nil
			},
		},
	})
	g := graph.New("g", func(name string) *graph.Op {
		if name == "huge" {
			return huge
		}
		return lookup(name)
	})
	x := g.Input("x", tensor.Float32, 2)
	g.Output("y", g.Apply("half", nil, g.Apply("huge", nil, x)[0])[0]).Output("z", g.Apply("half", nil, x)[0])
	require.NoError(t, g.Err())
	for _, keep := range []bool{false, true} {
		r, err := compileParts(g, nil, exec.Options{KeepGoing: keep})
		require.NoError(t, err)
		out, err := r.Run(context.Background(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 2)})
		var short *tensor.MemoryError
		require.ErrorAs(t, err, &short)
		assert.ErrorContains(t, err, `node "huge" (huge): 64 TiB of memory are needed`)
		assert.Equal(t, keep, out["z"] != nil)
		assert.Nil(t, out["y"])
	}
}
