package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/program"
)

// Open reads a graph file or an ONNX model. dims are the values of --dim; symbols without a size in dims remain
// symbols. If keepGoing is true, nodes and constants with mistakes are skipped. If cache is nil, nothing is stored.
func (e *Extensions) Open(ctx context.Context, path string, dims []string, keepGoing bool,
	cache *graphrun.Cache) (*graphrun.File, error) {
	sizes, err := ParseDims(dims)
	if err != nil {
		return nil, err
	}
	declared, err := e.Declared()
	if err != nil {
		return nil, err
	}
	constants, err := e.Constants()
	if err != nil {
		return nil, err
	}
	l := graphrun.Loader{Declared: declared, Constants: constants, Sizes: sizes, KeepGoing: keepGoing, Cache: cache, Lookup: e.Lookup,
		Operators: e.Operators}
	f, err := l.Open(ctx, path)
	if err != nil {
		return nil, exit.UsageError(err)
	}
	return f, checkDims(path, f.Loader.Sizes, f.Symbols())
}

// BoundGraph returns the graph of a file with a size for each symbol, given or assumed. The types of the graph are not
// yet inferred. mistakes are the errors of the skipped nodes and constants.
func BoundGraph(ctx context.Context, f *graphrun.File) (g *graph.Graph, mistakes graph.Errors, err error) {
	g, err = f.Graph(ctx)
	if err != nil && (g == nil || !errors.As(err, &mistakes)) {
		return nil, nil, exit.UsageError(err)
	}
	return g, mistakes, nil
}

// OpenGraph is [Extensions.Open] followed by [BoundGraph].
func (e *Extensions) OpenGraph(ctx context.Context, path string, dims []string, keepGoing bool) (*graph.Graph,
	graph.Errors, error) {
	f, err := e.Open(ctx, path, dims, keepGoing, nil)
	if err != nil {
		return nil, nil, err
	}
	return BoundGraph(ctx, f)
}

// loadGraph reads, binds and infers a graph file or a model.
func (e *Extensions) loadGraph(ctx context.Context, path string, dims []string) (*graph.Graph, error) {
	const keepGoing = false
	g, _, err := e.OpenGraph(ctx, path, dims, keepGoing)
	if err != nil {
		return nil, err
	}
	return g, Infer(ctx, g)
}

// LoadWithPins reads, binds and infers a graph file or a model, with the pins of the command line.
func (e *Extensions) LoadWithPins(ctx context.Context, path string, dims, pins []string) (*graph.Graph, error) {
	g, err := e.loadGraph(ctx, path, dims)
	if err == nil {
		err = ApplyPins(ctx, g, pins)
	}
	return g, err
}

// Infer infers the types of a graph. The error lists the rejected nodes, except nodes that are rejected only because
// they read a result of a rejected node.
func Infer(ctx context.Context, g *graph.Graph) error {
	g.SetContext(ctx)
	defer g.SetContext(context.Background())
	if err := graphrun.Infer(ctx, g); err != nil {
		return exit.UsageError(err)
	}
	return nil
}

// RejectDynamic returns an error if shapes of the graph depend on data. The message names the first node with such a
// shape, and ends with the given consequence.
func RejectDynamic(g *graph.Graph, consequence string) error {
	facts := program.NewPreRunFacts(g)
	if facts == nil { // no shape depends on data
		return nil
	}
	if n := facts.FirstShapeNode(); n != nil {
		return g.NodeError(n, fmt.Errorf("shapes depend on data, beginning with the shape of its result: %s", consequence))
	}
	return fmt.Errorf("shapes depend on data: %s", consequence)
}
