package graph_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

const allForms = `symbol M min=2 max=64 hint=8
symbol "a-b" hint=3
x: float32[M, 3, 4]@(12, 1, 3)+4 = input
"a b": float32[M - 1, 3] = input pin contiguous
l: float32[M, 3, 4, 4]@channels_last = input
o: float32["a-b", M//2]@(M + 1, 1)+2*M + 1 = input
i: int64[2] = constant [-9223372036854775808, 7]
u: uint64[3] = constant [0, 9223372036854775808, 18446744073709551615]
w: float32[4] = constant [0.5, -1.0, 2e+20, -Infinity]
z: complex64[1] = constant [(1.5, -2.0)]
big: float32[5, 50]@(1, 5) = constant
"3": float32[8, 4, 3]+4 = permute(x, dims=[0, 2, 1]) view of x
p: float32[8, 4, 3]@(12, 1, 4) = relu("3") pin order:0,2,1 pin device:cpu # a reason
v: float32[8, 4, 2], k_2: int64[8, 4, 2] = topk(p, k=2)
s: float32[8, 4, 2] = add(v, v, alpha=2)
q: float32[8, 4, 2] = mul(s, -2.0)
f: bool[8, 4, 2] = isinf(q)
t: float64[8, 4, 2] = to(f, dtype="float64")
h: float32[8, 4, 2] = clamp(s, min=0.0)
output p
output "out 2" = k_2
output q pin contiguous
output t
output h
`

// TestTextForms reads and writes all forms of statements.
func TestTextForms(t *testing.T) {
	g, err := graph.Parse(allForms, kernels.Lookup)
	require.NoError(t, err)
	assert.Equal(t, 8, *g.Symbols["M"].Hint)
	assert.Equal(t, []int{12, 1, 3}, g.Value("x").Meta.Strides)
	assert.Equal(t, 4, g.Value("x").Meta.Offset)
	assert.Equal(t, tensor.Contiguous, g.Value("a b").Pin.Format)
	assert.Equal(t, int64(-1<<63), g.Value("i").Const.At(0).Int())
	assert.InDelta(t, float64(float32(2e20)), g.Value("w").Const.At(2).Float(), 0)
	assert.Equal(t, complex(1.5, -2), g.Value("z").Const.At(0).Complex())
	for i := range 5 * 50 {
		require.InDelta(t, float64(i%17-8)/8, g.Value("big").Const.At(i/50, i%50).Float(), 0)
	}
	assert.Equal(t, "device:cpu", graph.Pin{Device: g.Value("p").Node.Pin.Device}.String())
	assert.Equal(t, strings.Replace(allForms, " # a reason", "", 1), written(t, g))
}

// TestTextOfDocument reads the example of docs/files.md.
func TestTextOfDocument(t *testing.T) {
	document, err := os.ReadFile("../docs/files.md")
	require.NoError(t, err)
	_, text, found := strings.Cut(string(document), "\n    symbol N")
	require.True(t, found)
	text, _, _ = strings.Cut("    symbol N"+text, "\n\n")
	g, err := graph.Parse(text, kernels.Lookup)
	require.NoError(t, err)
	assert.Len(t, g.Outputs, 3)
	again, err := graph.Parse(written(t, g), kernels.Lookup)
	require.NoError(t, err)
	assert.Equal(t, written(t, g), written(t, again))
}

func written(t *testing.T, g *graph.Graph) string {
	var b strings.Builder
	require.NoError(t, g.WriteText(&b, ""))
	return b.String()
}

// TestTextOfGraphFiles writes the graphs of the examples as text, and reads them.
func TestTextOfGraphFiles(t *testing.T) {
	files, err := os.ReadDir("../examples/models")
	require.NoError(t, err)
	read := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".json") {
			continue
		}
		g, err := graphfile.Load("../examples/models/"+f.Name(), kernels.Lookup)
		require.NoError(t, err)
		text := written(t, g)
		again, err := graph.Parse(text, kernels.Lookup)
		require.NoError(t, err, "%s:\n%s", f.Name(), text)
		require.Equal(t, text, written(t, again), f.Name())
		for k, n := range g.Nodes {
			for i, v := range n.Out {
				require.Equal(t, v.Meta, again.Nodes[k].Out[i].Meta, "%s: %s", f.Name(), v.Name)
			}
		}
		read++
	}
	require.GreaterOrEqual(t, read, 5)
}

