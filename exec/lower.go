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
	"github.com/graphrun/graphrun/internal/ends"
	"github.com/graphrun/graphrun/internal/jit"
)

// lowered is what became of a node: its kernel, or why there is none. A view has neither.
type lowered struct {
	kernel *graph.Kernel
	err    error
}

// lowerBatch is how many nodes in a row one worker lowers: fewer than share the work out evenly where the code of some
// takes a thousand times as long as others, and enough that starting workers costs little.
const lowerBatch = 16

// lowerAll makes the kernels of all nodes, several at a time, for they do not depend on one another, and then maps
// what machine code was made for them in one go. What it gives does not depend on the number of workers: all nodes
// before the first that fails are lowered, and all there are where failing nodes are left out.
func lowerAll(g *graph.Graph, o Options) []lowered {
	list := make([]lowered, len(g.Nodes))
	var failed atomic.Int64 // the first place known to fail
	failed.Store(int64(len(list)))
	batch := func(begin, end int) {
		for i := begin; i < end && int64(i) < failed.Load(); i++ {
			n := g.Nodes[i]
			if n.IsView() {
				continue
			}
			if list[i].kernel, list[i].err = lower(o.Context, n); list[i].err == nil || o.KeepGoing {
				continue
			}
			for at := failed.Load(); int64(i) < at && !failed.CompareAndSwap(at, int64(i)); at = failed.Load() {
			}
		}
	}
	inBatches(len(list), o.Threads, batch)
	// Where memory may not be executed after all, loops find that out when they run, and run in Go.
	_ = jit.Link()
	return list
}

// inBatches calls do for all of n places, so many in a row, and for several batches at a time where there are workers.
func inBatches(n, threads int, do func(begin, end int)) {
	workers := min(threads, runtime.GOMAXPROCS(0))
	if workers < 2 || n <= lowerBatch {
		do(0, n)
		return
	}
	var group errgroup.Group
	group.SetLimit(workers)
	for begin := 0; begin < n; begin += lowerBatch {
		group.Go(func() error {
			do(begin, min(begin+lowerBatch, n))
			return nil
		})
	}
	_ = group.Wait() // what is done has places of its own, and so have errors
}

// lower makes the kernel of a node that is no view.
func lower(ctx context.Context, n *graph.Node) (k *graph.Kernel, err error) {
	defer recovered(&err)
	if err := ends.Err(ctx); err != nil {
		return nil, err
	}
	if n.Op.Decompose != nil {
		return nil, errors.New("it is stated as other nodes: the graph must be planned first")
	}
	if n.Op.Compile == nil {
		return nil, fmt.Errorf("no kernel makes this value")
	}
	if slices.ContainsFunc(n.Out, func(v *graph.Value) bool { return v.Alias != nil }) {
		return nil, fmt.Errorf("some of its outputs are views and some are not: the graph must be planned first")
	}
	if k, err = n.Op.Compile(n.Call()); err == nil && k == nil {
		err = errors.New("its op gives no kernel")
	}
	if err != nil {
		return k, err
	}
	return countable(k), nil
}
