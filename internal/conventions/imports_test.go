package conventions_test

import (
	"slices"
	"strings"
	"testing"
)

// rootPackage is the package at the root of the module, as [imports] names it.
const rootPackage = "graphrun"

// imports returns the packages of this module. The import paths are relative to the root of the module. The values
// are selected from the output of go list and limited to packages of this module.
func imports(t *testing.T, selected func(listed) []string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, p := range goList(t, "-e", "./...") {
		name, ok := relative(p.ImportPath)
		if !ok {
			continue
		}
		found[name] = nil
		for _, d := range selected(p) {
			if d, ok := relative(d); ok {
				found[name] = append(found[name], d)
			}
		}
	}
	return found
}

// relative returns an import path relative to the root of the module, and whether the package is in the module.
func relative(path string) (name string, ok bool) {
	if path == module {
		return rootPackage, true
	}
	return strings.CutPrefix(path, module+"/")
}

// within reports whether a package is one of the trees or below one of them.
func within(name string, trees ...string) bool {
	for _, tree := range trees {
		if name == tree || strings.HasPrefix(name, tree+"/") {
			return true
		}
	}
	return false
}

// everywhere are packages that every package may import: they only replace functions of the standard library, or are
// data.
var everywhere = []string{"internal/sorted", "internal/printable", "internal/memo", "report"}

