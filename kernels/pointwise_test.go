package kernels_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// layoutsOf returns the shape in a random layout as programs create them: permuted, sliced, expanded, channels-last,
// with unusual strides of dimensions of size 1.
func layoutsOf(r *rand.Rand, d tensor.DType, shape []int) tensor.Meta {
	m := tensor.New(d, shape...)
	kind := r.IntN(6)
	if kind == 0 {
		return m
	}
	if f := map[int]tensor.MemoryFormat{4: tensor.ChannelsLast, 5: tensor.ChannelsLast3d}[len(shape)]; kind == 1 &&
		f != tensor.NoFormat {
		st, _ := f.Strides(shape)
		return m.WithStrides(st)
	}
	st, step := make([]int, len(shape)), 1
	for _, k := range r.Perm(len(shape)) {
		if kind == 2 && r.IntN(2) == 0 {
			step *= 2
		}
		st[k] = step
		step *= max(shape[k], 1)
		if kind == 3 && r.IntN(2) == 0 {
			step++
		}
		if kind == 4 && r.IntN(3) == 0 {
			st[k] = 0
		}
		if kind == 5 && shape[k] == 1 {
			st[k] = []int{0, 1, 7, 1000}[r.IntN(4)]
		}
	}
	m.Strides, m.Offset = st, []int{0, 0, 3}[r.IntN(3)]
	return m
}

// randomShapes returns n shapes that can be broadcast together.
func randomShapes(r *rand.Rand, n int) [][]int {
	sizes := []int{1, 1, 2, 3, 4, 5, 33}
	if r.IntN(12) == 0 {
		sizes = append(sizes, 0)
	}
	full := make([]int, r.IntN(6))
	for i := range full {
		full[i] = sizes[r.IntN(min(len(sizes), 6+i))]
	}
	out := make([][]int, n)
	for i := range out {
		s := slices.Clone(full)
		for k := range s {
			if r.IntN(4) == 0 && s[k] != 0 {
				s[k] = 1
			}
		}
		if r.IntN(3) == 0 && len(s) > 0 {
			s = s[r.IntN(len(s)):]
		}
		out[i] = s
	}
	return out
}

// randomDense returns a dense layout of the shape in a random order of dimensions.
func randomDense(r *rand.Rand, m tensor.Meta) tensor.Meta {
	st, step := make([]int, len(m.Shape)), 1
	for _, k := range r.Perm(len(m.Shape)) {
		st[k] = step
		step *= max(m.Shape[k], 1)
	}
	return m.WithStrides(st)
}

// TestPointwise runs the ops that follow their operands' layouts on random layouts of every supported dtype, alone and
// mixed, and requests dense layouts other than the inferred one.
func TestPointwise(t *testing.T) {
	testsize.Long(t)
	allowed := readRejected(t)
	for _, op := range kernels.All() {
		if op.Kind != graph.FollowsOperands {
			continue
		}
		t.Run(op.Name, func(t *testing.T) {
			got := rejectedCalls(t, op)
			if *updateRejected {
				allowed[op.Name] = got
				return
			}
			unlisted := slices.DeleteFunc(got, func(call string) bool { return slices.Contains(allowed[op.Name], call) })
			if len(unlisted) > 0 {
				t.Errorf("testdata/%s does not list these rejected calls:\n\t%s\n"+
					"If PyTorch rejects them too or, for an op that aten lacks, if the nearest aten op rejects them, run\n"+
					"\tgo test ./kernels -run 'TestPointwise$/^%s$' -update-rejected", rejectedFile,
					strings.Join(unlisted, "\n\t"), op.Name)
			}
		})
	}
	if *updateRejected {
		writeRejected(t, allowed)
	}
}

// randomCall checks one call; it reports whether the op supports it.
func randomCall(r *rand.Rand, op *graph.Op, d tensor.DType, round int) (bool, error) {
	ex := op.Examples[round%len(op.Examples)]
	shapes := randomShapes(r, len(ex.In))
	metas := make([]tensor.Meta, len(ex.In))
	for k, m := range ex.In {
		if m.DType == tensor.Invalid {
			continue
		}
		dk := d
		switch {
		case m.DType == tensor.Bool && slices.ContainsFunc(ex.In, func(o tensor.Meta) bool { return o.DType.IsFloat() }):
			dk = tensor.Bool // a mask
		case mixed(round) && k > 0:
			dk = tensor.DTypes()[r.IntN(len(tensor.DTypes()))]
		}
		if op.Name == "masked_fill" && k == 2 {
			shapes[k] = nil // a 0-dim value
		}
		metas[k] = layoutsOf(r, dk, shapes[k])
	}
	c, err := kerneltest.CallOf(op, ex.Attrs, metas)
	if err != nil {
		return false, err
	}
	if _, err := kerneltest.Infer(op, c); err != nil {
		return false, nil // TestPointwise counts it
	}
	in := make([]*tensor.Tensor, len(metas))
	draw := kerneltest.NonzeroValues(r)
	for k, m := range metas {
		if m.DType != tensor.Invalid {
			in[k] = kerneltest.Filled(m, draw)
		}
	}
	if op.Name == "pow" || op.Name == "bitwise_left_shift" || op.Name == "bitwise_right_shift" {
		// Small exponents and shift counts, because overflow depends on the width.
		in[1] = kerneltest.Filled(metas[1], func(d tensor.DType) tensor.Scalar {
			if d.IsIntegral(false) {
				return tensor.IntScalar(r.Int64N(3))
			}
			return draw(d)
		})
	}
	if op.Name == "masked_fill" {
		// A value that every dtype of self can hold.
		in[2] = kerneltest.Filled(metas[2], func(tensor.DType) tensor.Scalar { return tensor.IntScalar(1 + r.Int64N(3)) })
	}
	if err := kerneltest.CheckCall(op, c, in); err != nil {
		return true, fmt.Errorf("%v: %w", metas, err)
	}
	if err := checkInPlace(op, c, in); err != nil {
		return true, fmt.Errorf("%v in place: %w", metas, err)
	}
	want := randomDense(r, c.Out[0])
	if err := kerneltest.CheckCall(op, c, in, want); err != nil {
		return true, fmt.Errorf("%v to %v: %w", metas, want, err)
	}
	return true, nil
}

