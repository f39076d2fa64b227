package convert

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/onnx/internal/symbolic"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts If. If the condition is constant, the chosen branch is converted in place of the If. Otherwise the
// If becomes a node with two graphs, one for each branch. A branch that cannot be converted becomes a graph that raises
// the error when it runs.
//
// If the results of the branches differ in rank, the nodes after the If (the continuation) cannot be converted for both
// ranks at once. Each branch then contains a separate copy of these nodes. For example, if one branch of an If squeezes
// a value, the continuation Relu is converted twice:
//
//	y = If(cond, Squeeze(x), x); z = Relu(y)    becomes    z = If(cond, Relu(Squeeze(x)), Relu(x))
//
// A graph is converted at the hints, which are example sizes of the symbols (unknown sizes). In a nested graph,
// captured has the values of the enclosing graph that the nested graph uses. The outline of a result is its dtype and
// the sizes that are known before the graph runs. An importer builds one graph.Graph. A scope has the values of a graph
// by name. A frame has the settings of the nodes of a graph, such as the nesting depth.

// continuation is the part of the model that follows a node: graph.Node[next] and all later nodes of the graph. If the
// graph is converted in place of an outer node, the continuation of the outer node (frame.continuation) comes next.
type continuation struct {
	graph       *pb.GraphProto
	next        int
	scope       *scope
	frame       *frame
	resultNames []string // the names of the node's results in the scope
}

// branch is a branch of an If: a nested graph, whose conversion may have failed.
type branch struct {
	*nestedGraph
	err             error
	proto           *pb.GraphProto
	hasContinuation bool // whether the continuation is also converted as a part of the branch
}

// ifOp converts If: see the comment at the top of this file. A branch whose conversion fails at the hints is converted
// again at other example sizes if the condition depends on sizes.
func ifOp(n *Node) []*Value {
	cond := n.Operand(0)
	thenProto, elseProto := n.body("then_branch"), n.body("else_branch")
	if cond.data != nil {
		if n.Number(cond).Int() != 0 {
			return n.convertInline(thenProto)
		}
		return n.convertInline(elseProto)
	}
	thenBranch, elseBranch := n.branch(thenProto, n.hints), n.branch(elseProto, n.hints)
	takesThen, hasCondition := cond.elements.Bool() // the condition as an expression over sizes, or over unknown data
	retry := func() {
		n.retryUnits(thenBranch)
		n.retryUnits(elseBranch)
		if hasCondition {
			n.retryBranch(thenBranch, takesThen)
			n.retryBranch(elseBranch, takesThen.Not())
		}
	}
	retry()
	if n.continuationDiffers(thenBranch, elseBranch) {
		thenBranch.convertContinuation(n)
		elseBranch.convertContinuation(n)
		retry()
		n.finalOutputs = n.ifNode(cond, thenBranch, elseBranch) // results of the graph: no node after n is converted
		return nil
	}
	return n.ifNode(cond, thenBranch, elseBranch)
}

// retryUnits converts a branch again, with 1 as the example size of each symbol that it requires to be 1.
func (n *Node) retryUnits(b *branch) {
	for unit := (unitSize{}); errors.As(b.err, &unit) && b.importer.hints[unit.symbol] != 1; {
		hints, hasContinuation := maps.Clone(b.importer.hints), b.hasContinuation
		hints[unit.symbol] = 1
		if *b = *n.branch(b.proto, hints); hasContinuation {
			b.convertContinuation(n)
		}
	}
}

// maxRetries bounds the number of sizes at which the conversion of a branch is retried.
const maxRetries = 32

// retryBranch converts a branch again if its conversion at the hints failed. It tries other sizes at which the branch
// is taken, because the condition `taken` holds. If all conversions fail, the error remains.
func (n *Node) retryBranch(b *branch, taken sym.Bool) {
	if b.err == nil {
		return
	}
	count := n.nodeCount
	for _, hints := range n.sizesWhere(taken) {
		n.nodeCount = count
		other := n.branch(b.proto, hints)
		if b.hasContinuation {
			other.convertContinuation(n)
		}
		if other.err == nil {
			*b = *other
			return
		}
	}
	n.nodeCount = count
}

