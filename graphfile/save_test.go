package graphfile_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

func save(t testing.TB, g *graph.Graph) string {
	t.Helper()
	var b strings.Builder
	must(t, graphfile.Save(&b, g))
	return b.String()
}

const contractSaved = `{
  "version": 1,
  "name": "residual",
  "symbols": {
    "N": {"min": 1, "max": 64, "hint": 2}
  },
  "inputs": [
    {"name": "x", "dtype": "float32", "shape": ["N", 64, 5, 5], "memory_format": "channels_last"},
    {"name": "bias", "dtype": "float32", "shape": [64, 1, 1]},
    {"name": "odd", "dtype": "int32", "shape": [2, 3], "strides": [1, 2], "offset": 4}
  ],
  "constants": [
    {"name": "w", "dtype": "float32", "shape": [64, 64, 3, 3], "file": "weights.safetensors", "key": "conv1.weight"},
    {"name": "k", "dtype": "float32", "shape": [2, 2], "data": [[1, 2], [3, 4]]}
  ],
  "nodes": [
    {"name": "conv1", "op": "conv2d", "inputs": ["x", "w"], "attrs": {"padding": 1}},
    {"name": "shifted", "op": "add", "inputs": ["conv1", "bias"], "attrs": {"alpha": 2}},
    {"name": "scaled", "op": "mul", "inputs": ["shifted", 0.5], "memory_format": "channels_last"},
    {"name": "halves", "op": "chunk", "inputs": ["scaled"], "attrs": {"chunks": 2, "dim": 1}, "outputs": ["lo", "hi"]}
  ],
  "outputs": [
    "lo",
    {"value": "hi", "name": "high", "memory_format": "contiguous"}
  ]
}
`

func TestSaveTheContractsExample(t *testing.T) {
	dir, open := weights(t)
	g, err := graphfile.Read(strings.NewReader(contract), lookup, graphfile.Options{Name: "g.json", Dir: dir, Open: open})
	must(t, err)
	must(t, g.Bind(map[string]int{"N": 7})) // what symbols are bound to is not part of the graph
	if got := save(t, g); got != contractSaved {
		t.Errorf("got\n%s", got)
	}
	again, err := graphfile.Read(strings.NewReader(contractSaved), lookup,
		graphfile.Options{Name: "g.json", Dir: dir, Open: open})
	must(t, err)
	if got := save(t, again); got != contractSaved {
		t.Errorf("read again, got\n%s", got)
	}
}

// everything builds a graph with every feature of the format.
func everything() *graph.Graph {
	g := graph.New("every \"thing\"\n\u2028é", lookup)
	x := g.InputMeta("x", tensor.Meta{DType: tensor.Float32, Shape: []int{2, 1, 3}, Strides: []int{3, 99, 1}, Offset: 2})
	g.InputFormat("cl", tensor.Float32, tensor.ChannelsLast, 2, 3, 4, 5)
	g.InputFormat("explicit", tensor.Float32, tensor.Contiguous, 2, 3)
	g.InputDims("sym", tensor.Int8, tensor.NoFormat, graph.Dim{Symbol: "N"}, graph.Dim{Size: 3})
	g.Input("none", tensor.Bool, 0, 3)
	y := op.Add(x, 2).Named("int")
	y = op.Add(y, 2.0)
	y = op.Add(y, true)
	y = op.Add(3, y, op.AddAttrs{Alpha: op.Scalar(1.0)})
	y = op.Add(y, math.Inf(-1), op.AddAttrs{Alpha: op.Scalar(1)})
	y = op.Add(y, math.NaN(), op.AddAttrs{Alpha: op.Scalar(math.Inf(1))})
	g.Output("z", op.Add(y, 1+2.5i))
	e := g.Apply("every", graph.Attrs{"flag": true, "int": 3, "float": 1e100, "text": "b", "ints": []int{7},
		"floats": []float64{1, 0.5, math.Inf(1)},
		"bools":  []bool{true, false}, "maybe_int": ptr(0), "maybe_float": 2, "maybe_bool": false, "number": 2i,
		"dtype":         tensor.BFloat16,
		"memory_format": tensor.ChannelsLast, "pair": 0}, x)[0]
	e = g.Apply("every", graph.Attrs{"ints": []any{"N", 2}, "int": "N", "number": tensor.FloatScalar(1), "maybe_int": nil},
		e)[0]
	vm := g.Apply("var_mean", nil, e)
	g.Output("mean", vm[1]).OutputFormat("mean2", vm[1], tensor.Contiguous)
	g.Apply("cat", nil, x, x, x)[0].Pinned(tensor.Contiguous)
	return g
}

