package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/inspect"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/report"
)

// coded is a graph with two nodes in one loop, a function in Go, and one that reads that.
const coded = `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [8, 20]},
  {"name": "row", "dtype": "float32", "shape": [8, 1]}, {"name": "k", "dtype": "int64", "shape": [6]}],
 "nodes": [{"name": "a", "op": "mul", "inputs": ["x", "row"]}, {"name": "b", "op": "add", "inputs": ["a", "x"]},
  {"name": "quotient", "op": "floor_divide", "inputs": ["k", "k"]},
  {"name": "e", "op": "add", "inputs": ["quotient", "k"]}], "outputs": ["b", "e"]}`

// What was generated for a step is shown with the expression and the operands, by the name of any of its nodes.
func TestPlanCode(t *testing.T) {
	path := write(t, "g.json", coded)
	for _, step := range []string{"a", "b"} {
		c := decode[planJSON](t, succeed(t, "plan", "--json", path, "--code", step)).Code
		if c == nil || c.Step != "b" || !slices.Equal(c.Ops, []string{"a", "b"}) || len(c.Loops) != 1 {
			t.Fatalf("code of %s: %+v", step, c)
		}
		l := c.Loops[0]
		want := []inspect.Access{{DType: "float32", Access: "contiguous"}, {DType: "float32", Access: "broadcast"}}
		if !slices.Equal(l.Operands, want) || len(l.Results) != 1 || !strings.Contains(l.Expression, "mul.float32 v0 v1") {
			t.Errorf("loop %+v", l)
		}
		multiplies := strings.Contains(l.Assembly, "VMULPS") || strings.Contains(l.Assembly, "\tfmul\t")
		if jit.Available() == nil != multiplies || (l.Assembly == "") != (l.Why != "") {
			t.Errorf("jit: %v, code %q, why %q", jit.Available(), l.Assembly, l.Why)
		}
		text := succeed(t, "plan", path, "--code", step)
		for _, part := range []string{"step b: a, b", "broadcast", l.Expression, l.Assembly, l.Why} {
			if !strings.Contains(text, part) {
				t.Errorf("no %q in\n%s", part, text)
			}
		}
	}
	rows := write(t, "rows.json", `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [8, 20]}],
 "nodes": [{"name": "s", "op": "softmax", "inputs": ["x"], "attrs": {"dim": 1}}], "outputs": ["s"]}`)
	if out := succeed(t, "plan", rows, "--code", "s"); strings.Contains(out, "invalid") ||
		jit.Available() == nil != strings.Contains(out, "\nfold: add of v") {
		t.Errorf("what is folded: %s", out)
	}
	if out := succeed(t, "plan", path, "--code", "quotient"); !strings.Contains(out, "has no expression") {
		t.Errorf("a function in Go: %s", out)
	}
	r := call(t, "plan", path, "--code", "quotent")
	if r.code != 2 || !strings.Contains(r.errors, `there is no step "quotent"; did you mean quotient?`) {
		t.Errorf("exit %d: %s", r.code, r.errors)
	}
}

// Where machine code is switched off the loop says so.
func TestPlanCodeInGo(t *testing.T) {
	path := write(t, "g.json", coded)
	r := piped(t, []string{"GRAPHRUN_JIT=off"}, "plan", path, "--code", "b")
	if r.code != 0 || strings.Contains(r.out, "VMULPS") ||
		!strings.Contains(r.out, "The loop runs in Go: switched off by GRAPHRUN_JIT=off") {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.errors)
	}
}

// Without fusion every node is a step in all commands that plan; with fusion, the reasons for separate steps are
// listed.
func TestNoFusion(t *testing.T) {
	path := write(t, "g.json", coded)
	doc := decode[planJSON](t, succeed(t, "plan", "--json", path))
	want := []report.Unfused{{Node: "quotient", Reader: "e", Why: "quotient has no expression"}}
	if len(doc.Steps) != 3 || !slices.Equal(doc.Unfused, want) {
		t.Errorf("%d steps, unfused %+v", len(doc.Steps), doc.Unfused)
	}
	if out := succeed(t, "plan", path); !strings.Contains(out, "Not fused") || !strings.Contains(out, want[0].Why) {
		t.Error(out)
	}
	doc = decode[planJSON](t, succeed(t, "plan", "--json", path, "--no-fusion"))
	passes := strings.Join(strings.Fields(fmt.Sprint(doc.Passes)), " ")
	if len(doc.Steps) != 4 || len(doc.Unfused) != 0 || strings.Contains(passes, "{group") {
		t.Errorf("%d steps, unfused %+v, passes %s", len(doc.Steps), doc.Unfused, passes)
	}
	bench := decode[benchDoc](t, succeed(t, "bench", "--json", path, "--no-fusion", "--runs", "1", "--seed", "1"))
	if bench.Steps != 4 {
		t.Errorf("bench: %d steps", bench.Steps)
	}
	for _, args := range [][]string{{"run", path}, {"compare", path, "--runs", "1"}} {
		succeed(t, append(args, "--no-fusion")...)
	}
}
