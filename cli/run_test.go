package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/run"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// saved writes arrays to a fresh .npz file.
func saved(t *testing.T, arrays map[string]*tensor.Tensor) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in.npz")
	if err := npz.WriteFile(path, npz.EntriesOf(arrays)); err != nil {
		t.Fatal(err)
	}
	return path
}

// counted is a row-major tensor of 0, 1, 2, ...
func counted(d tensor.DType, shape ...int) *tensor.Tensor {
	t := tensor.Zeros(d, shape...)
	for i := range t.Numel() {
		t.SetFlat(i, tensor.IntScalar(int64(i)))
	}
	return t
}

func TestRunLines(t *testing.T) {
	path := write(t, "g.json", small)
	in := saved(t, map[string]*tensor.Tensor{
		"x": counted(tensor.Float32, 1, 3, 4, 5), "b": tensor.Zeros(tensor.Float32, 3, 4, 5),
		"i": counted(tensor.Int32, 2, 3)})
	const want = `y     float32  [1,3,4,5]  strides [60,1,15,3]  min 0  max 59  mean 29.5
nhwc  float32  [1,4,5,3]  strides [60,15,3,1]  min 0  max 59  mean 29.5
j     int32    [2,3]      strides [1,2]        min 0  max 10  mean 5
`
	if got := succeed(t, "run", path, "--inputs", in); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	doc := decode[struct {
		Version int             `json:"version"`
		Outputs []run.OutputDoc `json:"outputs"`
	}](t, succeed(t, "run", path, "--inputs", in, "--json"))
	if len(doc.Outputs) != 3 || doc.Outputs[0].Name != "y" || *doc.Outputs[0].Max != 59 || *doc.Outputs[2].Mean != 5 {
		t.Errorf("%+v", doc)
	}
}

func TestRunValues(t *testing.T) {
	path := write(t, "g.json", small)
	x, b, i := counted(tensor.Float32, 3, 3, 4, 5), counted(tensor.Float32, 3, 4, 5), counted(tensor.Int32, 2, 3)
	in := saved(t, map[string]*tensor.Tensor{"x": x, "b": b, "unrelated": b})
	one := filepath.Join(t.TempDir(), "i.npy")
	f, err := os.Create(one)
	if err != nil {
		t.Fatal(err)
	}
	if err := npz.WriteNPY(f, i); err != nil {
		t.Fatal(err)
	}
	f.Close()
	for _, s := range []string{"propagate", "contiguous", "channels_last"} {
		out := filepath.Join(t.TempDir(), "out.npz")
		succeed(t, "run", path, "--inputs", in, "--input", "i="+one, "--outputs", out, "--strategy", s, "--threads", "2")
		got, err := npz.ReadFile(out)
		if err != nil || len(got) != 3 {
			t.Fatalf("%d arrays, %v", len(got), err)
		}
		for n := range 3 {
			for c := range 3 {
				want := x.At(n, c, 2, 1).Float() + b.At(c, 2, 1).Float()
				if y, p := got["y"].At(n, c, 2, 1).Float(), got["nhwc"].At(n, 2, 1, c).Float(); y != want || p != want {
					t.Errorf("%s: y[%d,%d,2,1] = %v, nhwc %v, want %v", s, n, c, y, p, want)
				}
			}
		}
		if j := got["j"].At(1, 2).Int(); j != 10 {
			t.Errorf("%s: j[1,2] = %d, want 10", s, j)
		}
	}
}

