package endtoend_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

var ctx = context.Background()

// eighths returns a tensor that counts up from -n/2 in steps of 1/8.
func eighths(shape ...int) *tensor.Tensor {
	data := make([]float32, tensor.Numel(shape))
	for i := range data {
		data[i] = float32(i-len(data)/2) / 8
	}
	return tensor.Must(tensor.FromSlice(data, shape...))
}

// manyOutputs has outputs of all kinds: made, views of these, views of an input, and a constant.
func manyOutputs() *graph.Graph {
	g := graphrun.New("many")
	x := g.InputDims("x", tensor.Float32, tensor.NoFormat, graph.Dim{Symbol: "N"}, graph.Dim{Size: 6}, graph.Dim{Size: 4})
	e := op.Exp(x)
	g.Output("exp", e)
	g.Output("turned", op.Permute(e, []int{2, 0, 1}))
	g.Output("part", op.Select(e, 1, 2))
	g.Output("input", op.Permute(x, []int{1, 0, 2}))
	g.Output("sum", op.Sum(op.Add(e, x), op.SumAttrs{Dim: []int{1}}))
	g.Output("half", op.To(e, op.ToAttrs{DType: tensor.Float16}))
	return g.Output("constant", g.Constant("c", eighths(3, 2)))
}

// someDecided has outputs whose shapes depend on data.
func someDecided() *graph.Graph {
	g := graphrun.New("decided")
	x := g.InputDims("x", tensor.Float32, tensor.NoFormat, graph.Dim{Symbol: "N"}, graph.Dim{Size: 6}, graph.Dim{Size: 4})
	e := op.Exp(x)
	g.Output("exp", e)
	places := op.Nonzero(op.Relu(x))
	g.Output("places", places)
	g.Output("twice", op.Add(places, places))
	g.Output("x", x)
	return g.Output("constant", g.Constant("c", eighths(3, 2)))
}

// layouts returns tensors for a value, laid out in many ways, each in memory of its own that is all 0xA5.
func layouts(m tensor.Meta) map[string]*tensor.Tensor {
	dense := func(order []int, offset, gap int) *tensor.Tensor {
		st, step := make([]int, m.Rank()), 1+gap
		for _, d := range order {
			st[d] = step
			step *= max(m.Shape[d], 1) + gap
		}
		t := tensor.Empty(tensor.Meta{DType: m.DType, Shape: m.Shape, Strides: st, Offset: offset})
		for i := range t.Storage().Bytes() {
			t.Storage().Bytes()[i] = 0xA5
		}
		return t
	}
	rows := make([]int, m.Rank())
	for d := range rows {
		rows[d] = m.Rank() - 1 - d
	}
	columns := slices.Clone(rows)
	slices.Reverse(columns)
	same := tensor.Empty(tensor.Meta{DType: m.DType, Shape: m.Shape, Strides: m.Strides, Offset: 3})
	return map[string]*tensor.Tensor{"same": same, "rows": dense(rows, 0, 0), "offset": dense(rows, 5, 0), "columns": dense(columns, 1, 0),
		"gaps": dense(rows, 2, 1), "far": dense(columns, 0, 3)}
}

// between is the bytes of a tensor's storage that belong to no element.
func between(t *tensor.Tensor) []byte {
	all := bytes.Clone(t.Storage().Bytes())
	used := make([]bool, len(all))
	t.Walk(func(at int) {
		for k := range t.DType.Size() {
			used[(t.Offset+at)*t.DType.Size()+k] = true
		}
	})
	var rest []byte
	for i, b := range all {
		if !used[i] {
			rest = append(rest, b)
		}
	}
	return rest
}

func sameValues(t *testing.T, want, got *tensor.Tensor, name string) {
	t.Helper()
	rows := tensor.New(want.DType, want.Shape...)
	require.Equal(t, want.CopyTo(rows).Storage().Bytes(), got.CopyTo(rows).Storage().Bytes(), name)
}

