package batch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/internal/graphtest/networks"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// affine computes 2*x + 1 of rows of three numbers.
const affine = `{"version": 1, "symbols": {"N": {}}, "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 3]}],
	"nodes": [{"name": "y", "op": "pointwise", "inputs": ["x"], "attrs": {"expr": "x * 2 + 1"}}], "outputs": ["y"]}`

// folder is a directory with a model, inputs and outputs.
type folder struct {
	t   testing.TB
	dir string
}

func newFolder(t testing.TB, model string) folder {
	f := folder{t, t.TempDir()}
	f.write("m.json", model)
	return f
}

func (f folder) path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }
func (f folder) model() string           { return f.path("m.json") }

func (f folder) write(name, text string) {
	f.t.Helper()
	require.NoError(f.t, os.MkdirAll(filepath.Dir(f.path(name)), 0o777))
	require.NoError(f.t, os.WriteFile(f.path(name), []byte(text), 0o666))
}

// writeRows writes count inputs in/0000.npz, ... of 1 to 3 rows.
func (f folder) writeRows(count int) {
	f.t.Helper()
	require.NoError(f.t, os.MkdirAll(f.path("in"), 0o777))
	for i := range count {
		x := tensor.Zeros(tensor.Float32, 1+i%3, 3)
		for k := range x.Numel() {
			x.SetFlat(k, tensor.FloatScalar(float64(10*i+k)))
		}
		entries := []npz.Entry{{Name: "x", Tensor: x}}
		require.NoError(f.t, npz.WriteFile(f.path(fmt.Sprintf("in/%04d.npz", i)), entries))
	}
}

// checkRows checks the outputs of inputs of writeRows: those with the numbers from first to count-1 exist. Any that
// exists is exact.
func (f folder) checkRows(count int, all bool) {
	f.t.Helper()
	for i := range count {
		out, err := npz.ReadFile(f.path(fmt.Sprintf("out/%04d.npz", i)))
		if !all && errors.Is(err, os.ErrNotExist) {
			continue
		}
		require.NoError(f.t, err)
		require.Equal(f.t, []int{1 + i%3, 3}, out["y"].Shape)
		for k := range out["y"].Numel() {
			require.Equal(f.t, float64(2*(10*i+k)+1), out["y"].At(k/3, k%3).Float(), "output %d", i)
		}
	}
}

func (f folder) find(pattern string) []Input {
	f.t.Helper()
	inputs, err := Find(f.path(pattern))
	require.NoError(f.t, err)
	return inputs
}

func (f folder) run(pattern string, o Options) Summary {
	f.t.Helper()
	s, err := Run(f.t.Context(), f.model(), f.find(pattern), f.path("out"), o)
	require.NoError(f.t, err)
	return s
}

// counts returns the counts of a summary: done, skipped, failed, missing.
func counts(s Summary) [4]int { return [4]int{s.Done, s.Skipped, s.Failed, s.Missing} }

func TestFind(t *testing.T) {
	f := folder{t, t.TempDir()}
	f.write("in/cat/1.jpg", "")
	f.write("in/cat/2.b.jpg", "")
	f.write("in/dog/1.jpg", "")
	f.write("in/dog/1.png", "")
	require.NoError(t, os.Mkdir(f.path("in/dog/sub"), 0o777))
	names := func(patterns ...string) (list []string) {
		for i := range patterns {
			patterns[i] = f.path(patterns[i])
		}
		inputs, err := Find(patterns...)
		require.NoError(t, err)
		for _, in := range inputs {
			list = append(list, in.Name)
		}
		return list
	}
	assert.Equal(t, []string{"cat/1", "cat/2.b", "dog/1"}, names("in/*/*.jpg"))
	assert.Equal(t, []string{"1", "2.b"}, names("in/cat/*", "in/cat/1*"))
	_, err := Find(f.path("in/dog/*"))
	assert.ErrorContains(t, err, "would have the same output, 1.npz")
	_, err = Find("[")
	assert.ErrorContains(t, err, "not a valid pattern")
}