// TestTextMistakes: each mistake has a line and a column.
func TestTextMistakes(t *testing.T) {
	const x = "x: float32[2, 3] = input\n"
	for text, want := range map[string]string{
		x + "y: = relu(z)":                                        `text:2:11: no value "z" is defined before`,
		x + "y: = rellu(x)":                                       `text:2:1: node "y" (rellu): there is no op "rellu"`,
		x + "y: float32[2] = relu(x)":                             `text:2:1: node "y" (relu): y is [2, 3], but the text has [2]`,
		x + "y: int64[2, 3] = relu(x)":                            `text:2:1: node "y" (relu): y is float32, but the text has int64`,
		x + "x: = relu(x)":                                        `text:2:1: two values are named "x"`,
		x + "a, b: = relu(x)":                                     `text:2:1: node "a" (relu): makes 1 values, want 2`,
		x + "y: = permute(x, dims=[0, 1)":                         `text:2:27: want ","`,
		x + "y: = permute(x, dims=[0, 1], 2)":                     `text:2:30: want an attribute: operands come before attributes`,
		x + "y: = permute(x, dims=[0], dims=[0])":                 `text:2:27: attribute "dims" is given twice`,
		x + "y: = relu(x) pin sideways":                           `text:2:18: "sideways" is not a pin`,
		x + "y: = relu(x) x":                                      `text:2:14: want the end of the line, have "x"`,
		x + "output y":                                            `text:2:8: no value "y" is defined before`,
		x + "output x\noutput x":                                  `text:3:1: two outputs are named "x"`,
		"x: float33[2] = input":                                   `text:1:4: `,
		"x: float32[2 = input":                                    `text:1:`,
		"x: = input":                                              `text:1:1: an input has one name and a type`,
		"x: float32[2] = entrance":                                `text:1:25: want the operands of entrance in parentheses`,
		"c: float32[2] = constant [1.0]":                          `text:1:31: constant "c" has 1 elements, its shape [2]`,
		"c: float32[2] = constant [1.0, \"a\"]":                   `text:1:1: constant "c": element 1 is no float32`,
		"c: float32[70368744177664] = constant":                   `text:1:1: `,
		"c: float32[2] = constant: float32[2] in":                 `text:1:1: constant "c" is packed for an implementation`,
		"c: float32[4611686018427387904]@(0) = constant":          `text:1:1: `,
		"c: float32[30000000000000]@(0) = constant":               `text:1:1: constant "c": `,
		"symbol N min=5 max=3":                                    `text:1:8: symbol "N": want 0 <= min <= max, got min 5 and max 3`,
		"symbol N min=-1":                                         `text:1:8: symbol "N": want 0 <= min <= max, got min -1 and max 0`,
		"symbol N max=3 hint=4":                                   `text:1:8: symbol "N": the hint 4 is outside its bounds: min 0, max 3`,
		"symbol N hint=4\nsymbol N hint=5":                        `text:2:8: symbol "N": want one line, before the first use`,
		"x: float32[N] = input\nsymbol N hint=5":                  `text:2:8: symbol "N": want one line, before the first use`,
		"x: float32[2] = input pin impl:loop":                     `text:1:23: "x": a value that no node computes can be pinned only to a layout`,
		"x: float32[2] = input pin channels_last":                 `text:1:23: "x": `,
		"c: float32[2] = constant pin device:cpu":                 `text:1:26: "c": a value that no node computes can be pinned only to a layout`,
		x + "y: = relu(x) pin contiguous pin order:1,0":           `text:2:33: pin order:1,0: the value has another such pin`,
		`symbol "" hint=3`:                                        `text:1:8: want a name`,
		`x: float32[""] = input`:                                  `text:1:12: want a name`,
		"symbol N most=3":                                         `text:1:9: want min, max or hint, have "most"`,
		"}":                                                       `text:1:1: want a statement, have "}"`,
		x + `y: = relu("x`:                                        `text:2:11: want the end of the quoted text`,
		x + "y: = f(x, a=" + strings.Repeat("[", 5000):            `text:2:77: lists and graphs are nested more than 64 deep`,
		x + "y: = f(x, a=" + strings.Repeat("{\na: = f(a=", 5000): `text:66:10: lists and graphs are nested more than 64 deep`,
		x + "y: = add(x, " + strings.Repeat("(", 5000):            `text:2:14: want ","`,
		x + "y: = mul(x, 18446744073709551615)":                   `text:2:1: node "y" (mul): `,
		"c: int64[2] = constant [1, 1.5]":                         `text:1:1: constant "c": element 1 is no int64`,
		"c: int64[1] = constant [9223372036854775808]":            `text:1:1: constant "c": element 0 is no int64`,
		"c: uint8[1] = constant [256]":                            `text:1:1: constant "c": element 0 is no uint8`,
		"c: uint64[1] = constant [-1]":                            `text:1:1: constant "c": element 0 is no uint64`,
		"c: float32[1] = constant [(1.0, 2.0)]":                   `text:1:1: constant "c": element 0 is no float32`,
	} {
		_, err := graph.Parse(text, kernels.Lookup)
		require.Error(t, err, text)
		assert.True(t, strings.HasPrefix(err.Error(), want), "%s:\n%v", text, err)
	}
}

var constantShapes = regexp.MustCompile(`\[[^\]]*\][^\n]*=\s*constant`)

// FuzzText reads any text: a graph that is read is written and read again as the same graph.
func FuzzText(f *testing.F) {
	f.Add(allForms)
	f.Add("x: float32[2] = input\nc: bool[] = input\ny: = if(c, x, x, then_branch={\n a: float32[2] = input\n output a\n}, else_branch={\n a: float32[2] = input\n output a\n})\noutput y")
	f.Fuzz(func(t *testing.T, text string) {
		for _, shape := range constantShapes.FindAllString(text, -1) {
			if digits := strings.FieldsFunc(shape, func(r rune) bool { return r < '0' || r > '9' }); len(strings.Join(digits, "")) > 6 {
				return // a large constant takes memory, not thought
			}
		}
		g, err := graph.Parse(text, kernels.Lookup)
		if err != nil {
			return
		}
		once := written(t, g)
		again, err := graph.Parse(once, kernels.Lookup)
		require.NoError(t, err, once)
		require.Equal(t, once, written(t, again))
	})
}
