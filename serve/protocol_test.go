package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// TestRejectedTensors sends requests whose JSON is valid and whose tensors are not.
func TestRejectedTensors(t *testing.T) {
	s := open(t, Options{}, writeModel(t, filepath.Join(t.TempDir(), "m.json"), affine),
		writeModel(t, filepath.Join(t.TempDir(), "b.json"), `{"version": 1, "inputs": [{"name": "x",
			"dtype": "bool", "shape": [2]}], "nodes": [{"name": "y", "op": "clone", "inputs": ["x"]}], "outputs": ["y"]}`))
	const x = `{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}`
	size := func(name, shape, datatype string, n int) string {
		return fmt.Sprintf(`{"name": %q, "shape": %s, "datatype": %q, "parameters": {"binary_data_size": %d}}`, name, shape,
			datatype, n)
	}
	for _, c := range []struct{ model, inputs, rest, data, want string }{
		{"m", x + "," + x, "", "", `input "x" is given twice`},
		{"m", x, `, "outputs": [{"name": "y"}, {"name": "y"}]`, "", `output "y" is requested twice`},
		{"m", strings.Replace(x, "}", `, "parameters": {"binary_data_size": 12}}`, 1), "", "123456789012",
			"both data and binary_data_size"},
		{"m", size("x", "[1, 3]", "FP32", 11), "", "12345678901", "the data have 11 bytes, want 12"},
		{"m", size("x", "[2, 3]", "FP32", 12), "", "123456789012", "the data have 12 bytes, want 24"},
		{"m", size("x", "[1, 3]", "FP32", 13), "", "123456789012", "binary_data_size is 13, but 12 bytes are left"},
		{"m", x, "", "1234", "4 bytes follow"},
		{"m", `{"name": "x", "shape": [1, "3"], "datatype": "FP32", "data": [1, 2, 3]}`, "", "", "inputs/0/shape/1 is a string, but must be an integer"},
		{"m", `{"name": "x", "datatype": "FP32", "data": [1, 2, 3]}`, "", "", "the shape is [], but the model needs [-1 3]"},
		{"b", size("x", "[2]", "BOOL", 2), "", "\x01\x02", "element 1 is 2, want 0 or 1"},
		{"b", `{"name": "x", "shape": [2], "datatype": "BOOL", "data": [true, 2]}`, "", "", "want true or false"},
	} {
		head := `{"inputs": [` + c.inputs + `]` + c.rest + `}`
		w := call(s, "POST", "/v2/models/"+c.model+"/infer", head+c.data, jsonLengthHeader, strconv.Itoa(len(head)))
		assert.Equal(t, http.StatusBadRequest, w.Code, head)
		var doc struct{ Error string }
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &doc), head)
		assert.Contains(t, doc.Error, c.want, head)
	}
}

// TestEachOutputHasItsEncoding requests one output as bytes and another one as JSON.
func TestEachOutputHasItsEncoding(t *testing.T) {
	s := open(t, Options{}, writeModel(t, filepath.Join(t.TempDir(), "m.json"), `{"version": 1, "inputs": [{"name": "x",
		"dtype": "uint8", "shape": [2]}], "nodes": [{"name": "y", "op": "clone", "inputs": ["x"]}, {"name": "z", "op": "add",
		"inputs": ["x", 1]}], "outputs": ["y", "z"]}`))
	w := call(s, "POST", "/v2/models/m/infer", `{"inputs": [{"name": "x", "shape": [2], "datatype": "UINT8", "data": [3,
		4]}], "parameters": {"binary_data_output": true}, "outputs": [{"name": "z"}, {"name": "y", "parameters":
		{"binary_data": false}}]}`)
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	n, err := strconv.Atoi(w.Header().Get(jsonLengthHeader))
	require.NoError(t, err)
	assert.Equal(t, "application/octet-stream", w.Header().Get("Content-Type"))
	assert.JSONEq(t, `{"model_name": "m", "model_version": "1", "outputs": [
		{"name": "z", "shape": [2], "datatype": "UINT8", "parameters": {"binary_data_size": 2}},
		{"name": "y", "shape": [2], "datatype": "UINT8", "data": [3, 4]}]}`, string(w.Body.Bytes()[:n]))
	assert.Equal(t, []byte{4, 5}, w.Body.Bytes()[n:])
}

