package onnx

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/halftest"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/onnx/internal/convert"
	"github.com/graphrun/graphrun/tensor"
)

// The conformance vectors in testdata are made by scripts/vectors/generate.py: models, inputs,
// and outputs by numpy and PyTorch, or for pipelines by onnx's reference evaluator.

// leastVectors and leastEvaluated are the minimum numbers of vectors and of those whose outputs are by onnx's
// reference evaluator. Fewer mean that some were lost.
const leastVectors, leastEvaluated = 700, 20

// vector is one case.
type vector struct {
	name      string
	model     []byte
	in, wants map[string]*tensor.Tensor
	// texts has the names of inputs and outputs that are strings. Their arrays have the code points of each string in the
	// last dimension, padded with zeros.
	texts map[string]bool
	// source is the origin of the wanted outputs of a pipeline: onnx's reference evaluator or formulas.
	source string
}

// vectors reads all cases, in order. A case without a model uses the model of the previous case.
func vectors(t testing.TB) []vector {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.zip")
	require.NoError(t, err)
	var list []vector
	for _, path := range paths {
		archive, err := zip.OpenReader(path)
		require.NoError(t, err)
		family := strings.TrimSuffix(filepath.Base(path), ".zip")
		for _, f := range archive.File {
			folder, name, _ := strings.Cut(f.Name, "/")
			if full := family + "/" + folder; len(list) == 0 || list[len(list)-1].name != full {
				v := vector{name: full, texts: map[string]bool{}}
				if len(list) > 0 {
					v.model = list[len(list)-1].model
				}
				list = append(list, v)
			}
			v := &list[len(list)-1]
			data := unzipped(t, f)
			switch name {
			case "model.onnx":
				v.model = data
			case "inputs.npz":
				v.in = v.arrays(t, data)
			case "outputs.npz":
				v.wants = v.arrays(t, data)
			case "source.txt":
				v.source = string(data)
			}
		}
		require.NoError(t, archive.Close())
	}
	return list
}

func unzipped(t testing.TB, f *zip.File) []byte {
	t.Helper()
	r, err := f.Open()
	require.NoError(t, err)
	data, err := io.ReadAll(r)
	require.NoError(t, err, f.Name)
	return data
}

func (v *vector) arrays(t testing.TB, data []byte) map[string]*tensor.Tensor {
	t.Helper()
	name := v.name
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err, name)
	out := map[string]*tensor.Tensor{}
	for _, f := range r.File {
		x, err := npz.ReadNPY(bytes.NewReader(unzipped(t, f)), int64(f.UncompressedSize64))
		require.NoError(t, err, name)
		value, isText := strings.CutSuffix(strings.TrimSuffix(f.Name, ".npy"), ".texts")
		v.texts[value] = v.texts[value] || isText
		out[value] = x
	}
	return out
}

// TestVectors runs every case with fixed sizes. If the model has symbolic sizes, it also runs the case with these bound
// after the conversion.
func TestVectors(t *testing.T) {
	compared, evaluated := 0, 0
	for _, v := range vectors(t) {
		m, err := Parse(v.model, "")
		require.NoError(t, err, v.name)
		shapes := map[string][]int{}
		for name, x := range v.in {
			if shapes[name] = x.Shape; v.texts[name] {
				shapes[name] = x.Shape[:x.Rank()-1]
			}
		}
		g, err := m.Graph(Options{Shapes: shapes})
		if err == nil {
			err = v.check(g)
		}
		if err != nil {
			t.Errorf("%s: %v", v.name, err)
			continue
		}
		require.NotEmpty(t, v.wants, v.name)
		compared++
		if v.source == "onnx.reference.ReferenceEvaluator" {
			evaluated++
		}
		if err := v.checkOpen(m); err != nil {
			t.Errorf("%s, sizes left open: %v", v.name, err)
		}
	}
	require.GreaterOrEqual(t, compared, leastVectors)
	require.GreaterOrEqual(t, evaluated, leastEvaluated)
}

