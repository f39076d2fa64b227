package cli

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/cli/internal/exit"
)

const unbound = `{"version": 1, "symbols": {"N": {"min": 3}, "unused": {}},
"inputs": [{"name": "x", "dtype": "float32", "shape": ["N", "M.0", 2]}],
"nodes": [{"name": "y", "op": "relu", "inputs": ["x"]}],
"outputs": ["y"]}`

// tellers are the commands that depend on sizes, with the flags of a short run.
var tellers = map[string][]string{"infer": nil, "run": nil, "plan": nil, "bench": {"--runs", "1"},
	"compare": {"--runs", "1"}}

func TestAssumedSizesAreTold(t *testing.T) {
	path := write(t, "g.json", unbound)
	for _, command := range slices.Sorted(maps.Keys(tellers)) {
		args := append([]string{command, path, "--json"}, tellers[command]...)
		r := call(t, args...)
		want := "graphrun: note: \"M.0\" is not given: 2 is assumed; say --dim M.0=SIZE\ngraphrun: note: \"N\" is not " +
			"given: 3 is assumed; say --dim N=SIZE\n"
		if command == "infer" {
			want = "" // the sizes stay symbols; assumed sizes affect guards only
		}
		if r.code != exit.CodeDone || !strings.HasPrefix(r.errors, want) || want == "" && r.errors != "" {
			t.Errorf("%s: exit %d, stderr\n%s", command, r.code, r.errors)
		}
		valid(t, command, r.out)
		if doc := decodeTold(t, r.out); !maps.Equal(doc.Assumed, map[string]int{"M.0": 2, "N": 3}) {
			t.Errorf("%s: assumed %v", command, doc.Assumed)
		}
		r = call(t, append(args, "--dim", "N=4", "--dim", "M.0=1")...)
		if doc := decodeTold(t, r.out); r.complaints() != "" || doc.Assumed != nil {
			t.Errorf("%s: stderr %q, assumed %v", command, r.errors, doc.Assumed)
		}
	}
	r := call(t, "view", path, "-o", filepath.Join(t.TempDir(), "g.dot"))
	if r.code != exit.CodeDone || strings.Count(r.errors, "is assumed") != 2 {
		t.Errorf("view: exit %d, stderr\n%s", r.code, r.errors)
	}
}

func TestGivenInputsLeaveNothingToAssume(t *testing.T) {
	path := write(t, "g.json", strings.Replace(unbound, `"M.0"`, "4", 1))
	given := filepath.Join(t.TempDir(), "in.npz")
	succeed(t, "run", write(t, "ones.json", `{"version": 1, "inputs": [],
"nodes": [{"name": "x", "op": "ones", "attrs": {"size": [5, 4, 2]}}], "outputs": ["x"]}`), "--outputs", given)
	if r := call(t, "run", path, "--inputs", given); r.code != exit.CodeDone || r.complaints() != "" ||
		!strings.Contains(r.out, "[5,4,2]") {
		t.Errorf("exit %d, stdout %s, stderr %s", r.code, r.out, r.errors)
	}
}

func TestAGraphWithoutOutputsIsWarnedOf(t *testing.T) {
	path := write(t, "g.json", "{\"version\": 1, \"inputs\": [],\n\"nodes\": [{\"name\": \"x\", \"op\": \"ones\", "+
		"\"attrs\": {\"size\": [2]}}],\n\"outputs\": []}")
	for _, command := range slices.Sorted(maps.Keys(tellers)) {
		r := call(t, append([]string{command, path, "--json"}, tellers[command]...)...)
		if r.code != exit.CodeDone || !strings.HasPrefix(r.errors,
			path+":3:1: warning: the graph has no outputs: a run "+
				"returns nothing\n") {
			t.Errorf("%s: exit %d, stderr %s", command, r.code, r.errors)
		}
		valid(t, command, r.out)
		doc := decodeTold(t, r.out)
		if len(doc.Warnings) != 1 || doc.Warnings[0]["message"] != "the graph has no outputs: a run returns nothing" ||
			doc.Warnings[0]["line"] != 3.0 {
			t.Errorf("%s: warnings %v", command, doc.Warnings)
		}
	}
}
