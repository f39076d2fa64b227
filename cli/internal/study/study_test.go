package study

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// measured returns a plan with a cost and times.
func measured(name string, cost, gap float64, times ...float64) Plan {
	return Plan{Strategy: name, Plan: name, Costs: report.Costs{CostNS: cost}, Gap: gap, Samples: times,
		Spread: experiment.SpreadOf(times)}
}

// TestSummaries compares the tables of two results with numbers computed by hand.
func TestSummaries(t *testing.T) {
	slow, fast := []float64{200, 201, 202, 203, 204}, []float64{100, 101, 102, 103, 104}
	d := &Document{Strategies: []string{"a", "b"}, Conditions: []string{"c"}, Results: []Result{
		{Task: Task{Model: "x", Condition: "c", Threads: 1}, Plans: []Plan{measured("a", 200, 1, slow...),
			measured("b", 100, 0, fast...)}},
		{Task: Task{Model: "y", Condition: "c", Threads: 1}, Plans: []Plan{measured("a", 150, 0.5, fast...),
			measured("b", 100, 0, slow...)}}}}
	d.summarize()
	require.Len(t, d.Summaries, 2)
	a, b := d.Summaries[0], d.Summaries[1]
	require.InDelta(t, math.Sqrt(2*1.5)-1, a.MeanGap, 1e-12)
	require.Equal(t, []any{1.0, 1.0, "x", 0, 2}, []any{a.MedianGap, a.WorstGap, a.WorstOn, a.OptimalOn, a.Graphs})
	require.Equal(t, []any{0.0, 0.0, "", 2}, []any{b.MeanGap, b.WorstGap, b.WorstOn, b.OptimalOn})
	require.InDelta(t, math.Sqrt(202.0/102), *a.MeanRatio, 1e-12)
	require.InDelta(t, math.Sqrt(202.0/102), *b.MeanRatio, 1e-12)
	require.Equal(t, []any{202.0 / 102, "x", 1}, []any{*a.WorstRatio, a.SlowestOn, a.FastestOn})
	require.Equal(t, []any{202.0 / 102, "y", 1}, []any{*b.WorstRatio, b.SlowestOn, b.FastestOn})
	var text strings.Builder
	d.write(&printer{w: &text, markdown: true})
	require.Contains(t, text.String(), "| strategy | cost, mean % | 1 thread, mean % | 1 thread, worst % | 1 thread, worst on | 1 thread, fastest on |")
	require.Contains(t, text.String(), "| a | 73.2 | 40.7 | 98.0 | x | 1 |")
	require.Len(t, d.Orders, 1)
	require.Equal(t, 2, d.Orders[0].Different)
	require.Equal(t, []string{"y: a, b"}, d.Orders[0].Misordered)
}

