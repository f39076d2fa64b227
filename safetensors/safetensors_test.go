package safetensors

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/graphrun/graphrun/tensor"
)

// file returns header length, header and data in aligned memory.
func file(header string, data ...byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(append(b, header...), data...)
	s := tensor.NewStorage(len(b))
	copy(s.Bytes(), b)
	return s.Bytes()
}

func TestReadsTheFormat(t *testing.T) {
	// Written by the format's description, with padding after the header.
	b := file(`{"__metadata__":{"format":"pt","é":"ü"},"w":{"dtype":"F32","shape":[2,1],"data_offsets":[2,10]},"h":{"dtype":"BF16","shape":[],"data_offsets":[0,2]},"e":{"data_offsets":[10,10],"dtype":"I64","shape":[3,0]}}     `,
		0x80, 0x3f, 0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0)
	path := filepath.Join(t.TempDir(), "x.safetensors")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n := f.Names(); !slices.Equal(n, []string{"h", "w", "e"}) {
		t.Errorf("names %v are not in the order of the data", n)
	}
	if m := f.Metadata(); len(m) != 2 || m["é"] != "ü" {
		t.Errorf("metadata %v", m)
	}
	w := tensor.Must(f.Tensor("w"))
	v, err := tensor.ToSlice[float32](w)
	if err != nil || !slices.Equal(v, []float32{1, -2}) || !slices.Equal(w.Shape, []int{2, 1}) {
		t.Errorf("w = %v %v, %v", w.Meta, v, err)
	}
	h, err := tensor.ToSlice[tensor.BF16](tensor.Must(f.Tensor("h")))
	if err != nil || len(h) != 1 || h[0].Float32() != 1 {
		t.Errorf("h = %v, %v", h, err)
	}
	if e := tensor.Must(f.Tensor("e")); e.Numel() != 0 || !slices.Equal(e.Shape, []int{3, 0}) {
		t.Errorf("e = %v", e.Meta)
	}
	if m, ok := f.Meta("w"); !ok || m.DType != tensor.Float32 {
		t.Errorf("meta %v", m)
	}
	if _, err := f.Tensor("nothing"); err == nil || !strings.HasPrefix(err.Error(), path) {
		t.Errorf("a missing tensor: %v", err)
	}
}

func TestAlignedDataAreNotCopied(t *testing.T) {
	const head = `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`
	for pad := range 8 {
		b := file(head+strings.Repeat(" ", pad), 1, 2, 3, 4)
		f, err := Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		v := tensor.Must(f.Tensor("a"))
		at := &b[len(b)-4]
		shared := unsafe.Pointer(at) == v.Pointer()
		if want := uintptr(unsafe.Pointer(at))%4 == 0; shared != want {
			t.Errorf("padding %d: shares the file's memory: %v", pad, shared)
		}
		if got, _ := tensor.ToSlice[float32](v); math.Float32bits(got[0]) != 0x04030201 {
			t.Errorf("padding %d: %v", pad, got)
		}
	}
}

func TestWritesDoNotReachTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	v, _ := tensor.FromSlice([]float64{1, 2}, 2)
	if err := WriteFile(path, []Entry{{"v", v}}, nil); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	*(*float64)(tensor.Must(f.Tensor("v")).Pointer()) = 9
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Tensor("v"); err == nil {
		t.Error("a closed file gives tensors")
	}
	if err := f.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	g, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if got, _ := tensor.ToSlice[float64](tensor.Must(g.Tensor("v"))); got[0] != 1 {
		t.Errorf("the file now holds %v", got)
	}
}

func TestBoolsAreZeroOrOne(t *testing.T) {
	b := file(`{"a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}}`, 0, 1, 7)
	f, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if got := tensor.Must(f.Tensor("a")).Storage().Bytes(); !bytes.Equal(got, []byte{0, 1, 1}) || b[len(b)-1] != 7 {
		t.Errorf("bools %v over %v", got, b[len(b)-3:])
	}
}

