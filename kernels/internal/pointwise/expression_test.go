package pointwise_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// permuted returns a dense layout with a random order of dimensions.
func permuted(r *rand.Rand, d tensor.DType, shape []int) tensor.Meta {
	st, step := make([]int, len(shape)), 1
	for _, k := range r.Perm(len(shape)) {
		st[k] = step
		step *= shape[k]
	}
	return tensor.New(d, shape...).WithStrides(st)
}

// TestExpressionAsAdd compares x + y with add: promotion, zero-dim operands, plain numbers and layouts must agree.
func TestExpressionAsAdd(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	dtypes := tensor.DTypes()
	shapes := [][]int{{}, {1}, {4}, {3, 4}, {2, 1, 4}, {2, 3, 4}, {5, 2, 3, 4}, {5, 2, 1, 1}}
	for range 600 {
		d := dtypes[r.IntN(len(dtypes))]
		other := d
		if r.IntN(2) == 0 {
			other = dtypes[r.IntN(len(dtypes))]
		}
		g := graphrun.New("g")
		x := g.InputMeta("x", permuted(r, d, shapes[r.IntN(len(shapes))]))
		y := []any{true, 3, 1.5, 2i}[r.IntN(4)]
		if r.IntN(4) > 0 {
			y = g.InputMeta("y", permuted(r, other, shapes[r.IntN(len(shapes))]))
		}
		a := g.Apply("add", nil, x, y)[0]
		p := g.Apply("pointwise", graph.Attrs{"expr": "x + y"}, x, y)[0]
		if g.Err() != nil {
			if a.Number() >= 0 || p.Number() >= 0 { // both must be rejected
				t.Errorf("%v + %v: %v", x.Meta, y, g.Err())
			}
			continue
		}
		if a.Meta.DType != p.Meta.DType || !slices.Equal(a.Meta.Shape, p.Meta.Shape) ||
			d == other && !slices.Equal(a.Meta.Strides, p.Meta.Strides) {
			t.Fatalf("%v + %v: add gives %v, the expression %v", x.Meta, y, a.Meta, p.Meta)
		}
		g.Output("a", a).Output("p", p)
		in := map[string]*tensor.Tensor{"x": kerneltest.Filled(x.Meta, kerneltest.NonzeroValues(r))}
		if v, ok := y.(*graph.Value); ok {
			in["y"] = kerneltest.Filled(v.Meta, kerneltest.NonzeroValues(r))
		}
		out, err := graphrun.Run(context.Background(), g, in)
		if err != nil {
			t.Fatal(err)
		}
		if err := kerneltest.CompareTensors(out["p"], out["a"]); err != nil {
			t.Fatalf("%v + %v: %v", x.Meta, y, err)
		}
	}
}

