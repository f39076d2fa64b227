package exec

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/tensor"
)

// This file implements [Options.KeepGoing]. Compilation omits nodes that fail or do not fit into memory
// ([compileWithOmissions]), and a run continues after failed steps ([stepFailures]). The outputs that depend on these
// nodes and steps are missing. For example, if b fails in the graph
//
//	a = relu(x)    b = exp(a)    c = neg(b)    outputs a, c
//
// the run returns a, and an [*Incomplete] with the error of b and the missing output c.

// Incomplete is the error of a run that omitted nodes. All outputs except MissingOutputs were computed.
type Incomplete struct {
	Failed graph.Errors // errors of nodes and outputs, without nodes that only depend on failed nodes
	// MissingOutputs are the outputs that depend on failed nodes, in graph order, and then the outputs that the reader
	// of the file could not build.
	MissingOutputs []MissingOutput
}

// MissingOutput is an output that was not computed, and the failed node that the output depends on. Node is empty if
// the failed node is not in the graph.
type MissingOutput struct{ Output, Node string }

// String returns the reason in one line.
func (o MissingOutput) String() string {
	if o.Node == "" || o.Node == o.Output {
		return fmt.Sprintf("output %q is left out", o.Output)
	}
	return fmt.Sprintf("output %q is left out: it depends on node %q", o.Output, o.Node)
}