func TestRunInputErrors(t *testing.T) {
	path := write(t, "g.json", small)
	x, b, i := counted(tensor.Float32, 3, 3, 4, 5), counted(tensor.Float32, 3, 4, 5), counted(tensor.Int32, 2, 3)
	for _, c := range []struct {
		in    map[string]*tensor.Tensor
		extra string
		want  string
	}{
		{map[string]*tensor.Tensor{"x": x, "i": i}, "", `input "b" is missing`},
		{map[string]*tensor.Tensor{"x": x, "b": x, "i": i}, "",
			`input "b": the file holds float32[3, 3, 4, 5], the graph wants float32[3, 4, 5]`},
		{map[string]*tensor.Tensor{"x": x, "b": i, "i": i}, "", `input "b": the file holds int32`},
		{map[string]*tensor.Tensor{"x": x, "b": b, "i": i}, "--dim=N=2",
			`input "x": the file holds float32[3, 3, 4, 5], the graph wants float32[2, 3, 4, 5]`},
		{map[string]*tensor.Tensor{"x": b, "b": b, "i": i}, "", `input "x": the file holds float32[3, 4, 5]`},
	} {
		args := []string{"run", path, "--inputs", saved(t, c.in)}
		if c.extra != "" {
			args = append(args, c.extra)
		}
		if r := call(t, args...); r.code != exit.CodeUsage || !strings.Contains(r.errors, c.want) {
			t.Errorf("exit %d, want %q in\n%s", r.code, c.want, r.errors)
		}
	}
	succeed(t, "run", path, "--seed", "1", "--inputs", saved(t, map[string]*tensor.Tensor{"x": x}))
}

func TestRunSeed(t *testing.T) {
	path := write(t, "g.json", small)
	first := succeed(t, "run", path)
	if again := succeed(t, "run", path, "--seed", "0", "--threads", "1"); again != first {
		t.Errorf("seed 0 gives\n%s\nand\n%s", first, again)
	}
	if other := succeed(t, "run", path, "--seed", "1"); other == first {
		t.Error("seeds 0 and 1 give the same")
	}
}

func TestRunKeepGoing(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.npz")
	r := call(t, "run", "--keep-going", "--outputs", out, write(t, "g.json", broken))
	got, err := npz.ReadFile(out)
	if r.code != exit.CodeFailed || err != nil || len(got) != 1 || got["fine"] == nil {
		t.Errorf("exit %d, %v, %v\n%s", r.code, err, got, r.errors)
	}
	if strings.Count(r.complaints(), "\n") != 2 ||
		!strings.Contains(r.errors, `output "after" is left out: it depends on node "sum"`) {
		t.Errorf("stderr:\n%s", r.errors)
	}
}

func TestRunBFloat16(t *testing.T) {
	path := write(t, "g.json", `{"version": 1, "inputs": [{"name": "x", "dtype": "bfloat16", "shape": [3]}],
 "nodes": [{"name": "y", "op": "add", "inputs": ["x", 1]}], "outputs": ["y"]}`)
	bits, err := tensor.FromSlice([]uint16{0x3f80, 0x4000, 0xbf80}, 3) // 1, 2, -1
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out.npz")
	succeed(t, "run", path, "--inputs", saved(t, map[string]*tensor.Tensor{"x": bits}), "--outputs", out)
	got, err := npz.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	y, err := tensor.ToSlice[uint16](got["y"])
	if err != nil || len(y) != 3 || y[0] != 0x4000 || y[1] != 0x4040 || y[2] != 0 {
		t.Errorf("%v, %04x", err, y)
	}
}

// TestRunSharedElements holds that values whose elements share memory take what they store: as made-up inputs, in
// statistics, and as outputs, which are refused where the file would be huge.
func TestRunSharedElements(t *testing.T) {
	path := write(t, "g.json", `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [1099511627776, 4],
		"strides": [0, 1]}, {"name": "z", "dtype": "int8", "shape": [2097151]}],
		"nodes": [{"name": "y", "op": "as_strided", "inputs": ["z"],
		"attrs": {"size": [1048576, 1048576], "stride": [1, 1]}}], "outputs": ["x", "y"]}`)
	out := filepath.Join(t.TempDir(), "out.npz")
	r := call(t, "run", path)
	if r.code != exit.CodeDone || !strings.Contains(r.out, "strides [0,1]") || !strings.Contains(r.out, "strides [1,1]") {
		t.Errorf("exit %d\n%s\n%s", r.code, r.out, r.errors)
	}
	r = call(t, "run", path, "--outputs", out)
	want := `--outputs: output "x" needs 16 TiB to write all its elements (it takes 16 bytes in memory)`
	if r.code != exit.CodeFailed || !strings.Contains(r.errors, want) {
		t.Errorf("exit %d, %s\nwant %s", r.code, r.errors, want)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("the file is there")
	}
}