func TestSaveRoundTrips(t *testing.T) {
	g := everything()
	constants(t, g)
	must(t, g.Err())
	text := save(t, g)
	h := mustLoad(t, text)
	if again := save(t, h); again != text {
		t.Errorf("got\n%s\nthen\n%s", text, again)
	}
	if text == "" || strings.Contains(text, `"maybe_int": null`) || strings.Contains(text, `"pair"`) {
		t.Errorf("defaults are written:\n%s", text)
	}
	sameGraph(t, g, h)
}

// sameGraph compares everything that the file must preserve.
func sameGraph(t *testing.T, g, h *graph.Graph) {
	t.Helper()
	var a, b []*graph.Value
	g.Values(func(v *graph.Value) { a = append(a, v) })
	h.Values(func(v *graph.Value) { b = append(b, v) })
	if len(a) != len(b) {
		t.Fatalf("%d values, want %d", len(b), len(a))
	}
	for i, v := range a {
		w := b[i]
		if v.Name != w.Name || v.Meta.String() != w.Meta.String() || v.Kind() != w.Kind() {
			t.Errorf("%s %s %v came back as %s %s %v", v.Kind(), v.Name, v.Meta, w.Kind(), w.Name, w.Meta)
		}
		if v.Const != nil && bits(v.Const) != bits(w.Const) {
			t.Errorf("constant %s came back with other data", v.Name)
		}
	}
	for i, n := range g.Nodes {
		m := h.Nodes[i]
		if n.Name != m.Name || n.Op != m.Op || n.Pin != m.Pin || len(n.In) != len(m.In) {
			t.Errorf("%+v came back as %+v", n, m)
		}
		for k, arg := range n.In {
			if x, y := arg.Number, m.In[k].Number; x != y && !(math.IsNaN(x.Float()) && math.IsNaN(y.Float())) {
				t.Errorf("%s: operand %v came back as %v", n.Name, x, y)
			}
		}
	}
	for i, o := range g.Outputs {
		if p := h.Outputs[i]; o.Name != p.Name || o.Pin != p.Pin || o.Value.Name != p.Value.Name {
			t.Errorf("output %+v came back as %+v", o, p)
		}
	}
}

func bits(x *tensor.Tensor) string {
	c := x.CopyTo(tensor.New(x.DType, x.Shape...))
	return string(c.Storage().Bytes())
}

// constants adds a constant of every dtype, with extreme and random values.
func constants(t testing.TB, g *graph.Graph) {
	for _, d := range tensor.DTypes() {
		c := tensor.Zeros(d, 4, 16)
		b := c.Storage().Bytes()
		state := uint32(d)
		for i := range b {
			state = state*1664525 + 1013904223
			b[i] = byte(state >> 24)
			if d == tensor.Bool {
				b[i] &= 1
			}
		}
		// The payloads of NaNs are not kept.
		for i := range 64 {
			switch p := unsafe.Add(c.Pointer(), i*d.Size()); {
			case d.IsFloat():
				if v := c.At(i/16, i%16); math.IsNaN(v.Float()) {
					v.Store(d, p)
					tensor.FloatScalar(math.NaN()).Store(d, p)
				}
			case d.IsComplex():
				z := c.At(i/16, i%16).Complex()
				if math.IsNaN(real(z)) || math.IsNaN(imag(z)) {
					tensor.ComplexScalar(complex(math.Inf(1), math.Copysign(0, -1))).Store(d, p)
				}
			}
		}
		g.Constant("k_"+d.String(), c)
		m, err := c.Meta.Transpose(0, 1)
		must(t, err)
		view, err := c.View(m)
		must(t, err)
		g.Constant("t_"+d.String(), view)
		g.Constant("s_"+d.String(), tensor.FloatScalar(1).Tensor(d))
		g.Constant("e_"+d.String(), tensor.Zeros(d, 2, 0))
	}
	part, err := tensor.Zeros(tensor.Int8, 6, 4).Meta.Narrow(1, 1, 2)
	must(t, err)
	c, err := tensor.Zeros(tensor.Int8, 6, 4).View(part)
	must(t, err)
	g.Constant("part", c)
}

