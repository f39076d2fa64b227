package npz

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/tensor"
)

// inflating returns an archive with an entry "x" of n zeros of float32, which deflate makes
// a thousand times smaller.
func inflating(t *testing.T, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create("x.npy")
	if err != nil {
		t.Fatal(err)
	}
	w.Write(npy(1, fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d,)}", n), 0))
	zeros := make([]byte, 1<<20)
	for left := 4 * n; left > 0; left -= len(zeros) {
		w.Write(zeros[:min(left, len(zeros))])
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// counting counts the bytes that are read.
type counting struct {
	*bytes.Reader
	n int
}

func (c *counting) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.Reader.ReadAt(p, at)
	c.n += n
	return n, err
}

func TestMetaReadsTheHeaderOnly(t *testing.T) {
	file := inflating(t, 64<<20)
	r := &counting{Reader: bytes.NewReader(file)}
	a, err := NewArchive("in.npz", r, int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	r.n = 0
	taken := allocated(func() {
		m, err := a.Meta("x")
		if err != nil || m.DType != tensor.Float32 || tensor.ListString(m.Shape) != "[67108864]" {
			t.Errorf("%v, %v", m, err)
		}
		_, err = a.ReadAs("x", tensor.New(tensor.Float32, 4))
		if err == nil || !strings.Contains(err.Error(), `in.npz: entry "x": the array is float32[67108864], want float32[4]`) {
			t.Error(err)
		}
	})
	if taken > 1<<20 || r.n > 1<<14 {
		t.Errorf("%d bytes were taken, %d of %d read", taken, r.n, len(file))
	}
	if _, err := a.Meta("y"); err == nil || !strings.Contains(err.Error(), "the file has x") {
		t.Error(err)
	}
}

func TestReadAsWhatThereIs(t *testing.T) {
	file := inflating(t, 100)
	a, err := NewArchive("in.npz", bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := a.ReadAs("x", tensor.New(tensor.Float32, 100)); err != nil || v.Numel() != 100 {
		t.Errorf("%v, %v", v, err)
	}
}

// raw returns an archive of one deflated entry with the given directory fields.
func raw(t *testing.T, data []byte, claims uint64) []byte {
	t.Helper()
	var packed, b bytes.Buffer
	fw, _ := flate.NewWriter(&packed, flate.BestSpeed)
	fw.Write(data)
	fw.Close()
	z := zip.NewWriter(&b)
	w, err := z.CreateRaw(&zip.FileHeader{Name: "x.npy", Method: zip.Deflate, CRC32: crc32.ChecksumIEEE(data),
		CompressedSize64: uint64(packed.Len()), UncompressedSize64: claims})
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(w, &packed)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestEntriesThatLieAreNotInflated(t *testing.T) {
	six := npy(1, good, 24)
	bomb := append(npy(1, good, 24), make([]byte, 256<<20)...)
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"more data than the directory says": {raw(t, bomb, uint64(len(six))), "damaged"},
		"more data than the header says":    {raw(t, bomb, uint64(len(bomb))), "takes 24 bytes, but"},
		"less data than the directory says": {raw(t, six[:len(six)-9], uint64(len(six))), "truncated"},
		"less than the header":              {raw(t, six[:30], 30), "header claims"},
	} {
		r := &counting{Reader: bytes.NewReader(c.file)}
		a, err := NewArchive("in.npz", r, int64(len(c.file)))
		if err != nil {
			t.Fatal(err)
		}
		r.n = 0
		taken := allocated(func() {
			_, err := a.ReadAs("x", tensor.New(tensor.Float32, 2, 3))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
			}
		})
		if taken > 1<<20 || r.n > 64<<10 {
			t.Errorf("%s: took %d bytes, and read %d of %d", name, taken, r.n, len(c.file))
		}
	}
}

func TestPlainWords(t *testing.T) {
	dir := t.TempDir()
	whole := inflating(t, 1000)
	damaged := bytes.Clone(whole)
	damaged[bytes.Index(damaged, []byte("PK\x01\x02"))+16] ^= 0xff // the checksum
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty.npz":  {nil, "empty.npz: the file is empty"},
		"text.npz":   {[]byte("{}"), "text.npz: not an .npz archive"},
		"single.npz": {npy(1, good, 24), "single.npz: this is a single .npy array, not an .npz archive"},
		"cut.npz":    {whole[:len(whole)-30], "cut.npz: the .npz archive is truncated or damaged"},
		"bits.npz":   {damaged, "checksum differs"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "zip:") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "missing.npy"): "missing.npy: there is no such file",
		dir:                               "this is a folder",
	} {
		for _, err := range []error{second(Open(path)), second(NPYFileMeta(path)), second(ReadNPYFile(path))} {
			if err == nil || !strings.Contains(err.Error(), want) || strings.HasPrefix(err.Error(), "open ") {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }

// pieces records the size of each write.
type pieces struct {
	bytes.Buffer
	largest int
}

func (p *pieces) Write(b []byte) (int, error) {
	p.largest = max(p.largest, len(b))
	return p.Buffer.Write(b)
}

func TestWritesInPieces(t *testing.T) {
	for _, m := range []tensor.Meta{
		{DType: tensor.Int64, Shape: []int{1100, 1000}, Strides: []int{1, 1100}},
		{DType: tensor.Int64, Shape: []int{3, 700, 1000}, Strides: []int{1, 3, 2100}, Offset: 5},
		{DType: tensor.Int64, Shape: []int{1 << 20, 2}, Strides: []int{0, 1}},
	} {
		v := tensor.Empty(m)
		at := int64(0)
		v.Walk(func(i int) {
			v.SetFlat(i+m.Offset-v.Offset, tensor.IntScalar(at))
			at++
		})
		var b pieces
		if err := WriteNPY(&b, v); err != nil {
			t.Fatal(err)
		}
		if b.largest > writeBlockBytes {
			t.Errorf("%v: %d bytes were written at once", m, b.largest)
		}
		back, err := ReadNPY(bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatal(err)
		}
		for _, index := range []int{0, 1, 12345, back.Numel() - 1} {
			want := v.Contiguous()
			place := tensor.Meta{DType: m.DType, Shape: []int{}, Strides: []int{}, Offset: index}
			if a, b := tensor.Must(back.View(place)).At(), tensor.Must(want.View(place)).At(); a.Int() != b.Int() {
				t.Errorf("%v: element %d is %v, want %v", m, index, a, b)
			}
		}
	}
}

// leaks are words of Go's packages, which messages must not contain.
var leaks = regexp.MustCompile(`zip:|EOF|flate:|negative offset|invalid argument`)

// TestDamageInPlainWords truncates files and flips their bits: every error must be worded by this package.
func TestDamageInPlainWords(t *testing.T) {
	try := func(b []byte) {
		t.Helper()
		a, err := NewArchive("damaged.npz", bytes.NewReader(b), int64(len(b)))
		if err == nil {
			for _, n := range a.Names() {
				err = errors.Join(err, second(a.Meta(n)), second(a.Read(n)))
			}
		}
		if err != nil && leaks.MatchString(err.Error()) {
			t.Error(err)
		}
	}
	for _, name := range []string{"stored.npz", "deflated.npz"} {
		whole, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(whole); at += max(1, len(whole)/300) {
			b := bytes.Clone(whole)
			b[at] ^= 0x80
			try(b)
			try(whole[:at])
			try(append(b[:at], whole[min(at+5, len(whole)):]...))
		}
		for at := bytes.Index(whole, []byte("PK\x01\x02")); at < len(whole); at += 5 { // the directory
			b := bytes.Clone(whole)
			copy(b[at:], "\xff\xff\xff\xff")
			try(b)
		}
	}
}
