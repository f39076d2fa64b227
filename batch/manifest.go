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
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

// record is the result of an input: one line of a manifest. Each shard (a share of the inputs) has a manifest.
type record struct {
	Name   inputName `json:"name"`
	Input  string    `json:"input"`            // sha256 of the contents; empty if the file could not be read
	Run    string    `json:"run"`              // digest of the model and the options
	Output string    `json:"output,omitempty"` // sha256 of the output
	Bytes  int64     `json:"bytes,omitempty"`  // size of the output
	Error  string    `json:"error,omitempty"`  // the reason why there is no output
}

// inputName is the name of an input. A name that is not UTF-8, which JSON cannot represent, is written in quotes after a
// NUL character, which no name of a file contains.
type inputName string

// MarshalText returns the name as it is written.
func (n inputName) MarshalText() ([]byte, error) {
	if utf8.ValidString(string(n)) {
		return []byte(n), nil
	}
	return strconv.AppendQuoteToASCII([]byte{0}, string(n)), nil
}

// UnmarshalText reads a name that MarshalText returned.
func (n *inputName) UnmarshalText(text []byte) (err error) {
	name := string(text)
	if quoted, isQuoted := strings.CutPrefix(name, "\x00"); isQuoted {
		name, err = strconv.Unquote(quoted)
	}
	*n = inputName(name)
	return err
}

// valid reports whether the record has all required fields, and either an output or an error.
func (r *record) valid() bool {
	return r.Name != "" && r.Run != "" && (r.Output == "") != (r.Error == "")
}

// outputDir gives the paths of the files in the output directory dir.
type outputDir struct{ dir string }

// stateDir returns the directory of manifests, locks and temporary files.
func (d outputDir) stateDir() string { return filepath.Join(d.dir, ".graphrun") }

// outputPath returns the path of the output of an input.
func (d outputDir) outputPath(name string) string {
	return filepath.Join(d.dir, filepath.FromSlash(name)+".npz")
}

// shardPath returns the path of a file or directory of the shard that o selects. kind names the file, such as "lock".
func (d outputDir) shardPath(kind string, o *Options) string {
	return filepath.Join(d.stateDir(), fmt.Sprintf("%s-%d-of-%d", kind, o.Shard+1, o.Shards))
}

// manifestPath returns the path of the manifest of a shard.
func (d outputDir) manifestPath(o *Options) string { return d.shardPath("manifest", o) + ".jsonl" }

// maxRecord is the maximum length of a record in bytes.
const maxRecord = 1 << 20

// readManifests returns the records of all shards, by name of the input. Lines that are not records are ignored: a
// process that was killed may leave an incomplete line. Only records of the inputs in wanted are returned.
func (d outputDir) readManifests(wanted map[string]bool) (map[string][]record, error) {
	entries, err := os.ReadDir(d.stateDir())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	byName := map[string][]record{}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "manifest-") || filepath.Ext(e.Name()) != ".jsonl" {
			continue
		}
		if err := readManifest(filepath.Join(d.stateDir(), e.Name()), wanted, byName); err != nil {
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
		if json.Unmarshal(lines.Bytes(), &r) == nil && r.valid() && wanted[string(r.Name)] {
			byName[string(r.Name)] = append(byName[string(r.Name)], r)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// finishedRecord returns the record that makes another run of an input unnecessary, or nil. records are all records of
// the input. finishedRecord chooses among the records with the given digests; an empty inputDigest matches every
// digest. A record whose output still exists has priority over a record of an error.
func (d outputDir) finishedRecord(records []record, inputDigest, runDigest string) *record {
	var failed *record
	for i := range records {
		r := &records[i]
		switch {
		case r.Run != runDigest || inputDigest != "" && r.Input != inputDigest: // another input or model
		case r.Error != "":
			failed = r
		case d.outputExists(r, records):
			return r
		}
	}
	return failed
}

// outputExists reports whether the output of record r exists and has the size in the record. records are all records of
// the input. If one of them has another output, which may have replaced the output of r, outputExists also compares the
// digest of the contents.
func (d outputDir) outputExists(r *record, records []record) bool {
	path := d.outputPath(string(r.Name))
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != r.Bytes {
		return false
	}
	for i := range records {
		if records[i].Output != "" && records[i].Output != r.Output {
			return fileHasDigest(path, r.Output)
		}
	}
	return true
}

// fileHasDigest reports whether a file can be read and its contents have the given sha256.
func fileHasDigest(path, digest string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	hash := sha256.New()
	_, err = io.Copy(hash, f)
	return err == nil && hex.EncodeToString(hash.Sum(nil)) == digest
}

// openManifest opens the manifest of a shard. If the file ends with an incomplete line, a line break is added.
func openManifest(fsys fileSystem, path string) (outputFile, error) {
	incomplete, err := endsWithinLine(path)
	if err != nil {
		return nil, err
	}
	f, err := fsys.openAppend(path)
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
