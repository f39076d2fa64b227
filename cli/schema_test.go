package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// graphSchema compiles what graphrun schema prints.
func graphSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	return printedSchema(t, "schema")
}

func validate(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc)
}

// TestSchemaExamples validates all example graph files.
func TestSchemaExamples(t *testing.T) {
	s := graphSchema(t)
	files, err := filepath.Glob(models + "/*.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	texts := map[string]string{"small": small, "oneLoop": oneLoop, "dynamic": dynamic, "broken in shapes only": broken,
		"many": manyThings}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[file] = string(text)
	}
	for name, text := range texts {
		if err := validate(t, s, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The file is one that graphrun takes too.
	succeed(t, "run", write(t, "g.json", manyThings))
}

// manyThings has the rarer forms that a graph file may have.
const manyThings = `{"version": 1, "symbols": {"N": {"min": 1}, "M": {}},
 "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 4]}, {"name": "i", "dtype": "int8", "shape": [2, 3], "strides": [1, 2], "offset": 4}],
 "constants": [{"name": "k", "dtype": "complex64", "shape": [2], "data": [[1, "NaN"], [3, 4]]},
               {"name": "size", "dtype": "int64", "shape": [2], "data": [4, 2]},
               {"name": "s", "dtype": "float32", "shape": [], "data": "-Infinity"}],
 "nodes": [{"name": "a", "op": "add", "inputs": ["x", {"number": "NaN"}], "attrs": {"alpha": 2.5}},
           {"name": "b", "op": "add", "inputs": [{"number": [1, 2]}, "k"], "attrs": null},
           {"name": "q", "op": "mul", "inputs": ["x"], "attrs": {"other": "1+2j"}},
           {"name": "r", "op": "split", "inputs": ["k"], "attrs": {"split_size": [1, 1]}, "outputs": ["k0", "k1"]},
           {"name": "t", "op": "split", "inputs": ["k"], "attrs": {"split_size": 2}},
           {"name": "v", "op": "eq", "inputs": ["k", {"number": "3+4j"}]},
           {"name": "u", "op": "where", "inputs": ["v"], "attrs": {"self": 1, "other": {"value": "k"}}},
           {"name": "c", "op": "clamp", "inputs": ["a", -1, null]},
           {"name": "d", "op": "expand", "inputs": ["s"], "attrs": {"size": ["N", 4]}},
           {"name": "e", "op": "reshape", "inputs": ["k"], "attrs": {"shape": -1}},
           {"name": "f", "op": "ones", "inputs": [], "attrs": {"size": {"value": "size"}, "dtype": "int8"}},
           {"name": "g", "op": "ones", "attrs": {"size": []}},
           {"name": "h", "op": "cat", "inputs": ["x", "d", "x"]},
           {"name": "j", "op": "clone", "inputs": ["i"], "attrs": {"memory_format": "preserve"}},
           {"name": "l", "op": "chunk", "inputs": ["j"], "attrs": {"chunks": 2, "dim": 1}, "outputs": ["lo", "hi"]},
           {"name": "p", "op": "loop", "inputs": [3, null, "e"], "attrs": {"carried": 1, "body": {"version": 1,
             "inputs": [{"name": "i", "dtype": "int64", "shape": []}, {"name": "c", "dtype": "bool", "shape": []}, {"name": "v", "dtype": "complex64", "shape": [2]}],
             "nodes": [{"name": "w", "op": "mul", "inputs": ["v", 2]}], "outputs": ["c", "w"]}}},
           {"name": "m", "op": "sum", "inputs": ["c", null], "attrs": {"dtype": null, "keepdim": true}, "memory_format": "contiguous"}],
 "outputs": ["a", {"value": "b", "name": "bb"}, "e", "f", "g", "h", {"value": "hi", "memory_format": "contiguous"}, "m", "p"]}`

func TestSchemaRefuses(t *testing.T) {
	s := graphSchema(t)
	for _, c := range []struct{ from, to string }{
		{`"version": 1`, `"version": 2`},
		{`"version": 1,`, ``},
		{`"outputs": ["y"`, `"results": ["y"`},
		{`"name": "small"`, `"nmae": "small"`},
		{`"float32"`, `"float31"`},
		{`"N", 3`, `-1, 3`},
		{`"N", 3`, `1.5, 3`},
		{`"memory_format": "channels_last"`, `"memory_format": "nhwc"`},
		{`"offset": 4`, `"memory_format": "contiguous"`},
		{`"offset": 4`, `"data": [1]`},
		{`"op": "mul"`, `"op": "mull"`},
		{`"op": "mul", `, ``},
		{`"inputs": ["i", 2]`, `"inputs": ["i"]`},
		{`"inputs": ["i", 2]`, `"inputs": ["i", 2, 3]`},
		{`"inputs": ["i", 2]`, `"inputs": ["i", [2]]`},
		{`"inputs": ["i", 2]`, `"inputs": ["i", null]`},
		{`, "inputs": ["i", 2]`, ``},
		{`"inputs": ["y"]`, `"inputs": [3]`},
		{`"dims": [0, 2, 3, 1]`, `"dim": [0, 2, 3, 1]`},
		{`"dims": [0, 2, 3, 1]`, `"dims": [0.5]`},
		{`"dims": [0, 2, 3, 1]`, `"dims": null`},
		{`"dims": [0, 2, 3, 1]`, `"dims": {"vlaue": "x"}`},
		{`, "attrs": {"dims": [0, 2, 3, 1]}`, ``},
		{`"name": "nhwc"`, `"nam": "nhwc"`},
		{`{"min": 1, "max": 64}`, `{"least": 1}`},
	} {
		text := strings.Replace(small, c.from, c.to, 1)
		if text == small {
			t.Fatalf("%s is nowhere", c.from)
		}
		if validate(t, s, text) == nil {
			t.Errorf("%s for %s is valid", c.to, c.from)
		}
		if r := call(t, "infer", write(t, "g.json", text)); r.code != exit.CodeUsage {
			t.Errorf("%s for %s: exit %d", c.to, c.from, r.code)
		}
	}
}

// TestSchemaOps holds the schema to the table of ops: every op and attribute is there, and
// every example is valid.
func TestSchemaOps(t *testing.T) {
	s := graphSchema(t)
	var doc struct {
		Defs map[string]json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal([]byte(succeed(t, "schema")), &doc); err != nil {
		t.Fatal(err)
	}
	for _, o := range kernels.All() {
		for _, f := range o.Schema.Fields {
			if !strings.Contains(string(doc.Defs["op."+o.Name]), `"`+f.Name+`"`) {
				t.Errorf("%s: no attribute %q", o.Name, f.Name)
			}
		}
		for i, ex := range o.Examples {
			if err := validate(t, s, exampleFile(t, o, ex)); err != nil {
				t.Errorf("%s, example %d: %v", o.Name, i, err)
			}
		}
	}
}

// exampleFile writes an example as a graph file.
func exampleFile(t *testing.T, o *graph.Op, ex graph.Example) string {
	t.Helper()
	g := graph.New("", kernels.Lookup)
	operands := make([]any, len(ex.In))
	for i, m := range ex.In {
		if m.DType != tensor.Invalid {
			operands[i] = g.InputMeta(fmt.Sprint("x", i), m)
		}
	}
	g.Apply(o.Name, ex.Attrs, operands...)
	var b strings.Builder
	if err := graphfile.Save(&b, g); err != nil {
		t.Fatalf("%s: %v", o.Name, err)
	}
	return b.String()
}

// TestSchemaOfNumbers: an attribute is accepted by the schema as it is by the loader, for each kind of number and each
// way of writing one. What names a symbol that there is not is the loader's to refuse.
func TestSchemaOfNumbers(t *testing.T) {
	s := graphSchema(t)
	for _, where := range []string{
		`{"name": "y", "op": "full", "inputs": [], "attrs": {"size": [2], "fill_value": %s}}`,               // a number
		`{"name": "y", "op": "add", "inputs": ["x", "x"], "attrs": {"alpha": %s}}`,                          // a number
		`{"name": "y", "op": "arange", "inputs": [], "attrs": {"end": %s}}`,                                 // a number or a size
		`{"name": "y", "op": "leaky_relu", "inputs": ["x"], "attrs": {"negative_slope": %s}}`,               // a number
		`{"name": "y", "op": "layer_norm", "inputs": ["x"], "attrs": {"normalized_shape": [3], "eps": %s}}`, // a float
		`{"name": "y", "op": "unsqueeze", "inputs": ["x"], "attrs": {"dim": %s}}`,                           // an integer
		`{"name": "y", "op": "mul", "inputs": ["x"], "attrs": {"other": %s}}`,                               // an operand
	} {
		for _, value := range []string{`1`, `-2.5`, `1e3`, `"NaN"`, `"-Infinity"`, `"inf"`, `"+Inf"`, `"nan"`, `"N"`, `"N//2"`,
			`"N*2 - 1"`, `true`, `[1, 2]`, `[1]`, `[]`, `"1+2j"`, `null`, `{}`, `{"value": "k"}`, `""`} {
			node := fmt.Sprintf(where, value)
			word := strings.HasPrefix(value, `"`) && !strings.Contains(value, "N") || strings.Contains(value, "Na")
			if strings.Contains(where, "unsqueeze") && word || strings.Contains(where, "other") && value == "null" {
				continue // symbols may be called so; what is left out is missing
			}
			text := fmt.Sprintf(`{"version": 1, "symbols": {"N": {"min": 2, "max": 2}}, "inputs": [{"name": "x", "dtype": `+
				`"complex64", "shape": ["N", 3]}], "constants": [{"name": "k", "dtype": "int64", "shape": [], "data": 1}], `+
				`"nodes": [%s], "outputs": ["y"]}`, node)
			g, err := graphfile.Parse(strings.NewReader(text), kernels.Lookup, graphfile.Options{Name: "g.json"})
			if err == nil {
				if err = g.Bind(nil); err != nil && !strings.Contains(err.Error(), "attribute") {
					err = nil // the op does not take a number that is one
				}
			}
			if bad := validate(t, s, text); (bad == nil) != (err == nil) {
				t.Errorf("%s: the loader says %v, the schema %v", node, err, bad)
			}
		}
	}
}
