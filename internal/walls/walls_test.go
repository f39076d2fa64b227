// Package walls holds the test of who may import whom. It has no code of its own.
package walls

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/graphrun/graphrun/"

// root is the package at the module's root, as [list] calls it.
const root = "graphrun"

// pkg is what go list tells of a package. Deps are all packages that it is built from, Imports those that it names.
type pkg struct {
	ImportPath    string
	Deps, Imports []string
}

// list returns our packages without the module's path, and those of ours among what of picks.
func list(t *testing.T, of func(pkg) []string) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-deps", "-json=ImportPath,Deps,Imports", "./...")
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	deps := map[string][]string{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return deps
		} else if err != nil {
			t.Fatal(err)
		}
		name, ours := own(p.ImportPath)
		if !ours {
			continue
		}
		deps[name] = nil
		for _, d := range of(p) {
			if d, ours := own(d); ours {
				deps[name] = append(deps[name], d)
			}
		}
	}
}

// own returns a package of ours without the module's path.
func own(path string) (name string, ours bool) {
	if path+"/" == module {
		return root, true
	}
	return strings.CutPrefix(path, module)
}

// within reports whether a package is one of the named ones or is below one.
func within(name string, trees ...string) bool {
	for _, tree := range trees {
		if name == tree || strings.HasPrefix(name, tree+"/") {
			return true
		}
	}
	return false
}

// TestWalls keeps the layers apart. What a package may be built from is a list of all; for
// kernels, passes and exec, which meet in *graph.Op and *graph.Graph alone, it is what
// they must not be built from. Tests may import what they like.
func TestWalls(t *testing.T) {
	// Tensors, and the packages that they are built from.
	tensors := []string{"tensor", "sym", "internal/contiguity", "internal/strided", "internal/machine", "internal/suggest"}
	with := func(names ...string) []string { return append(names, tensors...) }
	only := map[string][]string{
		"sym": {}, "internal/contiguity": {"sym", "internal/suggest"},
		// A storage asks the machine whether its memory is available.
		"tensor":           tensors,
		"internal/machine": {}, "internal/suggest": {}, "internal/files": {}, "internal/workerpool": {},
		"internal/interrupt": {},
		"internal/layered":   {}, "internal/strided": {"internal/machine"},
		"internal/axes":     tensors,
		"internal/numerals": tensors,
		"internal/gemm":     with("internal/jit"),
		"expr":              tensors,
		// Machine code is independent of expressions, except for code that is generated from them.
		"internal/jit": {"internal/machine"}, "internal/jit/asm": {}, "internal/jit/goasm": {},
		"internal/jit/vector":   with("internal/jit", "expr"),
		"internal/jit/tile":     {"internal/jit", "internal/machine"},
		"internal/jit/winograd": {"internal/jit", "internal/jit/tile", "internal/machine"},
		"internal/loops":        with("expr", "internal/jit", "internal/interrupt"),
		// The decisions of an iteration need no memory and no code.
		"iter/rule": with("expr"),
		"iter": with("expr", "internal/axes", "internal/jit", "internal/loops", "internal/workerpool",
			"internal/interrupt"),
		// A graph is independent of files, of execution and of generated code.
		"graph": with("expr", "iter/rule", "internal/numerals", "internal/interrupt"),
		// Formats depend on graphs and tensors, not on packages that run them.
		"npz":         {"tensor", "sym", "internal"},
		"safetensors": {"tensor", "sym", "internal"},
		"graphfile":   {"graph", "expr", "npz", "safetensors", "iter/rule", "tensor", "sym", "internal"},
		// Typed functions look ops up by name in the catalogue of their graph.
		"op": {"graph", "expr", "iter/rule", "tensor", "sym", "internal"},
		// The exact solver depends on costs and labels only. The checker of its proofs uses its types.
		"passes/layout/wcsp": {"internal/interrupt"}, "passes/layout/wcsp/verify": {"passes/layout/wcsp",
			"internal/interrupt"},
		// Its converters look their ops up in kernels, unless a user passes other ops.
		"onnx": {"graph", "fusion", "expr", "iter", "tensor", "sym", "internal", "kernels"},
	}
	never := map[string][]string{
		// What op is generated from cannot be built from it.
		"fusion":   {"kernels", "passes", "exec", "op", "cmd"},
		"kernels":  {"passes", "exec", "op", "cmd"},
		"passes":   {"kernels", "exec", "op", "cmd"},
		"exec":     {"kernels", "passes", "op", "cmd"},
		"internal": {"kernels", "passes", "exec", "op", "cmd"},
		// The inside of programs joins passes and exec, for any catalogue of ops.
		"internal/program": {"kernels", "op", "cmd"},
		// Networks for tests.
		"internal/graphtest/networks": {"passes", "exec", "cmd"},
		// Documents are data, whatever made them.
		"report": {"kernels", "exec", "op", "cmd", "internal/program"},
	}
	for name, deps := range list(t, func(p pkg) []string { return p.Deps }) {
		tree, _, _ := strings.Cut(name, "/")
		for _, d := range deps {
			of := tree
			if _, ok := only[name]; ok {
				of = name
			}
			if allowed, ok := only[of]; ok && !within(d, append(allowed, of)...) {
				t.Errorf("%s is built from %s; %s may be built from %v of ours only", name, d, of, allowed)
			}
			of = tree
			if _, ok := never[name]; ok {
				of = name
			}
			if within(d, never[of]...) {
				t.Errorf("%s is built from %s, which is behind a wall", name, d)
			}
		}
	}
}

