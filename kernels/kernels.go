package kernels

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/kernels/internal/composite"
	"github.com/graphrun/graphrun/kernels/internal/control"
	"github.com/graphrun/graphrun/kernels/internal/conv"
	"github.com/graphrun/graphrun/kernels/internal/fourier"
	"github.com/graphrun/graphrun/kernels/internal/index"
	"github.com/graphrun/graphrun/kernels/internal/linalg"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/pool"
	"github.com/graphrun/graphrun/kernels/internal/product"
	"github.com/graphrun/graphrun/kernels/internal/quantized"
	"github.com/graphrun/graphrun/kernels/internal/recurrent"
	"github.com/graphrun/graphrun/kernels/internal/reduce"
	"github.com/graphrun/graphrun/kernels/internal/text"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/kernels/internal/window"
)

// families returns the ops of each family. A new family is added here. A new op is added to the list of its family.
func families() [][]*graph.Op {
	return [][]*graph.Op{
		pointwise.Ops(), view.Ops(), reduce.Ops(), index.Ops(), product.Ops(), conv.Ops(), quantized.Ops(),
		pool.Ops(), window.Ops(), recurrent.Ops(), fourier.Ops(), control.Ops(), linalg.Ops(), text.Ops(), composite.Ops(),
	}
}

var catalogue = func() map[string]*graph.Op {
	byName, err := catalogueOf(families())
	if err != nil {
		panic("kernels: " + err.Error())
	}
	return byName
}()

// catalogueOf indexes the ops of all families by name and rejects duplicates.
func catalogueOf(families [][]*graph.Op) (map[string]*graph.Op, error) {
	byName := map[string]*graph.Op{}
	for _, ops := range families {
		for _, op := range ops {
			if byName[op.Name] != nil {
				return nil, fmt.Errorf("op %s is listed twice", op.Name)
			}
			byName[op.Name] = op
		}
	}
	return byName, nil
}

// Lookup returns the op with the given name, or nil.
func Lookup(name string) *graph.Op { return catalogue[name] }

// All returns all ops, sorted by name.
func All() []*graph.Op {
	ops := make([]*graph.Op, 0, len(catalogue))
	for _, op := range catalogue {
		ops = append(ops, op)
	}
	sorted.Func(ops, func(a, b *graph.Op) int { return strings.Compare(a.Name, b.Name) })
	return ops
}