// Error lists the failures and the missing outputs, one per line.
func (e *Incomplete) Error() string {
	var lines []string
	for _, failure := range e.Failed {
		lines = append(lines, failure.Error())
	}
	for _, missing := range e.MissingOutputs {
		lines = append(lines, missing.String())
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the failures.
func (e *Incomplete) Unwrap() []error { return e.Failed.Unwrap() }

// IncompleteError returns the error of a run that omitted the failed nodes: an [*Incomplete], or nil if no node failed.
// isComputed reports whether an output was computed. If isComputed is nil, no output was computed.
func IncompleteError(g *graph.Graph, failed graph.Errors, isComputed func(output string) bool) error {
	failed = slices.DeleteFunc(slices.Clone(failed), func(failure *graph.Error) bool { return failure == nil })
	if len(failed) == 0 || g == nil {
		return nil
	}
	sorted.Func(failed, func(first, second *graph.Error) int {
		return cmp.Or(cmp.Compare(first.Line, second.Line), cmp.Compare(first.Col, second.Col))
	})
	cause := missingCauses(g, failed)
	incomplete := &Incomplete{Failed: failed}
	isOutput := map[string]bool{}
	for _, graphOutput := range g.Outputs {
		isOutput[graphOutput.Name] = true
		if isComputed == nil || !isComputed(graphOutput.Name) {
			missing := MissingOutput{graphOutput.Name, cause[graphOutput.Value]}
			incomplete.MissingOutputs = append(incomplete.MissingOutputs, missing)
		}
	}
	for _, failure := range failed {
		if failure.Output != "" && !isOutput[failure.Output] {
			incomplete.MissingOutputs = append(incomplete.MissingOutputs, MissingOutput{Output: failure.Output})
		}
	}
	return incomplete
}

// missingCauses returns, for each missing value, the name of the failed node that it depends on.
func missingCauses(g *graph.Graph, failed graph.Errors) map[*graph.Value]string {
	hasError := map[string]bool{}
	for _, failure := range failed {
		hasError[failure.Node] = true
	}
	cause := map[*graph.Value]string{}
	for _, n := range g.Nodes {
		source := ""
		if hasError[n.Name] {
			source = n.Name
		}
		for _, arg := range n.In {
			source = cmp.Or(source, cause[arg.Value])
		}
		for _, v := range n.AttrRefs() {
			source = cmp.Or(source, cause[v])
		}
		if source != "" {
			for _, v := range n.Out {
				cause[v] = source
			}
		}
	}
	return cause
}

// compileWithOmissions compiles as much of the graph as fits into memory. It omits nodes in rounds, the nodes with the
// largest results first. Omitting a single node may not shrink the arena, because other values use the same memory. The
// maximum number of nodes that a round omits is therefore doubled: 1, 2, 4 and so on, but at least minOmissions. Within
// a round, binary search finds the smallest sufficient number.
func compileWithOmissions(g *graph.Graph, options Options) (*Program, error) {
	remaining, omissions := g, graph.Errors{} // the graph without the nodes omitted so far, and the reasons
	for maxOmissions := 1; ; maxOmissions *= 2 {
		program, err := compile(remaining, options)
		if err == nil {
			program.addMissingOutputs(g, omissions)
			return program, nil
		}
		var memoryErr *MemoryError
		if !errors.As(err, &memoryErr) {
			return nil, err
		}
		described := describeShortage(remaining, memoryErr)
		if described.minOmissions == 0 { // no node has results whose omission would help
			return nil, err
		}
		var reasons graph.Errors
		remaining, reasons = described.dropLargest(described.fewestOmissions(maxOmissions, options))
		omissions = append(omissions, reasons...)
	}
}

// shortage describes a graph that needs too much memory. For example, if 100 MB are left and nodes with results of 150,
// 60 and 50 MB need 260 MB, the excess is 160 MB. minOmissions is then 2: the node of 150 MB, which alone exceeds the
// limit, and the node of 60 MB, because 10 MB of the excess remain.
type shortage struct {
	graph *graph.Graph
	err   *MemoryError
	bytes map[*graph.Node]int // size of the results
	order []*graph.Node       // nodes with results, in descending order of size
	// minOmissions is a lower bound on the number of nodes to omit. It counts every node whose results alone exceed the
	// limit. It also counts the largest other nodes, until their total size reaches the excess over the limit.
	minOmissions int
}

// describeShortage describes why a graph does not fit into memory.
func describeShortage(g *graph.Graph, memoryErr *MemoryError) *shortage {
	s := &shortage{graph: g, err: memoryErr, bytes: map[*graph.Node]int{}}
	for _, n := range g.Nodes {
		for _, v := range n.Out {
			if resultBytes := storageBytes(v); v.Alias == nil && resultBytes > 0 {
				s.bytes[n] = sum(s.bytes[n], resultBytes)
			}
		}
	}
	s.order = slices.Collect(maps.Keys(s.bytes))
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

// fewestOmissions returns the smallest number of omissions with which the graph compiles, from minOmissions to
// maxOmissions. If no number suffices, it returns the greatest number in this range. The next round then omits more
// nodes.
func (s *shortage) fewestOmissions(maxOmissions int, options Options) int {
	maxAdditional := max(min(maxOmissions, len(s.order))-s.minOmissions, 0)
	suffices := func(additional int) bool {
		smaller, _ := s.dropLargest(s.minOmissions + additional)
		_, err := compile(smaller, options)
		return err == nil
	}
	return s.minOmissions + sort.Search(maxAdditional, suffices)
}

// dropLargest returns the graph without the count nodes that have the largest results, and the reason for each omitted
// node. A node that depends on another omitted node is omitted too, and has no reason, even if its own results are
// among the largest.
func (s *shortage) dropLargest(count int) (*graph.Graph, graph.Errors) {
	omitted := map[*graph.Node]*graph.Error{}
	for _, n := range s.order[:count] {
		omitted[n] = s.graph.NodeError(n, memoryErrorFor(s.bytes[n], s.err))
	}
	missing := map[*graph.Value]bool{}
	for _, n := range s.graph.Nodes {
		readsMissing := slices.ContainsFunc(n.In, func(arg graph.Arg) bool { return missing[arg.Value] })
		if readsMissing {
			delete(omitted, n)
		}
		if readsMissing || omitted[n] != nil {
			for _, v := range n.Out {
				missing[v] = true
			}
		}
	}
	reasons := make(graph.Errors, 0, len(omitted))
	for _, n := range s.order[:count] {
		if omitted[n] != nil {
			reasons = append(reasons, omitted[n])
		}
	}
	return s.graph.WithoutRejected(omitted), reasons
}

// memoryErrorFor returns the reason why a node with results of the given size is omitted. If the results alone would
// fit into memory, the error also states the total need of the run.
func memoryErrorFor(bytes int, memoryErr *MemoryError) error {
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

// Failed returns the errors of the nodes that were omitted at compilation.
func (p *Program) Failed() graph.Errors { return slices.Clone(p.failed) }

// addMissingOutputs adds missing outputs to the program: the outputs of the complete graph that the program does not
// compute. omissions has the errors of the nodes that were omitted before the program was compiled.
func (p *Program) addMissingOutputs(completeGraph *graph.Graph, omissions graph.Errors) {
	p.failed = append(omissions, p.failed...)
	if len(omissions) == 0 {
		return
	}
	outputByName := map[string]graph.Output{}
	for _, output := range p.outputs {
		outputByName[output.Name] = output
	}
	p.outputs = slices.Clone(completeGraph.Outputs)
	for i, output := range p.outputs {
		if computed, ok := outputByName[output.Name]; ok {
			p.outputs[i] = computed
		} else {
			p.omittedValues[output.Value] = true
		}
	}
	p.completeGraph = completeGraph
	p.outputPlan = planOutputs(p.outputs, p.omittedValues)
	p.findDirectOutputs()
}

// omitIfDependent reports whether a node reads an omitted value. If so, it omits the node's results.
func (p *Program) omitIfDependent(n *graph.Node) bool {
	for _, arg := range n.In {
		if arg.Kind == graph.TensorArg && p.omittedValues[arg.Value] {
			p.omitResults(n)
			return true
		}
	}
	return false
}

// omitResults adds the results of a node to omittedValues, and frees their storages.
func (p *Program) omitResults(n *graph.Node) {
	for _, v := range n.Out {
		p.omittedValues[v] = true
		if p.storageIndex.At(v) > 0 {
			storage := p.storageOf(v)          // v's own storage: with KeepGoing, no value is placed inside another
			p.storages[storage].kind = inArena // so that runs do not allocate the storage as an output
			p.storages[storage].bytes = 0
		}
	}
}

// findSourceSteps records for every step the steps that compute its operands.
func (p *Program) findSourceSteps() {
	stepOfNode := map[*graph.Node]int32{}
	p.sourceSteps = make([][]int32, len(p.steps))
	for i, step := range p.steps {
		for _, arg := range step.node.In {
			if arg.Kind != graph.TensorArg {
				continue
			}
			root := arg.Value.Root() // the value that owns the memory, if the operand is a view
			if source, ok := stepOfNode[root.Node]; ok && root.Node != nil {
				p.sourceSteps[i] = append(p.sourceSteps[i], source)
			}
		}
		stepOfNode[step.node] = int32(i)
	}
}

// stepFailures records the lost steps of a run: the steps that failed, and the steps that depend on these.
type stepFailures struct {
	program   *Program
	anyFailed atomic.Bool
	lostSteps []atomic.Bool // indexed by step

	mu     sync.Mutex // protects failed
	failed graph.Errors
}

// reset clears the failures of the previous run.
func (failures *stepFailures) reset() {
	if failures.anyFailed.Swap(false) {
		for i := range failures.lostSteps {
			failures.lostSteps[i].Store(false)
		}
	}
	failures.failed = nil
}

// add records the error of a failed step. Further errors of the same step are ignored.
func (failures *stepFailures) add(step int, err error) {
	failures.mu.Lock()
	defer failures.mu.Unlock()
	if !failures.lostSteps[step].Swap(true) {
		failures.failed = append(failures.failed, failures.program.graph.NodeError(failures.program.steps[step].node, err))
	}
	failures.anyFailed.Store(true)
}

// isLost reports whether a step has failed or depends on a failed step.
func (failures *stepFailures) isLost(step int) bool { return failures.lostSteps[step].Load() }

// markIfSourceLost marks a step as lost if it reads from a lost step, and reports whether it does. All steps that the
// step reads from must be finished.
func (failures *stepFailures) markIfSourceLost(step int) bool {
	if !failures.anyFailed.Load() {
		return false
	}
	for _, source := range failures.program.sourceSteps[step] {
		if failures.lostSteps[source].Load() {
			failures.lostSteps[step].Store(true)
			return true
		}
	}
	return false
}

// computedOutputs returns, for each output of the program, whether it was computed. It returns nil if all outputs were
// computed.
func (failures *stepFailures) computedOutputs() []bool {
	if len(failures.program.omittedValues) == 0 && !failures.anyFailed.Load() {
		return nil
	}
	lostNodes := map[*graph.Node]bool{}
	for i := range failures.lostSteps {
		if failures.lostSteps[i].Load() {
			lostNodes[failures.program.steps[i].node] = true
		}
	}
	computed := make([]bool, len(failures.program.outputs))
	for i, output := range failures.program.outputs {
		root := output.Value.Root()
		computed[i] = !failures.program.omittedValues[output.Value] && !failures.program.omittedValues[root] &&
			(root.Node == nil || !lostNodes[root.Node])
	}
	return computed
}

// runError returns the error of a run with lost steps, or nil if no step was lost.
func (failures *stepFailures) runError(computed []bool) error {
	isComputed := map[string]bool{}
	for i, output := range failures.program.outputs {
		isComputed[output.Name] = computed == nil || computed[i]
	}
	g := failures.program.completeGraph
	if g == nil {
		g = failures.program.graph
	}
	return IncompleteError(g, append(slices.Clone(failures.program.failed), failures.failed...),
		func(name string) bool { return isComputed[name] })
}
