package serve

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/internal/batching"
	"github.com/graphrun/graphrun/internal/graphtest/networks"
	"github.com/graphrun/graphrun/tensor"
)

// affine computes 2*x + 1 of rows of three numbers.
const affine = `{"version": 1, "symbols": {"N": {}}, "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 3]}],
	"nodes": [{"name": "y", "op": "pointwise", "inputs": ["x"], "attrs": {"expr": "x * 2 + 1"}}], "outputs": ["y"]}`

// mixing subtracts the mean of all rows.
const mixing = `{"version": 1, "symbols": {"N": {}}, "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 3]}],
	"nodes": [{"name": "m", "op": "mean", "inputs": ["x"], "attrs": {"dim": [0]}},
		{"name": "y", "op": "sub", "inputs": ["x", "m"]}], "outputs": ["y"]}`

func writeModel(t *testing.T, path, text string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	return path
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func open(t *testing.T, o Options, paths ...string) *Server {
	t.Helper()
	if o.Log == nil {
		o.Log = quiet()
	}
	s, err := Open(t.Context(), paths, o)
	require.NoError(t, err)
	return s
}

// call sends a request to a handler.
func call(s http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func TestRoutes(t *testing.T) {
	dir := t.TempDir()
	writeModel(t, dir+"/plain.json", affine)
	writeModel(t, dir+"/own/model.json", affine)
	writeModel(t, dir+"/many/2/model.json", affine)
	writeModel(t, dir+"/many/10/model.json", affine)
	writeModel(t, dir+"/many/x/model.json", "not a version")
	writeModel(t, dir+"/.hidden.json", "ignored")
	s := open(t, Options{Version: "v0"}, dir)
	const infer = `{"id": "7", "inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [0, 1, 2.5]}]}`
	const result = `"outputs":[{"name":"y","shape":[1,3],"datatype":"FP32","data":[1,3,6]}]}`
	metadata := func(name, versions string) string {
		return fmt.Sprintf(`{"name":%q,"versions":[%s],"platform":"graphrun","inputs":[{"name":"x","datatype":"FP32",`+
			`"shape":[-1,3]}],"outputs":[{"name":"y","datatype":"FP32","shape":[-1,3]}]}`, name, versions)
	}
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/v2", "", 200, `{"extensions":["binary_tensor_data"],"name":"graphrun","version":"v0"}`},
		{"GET", "/v2/", "", 200, `{"extensions":["binary_tensor_data"],"name":"graphrun","version":"v0"}`},
		{"GET", "/v2/health/live", "", 200, `{"live":true}`},
		{"GET", "/v2/health/ready", "", 200, `{"ready":true}`},
		{"GET", "/v2/models/plain", "", 200, metadata("plain", `"1"`)},
		{"GET", "/v2/models/own/ready", "", 200, `{"name":"own","ready":true}`},
		{"GET", "/v2/models/many", "", 200, metadata("many", `"2","10"`)},
		{"GET", "/v2/models/many/versions/2", "", 200, metadata("many", `"2","10"`)},
		{"GET", "/v2/models/many/versions/2/ready", "", 200, `{"name":"many","ready":true}`},
		{"POST", "/v2/models/many/infer", infer, 200, `{"model_name":"many","model_version":"10","id":"7",` + result},
		{"POST", "/v2/models/many/versions/2/infer", infer, 200,
			`{"model_name":"many","model_version":"2","id":"7",` + result},
		{"GET", "/v2/models/many/versions/3", "", 404, `{"error":"model \"many\" has no version \"3\""}`},
		{"GET", "/v2/models/none", "", 404, `{"error":"there is no model \"none\""}`},
		{"POST", "/v2/models/none/infer", infer, 404, `{"error":"there is no model \"none\""}`},
		{"GET", "/v2/models/plain/nothing", "", 404, `{"error":"there is no route /v2/models/plain/nothing"}`},
		{"GET", "/", "", 404, `{"error":"there is no route /"}`},
		{"GET", "/v2/models/plain/infer", "", 405, `{"error":"method GET is not allowed: use POST"}`},
		{"POST", "/v2", "", 405, `{"error":"method POST is not allowed: use GET"}`},
	} {
		w := call(s, c.method, c.path, c.body)
		assert.Equal(t, c.status, w.Code, c.path)
		assert.Equal(t, c.want, strings.TrimSpace(w.Body.String()), c.path)
		assert.Equal(t, "application/json", w.Header().Get("Content-Type"), c.path)
	}
	text := call(s, "GET", "/metrics", "").Body.String()
	assert.Contains(t, text, `nv_inference_request_success{model="many",version="10"} 1`)
	assert.Contains(t, text, `nv_inference_exec_count{model="many",version="2"} 1`)
	assert.Contains(t, text, `http_route="/v2/models/{model}/infer",http_response_status_code="404"`)
	described := map[string]bool{} // every metric follows the help and the type of its family
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); words[0] == "#" {
			assert.GreaterOrEqual(t, len(words), 4, line)
			assert.False(t, words[1] == "HELP" && described[words[2]], "twice: %s", line)
			described[words[2]] = true
			continue
		}
		name := regexp.MustCompile(`^[a-z0-9_]+`).FindString(line)
		assert.True(t, described[regexp.MustCompile(`^(http_.*)_(bucket|sum|count)$`).ReplaceAllString(name, "$1")], line)
	}
	assert.Contains(t, text, "\n# TYPE http_server_request_duration_seconds histogram\n")
	assert.Contains(t, text, "\n# TYPE nv_inference_count counter\n")
	assert.Contains(t, text, `graphrun_plans_total{model="many",version="10"} `)
	described["graphrun_bindings_total"] = true // models without open sizes have no classes
	assert.Len(t, described, len(families))
}

