package batch

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
)

// record is the result of an input: one line of a manifest.
type record struct {
	Name   string `json:"name"`
	Input  string `json:"input"`            // sha256 of the contents; empty if the file could not be read
	Run    string `json:"run"`              // digest of the model and the options
	Output string `json:"output,omitempty"` // sha256 of the output
	Bytes  int64  `json:"bytes,omitempty"`  // size of the output
	Error  string `json:"error,omitempty"`  // the reason why there is no output
}

func (r *record) valid() bool {
	return r.Name != "" && r.Run != "" && (r.Output == "") != (r.Error == "")
}

// layout has methods that return the paths of the files in an output directory.
type layout struct{ dir string }

// state returns the directory of manifests, locks and temporary files.
func (l layout) state() string { return filepath.Join(l.dir, ".graphrun") }

// output returns the path of the output of an input.
func (l layout) output(name string) string {
	return filepath.Join(l.dir, filepath.FromSlash(name)+".npz")
}

// shard returns the path of a file or directory of a shard.
func (l layout) shard(kind string, o *Options) string {
	return filepath.Join(l.state(), fmt.Sprintf("%s-%d-of-%d", kind, o.Shard+1, o.Shards))
}

func (l layout) manifest(o *Options) string { return l.shard("manifest", o) + ".jsonl" }

// maxRecord is the maximum length of a record in bytes.
const maxRecord = 1 << 20

// readManifests returns the records of all shards, by name of the input. Lines that are not records are ignored: a
// process that was killed may leave an incomplete line. Only records of the inputs in wanted are returned.
func (l layout) readManifests(wanted map[string]bool) (map[string][]record, error) {
	entries, err := os.ReadDir(l.state())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	byName := map[string][]record{}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "manifest-") || filepath.Ext(e.Name()) != ".jsonl" {
			continue
		}
		if err := readManifest(filepath.Join(l.state(), e.Name()), wanted, byName); err != nil {
			return nil, err
		}
	}
	return byName, nil
}

// readManifest adds the records of one manifest to byName.
func readManifest(path string, wanted map[string]bool, byName map[string][]record) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxRecord)
	for lines.Scan() {
		var r record
		if json.Unmarshal(lines.Bytes(), &r) == nil && r.valid() && wanted[r.Name] {
			byName[r.Name] = append(byName[r.Name], r)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// finished returns a record with the given digests that makes another run of the input unnecessary, or nil. This is a
// record whose output still exists or, if there is none, a record of an error. An empty digest of the input equals
// every digest.
func (l layout) finished(records []record, input, run string) *record {
	var failed *record
	for i := range records {
		r := &records[i]
		switch {
		case r.Run != run || input != "" && r.Input != input:
		case r.Error != "":
			failed = r
		case l.has(r, records):
			return r
		}
	}
	return failed
}

// has reports whether the output of a record exists and has the size in the record. If the input also has records of
// other outputs, has also compares the digest of the contents.
func (l layout) has(r *record, records []record) bool {
	path := l.output(r.Name)
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != r.Bytes {
		return false
	}
	for i := range records {
		if records[i].Output != "" && records[i].Output != r.Output {
			f, err := os.Open(path)
			if err != nil {
				return false
			}
			defer f.Close()
			h := sha256.New()
			_, err = io.Copy(h, f)
			return err == nil && hex.EncodeToString(h.Sum(nil)) == r.Output
		}
	}
	return true
}

// openManifest opens the manifest of a shard. If the file ends with an incomplete line, a line break is added.
func openManifest(fsys fileSystem, path string) (outputFile, error) {
	incomplete, err := endsWithinLine(path)
	if err != nil {
		return nil, err
	}
	f, err := fsys.openEnd(path)
	if err == nil && incomplete {
		if _, err = f.Write([]byte("\n")); err != nil {
			f.Close()
		}
	}
	return f, err
}

// endsWithinLine reports whether the file exists and its last line has no newline.
func endsWithinLine(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return false, err
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], size-1)
	return last[0] != '\n', err
}
