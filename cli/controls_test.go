package cli

import (
	"archive/zip"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// forged begins a line that only a line break in a name can begin.
const forged = "FORGED"

// controls has characters that control a terminal; a name in a file also has a line break, and the name of a file has
// bytes that are not UTF-8.
const (
	controls     = "\x1b[31mred\x1b]0;title\x07\r\u009b1m\u202e\u200f\x7f"
	named        = controls + "\n" + forged
	controlBytes = controls + "\x9b\xff"
)

// hostileFiles writes files with controls in all places for texts, and returns their paths. The first two are valid.
func hostileFiles(t *testing.T, dir string) (paths []string) {
	t.Helper()
	write := func(name string, content []byte) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o644))
		paths = append(paths, path)
	}
	quoted, err := json.Marshal(named)
	require.NoError(t, err)
	name := strings.Trim(string(quoted), `"`)
	const good = `{"version": 1, "name": "NAME", "symbols": {"N": {}}, "inputs": [{"name": "NAMEx", "dtype": "float32",
		"shape": ["N", 4, 8, 8]}], "constants": [{"name": "NAMEw", "dtype": "float32", "shape": [4, 4, 1, 1], "data": DATA}],
		"nodes": [{"name": "NAMEc", "op": "conv2d", "inputs": ["NAMEx", "NAMEw"]}, {"name": "NAME", "op": "relu",
		"inputs": ["NAMEc"]}, {"name": "NAMEy", "op": "permute", "inputs": ["NAME"], "attrs": {"dims": [0, 2, 3, 1]}}],
		"outputs": ["NAMEy", "NAME"]}`
	valid := strings.ReplaceAll(good, "DATA", "[1"+strings.Repeat(", 1", 15)+"]")
	for i, change := range [][2]string{{}, {`"relu"`, `"NAMEop"`}, {`"N": {}`, `"NAME": {"min": "NAME"}`},
		{`"data"`, `"NAME"`}, {`"data": DATA`, `"file": "NAME.npy"`}, {`"data": DATA`, `"file": "NAME.safetensors", "key": "NAME"`},
		{`"dims": [`, `"NAME": [`}, {`[0, 2, 3, 1]`, `["NAME"]`}, {`[0, 2, 3, 1]`, `[0, 2, 3]`}, {`"float32"`, `"NAME"`},
		{`["N", 4`, `["NAME", 4`}, {`["NAMEx",`, `["NAMEq",`}, {`"outputs": ["NAMEy"`, `"outputs": ["NAMEz"`},
		{`"version"`, `"NAME"`}, {`"NAMEx", "NAMEw"`, `"NAMEx", "NAMEw", "NAMEy"`}, {`{"version`, `NAME{"version`},
		{`"NAMEw"]`, `"NAMEw"], "memory_format": "NAME"`}, {`"relu"`, `"if"`}, {`"name": "NAMEc"`, `"name": "NAMEx"`}} {
		text := valid
		if change[0] != "" {
			require.Contains(t, good, change[0])
			text = strings.ReplaceAll(strings.Replace(good, change[0], change[1], 1), "DATA", "[1]")
		}
		write(fmt.Sprintf("%d%s.json", i, controlBytes), []byte(strings.ReplaceAll(text, "NAME", name)))
		if i == 0 {
			write(controlBytes+"good.onnx", hostileModel("Relu", "", named, false))
		}
	}
	write("operator.onnx", hostileModel("Nope"+named, named, named, false))
	write("attribute.onnx", hostileModel("Elu", "", named, false))
	write("external.onnx", hostileModel("Relu", "", named, true))
	write("names.npz", archive(t, named))
	return paths
}