// encoded returns the elements of an output in a response: the list in its JSON, or the bytes that follow.
func encoded(p port, x *tensor.Tensor, binary bool) (string, error) {
	w := httptest.NewRecorder()
	err := (&model{}).writeAnswer(context.Background(), w, &request{outputs: []responseOutput{{p, binary}}},
		map[string]*tensor.Tensor{p.name: x})
	text := w.Body.String()
	if binary {
		n, _ := strconv.Atoi(w.Header().Get(jsonLengthHeader))
		return text[n:], err
	}
	_, text, _ = strings.Cut(text, `"data":`)
	return strings.TrimSuffix(text, "}]}\n"), err
}

// TestUnknownStrings decodes strings that the model does not know, in both forms of data, and encodes them.
func TestUnknownStrings(t *testing.T) {
	p := port{name: "x", dtype: tensor.Int64, shape: []int{-1}, labels: graph.Labels{Texts: tensor.NewTexts([]string{"a"})}}
	const data = "\x01\x00\x00\x00b" + "\x01\x00\x00\x00a"
	size := len(data)
	for _, doc := range []tensorDoc{
		{Shape: []int{2}, Datatype: "BYTES", Data: jsontext.Value(`["b", "a"]`)},
		{Shape: []int{2}, Datatype: "BYTES", Parameters: parameters{BinaryDataSize: &size}},
	} {
		x, _, err := p.decode(&doc, []byte(data))
		require.NoError(t, err)
		text, err := encoded(p, x, false)
		require.NoError(t, err)
		require.JSONEq(t, `["b", "a"]`, text)
	}
}

// TestStrings encodes and decodes strings, whose length precedes them in the binary extension.
func TestStrings(t *testing.T) {
	p := port{name: "x", dtype: tensor.Int64, shape: []int{-1}, labels: graph.Labels{Texts: tensor.NewTexts([]string{"", "a", "bß"})}}
	assert.Equal(t, "BYTES", p.datatype())
	const data = "\x03\x00\x00\x00b\xc3\x9f" + "\x00\x00\x00\x00" + "\x01\x00\x00\x00a"
	size := len(data)
	for _, doc := range []tensorDoc{
		{Shape: []int{3}, Datatype: "BYTES", Data: jsontext.Value(`["b\u00df", "", "a"]`)},
		{Shape: []int{3}, Datatype: "BYTES", Parameters: parameters{BinaryDataSize: &size}},
	} {
		x, _, err := p.decode(&doc, []byte(data))
		require.NoError(t, err)
		for i, want := range []float64{2, 0, 1} {
			assert.Equal(t, want, x.At(i).Float())
		}
		text, err := encoded(p, x, false)
		require.NoError(t, err)
		assert.JSONEq(t, `["bß", "", "a"]`, text)
		text, err = encoded(p, x, true)
		require.NoError(t, err)
		assert.Equal(t, data, text)
	}
	for bad, want := range map[string]string{
		data[:size-1]:               "the length of a string exceeds the data",
		"\xff\xff\xff\xff12345678":  "the length of a string exceeds the data",
		"\x01\x00":                  "fewer strings than the shape",
		data + "\x00\x00\x00\x00":   "the data have more than 3 strings",
		"\x00\x00\x00\x00" + "\x00": "fewer strings than the shape",
	} {
		n := len(bad)
		doc := tensorDoc{Shape: []int{3}, Datatype: "BYTES", Parameters: parameters{BinaryDataSize: &n}}
		_, _, err := p.decode(&doc, []byte(bad))
		assert.ErrorContains(t, err, want, "%q", bad)
	}
	_, _, err := p.decode(&tensorDoc{Shape: []int{1}, Datatype: "BYTES", Data: jsontext.Value(`[1]`)}, nil)
	assert.ErrorContains(t, err, "element 0 is not a string")
	x, err := p.labels.Encode([]string{"\xff"}, 1)
	require.NoError(t, err)
	_, err = encoded(p, x, false)
	assert.ErrorContains(t, err, "string 0 is not valid UTF-8, which JSON requires: request binary_data")
}
