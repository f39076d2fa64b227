package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/report"
)

// pinFlags demand two layouts of the residual block: without them image and act1 are channels-last.
var pinFlags = []string{"--pin", "image=contiguous", "--pin", "act1=contiguous"}

// rowMajor are the strides of both.
var rowMajor = []int{2048, 256, 16, 1}

func onResidual(command string, more ...string) []string {
	return append([]string{command, models + "/residual.json", "--dim", "N=2"}, more...)
}

// laidOut reports whether a plan has a value in a layout, computed or copied.
func laidOut(doc planJSON, name string, strides []int) bool {
	return slices.ContainsFunc(doc.Steps, func(s report.Step) bool {
		return s.Name == name && slices.Equal(s.Strides, strides)
	}) || slices.ContainsFunc(doc.Copies, func(c report.Copy) bool {
		return c.Value == name+".unpinned" && slices.Equal(c.To, strides)
	})
}

func copiesImage(list []report.Copy) bool {
	return slices.ContainsFunc(list, func(c report.Copy) bool {
		return c.Value == "image" && strings.Contains(c.Why, "; `image` is pinned to (N,C,H,W); ") &&
			slices.Equal(c.To, rowMajor)
	})
}

// TestPins checks that plan, run, diff and compare meet pins under every strategy, and price the same plans.
func TestPins(t *testing.T) {
	free := decode[planJSON](t, succeed(t, onResidual("plan", "--json")...))
	if copiesImage(free.Copies) || laidOut(free, "act1", rowMajor) {
		t.Fatal("the pins demand nothing")
	}
	best := decode[planJSON](t, succeed(t, onResidual("plan", append(pinFlags, "--json")...)...))
	if !best.Optimal || best.Bound == nil || *best.Bound != best.CostNS || best.CostNS <= free.CostNS {
		t.Errorf("%g is proved: %v, from %v on; without pins %g", best.CostNS, best.Optimal, best.Bound, free.CostNS)
	}
	rows := decode[compareDoc](t, succeed(t, onResidual("compare", append(pinFlags, "--strategies", "all", "--runs", "1",
		"--json")...)...))
	if !rows.Equal || len(rows.Strategies) != len(graphrun.Strategies()) {
		t.Fatalf("%+v", rows)
	}
	for i, s := range graphrun.Strategies() {
		how := append(slices.Clone(pinFlags), "--strategy", s.Name())
		text := succeed(t, onResidual("plan", append(how, "--json")...)...)
		valid(t, "plan", text)
		doc := decode[planJSON](t, text)
		if !copiesImage(doc.Copies) || !laidOut(doc, "act1", rowMajor) {
			t.Errorf("%s: copies %+v, steps %+v", s.Name(), doc.Copies, doc.Steps)
		}
		if doc.CostNS < best.CostNS || rows.Strategies[i].CostNS != doc.CostNS {
			t.Errorf("%s costs %g, in compare %g, the least is %g", s.Name(), doc.CostNS, rows.Strategies[i].CostNS,
				best.CostNS)
		}
		told := decode[diffDoc](t, succeed(t, onResidual("diff", append(slices.Clone(pinFlags), "--strategies", s.Name(),
			"--json")...)...))
		unpinned := decode[planJSON](t, succeed(t, onResidual("plan", "--json", "--strategy", s.Name())...))
		copied := slices.ContainsFunc(unpinned.Copies, func(c report.Copy) bool {
			return c.Value == "image" && slices.Equal(c.To, rowMajor)
		})
		differs := copied || !told.Same && copiesImage(told.OnlySecond)
		if told.Second.CostNS != doc.CostNS || !differs {
			t.Errorf("%s: %+v", s.Name(), told)
		}
		out := succeed(t, onResidual("run", append(how, "--seed", "1")...)...)
		if !strings.Contains(out, "[2048,256,16,1]") {
			t.Errorf("%s:\n%s", s.Name(), out)
		}
	}
}

// TestPinnedSensitivity checks that no bandwidth of copies removes a copy that a pin requires.
func TestPinnedSensitivity(t *testing.T) {
	free := decode[planJSON](t, succeed(t, onResidual("plan", "--sensitivity", "--json")...)).Sensitive
	s := decode[planJSON](t, succeed(t, onResidual("plan", "--sensitivity", "--json", "--pin",
		"image=contiguous")...)).Sensitive
	if free == nil || s == nil || s.CopiedBytes < free.CopiedBytes+16384 || s.CopyNS <= free.CopyNS {
		t.Fatalf("%+v, %+v", free, s)
	}
	if s.Slower != nil {
		for _, c := range s.Slower.Change.Gone {
			if c.Value == "image" {
				t.Errorf("%+v", s.Slower)
			}
		}
	}
}

