package exec_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

func TestNothingToRun(t *testing.T) {
	_, err := exec.Compile(nil, exec.Options{})
	assert.EqualError(t, err, "the graph to compile is nil")
	g := graph.New("g", lookup)
	g.Input("x", tensor.Float32, -1)
	_, err = exec.Compile(g, exec.Options{})
	assert.ErrorContains(t, err, "negative size")
}

func TestOpWithoutKernel(t *testing.T) {
	o, err := fusion.Define(graph.Op{
		Semantics: graph.Semantics{
			Name: "hollow", Doc: "Gives self.", Params: []graph.Param{{Name: "self"}},
			Kind:  graph.OwnLayout,
			Infer: func(c *graph.Call) ([]graph.Result, error) { return c.NewResult(c.Type(0)), nil },
			NoRef: "nothing defines it",
		},
		Lowerings: graph.Lowerings{Compile: func(*graph.Call) (*graph.Kernel, error) { return nil, nil }},
	})
	require.NoError(t, err)
	g := graph.New("g", func(string) *graph.Op { return o })
	g.Output("y", g.Apply("hollow", nil, g.Input("x", tensor.Float32, 4))[0])
	require.NoError(t, g.Err())
	_, err = exec.Compile(g, exec.Options{})
	assert.ErrorContains(t, err, `node "hollow" (hollow): Compile of the op returned no kernel`)
}

// A program runs on the host: it rejects the kernel of another place.
func TestKernelOfAnotherPlace(t *testing.T) {
	o, err := fusion.Define(graph.Op{
		Semantics: graph.Semantics{
			Name: "far", Doc: "Runs on a device.", Params: []graph.Param{{Name: "self"}},
			Kind:  graph.OwnLayout,
			Infer: func(c *graph.Call) ([]graph.Result, error) { return c.NewResult(c.Type(0)), nil }, NoRef: "a test",
		},
		Lowerings: graph.Lowerings{
			Compile: func(*graph.Call) (*graph.Kernel, error) { return &graph.Kernel{Place: 1}, nil },
		},
	})
	require.NoError(t, err)
	g := graph.New("g", func(string) *graph.Op { return o })
	g.Output("y", g.Apply("far", nil, g.Input("x", tensor.Float32, 4))[0])
	require.NoError(t, g.Err())
	_, err = exec.Compile(g, exec.Options{})
	assert.ErrorContains(t, err, "the kernel has place device, but the results have place host")
}

// misused is a program of y = x + c, over data that its caller holds too.
func misused(t *testing.T, threads int) (p *exec.Program, c []float32) {
	c = []float32{1, 2, 3, 4}
	g := graph.New("g", lookup)
	x := g.Input("x", tensor.Float32, 4)
	g.Output("y", g.Apply("add", nil, x, g.Constant("c", tensor.Must(tensor.FromSlice(c, 4))))[0])
	require.NoError(t, g.Err())
	p, err := exec.Compile(g, exec.Options{Threads: threads})
	require.NoError(t, err)
	return p, c
}

func TestInputsAreLookedAt(t *testing.T) {
	p, _ := misused(t, 1)
	tracerPanic := tensor.Zeros(tensor.Float32, 4)
	tracerPanic.Offset = 1 << 20
	strides := tensor.Zeros(tensor.Float32, 4)
	strides.Strides = nil
	far := tensor.Must(tensor.FromStorage(tensor.New(tensor.Float32, 4), tensor.StorageAt(1, make([]byte, 16))))
	x := tensor.Zeros(tensor.Float32, 4)
	for want, in := range map[string]map[string]*tensor.Tensor{
		`input "x" is missing`:                  nil,
		`input "x" is float64, the graph wants`: {"x": tensor.Zeros(tensor.Float64, 4)},
		`input "x" has shape [2, 2]`:            {"x": tensor.Zeros(tensor.Float32, 2, 2)},
		`input "x": setStorage: sizes [4]`:      {"x": tracerPanic},
		`input "x": mismatch in length`:         {"x": strides},
		`input "x" is in the memory of the device, but the program runs on the host`: {"x": far},
		`input "x": it has no dtype`:           {"x": new(tensor.Tensor)},
		`the graph has no input "z"; it has x`: {"x": x, "z": x},
	} {
		_, err := p.Run(context.Background(), in)
		assert.ErrorContains(t, err, want)
	}
	var none context.Context
	_, err := p.Run(none, map[string]*tensor.Tensor{"x": x})
	assert.ErrorContains(t, err, "the context is nil")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = p.Run(ctx, map[string]*tensor.Tensor{"x": x})
	assert.ErrorIs(t, err, context.Canceled)
}

// Memory is what counts, not by which storage it is reached: an output over an input's or a
// constant's slice would be read while it is written.
func TestOutputsInForeignMemory(t *testing.T) {
	p, c := misused(t, 2)
	data := []float32{1, 1, 1, 1, 0}
	x := tensor.Must(tensor.FromSlice(data[:4], 4))
	for want, out := range map[string]*tensor.Tensor{
		"shares memory with input":   tensor.Must(tensor.FromSlice(data[1:], 4)),
		"shares memory with a const": tensor.Must(tensor.FromSlice(c, 4)),
		"out of bounds for storage":  {Meta: tensor.New(tensor.Float32, 4)},
		"in the memory of the device": tensor.Must(tensor.FromStorage(tensor.New(tensor.Float32, 4),
			tensor.StorageAt(1, make([]byte, 16)))),
	} {
		err := p.RunInto(context.Background(), []*tensor.Tensor{x}, []*tensor.Tensor{out})
		assert.ErrorContains(t, err, want)
	}
	assert.Equal(t, []float32{1, 2, 3, 4}, c)
	y := tensor.Zeros(tensor.Float32, 4)
	require.NoError(t, p.RunInto(context.Background(), []*tensor.Tensor{x}, []*tensor.Tensor{y}))
	assert.Equal(t, []float32{2, 3, 4, 5}, bits(t, y))
}

// Constants that are in one slice, some over one another, with room between them: an output
// may be in the room and nowhere else.
func TestOutputsBetweenConstants(t *testing.T) {
	data := make([]float32, 64)
	used := make([]bool, len(data))
	g := graph.New("g", lookup)
	y := g.Input("x", tensor.Float32, 4)
	for i, at := range []int{40, 0, 8, 10, 24, 24} {
		y = g.Apply("add", nil, y, g.Constant(fmt.Sprintf("c%d", i), tensor.Must(tensor.FromSlice(data[at:at+4], 4))))[0]
		for k := range 4 {
			used[at+k] = true
		}
	}
	p, err := exec.Compile(g.Output("y", y), exec.Options{Threads: 1})
	require.NoError(t, err)
	in := []*tensor.Tensor{tensor.Zeros(tensor.Float32, 4)}
	for at := range len(data) - 3 {
		err := p.RunInto(context.Background(), in, []*tensor.Tensor{tensor.Must(tensor.FromSlice(data[at:at+4], 4))})
		if slices.Contains(used[at:at+4], true) {
			assert.ErrorContains(t, err, "shares memory with a constant", "at %d", at)
		} else {
			assert.NoError(t, err, "at %d", at)
		}
	}
}

func TestThreadsAreBounded(t *testing.T) {
	p, _ := misused(t, min(1<<40, math.MaxInt))
	out, err := p.Run(context.Background(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 4)})
	require.NoError(t, err)
	assert.Equal(t, []float32{1, 2, 3, 4}, bits(t, out["y"]))
}