// TestBitsOfNetworks joins requests of 1 to 3 images to a convolutional network. Each result has the bits of a request
// alone.
func TestBitsOfNetworks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "net.json")
	g := networks.Bottlenecks(8, 1, 2)
	require.NoError(t, g.Bind(map[string]int{"H": 16, "W": 16}))
	require.NoError(t, graphfile.SaveFile(path, g))
	s := open(t, Options{MaxRows: 16}, path)
	m := (*s.models.Load())["net"][0]
	require.NotNil(t, m.batchAxis)
	ask := func(i int) []float32 {
		rows := 1 + i%3
		data := make([]float32, rows*3*16*16)
		for k := range data {
			data[k] = float32((k*(i+3))%17) / 8
		}
		body, header := binaryRequest(data, rows, 3, 16, 16)
		return floatsOf(t, call(s, "POST", "/v2/models/net/infer", body, header...))
	}
	const clients = 24
	var alone, joined [clients][]float32
	for i := range clients {
		alone[i] = ask(i)
	}
	before := m.metrics.executions.Get()
	assert.Regexp(t, `graphrun_bindings_total{model="net",version="1",anchor="[^"]+",class="[0-9]",guards="[^"]{0,200}"} [1-9]`,
		call(s, "GET", "/metrics", "").Body.String())
	hold(s)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() { joined[i] = ask(i) })
	}
	require.Eventually(t, func() bool { return s.waiting.Load() == clients }, 10*time.Second, time.Millisecond)
	letGo(s)
	wg.Wait()
	assert.Equal(t, alone, joined)
	assert.Less(t, m.metrics.executions.Get()-before, uint64(clients/2))
}

// TestPlanForOneRow: a model has the plan for one row for all batch sizes if it costs relatively less.
func TestPlanForOneRow(t *testing.T) {
	s := open(t, Options{Loader: graphrun.Loader{Lookup: networks.LookupPricedRows}},
		writeModel(t, filepath.Join(t.TempDir(), "m.json"), networks.PricedRows))
	m := (*s.models.Load())["m"][0]
	for _, rows := range []int{1, defaultPlannedRows} {
		impls, _, err := m.program.Internal().Implementations(t.Context(), []int{rows})
		require.NoError(t, err)
		assert.Equal(t, "some", impls["y"].Name, "%d rows", rows)
	}
	var runs []*batching.Run
	for range defaultPlannedRows {
		x := tensor.Zeros(tensor.Float32, 1, 3)
		runs = append(runs, m.batchAxis.NewRun(t.Context(), map[string]*tensor.Tensor{"x": x}))
	}
	assert.Len(t, m.batchAxis.Batch(runs, len(runs)), len(runs))
}