// TestExpressionResults compares an expression with two results, attributes and named operands with the reference. Its
// bits must be the same for any number of workers.
func TestExpressionResults(t *testing.T) {
	const n = 100_000
	g := graphrun.New("g")
	x, b := g.Input("x", tensor.Float32, 3, n), g.Input("b", tensor.BFloat16, n)
	attrs := graph.Attrs{"expr": "s = gain * tanh(left) + right; (s, s > 0)", "params": []string{"left", "right"},
		"gain": 2}
	out := g.Apply("pointwise", attrs, x, b)
	if g.Err() != nil || len(out) != 2 {
		t.Fatalf("%d results: %v", len(out), g.Err())
	}
	if out[0].Meta.DType != tensor.Float32 || out[1].Meta.DType != tensor.Bool {
		t.Errorf("results are %v and %v", out[0].Meta, out[1].Meta)
	}
	g.Output("s", out[0]).Output("positive", out[1])
	r := rand.New(rand.NewPCG(1, 2))
	in := []*tensor.Tensor{kerneltest.Filled(x.Meta, kerneltest.NonzeroValues(r)),
		kerneltest.Filled(b.Meta, kerneltest.NonzeroValues(r))}
	want, err := out[0].Node.Op.Ref(out[0].Node.Call(), in)
	if err != nil {
		t.Fatal(err)
	}
	var first *tensor.Tensor
	for _, threads := range []int{1, 2, 7} {
		p, err := graphrun.Compile(t.Context(), g, graphrun.Options{Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Run(context.Background(), map[string]*tensor.Tensor{"x": in[0], "b": in[1]})
		if err != nil {
			t.Fatal(err)
		}
		results := []*tensor.Tensor{got["s"], got["positive"]}
		if err := kerneltest.CompareResults(out[0].Node.Op, out[0].Node.Call(), in, results, want); err != nil {
			t.Errorf("%d threads: %v", threads, err)
		}
		if first == nil {
			first = got["s"]
		}
		if !bytes.Equal(first.Storage().Bytes(), got["s"].Storage().Bytes()) {
			t.Errorf("the bits differ with %d threads", threads)
		}
	}
}

// expressionFile returns a graph file with one node, with the given text and other attributes.
func expressionFile(text, more string) string {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text)
	return fmt.Sprintf(`{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3]},
 {"name": "k", "dtype": "int32", "shape": [3]}],
"nodes": [{"name": "n", "op": "pointwise", "inputs": ["x", "k"], "attrs": {"expr": "%s"%s}}], "outputs": ["n"]}`,
		quoted, more)
}

func loadText(text string) (*graph.Graph, error) {
	return graphfile.Read(strings.NewReader(text), kernels.Lookup, graphfile.Options{Name: "g.json"})
}

// TestExpressionErrors checks that errors give the position of the attribute in the file and the column in the text.
func TestExpressionErrors(t *testing.T) {
	const at = `g.json:3:76: node "n" (pointwise): attribute "expr": `
	const behind = `node "n" (pointwise): attribute `
	deep := strings.Repeat("(", 500) + "x" + strings.Repeat(")", 500)
	for _, c := range []struct{ text, more, want string }{
		{"x + sigmod(y)", "", at + `column 5: unknown function "sigmod"; did you mean sigmoid?`},
		{"", "", at + "column 1: an expression is missing"},
		{"x + z", "", at + `column 5: unknown name "z": it is neither an operand nor a given number`},
		{"x & y", "", at + "column 3: an operation on bits of float32 is undefined"},
		{"t = t + x; t", "", at + "column 1: t is defined by itself"},
		{deep, "", at + "column 202: parentheses and operators are nested more than 200 deep"},
		{strings.Repeat("x + ", 5000) + "x", "", at},
		{strings.Repeat("x", 1<<17), "", at + "column 1: the text has 131072 bytes"},
		{"x", `, "gain": 2`, `g.json:3:89: ` + behind + `"gain": the expression names no such number`},
		{"alpha * x", `, "alhpa": 2`, behind + `"alhpa": the expression names no such number; did you mean alpha?`},
		{"x", `, "x": 2`, behind + `"x": an input has this name`},
		{"alpha * x", `, "alpha": "big"`, behind + `"alpha": want a number, got "big"`},
		{"alpha * x", `, "alpha": [1, 2, 3]`, behind + `"alpha": want a number`},
		{"p", `, "params": ["p"]`, behind + `"params": it names 1 inputs, and there are 2`},
		{"p", `, "params": ["p", "p"]`, behind + `"params": "p" cannot be the name of an operand`},
		{"p", `, "params": "p q"`, behind + `"params": "p q" cannot be the name of an operand`},
		{"(x, y)", "", `makes 2 values: name them under "outputs"`},
	} {
		_, err := loadText(expressionFile(c.text, c.more))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "g.json:3:") {
			t.Errorf("%.40s %s: got %v, want %s", c.text, c.more, err, c.want)
		}
	}
	if _, err := loadText(strings.Replace(expressionFile("x", ""), `"inputs": ["x", "k"], `, "", 1)); err == nil {
		t.Error("an expression without operands is accepted")
	}
}

// TestExpressionOfData checks that syntax errors are found when a file is loaded, even if operands are known only in
// the run.
func TestExpressionOfData(t *testing.T) {
	text := strings.Replace(expressionFile("exp(x) +", ""), `"nodes": [`,
		`"nodes": [{"name": "places", "op": "nonzero", "inputs": ["x"]}, `, 1)
	text = strings.Replace(text, `["x", "k"]`, `["places"]`, 1)
	if _, err := loadText(text); err == nil || !strings.Contains(err.Error(), "column 9: an operand is missing") {
		t.Errorf("got %v", err)
	}
}

// FuzzExpression loads any text from a file: errors must give position and column, and valid expressions must agree
// with the reference.
func FuzzExpression(f *testing.F) {
	for _, s := range []string{"x + y", "where(x > 0, x * sigmoid(x), alpha * y)", "t = x % 3; gelu(t) // y", "y << 3 | 1",
		"complex(x, y) ** 2", "nan_to_num(x / 0)", "(x, y)", "float16(x) - 1e-3", "x +", "é", "lerp(x, y, 0.5)"} {
		f.Add(s)
	}
	place := regexp.MustCompile(`^g\.json:3:\d+: (node "n" \(pointwise\): attribute "expr": column \d+: |.*makes \d+ values)`)
	r := rand.New(rand.NewPCG(5, 6))
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0xfffd }) {
			return // not for JSON
		}
		g, err := loadText(expressionFile(text, ""))
		if err != nil {
			if !place.MatchString(err.Error()) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		n := g.Nodes[0]
		var in []*tensor.Tensor
		for _, v := range g.Inputs {
			in = append(in, kerneltest.Filled(v.Meta, kerneltest.NonzeroValues(r)))
		}
		if err := kerneltest.CheckCall(n.Op, n.Call(), in); err != nil && !strings.ContainsAny(text, "%/") &&
			!strings.Contains(text, "div") && !strings.Contains(text, "mod") && !strings.Contains(text, "remainder") {
			t.Errorf("%q: %v", text, err) // integer division by 0 is unspecified
		}
	})
}
