package batching

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/internal/graphtest/networks"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/tensor"
)

// reshaped is a graph whose reshapes return views for one row, and copy for several rows.
const reshaped = `{"version": 1, "symbols": {"N": {}}, "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 4, 6]}],
	"nodes": [{"name": "t", "op": "transpose", "inputs": ["x"], "attrs": {"dim0": 0, "dim1": 1}},
		{"name": "r", "op": "reshape", "inputs": ["t"], "attrs": {"shape": [4, -1]}},
		{"name": "e", "op": "exp", "inputs": ["r"]},
		{"name": "s", "op": "reshape", "inputs": ["e"], "attrs": {"shape": [4, -1, 6]}},
		{"name": "y", "op": "transpose", "inputs": ["s"], "attrs": {"dim0": 0, "dim1": 1}}], "outputs": ["y"]}`

func axisOf(t *testing.T, text string, maxRows int, exact bool) *Axis {
	t.Helper()
	g, err := graphfile.Parse(strings.NewReader(text), kernels.Lookup, graphfile.Options{})
	require.NoError(t, err)
	p, err := program.Compile(t.Context(), g, program.Options{})
	require.NoError(t, err)
	symbol, err := Symbol(g, nil)
	require.NoError(t, err)
	a, err := Prove(t.Context(), p, g, symbol, maxRows, exact)
	require.NoError(t, err)
	return a
}

func runsOf(a *Axis, rows ...int) (list []*Run) {
	for i, n := range rows {
		x := tensor.Zeros(tensor.Float32, n, 4, 6)
		x.Set(tensor.FloatScalar(float64(i)), 0, 0, 0)
		list = append(list, a.NewRun(context.Background(), map[string]*tensor.Tensor{"x": x}))
	}
	return list
}

// summed is a graph whose sums have one order for 1 to 3 rows, and another order for more rows.
const summed = `{"version": 1, "symbols": {"N": {}}, "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 4, 6]}],
	"nodes": [{"name": "a", "op": "select", "inputs": ["x"], "attrs": {"dim": 2, "index": 0}},
		{"name": "c", "op": "contiguous", "inputs": ["a"]},
		{"name": "y", "op": "sum", "inputs": ["c"], "attrs": {"dim": [1]}}], "outputs": ["y"]}`

func TestBatch(t *testing.T) {
	a := axisOf(t, reshaped, 8, true)
	require.Same(t, a.planAt(t.Context(), []int{1}, 9), a.planAt(t.Context(), []int{1}, 1))
	assert.Equal(t, []int{0, 1}, a.Batch(runsOf(a, 1, 1), 8))
	assert.Equal(t, []int{0, 1, 2}, a.Batch(runsOf(a, 2, 1, 3, 5, 3), 8))
	if loops.CodeAvailable() { // other sums have one order for any number of rows
		b := axisOf(t, summed, 8, true)
		require.NotSame(t, b.planAt(t.Context(), []int{1}, 9), b.planAt(t.Context(), []int{1}, 1))
		assert.Equal(t, []int{0, 1}, b.Batch(runsOf(b, 2, 1, 1), 8), "4 rows have another order of sums")
		assert.Equal(t, []int{0, 3}, b.Batch(runsOf(b, 4, 1, 3, 4), 8))
	}
	assert.Equal(t, []int{0}, a.Batch(runsOf(a, 8, 1), 8), "a run of all rows")
	assert.Equal(t, []int{0, 2}, a.Batch(runsOf(a, 2, 3, 2, 1), 4), "fewer rows than Prove permits")
	assert.Equal(t, []int{0, 1}, axisOf(t, reshaped, 8, false).Batch(runsOf(a, 1, 1), 8))
	var none *Axis
	assert.Equal(t, []int{0}, none.Batch(runsOf(none, 2, 2), 8))
}

// TestEndedContext: a run whose context ends while it is planned has no plan. Later runs of these sizes have one.
func TestEndedContext(t *testing.T) {
	a := axisOf(t, reshaped, 8, true)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Nil(t, a.planAt(ctx, []int{1}, 5))
	assert.NotNil(t, a.planAt(t.Context(), []int{1}, 5))
	assert.NotNil(t, a.planAt(ctx, []int{1}, 5), "the plan is known")
}

func TestJoinAndSplit(t *testing.T) {
	a := axisOf(t, reshaped, 8, true)
	runs := runsOf(a, 2, 3)
	in, err := Join(runs)
	require.NoError(t, err)
	assert.Equal(t, []int{5, 4, 6}, in["x"].Shape)
	assert.Equal(t, 1.0, in["x"].At(2, 0, 0).Float())
	parts := a.Split(map[string]*tensor.Tensor{"y": in["x"]}, runs)
	assert.Equal(t, []int{3, 4, 6}, parts[1]["y"].Shape)
	assert.Equal(t, 1.0, parts[1]["y"].At(0, 0, 0).Float())
}

