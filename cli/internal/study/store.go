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

// store is a folder with a file for each result. A file appears as a whole or not at all.
type store struct{ folder string }

// maxResultBytes bounds the size of a result file.
const maxResultBytes = 256 << 20

var errDamaged = errors.New("the result is damaged, or that of another task")

func (s store) path(t *Task) string { return filepath.Join(s.folder, t.digest()+".json") }

// load reads the result of a task. It returns an error if no result is stored, or if the file is damaged.
func (s store) load(t *Task) (*Result, error) {
	f, info, err := files.OpenRegular(s.path(t))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > maxResultBytes {
		return nil, errDamaged
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	r := new(Result)
	if err := json.Unmarshal(text, r, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if r.Version != Version || r.Digest != t.digest() || r.Sum != r.sum() || len(r.Plans) != len(t.Strategies) {
		return nil, errDamaged
	}
	r.Task = *t // with the fields that are not in the file
	r.setGaps()
	return r, nil
}

// sum returns the sha256 of the result without its sum.
func (r *Result) sum() string {
	bare := *r
	bare.Sum = ""
	return machine.DigestOfJSON(&bare)
}

// save writes the result of a task: to a temporary file, which is synced and renamed.
func (s store) save(t *Task, r *Result) (err error) {
	r.Version, r.Digest, r.Task = Version, t.digest(), *t
	r.Sum = r.sum()
	text, err := json.Marshal(r, json.Deterministic(true), jsontext.WithIndent(" "))
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(s.folder, ".result-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // no effect after the rename
	_, err = f.Write(append(text, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), s.path(t))
}
