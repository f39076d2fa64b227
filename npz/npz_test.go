package npz

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/graphrun/graphrun/tensor"
)

// checkCount checks that t holds the numbers that testdata/gen.py writes to every array.
func checkCount(t *testing.T, name string, v *tensor.Tensor) {
	t.Helper()
	got, err := tensor.ToSlice[complex128](v.CopyTo(tensor.New(tensor.Complex128, v.Shape...)))
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range got {
		want := complex(float64(i), 0)
		switch {
		case v.DType == tensor.Bool:
			want = complex(float64(i%2), 0)
		case v.DType.IsComplex():
			want = complex(float64(i), float64(i+10))
		}
		if g != want {
			t.Errorf("%s: element %d is %v, want %v", name, i, g, want)
		}
	}
}

func TestReadsNumpyFiles(t *testing.T) {
	shapes := map[string][]int{"fortran": {2, 3, 4}, "fortran/big": {2, 3, 4}, "scalar": {}, "empty": {0, 3},
		"vector": {5}}
	for file, count := range map[string]int{"stored.npz": 2*14 + 5, "deflated.npz": 2*14 + 8} {
		all, err := ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		if len(all) != count {
			t.Errorf("%s: %d arrays, want %d", file, len(all), count)
		}
		for name, v := range all {
			want, ok := shapes[name]
			if !ok {
				want = []int{2, 3}
			}
			if !slices.Equal(v.Shape, want) {
				t.Errorf("%s: %s has shape %v, want %v", file, name, v.Shape, want)
			}
			if _, code, ok := strings.Cut(name, "/"); ok && typeCodes[code] != tensor.Invalid && v.DType != typeCodes[code] {
				t.Errorf("%s: %s has dtype %v", file, name, v.DType)
			}
			checkCount(t, file+": "+name, v)
		}
		if f := all["fortran"]; !slices.Equal(f.Strides, []int{1, 2, 6}) {
			t.Errorf("column-major data have strides %v", f.Strides)
		}
	}
}

func TestReadsOneKey(t *testing.T) {
	a, err := Open("testdata/stored.npz")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if n := a.Names(); n[0] != "little/b1" || n[1] != "big/b1" || n[len(n)-1] != "vector" {
		t.Errorf("names %v are not in the order of the file", n)
	}
	v, err := a.Read("vector")
	if err != nil || v.DType != tensor.Int16 {
		t.Fatalf("%v, %v", v, err)
	}
	checkCount(t, "vector", v)
	if _, err := a.Read("nothing"); err == nil || !strings.Contains(err.Error(), `stored.npz: entry "nothing"`) {
		t.Errorf("a missing entry: %v", err)
	}
}

