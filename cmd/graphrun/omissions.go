package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// runWork is a graph, bound and inferred, and values for its inputs.
type runWork struct {
	whole   *graph.Graph // as it is in the file
	graph   *graph.Graph // without what was refused before the run
	in      map[string]*tensor.Tensor
	refused graph.Errors // what was left out of the whole
}

// omissions are what a run that keeps going has left out.
type omissions struct{ exec.Incomplete }

func (o omissions) any() bool { return len(o.Failed) > 0 }

// omitted takes what was left out from the error of a run, and adds what was refused before
// it. Another error comes back.
func (w runWork) omitted(out map[string]*tensor.Tensor, err error) (omissions, error) {
	failed := slices.Clone(w.refused)
	var part *exec.Incomplete
	if errors.As(err, &part) {
		failed = append(failed, part.Failed...)
	} else if err != nil {
		return omissions{}, err
	}
	all := exec.Without(w.whole, failed, func(name string) bool { return out[name] != nil })
	if !errors.As(all, &part) {
		return omissions{}, nil
	}
	return omissions{*part}, nil
}

// report names every node that failed with its reason, and every output that is not there.
func (o omissions) report(w io.Writer) {
	for _, e := range o.Failed {
		report(w, e)
	}
	for _, l := range o.LeftOut {
		fmt.Fprintf(w, "graphrun: %v\n", l)
	}
}

type leftOutDoc struct {
	Output string `json:"output"`
	Node   string `json:"node,omitempty"`
}

// fields adds the failures, as infer lists them, and the outputs that are missing.
func (o omissions) fields(d *document) {
	d.items("errors", len(o.Failed), func(i int) { d.w.Write(bytes.TrimSpace(appendError(nil, o.Failed[i]))) })
	d.list("left_out", len(o.LeftOut), func(i int) any { return leftOutDoc{o.LeftOut[i].Output, o.LeftOut[i].Node} })
}