// behind are the packages that only the front door joins.
var behind = []string{"passes", "onnx"}

// TestFrontDoor keeps the command, the examples and scripts/soak outside: they load, compile and run by the root
// package, which inspect and experiment look into. Of package exec they may use the types in a tracer's methods only;
// imports cannot show that. A strategy of one's own is written against passes/layout; research has passes and
// converters of its own besides, and cli takes those of a caller. No other package imports the root package.
func TestFrontDoor(t *testing.T) {
	for name, imports := range list(t, func(p pkg) []string { return p.Imports }) {
		outside := within(name, "cli", "cmd", "examples", "scripts/soak")
		above := outside || within(name, "inspect", "experiment")
		for _, d := range imports {
			// Extensions of commands are passes and converters.
			extends := within(d, "passes/layout") || within(name, "examples/research", "cli")
			if outside && within(d, behind...) && !extends {
				t.Errorf("%s names %s: the front door is package %s", name, d, root)
			}
			if d == root && !above {
				t.Errorf("%s names the package at the root", name)
			}
		}
	}
}

// families says which other packages under kernels one names. Families meet in ops: where one is made of another's
// ops, it is listed.
var families = map[string][]string{
	"kernels/internal/conv":       {"compose", "copies", "kit", "multiply", "pointwise"},
	"kernels/internal/extreme":    {},
	"kernels/internal/genbuilder": {"kernels"},
	"kernels/internal/kerneltest": {"kernels", "kit"},
	"kernels/internal/index":      {"copies", "kit"},
	"kernels/internal/compose":    {"copies", "kit", "view"},
	"kernels/internal/copies":     {"kit"},
	"kernels/internal/folds":      {"kit"},
	"kernels/internal/kit":        {},
	"kernels/internal/multiply":   {"copies", "kit"},
	"kernels/internal/pointwise":  {"compose", "kit", "view"},
	"kernels/internal/product":    {"index", "compose", "copies", "kit", "multiply", "pointwise", "reduce", "view"},
	"kernels/internal/quantized":  {"conv", "compose", "kit", "pointwise", "product", "reduce", "view", "window"},
	"kernels/internal/reduce":     {"compose", "copies", "folds", "kit", "pointwise", "view"},
	"kernels/internal/sequence":   {"copies", "kit", "multiply", "pointwise"},
	"kernels/internal/view":       {"copies", "kit"},
	"kernels/internal/window":     {"copies", "folds", "kit"},
}

// TestFamilies holds the imports among the packages under kernels to the list: no more, and no fewer.
func TestFamilies(t *testing.T) {
	imports := list(t, func(p pkg) []string { return p.Imports })
	for name, allowed := range families {
		if _, ok := imports[name]; !ok {
			t.Errorf("there is no package %s", name)
		}
		var have []string
		for _, d := range imports[name] {
			if within(d, "kernels") {
				have = append(have, strings.TrimPrefix(d, "kernels/internal/"))
			}
		}
		slices.Sort(have)
		slices.Sort(allowed)
		if !slices.Equal(have, allowed) {
			t.Errorf("%s names %v; what it may name is %v", name, have, allowed)
		}
	}
	for name := range imports {
		if _, ok := families[name]; !ok && within(name, "kernels/internal") {
			t.Errorf("%s is not in the list of families", name)
		}
	}
}