func TestResume(t *testing.T) {
	f := newFolder(t, affine)
	f.writeRows(20)
	f.write("in/bad.npz", "PK")
	o := Options{PartSize: 3}
	assert.Equal(t, [4]int{20, 0, 1, 0}, counts(f.run("in/*", o)))
	f.checkRows(20, true)
	assert.Equal(t, [4]int{0, 20, 1, 0}, counts(f.run("in/*", o)))
	status, err := Status(t.Context(), f.model(), f.find("in/*"), f.path("out"), o)
	require.NoError(t, err)
	assert.Equal(t, [4]int{20, 0, 1, 0}, counts(status))
	require.Len(t, status.Failures, 1)
	assert.Equal(t, f.path("in/bad.npz"), status.Failures[0].Input)

	require.NoError(t, os.Remove(f.path("out/0003.npz")))
	f.write("out/0004.npz", "short")
	require.NoError(t, os.Rename(f.path("in/0005.npz"), f.path("in/0006.npz"))) // contents change
	assert.Equal(t, [4]int{3, 16, 1, 0}, counts(f.run("in/*", o)))
	got, err := npz.ReadFile(f.path("out/0006.npz"))
	require.NoError(t, err)
	assert.Equal(t, 101.0, got["y"].At(0, 0).Float())

	require.NoError(t, os.Rename(f.path("in/0007.npz"), f.path("in/bad.npz"))) // is no longer bad
	assert.Equal(t, [4]int{1, 18, 0, 0}, counts(f.run("in/*", o)))
	f.write("in/bad.npz", "PK")
	retried := o
	retried.Retry = true
	assert.Equal(t, [4]int{0, 18, 1, 0}, counts(f.run("in/*", retried)))
	assert.NoFileExists(t, f.path("out/bad.npz"), "the output of the former contents")

	exact := o
	exact.Compile.Exact = true
	assert.Equal(t, [4]int{18, 0, 1, 0}, counts(f.run("in/*", exact)), "other options")
	assert.Equal(t, [4]int{0, 18, 1, 0}, counts(f.run("in/*", o)), "equal bytes satisfy both")
	f.write("m.json", affine+"\n")
	assert.Equal(t, [4]int{18, 0, 1, 0}, counts(f.run("in/*", o)), "another model")
}

// TestTornManifest: records at the end of a manifest may be incomplete.
func TestTornManifest(t *testing.T) {
	f := newFolder(t, affine)
	f.writeRows(9)
	require.Equal(t, 9, f.run("in/*", Options{}).Done)
	path := f.path("out/.graphrun/manifest-1-of-1.jsonl")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for cut := range 8 {
		require.NoError(t, os.WriteFile(path, text[:len(text)-1-cut*37], 0o666))
		s := f.run("in/*", Options{})
		require.Equal(t, 9, s.Done+s.Skipped)
		require.Equal(t, cut > 0, s.Done > 0, "cut %d: only the line break is missing from cut 0", cut)
		require.Equal(t, 9, f.run("in/*", Options{}).Skipped)
	}
	f.checkRows(9, true)
}

func TestParallelShards(t *testing.T) {
	f := newFolder(t, affine)
	f.writeRows(60)
	var wg sync.WaitGroup
	summaries := make([]Summary, 4)
	for i := range summaries {
		wg.Go(func() { summaries[i] = f.run("in/*", Options{Shard: i, Shards: 4, PartSize: 4}) })
	}
	wg.Wait()
	total := 0
	for _, s := range summaries {
		assert.Positive(t, s.Done)
		total += s.Done
	}
	assert.Equal(t, 60, total)
	f.checkRows(60, true)
	assert.Equal(t, [4]int{0, 60, 0, 0}, counts(f.run("in/*", Options{})), "records of all shards")
	unlock, err := lock(outputDir{f.path("out")}.shardPath("lock", &Options{Shards: 1}))
	require.NoError(t, err)
	defer unlock()
	_, err = Run(t.Context(), f.model(), f.find("in/*"), f.path("out"), Options{})
	assert.ErrorContains(t, err, "another process is running this shard")
}

// TestShardOf: an input belongs to the same shard in all versions and on all machines.
func TestShardOf(t *testing.T) {
	assert.Equal(t, []int{25, 30}, []int{shardOf("0000", 64), shardOf("cat/1", 64)})
}

// TestJoinedBits: outputs have the same bits whether or not inputs run together.
func TestJoinedBits(t *testing.T) {
	g := networks.Bottlenecks(8, 1, 2)
	require.NoError(t, g.Bind(map[string]int{"H": 16, "W": 16}))
	f := newFolder(t, "")
	require.NoError(t, graphfile.SaveFile(f.model(), g))
	v := g.Inputs[0]
	for i := range 12 {
		shape := []int{1 + i%2, 3, 16, 16}
		x := tensor.Zeros(tensor.Float32, shape...)
		for k := range x.Numel() {
			x.SetFlat(k, tensor.FloatScalar(float64((k*7+i*13)%101)/50-1))
		}
		f.write(fmt.Sprintf("in/%d.npz", i), "")
		require.NoError(t, npz.WriteFile(f.path(fmt.Sprintf("in/%d.npz", i)), []npz.Entry{{Name: v.Name, Tensor: x}}))
	}
	joined := f.run("in/*", Options{})
	require.NoError(t, joined.Unjoined)
	require.Equal(t, 12, joined.Done)
	alone, err := Run(t.Context(), f.model(), f.find("in/*"), f.path("alone"), Options{MaxRows: 1})
	require.NoError(t, err)
	require.Equal(t, 12, alone.Done)
	for i := range 12 {
		a, err := os.ReadFile(f.path(fmt.Sprintf("out/%d.npz", i)))
		require.NoError(t, err)
		b, err := os.ReadFile(f.path(fmt.Sprintf("alone/%d.npz", i)))
		require.NoError(t, err)
		require.Equal(t, a, b)
	}
}