// TestPinRefusals checks the errors for pins that cannot be met and for malformed pins.
func TestPinRefusals(t *testing.T) {
	gaps := write(t, "gaps.json", `{"version": 1,
 "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3], "strides": [6, 1]}],
 "nodes": [{"name": "part", "op": "as_strided", "inputs": ["x"], "attrs": {"size": [2], "stride": [3]}},
           {"name": "rows", "op": "slice", "inputs": ["x"], "attrs": {"dim": 1, "end": 2}}],
 "outputs": ["part", "rows"]}`)
	flat := write(t, "flat.json", `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 8, 6, 6]}],
 "nodes": [{"name": "r", "op": "relu", "inputs": ["x"]},
           {"name": "flat", "op": "view", "inputs": ["r"], "attrs": {"size": [2, -1]}},
           {"name": "rows", "op": "view", "inputs": ["x"], "attrs": {"size": [2, -1]}},
           {"name": "transposing", "op": "permute", "inputs": ["x"], "attrs": {"dims": [0, 2, 3, 1]}}],
 "outputs": ["flat", "rows", "transposing"]}`)
	block := models + "/residual.json"
	for args, want := range map[string]string{
		block + " --pin imag=contiguous":      `--pin imag=contiguous: there is no value or node "imag"; did you mean "image"?`,
		block + " --pin w1.packed=contiguous": `there is no value or node "w1.packed"`,
		block + " --pin conv1": "--pin conv1: want NAME=FORMAT, NAME=order:0,2,3,1, " +
			"NODE=impl:NAME or NODE=device:NAME",
		block + " --exact --pin conv1=impl:winograd4": `(fused_conv2d): pin conv1=impl:winograd4: ` +
			`the implementation is inexact`,
		block + " --pin b1=channels_last":                           `"b1": required rank 4 tensor to use channels_last format`,
		block + " --pin image=impl:nhwc":                            `"image": a value that no node computes can be pinned only to a layout: only nodes have implementations`,
		block + " --pin image=contiguous --pin image=channels_last": "--pin gives image twice: contiguous and channels_last",
		block + " --pin conv1=impl:nhwc --pin conv1=impl:nchw":      "--pin gives conv1 twice: impl:nhwc and impl:nchw",

		flat + " --pin r=channels_last": "--pin r=channels_last: " + flat +
			`:3:70: node "flat" (view): view size is not compatible with input tensor's size and stride`,
		gaps + " --pin x=order:1,0": `pin x=order:1,0: not met: the node reads the storage of "x"`,
	} {
		if r := call(t, append([]string{"plan"}, strings.Fields(args)...)...); r.code == exit.CodeDone ||
			!strings.Contains(r.errors, want) {
			t.Errorf("%s: exit %d, %q", args, r.code, r.errors)
		}
	}
	const why = "`rows` needs dimension order (1,2,3,0), pinned to order:1,0; the copy costs "
	if out := succeed(t, "plan", flat, "--pin", "rows=order:1,0"); !strings.Contains(out, why) {
		t.Errorf("no %q in\n%s", why, out)
	}
	for _, pins := range [][]string{{"image=contiguous", "image=contiguous"}, {"conv1=contiguous", "conv1=impl:nchw"}} {
		succeed(t, onResidual("plan", "--pin", pins[0], "--pin", pins[1])...)
	}
}

// TestPinShown pins steps by the names that plan shows.
func TestPinShown(t *testing.T) {
	for _, name := range []string{"conv1", "act1", "conv1+act1", "con…1", "con…1+act1"} {
		doc := decode[planJSON](t, succeed(t, onResidual("plan", "--json", "--pin", name+"=impl:nhwc")...))
		for _, step := range doc.Steps {
			if pinned := step.Name == "act1"; step.Name == "conv2" && step.Impl == "nhwc" || pinned && step.Impl != "nhwc" {
				t.Errorf("--pin %s=impl:nhwc: %s has %s", name, step.Name, step.Impl)
			}
		}
	}
	doc := decode[planJSON](t, succeed(t, onResidual("plan", "--json", "--pin", "conv1+act1=contiguous")...))
	if !laidOut(doc, "act1", rowMajor) {
		t.Errorf("%+v", doc.Steps)
	}
	for pin, want := range map[string]string{
		"conv…=impl:nhwc": `"conv…" may be any of "conv1", "conv2"`,
		"conv1+conv2=impl:nhwc": `"conv1+conv2" is computed from several nodes with an implementation "nhwc": ` +
			`name one of "conv1", "conv2"`,
		"conv1+act1=impl:n":      `conv2d has no implementation "n": want one of direct_nhwc`,
		"act1=impl:n":            `relu has no implementation "n": want one of loop`,
		"conv1+acts=impl:nhwc":   `there is no value or node "conv1+acts"`,
		"conv1+act1=device:cpu":  "name the node to be pinned to a device",
		"con…x=impl:nhwc":        `there is no value or node "con…x"`,
		"con…+act1=impl:nhwc":    `"con…" may be any of "conv1", "conv2"`,
		"conv1+image=contiguous": `there is no value or node "conv1+image"`,
	} {
		if r := call(t, onResidual("plan", "--pin", pin)...); r.code != exit.CodeUsage || !strings.Contains(r.errors, want) {
			t.Errorf("--pin %s: exit %d, %q", pin, r.code, r.errors)
		}
	}
}