// repeated is a graph in which %s stands for the nodes.
const repeated = `{"version": 1, "symbols": {"N": {}}, "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 3]}],
	"nodes": [%s], "outputs": ["y"]}`

// TestRepeatedValues: values that are repeated for each row have rows.
func TestRepeatedValues(t *testing.T) {
	const zeros = `{"name": "z", "op": "zeros", "attrs": {"size": ["N", 2]}}, `
	const token = `{"name": "o", "op": "ones", "attrs": {"size": [1, 2]}},
		{"name": "e", "op": "expand", "inputs": ["o"], "attrs": {"size": ["N", -1]}}, `
	for nodes, columns := range map[string]int{
		zeros + `{"name": "y", "op": "cat", "inputs": ["x", "z"], "attrs": {"dim": 1}}`:                    5,
		token + `{"name": "y", "op": "cat", "inputs": ["e", "x"], "attrs": {"dim": 1}}`:                    5,
		token + `{"name": "k", "op": "neg", "inputs": ["x"]}, {"name": "y", "op": "exp", "inputs": ["e"]}`: 2,
		`{"name": "y", "op": "einsum", "inputs": ["x"], "attrs": {"equation": "N...->N..."}}`:              3, // not an expression
		zeros + `{"name": "s", "op": "sum", "inputs": ["z"], "attrs": {"dim": [1], "keepdim": true}},
			{"name": "y", "op": "add", "inputs": ["x", "s"]}`: 3,
		`{"name": "y", "op": "slice", "inputs": ["x"], "attrs": {"dim": 1, "end": "(N * 4) // (N * 2)"}}`: 2,
		`{"name": "r", "op": "reshape", "inputs": ["x"], "attrs": {"shape": ["N * 3"]}},
			{"name": "y", "op": "reshape", "inputs": ["r"], "attrs": {"shape": ["N", "3 * N // N"]}}`: 3,
	} {
		a := axisOf(t, fmt.Sprintf(repeated, nodes), 16, true)
		var runs []*Run
		for rows := range 3 {
			x := tensor.Zeros(tensor.Float32, rows+1, 3)
			x.Set(tensor.IntScalar(int64(rows+1)), rows, 0)
			runs = append(runs, a.NewRun(t.Context(), map[string]*tensor.Tensor{"x": x}))
		}
		assert.Equal(t, []int{0, 1, 2}, a.Batch(runs, 16), nodes)
		in, err := Join(runs)
		require.NoError(t, err)
		out, err := a.program.Run(t.Context(), in)
		require.NoError(t, err)
		for i, split := range a.Split(out, runs) {
			alone, err := a.program.Run(t.Context(), runs[i].In)
			require.NoError(t, err)
			assert.Equal(t, []int{i + 1, columns}, split["y"].Shape, nodes)
			want, err := tensor.ToSlice[float32](alone["y"].Contiguous())
			require.NoError(t, err)
			got, err := tensor.ToSlice[float32](split["y"].Contiguous())
			require.NoError(t, err)
			assert.Equal(t, want, got, nodes)
		}
	}
}

