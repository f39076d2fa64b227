package serve

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/batching"
	"github.com/graphrun/graphrun/tensor"
)

func TestRejectedRequests(t *testing.T) {
	s := open(t, Options{MaxBody: 2000}, writeModel(t, filepath.Join(t.TempDir(), "m.json"), affine))
	x := func(shape, datatype, data string) string {
		return fmt.Sprintf(`{"inputs": [{"name": "x", "shape": %s, "datatype": %q, "data": %s}]}`, shape, datatype, data)
	}
	const nested = "must be a flat list, or lists nested as the shape ["
	for _, c := range []struct {
		body   string
		status int
		want   string
		header []string
	}{
		{"", 400, "not valid JSON", nil},
		{"[]", 400, "the request is a list, but must be an object", nil},
		{`{"inputs": 1, }`, 400, "inputs is 1, but must be a list", nil},
		{`{"inputs": [], }`, 400, "at byte 13", nil},
		{`{"inputs": [`, 400, "at byte 12", nil},
		{"{} {}", 400, "more than one JSON value", nil},
		{`{"inputs": [null]}`, 400, "inputs/0 is null, but must be an object", nil},
		{`{"id": 5}`, 400, "id is 5, but must be a string", nil},
		{x("[1.5, 3]", "FP32", "[1, 2, 3]"), 400, "inputs/0/shape/0 is 1.5, but must be an integer", nil},
		{"{}", 400, `input "x" is missing`, nil},
		{x("[1, 3]", "FP64", "[1, 2, 3]"), 400, `the datatype is "FP64", but the model needs FP32`, nil},
		{x("[1, 4]", "FP32", "[1, 2, 3, 4]"), 400, "the shape is [1 4], but the model needs [-1 3]", nil},
		{x("[3]", "FP32", "[1, 2, 3]"), 400, "the shape is [3], but the model needs [-1 3]", nil},
		{x("[-1, 3]", "FP32", "[1, 2, 3]"), 400, "the shape is [-1 3], but sizes must not be negative", nil},
		{x("[1000000000000000000, 3]", "FP32", "[1, 2, 3]"), 400, "too many elements", nil},
		{x("[1000000, 3]", "FP32", "[1, 2, 3]"), 400, "fewer elements than the shape", nil},
		{x("[1, 3]", "FP32", "[1, 2]"), 400, "the data have 2 elements, want 3", nil},
		{x("[1, 3]", "FP32", "[1, 2, 3, 4]"), 400, "the data have 4 elements, want 3", nil},
		{x("[1, 3]", "FP32", `[1, 2, "3"]`), 400, `element 2, "3": want a number`, nil},
		{x("[1, 3]", "FP32", `[1, 2, 1e99]`), 400, `element 2, 1e99: want a number within the range`, nil},
		{x("[1, 3]", "FP32", `[1, 2, null]`), 400, `element 2, null: want a number`, nil},
		{x("[1, 3]", "FP32", `[{}, 2, null]`), 400, `data contains an object`, nil},
		{x("[1, 3]", "FP32", "[[1], [2, 3]]"), 400, nested, nil},
		{x("[1, 3]", "FP32", "[[1, 2], [3]]"), 400, nested, nil},
		{x("[1, 3]", "FP32", "[[[1, 2, 3]]]"), 400, nested, nil},
		{x("[1, 3]", "FP32", "[[1, 2, 3], []]"), 400, nested, nil},
		{x("[1, 3]", "FP32", "[1, [2, 3]]"), 400, nested, nil},
		{x("[1, 3]", "FP32", "[[], 1, 2, 3]"), 400, nested, nil},
		{x("[2, 3]", "FP32", "[[1, 2, 3], 4, 5, 6]"), 400, nested, nil},
		{x("[1, 3]", "FP32", `123456789`), 400, `data is not a list`, nil},
		{strings.Replace(x("[1, 3]", "FP32", "[1, 2, 3]"), `"x"`, `"z"`, 1), 400, `no input "z"; its inputs are x`, nil},
		{`{"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32"}]}`, 400, "the input has no data", nil},
		{strings.Replace(x("[1, 3]", "FP32", "[1, 2, 3]"), "}]", `}], "outputs": [{"name": "q"}]`, 1), 400,
			`no output "q"; its outputs are y`, nil},
		{strings.Repeat(" ", 3000), 413, "the body exceeds 2000 bytes", nil},
		{"{}", 400, jsonLengthHeader + ` is "3", but must be a number of bytes up to 2`, []string{jsonLengthHeader, "3"}},
		{"{}", 400, jsonLengthHeader + ` is "-1"`, []string{jsonLengthHeader, "-1"}},
		{`{"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "parameters": {"binary_data_size": 12}}]}`, 400,
			"binary_data_size is 12, but 0 bytes are left", nil},
		{`{"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "parameters": {"binary_data_size": -1}}]}`, 400,
			"binary_data_size is -1", nil},
	} {
		w := call(s, "POST", "/v2/models/m/infer", c.body, c.header...)
		assert.Equal(t, c.status, w.Code, c.body)
		var doc struct{ Error string }
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &doc), c.body)
		assert.Contains(t, doc.Error, c.want, c.body)
	}
}