// TestLayers checks the direct and indirect imports of packages. Low packages have a list of allowed imports. The
// packages kernels, passes and exec, which exchange only *graph.Op and *graph.Graph, have a list of forbidden ones.
// Tests may import any package.
func TestLayers(t *testing.T) {
	// Package tensor and its imports.
	tensors := []string{"tensor", "sym", "internal/contiguity", "internal/strided", "internal/machine", "internal/suggest"}
	with := func(names ...string) []string { return append(names, tensors...) }
	only := map[string][]string{
		// Reports are data, independent of the packages that create them.
		"report": {},
		"sym":    {}, "internal/contiguity": {"sym", "internal/suggest"},
		// A storage asks the machine whether its memory is available.
		"tensor":           tensors,
		"internal/machine": {}, "internal/suggest": {}, "internal/files": {}, "internal/workerpool": {},
		"pricing":            {"internal/machine"},
		"internal/toposort":  {},
		"internal/interrupt": {}, "internal/diskcache": tensors,
		"internal/graphdraw": {}, "internal/strided": {"internal/machine"},
		"internal/axes":     tensors,
		"internal/numerals": tensors,
		"internal/gemm":     with("internal/jit"),
		// Package lane defines the primitive operations of expressions.
		"expr": with("internal/lane"),
		// Machine code is independent of expressions, except for code that is generated from them.
		"internal/jit":                     {"internal/machine"},
		"internal/jit/target":              {"internal/jit", "internal/machine"},
		"internal/jit/target/amd64/asm":    {},
		"internal/jit/target/amd64/writer": {"internal/jit", "internal/machine"},
		"internal/jit/target/arm64":        with("internal/jit", "internal/lane"),
		"internal/jit/target/arm64/asm":    {},
		"internal/jit/target/arm64/writer": {"internal/jit", "internal/machine"},
		"internal/jit/alloc":               {},
		"internal/lane":                    tensors,
		"internal/jit/vector":              with("internal/jit", "internal/lane", "expr"),
		"internal/jit/tile":                {"internal/jit", "internal/machine"},
		"internal/jit/winograd":            {"internal/jit", "internal/jit/tile", "internal/machine"},
		// Kernels of devices have the operations of package lane. Expressions and iterations are lowered to them.
		"internal/gpu/spirv": with("internal/gpu/ir", "internal/lane"),
		"internal/gpu/ptx":   with("internal/gpu/ir", "internal/lane"),
		"internal/gpu/ir":    with("internal/lane"),
		"internal/loops":     with("expr", "internal/jit", "internal/lane", "internal/interrupt"),
		// The decisions of an iteration need no memory and no code.
		"iter/rule": with("expr", "internal/lane"),
		"iter": with("expr", "internal/axes", "internal/jit", "internal/lane", "internal/loops", "internal/workerpool",
			"internal/interrupt"),
		// A graph is independent of files, of execution and of generated code.
		"graph": with("pricing", "expr", "internal/lane", "iter/rule", "internal/numerals", "internal/interrupt",
			"internal/panics", "internal/toposort"),
		// Formats depend on graphs and tensors, not on packages that run them.
		"npz":         {"tensor", "sym", "internal"},
		"safetensors": {"tensor", "sym", "internal"},
		"graphfile":   {"graph", "pricing", "expr", "npz", "safetensors", "iter/rule", "tensor", "sym", "internal"},
		// Typed functions look ops up by name in the catalogue of their graph.
		"op": {"graph", "pricing", "expr", "iter/rule", "tensor", "sym", "internal"},
		// The exact solver depends on costs and labels only. The checker of its proofs uses its types.
		"passes/layout/wcsp": {"internal/interrupt"}, "passes/layout/wcsp/verify": {"passes/layout/wcsp",
			"internal/interrupt"},
		// Its converters look their ops up in kernels, unless a user passes other ops.
		"onnx": {"graph", "pricing", "fusion", "expr", "iter", "tensor", "sym", "internal", "kernels"},
		// Conversion depends on no converter, and no converter on the catalogue: ops are looked up by name.
		"onnx/internal/modelfile": {"tensor", "sym", "internal"},
		"onnx/internal/symbolic":  {"graph", "pricing", "expr", "iter/rule", "tensor", "sym", "internal"},
		"onnx/internal/convert": {"onnx/internal/modelfile", "onnx/internal/symbolic", "graph",
			"pricing", "expr", "iter/rule", "tensor", "sym", "internal"},
		"onnx/internal/operators": {"onnx/internal/convert", "onnx/internal/modelfile", "onnx/internal/symbolic", "graph",
			"pricing", "expr", "iter/rule", "tensor", "sym", "internal"},
		"onnx/internal/ml": {"onnx/internal/convert", "onnx/internal/modelfile", "onnx/internal/symbolic", "graph",
			"pricing", "expr", "iter/rule", "tensor", "sym", "internal"},
	}
	never := map[string][]string{
		// Package op is generated from these packages.
		"fusion":   {"kernels", "passes", "exec", "op", "cmd"},
		"kernels":  {"passes", "exec", "op", "cmd"},
		"passes":   {"kernels", "exec", "op", "cmd"},
		"exec":     {"kernels", "passes", "op", "cmd"},
		"internal": {"kernels", "passes", "exec", "op", "cmd"},
		// Programs join passes and exec, for any catalogue of ops.
		"internal/program":  {"kernels", "op", "cmd"},
		"internal/batching": {"kernels", "op", "cmd"},
		// A tracer of runs.
		"internal/steptimes": {"kernels", "passes", "op", "cmd"},
		// Networks and kernels of tests.
		"internal/graphtest/networks": {"passes", "exec", "cmd"}, "internal/gpu/conform/golden": {"passes", "exec", "cmd"},
	}
	for name, deps := range imports(t, func(p listed) []string { return p.Deps }) {
		tree, _, _ := strings.Cut(name, "/")
		for _, d := range deps {
			rule := tree
			if _, ok := only[name]; ok {
				rule = name
			}
			if allowed, ok := only[rule]; ok && !within(d, slices.Concat(allowed, everywhere, []string{rule})...) {
				t.Errorf("%s imports %s; %s may import only %v", name, d, rule, allowed)
			}
			rule = tree
			if _, ok := never[name]; ok {
				rule = name
			}
			if within(d, never[rule]...) {
				t.Errorf("%s must not import %s", name, d)
			}
		}
	}
}

// TestAssemblers checks that instructions of a processor are written only in the package of its target.
func TestAssemblers(t *testing.T) {
	for name, imports := range imports(t, func(p listed) []string { return p.Imports }) {
		for _, d := range imports {
			target, ok := strings.CutSuffix(d, "/asm")
			if ok && !within(name, target, "internal/jit/jittest") {
				t.Errorf("%s imports %s", name, d)
			}
		}
	}
}

// joined are packages that only the root package joins.
var joined = []string{"passes", "onnx"}

