package kernels

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/conv"
	"github.com/graphrun/graphrun/kernels/index"
	"github.com/graphrun/graphrun/kernels/pointwise"
	"github.com/graphrun/graphrun/kernels/product"
	"github.com/graphrun/graphrun/kernels/reduce"
	"github.com/graphrun/graphrun/kernels/sequence"
	"github.com/graphrun/graphrun/kernels/view"
	"github.com/graphrun/graphrun/kernels/window"
)

// Rates lists the inner kernels of all families, with the calls by which a machine is measured. The list is the
// caller's.
func Rates() []graph.Rate {
	return slices.Concat(pointwise.Rates(), view.Rates(), reduce.Rates(), index.Rates(), product.Rates(), conv.Rates(),
		window.Rates(), sequence.Rates())
}
