package inputs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// Arrays describes the arrays in the files that were given for inputs. Only the headers of the arrays have been read:
// [Sources.ReadValues] reads the data later, because a small file may describe gigabytes of data.
type Arrays struct {
	arrays     map[string]array // by the name of the input
	unusedKeys []string         // keys of the archive that are not names of inputs
	path       string           // path of the archive; empty for none
	archive    *npz.Archive     // nil for none

	// The following fields are for --keep-going. Without --keep-going, Unavailable is nil.
	Unavailable    map[string]error // the unavailable inputs by name, with the reason
	UnknownSymbols []string         // symbols whose sizes are unknown because inputs are unavailable
	GraphMistakes  graph.Errors     // mistakes in the graph file; nodes and constants with mistakes were skipped
}

// array is an array in a file, whose header has been read.
type array struct {
	meta   tensor.Meta
	read   func() (*tensor.Tensor, error) // reads the data
	isText bool                           // whether the last dimension has characters of strings; set by bindSymbols
}

// shape returns the shape of the array, without the characters of strings.
func (a array) shape() []int {
	if a.isText {
		return a.meta.Shape[:len(a.meta.Shape)-1]
	}
	return a.meta.Shape
}

// Close closes the archive. It does nothing if a is nil or has no archive.
func (a *Arrays) Close() {
	if a != nil && a.archive != nil {
		a.archive.Close()
	}
}

// reject adds an input to Unavailable, with err as the reason. Without --keep-going, it returns an error instead.
func (a *Arrays) reject(name string, err error) error {
	if a.Unavailable == nil {
		return exit.UsageErrorf("input %q: %w", name, err)
	}
	delete(a.arrays, name)
	a.Unavailable[name] = err
	return nil
}

// read finds the arrays for the inputs of a graph, and reads the headers of the arrays.
func (s Sources) read(inputs []*graph.Value) (*Arrays, error) {
	out := &Arrays{arrays: map[string]array{}, path: s.archive}
	if s.KeepGoing {
		out.Unavailable = map[string]error{}
	}
	err := s.findInArchive(inputs, out)
	if err == nil {
		err = s.findFiles(inputs, out)
	}
	if err == nil {
		err = s.findMissing(inputs, out)
	}
	if err != nil {
		out.Close()
		return nil, err
	}
	return out, nil
}

// findInArchive adds the arrays of the archive that are inputs of the graph to out, without reading their data.
func (s Sources) findInArchive(inputs []*graph.Value, out *Arrays) error {
	if s.archive == "" {
		return nil
	}
	archive, err := npz.Open(s.archive)
	switch {
	case err == nil: // the archive is read below
	case out.Unavailable == nil:
		return exit.UsageError(err)
	default:
		for _, v := range inputs {
			out.Unavailable[v.Name] = err
		}
		return nil
	}
	out.archive = archive
	for _, name := range archive.Names() {
		if !isInput(inputs, name) {
			out.unusedKeys = append(out.unusedKeys, name)
			continue
		}
		meta, err := archive.Meta(name)
		if err == nil {
			out.arrays[name] = array{meta: meta, read: func() (*tensor.Tensor, error) { return archive.ReadAs(name, meta) }}
		} else if err := out.reject(name, err); err != nil {
			return err
		}
	}
	return nil
}

// findFiles adds the arrays of --input, which take precedence over the arrays of the archive.
func (s Sources) findFiles(inputs []*graph.Value, out *Arrays) error {
	for _, f := range s.files {
		name, path, _ := strings.Cut(f, "=")
		if !isInput(inputs, name) {
			return exit.UsageErrorf("--input %s: the graph has no input %q%s", f, name,
				format.DidYouMean(name, inputNames(inputs)))
		}
		meta, err := npz.NPYFileMeta(path)
		if err == nil {
			out.arrays[name] = array{meta: meta, read: func() (*tensor.Tensor, error) { return npz.ReadNPYFile(path) }}
			delete(out.Unavailable, name)
		} else if err := out.reject(name, err); err != nil {
			return err
		}
	}
	return nil
}

// findMissing rejects inputs without an array. With --seed, or if no file is given at all, such inputs are generated
// instead.
func (s Sources) findMissing(inputs []*graph.Value, out *Arrays) error {
	if s.isSeedGiven || s.archive == "" && len(s.files) == 0 {
		return nil
	}
	for _, v := range inputs {
		if _, ok := out.arrays[v.Name]; ok || out.Unavailable[v.Name] != nil || v.Default != nil {
			continue
		}
		// This text follows "input NAME" or "it".
		err := fmt.Errorf("is missing%s: give an array for it, or add --seed to generate it", out.archiveHint(v.Name))
		if out.Unavailable == nil {
			return exit.UsageErrorf("input %q %w", v.Name, err)
		}
		out.Unavailable[v.Name] = fmt.Errorf("it %w", err)
	}
	return nil
}

// isInput reports whether one of the inputs has the name.
func isInput(inputs []*graph.Value, name string) bool {
	return slices.ContainsFunc(inputs, func(v *graph.Value) bool { return v.Name == name })
}

// archiveHint returns a part of the message about a missing input: the arrays of the archive, and a suggestion.
func (a *Arrays) archiveHint(name string) string {
	if a == nil || a.archive == nil {
		return ""
	}
	return fmt.Sprintf(" (%s has %s%s)", a.path, files.List(a.archive.Names()), format.DidYouMean(name, a.unusedKeys))
}

// unusedArrays returns a note about the arrays of the archive that are not used; "" for none.
func (a *Arrays) unusedArrays() string {
	if a == nil || len(a.unusedKeys) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: no input takes %s", a.path, files.List(a.unusedKeys))
}