// Results are those of Run in any layout of the caller's tensors, and no byte between elements is written.
func TestRunIntoAnyLayout(t *testing.T) {
	for _, g := range []*graph.Graph{manyOutputs(), someDecided()} {
		for _, threads := range []int{1, 2} {
			for _, keep := range []bool{false, true} {
				p, err := graphrun.Compile(ctx, g, graphrun.Options{Threads: threads, KeepGoing: keep})
				require.NoError(t, err)
				for _, n := range []int{3, 1, 0, 5} {
					in := map[string]*tensor.Tensor{"x": eighths(n, 6, 4)}
					want, err := p.Run(ctx, in)
					require.NoError(t, err)
					for layout := range layouts(want["exp"].Meta) {
						out, before := map[string]*tensor.Tensor{}, map[string][]byte{}
						for name, w := range want {
							out[name] = layouts(w.Meta)[layout]
							before[name] = between(out[name])
						}
						require.NoError(t, p.RunInto(ctx, in, out))
						for name, w := range want {
							where := fmt.Sprintf("%s %s, N=%d, %s", g.Name, name, n, layout)
							sameValues(t, w, out[name], where)
							require.Equal(t, before[name], between(out[name]), where)
						}
						for name := range want { // each alone
							one := layouts(want[name].Meta)[layout]
							require.NoError(t, p.RunInto(ctx, in, map[string]*tensor.Tensor{name: one}))
							sameValues(t, want[name], one, name)
						}
					}
				}
			}
		}
	}
}

// Inputs and outputs may be different columns of one matrix.
func TestRunIntoColumns(t *testing.T) {
	g := graphrun.New("columns")
	x := g.Input("x", tensor.Float32, 5, 2)
	e := op.Exp(x)
	g.Output("a", e)
	g.Output("b", op.Neg(x))
	p, err := graphrun.Compile(ctx, g, graphrun.Options{})
	require.NoError(t, err)
	whole := eighths(5, 8)
	column := func(at int) *tensor.Tensor {
		m := tensor.Meta{DType: tensor.Float32, Shape: []int{5, 2}, Strides: []int{8, 1}, Offset: at}
		return tensor.Must(whole.View(m))
	}
	want, err := p.Run(ctx, map[string]*tensor.Tensor{"x": column(2)})
	require.NoError(t, err)
	require.NoError(t, p.RunInto(ctx, map[string]*tensor.Tensor{"x": column(2)}, map[string]*tensor.Tensor{"a": column(0), "b": column(5)}))
	sameValues(t, want["a"], column(0), "a")
	sameValues(t, want["b"], column(5), "b")
	for message, out := range map[string]map[string]*tensor.Tensor{
		`output "b" shares memory with input "x"`:                           {"b": column(3)},
		`output "b" shares memory with the tensor given for output "a"`:     {"a": column(4), "b": column(5)},
		`output "a": more than one element of the written-to tensor refers`: {"a": expandedRow()},
	} {
		before := bytes.Clone(whole.Storage().Bytes())
		assert.ErrorContains(t, p.RunInto(ctx, map[string]*tensor.Tensor{"x": column(2)}, out), message)
		assert.Equal(t, before, whole.Storage().Bytes(), message)
	}
}

func expandedRow() *tensor.Tensor { return tensor.Must(eighths(1, 2).Expanded([]int{5, 2})) }

func TestRunIntoRefuses(t *testing.T) {
	for _, g := range []*graph.Graph{manyOutputs(), someDecided()} {
		for _, keep := range []bool{false, true} {
			p, err := graphrun.Compile(ctx, g, graphrun.Options{KeepGoing: keep})
			require.NoError(t, err)
			in, c := map[string]*tensor.Tensor{"x": eighths(2, 6, 4)}, g.Value("c").Const
			for message, out := range map[string]map[string]*tensor.Tensor{
				`the graph has no output "exq"; did you mean exp?`:                                         {"exq": eighths(2, 6, 4)},
				`the tensor given for output "exp" is nil`:                                                 {"exp": nil},
				`output "exp" has shape [2, 6, 4], but the tensor given for it has shape [6, 4]`:           {"exp": eighths(6, 4)},
				`output "exp" is float32, but the tensor given for it is int64`:                            {"exp": tensor.Zeros(tensor.Int64, 2, 6, 4)},
				`the tensor given for output "exp": setStorage`:                                            {"exp": {Meta: tensor.New(tensor.Float32, 2, 6, 4)}},
				`the tensor given for output "exp" shares memory with input "x"`:                           {"exp": in["x"]},
				`the tensor given for output "constant" shares memory with`:                                {"constant": c},
				`the tensor given for output "exp": more than one element of the written-to tensor refers`: {"exp": tensor.Must(eighths(6, 4).Expanded([]int{2, 6, 4}))},
			} {
				assert.ErrorContains(t, p.RunInto(ctx, in, out), message)
			}
			assert.ErrorContains(t, p.RunInto(ctx, map[string]*tensor.Tensor{"x": eighths(2, 5, 4)}, nil), `"x"`)
			assert.NoError(t, p.RunInto(ctx, in, nil))
			sameValues(t, eighths(3, 2), c, "c")
		}
	}
	p, err := graphrun.Compile(ctx, someDecided(), graphrun.Options{})
	require.NoError(t, err)
	err = p.RunInto(ctx, map[string]*tensor.Tensor{"x": eighths(2, 6, 4)}, map[string]*tensor.Tensor{"places": tensor.Zeros(tensor.Int64, 1, 3)})
	assert.ErrorContains(t, err, `output "places" has shape [23, 3], but the tensor given for it has shape [1, 3]`)
	assert.ErrorContains(t, new(graphrun.Program).RunInto(ctx, nil, nil), "not made by Compile")
}