// drawTensor draws a value of any dtype and layout with random bytes; bools are 0 or 1.
func drawTensor(t *rapid.T) *tensor.Tensor {
	d := rapid.SampledFrom(tensor.DTypes()).Draw(t, "dtype")
	m := tensor.New(d, rapid.SliceOfN(rapid.IntRange(0, 3), 0, 4).Draw(t, "shape")...)
	m.Offset = rapid.IntRange(0, 2).Draw(t, "offset")
	v := tensor.Empty(m)
	b := v.Storage().Bytes()
	copy(b, rapid.SliceOfN(rapid.Byte(), len(b), len(b)).Draw(t, "bytes"))
	if d == tensor.Bool {
		for i := range b {
			b[i] &= 1
		}
	}
	m, err := m.Permute(rapid.Permutation(order(m.Rank())).Draw(t, "order"))
	if err == nil {
		v, err = v.View(m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func order(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

// rowMajor returns the bytes of the elements in logical order.
func rowMajor(t *tensor.Tensor) []byte {
	c := t.CopyTo(tensor.New(t.DType, t.Shape...))
	return c.Storage().Bytes()
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var entries []Entry
		for i := range rapid.IntRange(0, 4).Draw(t, "count") {
			entries = append(entries, Entry{Name: fmt.Sprintf("z%d/%c", i, 'é'-rune(i)), Tensor: drawTensor(t)})
		}
		var b bytes.Buffer
		if err := WriteNPZ(&b, entries); err != nil {
			t.Fatal(err)
		}
		a, err := NewArchive("memory", bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatal(err)
		}
		for i, n := range a.Names() {
			e := entries[i]
			got, err := a.Read(n)
			if err != nil || n != e.Name {
				t.Fatalf("%q for %q: %v", n, e.Name, err)
			}
			want := e.Tensor.DType
			if want == tensor.BFloat16 {
				want = tensor.Uint16
			}
			if got.DType != want || !slices.Equal(got.Shape, e.Tensor.Shape) || !bytes.Equal(rowMajor(got), rowMajor(e.Tensor)) {
				t.Fatalf("wrote %v, read %v", e.Tensor.Meta, got.Meta)
			}
			if got.Numel() > 0 && !got.Storage().Discard(func([]byte) {}) {
				t.Fatal("packing cannot free the array")
			}
		}
		if len(a.Names()) != len(entries) {
			t.Fatalf("names %v", a.Names())
		}
	})
}

func TestWriteRefuses(t *testing.T) {
	v := tensor.Zeros(tensor.Float32, 2)
	for _, names := range [][]string{{"a", "a"}, {""}, {"a/"}} {
		var entries []Entry
		for _, n := range names {
			entries = append(entries, Entry{Name: n, Tensor: v})
		}
		if err := WriteNPZ(io.Discard, entries); err == nil {
			t.Errorf("names %q were written", names)
		}
	}
	if err := WriteFile(filepath.Join(t.TempDir(), "no", "such"), nil); err == nil {
		t.Error("wrote into a folder that is not there")
	}
}

// written are the arrays of testdata/written.npz.
func written(t *testing.T) []Entry {
	t.Helper()
	f := tensor.Must(tensor.FromSlice([]float32{0, 1, 2, 3, 4, 5}, 3, 2))
	m, err := f.Transpose(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	return EntriesOf(map[string]*tensor.Tensor{"t": tensor.Must(f.View(m)), "s": tensor.Zeros(tensor.Complex128),
		"b": tensor.Must(tensor.FromSlice([]tensor.BF16{0x3f80, 0xc000}, 2)), "e": tensor.Zeros(tensor.Bool, 2, 0),
		"v": tensor.Must(tensor.FromSlice([]int64{0, 1, 2, 3, 4}, 5))})
}

// TestWritesAsNumpyDoes compares with the bytes that numpy wrote for the same arrays.
func TestWritesAsNumpyDoes(t *testing.T) {
	z, err := zip.OpenReader("testdata/written.npz")
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	entries := written(t)
	if len(z.File) != len(entries) {
		t.Fatalf("%d arrays of %d", len(z.File), len(entries))
	}
	for i, e := range entries {
		f, err := z.File[i].Open()
		if err != nil {
			t.Fatal(err)
		}
		want, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := WriteNPY(&b, e.Tensor); err != nil || z.File[i].Name != e.Name+".npy" || !bytes.Equal(b.Bytes(), want) {
			t.Errorf("%s, %v:\n%q\nnumpy writes %s:\n%q", e.Name, err, b.Bytes(), z.File[i].Name, want)
		}
	}
}

func TestNumpyReadsWhatIsWritten(t *testing.T) {
	if err := exec.Command("/usr/bin/python3", "-c", "import numpy").Run(); err != nil {
		t.Skip("no numpy here; its bytes are in TestWritesAsNumpyDoes")
	}
	path := filepath.Join(t.TempDir(), "x.npz")
	if err := WriteFile(path, written(t)); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("/usr/bin/python3", "-c", `
import sys, numpy as np
z = np.load(sys.argv[1])
print(z.files, *[(z[k].dtype.str, z[k].shape, z[k].tolist()) for k in z.files])`, path).CombinedOutput()
	want := "['b', 'e', 's', 't', 'v'] ('<u2', (2,), [16256, 49152]) ('|b1', (2, 0), [[], []]) ('<c16', (), 0j) " +
		"('<f4', (2, 3), [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]) ('<i8', (5,), [0, 1, 2, 3, 4])\n"
	if err != nil || string(out) != want {
		t.Errorf("numpy says %s %v\nwant %s", out, err, want)
	}
}

func TestReadNPYFile(t *testing.T) {
	var b bytes.Buffer
	v, _ := tensor.FromSlice([]int32{7, 8, 9}, 3)
	if err := WriteNPY(&b, v); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.npy")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := ReadNPYFile(path)
	if err != nil || !bytes.Equal(rowMajor(got), rowMajor(v)) {
		t.Fatalf("%v, %v", got, err)
	}
	if err := os.WriteFile(path, b.Bytes()[:b.Len()-1], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadNPYFile(path); err == nil || !strings.HasPrefix(err.Error(), path) {
		t.Errorf("a file cut short: %v", err)
	}
}

// pack returns an archive of one deflated entry with the given bytes.
func pack(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	f, err := z.Create("x.npy")
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
