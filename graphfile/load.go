// Package graphfile reads and writes graph files: JSON, version 1. [Load] gives a graph that is ready to be
// planned; [Parse] one whose sizes are still to be bound. [Save] writes a graph so that reading it gives the
// same one, and [Schema] describes the format for editors.
//
// A graph remembers where its parts are in the file, beside what it is made of ([graph.Places]), so that
// whatever is said of it later begins with FILE:LINE:COL.
package graphfile

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/ends"
	"github.com/graphrun/graphrun/internal/files"
)

// Options say how a graph is read from a reader. The zero Options read a graph that needs no other file.
type Options struct {
	// Context ends reading when it ends: the error has its cause. Nil: none.
	Context context.Context
	// Name is in errors: the file's path.
	Name string
	// Dir is the folder of the files of constants. Files outside it are refused. Without one, constants have no files.
	Dir string
	// FS is the file system that has Dir; nil is the operating system. In an [fs.FS], "." is the root.
	FS fs.FS
	// Open finds the data of constants; nil: in .npy, .npz and .safetensors files.
	Open OpenConst
}

// Load reads a graph file, with the files of its constants, whose ops are found by lookup
// (kernels.Lookup). The graph comes back sorted and inferred; symbols have the sizes that [graph.Graph.Bind]
// gives those that nobody does.
//
// All mistakes are collected; the error is a [graph.Errors], each with line, column and node.
// Nodes that only depend on one that was refused are not among them.
func Load(path string, lookup graph.Lookup) (*graph.Graph, error) {
	f, _, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Read(f, lookup, Options{Name: path, Dir: filepath.Dir(path)})
}

// Read is [Load] from a reader.
func Read(r io.Reader, lookup graph.Lookup, o Options) (*graph.Graph, error) {
	g, err := Parse(r, lookup, o)
	if err != nil {
		return nil, err
	}
	if err := g.BindOnly(nil); err != nil {
		return nil, asErrors(err)
	}
	if err := g.Infer(); err != nil {
		return nil, rootErrors(g, g.InferAll())
	}
	return g, nil
}

// Parse is [Read] without inference: structure, names and ops are checked, and the
// nodes are sorted. [graph.Graph.Bind] completes it. Wrong attributes, and
// operands too many or missing, are a node's refusal: inference tells them, so that
// [graph.Graph.InferAll] can go on past them.
func Parse(r io.Reader, lookup graph.Lookup, o Options) (*graph.Graph, error) {
	g, _, err := parse(r, lookup, o, nil)
	return g, err
}

// ParseSome is [Parse] that goes on past more: a node that has keys of its own making, whose
// operand there is not, or whose attributes cannot be read, is refused by inference too, and
// so is one that reads an input or a constant that is wrongly declared, or whose data cannot
// be had. The mistakes of those, and of outputs that there are not, are returned beside the graph.
func ParseSome(r io.Reader, lookup graph.Lookup, o Options) (*graph.Graph, graph.Errors, error) {
	return parse(r, lookup, o, map[*graph.Value]bool{})
}

// parse reads a file. What is read past goes to absent, unless that is nil.
func parse(r io.Reader, lookup graph.Lookup, o Options, absent map[*graph.Value]bool) (_ *graph.Graph,
	_ graph.Errors, err error) {
	defer ends.Catch(&err)
	if r == nil {
		return nil, nil, errors.New("the reader is nil")
	}
	data, err := readAll(o.Context, r)
	if err != nil {
		return nil, nil, files.InFile(o.Name, err)
	}
	folder := files.FolderOf(o.FS, o.Dir, "the graph file")
	l := newLoader(newSource(o.Name, folder, data), lookup, data)
	l.ctx, l.open, l.absent = o.Context, o.Open, absent
	if l.open == nil && o.Dir != "" {
		c := newConstFiles(folder)
		defer c.close()
		l.open = c.open
	}
	l.parse()
	if len(l.errs) > 0 {
		l.addRefusals()
		l.errs.Sort()
		return nil, nil, l.errs
	}
	if len(l.g.Outputs) == 0 {
		l.draft.Warn(l.src.fail(l.outputsAt, "%w", graph.ErrNoOutputs))
	}
	return l.g, append(l.missing, l.draft.Without(l.absent)...), nil
}

// maxErrors bounds the mistakes that are collected from one file.
const maxErrors = 100

func asErrors(err error) graph.Errors {
	var list graph.Errors
	var one *graph.Error
	switch {
	case errors.As(err, &list):
		return list
	case errors.As(err, &one):
		return graph.Errors{one}
	}
	return graph.Errors{{Err: err}}
}

// rootErrors is [graph.Graph.RootErrors], as many as are collected from one file.
func rootErrors(g *graph.Graph, refused map[*graph.Node]*graph.Error) graph.Errors {
	list := g.RootErrors(refused)
	return list[:min(len(list), maxErrors)]
}

// readAll is io.ReadAll with a buffer of the right size where the size can be known: a
// graph of a million nodes is a hundred megabytes, and growing to it copies it over and
// over.
func readAll(ctx context.Context, r io.Reader) ([]byte, error) {
	size := 0
	switch x := r.(type) {
	case interface{ Len() int }:
		size = x.Len()
	case *io.SectionReader:
		size = int(min(x.Size(), maxPresize))
	case *os.File:
		if st, err := x.Stat(); err == nil && st.Mode().IsRegular() {
			size = int(min(st.Size(), maxPresize))
		}
	}
	data := make([]byte, 0, size+512)
	for {
		ends.Look(ctx)
		n, err := r.Read(data[len(data):min(len(data)+maxRead, cap(data))])
		data = data[:len(data)+n]
		switch {
		case err == io.EOF:
			return data, nil
		case err != nil:
			return nil, err
		case len(data) == cap(data):
			data = slices.Grow(data, len(data))
		}
	}
}

// maxRead bounds the bytes that are read between two checks of the context.
const maxRead = 4 << 20

// maxPresize bounds what a file's size makes us allocate before anything was read.
const maxPresize = 1 << 30
