package inference

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/local"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/memfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// perceptron has a matrix product, and a softmax of rows of 20 numbers. The second output has the maxima of rows. The
// order of its sums does not depend on the number of rows, so that elements are joined.
const perceptron = `{"version": 1, "symbols": {"N": {}}, "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 8]}],
	"nodes": [{"name": "a", "op": "arange", "attrs": {"end": 160, "dtype": "float32"}},
		{"name": "k", "op": "reshape", "inputs": ["a"], "attrs": {"shape": [20, 8]}},
		{"name": "w", "op": "sin", "inputs": ["k"]}, {"name": "h", "op": "linear", "inputs": ["x", "w"]},
		{"name": "y", "op": "softmax", "inputs": ["h"], "attrs": {"dim": 1}},
		{"name": "n", "op": "amax", "inputs": ["x"], "attrs": {"dim": [1]}}], "outputs": ["y", "n"]}`

// mixing subtracts the mean of all rows.
const mixing = `{"version": 1, "symbols": {"N": {}}, "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 8]}],
	"nodes": [{"name": "m", "op": "mean", "inputs": ["x"], "attrs": {"dim": [0]}},
		{"name": "y", "op": "sub", "inputs": ["x", "m"]}], "outputs": ["y"]}`

func TestMain(m *testing.M) {
	beam.Init()
	os.Exit(m.Run())
}

// buildAndRun runs the pipeline that build constructs.
func buildAndRun(t *testing.T, build func(s beam.Scope)) (beam.PipelineResult, error) {
	t.Helper()
	p, s := beam.NewPipelineWithRoot()
	build(s)
	return beam.Run(t.Context(), runner, p)
}

func init() {
	beam.RegisterDoFn(reflect.TypeFor[sourceFn]())
	beam.RegisterDoFn(reflect.TypeFor[collectFn]())
	beam.RegisterDoFn(reflect.TypeFor[collectFailuresFn]())
}

// sourceFn emits element i: rows of numbers that depend on i. Every Bad-th element has rows of the wrong length.
type sourceFn struct{ Bad int }

func (f *sourceFn) ProcessElement(i int, emit func(beam.EventTime, Element)) {
	e := element(i)
	if f.Bad > 0 && i%f.Bad == f.Bad-1 {
		e.Tensors["x"] = tensor.Zeros(tensor.Float32, 1, 7)
	}
	emit(mtime.FromMilliseconds(int64(i)), e)
}

func element(i int) Element {
	data := make([]float32, (1+i%3)*8)
	for k := range data {
		data[k] = float32((i+7)*(k+3)%101)/16 - 3
	}
	return Element{fmt.Sprint(i), map[string]*tensor.Tensor{"x": tensor.Must(tensor.FromSlice(data, 1+i%3, 8))}}
}

// collected has the results of the pipeline of the current test: the runners execute it in this process.
var collected struct {
	sync.Mutex
	outputs  map[string]map[string]*tensor.Tensor
	places   map[string]string // times and windows
	failures map[string]string
}

func reset() {
	collected.outputs, collected.places = map[string]map[string]*tensor.Tensor{}, map[string]string{}
	collected.failures = map[string]string{}
}

type collectFn struct{}

func (*collectFn) ProcessElement(w beam.Window, t beam.EventTime, e Element) {
	collected.Lock()
	defer collected.Unlock()
	collected.outputs[e.Name] = e.Tensors
	_, global := w.(window.GlobalWindow)
	collected.places[e.Name] = fmt.Sprint(t.Milliseconds(), global, w.MaxTimestamp().Milliseconds())
}

type collectFailuresFn struct{}

func (*collectFailuresFn) ProcessElement(_ context.Context, f Failure) {
	collected.Lock()
	defer collected.Unlock()
	collected.failures[f.Name] = f.Error
}

func writeModel(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "m.json")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o666))
	return file
}

// source returns count elements.
func source(s beam.Scope, count, bad int) beam.PCollection {
	list := make([]int, count)
	for i := range list {
		list[i] = i
	}
	return beam.ParDo(s, &sourceFn{bad}, beam.CreateList(s, list))
}

// counter returns the committed sum of a counter.
func counter(r beam.PipelineResult, name string) (sum int64) {
	for _, c := range r.Metrics().AllMetrics().Counters() {
		if c.Name() == name {
			sum += c.Committed
		}
	}
	return sum
}