func hostileModel(op, domain, name string, external bool) []byte {
	info := func(name string) *onnxpb.ValueInfoProto {
		shape := &onnxpb.TensorShapeProto{}
		for _, n := range []int64{1, 4, 8, 8} {
			shape.Dim = append(shape.Dim, &onnxpb.Dimension{DimValue: &n})
		}
		return &onnxpb.ValueInfoProto{Name: name,
			Type: &onnxpb.TypeProto{TensorType: &onnxpb.TensorType{ElemType: int32(onnxpb.Float), Shape: shape}}}
	}
	g := &onnxpb.GraphProto{Name: name, Input: []*onnxpb.ValueInfoProto{info(name + "x")},
		Output: []*onnxpb.ValueInfoProto{info(name)},
		Node: []*onnxpb.NodeProto{{Name: name, OpType: op, Domain: domain, Input: []string{name + "x"},
			Output: []string{name}}}}
	if op == "Elu" {
		g.Node[0].Attribute = []*onnxpb.AttributeProto{{Name: name, Type: onnxpb.AttributeString, S: []byte(name)}}
	}
	if external {
		g.Initializer = []*onnxpb.TensorProto{{Name: name + "w", DataType: int32(onnxpb.Float), Dims: []int64{4},
			DataLocation: 1, ExternalData: []*onnxpb.StringStringEntryProto{{Key: "location", Value: name + ".bin"}}}}
		g.Node[0].OpType, g.Node[0].Input = "Add", []string{name + "x", name + "w"}
	}
	return onnxpb.Marshal(&onnxpb.ModelProto{IrVersion: 8, Graph: g,
		OpsetImport: []*onnxpb.OperatorSetIDProto{{Version: 17}, {Domain: domain, Version: 1}}})
}

func archive(t *testing.T, name string) []byte {
	var b strings.Builder
	z := zip.NewWriter(&b)
	w, err := z.Create(name + ".npy")
	require.NoError(t, err)
	require.NoError(t, npz.WriteNPY(w, tensor.Zeros(tensor.Float32, 4)))
	require.NoError(t, z.Close())
	return []byte(b.String())
}

// TestControlCharacters calls every command with hostile files and values for its arguments and each of its flags: no
// text of theirs controls the terminal or forges a line.
func TestControlCharacters(t *testing.T) {
	t.Chdir(t.TempDir())
	files := hostileFiles(t, ".")
	archived := files[len(files)-1]
	var calls [][]string
	var visit func(c *cobra.Command, path []string)
	visit = func(c *cobra.Command, path []string) {
		add := func(args ...string) { calls = append(calls, append(append([]string{}, path...), args...)) }
		add()
		add(controlBytes)
		for _, file := range files {
			add(file)
			add(file, controls)
			add(file, file)
		}
		flag := func(f *pflag.Flag) {
			name := "--" + f.Name
			for _, file := range files[:3] {
				if f.NoOptDefVal != "" {
					add(file, name)
					add(file, named, name)
					continue
				}
				for _, value := range []string{controls, controlBytes, controls + "=" + controls, archived} {
					add(file, name, value)
				}
			}
		}
		c.LocalFlags().VisitAll(flag)
		c.InheritedFlags().VisitAll(flag)
		for _, sub := range c.Commands() {
			visit(sub, append(append([]string{}, path...), sub.Name()))
		}
	}
	root := newRoot(extend(t))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	visit(root, nil)
	for _, file := range files[:2] {
		for _, name := range []string{named, controlBytes} {
			calls = append(calls, []string{"view", file, "--around", name, "-o", "x.svg"}, []string{"plan", file, "--code", name},
				[]string{"explain", file, name}, []string{"plan", file, "--pin", controlBytes + "y=contiguous"},
				[]string{"run", file, "--input", name + "x=" + archived}, []string{"run", file, "--inputs", archived},
				[]string{"batch", file, "--inputs", "*.npz", "--outputs", controlBytes}, []string{"diff", file, files[2]},
				[]string{"plan", file, "--dump", "--color", "always"}, []string{"view", file, "-o", "x.html"},
				[]string{"compare", file, "--runs", "1"}, []string{"bench", file, "--runs", "1", "--trace", name + ".json"})
		}
	}
	texts := hostileTexts(t)
	step := testsize.Of(7, 1)
	for i := 0; i < len(calls); i += step {
		checkControls(t, calls[i])
	}
	for i, file := range texts {
		checkControls(t, []string{"infer", file})
		if isValid := call(t, "infer", file).code == exit.CodeDone; isValid != (i < 2) {
			t.Errorf("infer %q: accepted is %t", file, isValid)
		}
	}
	for _, text := range texts[:2] {
		for _, c := range [][]string{{"run"}, {"plan"}, {"bench"}, {"check"}, {"diff"}, {"plan", "--measure"}, {"compare"},
			{"plan", "--dim", named + "=1,64"}, {"compare", "--dim", named + "=1,64"}, {"plan", "--for-all", "no-copies"},
			{"plan", "--for-all", named + "=contiguous"}, {"plan", "--sweep", named + "=1..4"},
			{"diff", "--dim", named + "=1", "--dim", named + "=5"}, {"view", "-o", "x.svg"}, {"infer"}} {
			checkControls(t, append(c, text))
		}
	}
}

