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

// Open reads a graph file or a model, with sizes still open but for those of --dim. With some it
// goes on past what is wrong.
func (e *Extensions) Open(ctx context.Context, path string, dims []string, some bool) (*graphrun.File, error) {
	bound, err := ParseDims(dims)
	if err != nil {
		return nil, err
	}
	l := graphrun.Loader{Sizes: bound, KeepGoing: some, Lookup: e.Lookup, Operators: e.Operators}
	f, err := l.OpenContext(ctx, path)
	if err != nil {
		return nil, exit.Wrong(err)
	}
	return f, checkDims(path, f.Loader.Sizes, f.Symbols())
}

// Graph returns the graph of a file, with all sizes bound, and what was read past. It is yet to be
// inferred.
func Graph(ctx context.Context, f *graphrun.File) (g *graph.Graph, missing graph.Errors, err error) {
	g, err = f.GraphContext(ctx)
	if err != nil && (g == nil || !errors.As(err, &missing)) {
		return nil, nil, exit.Wrong(err)
	}
	return g, missing, nil
}

// OpenGraph is openFile and Graph.
func (e *Extensions) OpenGraph(ctx context.Context, path string, dims []string, some bool) (*graph.Graph, graph.Errors,
	error) {
	f, err := e.Open(ctx, path, dims, some)
	if err != nil {
		return nil, nil, err
	}
	return Graph(ctx, f)
}

// loadGraph reads, binds and infers a graph file or a model.
func (e *Extensions) loadGraph(ctx context.Context, path string, dims []string) (*graph.Graph, error) {
	g, _, err := e.OpenGraph(ctx, path, dims, false)
	if err != nil {
		return nil, err
	}
	return g, Infer(ctx, g)
}

// LoadPinned is loadGraph with the pins of the command line.
func (e *Extensions) LoadPinned(ctx context.Context, path string, dims, pins []string) (*graph.Graph, error) {
	g, err := e.loadGraph(ctx, path, dims)
	if err == nil {
		err = ApplyPins(ctx, g, pins)
	}
	return g, err
}

// Infer infers a graph. The error holds every node that is refused for a reason of
// its own.
func Infer(ctx context.Context, g *graph.Graph) error {
	g.SetContext(ctx)
	defer g.SetContext(context.Background())
	if err := graphrun.Infer(g); err != nil {
		return exit.Wrong(err)
	}
	return nil
}

// RejectDynamic says of a graph whose shapes depend on data what cannot be done with it, and the first node
// that decides some.
func RejectDynamic(g *graph.Graph, what string) error {
	known := program.KnownOf(g)
	if known == nil {
		return nil
	}
	if n := known.Decides(); n != nil {
		return g.Fail(n, fmt.Errorf("shapes depend on data, its result's first: %s", what))
	}
	return fmt.Errorf("shapes depend on data: %s", what)
}