// direct runs an element alone with a program that is planned as that of the transform.
func direct(t *testing.T, file string, batching Batching) func(e Element) map[string]*tensor.Tensor {
	t.Helper()
	g, err := graphrun.Load(t.Context(), file)
	require.NoError(t, err)
	var options graphrun.Options
	if batching == BatchExact {
		options.Hints = []map[string]int{{"N": typicalRows}}
	}
	p, err := graphrun.Compile(t.Context(), g, options)
	require.NoError(t, err)
	return func(e Element) map[string]*tensor.Tensor {
		out, err := p.Run(t.Context(), e.Tensors)
		require.NoError(t, err)
		return out
	}
}

func requireEqual(t *testing.T, want, got map[string]*tensor.Tensor) {
	t.Helper()
	require.Len(t, got, len(want))
	for name := range want {
		a, err := tensor.ToSlice[float32](want[name])
		require.NoError(t, err)
		b, err := tensor.ToSlice[float32](got[name].Contiguous())
		require.NoError(t, err)
		require.Equal(t, want[name].Shape, got[name].Shape)
		require.Equal(t, a, b)
	}
}

// TestBits runs 20,000 elements. Each result has the bits of a direct run.
func TestBits(t *testing.T) {
	file, count := writeModel(t, perceptron), 20000
	for _, batching := range []Batching{BatchExact, BatchOff} {
		reset()
		r, err := buildAndRun(t, func(s beam.Scope) {
			beam.ParDo0(s, &collectFn{}, Run(s, Options{Model: file, Batching: batching}, source(s, count, 0)))
		})
		require.NoError(t, err)
		run := direct(t, file, batching)
		require.Len(t, collected.outputs, count)
		for i := range count {
			e := element(i)
			requireEqual(t, run(e), collected.outputs[e.Name])
			require.Equal(t, fmt.Sprint(i, true, mtime.EndOfGlobalWindowTime.Milliseconds()), collected.places[e.Name])
		}
		assert.EqualValues(t, count, counter(r, "elements"))
		if batching == BatchExact {
			assert.Less(t, counter(r, "batches"), int64(count/8))
		} else {
			assert.EqualValues(t, count, counter(r, "batches"))
		}
		count = 100
	}
}

// TestWindows: results keep their timestamps and windows.
func TestWindows(t *testing.T) {
	file := writeModel(t, perceptron)
	reset()
	_, err := buildAndRun(t, func(s beam.Scope) {
		elements := beam.WindowInto(s, window.NewFixedWindows(10*time.Millisecond), source(s, 50, 0))
		beam.ParDo0(s, &collectFn{}, Run(s, Options{Model: file}, elements))
	})
	require.NoError(t, err)
	require.Len(t, collected.outputs, 50)
	run := direct(t, file, BatchExact)
	for i := range 50 {
		e := element(i)
		requireEqual(t, run(e), collected.outputs[e.Name])
		assert.Equal(t, fmt.Sprint(i, false, i/10*10+9), collected.places[e.Name])
	}
}

// TestFailures: an element that is not valid fails the job, and the error names it. TryRun returns it as a failure.
func TestFailures(t *testing.T) {
	file := writeModel(t, perceptron)
	reset()
	_, err := buildAndRun(t, func(s beam.Scope) {
		beam.ParDo0(s, &collectFn{}, Run(s, Options{Model: file}, source(s, 100, 40)))
	})
	require.ErrorContains(t, err, `element "39": `)
	require.ErrorContains(t, err, `input "x"`)

	reset()
	r, err := buildAndRun(t, func(s beam.Scope) {
		results, failures := TryRun(s, Options{Model: file}, source(s, 100, 40))
		beam.ParDo0(s, &collectFn{}, results)
		beam.ParDo0(s, &collectFailuresFn{}, failures)
	})
	require.NoError(t, err)
	assert.Len(t, collected.outputs, 98)
	assert.Equal(t, []string{"39", "79"}, slices.Sorted(maps.Keys(collected.failures)))
	assert.Contains(t, collected.failures["79"], `input "x"`)
	assert.EqualValues(t, 2, counter(r, "failures"))

	_, err = buildAndRun(t, func(s beam.Scope) {
		TryRun(s, Options{Model: filepath.Join(t.TempDir(), "none.onnx")}, source(s, 1, 0))
	})
	require.ErrorContains(t, err, "the model cannot be loaded")
}

