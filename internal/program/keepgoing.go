package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/tensor"
)

// This file implements Options.KeepGoing for failures before a run. The errors of inference, planning and compilation
// name nodes. [Binding.plan] removes these nodes and their dependents from the graph, and plans and compiles the rest.
// If memory is short, it removes the nodes with the largest results. Package exec continues runs after failed steps.

// plan plans and compiles a graph whose shapes are known. With keepGoing, it removes nodes until this succeeds; each
// round removes at least one node or output. Decisions to follow are made for all nodes, so then nothing is removed.
func (b *Binding) plan(ctx context.Context, owner *Program, g *graph.Graph, mode planMode) error {
	planned, err := b.tryPlan(ctx, owner, g, mode)
	if err == nil || !mode.keepGoing || mode.follow != nil {
		return err
	}
	var failed graph.Errors
	for maxOmissions := 1; err != nil; planned, err = b.tryPlan(ctx, owner, g, mode) {
		if interrupt.Err(ctx) != nil {
			return err
		}
		var memoryErr *exec.MemoryError
		var remaining *graph.Graph
		var reasons graph.Errors
		if errors.As(err, &memoryErr) && planned != nil {
			suffices := func(smaller *graph.Graph) bool {
				_, err := b.tryPlan(ctx, owner, smaller, mode)
				return !errors.As(err, new(*exec.MemoryError))
			}
			remaining, reasons = describeShortage(g, planned.Graph, memoryErr).dropFewest(maxOmissions, suffices)
			maxOmissions *= 2
		} else {
			remaining, reasons = withoutFailed(g, planned, err)
		}
		if len(reasons) == 0 { // no removal would help
			return err
		}
		g, failed = remaining, append(failed, reasons...)
	}
	b.failed = append(b.failed, failed...)
	if !b.isPart {
		b.RunnableGraph = g
	}
	return nil
}

// inferRest infers a graph. It returns the graph without the rejected nodes, and the reasons.
func inferRest(g *graph.Graph) (*graph.Graph, graph.Errors) {
	rejected := g.InferAll()
	if len(rejected) == 0 {
		return g, nil
	}
	return g.WithoutRejected(rejected), g.RootErrors(rejected)
}

// withoutFailed returns a copy of g without the nodes and outputs that err names, and without the dependents of these
// nodes. It also returns the errors of the removed nodes and outputs, without those of dependents. planned is the plan
// of g, or nil if planning failed.
func withoutFailed(g *graph.Graph, planned *passes.Plan, err error) (*graph.Graph, graph.Errors) {
	var errs graph.Errors
	var single *graph.Error
	if !errors.As(err, &errs) && errors.As(err, &single) {
		errs = graph.Errors{single}
	}
	ofNode, ofOutput := map[string]*graph.Error{}, map[string]*graph.Error{}
	for _, failure := range errs {
		if failure.Output != "" {
			ofOutput[failure.Output] = failure
		} else {
			ofNode[failure.Node] = failure
		}
	}
	rejected := map[*graph.Node]*graph.Error{}
	for _, n := range g.Nodes {
		for whole := n; whole != nil; whole = whole.PartOf { // errors of parts name the composite node
			if failure := ofNode[whole.Name]; failure != nil {
				rejected[n] = failure
			}
		}
	}
	if planned != nil {
		origins := originsOf(g, planned.Graph)
		for _, n := range planned.Graph.Nodes { // a node that a pass inserted may have failed
			if failure, origin := ofNode[n.Name], origins[n]; failure != nil && rejected[origin] == nil {
				rejected[origin] = failure
			}
		}
	}
	remaining, reasons := g.WithoutRejected(rejected), g.RootErrors(rejected)
	remaining.Outputs = slices.DeleteFunc(remaining.Outputs, func(output graph.Output) bool {
		failure := ofOutput[output.Name]
		if failure != nil {
			reasons = append(reasons, failure)
		}
		return failure != nil
	})
	return remaining, reasons
}

// originsOf returns, by node of a planned graph, the node of g that it computes or is a part of. A node that a pass
// inserted, such as a copy, belongs to the first node that reads it or, without a reader, to the node that it reads.
func originsOf(g, planned *graph.Graph) map[*graph.Node]*graph.Node {
	byName := make(map[string]*graph.Node, len(g.Nodes))
	for _, n := range g.Nodes {
		byName[n.Name] = n
	}
	sourceOf := func(n *graph.Node) (source *graph.Node) {
		for whole := n; whole != nil && source == nil; whole = whole.PartOf {
			source = byName[whole.Name]
		}
		for _, v := range n.Out {
			if named := g.Value(v.Name); source == nil && named != nil {
				source = named.Node
			}
		}
		return source
	}
	origins := map[*graph.Node]*graph.Node{}
	for _, n := range slices.Backward(planned.Nodes) {
		origin := cmp.Or(sourceOf(n), origins[n])
		for _, arg := range n.In {
			if arg.Kind == graph.TensorArg && arg.Value.Node != nil {
				origin = cmp.Or(origin, sourceOf(arg.Value.Node))
				origins[arg.Value.Node] = origin
			}
		}
		origins[n] = origin
	}
	return origins
}

