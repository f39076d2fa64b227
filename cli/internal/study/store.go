package study

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/internal/machine"
)

// store is a folder with a file for each result. Files are written atomically.
type store struct{ folder string }

// maxResultBytes is the maximum size of a result file.
const maxResultBytes = 256 << 20

var errInvalidResult = errors.New("the result is damaged, or it belongs to another task")

// path returns the path of the file of a task's result.
func (s store) path(t *Task) string { return filepath.Join(s.folder, t.digest()+".json") }

// load reads the result of a task. It returns an error if no result is stored, the file is damaged, or the result
// belongs to another task or version.
func (s store) load(t *Task) (*Result, error) {
	f, info, err := files.OpenRegular(s.path(t))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > maxResultBytes {
		return nil, errInvalidResult
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	result := new(Result)
	if err := files.DecodeJSON(text, result); err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalidResult, err)
	}
	isOfTask := result.Version == Version && result.Digest == t.digest() && len(result.Plans) == t.planCount()
	if !isOfTask || result.Checksum != result.checksum() {
		return nil, errInvalidResult
	}
	result.Task = *t // sets the unexported fields, which the file lacks
	result.setGaps()
	return result, nil
}

// checksum returns the sha256 of the result's JSON with an empty Checksum.
func (r *Result) checksum() string {
	withoutChecksum := *r
	withoutChecksum.Checksum = ""
	return machine.DigestOfJSON(&withoutChecksum)
}

// save writes the result of a task to a temporary file, syncs the file, and renames it.
func (s store) save(t *Task, result *Result) (err error) {
	result.Version, result.Digest, result.Task = Version, t.digest(), *t
	result.Checksum = result.checksum()
	text, err := json.Marshal(result, json.Deterministic(true), jsontext.WithIndent(" "))
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(s.folder, ".result-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // removes the temporary file after an error; after the rename, it no longer exists
	_, err = f.Write(append(text, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), s.path(t))
}
