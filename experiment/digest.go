package experiment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// digestOf returns the sha256 of a graph: its structure, attributes and pins as in a graph file, the sizes of its
// symbols, the layouts of its values, and the data of its constants. It panics when the context ends: see
// [interrupt.Check].
func digestOf(ctx context.Context, g *graph.Graph) (string, error) {
	h := sha256.New()
	if err := hashGraph(ctx, h, g); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// hashBlock is the number of bytes that are hashed between two checks of the context.
const hashBlock = 1 << 20

func hashGraph(ctx context.Context, h hash.Hash, g *graph.Graph) error {
	bare := *g
	bare.Constants = nil // the file format may name files instead of data
	if err := graphfile.Save(h, &bare); err != nil {
		return fmt.Errorf("digest of the graph: %w", err)
	}
	sizes := g.Bound()
	for _, name := range sorted.Keys(sizes) {
		fmt.Fprintf(h, "size %q %d\n", name, sizes[name])
	}
	for _, p := range pinsOf(g) {
		fmt.Fprintf(h, "pin %q %q\n", p.Name, p.Pin)
	}
	g.Values(func(v *graph.Value) {
		fmt.Fprintf(h, "value %q %v %v %v %d\n", v.Name, v.Meta.DType, v.Meta.Shape, v.Meta.Strides, v.Meta.Offset)
	})
	for _, v := range g.Constants {
		fmt.Fprintf(h, "data %q\n", v.Name)
		t := v.Data()
		if t == nil || t.Numel() == 0 {
			continue
		}
		if !t.IsContiguous() {
			c := tensor.Empty(tensor.New(t.DType, t.Shape...))
			if err := iter.CopyElements(ctx, c, t, 1); err != nil {
				return err
			}
			t = c
		}
		start := t.Offset * t.DType.Size()
		for block := range slices.Chunk(t.Storage().Bytes()[start:start+t.Bytes()], hashBlock) {
			interrupt.Check(ctx)
			if _, err := h.Write(block); err != nil {
				return err
			}
		}
	}
	for _, n := range g.Nodes {
		for name, attr := range n.Written() {
			body, isGraph := attr.(*graph.Graph)
			if !isGraph || body == nil {
				continue
			}
			fmt.Fprintf(h, "body %q %q\n", n.Name, name)
			if err := hashGraph(ctx, h, body); err != nil {
				return err
			}
		}
	}
	return nil
}