func TestDataOfComplexNumbers(t *testing.T) {
	for text, want := range map[string]complex128{
		`[1, 2]`: 2, `[[1, 2], [3, 4]]`: 3 + 4i, `[1, 2, 3, 4]`: 3 + 4i,
		`[["NaN", 0], [0, "-Infinity"]]`: complex(0, math.Inf(-1)),
	} {
		g := mustLoad(t, constant(`{"name": "k", "dtype": "complex64", "shape": [2], "data": `+text+`}`))
		if got := g.Value("k").Const.At(1).Complex(); got != want {
			t.Errorf("%s: element 1 is %v, want %v", text, got, want)
		}
	}
	g := mustLoad(t, constant(`{"name": "k", "dtype": "complex64", "shape": [2, 1], "data": [[1, 2], [3, 4]]}`))
	if got := g.Value("k").Const.At(1, 0).Complex(); got != 3+4i {
		t.Errorf("a flat list of pairs gives %v", got)
	}
}

// TestFloatsAreRoundedOnce reads a number just above the midpoint of two float32; as a float64 it is the
// midpoint.
func TestFloatsAreRoundedOnce(t *testing.T) {
	g := mustLoad(t, constant(`{"name": "k", "dtype": "float32", "shape": [], "data": 1.000000059604644775390626}`))
	if got, want := g.Value("k").Const.At().Float(), float64(math.Nextafter32(1, 2)); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSaveFile(t *testing.T) {
	dir, open := weights(t)
	from := filepath.Join(dir, "g.json")
	must(t, os.WriteFile(from, []byte(contract), 0o644))
	g, err := readFile(t, from, open)
	must(t, err)

	same := filepath.Join(dir, "same.json")
	must(t, graphfile.SaveFile(same, g))
	if text, _ := os.ReadFile(same); string(text) != contractSaved {
		t.Errorf("got\n%s", text)
	}
	// In another folder the weights are missing: their data are written.
	other := filepath.Join(t.TempDir(), "g.json")
	must(t, graphfile.SaveFile(other, g))
	if h, err := graphfile.Load(other, lookup); err != nil || h.Value("w").Const == nil {
		t.Error(err)
	}
	// Or to a side file.
	side := map[string]*tensor.Tensor{}
	write := func(path string, names []string, data []*tensor.Tensor) error {
		for i, name := range names {
			side[path+":"+name] = data[i]
		}
		return os.WriteFile(path, nil, 0o644)
	}
	large := func(v *graph.Value) bool { return v.Meta.Numel() >= 100 }
	must(t, graphfile.SaveFile(other, g, graphfile.SideFile("w.npz", large, write)))
	h, err := readFile(t, other, func(path, key string) (tensor.Meta, graphfile.ReadConst, error) {
		return graphfile.Held(side[path+":"+key])
	})
	must(t, err)
	if len(side) != 1 || bits(h.Value("w").Const) != bits(g.Value("w").Const) {
		t.Errorf("the side file holds %v", side)
	}
	if err := graphfile.SaveFile(other, g, graphfile.SideFile("../w.npz", large, write)); err == nil {
		t.Error("a side file outside the folder was written")
	}
	// The file that the constants came from is not overwritten.
	all := func(*graph.Value) bool { return true }
	if err := graphfile.SaveFile(same, g, graphfile.SideFile("weights.safetensors", all, write)); err == nil ||
		!strings.Contains(err.Error(), "cannot write the side file") {
		t.Errorf("got %v", err)
	}
	if files, _ := filepath.Glob(filepath.Join(filepath.Dir(other), "*")); len(files) != 2 {
		t.Errorf("left are %v", files)
	}
}
