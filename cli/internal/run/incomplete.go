package run

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/inputs"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// runWork is a graph, bound and inferred, and values for its inputs.
type runWork struct {
	whole *graph.Graph // as it is in the file
	g     *graph.Graph // without what was refused before the run
	in    *inputs.Set
	left  incomplete
}

// incomplete are what a run that keeps going has left out.
type incomplete struct{ exec.Incomplete }

func (o incomplete) any() bool { return len(o.Failed) > 0 }

// lose takes what has turned out not to be had, and what depends on it, from the graph.
func (w *runWork) lose(given *inputs.Given) {
	if len(given.Lost) == 0 {
		return
	}
	lost := map[*graph.Value]error{}
	for _, v := range w.g.Inputs {
		if err := given.Lost[v.Name]; err != nil {
			lost[v] = err
		}
	}
	if len(lost) > 0 { // a model is read without them
		g, errs := w.g.DropValues(lost, given.Unknown...)
		w.g, w.left.Failed = g, append(w.left.Failed, errs...)
	}
	clear(given.Lost)
	given.Unknown = nil
}

// refuse infers the graph and takes what is refused from it.
func (w *runWork) refuse() {
	refused := w.g.InferAll()
	w.left.Failed = append(w.left.Failed, w.g.RootErrors(refused)...)
	w.g = w.g.Drop(refused)
}

// pinned leaves out the pins of what is left out.
func (w *runWork) pinned(pins []string) []string {
	if len(pins) == 0 || w.g == w.whole {
		return pins
	}
	there, all := names(w.g), names(w.whole)
	return slices.DeleteFunc(slices.Clone(pins), func(text string) bool {
		name := text[:max(strings.LastIndexByte(text, '='), 0)]
		return all[name] && !there[name]
	})
}

// names are what pins may name.
func names(g *graph.Graph) map[string]bool {
	all := map[string]bool{}
	g.Values(func(v *graph.Value) { all[v.Name] = true })
	for _, n := range g.Nodes {
		all[n.Name] = true
	}
	for _, o := range g.Outputs {
		all[o.Name] = true
	}
	return all
}

// omit takes what was left out from the error of a run, and adds what was refused before
// it. Another error comes back.
func (w *runWork) omit(out map[string]*tensor.Tensor, err error) error {
	failed := slices.Clone(w.left.Failed)
	var part *exec.Incomplete
	if errors.As(err, &part) {
		failed = append(failed, part.Failed...)
	} else if err != nil {
		return err
	}
	all := exec.Without(w.whole, failed, func(name string) bool { return out[name] != nil })
	if errors.As(all, &part) {
		w.left = incomplete{*part}
	}
	return nil
}

// report names every node of the file that failed with its reason, and every output that is not there.
func (o incomplete) printError(cmd *cobra.Command, path string) {
	for _, e := range o.Failed {
		term.PrintError(cmd, exit.InFile(path, e))
	}
	for _, l := range o.LeftOut {
		fmt.Fprintf(cmd.ErrOrStderr(), "graphrun: %v\n", l)
	}
}

type LeftOutDoc struct {
	Output string `json:"output" doc:"The output that is missing."`
	Node   string `json:"node,omitzero" doc:"The failed node that makes it or that it depends on."`
}

func (o incomplete) docs() []LeftOutDoc {
	list := make([]LeftOutDoc, len(o.LeftOut))
	for i, l := range o.LeftOut {
		list[i] = LeftOutDoc{l.Output, l.Node}
	}
	return list
}