// TestBatchSizeInValues: rows are not independent if a value depends on the batch size. Several expressions have the
// same value for the batch sizes of the proof.
func TestBatchSizeInValues(t *testing.T) {
	const ones = `{"name": "f", "op": "ones", "attrs": {"size": ["%s"]}}, {"name": "s", "op": "sum", "inputs": ["f"]},
		{"name": "y", "op": "mul", "inputs": ["x", "s"]}`
	const full = `{"name": "f", "op": "full", "attrs": {"size": ["N", 3], "fill_value": "%s"}},
		{"name": "y", "op": "add", "inputs": ["x", "f"]}`
	for nodes, want := range map[string]string{
		fmt.Sprintf(full, "N % 2"):                 `"f" (full): attribute "fill_value"`,
		fmt.Sprintf(full, "N // 20"):               `"f" (full): attribute "fill_value"`,
		fmt.Sprintf(full, "Where(Lt(N, 5), 1, 2)"): `"f" (full): attribute "fill_value"`,
		fmt.Sprintf(ones, "Min(N, 5)"):             `"f" (ones): attribute "size" depends on the number of rows: Min(N, 5)`,
		fmt.Sprintf(ones, "1 + N // 20"):           `"f" (ones): attribute "size"`,
		strings.Replace(fmt.Sprintf(ones, "Max(N, 5)"), `"y"`, `"z"`, 1) + `, {"name": "y", "op": "neg", "inputs": ["x"]}`: `"f" (ones)`,
		`{"name": "y", "op": "roll", "inputs": ["x"], "attrs": {"shifts": ["N % 2"], "dims": [1]}}`:                        `"y" (roll)`,
		`{"name": "y", "op": "add", "inputs": ["x", "x"], "attrs": {"alpha": "N // 20"}}`:                                  `"y" (add)`,
		`{"name": "y", "op": "slice", "inputs": ["x"], "attrs": {"dim": 1, "end": "Min(N, 3)"}}`:                           `"y" (slice)`,
		`{"name": "a", "op": "arange", "attrs": {"end": "N"}}, {"name": "y", "op": "neg", "inputs": ["x"]}`:                `"a" (arange): an attribute`,
		`{"name": "f", "op": "full", "attrs": {"size": ["N", 3], "fill_value": "N"}},
			{"name": "y", "op": "add", "inputs": ["x", "f"]}`: `"f" (full): an attribute depends on the number of rows`,
		`{"name": "f", "op": "ones", "attrs": {"size": ["N"]}}, {"name": "s", "op": "sum", "inputs": ["f"]},
			{"name": "y", "op": "div", "inputs": ["x", "s"]}`: `"s" (sum): the op does not state that it computes rows independently`,
		`{"name": "e", "op": "eye", "attrs": {"n": "N"}}, {"name": "y", "op": "neg", "inputs": ["x"]}`: `"e" (eye)`,
		`{"name": "y", "op": "roll", "inputs": ["x"], "attrs": {"shifts": ["N"], "dims": [1]}}`:        `"y" (roll): an attribute`,
		`{"name": "o", "op": "ones", "attrs": {"size": [3]}},
			{"name": "y", "op": "expand", "inputs": ["o"], "attrs": {"size": ["N", "N", 3]}}`: `"y" (expand): the shape of its result`,
	} {
		g, err := graphfile.Parse(strings.NewReader(fmt.Sprintf(repeated, nodes)), kernels.Lookup, graphfile.Options{})
		require.NoError(t, err)
		p, err := program.Compile(t.Context(), g, program.Options{})
		require.NoError(t, err, nodes)
		_, err = Prove(t.Context(), p, g, "N", 16, true)
		assert.ErrorContains(t, err, want)
	}
}

// TestBranchOfBatchSize: rows are not independent if the batch size decides a branch.
func TestBranchOfBatchSize(t *testing.T) {
	branch := func(factor float64) *graph.Graph {
		g := graph.New("branch", kernels.Lookup)
		g.Output("r", op.Mul(g.Input("p", tensor.Float32, 3), factor))
		return g
	}
	g := graph.New("g", kernels.Lookup)
	x := g.InputDims("x", tensor.Float32, tensor.NoFormat, graph.Dim{Symbol: "N"}, graph.Dim{Size: 3})
	ones := op.Ones(g, []int{3})
	factors := g.ApplyExactly("if_sizes", 1, map[string]any{"condition": "Lt(N, 5)", "then_branch": branch(2),
		"else_branch": branch(3)}, ones, ones)
	g.Output("y", op.Mul(x, factors[0]))
	require.NoError(t, g.Err())
	p, err := program.Compile(t.Context(), g, program.Options{})
	require.NoError(t, err)
	_, err = Prove(t.Context(), p, g, "N", 16, true)
	assert.ErrorContains(t, err, `(if_sizes): attribute "condition" depends on the number of rows`)
}

// linear returns a graph whose implementations differ for one row and for eight rows.
func linear(t *testing.T) *graph.Graph {
	t.Helper()
	weight := tensor.Zeros(tensor.Float32, 1000, 16) // small: a large one is packed for all rows
	fill(weight)
	g := graph.New("linear", kernels.Lookup)
	x := g.InputDims("x", tensor.Float32, tensor.NoFormat, graph.Dim{Symbol: "N"}, graph.Dim{Size: 16})
	g.Output("y", op.Linear(x, g.Constant("w", weight), nil))
	require.NoError(t, g.Err())
	return g
}

func fill(t *tensor.Tensor) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range t.Shape[0] {
		for j := range t.Shape[1] {
			t.Set(tensor.FloatScalar(random.Float64()-0.5), i, j)
		}
	}
}