// A run that keeps going writes the outputs that it makes.
func TestRunIntoKeepsGoing(t *testing.T) {
	g := graphrun.New("some")
	x := g.Input("x", tensor.Float32, 4)
	i := g.Input("i", tensor.Int64, 2)
	g.Output("good", op.Exp(x))
	g.Output("bad", op.Neg(op.IndexSelect(x, i, 0)))
	y := g.InputDims("y", tensor.Float32, tensor.NoFormat, graph.Dim{Symbol: "N"})
	z := g.InputDims("z", tensor.Float32, tensor.NoFormat, graph.Dim{Symbol: "M"})
	g.Output("refused", op.Add(y, z))
	p, err := graphrun.Compile(ctx, g, graphrun.Options{KeepGoing: true})
	require.NoError(t, err)
	in := map[string]*tensor.Tensor{"x": eighths(4), "i": tensor.Must(tensor.FromSlice([]int64{1, 9}, 2)), "y": eighths(4), "z": eighths(3)}
	want, err := p.Run(ctx, in)
	var ran *exec.Incomplete
	require.ErrorAs(t, err, &ran)
	out := map[string]*tensor.Tensor{"good": eighths(4), "bad": eighths(2), "refused": eighths(4)}
	var into *exec.Incomplete
	require.ErrorAs(t, p.RunInto(ctx, in, out), &into)
	assert.Equal(t, ran.Error(), into.Error())
	assert.Len(t, into.MissingOutputs, 2)
	sameValues(t, want["good"], out["good"], "good")
}

// Several goroutines run at once, with tensors of their own, and after a while a run allocates a few words.
func TestRunIntoTogether(t *testing.T) {
	p, err := graphrun.Compile(ctx, manyOutputs(), graphrun.Options{Threads: 2})
	require.NoError(t, err)
	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(worker)))
			for range 30 {
				n := rng.IntN(4)
				in := map[string]*tensor.Tensor{"x": eighths(n, 6, 4)}
				if n > 0 {
					in["x"].SetFlat(0, tensor.IntScalar(int64(worker)))
				}
				want, err := p.Run(ctx, in)
				if !assert.NoError(t, err) {
					return
				}
				out := map[string]*tensor.Tensor{"exp": layouts(want["exp"].Meta)["far"], "sum": layouts(want["sum"].Meta)["same"]}
				assert.NoError(t, p.RunInto(ctx, in, out))
				for name := range out {
					rows := tensor.New(want[name].DType, want[name].Shape...)
					assert.Equal(t, want[name].CopyTo(rows).Storage().Bytes(), out[name].CopyTo(rows).Storage().Bytes())
				}
				for _, name := range []string{"exp", "sum", "half"} {
					assert.NoError(t, want[name].Release())
				}
			}
		})
	}
	wait.Wait()
}

func TestRunIntoAllocatesNothing(t *testing.T) {
	testsize.Long(t)
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	g := manyOutputs()
	p, err := graphrun.Compile(ctx, g, graphrun.Options{Threads: 1})
	require.NoError(t, err)
	in := map[string]*tensor.Tensor{"x": eighths(512, 6, 4)}
	want, err := p.Run(ctx, in)
	require.NoError(t, err)
	out := map[string]*tensor.Tensor{"exp": want["exp"], "sum": want["sum"], "half": want["half"]}
	var before, after runtime.MemStats
	for range 5 {
		require.NoError(t, p.RunInto(ctx, in, out))
	}
	const runs = 100
	runtime.ReadMemStats(&before)
	for range runs {
		require.NoError(t, p.RunInto(ctx, in, out))
	}
	runtime.ReadMemStats(&after)
	assert.Less(t, (after.TotalAlloc-before.TotalAlloc)/runs, uint64(1<<10))
}

