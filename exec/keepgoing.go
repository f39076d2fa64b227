package exec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
)

// This file implements [Options.KeepGoing]: a run continues after failed steps ([stepFailures]). The outputs that
// depend on these steps are missing. For example, if b fails in the graph
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
	if !failures.anyFailed.Load() {
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
		computed[i] = root.Node == nil || !lostNodes[root.Node]
	}
	return computed
}

// runError returns the error of a run with lost steps, or nil if no step was lost.
func (failures *stepFailures) runError(computed []bool) error {
	isComputed := map[string]bool{}
	for i, output := range failures.program.outputs {
		isComputed[output.Name] = computed == nil || computed[i]
	}
	return IncompleteError(failures.program.graph, failures.failed, func(name string) bool { return isComputed[name] })
}