// TestStudyFiles reads the studies of the repository.
func TestStudyFiles(t *testing.T) {
	list, err := filepath.Glob("../../../studies/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, list)
	for _, path := range list {
		s, err := read(new(command.Extensions), path)
		require.NoError(t, err)
		require.Equal(t, strings.TrimSuffix(filepath.Base(path), ".json"), s.Name)
	}
}

// TestShards checks that parts are disjoint and add up to the whole.
func TestShards(t *testing.T) {
	for n := range 20 {
		list := make([]*Task, n)
		for i := range list {
			list[i] = &Task{Runs: i}
		}
		for count := 1; count <= 7; count++ {
			var all []*Task
			for i := range count {
				all = append(all, tasksOf(list, command.Shard{Index: i, Count: count})...)
			}
			require.Equal(t, list, append([]*Task{}, all...))
		}
	}
}

// TestDigests checks that each member of a task changes its digest, except for the condition's place in the study.
func TestDigests(t *testing.T) {
	base := func() *Task { return &Task{Model: "m", Dims: map[string]int{"N": 1}, Strategies: []string{"a"}} }
	seen := map[string]bool{base().digest(): true}
	for i, change := range []func(t *Task){func(t *Task) { t.PlanFormat++ }, func(t *Task) { t.ModelDigest = "x" },
		func(t *Task) { t.Dims["N"] = 2 }, func(t *Task) { t.Profile = "x" }, func(t *Task) { t.EqualLayoutPrices = true },
		func(t *Task) { t.NoFusion = true }, func(t *Task) { t.Exact = true }, func(t *Task) { t.Threads = 1 },
		func(t *Task) { t.Runs = 1 }, func(t *Task) { t.Strategies = []string{"b"} },
		func(t *Task) { t.Instructions = "x" }} {
		x := base()
		change(x)
		require.False(t, seen[x.digest()], "change %d", i)
		seen[x.digest()] = true
	}
}

// TestOtherMeta checks that the other layout of the other layout is the first one, also for slices of channels.
func TestOtherMeta(t *testing.T) {
	for _, shape := range [][]int{{2, 3, 4, 5}, {1, 3, 4, 5}, {2, 3, 4, 5, 6}} {
		whole := append([]int{}, shape...)
		whole[1] = 7
		for _, format := range []tensor.MemoryFormat{tensor.ChannelsLast, tensor.ChannelsLast3d} {
			last, err := format.Order(len(shape))
			if err != nil {
				continue
			}
			for _, of := range [][]int{shape, whole} {
				rows := tensor.New(tensor.Float32, shape...).WithStrides(tensor.RowMajorOrder(len(shape)).Strides(of))
				pixels := rows.WithStrides(last.Strides(of))
				require.Equal(t, pixels.Strides, otherMeta(rows).Strides)
				require.Equal(t, rows.Strides, otherMeta(pixels).Strides)
			}
		}
	}
	for _, m := range []tensor.Meta{tensor.New(tensor.Float32, 3, 4),
		tensor.New(tensor.Float32, 2, 3, 4, 5).WithStrides([]int{1, 2, 6, 24})} {
		require.Equal(t, m, otherMeta(m))
	}
}

// TestReport checks that the page has a chart for each condition and number of threads, the tables and the results.
func TestReport(t *testing.T) {
	plans := []Plan{measured("a", 150, 0.5, 10, 11, 12), measured("b", 100, 0, 20, 21, 22)}
	d := &Document{Study: "s", Strategies: []string{"a", "b"}, Conditions: []string{"c", "d"}, Missing: []string{"lost"},
		Results: []Result{{Task: Task{Model: "x", Condition: "c"}, Plans: plans},
			{Task: Task{Model: "x", Condition: "d", Threads: 2}, Plans: plans}}}
	d.summarize()
	var b strings.Builder
	require.NoError(t, d.writeHTML(&b, "graphrun study s.json", "../../../studies/layouts.json"))
	for _, want := range []string{"<h2>Gaps: c<", "<h2>Gaps: d<", "<h2>Cost and time: d, 2 threads<",
		"x, a: cost 1.5x, time 1x", "mean 50.0%", "1 task without a result", "results.csv", "File layouts.json"} {
		require.Contains(t, b.String(), want)
	}
	require.NotContains(t, b.String(), "Cost and time: c")
	require.Contains(t, b.String(), "Gaps to the certified bound: c (the first of 2 conditions)")
	require.Contains(t, b.String(), "Graphs: c (the first of 2 conditions)")
	require.Error(t, d.writeHTML(&b, "", "absent.json"))
}

// TestSummary states the greatest and the median gap of each strategy.
func TestSummary(t *testing.T) {
	task := Task{Model: "x", Condition: "c"}
	plans := func(a, b float64) []Plan {
		return []Plan{measured("a", 1, a), measured("b", 1, b), measured("c", 1, 0)}
	}
	d := &Document{Study: "s", Strategies: []string{"a", "b", "c"}, Conditions: []string{"c"}, Results: []Result{
		{Task: task, Plans: plans(2.18, 0)}, {Task: task, Plans: plans(0.63, 0.0003)}, {Task: task, Plans: plans(0.1, 0)}}}
	const want = "a is up to 218.0% above the bound (median 63.0%); b is up to 0.03% above the bound (median 0%); " +
		"c meets the bound in all of 3 tasks"
	require.Equal(t, want, d.summary())
	var text strings.Builder
	d.write(&printer{w: &text})
	require.True(t, strings.HasPrefix(strings.Join(strings.Fields(text.String()), " "), want+" s: 1 network"))
	require.Empty(t, new(Document).summary())
}

// TestFailureError lists each reason once.
func TestFailureError(t *testing.T) {
	require.NoError(t, failureError(nil))
	require.EqualError(t, failureError([]Failure{{"a", "x"}, {"b", "y"}, {"c", "x"}, {"d", "x"}}),
		"4 tasks failed; --resume makes the missing results\n  a and 2 other tasks: x\n  b: y")
}

// TestDigestOfModel checks that the digest of a model changes with each of its files, and with no other file.
func TestDigestOfModel(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	save := func(value float32) {
		f, err := os.Create(filepath.Join(folder, "w.npy"))
		require.NoError(t, err)
		require.NoError(t, npz.WriteNPY(f, tensor.Must(tensor.FromSlice([]float32{value}, 1))))
		require.NoError(t, f.Close())
	}
	const graph = `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [1]}],
 "constants": [{"name": "w", "dtype": "float32", "shape": [1], "file": "w.npy"}],
 "nodes": [{"name": "y", "op": "add", "inputs": ["x", "w"]}], "outputs": ["y"]}`
	path := write("g.json", graph)
	ext := new(command.Extensions)
	require.NoError(t, ext.Complete())
	digest := func() string {
		d, err := digestOfModel(ext, path)
		require.NoError(t, err)
		return d
	}
	save(1)
	first := digest()
	write("other.npy", "other")
	require.Equal(t, first, digest())
	save(2)
	second := digest()
	require.NotEqual(t, first, second)
	save(1)
	require.Equal(t, first, digest())
	write("g.json", graph+"\n")
	require.NotEqual(t, first, digest())

	text := "model with a location in it"
	for size := 1; size < len(text); size++ {
		f := &textFinder{text: []byte("location")}
		for part := range slices.Chunk([]byte(text), size) {
			_, _ = f.Write(part)
		}
		require.True(t, f.found, "parts of %d bytes", size)
	}
}

// TestBest compares the plan of least cost, of equal costs one with the fewest copies, then the fewest copied bytes.
func TestBest(t *testing.T) {
	plan := func(name string, cost float64, copies, bytes int) Plan {
		p := measured(name, cost, 0)
		p.Copies, p.CopiedBytes = copies, bytes
		return p
	}
	r := Result{Plans: []Plan{plan("dear", 2, 0, 0),
		plan("copies", 1, 2, 5), plan("large", 1, 1, 9), plan("best", 1, 1, 8)}}
	require.Equal(t, "best", r.best().Strategy)
}
