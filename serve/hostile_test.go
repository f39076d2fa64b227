package serve

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