func TestInputErrors(t *testing.T) {
	m, err := load(t.Context(), Options{Model: writeModel(t, perceptron)})
	require.NoError(t, err)
	x := element(0).Tensors["x"]
	for want, in := range map[string]map[string]*tensor.Tensor{
		`input "x" is missing`:                          {},
		`the model has no input "z"`:                    {"x": x, "z": x},
		`input "x": the dtype is float64, want float32`: {"x": tensor.Zeros(tensor.Float64, 1, 8)},
		`input "x": `:                                   {"x": {}},
	} {
		_, err := m.inputs(Element{"e", in})
		assert.ErrorContains(t, err, want)
	}
	in, err := m.inputs(Element{"e", map[string]*tensor.Tensor{"": x}})
	require.NoError(t, err)
	assert.Same(t, x, in["x"])
	for _, o := range []Options{{}, {Model: "m", Batching: "sometimes"}, {Model: "m", Threads: -1}} {
		assert.Error(t, o.complete())
		assert.Panics(t, func() { Run(beam.NewPipeline().Root(), o, beam.PCollection{}) })
	}
}

// TestDependentRows: a model whose rows depend on each other runs elements one by one.
func TestDependentRows(t *testing.T) {
	m, err := load(t.Context(), Options{Model: writeModel(t, mixing)})
	require.NoError(t, err)
	assert.Nil(t, m.batchAxis)
}

// TestSharedModels: instances with the same options share a model until the last one ends.
func TestSharedModels(t *testing.T) {
	o := Options{Model: writeModel(t, perceptron)}
	var list []*runFn
	others := len(models) // of pipelines: workers need not call Teardown
	for range 3 {
		f := &runFn{Options: o}
		require.NoError(t, f.Setup(t.Context()))
		list = append(list, f)
	}
	assert.Same(t, list[0].model, list[2].model)
	for _, f := range list {
		require.Len(t, models, others+1)
		f.Teardown()
		f.Teardown()
	}
	assert.Len(t, models, others)
	for range 2 {
		require.Error(t, (&runFn{Options: Options{Model: "none.json"}}).Setup(t.Context()))
		assert.Len(t, models, others)
	}
}

func TestElementCoder(t *testing.T) {
	e := Element{"name", map[string]*tensor.Tensor{"": tensor.Zeros(tensor.BFloat16, 2, 3),
		"b": tensor.Must(tensor.FromSlice([]int8{1, 2, 3}, 3))}}
	data, err := encodeElement(e)
	require.NoError(t, err)
	f, err := decodeElement(data)
	require.NoError(t, err)
	assert.Equal(t, "name", f.Name)
	assert.Equal(t, tensor.BFloat16, f.Tensors[""].DType)
	list, err := tensor.ToSlice[int8](f.Tensors["b"])
	require.NoError(t, err)
	assert.Equal(t, []int8{1, 2, 3}, list)
	_, err = decodeElement(data[:9])
	assert.Error(t, err)
	_, err = encodeElement(Element{"e", map[string]*tensor.Tensor{"c": tensor.Zeros(tensor.Complex128, 1)}})
	assert.ErrorContains(t, err, `element "e": tensor "c"`)
}

// TestFiles runs files, and a model in a file system of Beam.
func TestFiles(t *testing.T) {
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	list := filepath.Join(t.TempDir(), "failures.txt")
	for i := range 5 {
		require.NoError(t, npz.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.npz", i)), npz.EntriesOf(element(i).Tensors)))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bad.npz"), []byte("PK"), 0o666))
	memfs.Write("memfs://models/m.json", []byte(perceptron))
	reset()
	_, err := buildAndRun(t, func(s beam.Scope) {
		elements, failures := TryReadFiles(s, filepath.Join(dir, "*"))
		WriteFiles(s, out, Run(s, Options{Model: "memfs://models/m.json"}, elements))
		beam.ParDo0(s, &collectFailuresFn{}, failures)
		windowed := beam.WindowInto(s, window.NewFixedWindows(time.Second), failures)
		WriteFailures(s, list, windowed)
	})
	require.NoError(t, err)
	text, err := os.ReadFile(list)
	require.NoError(t, err)
	assert.Equal(t, "bad: "+collected.failures["bad"]+"\n", string(text))
	assert.Equal(t, []string{"bad"}, slices.Collect(maps.Keys(collected.failures)))
	run := direct(t, writeModel(t, perceptron), BatchExact)
	for i := range 5 {
		got, err := npz.ReadFile(filepath.Join(out, fmt.Sprintf("%d.npz", i)))
		require.NoError(t, err)
		requireEqual(t, run(element(i)), got)
	}
	_, err = buildAndRun(t, func(s beam.Scope) { ReadFiles(s, filepath.Join(dir, "*.npy")) })
	assert.ErrorContains(t, err, "no file matches")
	written, err := os.ReadDir(out)
	require.NoError(t, err)
	assert.Len(t, written, 5, "no temporary file is left")
	for _, name := range []string{"", "../x", ".x", `a\b`} {
		_, err := (&writeFn{out}).ProcessElement(t.Context(), Element{Name: name})
		assert.ErrorContains(t, err, "not the name of a file")
	}
}
