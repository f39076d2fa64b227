package kernels_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestCatalogue checks every op's contract and compares its examples with its reference.
func TestCatalogue(t *testing.T) {
	for _, op := range kernels.All() {
		t.Run(op.Name, func(t *testing.T) {
			checkContract(t, op)
			for i, ex := range op.Examples {
				r := rand.New(rand.NewPCG(1, uint64(i)))
				draw := kerneltest.IndexValues(r)
				if op.Kind == graph.FollowsOperands {
					draw = kerneltest.MixedValues(r)
				}
				c, err := kerneltest.CallOf(op, ex.Attrs, ex.In)
				if err != nil {
					t.Fatalf("example %d: %v", i, err)
				}
				in := make([]*tensor.Tensor, len(ex.In))
				for k, m := range ex.In {
					if m.DType != tensor.Invalid {
						in[k] = kerneltest.Filled(m, draw)
					}
				}
				if op.Decompose != nil {
					kerneltest.CheckParts(t, op.Name, ex.Attrs, in)
					continue
				}
				if err := kerneltest.CheckCall(op, c, in); err != nil {
					t.Errorf("example %d: %v", i, err)
				}
			}
		})
	}
}

func checkContract(t *testing.T, op *graph.Op) {
	doc := []rune(op.Doc)
	switch {
	case len(doc) == 0:
		t.Error("has no doc")
	case !unicode.IsUpper(doc[0]) || doc[len(doc)-1] != '.':
		t.Errorf("the doc must begin with a capital and end with a period: %q", op.Doc)
	}
	if kernels.Lookup(op.Name) != op {
		t.Error("is not found by its name")
	}
	// Attributes that are graphs cannot be written while the catalogue is initialized; raise has no results.
	runsGraphs := op.Schema != nil && slices.ContainsFunc(op.Schema.Fields, func(f graph.Field) bool {
		return strings.Contains(f.Type, "graph")
	})
	if op.Schema == nil || op.Infer == nil || op.Ref == nil || len(op.Examples) == 0 && !runsGraphs && op.Name != "raise" {
		t.Fatal("lacks a schema, Infer, Ref or examples")
	}
	if op.Compile == nil && op.Decompose == nil && op.RunDynamic == nil && op.TakenBranch == nil && op.Kind != graph.View {
		t.Error("lacks Compile")
	}
	if op.Pointwise != nil && op.Kind != graph.FollowsOperands {
		t.Errorf("has a pointwise part and kind %v", op.Kind)
	}
	for _, p := range op.Params {
		if p.Name == "" {
			t.Error("has a nameless operand")
		}
	}
}
