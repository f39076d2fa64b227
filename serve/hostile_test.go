package serve

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"net/http"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file sends requests that could end the server or exhaust its memory.

// twoSizes has an input with two sizes that requests determine.
const twoSizes = `{"version": 1, "symbols": {"N": {"min": 0}, "L": {"min": 0}},
	"inputs": [{"name": "ids", "dtype": "int64", "shape": ["N", "L"]}],
	"nodes": [{"name": "y", "op": "clone", "inputs": ["ids"]}], "outputs": ["y"]}`

// TestSizesBesideZero: a shape without elements is rejected if its other sizes overflow.
func TestSizesBesideZero(t *testing.T) {
	s := open(t, Options{}, writeModel(t, filepath.Join(t.TempDir(), "m.json"), twoSizes))
	for shape, status := range map[string]int{"[0, 70368744177664]": 400, "[70368744177664, 0]": 400,
		"[0, 9223372036854775807]": 400, "[0, 5]": 200} {
		w := call(s, "POST", "/v2/models/m/infer",
			`{"inputs": [{"name": "ids", "datatype": "INT64", "shape": `+shape+`, "data": []}]}`)
		assert.Equal(t, status, w.Code, "%s: %s", shape, w.Body)
	}
}

// TestPanickingHandler: the client, the hook, the log and the metrics learn of a panic of the handler.
func TestPanickingHandler(t *testing.T) {
	var log bytes.Buffer
	outcomes := &outcomeHook{}
	s := open(t, Options{Hook: outcomes, Log: slog.New(slog.NewTextHandler(&log, nil))},
		writeModel(t, filepath.Join(t.TempDir(), "m.json"), affine))
	m := (*s.models.Load())["m"][0]
	m.queue = nil // panics
	body, header := binaryRequest([]float32{1, 2, 3}, 1, 3)
	w := call(s, "POST", "/v2/models/m/infer", body, header...)
	assert.Equal(t, 500, w.Code)
	assert.JSONEq(t, `{"error": "the request failed because of an internal error"}`, w.Body.String())
	require.Len(t, outcomes.list, 1)
	assert.Equal(t, 500, outcomes.list[0].Status)
	assert.EqualValues(t, 1, m.metrics.failures.Get())
	assert.Contains(t, log.String(), "a request panicked")
	require.NoError(t, s.Drain(t.Context()))
	s = open(t, Options{Hook: panickingHook{}}, writeModel(t, filepath.Join(t.TempDir(), "m.json"), affine))
	assert.Equal(t, 500, call(s, "POST", "/v2/models/m/infer", body, header...).Code)
	assert.Contains(t, call(s, "GET", "/metrics", "").Body.String(), `http_response_status_code="500"`)
}

// panickingHook panics when a request begins.
type panickingHook struct{}

func (panickingHook) Begin(*http.Request, string, string) (context.Context, func(Outcome)) {
	panic("begin")
}

// TestMemoryOfRequests: the memory that a rejected or accepted request needs is a small multiple of its size.
func TestMemoryOfRequests(t *testing.T) {
	m := &model{inputs: []port{{name: "x", dtype: tensor.Float32, shape: []int{-1, 3}},
		{name: "s", dtype: tensor.Int64, shape: []int{-1}, labels: graph.Labels{Strings: []string{"", "a"}}}},
		outputs: []port{{name: "y", dtype: tensor.Float32, shape: []int{-1, 3}}}}
	const size = 1 << 20
	const strings4 = `{"name": "s", "datatype": "BYTES", "shape": [262144], "parameters": {"binary_data_size": 1048576}}`
	many := func(item string) string { return strings.Repeat(item+",", size/(len(item)+1)) + item }
	for _, c := range []struct{ text, data, want string }{
		{`{"inputs": [` + many("{}") + `]}`, "", `the model has no input ""`},
		{`{"inputs": [` + many(`{"name":"x"}`) + `]}`, "", `input "x" is given twice`},
		{`{"outputs": [` + many("{}") + `]}`, "", `the model has no output ""`},
		{`{"inputs": [{"shape": [` + many("0") + `]}]}`, "", "a shape has more than 2 sizes"},
		{`{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [` + many("0") + `]}]}`, "", "want 3"},
		{`{"inputs": [{"name": "s", "datatype": "BYTES", "shape": [1], "data": [` + many(`""`) + `]}]}`, "", "want 1"},
		{`{"inputs": [{"name": "s", "datatype": "BYTES", "shape": [349526], "data": [` + many(`""`) + `]}]}`, "",
			`input "x" is missing`},
		{`{"inputs": [` + strings4 + `]}`, strings.Repeat("\x00", size), `input "x" is missing`},
		{`{` + many(`"a":{"b":0}`) + `}`, "", `input "x" is missing`},
		{`{"x": ` + strings.Repeat("[", size), "", "not valid JSON"},
		{`{"inputs": [{"name": "` + strings.Repeat("b", size) + `"}]}`, "", "the model has no input"},
	} {
		body := []byte(c.text + c.data)
		header := http.Header{jsonLengthHeader: {strconv.Itoa(len(c.text))}}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := m.decodeRequest(header, body)
		runtime.ReadMemStats(&after)
		require.ErrorContains(t, err, c.want)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4*len(body)), c.want)
		assert.Less(t, len(err.Error()), 500)
	}
}

// TestNestedData: data may be nested as the shape, also without elements.
func TestNestedData(t *testing.T) {
	p := port{name: "x", dtype: tensor.Float32}
	for _, c := range []struct {
		shape []int
		data  string
		fits  bool
	}{
		{[]int{}, "[5]", true}, {[]int{}, "[[5]]", false}, {[]int{2, 0}, "[[], []]", true}, {[]int{2, 0}, "[]", true},
		{[]int{2, 0}, "[[]]", false}, {[]int{0, 2}, "[]", true}, {[]int{0, 2}, "[[]]", false},
		{[]int{1, 2, 1}, "[[[1], [2]]]", true}, {[]int{1, 2, 1}, "[[1, 2]]", false}, {[]int{2, 1, 1}, "[[[1]], [[2]]]", true},
	} {
		_, _, err := p.decode(&tensorDoc{Datatype: "FP32", Shape: c.shape, Data: jsontext.Value(c.data)}, nil)
		assert.Equal(t, c.fits, err == nil, "%s for %v: %v", c.data, c.shape, err)
	}
}

// TestNegativeZero: JSON keeps the sign of zero for parsers that read -0 as an integer.
func TestNegativeZero(t *testing.T) {
	x, err := tensor.FromSlice([]float32{float32(math.Copysign(0, -1)), 0}, 2)
	require.NoError(t, err)
	text, err := port{dtype: tensor.Float32}.encode(x, false)
	require.NoError(t, err)
	assert.Equal(t, "[-0.0,0]", string(text))
}
