package npz

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/tensor"
)

// npy returns magic, version and length, the header's text, and data.
func npy(version byte, text string, data int) []byte {
	out := append([]byte(magic), version, 0)
	if version == 1 {
		out = binary.LittleEndian.AppendUint16(out, uint16(len(text)))
	} else {
		out = binary.LittleEndian.AppendUint32(out, uint32(len(text)))
	}
	return append(append(out, text...), make([]byte, data)...)
}

const good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"

func TestHeaderVariants(t *testing.T) {
	for text, shape := range map[string]string{
		good + "   \n": "[2, 3]",
		`{"shape":(2L,3L),"descr":"<f4","fortran_order":True}`:          "[2, 3]",
		"{'descr': '=f4', 'fortran_order': False, 'shape': (6,)}":       "[6]",
		"{ 'descr' : '|i1' ,'fortran_order':False,'shape':(2,3,4,) , }": "[2, 3, 4]",
		"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 1)}":     "[3, 1]",
	} {
		v, err := ReadNPY(bytes.NewReader(npy(2, text, 24)), int64(12+len(text)+24))
		if err != nil || tensor.ListString(v.Shape) != shape {
			t.Errorf("%s: %v, %v", text, v, err)
		}
	}
}

func TestHeadersThatLie(t *testing.T) {
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"magic":         {[]byte("{} not an array at all"), "wrong magic"},
		"archive":       {[]byte("PK\x03\x04 an .npz"), "this is an archive, probably an .npz file"},
		"version":       {npy(4, good, 24), "unknown .npy version 4.0"},
		"no data":       {npy(1, good, 0), "takes 24 bytes, but 0 follow"},
		"too much data": {npy(1, good, 25), "takes 24 bytes, but 25 follow"},
		"header length": {npy(1, good, 24)[:40], "header claims"},
		"long header":   {npy(2, strings.Repeat(" ", maxHeader+1), 0), "header claims"},
		"no header":     {[]byte(magic), "truncated header"},
		"empty":         {nil, "truncated header"},
		"huge": {npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000, 1000000)}", 24),
			"fit into 2^47 bytes"},
		"wraps to 24": {npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387910,)}", 24),
			"fit into 2^47 bytes"},
		"zero of huge": {npy(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (0, 4611686018427387904, 4)}", 0),
			"fit into 2^47 bytes"},
		"overflow": {npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", 24),
			"want a size"},
		"negative":    {npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -3)}", 24), "want a size"},
		"object":      {npy(1, "{'descr': '|O', 'fortran_order': False, 'shape': (3,)}", 24), "unsupported dtype"},
		"long double": {npy(1, "{'descr': '<f16', 'fortran_order': False, 'shape': ()}", 16), "unsupported dtype"},
		"records": {npy(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,)}", 24),
			"records are not supported"},
		"no tuple":      {npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (6)}", 24), "not a tuple"},
		"no comma":      {npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}", 24), "want a comma"},
		"missing":       {npy(1, "{'descr': '<f4', 'shape': (6,)}", 24), "header lacks"},
		"twice":         {npy(1, "{'descr': '<f4', 'shape': (6,), 'shape': (6,)}", 24), "duplicate key \"shape\""},
		"unknown key":   {npy(1, "{'descr': '<f4', 'order': True, 'shape': (6,)}", 24), "unknown key"},
		"order":         {npy(1, "{'descr': '<f4', 'fortran_order': 0, 'shape': (6,)}", 24), "want True or False"},
		"goes on":       {npy(1, good+" x", 24), "text after its dictionary"},
		"not closed":    {npy(1, good[:len(good)-1], 24), "want"},
		"open string":   {npy(1, "{'descr", 24), "want a string"},
		"no dictionary": {npy(1, "", 24), "want"},
		"too many sizes": {npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': ("+strings.Repeat("1,", 65)+")}", 4),
			"more than 64"},
	} {
		_, err := ReadNPY(bytes.NewReader(c.file), int64(len(c.file)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

func TestUnknownSize(t *testing.T) {
	whole := npy(1, good, 24)
	if v, err := ReadNPY(bytes.NewReader(whole), -1); err != nil || v.Numel() != 6 {
		t.Errorf("%v, %v", v, err)
	}
	if _, err := ReadNPY(bytes.NewReader(whole[:len(whole)-1]), -1); err == nil ||
		!strings.Contains(err.Error(), "truncated: 23 of 24") {
		t.Error(err)
	}
	if _, err := ReadNPY(bytes.NewReader(append(whole, 0)), -1); err == nil ||
		!strings.Contains(err.Error(), "data after the array") {
		t.Error(err)
	}
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestClaimsTakeNoMemory(t *testing.T) {
	const claim = "{'descr': '<f4', 'fortran_order': False, 'shape': (268435456,)}" // 1 GiB
	file := npy(1, claim, 24)
	if n := allocated(func() {
		if _, err := ReadNPY(bytes.NewReader(file), -1); err == nil {
			t.Error("read 1 GiB from nothing")
		}
	}); n > 4<<20 {
		t.Errorf("a stream that claims 1 GiB took %d bytes", n)
	}
	// The archive's directory confirms the header's claim: only the data can disprove it.
	packed := pack(t, file)
	at := bytes.Index(packed, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(packed[at+24:], 10+uint32(len(claim))+1<<30)
	if n := allocated(func() {
		a, err := NewArchive("liar.npz", bytes.NewReader(packed), int64(len(packed)))
		if err == nil {
			_, err = a.Read("x")
		}
		if err == nil || !strings.Contains(err.Error(), `liar.npz: entry "x": claims`) {
			t.Error(err)
		}
	}); n > 4<<20 {
		t.Errorf("an entry that claims 1 GiB took %d bytes", n)
	}
}

// TestMemoryGrowsWithTheData uses a claim that is within the maximum ratio of deflate.
func TestMemoryGrowsWithTheData(t *testing.T) {
	const claim = "{'descr': '<f4', 'fortran_order': False, 'shape': (268435456,)}"
	file := npy(1, claim, 2<<20)
	rand.NewChaCha8([32]byte{}).Read(file[10+len(claim):])
	packed := pack(t, file)
	at := bytes.LastIndex(packed, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(packed[at+24:], 10+uint32(len(claim))+1<<30)
	if n := allocated(func() {
		a, err := NewArchive("liar.npz", bytes.NewReader(packed), int64(len(packed)))
		if err == nil {
			_, err = a.Read("x")
		}
		if err == nil || !strings.Contains(err.Error(), " of 1073741824 bytes of data") {
			t.Error(err)
		}
	}); n > 16<<20 {
		t.Errorf("an entry of 2 MiB that claims 1 GiB took %d bytes", n)
	}
}

func TestDamagedArchives(t *testing.T) {
	whole, err := os.ReadFile("testdata/deflated.npz")
	if err != nil {
		t.Fatal(err)
	}
	try := func(b []byte) error {
		a, err := NewArchive("damaged.npz", bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return err
		}
		for _, n := range a.Names() {
			if _, e := a.Read(n); e != nil {
				err = e
			}
		}
		return err
	}
	if err := try(whole); err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(whole); n += 37 {
		if err := try(whole[:n]); err == nil || !strings.HasPrefix(err.Error(), "damaged.npz: ") {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
	// A flipped bit may hit a date or a name, which no checksum covers, but data are covered.
	missed := 0
	for at := range whole {
		b := bytes.Clone(whole)
		b[at] ^= 1 << (at % 8)
		if err := try(b); err == nil {
			missed++
		} else if !strings.HasPrefix(err.Error(), "damaged.npz: ") {
			t.Errorf("bit flipped at %d: %v does not name the file", at, err)
		}
	}
	if missed > len(whole)*2/3 {
		t.Errorf("%d of %d flipped bits went unseen", missed, len(whole))
	}
	start := bytes.Index(whole, []byte("PK\x01\x02"))
	first := 30 + len("little/b1.npy")
	for at := first; at < first+60; at++ { // the first entry's data
		b := bytes.Clone(whole[:])
		b[at] ^= 0x10
		if err := try(b); at < start && err == nil {
			t.Errorf("data flipped at %d went unseen", at)
		}
	}
}

func TestOverlappingEntries(t *testing.T) {
	var b bytes.Buffer
	v := tensor.Zeros(tensor.Float32, 8)
	if err := WriteNPZ(&b, []Entry{{Name: "a", Tensor: v}, {Name: "b", Tensor: v}}); err != nil {
		t.Fatal(err)
	}
	// Point the second entry of the directory at the first entry's data.
	z := b.Bytes()
	at := bytes.LastIndex(z, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(z[at+42:], 0)
	_, err := NewArchive("bomb.npz", bytes.NewReader(z), int64(len(z)))
	if err == nil || !strings.Contains(err.Error(), "overlap") {
		t.Errorf("overlapping entries: %v", err)
	}
}

func TestBoolsAreZeroOrOne(t *testing.T) {
	file := npy(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", 3)
	copy(file[len(file)-3:], []byte{0, 2, 255})
	v, err := ReadNPY(bytes.NewReader(file), int64(len(file)))
	if err != nil || !bytes.Equal(v.Storage().Bytes(), []byte{0, 1, 1}) {
		t.Errorf("%v, %v", v, err)
	}
}

func FuzzNPY(f *testing.F) {
	f.Add(npy(1, good, 24))
	f.Add(npy(3, "{'descr': '>c8', 'fortran_order': True, 'shape': (1, 3)}", 24))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := ReadNPY(bytes.NewReader(b), int64(len(b)))
		u, err2 := ReadNPY(bytes.NewReader(b), -1)
		if (err == nil) != (err2 == nil) {
			t.Fatalf("with size %v, without %v", err, err2)
		}
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := WriteNPY(&out, v); err != nil {
			t.Fatal(err)
		}
		w, err := ReadNPY(bytes.NewReader(out.Bytes()), int64(out.Len()))
		if err != nil || !bytes.Equal(rowMajor(w), rowMajor(u)) {
			t.Fatalf("%v came back as %v: %v", v.Meta, w, err)
		}
	})
}

func FuzzNPZ(f *testing.F) {
	for _, n := range []string{"stored.npz", "deflated.npz"} {
		b, err := os.ReadFile("testdata/" + n)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	var b bytes.Buffer
	if err := WriteNPZ(&b, []Entry{{Name: "a", Tensor: tensor.Zeros(tensor.Float32, 2, 3)}}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := NewArchive("fuzz", bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		total := 0
		for _, n := range a.Names() {
			if v, err := a.Read(n); err == nil {
				total += v.Bytes()
			}
		}
		if total > maxRatio*len(b) {
			t.Fatalf("%d bytes of arrays out of %d", total, len(b))
		}
	})
}