// TestReplacedImplementations: runs are joined only if the batch has the implementations of each run. Its plan may have
// the same decisions, but other implementations.
func TestReplacedImplementations(t *testing.T) {
	g := linear(t)
	for _, hint := range []int{1, 8} {
		p, err := program.Compile(t.Context(), g, program.Options{Hints: []map[string]int{{"N": hint}}})
		require.NoError(t, err)
		a, err := Prove(t.Context(), p, g, "N", 64, true)
		require.NoError(t, err)
		whole := tensor.Zeros(tensor.Float32, 8, 16)
		fill(whole)
		var runs []*Run
		for i := range 8 {
			row := tensor.Zeros(tensor.Float32, 1, 16)
			copy(row.Storage().Bytes(), whole.Storage().Bytes()[i*64:][:64])
			runs = append(runs, a.NewRun(t.Context(), map[string]*tensor.Tensor{"x": row}))
		}
		joined := a.Batch(runs, 8)
		assert.Equal(t, hint == 1, len(joined) < 8, "hint %d", hint)
		in, err := Join(runs[:len(joined)])
		require.NoError(t, err)
		batch, err := p.Run(t.Context(), in)
		require.NoError(t, err)
		for i, part := range a.Split(batch, runs[:len(joined)]) {
			single, err := p.Run(t.Context(), runs[i].In)
			require.NoError(t, err)
			for column := range 1000 {
				require.Equal(t, single["y"].At(0, column), part["y"].At(0, column), "row %d", i)
			}
		}
	}
}

// TestPreferOneRowPlan: the plan for one row is chosen if its cost at the other size is relatively less than that of
// the other plan. A pin replaces the implementation that does not support the other size.
func TestPreferOneRowPlan(t *testing.T) {
	g, err := graphfile.Parse(strings.NewReader(networks.PricedRows), networks.LookupPricedRows, graphfile.Options{})
	require.NoError(t, err)
	planned := func(rows int, pins map[string]graph.Pin) *program.Program {
		options := program.Options{Hints: []map[string]int{{"N": rows}}, Pins: pins}
		p, err := program.Compile(t.Context(), g, options)
		require.NoError(t, err)
		return p
	}
	chosen := func(p *program.Program, rows int) string {
		impls, _, err := p.Implementations(t.Context(), []int{rows})
		require.NoError(t, err)
		return impls["y"].Name
	}
	for rows, want := range map[int]string{1: "one", 2: "some", 8: "many"} {
		p := planned(rows, nil)
		require.Equal(t, want, chosen(p, rows))
		oneRow, pins, err := PreferOneRowPlan(t.Context(), p, g, "N", rows)
		require.NoError(t, err)
		assert.Equal(t, rows == 8, oneRow, "%d rows", rows)
		if oneRow {
			assert.Equal(t, map[string]graph.Pin{"y": {Impl: "some"}}, pins)
			one := planned(1, pins)
			assert.Equal(t, "some", chosen(one, 1))
			assert.Equal(t, "some", chosen(one, rows))
		}
	}
}

// TestMixedPlan: the plan for one row costs 1.08 times the least cost of one row, and 1.21 times that of 8 rows. The
// plan for 8 rows costs 3.2 times that of one row. Implementation "lots" of z adds .025 to the ratio at one row and
// saves .070 at 8 rows; that of w adds .025 and saves .021.
func TestMixedPlan(t *testing.T) {
	text := strings.Replace(networks.PricedRows, `],
	"nodes": [`, `],
	"nodes": [{"name": "z", "op": "log_softmax", "inputs": ["x"], "attrs": {"dim": 1}},
		{"name": "w", "op": "cumsum", "inputs": ["x"], "attrs": {"dim": 1}}, `, 1)
	text = strings.Replace(text, `"outputs": [`, `"outputs": ["z", "w", `, 1)
	g, err := graphfile.Parse(strings.NewReader(text), networks.LookupPricedRows, graphfile.Options{})
	require.NoError(t, err)
	p, err := program.Compile(t.Context(), g, program.Options{Hints: []map[string]int{{"N": 8}}})
	require.NoError(t, err)
	oneRow, pins, err := PreferOneRowPlan(t.Context(), p, g, "N", 8)
	require.NoError(t, err)
	assert.True(t, oneRow)
	assert.Equal(t, map[string]graph.Pin{"y": {Impl: "some"}, "z": {Impl: "lots"}}, pins)
}

// TestLeastSum: of two candidates, the one with the less sum of ratios has the greater maximum.
func TestLeastSum(t *testing.T) {
	c := comparison{leastAtOneRow: 100, leastAtManyRows: 1000}
	withCosts := func(atOneRow, atManyRows float64) *candidate {
		return &candidate{atOneRow: &passes.Plan{CostNS: atOneRow}, atManyRows: &passes.Plan{CostNS: atManyRows}}
	}
	a, b := withCosts(110, 1100), withCosts(100, 1150)
	assert.Same(t, b, c.withLeastSum(a, nil, b))
	assert.Same(t, b, c.withLeastSum(b, a))
}