// checkInPlace runs the call with its result in the memory of each operand that allows it.
func checkInPlace(op *graph.Op, c *graph.Call, in []*tensor.Tensor) error {
	want, err := op.Ref(c, in)
	if err != nil {
		return err
	}
	if _, err := kerneltest.Infer(op, c); err != nil {
		return err
	}
	k, err := op.Compile(c)
	if err != nil {
		return err
	}
	for _, p := range k.InPlace {
		own := slices.Clone(in)
		x := in[p.In]
		own[p.In] = tensor.Must(tensor.FromStorage(x.Meta, tensor.StorageOf(slices.Clone(x.Storage().Bytes()))))
		m := c.Out[p.Out]
		m.Offset = x.Offset
		if m.Numel() == 0 {
			continue
		}
		out := tensor.Must(own[p.In].View(m))
		if err := kerneltest.RunKernel(k, c, own, []*tensor.Tensor{out}); err != nil {
			return err
		}
		if err := kerneltest.CompareResults(op, c, in, []*tensor.Tensor{out}, want); err != nil {
			return fmt.Errorf("operand %d: %w", p.In, err)
		}
	}
	return nil
}

// pointwiseVectors are PyTorch's results, written by testdata/pointwise/gen.py.
type pointwiseVectors struct {
	Values, Errors map[string]string
}

func readGzip(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(z); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestPointwiseVectors compares dtypes, layouts, errors and values with PyTorch's.
func TestPointwiseVectors(t *testing.T) {
	testsize.Long(t)
	dir := filepath.Join("testdata", "pointwise")
	g, err := graphfile.Parse(bytes.NewReader(readGzip(t, filepath.Join(dir, "graph.json.gz"))), kernels.Lookup,
		graphfile.Options{Name: "graph.json", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	var want pointwiseVectors
	if err := json.Unmarshal(readGzip(t, filepath.Join(dir, "expected.json.gz")), &want); err != nil {
		t.Fatal(err)
	}
	inputs, err := npz.ReadFile(filepath.Join(dir, "inputs.npz"))
	if err != nil {
		t.Fatal(err)
	}
	results, err := npz.ReadFile(filepath.Join(dir, "outputs.npz"))
	if err != nil {
		t.Fatal(err)
	}
	values := map[*graph.Value]*tensor.Tensor{}
	for _, v := range g.Inputs {
		values[v] = tensor.Empty(v.Meta)
		tensor.CopyElements(values[v], fromNumpy(inputs[v.Name], v.Meta.DType))
	}
	rejected, at := g.InferAll(), map[tensor.DType]int{}
	for _, n := range g.Nodes {
		why, bad := want.Errors[n.Name]
		if (rejected[n] != nil) != bad {
			t.Errorf("%s: error %v, want %q", describeNode(n), rejected[n], why)
		}
		if text, ok := want.Values[n.Name]; ok {
			checkVector(t, n, text, results, at, values)
		}
	}
}

// checkVector compares a node's meta and values; at counts the elements of each dtype consumed from the results.
func checkVector(t *testing.T, n *graph.Node, text string, results map[string]*tensor.Tensor, at map[tensor.DType]int,
	values map[*graph.Value]*tensor.Tensor) {
	v := n.Out[0]
	d, start := v.Meta.DType, at[v.Meta.DType]
	at[d] += v.Meta.Numel()
	got := v.Meta.String()
	if v.Alias != nil && v.Meta.Numel() > 0 {
		got += " of " + v.Alias.Name
	}
	if got != text {
		t.Errorf("%s: got %s, want %s", describeNode(n), got, text)
		return
	}
	flat := fromNumpy(results[d.String()], d)
	want := tensor.Must(flat.View(tensor.Meta{DType: d, Shape: v.Meta.Shape,
		Strides: tensor.ContiguousStrides(v.Meta.Shape), Offset: start}))
	in := make([]*tensor.Tensor, len(n.In))
	for i, a := range n.In {
		if a.Kind == graph.TensorArg {
			in[i] = values[a.Value]
		}
	}
	out, err := kerneltest.RunCall(n.Op, n.Call(), in)
	if err == nil {
		err = kerneltest.CompareTorch(n.Op, n.Call(), in, out, []*tensor.Tensor{want})
	}
	if err != nil {
		t.Errorf("%s: %v", describeNode(n), err)
	}
}

func describeNode(n *graph.Node) string {
	s := n.Name + " " + n.Op.Name
	for _, a := range n.In {
		switch a.Kind {
		case graph.TensorArg:
			s += " " + a.Value.Meta.String()
		case graph.NumberArg:
			s += " " + a.Number.String()
		}
	}
	return fmt.Sprintf("%s %+v", s, n.Attrs)
}