// Results are released, and nothing else is.
func TestRelease(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // collections empty the pool
	for _, g := range []*graph.Graph{manyOutputs(), someDecided()} {
		p, err := graphrun.Compile(ctx, g, graphrun.Options{})
		require.NoError(t, err)
		in := map[string]*tensor.Tensor{"x": eighths(512, 6, 4)}
		input := "x"
		if g.Name == "many" {
			input = "input"
		}
		out, err := p.Run(ctx, in)
		require.NoError(t, err)
		for name, x := range out {
			switch name {
			case input:
				assert.ErrorContains(t, x.Release(), "not the result of a run", name)
			case "turned", "part": // views of exp
			default:
				assert.NoError(t, x.Release(), name)
				assert.ErrorContains(t, x.Release(), "released before", name)
			}
		}
		assert.ErrorContains(t, in["x"].Release(), "not the result of a run")
		assert.ErrorContains(t, g.Value("c").Const.Release(), "not the result of a run")
		if g.Name == "many" {
			assert.PanicsWithValue(t, "tensor: used after Release", func() { out["turned"].At(0, 0, 0) })
			assert.ErrorContains(t, out["part"].Release(), "released before")
		}
		_, err = p.Run(ctx, map[string]*tensor.Tensor{"x": out["exp"]})
		assert.ErrorContains(t, err, `input "x": used after Release`)
		assert.ErrorContains(t, p.RunInto(ctx, in, map[string]*tensor.Tensor{"exp": out["exp"]}), "used after Release")
	}
}

// Released memory is used for the next result; memory that was not released is not, even if only one byte is held.
func TestMemoryOfResults(t *testing.T) {
	g := graphrun.New("g")
	g.Output("y", op.Exp(g.Input("x", tensor.Float32, 1<<16)))
	p, err := graphrun.Compile(ctx, g, graphrun.Options{})
	require.NoError(t, err)
	in := map[string]*tensor.Tensor{"x": eighths(1 << 16)}
	run := func() *tensor.Tensor {
		out, err := p.Run(ctx, in)
		require.NoError(t, err)
		return out["y"]
	}
	func() {
		defer debug.SetGCPercent(debug.SetGCPercent(-1))
		y := run()
		at := y.Pointer()
		require.NoError(t, y.Release())
		assert.Equal(t, at, run().Pointer())
	}()
	var slices [][]byte
	var typed []*float32
	want := bytes.Clone(run().Storage().Bytes())
	for i := range 20 {
		y := run()
		if i%2 == 0 {
			slices = append(slices, y.Storage().Bytes()[4*i:])
			typed = append(typed, &unsafe.Slice((*float32)(y.Pointer()), 1<<16)[i])
		} else {
			require.NoError(t, y.Release())
		}
		y = nil
		runtime.GC()
	}
	in["x"] = eighths(2, 1<<15)
	in["x"] = tensor.Must(in["x"].View(tensor.New(tensor.Float32, 1<<16)))
	in["x"].SetFlat(0, tensor.IntScalar(1))
	for range 20 {
		_ = run().Release()
	}
	for i, s := range slices {
		require.Equal(t, want[8*i:], s)
		require.Equal(t, *(*float32)(unsafe.Pointer(&want[8*i])), *typed[i])
	}
}

// A result keeps its memory alive, and not the program that made it.
func TestResultsLeaveProgramsAlone(t *testing.T) {
	g := graphrun.New("g")
	g.Output("y", op.Exp(g.Input("x", tensor.Float32, 4)))
	p, err := graphrun.Compile(ctx, g, graphrun.Options{})
	require.NoError(t, err)
	out, err := p.Run(ctx, map[string]*tensor.Tensor{"x": eighths(4)})
	require.NoError(t, err)
	collected := make(chan struct{})
	runtime.AddCleanup(p, func(c chan struct{}) { close(c) }, collected)
	p = nil
	runtime.GC()
	<-collected
	require.NoError(t, out["y"].Release())
}