func TestHeadersThatLie(t *testing.T) {
	one := func(dtype, shape, offsets string) []byte {
		return file(fmt.Sprintf(`{"a":{"dtype":"%s","shape":%s,"data_offsets":%s}}`, dtype, shape, offsets), 1, 2, 3, 4)
	}
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"empty":         {nil, "the file is truncated: it ends before its header"},
		"seven bytes":   {make([]byte, 7), "the file is truncated: it ends before its header"},
		"length":        {file("{}")[:9], "header claims 2 bytes, 1 follow"},
		"huge length":   {bytes.Repeat([]byte{0xff}, 16), "header claims"},
		"no brace":      {file(" {}"), "does not start with '{'"},
		"no header":     {file(""), "does not start with '{'"},
		"not JSON":      {file("{]"), "header: invalid JSON at byte 1: the file is damaged"},
		"cut":           {file(`{"a":{"dtype":"U8"`), "header: invalid JSON at byte 18: the file is damaged"},
		"no colon":      {file(`{"a" {}}`), "header: invalid JSON at byte 5: the file is damaged"},
		"UTF-8":         {file("{\"\xff\":{}}"), "header: invalid JSON at byte 2: the file is damaged"},
		"two documents": {file("{}{}"), "header: invalid JSON at byte 2: the file is damaged"},
		"hole": {file(
			`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}`, 1, 2,
			3), "starts at 2"},
		"overlap": {file(
			`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, 1, 2,
			3), "starts at 1"},
		"same place": {file(
			`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1),
			"starts at 0"},
		"hole at start": {one("U8", "[3]", "[1,4]"), "starts at 1"},
		"hole at end":   {one("U8", "[3]", "[0,3]"), "end at 3, the data at 4"},
		"past the end":  {one("U8", "[5]", "[0,5]"), "past the end"},
		"data alone":    {file("{}", 1), "end at 0, the data at 1"},
		"duplicate": {file(
			`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1),
			`duplicate key "a"`},
		"inner duplicate": {file(`{"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}}`, 1),
			`duplicate key "a/dtype"`},
		"size":            {one("F32", "[2]", "[0,4]"), "takes 8 bytes"},
		"dtype":           {one("F128", "[1]", "[0,4]"), `unsupported dtype "F128"`},
		"no dtype":        {file(`{"a":{"shape":[1],"data_offsets":[0,1]}}`, 1), `unsupported dtype ""`},
		"no shape":        {file(`{"a":{"dtype":"U8","data_offsets":[0,1]}}`, 1), "no shape"},
		"null shape":      {one("U8", "null", "[0,1]"), "no shape"},
		"no offsets":      {file(`{"a":{"dtype":"U8","shape":[1]}}`, 1), "not a range"},
		"one offset":      {one("U8", "[4]", "[4]"), "not a range"},
		"three offsets":   {one("U8", "[4]", "[0,4,4]"), "not a range"},
		"reversed":        {one("U8", "[4]", "[4,0]"), "not a range"},
		"negative offset": {one("U8", "[4]", "[-4,0]"), "not a range"},
		"negative size":   {one("U8", "[-2,-2]", "[0,4]"), "negative size"},
		"fraction":        {one("U8", "[4.0]", "[0,4]"), `tensor "a": "shape/0" has the wrong type: 4.0`},
		"unknown member": {file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":0}}`, 1),
			`tensor "a": unknown key "x": want dtype, shape and data_offsets`},
		"over 32 bits":     {one("U8", "[4294967300]", "[0,4]"), "4294967300"},
		"wraps to 4":       {one("U8", "[1073741824,1073741824,16]", "[0,4]"), "too many elements"},
		"too many sizes":   {one("U8", "["+strings.Repeat("1,", 64)+"4]", "[0,4]"), "65 dimensions"},
		"metadata":         {file(`{"__metadata__":{"a":1}}`), "__metadata__"},
		"tensor, no table": {file(`{"a":3}`), `tensor "a": it is not an object, or its members have the wrong type`},
		"size is text":     {one("U8", `["4"]`, "[0,4]"), `tensor "a": "shape/0" has the wrong type`},
		"a zip archive":    {[]byte("PK\x03\x04 of PyTorch"), "not a safetensors file: it is a zip archive"},
	} {
		_, err := Parse(c.file)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

func TestOpenNamesTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.safetensors")
	for _, b := range [][]byte{nil, file("{]")} {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil || !strings.HasPrefix(err.Error(), path) {
			t.Errorf("%q: %v", b, err)
		}
	}
	for _, p := range []string{dir, filepath.Join(dir, "none")} {
		if _, err := Open(p); err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("%s: %v", p, err)
		}
	}
}

// drawEntries draws tensors of all dtypes that the format has, permuted and offset.
func drawEntries(t *rapid.T) []Entry {
	var out []Entry
	for i := range rapid.IntRange(0, 5).Draw(t, "count") {
		d := rapid.SampledFrom(tensor.DTypes()[:14]).Draw(t, "dtype")
		m := tensor.New(d, rapid.SliceOfN(rapid.IntRange(0, 3), 0, 3).Draw(t, "shape")...)
		m.Offset = rapid.IntRange(0, 2).Draw(t, "offset")
		v := tensor.Empty(m)
		b := v.Storage().Bytes()
		copy(b, rapid.SliceOfN(rapid.Byte(), len(b), len(b)).Draw(t, "bytes"))
		if d == tensor.Bool {
			for i := range b {
				b[i] &= 1
			}
		}
		m, err := m.Transpose(0, -1)
		if err == nil {
			v, err = v.View(m)
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, Entry{rapid.String().Draw(t, "name") + fmt.Sprint(i), v})
	}
	return out
}

func rowMajor(t *tensor.Tensor) []byte {
	return t.CopyTo(tensor.New(t.DType, t.Shape...)).Storage().Bytes()
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := drawEntries(t)
		meta := rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(t, "metadata")
		var b, again bytes.Buffer
		if err := Write(&b, entries, meta); err != nil {
			t.Fatal(err)
		}
		if err := Write(&again, entries, meta); err != nil || !bytes.Equal(b.Bytes(), again.Bytes()) {
			t.Fatalf("two writes differ: %v", err)
		}
		s := tensor.NewStorage(b.Len())
		copy(s.Bytes(), b.Bytes())
		f, err := Parse(s.Bytes())
		if err != nil {
			t.Fatalf("%v: %q", err, b.Bytes())
		}
		if len(f.Names()) != len(entries) || fmt.Sprint(f.Metadata()) != fmt.Sprint(meta) {
			t.Fatalf("names %q, metadata %q of %q", f.Names(), f.Metadata(), meta)
		}
		for _, e := range entries {
			got, err := f.Tensor(e.Name)
			if err != nil {
				t.Fatal(err)
			}
			if got.DType != e.Tensor.DType || !slices.Equal(got.Shape, e.Tensor.Shape) ||
				!bytes.Equal(rowMajor(got), rowMajor(e.Tensor)) {
				t.Fatalf("wrote %v, read %v", e.Tensor.Meta, got.Meta)
			}
			if !isAligned(f.data[f.entries[e.Name].begin:], got.DType.Size()) {
				t.Fatalf("%q was written where it is not aligned", e.Name)
			}
		}
	})
}