// TestFrontDoor checks that the command, the examples and the scripts load, compile and run programs only with the
// root package, inspect, experiment, serve and batch. Strategies are written against passes/layout. The example
// research has its own passes and converters, and cli accepts those of a caller. No other package imports the root
// package.
func TestFrontDoor(t *testing.T) {
	for name, imports := range imports(t, func(p listed) []string { return p.Imports }) {
		outside := within(name, "cli", "cmd", "examples", "scripts/soak", "scripts/barehandler", "scripts/sizes")
		above := outside || within(name, "inspect", "experiment", "serve", "batch")
		for _, d := range imports {
			extends := within(d, "passes/layout") || within(name, "examples/research", "cli")
			if outside && within(d, joined...) && !extends {
				t.Errorf("%s imports %s instead of package %s", name, d, rootPackage)
			}
			if d == rootPackage && !above {
				t.Errorf("%s imports the package at the root", name)
			}
		}
	}
}

// TestTemplates checks that no package of the command imports templates. A template calls methods by name; the linker
// then keeps every exported method, which added two megabytes to the command.
func TestTemplates(t *testing.T) {
	for _, p := range goList(t, "./cmd/graphrun") {
		if _, own := relative(p.ImportPath); !own {
			continue
		}
		for _, d := range p.Imports {
			if d == "html/template" || d == "text/template" {
				t.Errorf("%s imports %s", p.ImportPath, d)
			}
		}
	}
}

// familyImports lists the direct imports between packages under kernels. A family imports another one only if its ops
// consist of the other family's ops.
var familyImports = map[string][]string{
	"kernels/internal/conv":       {"compose", "copies", "geometry", "kit", "multiply", "pointwise"},
	"kernels/internal/extreme":    {},
	"kernels/internal/genbuilder": {"kernels"},
	"kernels/internal/kerneltest": {"kernels", "kit"},
	"kernels/internal/index":      {"copies", "kit"},
	"kernels/internal/compose":    {"copies", "kit", "view"},
	"kernels/internal/composite": {"compose", "fourier", "index", "kit", "linalg", "pointwise", "product", "reduce",
		"view"},
	"kernels/internal/control":   {"kit"},
	"kernels/internal/copies":    {"kit"},
	"kernels/internal/folds":     {"kit"},
	"kernels/internal/fourier":   {"compose", "copies", "kit", "view"},
	"kernels/internal/geometry":  {"kit"},
	"kernels/internal/kit":       {},
	"kernels/internal/linalg":    {"kit"},
	"kernels/internal/text":      {"kit"},
	"kernels/internal/multiply":  {"copies", "kit"},
	"kernels/internal/pointwise": {"compose", "kit", "view"},
	"kernels/internal/pool":      {"copies", "folds", "geometry", "kit"},
	"kernels/internal/product": {"index", "compose", "copies", "folds", "kit", "multiply", "pointwise", "reduce",
		"view"},
	"kernels/internal/quantized": {"conv", "compose", "kit", "pointwise", "pool", "product", "reduce", "view"},
	"kernels/internal/recurrent": {"copies", "kit", "multiply", "pointwise"},
	"kernels/internal/reduce":    {"compose", "copies", "folds", "kit", "pointwise", "view"},
	"kernels/internal/view":      {"copies", "index", "kit"},
	"kernels/internal/window":    {"copies", "kit"},
}

// TestFamilyImports compares the imports between packages under kernels with the list.
func TestFamilyImports(t *testing.T) {
	direct := imports(t, func(p listed) []string { return p.Imports })
	for name, allowed := range familyImports {
		if _, ok := direct[name]; !ok {
			t.Errorf("there is no package %s", name)
		}
		var have []string
		for _, d := range direct[name] {
			if within(d, "kernels") {
				have = append(have, strings.TrimPrefix(d, "kernels/internal/"))
			}
		}
		slices.Sort(have)
		slices.Sort(allowed)
		if !slices.Equal(have, allowed) {
			t.Errorf("%s imports %v; the list has %v", name, have, allowed)
		}
	}
	for name := range direct {
		if _, ok := familyImports[name]; !ok && within(name, "kernels/internal") {
			t.Errorf("%s is not in the list of families", name)
		}
	}
}