// TestEfficientRows: the prices of implementation "some" are proportional to the rows. "many" has a cost per run, which
// large batches share: a row of a batch of 8 rows costs 97.5, of 16 rows 78.75, of 32 rows 69.4.
func TestEfficientRows(t *testing.T) {
	g, err := graphfile.Parse(strings.NewReader(networks.PricedRows), networks.LookupPricedRows, graphfile.Options{})
	require.NoError(t, err)
	for _, c := range []struct {
		impl                   string
		minRows, maxRows, want int
	}{{"some", 1, 8, 1}, {"some", 3, 8, 3}, {"some", 9, 8, 8},
		{"many", 1, 8, 8}, {"many", 31, 32, 31}, {"many", 1, 64, 32}} {
		p, err := program.Compile(t.Context(), g, program.Options{Pins: map[string]graph.Pin{"y": {Impl: c.impl}}})
		require.NoError(t, err)
		a, err := Prove(t.Context(), p, g, "N", 32, true)
		require.NoError(t, err)
		run := a.NewRun(t.Context(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 1, 3)})
		a.rowsLock.Lock()
		assert.Equal(t, min(c.maxRows, 32), a.EfficientRows(t.Context(), run, c.minRows, c.maxRows), "while another plans")
		a.rowsLock.Unlock()
		for range 2 { // the second result comes from the cache
			assert.Equal(t, c.want, a.EfficientRows(t.Context(), run, c.minRows, c.maxRows), "%+v", c)
		}
		run = a.NewRun(t.Context(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 32, 3)})
		assert.Equal(t, c.maxRows, a.EfficientRows(t.Context(), run, c.minRows, c.maxRows), "a run of all rows")
		run = a.NewSingleRun(map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 1, 3)})
		assert.Equal(t, c.maxRows, a.EfficientRows(t.Context(), run, c.minRows, c.maxRows), "a run without a plan")
	}
}

// TestEfficientRowsOfLargeRuns: a batch can have two runs of the least batch size, 9 rows. With "many", two runs cost
// less together. A run that leaves no room for another run in a batch does not wait.
func TestEfficientRowsOfLargeRuns(t *testing.T) {
	text := strings.Replace(networks.PricedRows, `"N": {}`, `"N": {"min": 9}`, 1)
	g, err := graphfile.Parse(strings.NewReader(text), networks.LookupPricedRows, graphfile.Options{})
	require.NoError(t, err)
	for _, c := range []struct {
		impl                string
		rows, maxRows, want int
	}{{"some", 9, 32, 9}, {"many", 9, 32, 18}, {"many", 9, 16, 9}, {"many", 12, 32, 12}} {
		p, err := program.Compile(t.Context(), g, program.Options{Pins: map[string]graph.Pin{"y": {Impl: c.impl}}})
		require.NoError(t, err)
		a, err := Prove(t.Context(), p, g, "N", c.maxRows, true)
		require.NoError(t, err)
		run := a.NewRun(t.Context(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, c.rows, 3)})
		assert.Equal(t, c.want, a.EfficientRows(t.Context(), run, 2, 8), c)
	}
}

// endingContext ends at a call of Err.
type endingContext struct {
	context.Context
	cancel    func()
	remaining int // number of calls of Err before the end
}

func (c *endingContext) Err() error {
	if c.remaining--; c.remaining < 0 {
		c.cancel()
	}
	return c.Context.Err()
}

// TestEfficientRowsOfEndedContext: costs that are known when a context ends give no result for later runs.
func TestEfficientRowsOfEndedContext(t *testing.T) {
	g, err := graphfile.Parse(strings.NewReader(networks.PricedRows), networks.LookupPricedRows, graphfile.Options{})
	require.NoError(t, err)
	p, err := program.Compile(t.Context(), g, program.Options{Pins: map[string]graph.Pin{"y": {Impl: "many"}}})
	require.NoError(t, err)
	for calls, ended := 0, true; ended; calls++ {
		a, err := Prove(t.Context(), p, g, "N", 32, false)
		require.NoError(t, err)
		run := a.NewRun(t.Context(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 1, 3)})
		inner, cancel := context.WithCancel(t.Context())
		assert.Equal(t, 32, a.EfficientRows(&endingContext{inner, cancel, calls}, run, 1, 64))
		assert.Equal(t, 32, a.EfficientRows(t.Context(), run, 1, 64), "after %d calls", calls)
		ended = inner.Err() != nil
		cancel()
	}
}
