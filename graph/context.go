package graph

import (
	"context"

	"github.com/graphrun/graphrun/internal/ends"
)

// SetContext sets a context for inference of the graph and of later copies of it: once it has ended, nodes are refused
// with its cause. Nil stands for none.
func (g *Graph) SetContext(ctx context.Context) { g.ctx = ctx }

// Context returns the context of work on the graph: see [Graph.SetContext]. The default is [context.Background].
func (g *Graph) Context() context.Context {
	if g == nil || g.ctx == nil {
		return context.Background()
	}
	return g.ctx
}

// ended returns the cause of the graph's context if that has ended.
func (g *Graph) ended() error {
	if g.ctx == nil {
		return nil
	}
	return ends.Err(g.ctx)
}
