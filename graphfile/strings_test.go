package graphfile_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// textFile compares strings with constants, one of them in a file, and takes strings of a branch.
const textFile = `{
 "version": 1,
 "strings": ["red", "gr\u00fcn", ""],
 "inputs": [{"name": "x", "dtype": "string", "shape": ["N"]}, {"name": "c", "dtype": "bool", "shape": []}],
 "constants": [
  {"name": "k", "dtype": "string", "shape": [2, 2], "data": [["blue", "red"], ["", "blue"]], "strides": [1, 2]},
  {"name": "filed", "dtype": "string", "shape": [2], "file": "t.npz", "key": "t"},
  {"name": "codes", "dtype": "int64", "shape": [3], "data": [0, 1, 3]}],
 "nodes": [
  {"name": "first", "op": "select", "inputs": ["k"], "attrs": {"dim": 0, "index": 0}},
  {"name": "all", "op": "cat", "inputs": ["x", "first", "filed", "codes"], "attrs": {"dim": 0}},
  {"name": "taken", "op": "if", "inputs": ["c"], "attrs": {
   "then_branch": {"version": 1, "inputs": [], "constants": [
     {"name": "a", "dtype": "string", "shape": [1], "data": ["black"]}], "nodes": [], "outputs": ["a"]},
   "else_branch": {"version": 1, "inputs": [], "constants": [
     {"name": "b", "dtype": "string", "shape": [1], "data": ["red"]}], "nodes": [], "outputs": ["b"]}}}],
 "outputs": [{"value": "all", "dtype": "string"}, {"value": "taken", "name": "t", "dtype": "string"}]
}`

func TestStrings(t *testing.T) {
	dir := t.TempDir()
	var array bytes.Buffer
	require.NoError(t, npz.WriteStrings(&array, []string{"white", "blue"}, []int{2}))
	x, err := npz.ReadNPY(&array, int64(array.Len()))
	require.NoError(t, err)
	require.NoError(t, npz.WriteFile(filepath.Join(dir, "t.npz"), []npz.Entry{{Name: "t", Tensor: x}}))
	path := filepath.Join(dir, "g.json")
	require.NoError(t, os.WriteFile(path, []byte(textFile), 0o600))
	check := func(path string) {
		g, err := graphfile.Load(path, kernels.Lookup)
		require.NoError(t, err)
		require.Equal(t, []string{"red", "grün", "", "blue", "white", "black"}, g.Texts.List())
		in, err := g.Labels["x"].Encode([]string{"grün", "unknown"}, 2)
		require.NoError(t, err)
		require.NoError(t, g.Bind(map[string]int{"N": 2}))
		out, err := graph.Evaluate(g, map[string]*tensor.Tensor{"x": in,
			"c": tensor.Must(tensor.FromSlice([]bool{true}))})
		require.NoError(t, err)
		out["all"].SetTexts(in.Texts())
		list, err := g.Labels["all"].Decode(out["all"])
		require.NoError(t, err)
		require.Equal(t, []string{"grün", "unknown", "blue", "red", "white", "blue", "red", "grün", "blue"}, list)
		list, err = g.Labels["t"].Decode(out["t"])
		require.NoError(t, err)
		require.Equal(t, []string{"black"}, list)
	}
	check(path)
	g, err := graphfile.Load(path, kernels.Lookup)
	require.NoError(t, err)
	saved := filepath.Join(dir, "saved.json")
	side := graphfile.SideFile("side.npz", func(*graph.Value) bool { return true },
		func(path string, names []string, data []*tensor.Tensor) error {
			var arrays []npz.Entry
			for i, name := range names {
				arrays = append(arrays, npz.Entry{Name: name, Tensor: data[i]})
			}
			return npz.WriteFile(path, arrays)
		})
	require.NoError(t, graphfile.SaveFile(saved, g, side))
	text, err := os.ReadFile(saved)
	require.NoError(t, err)
	for _, want := range []string{`{"name": "k", "dtype": "string", "shape": [2, 2], "strides": [1, 2], ` +
		`"data": [["blue", "red"], ["", "blue"]]}`, `"dtype": "string", "shape": ["N"]`, `"file": "t.npz", "key": "t"`,
		`{"value": "taken", "name": "t", "dtype": "string"}`, `"file": "side.npz", "key": "codes"`} {
		require.Contains(t, string(text), want)
	}
	check(saved)
}

// TestStringMistakes: errors name the place.
func TestStringMistakes(t *testing.T) {
	constant := func(rest string) string {
		return `{"version": 1, "inputs": [], "constants": [{"name": "k", "dtype": "string", "shape": [2], ` + rest +
			`}], "nodes": [], "outputs": ["k"]}`
	}
	for text, want := range map[string]string{
		constant(`"data": ["a", 1]`):         `1:105: constant "k": data: want strings, got a number`,
		constant(`"data": ["a"]`):            `constant "k": data holds 1`,
		constant(`"data": "a"`):              `constant "k": data holds 1`,
		constant(`"file": "../t.npz"`):       `constant "k": file "../t.npz" is outside the folder of the graph file`,
		constant(`"data": ["a", "b"]`) + "x": "1:",
		`{"version": 1, "strings": ["a", "a"], "inputs": [], "nodes": [], "outputs": []}`:                   `1:33: the string "a" occurs twice`,
		`{"version": 1, "strings": [1], "inputs": [], "nodes": [], "outputs": []}`:                          `1:28: want a string, got a number`,
		strings.Replace(constant(`"data": ["a", "b"]`), `"nodes"`, `"strings": [], "nodes"`, 1):             `"strings" must come before the constants`,
		strings.Replace(constant(`"data": ["a", "b"]`), `["k"]}`, `[{"value": "k", "dtype": "int64"}]}`, 1): `the dtype of an output is inferred: only "string" can be stated, got "int64"`,
		`{"version": 1, "inputs": [{"name": "x", "dtype": "bool", "shape": []}], "nodes": [], ` +
			`"outputs": [{"value": "x", "dtype": "string"}]}`: `1:98: output "x" has dtype bool: only int64 values can be strings`,
		`{"version": 1, "inputs": [{"name": "x", "dtype": "strng", "shape": []}], "nodes": [], "outputs": []}`: `unknown dtype "strng"`,
	} {
		_, err := graphfile.Read(strings.NewReader(text), kernels.Lookup, graphfile.Options{Name: "g.json", Dir: t.TempDir()})
		require.ErrorContains(t, err, want, text)
	}
	g := graph.New("g", kernels.Lookup)
	g.Output("x", g.Input("x", tensor.Int64, 1))
	g.Texts = tensor.NewTexts([]string{"\xff"})
	require.ErrorContains(t, graphfile.Save(&bytes.Buffer{}, g), `the string "\xff" is not valid UTF-8`)
	k := tensor.Must(tensor.FromSlice([]int64{5}, 1))
	k.SetTexts(tensor.NewTexts([]string{"a"}))
	g.Texts = nil
	g.Output("k", g.Constant("k", k))
	require.ErrorContains(t, graphfile.Save(&bytes.Buffer{}, g), `constant "k": element 0 is 5`)
}