// TestPreferredRows: without Options.PreferredRows, a batch has one row for each worker if larger batches do not reduce
// the predicted cost per row.
func TestPreferredRows(t *testing.T) {
	path := writeModel(t, filepath.Join(t.TempDir(), "m.json"), networks.PricedRows)
	for _, c := range []struct {
		batching      Batching
		threads, want int
	}{{BatchExact, 1, 1}, {BatchFast, 2, 2}, {BatchExact, 64, 8}, {BatchOff, 1, 8}} {
		s := open(t, Options{Loader: graphrun.Loader{Lookup: networks.LookupPricedRows},
			Compile: graphrun.Options{Threads: c.threads}, Batching: c.batching}, path)
		m := (*s.models.Load())["m"][0]
		run := m.batchAxis.NewRun(t.Context(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 1, 3)})
		assert.Equal(t, []int{c.want}, m.queue.preferredRows(t.Context(), run), "%+v", c)
	}
}

// TestBoundedBatchSize: models load whose batch size cannot be the preferred number of rows.
func TestBoundedBatchSize(t *testing.T) {
	for bounds, batched := range map[string]bool{`"min": 2, "max": 7`: true, `"min": 20`: false, `"max": 4`: false} {
		text := strings.Replace(affine, `"N": {}`, `"N": {`+bounds+`}`, 1)
		s := open(t, Options{}, writeModel(t, filepath.Join(t.TempDir(), "m.json"), text))
		assert.Equal(t, batched, (*s.models.Load())["m"][0].batchAxis != nil, bounds)
	}
	s := open(t, Options{Compile: graphrun.Options{Sizes: map[string]int{"N": 4}}},
		writeModel(t, filepath.Join(t.TempDir(), "m.json"), affine))
	assert.Nil(t, (*s.models.Load())["m"][0].batchAxis)
}

// TestBatches runs many clients at once, and compares the bits of each result with those of a run alone.
func TestBatches(t *testing.T) {
	path := writeModel(t, filepath.Join(t.TempDir(), "m.json"), affine)
	for _, batching := range []Batching{BatchExact, BatchFast, BatchOff} {
		s := open(t, Options{Batching: batching, PreferredRows: []int{64}, Compile: graphrun.Options{Threads: 2}}, path)
		m := (*s.models.Load())["m"][0]
		require.Equal(t, batching != BatchOff, m.batchAxis != nil)
		hold(s)
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				rows := 1 + i%3
				data := make([]float32, 3*rows)
				want := make([]float32, 3*rows)
				for k := range data {
					data[k] = float32(100*i + k)
					want[k] = 2*data[k] + 1
				}
				body, header := binaryRequest(data, rows, 3)
				assert.Equal(t, want, floatsOf(t, call(s, "POST", "/v2/models/m/infer", body, header...)))
			})
		}
		require.Eventually(t, func() bool { return s.waiting.Load() == 40 }, 10*time.Second, time.Millisecond)
		letGo(s)
		wg.Wait()
		executions := m.metrics.executions.Get()
		if batching == BatchOff {
			assert.EqualValues(t, 40, executions)
		} else {
			assert.LessOrEqual(t, executions, uint64(5))
		}
		assert.EqualValues(t, 0, s.waiting.Load())
	}
}

// hold occupies all slots for runs, so that requests wait. letGo releases them.
func hold(s *Server) {
	for range cap(s.slots) {
		s.slots <- struct{}{}
	}
	s.extraSlot <- struct{}{}
}

func letGo(s *Server) {
	for range cap(s.slots) {
		<-s.slots
	}
	<-s.extraSlot
}

