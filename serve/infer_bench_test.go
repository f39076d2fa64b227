package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/tensor"
)

// benchmarkModel writes the model of BenchmarkInfer: by default a small network of two linear layers. The variable
// GRAPHRUN_SERVE_MODEL names another one; it must have one float32 input, whose first size is the batch size.
func benchmarkModel(b *testing.B) string {
	if path := os.Getenv("GRAPHRUN_SERVE_MODEL"); path != "" {
		return path
	}
	text := `{"version": 1, "symbols": {"N": {}}, "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 784]}],
		"constants": [{"name": "w", "full": 0.5, "dtype": "float32", "shape": [512, 784]},
			{"name": "v", "full": 0.5, "dtype": "float32", "shape": [10, 512]}],
		"nodes": [{"name": "h", "op": "linear", "inputs": ["x", "w"]}, {"name": "r", "op": "relu", "inputs": ["h"]},
			{"name": "y", "op": "linear", "inputs": ["r", "v"]}], "outputs": ["y"]}`
	path := filepath.Join(b.TempDir(), "model.json")
	require.NoError(b, os.WriteFile(path, []byte(text), 0o666))
	return path
}

// post sends a request and reads the response.
func post(b *testing.B, url string, body []byte, header string) []byte {
	request, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	require.NoError(b, err)
	request.Header.Set(jsonLengthHeader, header)
	r, err := http.DefaultClient.Do(request)
	require.NoError(b, err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	require.NoError(b, err)
	require.Equal(b, http.StatusOK, r.StatusCode, "%s", text)
	return text
}

// loop measures f. It reports the minimum and the median: other programs on the machine change them less than the mean.
func loop(b *testing.B, f func()) {
	var times []time.Duration
	for b.Loop() {
		start := time.Now()
		f()
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[0].Nanoseconds()), "min-ns")
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds()), "median-ns")
}

// BenchmarkInfer measures a request of one row with binary data, in five variants:
//   - run: the program without a server;
//   - handler: the server's handler without a connection;
//   - loopback: the server over the loopback interface;
//   - bare: a handler that only reads the same body and writes the same response;
//   - bare_run: this handler with a run of the program.
//
// The difference of loopback and bare_run is the time of the protocol: decoding, queue, metrics and encoding.
func BenchmarkInfer(b *testing.B) {
	s, err := Open(b.Context(), []string{benchmarkModel(b)}, Options{Log: quiet()})
	require.NoError(b, err)
	m := (*s.models.Load())["model"][0]
	shape := append([]int{1}, m.inputs[0].shape[1:]...)
	x := tensor.Zeros(tensor.Float32, shape...)
	dims, err := json.Marshal(shape)
	require.NoError(b, err)
	text := fmt.Sprintf(`{"inputs": [{"name": %q, "shape": %s, "datatype": "FP32", "parameters": {"binary_data_size": %d}}],
		"parameters": {"binary_data_output": true}}`, m.inputs[0].name, dims, x.Bytes())
	header, body := strconv.Itoa(len(text)), append([]byte(text), x.Storage().Bytes()...)
	const path = "/v2/models/model/infer"
	in := map[string]*tensor.Tensor{m.inputs[0].name: x}
	run := func() {
		out, err := m.program.Run(b.Context(), in)
		require.NoError(b, err)
		for _, t := range out {
			t.Release()
		}
	}
	b.Run("run", func(b *testing.B) { loop(b, run) })
	b.Run("handler", func(b *testing.B) {
		loop(b, func() {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, path, bytes.NewReader(body))
			r.Header.Set(jsonLengthHeader, header)
			s.ServeHTTP(w, r)
			require.Equal(b, http.StatusOK, w.Code)
		})
	})
	server := httptest.NewServer(s)
	defer server.Close()
	response := post(b, server.URL+path, body, header)
	b.Run("loopback", func(b *testing.B) {
		loop(b, func() { post(b, server.URL+path, body, header) })
	})
	for _, runs := range []bool{false, true} {
		bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if runs {
				run()
			}
			w.Header().Set("Content-Length", strconv.Itoa(len(response)))
			_, _ = w.Write(response)
		}))
		b.Run(map[bool]string{false: "bare", true: "bare_run"}[runs], func(b *testing.B) {
			loop(b, func() { post(b, bare.URL, body, header) })
		})
		bare.Close()
	}
}
