package experiment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/graphdigest"
)

// digestOf returns the sha256 of a graph, with the data of its constants. It panics when the context ends: see
// [interrupt.Check].
func digestOf(ctx context.Context, g *graph.Graph) (string, error) {
	h := sha256.New()
	if err := graphdigest.Write(ctx, h, g, graphdigest.DataWriter(ctx, h)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
