package run

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/inputs"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/tensor"
)

// runWork is a bound and inferred graph with its inputs.
type runWork struct {
	fileGraph  *graph.Graph // the graph of the file
	runGraph   *graph.Graph // the graph that runs: fileGraph without the nodes that were rejected before the run
	inputs     *inputs.Set
	incomplete incomplete
}

// incomplete has the failed nodes and the missing outputs of a run with --keep-going.
type incomplete struct{ exec.Incomplete }

// hasFailures reports whether a node has failed.
func (incomplete incomplete) hasFailures() bool { return len(incomplete.Failed) > 0 }

// dropInputs removes from the graph the inputs in given.Unavailable, and the nodes that depend on them. It clears the
// list, because dropInputs runs twice: before and after the arrays are read.
func (w *runWork) dropInputs(given *inputs.Arrays) {
	if len(given.Unavailable) == 0 {
		return
	}
	unavailable := map[*graph.Value]error{}
	for _, v := range w.runGraph.Inputs {
		if err := given.Unavailable[v.Name]; err != nil {
			unavailable[v] = err
		}
	}
	if len(unavailable) > 0 { // not for models, because their importer has already removed such inputs
		g, errs := w.runGraph.DropValues(unavailable, given.UnknownSymbols...)
		w.runGraph, w.incomplete.Failed = g, append(w.incomplete.Failed, errs...)
	}
	clear(given.Unavailable)
	given.UnknownSymbols = nil
}

// dropRejected infers the graph and removes the rejected nodes.
func (w *runWork) dropRejected() {
	rejected := w.runGraph.InferAll()
	w.incomplete.Failed = append(w.incomplete.Failed, w.runGraph.RootErrors(rejected)...)
	w.runGraph = w.runGraph.WithoutRejected(rejected)
}

// remainingPins returns pins, the values of --pin, without the pins of removed nodes and values.
func (w *runWork) remainingPins(pins []string) []string {
	if len(pins) == 0 || w.runGraph == w.fileGraph {
		return pins
	}
	remaining, originalNames := pinnableNames(w.runGraph), pinnableNames(w.fileGraph)
	return slices.DeleteFunc(slices.Clone(pins), func(text string) bool {
		name := text[:max(strings.LastIndexByte(text, '='), 0)] // text is NAME=PIN
		return originalNames[name] && !remaining[name]
	})
}

// pinnableNames returns the set of the names of nodes, values and outputs.
func pinnableNames(g *graph.Graph) map[string]bool {
	names := map[string]bool{}
	g.Values(func(v *graph.Value) { names[v.Name] = true })
	for _, n := range g.Nodes {
		names[n.Name] = true
	}
	for _, output := range g.Outputs {
		names[output.Name] = true
	}
	return names
}

// merge adds the failed nodes and missing outputs of a run to w.incomplete. err is the error of the run, and out has
// its outputs. It returns only errors that are no [exec.Incomplete].
func (w *runWork) merge(out map[string]*tensor.Tensor, err error) error {
	failed := slices.Clone(w.incomplete.Failed)
	var runFailures *exec.Incomplete
	if errors.As(err, &runFailures) {
		failed = append(failed, runFailures.Failed...)
	} else if err != nil {
		return err
	}
	err = exec.IncompleteError(w.fileGraph, failed, func(name string) bool { return out[name] != nil })
	var allFailures *exec.Incomplete
	if errors.As(err, &allFailures) {
		w.incomplete = incomplete{*allFailures}
	}
	return nil
}

// printError prints every failed node with its reason, and every missing output.
func (incomplete incomplete) printError(cmd *cobra.Command, path string) {
	for _, e := range incomplete.Failed {
		term.PrintError(cmd, program.WithFile(path, e))
	}
	for _, missing := range incomplete.MissingOutputs {
		fmt.Fprintf(cmd.ErrOrStderr(), "graphrun: %v\n", missing)
	}
}

// LeftOutDoc is an output that is missing in the results of a run.
type LeftOutDoc struct {
	Output string `json:"output" doc:"The missing output."`
	Node   string `json:"node,omitzero" doc:"The failed node on which the output depends."`
}

// docs returns the missing outputs as a part of the document.
func (incomplete incomplete) docs() []LeftOutDoc {
	list := make([]LeftOutDoc, len(incomplete.MissingOutputs))
	for i, missing := range incomplete.MissingOutputs {
		list[i] = LeftOutDoc{missing.Output, missing.Node}
	}
	return list
}