// sizesWhere returns sizes of the symbols for which a condition holds. Each element of the list gives all symbols the
// same size. Small sizes come first. The list is empty if the condition depends on data.
func (n *Node) sizesWhere(cond sym.Bool) (list []map[string]int) {
	sizes := make([]int, 0, maxRetries+len(Hints))
	for size := range maxRetries {
		sizes = append(sizes, size+1)
	}
	for _, h := range Hints {
		sizes = append(sizes, h.First)
	}
	for _, size := range append(sizes, 0) { // 0 is last, because it makes tensors empty
		binding := map[string]int{}
		for name := range n.hints {
			binding[name] = size
		}
		if holds, err := cond.At(binding); err == nil && holds {
			list = append(list, binding)
		}
	}
	return list
}

// sizeOnlyCondition returns x as a condition on sizes. ok is false if x depends on data.
func (n *Node) sizeOnlyCondition(x *Value) (cond sym.Bool, ok bool) {
	if cond, ok = x.elements.Bool(); !ok {
		return cond, false
	}
	return cond, n.useSymbols(cond.String())
}

// IfPositive applies positive if a size is positive in a run, and empty if it is 0. The functions get the node in which
// they add ops, and the operands there. They return the same number of tensors, of the same dtypes and ranks. Under
// [InFloat32], the branches compute in float32, too, and their results are rounded outside.
func (n *Node) IfPositive(size sym.Int, operands []*Value, positive, empty func(*Node, []*Value) []*Value) []*Value {
	switch cond := size.Gt(sym.Int{}); {
	case symbolic.Positive(size):
		return positive(n, operands)
	case cond.Same(sym.BoolOf(false)):
		return empty(n, operands)
	}
	return n.IfTrue(n.Op("gt", nil, n.sizeValue(size), 0).WithType(tensor.Bool, 0), operands, positive, empty)
}

// IfTrue is [Node.IfPositive] for a condition, a bool of no dimensions: it applies one of two functions.
func (n *Node) IfTrue(cond *Value, operands []*Value, then, otherwise func(*Node, []*Value) []*Value) []*Value {
	var rounded []tensor.DType // the dtypes of the results, which are in float32 where these are 16-bit floats
	branchOf := func(name string, convert func(*Node, []*Value) []*Value) *branch {
		created := &branch{nestedGraph: n.nestedGraph(name, n.hints)}
		created.convertPart(n, func() error {
			captured, err := created.importer.captureAll(operands)
			if err != nil {
				return err
			}
			inner := created.node(n)
			if n.widened != nil {
				inner.widened = map[*Value]*Value{}
			}
			created.out, rounded = convert(inner, captured), nil
			for i, x := range created.out {
				if rounded = append(rounded, x.DType()); n.widened != nil {
					created.out[i] = inner.inFloat32Now(x)
				}
			}
			return nil
		})
		if created.err != nil { // perhaps only at these example sizes
			n.Failf("%w", created.err)
		}
		return created
	}
	out := n.ifNode(cond, branchOf("then", then), branchOf("otherwise", otherwise))
	for i, x := range out {
		if x.DType() != rounded[i] && rounded[i].IsReducedFloat() {
			out[i] = x.standingFor(rounded[i])
		}
	}
	return out
}

// branch converts a graph as a branch, at the given hints (example sizes).
func (n *Node) branch(proto *pb.GraphProto, hints map[string]int) *branch {
	created := &branch{nestedGraph: n.nestedGraph(proto.Name, hints), proto: proto}
	created.importer.isBranch = true
	created.convertPart(n, func() error {
		if len(proto.Input) > 0 {
			return fmt.Errorf("a graph of %d inputs cannot take 0 values", len(proto.Input))
		}
		return created.convert(proto, created.newScope(n.scope), n.frame.forBody())
	})
	return created
}

