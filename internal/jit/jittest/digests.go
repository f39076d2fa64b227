package jittest

import (
	"cmp"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/machine"
)

var (
	updateDigests = flag.Bool("update", false, "rewrite digests")
	listingsDir   = flag.String("listings", "", "folder for the listings of the code that has digests")
)

// AMD64Sets returns the instruction sets of amd64 for which tests compare digests of generated code.
func AMD64Sets() []machine.Features {
	avx2, avx512 := machine.AVX2, machine.AVX512
	return []machine.Features{avx2, avx2 | machine.DotBytes256, avx512,
		avx512 | machine.DotBytes256 | machine.DotBytes512}
}

// Digests compares digests with a committed file. A digest is the hash of a piece: generated code, which is
// not run, or text such as results. A refactoring of a generator must not change the digests. The tests have two flags:
// -update rewrites the file, and -listings writes the listing of each piece to a folder. The folders of two revisions
// show where their code differs.
type Digests struct {
	t       testing.TB
	path    string
	pieces  []string        // a line of the file for each piece: the digest in hexadecimal, two spaces and the name
	names   map[string]bool // the names of the pieces
	skipped map[string]bool // the names of the pieces that are not compared
}

// NewDigests returns Digests without pieces, to compare with the file at a path.
func NewDigests(t testing.TB, path string) *Digests {
	return &Digests{t: t, path: path, names: map[string]bool{}, skipped: map[string]bool{}}
}

// Add adds a piece: the code of the functions, in order. The name must be unique.
func (d *Digests) Add(name string, funcs ...*jit.Func) {
	d.t.Helper()
	hash, listing := sha256.New(), ""
	for _, function := range funcs {
		code, err := function.Generate(*listingsDir != "")
		if err != nil {
			d.t.Fatalf("%s: %v", name, err)
		}
		fmt.Fprintf(hash, "%d\n", len(code.Bytes))
		hash.Write(code.Bytes)
		listing += code.Listing
	}
	d.add(name, hash.Sum(nil), listing)
}

// AddText adds a piece that is text instead of code.
func (d *Digests) AddText(name, text string) {
	d.t.Helper()
	sum := sha256.Sum256([]byte(text))
	d.add(name, sum[:], text)
}

// add adds a piece with its digest.
func (d *Digests) add(name string, digest []byte, listing string) {
	d.t.Helper()
	if d.names[name] {
		d.t.Fatalf("two pieces have the name %s", name)
	}
	d.names[name] = true
	d.pieces = append(d.pieces, fmt.Sprintf("%x  %s", digest, name))
	if *listingsDir != "" {
		path := filepath.Join(*listingsDir, strings.ReplaceAll(name, " ", "_")+".s")
		if err := os.WriteFile(path, []byte(listing), 0o666); err != nil {
			d.t.Fatal(err)
		}
	}
}

// Skip skips a piece: its line of the file, if there is one, is not compared.
func (d *Digests) Skip(name string) { d.skipped[name] = true }

// Compare reports the pieces that differ from the file, or rewrites the file if the flag -update is set.
func (d *Digests) Compare() {
	d.t.Helper()
	text := strings.Join(d.pieces, "\n") + "\n"
	if *updateDigests {
		if len(d.skipped) > 0 {
			d.t.Fatal("pieces are skipped: the file would lack them")
		}
		err := cmp.Or(os.MkdirAll(filepath.Dir(d.path), 0o777), os.WriteFile(d.path, []byte(text), 0o666))
		if err != nil {
			d.t.Fatal(err)
		}
		return
	}
	file, err := os.ReadFile(d.path)
	if err != nil {
		d.t.Fatal(err)
	}
	want, names := map[string]bool{}, map[string]bool{} // the lines of the file, and the names in them
	for line := range strings.Lines(string(file)) {
		line = strings.TrimSuffix(line, "\n")
		_, name, _ := strings.Cut(line, "  ")
		if d.skipped[name] {
			continue
		}
		want[line], names[name] = true, true
	}
	for _, piece := range d.pieces {
		if _, name, _ := strings.Cut(piece, "  "); !want[piece] && names[name] {
			d.t.Errorf("%s changed (-listings writes listings, -update accepts the change)", name)
		} else if !want[piece] {
			d.t.Errorf("%s is new: -update adds it (results of ops: also with GRAPHRUN_JIT=off)", name)
		}
		delete(want, piece)
	}
	if len(want) > 0 && !d.t.Failed() {
		d.t.Errorf("%s has %d digests of pieces that are not generated any more; use -update", d.path, len(want))
	}
}