func (v vector) check(g *graph.Graph) error {
	in := map[string]*tensor.Tensor{}
	for name, x := range v.in {
		if in[name] = x; v.texts[name] {
			in[name] = tensor.Must(g.Labels[name].Encode(textsOf(x), x.Shape[:x.Rank()-1]...))
		}
	}
	got, err := execute(g, in)
	if err != nil {
		return err
	}
	scale := 0.0
	if strings.Contains(v.name, "Gelu") { // 1 + erf(x) cancels for x < 0: errors are relative to the operand
		for _, x := range v.in {
			scale = max(scale, largest(halftest.Float64s(x)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.wants)) {
		if want := v.wants[name]; v.texts[name] {
			if list, err := g.Labels[name].Decode(got[name]); err != nil || !slices.Equal(list, textsOf(want)) {
				return fmt.Errorf("output %q: got %q, want %q: %w", name, list, textsOf(want), err)
			}
			continue
		}
		if err := compareScaled(got[name], v.wants[name], scale); err != nil {
			return fmt.Errorf("output %q: %w", name, err)
		}
	}
	return nil
}

// textsOf returns the strings of an array: see [vector.texts].
func textsOf(x *tensor.Tensor) []string {
	points, _ := tensor.ToSlice[uint32](x) // the dtype is right
	var list []string
	for length := x.Shape[x.Rank()-1]; len(points) > 0; points = points[length:] {
		text := ""
		for _, p := range points[:length] {
			if p != 0 {
				text += string(rune(p))
			}
		}
		list = append(list, text)
	}
	return list
}

// checkOpen converts without sizes and then binds the sizes.
func (v vector) checkOpen(m *Model) error {
	g, err := m.Graph(Options{})
	if err != nil || len(g.Symbols) == 0 {
		return err
	}
	return v.checkBound(g)
}

// checkBound binds the symbols of a graph to the sizes of the inputs.
func (v vector) checkBound(g *graph.Graph) error {
	dims := map[string]int{}
	for _, in := range g.Inputs {
		for i, d := range in.Dims {
			if d.Symbol != "" {
				dims[d.Symbol] = v.in[in.Name].Shape[i]
			}
		}
	}
	if err := g.Bind(dims); err != nil {
		return err
	}
	return v.check(g)
}

// compareScaled fails if floats differ by more than 3e-5 times the greater of scale and the largest magnitude in
// the tensor, or others at all.
func compareScaled(got, want *tensor.Tensor, scale float64) error {
	if got == nil || !want.DType.IsFloat() || want.DType.IsReducedFloat() || !slices.Equal(got.Shape, want.Shape) ||
		got.DType != want.DType {
		return compare(got, want)
	}
	wants, gots := halftest.Float64s(want), halftest.Float64s(got)
	scale = max(scale, largest(wants))
	for i, w := range wants {
		d := gots[i] - w
		if g := gots[i]; g != w && !(g != g && w != w) && !(max(d, -d) <= 3e-5*scale) {
			return fmt.Errorf("element %d is %v, want %v, the largest is %v", i, g, w, scale)
		}
	}
	return nil
}

// largest returns the largest finite magnitude of a list, or 0.
func largest(list []float64) float64 {
	out := 0.0
	for _, x := range list {
		if m := max(x, -x); m > out && m-m == 0 {
			out = m
		}
	}
	return out
}

// TestVectorsCoverTheTable checks that every operator of the table is in some case.
func TestVectorsCoverTheTable(t *testing.T) {
	seen := map[convert.Operator]bool{}
	for _, v := range vectors(t) {
		var m pb.ModelProto
		require.NoError(t, pb.Unmarshal(v.model, &m), v.name)
		noteOperators(m.Graph, seen)
	}
	for domain, list := range domains {
		for name := range list {
			if op := (convert.Operator{Domain: domain, Name: name}); !seen[op] {
				t.Errorf("no case has the operator %s: scripts/vectors wants one", op)
			}
		}
	}
}

func noteOperators(g *pb.GraphProto, seen map[convert.Operator]bool) {
	for _, n := range g.Node {
		seen[convert.Operator{Domain: convert.CanonicalDomain(n.Domain), Name: n.OpType}] = true
		for _, a := range n.Attribute {
			if a.G != nil {
				noteOperators(a.G, seen)
			}
		}
	}
}