// binaryRequest returns the body of a request with one float32 input as bytes, and the length of its JSON.
func binaryRequest(data []float32, shape ...int) (body string, header []string) {
	var b []byte
	for _, x := range data {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	shapeText, _ := json.Marshal(shape)
	text := fmt.Sprintf(`{"inputs": [{"name": "x", "shape": %s, "datatype": "FP32", "parameters": `+
		`{"binary_data_size": %d}}], "parameters": {"binary_data_output": true}}`, shapeText, len(b))
	return text + string(b), []string{jsonLengthHeader, strconv.Itoa(len(text))}
}

// floatsOf returns the bytes after the JSON of a response as numbers.
func floatsOf(t *testing.T, w *httptest.ResponseRecorder) []float32 {
	t.Helper()
	require.Equal(t, 200, w.Code, w.Body.String())
	n, err := strconv.Atoi(w.Header().Get(jsonLengthHeader))
	require.NoError(t, err)
	data := w.Body.Bytes()[n:]
	list := make([]float32, len(data)/4)
	for i := range list {
		list[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return list
}

// TestAnnouncedLength: a body that is too long by its header is rejected without being kept.
func TestAnnouncedLength(t *testing.T) {
	s := open(t, Options{}, writeModel(t, filepath.Join(t.TempDir(), "m.json"), affine))
	r := httptest.NewRequest("POST", "/v2/models/m/infer", iotest.ErrReader(errors.New("it was read")))
	r.ContentLength = 1 << 40
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	assert.Equal(t, 413, w.Code)
	assert.Contains(t, w.Body.String(), "the body exceeds 67108864 bytes")
	body, header := binaryRequest(make([]float32, 3<<19), 1<<19, 3) // more than is allocated at once
	assert.Equal(t, 200, call(s, "POST", "/v2/models/m/infer", body, header...).Code)
}

// TestSlowBody: a body that does not arrive within Options.Timeout ends the request, not as that of a gone client.
func TestSlowBody(t *testing.T) {
	s := open(t, Options{Timeout: 50 * time.Millisecond}, writeModel(t, filepath.Join(t.TempDir(), "m.json"), affine))
	server := httptest.NewServer(s)
	defer server.Close()
	reader, writer := io.Pipe() // no byte arrives
	defer writer.Close()
	r, err := http.Post(server.URL+"/v2/models/m/infer", "application/json", reader)
	require.NoError(t, err)
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	assert.Equal(t, 503, r.StatusCode)
	assert.Contains(t, string(text), "the body did not arrive in time")
}

func TestBinaryData(t *testing.T) {
	s := open(t, Options{}, writeModel(t, filepath.Join(t.TempDir(), "m.json"), affine))
	body, header := binaryRequest([]float32{1, 2, 3, float32(math.Inf(1)), 0, -1}, 2, 3)
	w := call(s, "POST", "/v2/models/m/infer", body, header...)
	assert.Equal(t, []float32{3, 5, 7, float32(math.Inf(1)), 1, -1}, floatsOf(t, w))
	// JSON has no infinity.
	w = call(s, "POST", "/v2/models/m/infer", strings.Replace(body, "true", "null", 1), header...)
	assert.Equal(t, 400, w.Code)
	assert.Contains(t, w.Body.String(), "request binary_data")
	// Bytes after the last input are a mistake.
	w = call(s, "POST", "/v2/models/m/infer", body+"x", header...)
	assert.Contains(t, w.Body.String(), "1 bytes follow")
}

// TestDatatypes sends each datatype as JSON and as bytes through a model that returns its input.
func TestDatatypes(t *testing.T) {
	for dtype, name := range datatypes {
		text := strings.ReplaceAll(`{"version": 1, "inputs": [{"name": "x", "dtype": "DTYPE", "shape": [2, 2]}],
			"nodes": [{"name": "y", "op": "clone", "inputs": ["x"]}], "outputs": ["y"]}`, "DTYPE", dtype.String())
		s := open(t, Options{}, writeModel(t, filepath.Join(t.TempDir(), "m.json"), text))
		for _, data := range []string{"[[0, 1], [1, 0]]", "[0,1,1,0]"} {
			want := "[0,1,1,0]"
			if dtype == tensor.Bool {
				want = "[false,true,true,false]"
			}
			w := call(s, "POST", "/v2/models/m/infer", fmt.Sprintf(
				`{"inputs": [{"name": "x", "shape": [2, 2], "datatype": %q, "data": %s}]}`, name, data))
			require.Contains(t, w.Body.String(), `"data":`+want, name)
		}
		size := dtype.Size()
		head := fmt.Sprintf(`{"inputs": [{"name": "x", "shape": [2, 2], "datatype": %q, "parameters": `+
			`{"binary_data_size": %d}}], "outputs": [{"name": "y", "parameters": {"binary_data": true}}]}`, name, 4*size)
		data := make([]byte, 4*size)
		data[size] = 1
		w := call(s, "POST", "/v2/models/m/infer", head+string(data), jsonLengthHeader, strconv.Itoa(len(head)))
		n, err := strconv.Atoi(w.Header().Get(jsonLengthHeader))
		require.NoError(t, err, w.Body.String())
		assert.Equal(t, data, w.Body.Bytes()[n:], name)
	}
	s := open(t, Options{}, writeModel(t, filepath.Join(t.TempDir(), "m.json"), `{"version": 1, "inputs":
		[{"name": "x", "dtype": "int64", "shape": [2]}], "nodes": [{"name": "y", "op": "clone", "inputs": ["x"]}],
		"outputs": ["y"]}`))
	w := call(s, "POST", "/v2/models/m/infer", `{"inputs": [{"name": "x", "shape": [2], "datatype": "INT64", "data":
		[9223372036854775807, -9223372036854775808]}]}`)
	assert.Contains(t, w.Body.String(), `"data":[9223372036854775807,-9223372036854775808]`)
	_, err := Open(t.Context(), []string{writeModel(t, filepath.Join(t.TempDir(), "c.json"),
		strings.ReplaceAll(affine, "float32", "complex64"))}, Options{Log: quiet()})
	assert.ErrorContains(t, err, `"x" has dtype complex64, which the protocol does not support`)
}

// TestRejectedBodiesAreRecycled: the memory of bodies is recycled if the body is too long, if it cannot be decoded, and
// if the run fails.
func TestRejectedBodiesAreRecycled(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would empty the pool
	s := open(t, Options{MaxBody: 1 << 20}, writeModel(t, filepath.Join(t.TempDir(), "m.json"), `{"version": 1,
		"inputs": [{"name": "x", "dtype": "int64", "shape": [65536]}, {"name": "table", "dtype": "float32", "shape": [2, 2]}],
		"nodes": [{"name": "y", "op": "embedding", "inputs": ["table", "x"]}], "outputs": ["y"]}`))
	head := `{"inputs": [{"name": "x", "shape": [65536], "datatype": "INT64", "parameters": {"binary_data_size": 524288}},
		{"name": "table", "shape": [2, 2], "datatype": "FP32", "data": [1, 2, 3, 4]}]}`
	outside := head + strings.Repeat("\x07", 1<<19)
	for body, want := range map[string]string{outside: "index", outside[1:]: "must be an object",
		outside + outside: "the body exceeds"} {
		var before, after runtime.MemStats
		const requests = 16
		for i := range requests + 1 {
			if i == 1 {
				runtime.ReadMemStats(&before)
			}
			r := httptest.NewRequest("POST", "/v2/models/m/infer", io.MultiReader(strings.NewReader(body))) // of unknown length
			r.Header.Set(jsonLengthHeader, strconv.Itoa(len(head)))
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			require.Contains(t, w.Body.String(), want)
		}
		runtime.ReadMemStats(&after)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(requests*len(outside)/2), want)
	}
}

// TestBodiesOfEndedRequests: the memory of a body is recycled if the request ends in the queue, and not if it ends
// during its run.
func TestBodiesOfEndedRequests(t *testing.T) {
	s := open(t, Options{}, writeModel(t, filepath.Join(t.TempDir(), "m.json"), affine))
	q := (*s.models.Load())["m"][0].queue
	hold(s)
	const rows = 2000 // of 12 bytes: the pool does not keep small arrays
	body, header := binaryRequest(slices.Repeat([]float32{1}, 3*rows), rows, 3)
	for _, running := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, "POST", "/v2/models/m/infer", strings.NewReader(body))
		r.Header.Set(header[0], header[1])
		var wg sync.WaitGroup
		wg.Go(func() { s.ServeHTTP(httptest.NewRecorder(), r) })
		require.Eventually(t, func() bool { return s.waiting.Load() == 1 }, 10*time.Second, time.Millisecond)
		q.mu.Lock()
		require.Len(t, q.waiting, 1)
		input := q.waiting[0].run.In["x"]
		q.mu.Unlock()
		if running {
			require.Len(t, q.takeBatch(), 1)
		}
		cancel()
		wg.Wait()
		clear(s.bodies.Take(len(body), false).Bytes()) // overwrites the body if it was recycled
		want := 0.0
		if running {
			want = 1
		}
		assert.InDelta(t, want, input.At(0, 0).Float(), 0, "running: %t", running)
	}
	letGo(s)
}