// TestBatchSizeOfPlan: a model is planned for a batch size within its bounds. A fixed batch size is possible, too.
func TestBatchSizeOfPlan(t *testing.T) {
	f := newFolder(t, strings.Replace(affine, `"N": {}`, `"N": {"min": 9}`, 1))
	f.writeRows(1)
	assert.Equal(t, [4]int{0, 0, 1, 0}, counts(f.run("in/*", Options{})), "one row is outside the bounds")
	f = newFolder(t, affine)
	f.writeRows(1)
	fixed := f.run("in/*", Options{Compile: graphrun.Options{Sizes: map[string]int{"N": 1}}})
	assert.Equal(t, [4]int{1, 0, 0, 0}, counts(fixed))
	assert.ErrorContains(t, fixed.Unjoined, "the batch size N is fixed")
}

// TestErrorText records an error whose text is not UTF-8.
func TestErrorText(t *testing.T) {
	f := newFolder(t, affine)
	f.write("in/a.npy", "text")
	s, err := Run(t.Context(), f.model(), []Input{{"a", f.path("in/a.npy") + "\xff"}, {"b", f.path("in/a.npy")}},
		f.path("out"), Options{})
	require.NoError(t, err)
	assert.Equal(t, [4]int{0, 0, 2, 0}, counts(s))
	for _, failure := range s.Failures { // the path is in Input
		assert.NotContains(t, failure.Error, "a.npy")
	}
}

// TestInvalidNames: a name that is not UTF-8 is a name like others, also for the runs that follow.
func TestInvalidNames(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		t.Skip("the names of files are Unicode")
	}
	f := newFolder(t, affine)
	f.writeRows(3)
	require.NoError(t, os.Rename(f.find("in/*")[0].Path, f.path("in/\xff\xfe.npz")))
	require.NoError(t, os.Rename(f.find("in/*")[1].Path, f.path("in/\xff\xfd\"\n.npz")))
	inputs := f.find("in/*")
	require.Len(t, inputs, 3)
	for _, want := range [][4]int{{3, 0, 0, 0}, {0, 3, 0, 0}} {
		s, err := Run(t.Context(), f.model(), inputs, f.path("out"), Options{})
		require.NoError(t, err)
		assert.Equal(t, want, counts(s))
	}
	s, err := Status(t.Context(), f.model(), inputs, f.path("out"), Options{})
	require.NoError(t, err)
	assert.Equal(t, [4]int{3, 0, 0, 0}, counts(s))
	for _, in := range inputs {
		assert.FileExists(t, f.path("out/"+in.Name+".npz"))
	}
	text, err := os.ReadFile(f.path("out/.graphrun/manifest-1-of-1.jsonl"))
	require.NoError(t, err)
	assert.True(t, utf8.Valid(text))
}

func TestInvalidRuns(t *testing.T) {
	f := newFolder(t, affine)
	f.writeRows(2)
	inputs := f.find("in/*")
	for _, c := range []struct {
		inputs []Input
		out    string
		o      Options
		want   string
	}{
		{inputs, "out", Options{Shard: 3, Shards: 3}, "shard 3 of 3"},
		{inputs, "out", Options{PartSize: -1}, "must not be negative"},
		{inputs, "in", Options{}, "would replace the input"},
		{[]Input{{"../a", "a"}}, "out", Options{}, "not a path below"},
		{[]Input{{"a", "a"}, {"a", "b"}}, "out", Options{}, `two inputs have the name "a"`},
		{inputs, "out", Options{Images: Images{Deviation: []float64{0}}}, "deviation has the invalid number 0"},
		{inputs, "m.json", Options{}, "m.json"},
	} {
		_, err := Run(t.Context(), f.model(), c.inputs, f.path(c.out), c.o)
		assert.ErrorContains(t, err, c.want)
	}
	_, err := Run(t.Context(), f.path("none.onnx"), inputs, f.path("out"), Options{})
	assert.ErrorContains(t, err, "none.onnx")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(context.DeadlineExceeded)
	_, err = Run(ctx, f.model(), inputs, f.path("out"), Options{})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}