// TestExtraRun: while other runs take all slots, a full batch runs, and a request that does not fill one waits.
func TestExtraRun(t *testing.T) {
	s := open(t, Options{PreferredRows: []int{4}}, writeModel(t, filepath.Join(t.TempDir(), "m.json"), affine))
	for range cap(s.slots) {
		s.slots <- struct{}{}
	}
	body, header := binaryRequest([]float32{1, 2, 3}, 1, 3)
	ask := func() {
		assert.Equal(t, []float32{3, 5, 7}, floatsOf(t, call(s, "POST", "/v2/models/m/infer", body, header...)))
	}
	var full, rest sync.WaitGroup
	rest.Go(ask)
	require.Eventually(t, func() bool { return s.waiting.Load() == 1 }, 10*time.Second, time.Millisecond)
	for range 3 {
		full.Go(ask)
	}
	full.Wait()
	rest.Wait()
	rest.Go(ask)
	require.Eventually(t, func() bool { return s.waiting.Load() == 1 }, 10*time.Second, time.Millisecond)
	assert.EqualValues(t, 1, (*s.models.Load())["m"][0].metrics.executions.Get())
	for range cap(s.slots) {
		<-s.slots
	}
	rest.Wait()
}

// TestDependentRows: requests whose rows affect each other are not joined.
func TestDependentRows(t *testing.T) {
	var log bytes.Buffer
	s := open(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))},
		writeModel(t, filepath.Join(t.TempDir(), "m.json"), mixing))
	assert.Nil(t, (*s.models.Load())["m"][0].batchAxis)
	assert.Contains(t, log.String(), `node \"m\" (mean)`)
	body, header := binaryRequest([]float32{1, 2, 3, 3, 4, 5}, 2, 3)
	assert.Equal(t, []float32{-1, -1, -1, 1, 1, 1}, floatsOf(t, call(s, "POST", "/v2/models/m/infer", body, header...)))
}

func TestLimits(t *testing.T) {
	path := writeModel(t, filepath.Join(t.TempDir(), "m.json"), affine)
	body, header := binaryRequest([]float32{1, 2, 3}, 1, 3)
	s := open(t, Options{Queue: 1, Timeout: 50 * time.Millisecond, Token: "secret"}, path)
	header = append(header, "Authorization", "Bearer secret")
	hold(s)
	var wg sync.WaitGroup
	wg.Go(func() {
		w := call(s, "POST", "/v2/models/m/infer", body, header...)
		assert.Equal(t, 503, w.Code)
		assert.Contains(t, w.Body.String(), "the request took longer than 50ms")
	})
	require.Eventually(t, func() bool { return s.waiting.Load() == 1 }, time.Second, time.Millisecond)
	w := call(s, "POST", "/v2/models/m/infer", body, header...)
	assert.Equal(t, 429, w.Code)
	assert.Equal(t, "1", w.Header().Get("Retry-After"))
	wg.Wait()
	assert.EqualValues(t, 0, s.waiting.Load())
	letGo(s)
	assert.Equal(t, 401, call(s, "GET", "/v2", "").Code)
	assert.Equal(t, 401, call(s, "GET", "/v2", "", "Authorization", "Bearer wrong").Code)
	assert.Equal(t, 401, call(s, "POST", "/v2/models/m/infer", body).Code)
	assert.Equal(t, 200, call(s, "GET", "/v2/health/ready", "").Code)
	assert.Equal(t, 200, call(s, "POST", "/v2/models/m/infer", body, header...).Code)
}

