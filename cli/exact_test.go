package cli

import (
	"strings"
	"testing"
)

// convolving is a graph with a convolution that has implementations by other formulas where there is machine code.
const convolving = `{"version": 1,
 "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 32, 28, 28], "memory_format": "channels_last"}],
 "constants": [{"name": "w", "dtype": "float32", "shape": [32, 32, 3, 3], "data": [WEIGHTS]}],
 "nodes": [{"name": "y", "op": "conv2d", "inputs": ["x", "w"], "attrs": {"padding": 1}}],
 "outputs": ["y"]}`

// TestExact: with --exact no command takes an implementation by another formula, and plan says so.
func TestExact(t *testing.T) {
	weights := strings.Repeat("0.5, ", 32*32*9-1) + "0.5"
	path := write(t, "g.json", strings.Replace(convolving, "WEIGHTS", weights, 1))
	impl := func(args ...string) (string, string) {
		text := succeed(t, append([]string{"plan", "--json", path}, args...)...)
		valid(t, "plan", text)
		doc := decode[planJSON](t, text)
		if doc.Exact != (len(args) > 0) {
			t.Errorf("exact is %v under %v", doc.Exact, args)
		}
		return doc.Steps[len(doc.Steps)-1].Impl, text
	}
	is, _ := impl()
	exactly, text := impl("--exact")
	if strings.HasPrefix(exactly, "winograd") {
		t.Errorf("an exact plan has %s", exactly)
	}
	if faster := strings.HasPrefix(is, "winograd"); faster != strings.Contains(text, "inexact implementations of 1 node") {
		t.Errorf("%s is chosen, and an exact plan says %s", is, text)
	}
	if out := succeed(t, "plan", "--exact", path); !strings.HasPrefix(out, "strategy optimal, exact: ") {
		t.Error(out)
	}
	for _, args := range [][]string{{"run"}, {"bench", "--runs", "1"}, {"compare", "--runs", "1"}} {
		succeed(t, append(args, "--exact", path)...)
	}
	certificate := certified(t, path, "--exact")
	succeed(t, "verify", path, certificate)
}
