package product

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// ways are the ways to compute the products of a call, the simplest first.
var ways = []struct {
	name, doc string
	way       gemm.Way
}{
	{"loops", "Plain loops over the matrices in their own layouts; for tiny products.", gemm.Loops},
	{"thin", "Reads the larger matrix once, where it is; for up to four rows or columns.", gemm.Thin},
	{"tiled", "Packs the matrices into panels, constant ones once, and multiplies tiles in registers.", gemm.Tiled},
}

// productImpls lists the ways of an op whose calls read as contractions. Results are in any order.
func productImpls(read func(c *graph.Call) (*contraction, error)) []graph.Impl {
	list := make([]graph.Impl, len(ways))
	for i, w := range ways {
		list[i] = graph.Impl{Name: w.name, Doc: w.doc,
			Walks: func(c *graph.Call, candidates []tensor.Order) []graph.Walk {
				x, err := read(c)
				if err != nil || !x.supports(c, w.way) {
					return nil
				}
				walks := []graph.Walk{{}}
				for _, o := range candidates {
					if o != "" && o.Rank() == c.Out[0].Rank() {
						walks = append(walks, c.InOrder(o))
					}
				}
				return walks
			},
			Read: func(c *graph.Call, _ graph.Walk, k int, m tensor.Meta) (graph.Work, bool) {
				if c.Constant(k) && w.way == gemm.Tiled { // panels follow one another
					m = tensor.New(m.DType, m.Shape...)
				}
				return graph.ReadWork(m, m), true
			},
			Work: func(c *graph.Call, walk graph.Walk) graph.Work {
				work := kit.Stored(c, walk, "")
				laid := *c
				laid.Out = []tensor.Meta{walk.Lay(0, c.Out[0])}
				if x, err := read(&laid); err == nil {
					x.work(c, w.way, &work)
				}
				return work
			},
			Lower: func(c *graph.Call) (*graph.Kernel, error) { return lowerProduct(c, w.way, read) },
			Pack: multiply.Packs(func(c *graph.Call, i int) (graph.Packing, bool) {
				x, err := read(c)
				e := engines[c.Out[0].DType]
				if err != nil || e == nil || x.k == 0 || i != x.opA && i != x.opB {
					return graph.Packing{}, false
				}
				x.take(c, w.way)
				return e.packing(x, i == x.opA, c.Out[0].DType)
			})}
	}
	return list
}

func lowerProduct(c *graph.Call, w gemm.Way, read func(c *graph.Call) (*contraction, error)) (*graph.Kernel, error) {
	given, err := read(c)
	if err != nil {
		return nil, err
	}
	return copies.Converted(c, multiply.ComputesIn(c), func(c *graph.Call) (*graph.Kernel, error) {
		x, err := read(c)
		if err != nil {
			return nil, err
		}
		x.k = given.k // whether there is something to sum may go by the dtype given
		x.take(c, w)
		return x.compile(c)
	})
}

// take computes the products in a way, if they can be: operands that were converted may lie otherwise.
func (x *contraction) take(c *graph.Call, w gemm.Way) {
	if x.supports(c, w) {
		x.way = w
	}
}

// supports reports whether the products of a call can be computed in a way. Loops take those that are tiny
// only, or have nothing to sum: for others nobody would want them.
func (x *contraction) supports(c *graph.Call, w gemm.Way) bool {
	y := *x
	y.fold()
	s := y.spec()
	switch empty := s.M == 0 || s.N == 0 || s.K == 0; {
	case empty || w == gemm.Loops:
		return w == gemm.Loops && (empty || s.M*s.N*s.K <= tinyMACs)
	case c.Out[0].DType.OpMath() == tensor.Float64:
		return gemm.Supports[float64](s, w)
	}
	return gemm.Supports[float32](s, w)
}

// What there is to do besides multiplying, in simple operations (measured).
const (
	beginThin  = 1000 // to begin a product that reads its matrices in their own layouts
	beginTiled = 1500 // to begin one that packs them
	packOps    = 0.5  // to pack an element
	loopOps    = 2    // a multiplication and an addition of plain loops
)

// work adds the products of a call, computed in a way.
func (x *contraction) work(c *graph.Call, w gemm.Way, work *graph.Work) {
	y := *x
	y.fold()
	entries, d := float64(y.entries()), c.Out[0].DType
	macs := float64(y.m) * float64(y.n) * float64(y.k)
	switch w {
	case gemm.Loops:
		work.Ops[graph.Simple] += entries * macs * loopOps
	case gemm.Thin:
		work.Ops[graph.Simple] += beginThin
		work.Ops[graph.Product] += entries * 2 * macs * multiply.Weight(d)
	default:
		work.Ops[graph.Simple] += beginTiled
		work.Ops[graph.Product] += entries * multiply.Ops(d, max(y.m, multiply.Thin+1), max(y.n, multiply.Thin+1), y.k)
		turns := y.c.row == 1 && !c.Constant(y.opA) && !c.Constant(y.opB) // the product is transposed
		if y.n > 1 && y.c.col != 1 && !turns {
			work.Ops[graph.Simple] += entries * multiply.TurnOps(y.m*y.n, y.k)
		}
		for _, side := range []struct{ op, lanes int }{{y.opA, y.m}, {y.opB, y.n}} {
			if !c.Constant(side.op) {
				work.Ops[graph.Simple] += entries * packOps * float64(side.lanes) * float64(y.k)
			}
		}
	}
	if y.hasAdd {
		work.Ops[graph.Simple] += entries * float64(y.m) * float64(y.n)
	}
}