// TestGoneClients: a request whose client closed the connection leaves the queue.
func TestGoneClients(t *testing.T) {
	s := open(t, Options{}, writeModel(t, filepath.Join(t.TempDir(), "m.json"), affine))
	hold(s)
	ctx, cancel := context.WithCancel(t.Context())
	body, header := binaryRequest([]float32{1, 2, 3}, 1, 3)
	r := httptest.NewRequestWithContext(ctx, "POST", "/v2/models/m/infer", strings.NewReader(body))
	r.Header.Set(header[0], header[1])
	w := httptest.NewRecorder()
	done := make(chan struct{})
	go func() { s.ServeHTTP(w, r); close(done) }()
	require.Eventually(t, func() bool { return s.waiting.Load() == 1 }, 10*time.Second, time.Millisecond)
	cancel()
	<-done
	assert.Equal(t, statusClientGone, w.Code)
	assert.EqualValues(t, 0, s.waiting.Load())
	letGo(s)
	assert.Equal(t, []float32{3, 5, 7}, floatsOf(t, call(s, "POST", "/v2/models/m/infer", body, header...)))
}

func TestDrain(t *testing.T) {
	s := open(t, Options{}, writeModel(t, filepath.Join(t.TempDir(), "m.json"), affine))
	body, header := binaryRequest([]float32{1, 2, 3}, 1, 3)
	hold(s)
	var wg sync.WaitGroup
	wg.Go(func() { // accepted before the end, and answered
		assert.Equal(t, []float32{3, 5, 7}, floatsOf(t, call(s, "POST", "/v2/models/m/infer", body, header...)))
	})
	require.Eventually(t, func() bool { return s.waiting.Load() == 1 }, 10*time.Second, time.Millisecond)
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.Error(t, s.Drain(short))
	assert.Equal(t, 503, call(s, "POST", "/v2/models/m/infer", body, header...).Code)
	assert.Equal(t, 503, call(s, "GET", "/v2/health/ready", "").Code)
	assert.Equal(t, 200, call(s, "GET", "/v2/health/live", "").Code)
	letGo(s)
	require.NoError(t, s.Drain(t.Context()))
	wg.Wait()
}

func TestReload(t *testing.T) {
	dir := t.TempDir()
	path := writeModel(t, filepath.Join(dir, "m.json"), affine)
	s := open(t, Options{}, dir)
	ask := func(model string) string {
		body, header := binaryRequest([]float32{1, 2, 3}, 1, 3)
		w := call(s, "POST", "/v2/models/"+model+"/infer", body, header...)
		if w.Code != 200 {
			return w.Body.String()
		}
		return fmt.Sprint(floatsOf(t, w))
	}
	reload := func() {
		for range 2 {
			require.NoError(t, s.Reload(t.Context()))
		}
	}
	writeModel(t, path, strings.Replace(affine, "x * 2 + 1", "x * 2 + 10", 1))
	require.NoError(t, s.Reload(t.Context())) // another process may still write the file
	assert.Equal(t, "[3 5 7]", ask("m"))
	require.NoError(t, s.Reload(t.Context()))
	assert.Equal(t, "[12 14 16]", ask("m"))
	writeModel(t, path, "broken")
	reload()
	assert.Equal(t, "[12 14 16]", ask("m"))
	writeModel(t, path, strings.Replace(affine, "x * 2 + 1", "x * 2 + 100", 1))
	writeModel(t, filepath.Join(dir, "n.json"), affine)
	reload()
	assert.Equal(t, "[102 104 106]", ask("m"))
	assert.Equal(t, "[3 5 7]", ask("n"))
	require.NoError(t, os.Remove(path))
	reload()
	assert.Contains(t, ask("m"), `there is no model`)
	assert.Equal(t, "[3 5 7]", ask("n"))
}

// TestMemoryOfReplacedModels: a replaced model is collected when the last request that uses it is answered. The garbage
// collector does not run by itself in this test.
func TestMemoryOfReplacedModels(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	dir := t.TempDir()
	path := writeModel(t, filepath.Join(dir, "m.json"), affine)
	s := open(t, Options{}, dir)
	collected := make(chan struct{})
	runtime.AddCleanup((*s.models.Load())["m"][0], func(c chan struct{}) { close(c) }, collected)
	hold(s)
	answered := make(chan int)
	body, header := binaryRequest([]float32{1, 2, 3}, 1, 3)
	go func() { answered <- call(s, "POST", "/v2/models/m/infer", body, header...).Code }()
	require.Eventually(t, func() bool { return s.waiting.Load() == 1 }, 10*time.Second, time.Millisecond)
	writeModel(t, path, strings.Replace(affine, "x * 2 + 1", "x * 2 + 10", 1))
	for range 2 {
		require.NoError(t, s.Reload(t.Context()))
	}
	letGo(s)
	assert.Equal(t, 200, <-answered)
	select {
	case <-collected:
	case <-time.After(time.Minute):
		t.Error("the replaced model is still in memory")
	}
}

