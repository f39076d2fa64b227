package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/graphrun/graphrun/cli/internal/document"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/infer"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/report"
)

// valid holds a document to the schema that the command prints for it.
func valid(t *testing.T, command, text string) {
	t.Helper()
	if err := validate(t, printedSchema(t, "schema", command), text); err != nil {
		t.Errorf("%s: %v in\n%s", command, err, text)
	}
}

// printedSchemas has the results of printedSchema: a compilation takes longer than most commands.
var printedSchemas sync.Map

// printedSchema compiles a schema that a command line prints.
func printedSchema(t *testing.T, args ...string) *jsonschema.Schema {
	t.Helper()
	key := strings.Join(args, " ")
	if s, ok := printedSchemas.Load(key); ok {
		return s.(*jsonschema.Schema)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(succeed(t, args...)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("printed.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("printed.json")
	if err != nil {
		t.Fatal(err)
	}
	printedSchemas.Store(key, s)
	return s
}

// TestDocumentsAreValid holds every document of every example to its schema, and those of graphs
// that are broken, sized by assumption, dynamic or large in what they have.
func TestDocumentsAreValid(t *testing.T) {
	files, err := filepath.Glob(models + "/*.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for name, text := range map[string]string{"small": small, "loop": oneLoop, "dynamic": dynamic, "broken": broken,
		"many": manyThings, "troubled": strings.ReplaceAll(troubled, "%s", "")} {
		files = append(files, write(t, name+".json", text))
	}
	seen := map[string]int{}
	for _, file := range files {
		for command, flags := range map[string][]string{
			"infer": {"", "--keep-going"}, "run": {"", "--keep-going"},
			"bench":   {"--runs 1", "--threads 1 --for 1ms", "--runs 2 --profile"},
			"plan":    {"", "--check", "--strategy channels_last", "--strategy contiguous --check"},
			"compare": {"--runs 1"},
			"diff":    {"", "--strategies contiguous,channels_last"},
			"explain": {"--first-break contiguous", "--first-break channels_last --strategy contiguous"},
		} {
			for _, f := range flags {
				r := call(t, append([]string{command, file, "--json"}, strings.Fields(f)...)...)
				if r.out != "" {
					valid(t, command, r.out)
					seen[command]++
				} else if r.code == exit.CodeDone {
					t.Errorf("%s %s %s prints nothing", command, file, f)
				}
			}
		}
	}
	for command, n := range seen {
		if n < 6 {
			t.Errorf("%d documents of %s", n, command)
		}
	}
	valid(t, "ops", succeed(t, "ops", "--json"))
	valid(t, "ops", succeed(t, "ops", "--json", "conv2d"))
}

// TestSchemasAreClosed holds the schemas to refusing keys that there are not, at every depth,
// documents that lack a key, and values of another type.
func TestSchemasAreClosed(t *testing.T) {
	path := write(t, "g.json", small)
	for command, args := range map[string]string{
		"infer": "", "plan": "--strategy propagate", "run": "", "bench": "--runs 1 --profile", "compare": "--runs 1",
		"explain": "--first-break contiguous", "diff": "--strategies contiguous,propagate",
	} {
		s := printedSchema(t, "schema", command)
		text := succeed(t, append([]string{command, path, "--json"}, strings.Fields(args)...)...)
		var doc map[string]any
		if err := json.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		tried := 0
		refused := func(what string) {
			tried++
			if again, _ := json.Marshal(doc); validate(t, s, string(again)) == nil {
				t.Errorf("%s: valid with %s", command, what)
			}
		}
		eachObject(doc, func(o map[string]any) {
			o["surprise"] = 1
			refused("another key")
			delete(o, "surprise")
		})
		for key, v := range doc {
			if slices.Contains(mayMiss, key) {
				continue
			}
			delete(doc, key)
			refused("no " + key)
			doc[key] = map[string]any{"a": nil}
			refused("an object for " + key)
			doc[key] = v
		}
		if again, _ := json.Marshal(doc); validate(t, s, string(again)) != nil || tried < 6 {
			t.Errorf("%s: %d changes tried", command, tried)
		}
	}
}

// eachObject calls f with every object that has fixed keys.
func eachObject(v any, f func(map[string]any)) {
	switch x := v.(type) {
	case map[string]any:
		f(x)
		for key, inner := range x {
			// Their keys are names of the graph, and of what profiles price.
			if !slices.Contains([]string{"assumed", "dims", "conditions", "binds", "hint", "sizes", "broken", "bytes",
				"kernels", "waits"}, key) {
				eachObject(inner, f)
			}
		}
	case []any:
		for _, inner := range x {
			eachObject(inner, f)
		}
	}
}

// The documents as the contract has them.
const (
	contractInfer = `{"version": 1, "values": [{"name": "y", "op": "add", "dtype": "float32", "shape": [2, 3, 4, 5],
  "strides": [60, 1, 15, 3], "offset": 0, "flags": ["channels_last"], "alias_of": null,
  "conditions": {"contiguous": "Eq(N, 1)"}}],
 "errors": [{"node": "z", "message": "..."}]}`
	contractPlan = `{"version": 1, "strategy": "optimal", "optimal": true, "cost_ns": 812345.0, "lower_bound_ns": 812345.0,
 "copies": [{"value": "conv1", "from": [1], "to": [1], "bytes": 802816, "cost_ns": 41000.0, "why": "..."}],
 "elided": [{"node": "c1", "why": "..."}],
 "steps": [{"name": "...", "ops": ["conv1", "shifted"], "loop": {"shape": [64, 20], "strides": [[4, 256], [80, 4]]},
            "fast_setup": "none", "cost_ns": 1.0, "strides": [60, 1, 15, 3], "buffer": 0}],
 "peak_bytes": 123456, "plan_ms": 1.9}`
)

// TestContractIsInTheSchemas holds the schemas to the contract: what it has is permitted, key by
// key.
func TestContractIsInTheSchemas(t *testing.T) {
	if err := validate(t, printedSchema(t, "schema", "infer"), contractInfer); err != nil {
		t.Error(err)
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(contractPlan), &doc); err != nil {
		t.Fatal(err)
	}
	// These are ours.
	doc["profile"] = report.Profile{}
	doc["memory"], doc["passes"] = report.Memory{Largest: []report.Holding{}}, []report.Pass{}
	doc["folded"], doc["decomposed"] = []report.Folding{}, []report.Decomposition{}
	doc["moved_bytes"] = 1024
	doc["packed"], doc["unfused"] = []report.Packing{}, []report.Unfused{}
	text, _ := json.Marshal(doc)
	if err := validate(t, printedSchema(t, "schema", "plan"), string(text)); err != nil {
		t.Error(err)
	}
}

// TestDocTags holds every key of every document to one plain sentence.
func TestDocTags(t *testing.T) {
	keys := 0
	var check func(typ reflect.Type)
	check = func(typ reflect.Type) {
		if l, ok := reflect.Zero(typ).Interface().(interface{ Item() any }); ok {
			typ = reflect.TypeOf(l.Item()).Elem()
		}
		if _, own := reflect.Zero(typ).Interface().(interface{ JSONSchema() map[string]any }); own {
			return
		}
		for typ.Kind() == reflect.Slice || typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct {
			return
		}
		for _, f := range reflect.VisibleFields(typ) {
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			doc := f.Tag.Get("doc")
			if key == "" || key == "-" {
				if f.IsExported() && !f.Anonymous {
					t.Errorf("%v.%s has no key", typ, f.Name)
				}
				continue
			}
			keys++
			if len(doc) < 6 || !strings.HasSuffix(doc, ".") || strings.Count(doc, ". ") > 0 || doc[0] < 'A' || doc[0] > 'Z' {
				t.Errorf("%v.%s: %q is no sentence", typ, key, doc)
			}
			check(f.Type)
		}
	}
	for _, typ := range documents {
		check(typ)
	}
	check(flagDocuments["onnx"].documentType)
	check(flagDocuments["missing"].documentType)
	if keys < 80 {
		t.Errorf("%d keys", keys)
	}
}

// TestEveryJSONFlagHasASchema holds the list of documents to the commands.
func TestEveryJSONFlagHasASchema(t *testing.T) {
	var names []string
	for _, c := range newRoot(extend(t)).Commands() {
		if c.Flags().Lookup("json") != nil {
			names = append(names, c.Name())
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, documentNames()) {
		t.Errorf("%v print documents, %v have schemas", names, documentNames())
	}
}

// TestDocumentsAreStreamed holds long lists to being written while they are made.
func TestDocumentsAreStreamed(t *testing.T) {
	const items = 5000
	var out bytes.Buffer
	w := bufio.NewWriterSize(&out, 1<<10)
	made := 0
	errs := document.Stream[infer.ValueDoc](func(yield func(*infer.ValueDoc) bool) {
		for made = range items {
			if made > 100 && out.Len() < made*40 {
				t.Fatalf("%d bytes after %d items", out.Len(), made)
			}
			if !yield(&infer.ValueDoc{Name: fmt.Sprint("v", made), Op: "input"}) {
				return
			}
		}
	})
	document.Write(w, &infer.Document{Values: errs, Errors: document.Mistakes([]*graph.Error{})})
	if err := w.Flush(); err != nil || made != items-1 {
		t.Fatal(err, made)
	}
	if doc := decode[inferDoc](t, out.String()); len(doc.Values) != items || strings.Count(out.String(), "\n") != items+3 {
		t.Errorf("%d values, %d lines", len(doc.Values), strings.Count(out.String(), "\n"))
	}
}

// mayMiss are the keys that documents leave out where there is nothing to say.
var mayMiss = []string{"assumed", "guards", "fewer_guards", "classes", "no_machine_code"}
