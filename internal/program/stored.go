package program

import (
	"context"
	"fmt"
	"hash"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/diskcache"
	"github.com/graphrun/graphrun/internal/environment"
	"github.com/graphrun/graphrun/internal/graphdigest"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// This file stores constants, decisions of plans and folded results in the cache of files (Options.Cache).

// shareConstants replaces the data of large constants by entries of the cache.
func (p *Program) shareConstants() {
	p.planCount.Add(1)
	cache := p.options.Cache
	if cache == nil {
		return
	}
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, v := range p.graph.Constants {
		if v.Const == nil || v.Packed != nil || v.Const.Storage().Len() < diskcache.MinBytes {
			continue
		}
		group.Go(func() error {
			if shared, err := tensor.FromStorage(v.Const.Meta, cache.Share(v.Const.Storage())); err == nil {
				v.Const = shared
			}
			return nil
		})
	}
	_ = group.Wait()
}

// runPasses is [passes.Run] with the cache. It follows the decisions that an earlier process stored for the graph, and
// uses the stored results of folding. Decisions are stored only for built-in strategies and passes, and not if Check or
// Dump requires the results of each pass.
func (p *Program) runPasses(g *graph.Graph, options passes.Options) (*passes.Plan, error) {
	cache := p.options.Cache
	if cache == nil {
		return passes.Run(g, options)
	}
	options.FoldStore = p.foldCached
	needsEveryPass := options.Check || options.Dump != nil
	if options.Follow != nil || needsEveryPass || p.hasOwnPasses || !isInferred(g) ||
		!slices.Contains(layout.All(), options.Strategy) {
		return passes.Run(g, options)
	}
	key, ok := p.planKey(g, options)
	if !ok {
		return passes.Run(g, options)
	}
	if entry := cache.Find(key); entry != nil {
		decisions, err := passes.DecodeDecisions(entry.Bytes())
		runtime.KeepAlive(entry) // the memory of entry is unmapped when entry is collected
		if err == nil {
			followOptions := options
			followOptions.Follow, followOptions.Price = decisions, true
			if plan, err := passes.Run(g, followOptions); err == nil {
				return plan, nil
			}
		} // after an error, decide again
	}
	options.Record = true
	plan, err := passes.Run(g, options)
	if err == nil {
		if text, err := plan.Decisions.Encode(); err == nil {
			cache.Add(key, text)
		}
	}
	return plan, err
}

// codeIdentity identifies everything on which results depend, except the graph: the program, its code generator and the
// instructions of the processor. [environment.Code] differs in processes that can only plan, whose packed constants
// have no data.
var codeIdentity = sync.OnceValue(func() string {
	return environment.Build() + "\n" + environment.Code() + "\n" + machine.HostWithUnit().String()
})

// planKey returns the key of the decisions for a graph with its sizes. It returns false if the graph has no digest.
func (p *Program) planKey(g *graph.Graph, options passes.Options) (diskcache.Key, bool) {
	hash := diskcache.NewHash("plan")
	fmt.Fprintf(hash, "%s\n%s %t %t %v %v %d %s\n", codeIdentity(), options.Strategy.Name(), p.options.NoFusion,
		options.Exact, options.SolveLimit, options.Slack, options.MemoryLimit, options.Profile.Digest())
	if device := options.Device; device != nil {
		fmt.Fprintf(hash, "%s %+v\n", device.Key(), device.Rates())
	}
	g.Values(func(v *graph.Value) { fmt.Fprintf(hash, "%d ", v.Number()) }) // decisions refer to numbers
	for _, n := range g.Nodes {
		fmt.Fprintf(hash, "%d ", n.Number())
	}
	err := graphdigest.Write(context.Background(), hash, g, func(v *graph.Value) error {
		if v.Const != nil {
			fmt.Fprintf(hash, "%t ", v.IsReadPacked()) // plans of graphs without symbols differ
			p.writeConstant(hash, v.Const.Meta, v.Const)
		}
		return nil
	})
	return diskcache.KeyOf(hash), err == nil
}

// writeConstant writes the meta of a constant and the key of its data to a hash.
func (p *Program) writeConstant(h hash.Hash, meta tensor.Meta, data *tensor.Tensor) {
	if narrow := data.Unwidened(); narrow != nil { // do not take memory for the converted elements
		fmt.Fprint(h, "widened from ")
		data = narrow
	}
	key := p.options.Cache.ContentKey(data.Storage())
	fmt.Fprintf(h, "%v %v %v %d %x\n", meta.DType, meta.Shape, meta.Strides, meta.Offset, key)
}

// foldCached returns the results of a folded node from the cache, or computes and stores them: see
// [passes.Options.FoldStore].
func (p *Program) foldCached(node *graph.Node, compute func() ([]*tensor.Tensor, error)) ([]*tensor.Tensor, error) {
	if len(node.Out) != 1 || node.Out[0].Meta.Extent()*node.Out[0].Meta.DType.Size() < diskcache.MinBytes {
		return compute()
	}
	key, ok := p.foldKey(node)
	if !ok {
		return compute()
	}
	cache, meta := p.options.Cache, node.Out[0].Meta
	if stored := cache.Find(key); stored != nil {
		if shared, err := tensor.FromStorage(meta, stored); err == nil {
			return []*tensor.Tensor{shared}, nil
		}
	}
	out, err := compute()
	if err != nil || len(out) != 1 || out[0].Offset != 0 { // an entry has a whole storage, which begins with the result
		return out, err
	}
	if stored := cache.Add(key, out[0].Storage().Bytes()); stored != nil {
		if shared, err := tensor.FromStorage(out[0].Meta, stored); err == nil {
			out[0] = shared
		}
	}
	return out, nil
}

// foldKey returns the key of the results of a node whose operands are constants. It returns false if an operand or an
// attribute has no digest.
func (p *Program) foldKey(node *graph.Node) (diskcache.Key, bool) {
	hash := diskcache.NewHash("fold")
	fmt.Fprintf(hash, "%s\n%q", codeIdentity(), node.Op.Name)
	if node.Impl != nil {
		fmt.Fprintf(hash, " %q %q %q", node.Impl.Name, node.Walk.LoopOrder, node.Walk.ResultOrders)
	}
	if packing := node.Packing(); packing != nil {
		fmt.Fprintf(hash, " %q", packing.Format)
	} else if !graphdigest.WriteAttrs(hash, node) {
		return diskcache.Key{}, false
	}
	for _, arg := range node.In {
		fmt.Fprintf(hash, "\n%d ", arg.Kind)
		switch {
		case arg.Kind == graph.NumberArg:
			fmt.Fprintf(hash, "%#v", arg.Number)
		case arg.Kind == graph.Null: // an omitted operand has no data
		case arg.Value == nil || arg.Value.Const == nil:
			return diskcache.Key{}, false
		default:
			p.writeConstant(hash, arg.Value.Meta, arg.Value.Const)
		}
	}
	meta := node.Out[0].Meta
	fmt.Fprintf(hash, "\n%v %v %v %d", meta.DType, meta.Shape, meta.Strides, meta.Offset)
	return diskcache.KeyOf(hash), true
}
