package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// given are the arrays that files give for inputs, found but not read: what their headers
// say decides whether they can serve, and a few bytes may stand for gigabytes.
type given struct {
	arrays  map[string]array // by input
	extra   []string         // keys of the archive that are no inputs
	path    string           // of the archive, empty if none
	archive *npz.Archive
	missing graph.Errors // constants of the graph that cannot be read
}

// array is one of them.
type array struct {
	meta tensor.Meta
	read func() (*tensor.Tensor, error)
}

// of returns the array for an input. A nil given has none.
func (g *given) of(name string) (array, bool) {
	if g == nil {
		return array{}, false
	}
	a, ok := g.arrays[name]
	return a, ok
}

func (g *given) close() {
	if g != nil && g.archive != nil {
		g.archive.Close()
	}
}

// read finds the arrays that files give, by input name, and reads their headers.
func (s sources) read(g *graph.Graph) (*given, error) {
	out := &given{arrays: map[string]array{}, path: s.archive}
	err := s.findInArchive(g, out)
	if err == nil {
		err = s.findFiles(g, out)
	}
	if err != nil {
		out.close()
		return nil, err
	}
	return out, nil
}

func (s sources) findInArchive(g *graph.Graph, out *given) error {
	if s.archive == "" {
		return nil
	}
	a, err := npz.Open(s.archive)
	if err != nil {
		return wrong(err)
	}
	out.archive = a
	for _, name := range a.Names() {
		if !isInput(g, name) {
			out.extra = append(out.extra, name)
			continue
		}
		m, err := a.Meta(name)
		if err != nil {
			return wrong(err)
		}
		out.arrays[name] = array{m, func() (*tensor.Tensor, error) { return a.ReadAs(name, m) }}
	}
	return nil
}

func (s sources) findFiles(g *graph.Graph, out *given) error {
	for _, f := range s.files {
		name, path, _ := strings.Cut(f, "=")
		if !isInput(g, name) {
			return wrongf("--input %s: the graph has no input %q%s", f, name, didYouMean(name, inputNames(g)))
		}
		m, err := npz.NPYFileMeta(path)
		if err != nil {
			return wrong(err)
		}
		out.arrays[name] = array{m, func() (*tensor.Tensor, error) { return npz.ReadNPYFile(path) }}
	}
	return nil
}

func isInput(g *graph.Graph, name string) bool {
	return slices.ContainsFunc(g.Inputs, func(v *graph.Value) bool { return v.Name == name })
}

// insteadOf says what the archive has where it lacks an input, and which of that may be
// meant.
func (g *given) insteadOf(name string) string {
	if g == nil || g.archive == nil {
		return ""
	}
	return fmt.Sprintf(" (%s has %s%s)", g.path, files.List(g.archive.Names()), didYouMean(name, g.extra))
}

// others says which arrays of the archive no input takes.
func (g *given) others() string {
	if g == nil || len(g.extra) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: no input takes %s", g.path, files.List(g.extra))
}
