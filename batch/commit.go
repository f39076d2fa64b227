package batch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/graphrun/graphrun/internal/printable"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/npz"
)

// committer writes the results of a shard (a share of the inputs). The manifest of a shard is a file with one line for
// each finished input. The line is the record of the input. A result is finished when its record is in the manifest,
// and the manifest is synced.
type committer struct {
	ctx            context.Context // ends the writing of large results
	fsys           fileSystem
	outputDir      outputDir
	temporary      string // directory of files that are being written
	manifest       outputFile
	runDigest      string          // digest of the model and the options: see record.Run
	temporaryCount int             // number of temporary files created so far
	directories    map[string]bool // set of the directories that exist and have a synced entry in their parent
}

// result has the outputs of an input, or the error that replaces them.
type result struct {
	input    Input
	digest   string // digest of the input
	entries  []npz.Entry
	err      error  // the reason why there are no entries
	bytes    int64  // size of the entries in memory
	release  func() // must be called when the entries are no longer used
	inWindow bool   // whether the input holds a unit of job.window, which limits the computed but unrecorded inputs
}

// message returns the error without the path of the input, which stands before it in messages; "" for none.
func (r *result) message() string {
	if r.err == nil {
		return ""
	}
	text := r.err.Error()
	for _, path := range []string{r.input.Path, printable.Text(r.input.Path)} {
		text = strings.TrimPrefix(text, path+": ")
	}
	return text
}

// maxWriters is the maximum number of outputs that are written and synced at the same time. File systems combine
// simultaneous syncs.
const maxWriters = 16

// maxErrorText is the maximum length of the text of an error in a record, in characters.
const maxErrorText = 4096

// openShard creates the directories and the manifest of a shard, and removes temporary files of a run that was killed.
func (c *committer) openShard(options *Options) (err error) {
	c.directories = map[string]bool{}
	for _, dir := range []string{c.outputDir.dir, c.outputDir.stateDir(), c.temporary} {
		if err := c.makeDirectory(dir); err != nil {
			return err
		}
	}
	if err := c.removeTemporaryFiles(); err != nil {
		return err
	}
	if c.manifest, err = openManifest(c.fsys, c.outputDir.manifestPath(options)); err != nil {
		return err
	}
	return c.fsys.syncDirectory(c.outputDir.stateDir())
}

// removeTemporaryFiles removes all temporary files.
func (c *committer) removeTemporaryFiles() error {
	paths, err := filesIn(c.temporary)
	for _, path := range paths {
		err = errors.Join(err, c.fsys.remove(path))
	}
	return err
}

// makeDirectory creates a directory in an existing directory, and syncs the existing directory so that the new entry
// is durable.
func (c *committer) makeDirectory(path string) error {
	if c.directories[path] {
		return nil
	}
	err := c.fsys.makeDirectory(path)
	if err == nil {
		err = c.fsys.syncDirectory(filepath.Dir(path))
	}
	c.directories[path] = err == nil
	return err
}

// commit writes the results of a part, which is a list of results that are recorded together. It first writes the
// outputs to temporary files, and syncs and renames these files. Then it writes the records. After an error, results
// without a record count as unfinished. Existing output files are complete.
func (c *committer) commit(part []*result) (err error) {
	records := make([]record, len(part))
	paths := make([]string, len(part))
	errs := make([]error, len(part))
	slots := make(chan struct{}, maxWriters) // limits the number of simultaneous writes
	var wg sync.WaitGroup
	for i, r := range part {
		records[i] = record{Name: inputName(r.input.Name), Input: r.digest, Run: c.runDigest}
		if r.err != nil {
			records[i].Error = strings.ToValidUTF8(fmt.Sprintf("%.*s", maxErrorText, r.message()), "\ufffd")
			continue
		}
		paths[i] = filepath.Join(c.temporary, strconv.Itoa(c.temporaryCount))
		c.temporaryCount++
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = c.write(paths[i], r.entries, &records[i])
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return errors.Join(err, c.removeTemporaryFiles())
	}
	if err := c.rename(part, paths); err != nil {
		return errors.Join(err, c.removeTemporaryFiles())
	}
	return c.record(records)
}

// write writes an output to a new file, and sets the digest and the size of the output in its record.
func (c *committer) write(path string, entries []npz.Entry, r *record) (err error) {
	f, err := c.fsys.create(path)
	if err != nil {
		return err
	}
	hash := sha256.New()
	counter := &countingWriter{writer: io.MultiWriter(f, hash)}
	if bytesOf(entries) >= interruptedBytes {
		counter.ctx = c.ctx
	}
	err = npz.WriteNPZ(counter, entries)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	r.Output, r.Bytes = hex.EncodeToString(hash.Sum(nil)), counter.bytes
	return err
}

// interruptedBytes is the size from which a result is not written to its end after the context has ended. Smaller
// results take little time, and would have to be computed again.
const interruptedBytes = 64 << 20

// countingWriter counts the bytes that it writes to writer.
type countingWriter struct {
	ctx    context.Context // ends the writing; nil for none
	writer io.Writer
	bytes  int64
}

// Write writes b.
func (c *countingWriter) Write(b []byte) (int, error) {
	if c.ctx != nil && c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	n, err := c.writer.Write(b)
	c.bytes += int64(n)
	return n, err
}

// rename renames the outputs of a part from temporaryPaths to their names. If an input failed, rename removes the
// output that an earlier run made.
func (c *committer) rename(part []*result, temporaryPaths []string) error {
	changed := map[string]bool{} // set of directories
	for i, r := range part {
		path := c.outputDir.outputPath(r.input.Name)
		if r.err != nil {
			if err := c.fsys.remove(path); err != nil {
				return err
			}
			if c.directories[filepath.Dir(path)] {
				changed[filepath.Dir(path)] = true
			}
			continue
		}
		if err := c.makeParents(filepath.Dir(path)); err != nil {
			return err
		}
		if err := c.fsys.rename(temporaryPaths[i], path); err != nil {
			return err
		}
		changed[filepath.Dir(path)] = true
	}
	for _, dir := range sorted.Keys(changed) {
		if err := c.fsys.syncDirectory(dir); err != nil {
			return err
		}
	}
	return nil
}

// makeParents creates a directory below the output directory, and all missing directories above it.
func (c *committer) makeParents(dir string) error {
	if dir == c.outputDir.dir || c.directories[dir] {
		return nil
	}
	if err := c.makeParents(filepath.Dir(dir)); err != nil {
		return err
	}
	return c.makeDirectory(dir)
}

// record appends records to the manifest.
func (c *committer) record(records []record) error {
	var lines []byte
	for i := range records {
		line, err := json.Marshal(&records[i])
		if err != nil {
			return err
		}
		lines = append(append(lines, line...), '\n')
	}
	if _, err := c.manifest.Write(lines); err != nil {
		return err
	}
	return c.manifest.Sync()
}