// convertPart calls convert, which converts a part of the branch, and stores the error in b.err. An error that concerns
// more than the branch, such as an exceeded limit, ends the conversion of node n. If an earlier part failed,
// convertPart does nothing.
func (b *branch) convertPart(n *Node, convert func() error) {
	if b.err != nil {
		return
	}
	b.importer.nodeCount = n.nodeCount
	b.err = func() (err error) {
		defer Recover(&err)
		return convert()
	}()
	n.nodeCount = b.importer.nodeCount
	// After a memberRankError, the enclosing loop converts its body again (packed.go).
	limit, memberRank := limitError{}, (*memberRankError)(nil)
	if errors.As(b.err, &limit) || errors.As(b.err, &memberRank) {
		n.Failf("%w", b.err)
	}
}

// continuationDiffers reports whether the continuation must be converted for each branch separately. This is necessary
// if a result has different dtypes or ranks in the two branches, or is not a tensor in at least one of them.
func (n *Node) continuationDiffers(thenBranch, elseBranch *branch) bool {
	if thenBranch.err != nil || elseBranch.err != nil || len(thenBranch.out) != len(elseBranch.out) {
		return false
	}
	for i, thenResult := range thenBranch.out {
		elseResult := elseBranch.out[i]
		if !n.IsOutputUsed(i) {
			continue
		}
		areSequences := thenResult.kind == sequenceKind && elseResult.kind == sequenceKind
		if areSequences && (thenResult.packed != nil || elseResult.packed != nil) {
			continue // sequencesOf packs both sequences: see packed.go
		}
		if thenResult.kind != tensorKind || elseResult.kind != tensorKind {
			return true
		}
		joined := thenBranch.outline(i).Join(elseBranch.outline(i))
		if joined.Sizes == nil || !joined.DType.Valid() {
			return true
		}
	}
	return false
}

// convertContinuation converts the continuation of the node as a part of the branch. The outputs of the outermost graph
// become the results of the branch.
func (b *branch) convertContinuation(n *Node) {
	b.hasContinuation = true
	for following := n.continuation; following != nil; following = following.frame.continuation {
		isComplete := false
		b.convertPart(n, func() (err error) {
			isComplete, err = b.convertFollowing(following)
			return err
		})
		if isComplete || b.err != nil {
			return
		}
	}
}

// convertFollowing converts the nodes of one graph of the continuation. The outputs of this graph become the results of
// the branch. isComplete is true if the last of these nodes also converted its continuation, so that the results are
// the outputs of the outermost graph.
func (b *branch) convertFollowing(following *continuation) (isComplete bool, err error) {
	inner := b.newScope(following.scope)
	for i, name := range following.resultNames {
		if name != "" && i < len(b.out) {
			inner.values[name] = b.out[i]
		}
	}
	followingFrame := *following.frame
	followingFrame.depth++
	followingFrame.skipsInvalidNodes = false
	b.out, err = b.importer.convertNodes(following.graph, following.next, inner, &followingFrame)
	if b.out != nil || err != nil {
		return true, err
	}
	for _, output := range following.graph.Output {
		x := inner.lookup(output.Name)
		if x == nil {
			return false, fmt.Errorf("output %q is not made by any node", output.Name)
		}
		b.out = append(b.out, x)
	}
	return false, nil
}

