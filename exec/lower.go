package exec

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/panics"
)

// This file compiles the kernels of all nodes, in parallel.

// loweredNode is the kernel of a node, or the error of its compilation. A view has no kernel and no error.
type loweredNode struct {
	kernel *graph.Kernel
	err    error
}

// lowerBatch is the number of consecutive nodes that a worker lowers at a time. It is small enough to balance the load
// if some nodes take a thousand times as long as others, and large enough to amortize the start of workers.
const lowerBatch = 16

// lowerAll compiles (lowers) the kernels of all nodes in parallel, and then links their machine code in one operation.
// The number of workers affects only [joinChunks], which joins chunks of a kernel. If the compilation of a node fails,
// later nodes may remain without kernels. With Options.KeepGoing, all nodes are lowered. All nodes before the first
// failing node are always lowered.
func lowerAll(g *graph.Graph, options Options) []loweredNode {
	list := make([]loweredNode, len(g.Nodes))
	var firstFailed atomic.Int64 // index of the first node known to fail
	firstFailed.Store(int64(len(list)))
	lowerRange := func(begin, end int) {
		for i := begin; i < end && int64(i) < firstFailed.Load(); i++ {
			n := g.Nodes[i]
			if n.IsView() {
				continue
			}
			if options.Base != nil && !options.Changed(i) {
				list[i] = options.Base.kernels[i]
				continue
			}
			list[i].kernel, list[i].err = lower(options.Context, n, options.Threads)
			if list[i].err == nil || options.KeepGoing {
				continue
			}
			// firstFailed = min(firstFailed, i), atomically
			for known := firstFailed.Load(); int64(i) < known && !firstFailed.CompareAndSwap(known, int64(i)); {
				known = firstFailed.Load()
			}
		}
	}
	forEachBatch(len(list), options.Threads, lowerRange)
	// The error is ignored: if memory cannot be made executable, loops run in Go.
	_ = jit.Link()
	return list
}

// forEachBatch divides the indices 0 to n-1 into batches and calls process for each batch, concurrently if there are
// several threads.
func forEachBatch(n, threads int, process func(begin, end int)) {
	workers := min(threads, runtime.GOMAXPROCS(0))
	if workers < 2 || n <= lowerBatch {
		process(0, n)
		return
	}
	var group errgroup.Group
	group.SetLimit(workers)
	for begin := 0; begin < n; begin += lowerBatch {
		group.Go(func() error {
			process(begin, min(begin+lowerBatch, n))
			return nil
		})
	}
	_ = group.Wait() // each batch stores its own results and errors
}

// lower compiles the kernel of a node that is not a view, for the given number of workers.
func lower(ctx context.Context, n *graph.Node, workers int) (kernel *graph.Kernel, err error) {
	defer panics.Recover(&err)
	if err := interrupt.Err(ctx); err != nil {
		return nil, err
	}
	if n.Op.Decompose != nil {
		return nil, errors.New("the op is composite, so it has no kernel: the graph must be planned first")
	}
	if n.Op.Compile == nil && !n.Impl.OnDevice() {
		return nil, fmt.Errorf("the op has no kernel for this node")
	}
	if slices.ContainsFunc(n.Out, func(v *graph.Value) bool { return v.Alias != nil }) {
		return nil, fmt.Errorf("some of its outputs are views and some are not: the graph must be planned first")
	}
	if err := n.CheckPlaces(); err != nil { // operands in the memory of the wrong place, host or device
		return nil, err
	}
	compile := n.Op.Compile
	if n.Impl.OnDevice() {
		compile = n.Impl.Lower
	}
	if kernel, err = compile(n.Call()); err == nil && kernel == nil {
		err = errors.New("Compile of the op returned no kernel")
	}
	if err != nil {
		return kernel, err
	}
	if kernel.Place != n.Out[0].Place() {
		return nil, fmt.Errorf("the kernel has place %v, but the results have place %v", kernel.Place, n.Out[0].Place())
	}
	return joinChunks(kernel, workers), nil
}