// shortage describes a graph that needs too much memory. For example, if 100 MB are left and nodes with results of 150,
// 60 and 50 MB need 260 MB, the excess is 160 MB. minOmissions is then 2: the node of 150 MB, which alone exceeds the
// limit, and the node of 60 MB, because 10 MB of the excess remain.
type shortage struct {
	graph   *graph.Graph
	err     *exec.MemoryError
	bytes   map[*graph.Node]int // by node of the planned graph: size of the results
	order   []*graph.Node       // the nodes of the planned graph with results, in descending order of size
	origins map[*graph.Node]*graph.Node
	// minOmissions is a lower bound on the number of nodes to omit. It counts every node whose results alone exceed the
	// limit. It also counts the largest other nodes, until their total size reaches the excess over the limit.
	minOmissions int
}

// describeShortage describes why a run of g, by a plan, does not fit into memory.
func describeShortage(g, planned *graph.Graph, memoryErr *exec.MemoryError) *shortage {
	s := &shortage{graph: g, err: memoryErr, bytes: map[*graph.Node]int{}, origins: originsOf(g, planned)}
	for _, n := range planned.Nodes {
		for _, v := range n.Out {
			if v.Alias == nil && v.ContainedIn == nil && s.origins[n] != nil {
				s.bytes[n] += v.Meta.Extent() * v.Meta.DType.Size()
			}
		}
		if s.bytes[n] > 0 {
			s.order = append(s.order, n)
		}
	}
	sorted.Func(s.order, func(first, second *graph.Node) int {
		return cmp.Or(cmp.Compare(s.bytes[second], s.bytes[first]), strings.Compare(first.Name, second.Name))
	})
	excess := memoryErr.Need.Total() - memoryErr.Held - memoryErr.Left // bytes by which the need exceeds the limit
	for _, n := range s.order {
		if excess <= 0 && s.bytes[n] <= memoryErr.Left { // holds for all later nodes, too: they are not larger
			break
		}
		excess -= s.bytes[n]
		s.minOmissions++
	}
	return s
}

// dropFewest drops the smallest sufficient number of nodes, from minOmissions to maxOmissions. If no number suffices,
// it drops the greatest number in this range. Omitting a single node may not shrink the arena, because other values use
// the same memory. The caller therefore doubles maxOmissions from round to round.
func (s *shortage) dropFewest(maxOmissions int, suffices func(*graph.Graph) bool) (*graph.Graph, graph.Errors) {
	maxAdditional := max(min(maxOmissions, len(s.order))-s.minOmissions, 0)
	return s.dropLargest(s.minOmissions + sort.Search(maxAdditional, func(additional int) bool {
		smaller, _ := s.dropLargest(s.minOmissions + additional)
		return suffices(smaller)
	}))
}

// dropLargest returns the graph without the count nodes that have the largest results, and the reason for each omitted
// node. Dependents of omitted nodes are omitted without a reason.
func (s *shortage) dropLargest(count int) (*graph.Graph, graph.Errors) {
	omitted := map[*graph.Node]*graph.Error{}
	for _, n := range s.order[:count] {
		if origin := s.origins[n]; omitted[origin] == nil {
			omitted[origin] = s.graph.NodeError(origin, memoryErrorFor(s.bytes[n], s.err))
		}
	}
	return s.graph.WithoutRejected(omitted), s.graph.RootErrors(omitted)
}

// memoryErrorFor returns the reason why a node with results of the given size is omitted. If the results alone would
// fit into memory, the error also states the total need of the run.
func memoryErrorFor(bytes int, memoryErr *exec.MemoryError) error {
	alone := &tensor.MemoryError{Bytes: bytes, Left: memoryErr.Left, Limit: memoryErr.Limit, From: memoryErr.From}
	if bytes > memoryErr.Left {
		return alone
	}
	return &jointMemoryError{alone, memoryErr.Need.Total()}
}

// jointMemoryError is the error of a value that fits into memory alone, but not together with the other values of the
// run.
type jointMemoryError struct {
	*tensor.MemoryError
	total int // memory that the run needs, in bytes
}

// Error gives the size of the value, the need of the run, and the limit.
func (e *jointMemoryError) Error() string {
	return fmt.Sprintf("the value takes %s of the %s of memory that a run needs: %v", machine.Bytes(e.Bytes),
		machine.Bytes(e.total), machine.Limit{Available: e.Left, Total: e.Limit, Name: e.From})
}

// Unwrap returns the error without the total.
func (e *jointMemoryError) Unwrap() error { return e.MemoryError }
