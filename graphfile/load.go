// Package graphfile reads and writes graph files: JSON, version 1.
//
// [Load] reads a file, binds the symbols of the graph and infers it, so that the graph is ready to plan. [Read] does
// the same for a reader. [Parse] only reads: [graph.Graph.Bind] then binds and infers the graph. [ParseSome] returns a
// graph even for a file with mistakes. [Save] and [SaveFile] write a graph. Reading the file gives the same graph.
// [Schema] describes the format as a JSON Schema, for editors.
//
// The graph knows the positions of its nodes and values in the file ([graph.Places]). Errors of later steps therefore
// also begin with FILE:LINE:COL.
//
// The loader makes one pass over the JSON. At the end of the pass, it resolves operands that are declared after the
// nodes that read them. It collects all mistakes, up to a limit. Offsets are in bytes from the start of the file,
// unless stated otherwise.
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
	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/tensor"
)

// Options configure [Read] and [Parse]. The zero Options read a graph without constants in other files.
type Options struct {
	// Context, if not nil, can cancel reading. The error is then the cause of the context.
	Context context.Context
	// Name is the name of the file in errors.
	Name string
	// Dir is the folder of the constants' files. Files outside Dir are rejected. If Dir is empty and Open is nil,
	// constants cannot have files.
	Dir string
	// FS is the file system of Dir. Nil means the file system of the operating system. In an [fs.FS], "." is the root.
	FS fs.FS
	// Open finds the data of constants. If Open is nil, the data are read from .npy, .npz and .safetensors files in
	// Dir.
	Open OpenConst
}

// Load reads the graph file at path, and the files of its constants. lookup finds ops by name, as kernels.Lookup does.
// The graph is sorted and inferred. Symbols have the default sizes of [graph.Graph.Bind].
//
// If the file has mistakes, Load returns a [graph.Errors] that lists them with line, column and node. The list omits
// nodes that are rejected only because they depend on a rejected node.
func Load(path string, lookup graph.Lookup) (*graph.Graph, error) {
	f, _, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Read(f, lookup, Options{Name: path, Dir: filepath.Dir(path)})
}

// Read reads a graph as [Load] does, from a reader.
func Read(r io.Reader, lookup graph.Lookup, o Options) (*graph.Graph, error) {
	g, err := Parse(r, lookup, o)
	if err != nil {
		return nil, err
	}
	if err := g.BindWithoutInference(nil); err != nil {
		return nil, asErrors(err)
	}
	if err := g.Infer(); err != nil {
		return nil, rootErrors(g, g.InferAll())
	}
	return g, nil
}

// Parse reads a graph as [Read] does, without inference. It checks structure, names and ops, and sorts the nodes.
// [graph.Graph.Bind] completes the graph. If a node has wrong attributes or a wrong number of operands, Parse records
// the error with the node, and inference returns it. Thus [graph.Graph.InferAll] can continue after such errors.
func Parse(r io.Reader, lookup graph.Lookup, o Options) (*graph.Graph, error) {
	g, _, err := parse(r, lookup, o, nil)
	return g, err
}

// ParseSome reads a graph as [Parse] does, but continues past more mistakes. The returned Errors are the mistakes in
// outputs and in declarations of inputs and constants. ParseSome records mistakes in a node with the node, and
// inference returns them. Mistakes in a node are unknown keys, unknown operands, unreadable attributes, and operands
// that are rejected inputs or constants.
func ParseSome(r io.Reader, lookup graph.Lookup, o Options) (*graph.Graph, graph.Errors, error) {
	return parse(r, lookup, o, map[*graph.Value]bool{})
}

// parse reads a file. If unavailable is not nil, parse continues past mistakes as ParseSome does, and adds the rejected
// inputs and constants to unavailable.
func parse(r io.Reader, lookup graph.Lookup, o Options, unavailable map[*graph.Value]bool) (_ *graph.Graph,
	_ graph.Errors, err error) {
	defer interrupt.Catch(&err)
	if r == nil {
		return nil, nil, errors.New("the reader is nil")
	}
	data, err := readAll(o.Context, r)
	if err != nil {
		return nil, nil, files.WithPath(o.Name, err)
	}
	folder := files.FolderOf(o.FS, o.Dir, "the graph file")
	l := newLoader(newSource(o.Name, folder, data), lookup, data)
	l.ctx, l.openConst, l.unavailable = o.Context, o.Open, unavailable
	if l.openConst == nil && o.Dir != "" {
		openFiles := newConstFiles(folder)
		defer openFiles.close()
		l.openConst = openFiles.open
	}
	l.texts = &tensor.Texts{}
	l.parse()
	if len(l.texts.List())+len(l.graph.Labels) > 0 {
		l.graph.Texts = l.texts
	}
	if len(l.errs) > 0 {
		l.addNodeMistakes()
		l.errs.Sort()
		return nil, nil, l.errs
	}
	if len(l.graph.Outputs) == 0 {
		l.draft.Warn(l.source.errorAt(l.outputsOffset, "%w", graph.ErrNoOutputs))
	}
	return l.graph, append(l.skipped, l.draft.RemoveUnavailable(l.unavailable)...), nil
}

// maxErrors is the maximum number of mistakes that are reported for one file.
const maxErrors = 100

// asErrors returns an error of binding as a list of mistakes.
func asErrors(err error) graph.Errors {
	var list graph.Errors
	var single *graph.Error
	switch {
	case errors.As(err, &list):
		return list
	case errors.As(err, &single):
		return graph.Errors{single}
	}
	return graph.Errors{{Err: err}}
}

// rootErrors returns at most maxErrors errors of [graph.Graph.RootErrors].
func rootErrors(g *graph.Graph, rejected map[*graph.Node]*graph.Error) graph.Errors {
	list := g.RootErrors(rejected)
	return list[:min(len(list), maxErrors)]
}

// readAll reads all data as io.ReadAll does. If the size is known, it allocates a buffer of this size, because a
// growing buffer would copy a large file several times. (The file of a graph with a million nodes has a hundred
// megabytes.)
func readAll(ctx context.Context, r io.Reader) ([]byte, error) {
	size := 0
	switch source := r.(type) {
	case interface{ Len() int }:
		size = source.Len()
	case *io.SectionReader:
		size = int(min(source.Size(), maxPresize))
	case *os.File:
		if info, err := source.Stat(); err == nil && info.Mode().IsRegular() {
			size = int(min(info.Size(), maxPresize))
		}
	}
	data := make([]byte, 0, size+512) // the last Read, which returns io.EOF, needs a buffer with free space
	for {
		interrupt.Check(ctx)
		count, err := r.Read(data[len(data):min(len(data)+maxRead, cap(data))])
		data = data[:len(data)+count]
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

// maxRead is the number of bytes read between two checks of the context.
const maxRead = 4 << 20

// maxPresize is the maximum number of bytes that readAll allocates before it reads the file, based on the stated size
// of the file.
const maxPresize = 1 << 30