func TestWriteRefuses(t *testing.T) {
	v := tensor.Zeros(tensor.Float32, 2)
	for name, c := range map[string][]Entry{
		"twice":      {{"a", v}, {"a", v}},
		"reserved":   {{metadataKey, v}},
		"complex128": {{"a", tensor.Zeros(tensor.Complex128, 1)}},
		"UTF-8":      {{"\xff", v}},
	} {
		if err := Write(&bytes.Buffer{}, c, nil); err == nil {
			t.Errorf("%s was written", name)
		}
	}
	if err := WriteFile(filepath.Join(t.TempDir(), "no", "such"), nil, nil); err == nil {
		t.Error("wrote into a folder that is not there")
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(file(`{"__metadata__":{"a":"b"},"h":{"dtype":"BOOL","shape":[],"data_offsets":[0,1]},"w":{"dtype":"C64","shape":[1,1],"data_offsets":[1,9]}} `, 1, 2, 3, 4, 5, 6, 7, 8, 9))
	f.Add(file("{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := Parse(b)
		if err != nil {
			return
		}
		var entries []Entry
		for _, n := range in.Names() {
			v, err := in.Tensor(n)
			if err != nil {
				t.Fatal(err)
			}
			entries = append(entries, Entry{n, v})
		}
		var out bytes.Buffer
		if err := Write(&out, entries, in.Metadata()); err != nil {
			t.Fatal(err)
		}
		again, err := Parse(out.Bytes())
		if err != nil || len(again.Names()) != len(entries) {
			t.Fatalf("%q came back as %q: %v", b, out.Bytes(), err)
		}
		for _, e := range entries {
			if v, err := again.Tensor(e.Name); err != nil || !bytes.Equal(rowMajor(v), rowMajor(e.Tensor)) {
				t.Fatalf("%q changed: %v", e.Name, err)
			}
		}
	})
}

// TestChangedFile checks that tensors do not change with their file, and that reading a truncated file is an error.
func TestChangedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	v, _ := tensor.FromSlice([]float64{1, 2}, 2)
	if err := WriteFile(path, []Entry{{"v", v}}, nil); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	before := tensor.Must(f.Tensor("v"))
	if err := os.Truncate(path, 20); err != nil {
		t.Fatal(err)
	}
	if got, _ := tensor.ToSlice[float64](before); got[1] != 2 {
		t.Errorf("the tensor now holds %v", got)
	}
	if _, err := f.Tensor("v"); err == nil || !strings.Contains(err.Error(), "truncated") {
		t.Errorf("a truncated file: %v", err)
	}
}

// A file may be overwritten with its own tensors.
func TestRewrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.safetensors")
	want := tensor.Must(tensor.FromSlice(make([]float32, 1<<16), 1<<16))
	want.Set(tensor.FloatScalar(3), 1<<16-1)
	if err := WriteFile(path, []Entry{{"w", want}}, nil); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := f.Tensor("w")
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, []Entry{{"v", w}}, nil); err != nil {
		t.Fatal(err)
	}
	again, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if v, err := again.Tensor("v"); err != nil || v.At(1<<16-1).Float() != 3 {
		t.Errorf("%v, %v", v, err)
	}
	if err := WriteFile(path, []Entry{{"w", nil}}, nil); err == nil {
		t.Error("a nil tensor was written")
	}
	if v, err := Open(path); err != nil || len(v.Names()) != 1 {
		t.Errorf("a failed write left %v, %v", v, err)
	}
}
