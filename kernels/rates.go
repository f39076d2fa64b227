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

// Rates lists the rates of all families of ops. A rate ([graph.Rate]) describes an inner kernel: its name in cost
// profiles, and the calls by which package calibrate measures its price. The caller may modify the slice.
func Rates() []graph.Rate {
	return slices.Concat(pointwise.Rates(), view.Rates(), reduce.Rates(), index.Rates(), product.Rates(), conv.Rates(),
		pool.Rates(), window.Rates(), recurrent.Rates())
}