// ifNode adds the node for an If with the given branches. A branch that could not be converted raises its error when it
// runs. If the condition depends only on sizes, the op is if_sizes, which has no operand for the condition.
func (n *Node) ifNode(cond *Value, thenBranch, elseBranch *branch) []*Value {
	sequences := n.sequencesOf(thenBranch, elseBranch) // each becomes two results (packedbodies.go)
	n.finishBranches(thenBranch, elseBranch)
	thenGraph, elseGraph := thenBranch.importer.graph, elseBranch.importer.graph
	results := len(thenGraph.Outputs)
	if results != len(elseGraph.Outputs) {
		n.Failf("then_branch gives %d values, else_branch %d", results, len(elseGraph.Outputs))
	}
	attrs := graph.Attrs{"then_branch": thenGraph, "else_branch": elseGraph}
	operands := n.operandsOf(thenBranch.importer.captured, elseBranch.importer.captured)
	takesThen, dependsOnSizes := n.sizeOnlyCondition(cond)
	var out []*Value
	if dependsOnSizes {
		attrs["condition"] = takesThen.String()
		out = n.emitN("if_sizes", results, attrs, operands...)
	} else {
		out = n.emitN("if", results, attrs, append([]any{cond}, operands...)...)
	}
	// A branch that raises an error has no results.
	hasFailed := func(b *branch) bool { return b.err != nil }
	branches := slices.DeleteFunc([]*branch{thenBranch, elseBranch}, hasFailed)
	for i, result := range out {
		first := branches[0]
		result.outline, result.hasStrings = first.outline(i), first.out[i].hasStrings
		if len(branches) == 2 {
			result.outline = result.outline.Join(elseBranch.outline(i))
			if elseBranch.out[i].hasStrings != result.hasStrings {
				n.Failf("result %d has strings in only one branch", i)
			}
		}
		if dependsOnSizes && result.outline.Sizes != nil {
			n.shapes[result.graphValue] = ifShape(takesThen, branches, i)
		}
		if first.out[i].kind == mapsKind { // the matrix of the maps' values
			last := branches[len(branches)-1].out[i]
			if last.kind != mapsKind || !slices.Equal(last.labels.Keys(), first.out[i].labels.Keys()) {
				n.Failf("result %d has maps with the same keys in only one branch", i)
			}
			out[i] = Maps(result, last.labels)
		}
	}
	return asSequences(out, sequences)
}

// finishBranches completes the graphs of the branches. A branch that could not be converted gets a graph that raises
// its error.
func (n *Node) finishBranches(thenBranch, elseBranch *branch) {
	thenBranch.convertPart(n, thenBranch.finish)
	elseBranch.convertPart(n, elseBranch.finish)
	switch {
	case thenBranch.err != nil && elseBranch.err != nil:
		n.Failf("neither branch can be run: then_branch: %w; else_branch: %w", thenBranch.err, elseBranch.err)
	case thenBranch.err != nil:
		n.raiseBranch(thenBranch, "then_branch", len(elseBranch.out))
	case elseBranch.err != nil:
		n.raiseBranch(elseBranch, "else_branch", len(thenBranch.out))
	}
}

// raiseBranch replaces the branch by a graph that raises the branch's error. name is the attribute of the branch.
func (n *Node) raiseBranch(b *branch, name string, results int) {
	err := b.err
	b.nestedGraph = n.nestedGraph(name, n.hints)
	message := fmt.Sprintf("%s of %s cannot be run: %v", name, n.title(), err)
	for i, v := range b.importer.graph.ApplyN("raise", results, graph.Attrs{"message": message, "results": results}) {
		b.importer.graph.Output(fmt.Sprintf("none.%d", i), v)
	}
	if err := b.importer.graph.Err(); err != nil {
		n.Failf("%w", err)
	}
}

// ifShape returns the symbolic shape of result i of an If whose condition depends on sizes. branches are the branches
// that have results.
func ifShape(takesThen sym.Bool, branches []*branch, i int) []sym.Int {
	firstShape := branches[0].importer.TrySymShape(branches[0].out[i])
	if len(branches) == 1 { // then or else
		return firstShape
	}
	elseShape := branches[1].importer.TrySymShape(branches[1].out[i])
	shape := make([]sym.Int, len(firstShape))
	for k := range shape {
		shape[k] = sym.Where(takesThen, firstShape[k], elseShape[k])
	}
	return shape
}

// outline returns the known dtype and sizes of result i.
func (nested *nestedGraph) outline(i int) graph.PartialType {
	return (&Node{importer: nested.importer}).outlineOf(nested.out[i])
}