// TestEndedJobs: takeBatch drops a job whose context has ended, and the job does not count as started. A batch does not
// start without a job that ended while the batch was planned.
func TestEndedJobs(t *testing.T) {
	s := open(t, Options{}, writeModel(t, filepath.Join(t.TempDir(), "m.json"), affine))
	q := (*s.models.Load())["m"][0].queue
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	j := &job{ctx: ctx}
	q.waiting = []*job{j}
	s.waiting.Add(1)
	assert.Nil(t, q.takeBatch())
	assert.False(t, q.remove(j))
	assert.Zero(t, s.waiting.Load())
	waits := &job{ctx: t.Context()}
	q.waiting = []*job{waits}
	assert.False(t, q.takeIfWaiting([]*job{waits, j}))
	assert.False(t, waits.started)
	assert.Equal(t, []*job{waits}, q.waiting)
}

// FuzzRequests sends arbitrary bodies: the answer is a result or an error in words.
func FuzzRequests(f *testing.F) {
	body, header := binaryRequest([]float32{1, 2, 3}, 1, 3)
	n, _ := strconv.Atoi(header[1])
	f.Add([]byte(body), n)
	f.Add([]byte(`{"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [[1, 2, 3]]}]}`), -1)
	f.Add([]byte(`{"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": ["\"", 2, 3]}]}`), -1)
	dir := f.TempDir()
	path := filepath.Join(dir, "m.json")
	if err := os.WriteFile(path, []byte(affine), 0o666); err != nil {
		f.Fatal(err)
	}
	s, err := Open(context.Background(), []string{path}, Options{Log: quiet()})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte, length int) {
		var header []string
		if length >= 0 {
			header = []string{jsonLengthHeader, strconv.Itoa(length)}
		}
		w := call(s, "POST", "/v2/models/m/infer", string(body), header...)
		if w.Code != 200 && w.Code != 400 {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
		if w.Code == 400 && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("the error is not JSON: %s", w.Body)
		}
	})
}

// TestRowsOfBatch: a batch has the largest preferred number of rows that waiting requests fill.
func TestRowsOfBatch(t *testing.T) {
	limits := func(maxRows int, preferred ...int) (rows []int) {
		for _, waiting := range []int{1, 7, 8, 31, 32, 64} {
			q := &queue{server: &Server{options: Options{MaxRows: maxRows}},
				waiting: []*job{{run: &batching.Run{Rows: waiting}, preferredRows: preferred}}}
			assert.Equal(t, waiting >= min(preferred[0], maxRows), q.hasFullBatch())
			rows = append(rows, q.rowsOfBatch())
		}
		return rows
	}
	assert.Equal(t, []int{64, 64, 8, 8, 8, 8}, limits(64, 8))
	assert.Equal(t, []int{64, 64, 8, 8, 32, 32}, limits(64, 32, 8))
	assert.Equal(t, []int{4, 4, 4, 4, 4, 4}, limits(4, 8))
}
