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

// Given has the arrays that files provide for inputs. At first only the headers are read, because a small file may
// describe gigabytes of data.
type Given struct {
	arrays     map[string]array // by input
	unusedKeys []string         // keys of the archive that no input takes
	path       string           // of the archive, empty for none
	archive    *npz.Archive

	// The following fields are set only with --keep-going. Without it, Lost is nil.
	Lost    map[string]error // unavailable inputs by name, with the reason
	Unknown []string         // symbols whose sizes only the unavailable inputs determine
	Missing graph.Errors     // mistakes that were skipped when the graph was read
}

// array is an array of a file.
type array struct {
	meta tensor.Meta
	read func() (*tensor.Tensor, error)
}

func (g *Given) Close() {
	if g != nil && g.archive != nil {
		g.archive.Close()
	}
}

// reject records that an input is unavailable. Without --keep-going, it returns the error instead.
func (g *Given) reject(name string, err error) error {
	if g.Lost == nil {
		return exit.Wrongf("input %q: %w", name, err)
	}
	delete(g.arrays, name)
	g.Lost[name] = err
	return nil
}

// read finds the arrays of inputs and reads their headers.
func (s Sources) read(inputs []*graph.Value) (*Given, error) {
	out := &Given{arrays: map[string]array{}, path: s.archive}
	if s.KeepGoing {
		out.Lost = map[string]error{}
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

func (s Sources) findInArchive(inputs []*graph.Value, out *Given) error {
	if s.archive == "" {
		return nil
	}
	a, err := npz.Open(s.archive)
	switch {
	case err == nil:
	case out.Lost == nil:
		return exit.Wrong(err)
	default:
		for _, v := range inputs {
			out.Lost[v.Name] = err
		}
		return nil
	}
	out.archive = a
	for _, name := range a.Names() {
		if !isInput(inputs, name) {
			out.unusedKeys = append(out.unusedKeys, name)
			continue
		}
		m, err := a.Meta(name)
		if err == nil {
			out.arrays[name] = array{m, func() (*tensor.Tensor, error) { return a.ReadAs(name, m) }}
		} else if err := out.reject(name, err); err != nil {
			return err
		}
	}
	return nil
}

// findFiles finds the files of single inputs. They take precedence over the arrays of the archive.
func (s Sources) findFiles(inputs []*graph.Value, out *Given) error {
	for _, f := range s.files {
		name, path, _ := strings.Cut(f, "=")
		if !isInput(inputs, name) {
			return exit.Wrongf("--input %s: the graph has no input %q%s", f, name, format.DidYouMean(name, inputNames(inputs)))
		}
		m, err := npz.NPYFileMeta(path)
		if err == nil {
			out.arrays[name] = array{m, func() (*tensor.Tensor, error) { return npz.ReadNPYFile(path) }}
			delete(out.Lost, name)
		} else if err := out.reject(name, err); err != nil {
			return err
		}
	}
	return nil
}

// findMissing rejects inputs without an array if some inputs have one and --seed is not given.
func (s Sources) findMissing(inputs []*graph.Value, out *Given) error {
	if s.generate || s.archive == "" && len(s.files) == 0 {
		return nil
	}
	for _, v := range inputs {
		if _, ok := out.arrays[v.Name]; ok || out.Lost[v.Name] != nil {
			continue
		}
		err := fmt.Errorf("is missing%s: give it too, or add --seed to generate it", out.insteadOf(v.Name))
		if out.Lost == nil {
			return exit.Wrongf("input %q %w", v.Name, err)
		}
		out.Lost[v.Name] = fmt.Errorf("it %w", err)
	}
	return nil
}

func isInput(inputs []*graph.Value, name string) bool {
	return slices.ContainsFunc(inputs, func(v *graph.Value) bool { return v.Name == name })
}

// insteadOf lists the arrays of an archive that lacks an input, with a suggestion.
func (g *Given) insteadOf(name string) string {
	if g == nil || g.archive == nil {
		return ""
	}
	return fmt.Sprintf(" (%s has %s%s)", g.path, files.List(g.archive.Names()), format.DidYouMean(name, g.unusedKeys))
}

// unusedArrays describes the arrays of the archive that no input takes.
func (g *Given) unusedArrays() string {
	if g == nil || len(g.unusedKeys) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: no input takes %s", g.path, files.List(g.unusedKeys))
}