// TestText serves a graph as text, which is a model only if its path is given.
func TestText(t *testing.T) {
	dir := t.TempDir()
	writeModel(t, filepath.Join(dir, "m.json"), affine)
	s := open(t, Options{}, dir, writeModel(t, filepath.Join(dir, "g.txt"), "x: float32[1, 3] = input\ny: = neg(x)\noutput y\n"))
	body, header := binaryRequest([]float32{1, 2, 3}, 1, 3)
	assert.Equal(t, []float32{-1, -2, -3}, floatsOf(t, call(s, "POST", "/v2/models/g/infer", body, header...)))
	s = open(t, Options{}, dir)
	assert.Equal(t, 404, call(s, "GET", "/v2/models/g", "").Code)
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	good := writeModel(t, dir+"/a/m.json", affine)
	for want, paths := range map[string][]string{
		"no model was found in":      {t.TempDir()},
		"no such file":               {dir + "/none"},
		"the path must be a model":   {writeModel(t, dir+"/b/m.bin", "")},
		"are both model \"m\"":       {good, writeModel(t, dir+"/c/m.json", affine)},
		"model \"bad\", version 1: ": {writeModel(t, dir+"/d/bad.json", "{")},
	} {
		_, err := Open(t.Context(), paths, Options{Log: quiet()})
		assert.ErrorContains(t, err, want)
	}
	_, err := Open(t.Context(), []string{good}, Options{Batching: "sometimes", Log: quiet()})
	assert.ErrorContains(t, err, "want exact, fast or off")
	for want, o := range map[string]Options{"MaxRows": {MaxRows: -1}, "Queue": {Queue: -1}, "MaxBody": {MaxBody: -1},
		"Timeout": {Timeout: -1}, "PreferredRows": {PreferredRows: []int{0}}} {
		_, err := Open(t.Context(), []string{good}, o)
		assert.ErrorContains(t, err, "Options."+want)
	}
}

// TestInServer uses the handler in a server of the caller, with a hook.
func TestInServer(t *testing.T) {
	outcomes := &outcomeHook{}
	s := open(t, Options{Hook: outcomes}, writeModel(t, filepath.Join(t.TempDir(), "m.json"), affine))
	mux := http.NewServeMux()
	mux.Handle("/v2/", s)
	server := httptest.NewServer(mux)
	defer server.Close()
	body, header := binaryRequest([]float32{1, 2, 3}, 1, 3)
	for _, c := range []struct {
		body   string
		status int
	}{{body, 200}, {"{", 400}} {
		r, err := http.NewRequest("POST", server.URL+"/v2/models/m/infer", strings.NewReader(c.body))
		require.NoError(t, err)
		r.Header.Set(header[0], header[1])
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
		response.Body.Close()
		assert.Equal(t, c.status, response.StatusCode)
	}
	server.Close() // waits for the handlers
	require.Len(t, outcomes.list, 2)
	assert.Equal(t, 200, outcomes.list[0].Status)
	assert.Equal(t, 1, outcomes.list[0].Rows)
	assert.Equal(t, 400, outcomes.list[1].Status)
	assert.Error(t, outcomes.list[1].Err)
}

type outcomeHook struct {
	mu   sync.Mutex
	list []Outcome
}

func (h *outcomeHook) Begin(r *http.Request, model, version string) (context.Context, func(Outcome)) {
	return r.Context(), func(o Outcome) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.list = append(h.list, o)
	}
}
