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

// Rates lists the rates of all families of ops. A rate ([graph.Rate]) has the name of a unit of work in cost profiles,
// and the calls that package calibrate runs to measure the time of a unit. The caller may modify the slice.
func Rates() []graph.Rate {
	return slices.Concat(pointwise.Rates(), view.Rates(), reduce.Rates(), index.Rates(), product.Rates(), conv.Rates(),
		pool.Rates(), window.Rates(), recurrent.Rates())
}
