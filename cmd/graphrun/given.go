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
	var extra []string
	for _, name := range a.Names() {
		if !isInput(g, name) {
			extra = append(extra, name)
			continue
		}
		m, err := a.Meta(name)
		if err != nil {
			return wrong(err)
		}
		out.arrays[name] = array{m, func() (*tensor.Tensor, error) { return a.ReadAs(name, m) }}
	}
	if len(extra) > 0 && s.note != nil {
		s.note("%s: no input takes %s", s.archive, files.List(extra))
	}
	return nil
}

func (s sources) findFiles(g *graph.Graph, out *given) error {
	for _, f := range s.files {
		name, path, ok := strings.Cut(f, "=")
		if !ok {
			return wrongf("--input %s: want NAME=FILE.npy", f)
		}
		if !isInput(g, name) {
			return wrongf("--input %s: the graph has no input %q", f, name)
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
	var spare []string
	for _, n := range g.archive.Names() {
		if _, taken := g.arrays[n]; !taken {
			spare = append(spare, n)
		}
	}
	text := fmt.Sprintf(" (%s has %s", g.path, files.List(g.archive.Names()))
	best, least := "", 3
	for _, n := range spare {
		if d := distance(strings.ToLower(n), strings.ToLower(name)); d < least && d < len(name)+len(n)-1 {
			best, least = n, d
		}
	}
	if best != "" {
		text += fmt.Sprintf("; did you mean %s?", best)
	}
	return text + ")"
}
