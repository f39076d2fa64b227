package serve

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/batching"
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

// TestPanickingBatch: after a panic while a batch is planned, the first job runs alone. After a panic while
// outputs are split, all jobs run alone.
func TestPanickingBatch(t *testing.T) {
	var log bytes.Buffer
	s := open(t, Options{Batching: BatchOff, Log: slog.New(slog.NewTextHandler(&log, nil))},
		writeModel(t, filepath.Join(t.TempDir(), "m.json"), affine))
	q := (*s.models.Load())["m"][0].queue // without an axis, Batch and Split panic for joined runs
	x, err := tensor.FromSlice([]float32{1, 2, 3}, 1, 3)
	require.NoError(t, err)
	var jobs []*job
	for range 2 {
		run := &batching.Run{In: map[string]*tensor.Tensor{"x": x}, Rows: 1}
		jobs = append(jobs, &job{ctx: t.Context(), run: run, result: make(chan result, 1), preferredRows: []int{2}})
	}
	q.waiting = slices.Clone(jobs)
	s.waiting.Add(2)
	assert.Equal(t, jobs[:1], q.takeBatch())
	assert.Equal(t, jobs[1:], q.waiting)
	assert.EqualValues(t, 1, s.waiting.Load())
	assert.Contains(t, log.String(), "a batch panicked")
	log.Reset()
	s.slots <- struct{}{}
	q.runBatch(jobs, s.slots)
	for _, j := range jobs { // joined, the jobs failed; alone, they succeed
		finished := <-j.result
		require.NoError(t, finished.err)
		assert.NotEmpty(t, finished.out)
	}
	assert.Empty(t, s.slots)
	assert.Contains(t, log.String(), "a batch panicked")
}

// panickingHook panics when a request begins.
type panickingHook struct{}

func (panickingHook) Begin(*http.Request, string, string) (context.Context, func(Outcome)) {
	panic("begin")
}

// TestMemoryOfRequests: the memory that a rejected or accepted request needs is a small multiple of its size.
func TestMemoryOfRequests(t *testing.T) {
	m := &model{inputs: []port{{name: "x", dtype: tensor.Float32, shape: []int{-1, 3}},
		{name: "s", dtype: tensor.Int64, shape: []int{-1}, labels: graph.Labels{Texts: tensor.NewTexts([]string{"", "a"})}}},
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
	text, err := encoded(port{dtype: tensor.Float32}, x, false)
	require.NoError(t, err)
	assert.Equal(t, "[-0.0,0]", text)
}

// outer multiplies a column by a row: a short request has a long response.
const outer = `{"version": 1, "symbols": {"N": {}}, "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 1]},
	{"name": "z", "dtype": "float32", "shape": [1, "N"]}],
	"nodes": [{"name": "y", "op": "mul", "inputs": ["x", "z"]}], "outputs": ["y"]}`

// TestClientThatDoesNotRead: the response to a client that does not read it ends after Options.Timeout.
func TestClientThatDoesNotRead(t *testing.T) {
	s := open(t, Options{Timeout: time.Second}, writeModel(t, filepath.Join(t.TempDir(), "m.json"), outer))
	server := httptest.NewServer(s)
	defer server.Close()
	connection, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer connection.Close()
	const n = 2000 // the response has 16 MB, more than the buffers of a connection
	text := fmt.Sprintf(`{"inputs": [{"name": "x", "shape": [%[1]d, 1], "datatype": "FP32", "parameters":
		{"binary_data_size": %[2]d}}, {"name": "z", "shape": [1, %[1]d], "datatype": "FP32", "parameters":
		{"binary_data_size": %[2]d}}], "parameters": {"binary_data_output": true}}`, n, 4*n)
	_, err = fmt.Fprintf(connection,
		"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\n%s: %d\r\nContent-Length: %d\r\n\r\n%s%s",
		jsonLengthHeader, len(text), len(text)+8*n, text, make([]byte, 8*n))
	require.NoError(t, err)
	m := (*s.models.Load())["m"][0]
	require.Eventually(t, func() bool { return m.metrics.executions.Get() == 1 }, 30*time.Second, time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	assert.NoError(t, s.Drain(ctx))
}

// TestTooLongBodies: a client that sends the whole body before it reads gets the status 413.
func TestTooLongBodies(t *testing.T) {
	s := open(t, Options{MaxBody: 10 << 20}, writeModel(t, filepath.Join(t.TempDir(), "m.json"), affine))
	server := httptest.NewServer(s)
	defer server.Close()
	const size = 19 << 20 // more than the buffers of a connection
	for _, header := range []string{fmt.Sprintf("Content-Length: %d\r\n\r\n", size),
		fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", size)} {
		connection, err := net.Dial("tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		_, err = fmt.Fprintf(connection, "POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\n%s%s", header, make([]byte, size))
		require.NoError(t, err)
		response, err := http.ReadResponse(bufio.NewReader(connection), nil)
		require.NoError(t, err)
		assert.Equal(t, 413, response.StatusCode)
		response.Body.Close()
		connection.Close()
	}
}

// TestHeaders checks headers of requests and responses.
func TestHeaders(t *testing.T) {
	s := open(t, Options{Token: "secret"}, writeModel(t, filepath.Join(t.TempDir(), `m"\.json`), affine))
	body, header := binaryRequest([]float32{1, 2, 3}, 1, 3)
	ask := func(method, authorization, encoding string) *httptest.ResponseRecorder {
		return call(s, method, `/v2/models/m%22%5C/infer`, body, append(header, "Authorization", authorization,
			"Content-Encoding", encoding)...)
	}
	assert.Equal(t, 200, ask("POST", "bearer secret", "Identity").Code)
	assert.Equal(t, 401, ask("POST", "Basic secret", "").Code)
	assert.Equal(t, 401, ask("POST", "secret", "").Code)
	w := ask("POST", "BEARER secret", "gzip")
	assert.Equal(t, 415, w.Code)
	assert.Contains(t, w.Body.String(), `Content-Encoding \"gzip\" is not supported`)
	assert.Equal(t, "POST", ask("PUT", "Bearer secret", "").Header().Get("Allow"))
	w = call(s, "POST", "/v2", "", "Authorization", "Bearer secret")
	assert.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
	text := call(s, "GET", "/metrics", "", "Authorization", "Bearer secret").Body.String()
	assert.Contains(t, text, `nv_inference_request_success{model="m\"\\",version="1"} 1`)
}

// TestLabelEscapes: other characters than backslash, quote and newline have no escape sequence.
func TestLabelEscapes(t *testing.T) {
	m := newMetrics(&Server{})
	m.ofModel("é\t\u200b\xff\"\\\n", "1")
	var text strings.Builder
	m.set.WritePrometheus(&text)
	assert.Contains(t, text.String(), "nv_inference_count{model=\"é\t\u200b\xff\\\"\\\\\\n\",version=\"1\"} 0\n")
}