// hostileTexts writes graphs as text with controls in the names and returns the paths. The first two are valid.
func hostileTexts(t *testing.T) (paths []string) {
	for i, text := range []string{
		"NAMEx: float32[SIZE, 4] = input\nNAME: = relu(NAMEx)\noutput NAMEo = NAME pin contiguous\n",
		"NAMEx: float32[SIZE, 4, 5] = input\nNAMEy: = permute(NAMEx, dims=[1, 0, 2])\nNAME: = reshape(NAMEy, shape=[4, -1])\n" +
			"NAMEo: = add(NAME, NAME)\nr: = reshape(NAMEo, shape=[-1, 2])\noutput NAME\noutput r\n",
		"NAMEx: float32[2] = NAME", "NAMEx: float32[2] = input\nNAME: int32[2] = relu(NAMEx)\n",
		"NAMEx: float32[2] = input\nNAME: float32[3] = relu(NAMEx)\n", "NAMEx: = NAME(NAMEy)", "output NAME",
		"NAMEx: float32[2] = input\nNAMEx: = relu(NAMEx)\n", "symbol NAME min=3 max=2\n", "symbol NAME NAME=3\n",
		"NAME: NAME[2] = input", "x: float32[2] = input\ny: = relu(x, NAME=3)\n", "x: float32[NAME + 1] = input",
		"x: float32[2] = input pin NAME", "x: float32[2] = input\ny: = permute(x, dims=[NAME])\n",
		"NAME: float32[2] = constant [1, 2, 3]", "NAME: float32[2] = constant [1, NAME]", "x = NAME NAME",
	} {
		text = strings.NewReplacer("NAMEx", strconv.Quote(named+"x"), "NAMEy", strconv.Quote(named+"y"), "NAMEo",
			strconv.Quote(named+"o"), "NAME", strconv.Quote(named), "SIZE", strconv.Quote(named)).Replace(text)
		paths = append(paths, fmt.Sprintf("%d%s.txt", i, controlBytes))
		require.NoError(t, os.WriteFile(paths[i], []byte(text), 0o644))
	}
	return paths
}

// checkControls calls a command, and checks that nothing in its output controls the terminal.
func checkControls(t *testing.T, args []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // ends serve, calibrate and others
	defer cancel()
	r := callIn(t, ctx, extend(t), args...)
	for _, text := range []string{r.out, r.errors} {
		if problem := controlling(withoutStyles.Replace(text)); problem != "" {
			t.Errorf("graphrun %q: %s", args, problem)
		}
	}
}

// controlling returns what in a text controls the terminal, or "".
func controlling(text string) string {
	for i, r := range text {
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd") || r != '\n' && r != '\t' &&
			unicode.In(r, unicode.Cc, unicode.Cf) {
			return fmt.Sprintf("%U in %.200q", r, text[max(0, i-100):])
		}
	}
	if i := strings.Index("\n"+text, "\n"+forged); i >= 0 {
		return fmt.Sprintf("a forged line in %.300q", text[max(0, i-200):])
	}
	return ""
}

// withoutStyles removes the styles of --color.
var withoutStyles = strings.NewReplacer("\x1b[1m", "", "\x1b[1;31m", "", "\x1b[1;33m", "", "\x1b[0m", "")
