package kernels

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/conv"
	"github.com/graphrun/graphrun/kernels/internal/index"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/pool"
	"github.com/graphrun/graphrun/kernels/internal/product"
	"github.com/graphrun/graphrun/kernels/internal/recurrent"
	"github.com/graphrun/graphrun/kernels/internal/reduce"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/kernels/internal/window"
)

// Rates lists the rates of all families that have some, with the calls by which package calibrate measures them. A rate
// is the time that an inner kernel takes for one unit of work. Implementations state their work in these units. The
// slice belongs to the caller.
func Rates() []graph.Rate {
	return slices.Concat(pointwise.Rates(), view.Rates(), reduce.Rates(), index.Rates(), product.Rates(), conv.Rates(),
		pool.Rates(), window.Rates(), recurrent.Rates())
}
