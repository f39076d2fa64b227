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

// Given are the arrays that files give for inputs, found but not read: what their headers
// say decides whether they will do, and a few bytes may stand for gigabytes.
type Given struct {
	arrays  map[string]array // by input
	extra   []string         // keys of the archive that are no inputs
	path    string           // of the archive, empty if none
	archive *npz.Archive

	// Of a command that goes on past what cannot be had; lost is nil where it does not.
	Lost    map[string]error // inputs that cannot be had, by name, and why
	Unknown []string         // symbols whose sizes only those would have told
	Missing graph.Errors     // what the graph was read past
}

// array is one of them.
type array struct {
	meta tensor.Meta
	read func() (*tensor.Tensor, error)
}

func (g *Given) Close() {
	if g != nil && g.archive != nil {
		g.archive.Close()
	}
}

// refuse notes that an input cannot be had, and why. Where the command does not go on without
// it, that is the error.
func (g *Given) refuse(name string, err error) error {
	if g.Lost == nil {
		return exit.Wrongf("input %q: %w", name, err)
	}
	delete(g.arrays, name)
	g.Lost[name] = err
	return nil
}

// read finds the arrays that files give, by input name, and reads their headers.
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
			out.extra = append(out.extra, name)
			continue
		}
		m, err := a.Meta(name)
		if err == nil {
			out.arrays[name] = array{m, func() (*tensor.Tensor, error) { return a.ReadAs(name, m) }}
		} else if err := out.refuse(name, err); err != nil {
			return err
		}
	}
	return nil
}

// findFiles finds the files that give one input each, whatever the archive has for it.
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
		} else if err := out.refuse(name, err); err != nil {
			return err
		}
	}
	return nil
}

// findMissing refuses the inputs that nobody gives, where some are given and none is to be made
// up.
func (s Sources) findMissing(inputs []*graph.Value, out *Given) error {
	if s.generate || s.archive == "" && len(s.files) == 0 {
		return nil
	}
	for _, v := range inputs {
		if _, ok := out.arrays[v.Name]; ok || out.Lost[v.Name] != nil {
			continue
		}
		err := fmt.Errorf("is missing%s: give it too, or --seed to make it up", out.insteadOf(v.Name))
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

// insteadOf says what the archive has where it lacks an input, and which of that may be
// meant.
func (g *Given) insteadOf(name string) string {
	if g == nil || g.archive == nil {
		return ""
	}
	return fmt.Sprintf(" (%s has %s%s)", g.path, files.List(g.archive.Names()), format.DidYouMean(name, g.extra))
}

// others says which arrays of the archive no input takes.
func (g *Given) others() string {
	if g == nil || len(g.extra) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: no input takes %s", g.path, files.List(g.extra))
}
