package program

import (
	"context"
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
)

// Infer infers the types of a graph. If nodes are rejected, the error is a [graph.Errors], without the nodes that are
// rejected only because they depend on another rejected node. Otherwise the error has the pins that do not fit the
// types.
func Infer(g *graph.Graph) error {
	if g == nil {
		return errors.New("there is no graph to infer: it is nil")
	}
	if rejected := g.InferAll(); len(rejected) > 0 {
		return g.RootErrors(rejected)
	}
	if errs := g.PinErrors(nil); len(errs) > 0 {
		return errs
	}
	return nil
}

// InferContext is [Infer] with a context. It stops when the context ends.
func InferContext(ctx context.Context, g *graph.Graph) error {
	g.SetContext(ctx)
	defer g.SetContext(context.Background())
	err := Infer(g)
	if ended := interrupt.Err(ctx); ended != nil {
		return fmt.Errorf("inferring types: %w", ended)
	}
	return err
}

// WithFile adds the path of a graph file to an error, unless the error already names a place in the file.
func WithFile(path string, err error) error {
	var located *graph.Error
	if errors.As(err, &located) && located.File != "" {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}
