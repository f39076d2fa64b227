package graphrun

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/words"
	"github.com/graphrun/graphrun/tensor"
)

// CodeReport is what a step of a program runs: its loops of expressions.
type CodeReport struct {
	Step  string     `json:"step" doc:"The name of the step."`
	Ops   []string   `json:"ops" doc:"The nodes that it computes."`
	Why   string     `json:"why,omitzero" doc:"Why it has no loops of expressions."`
	Loops []LoopCode `json:"loops" doc:"Its loops of expressions, in the order in which they run."`
}

// LoopCode is a loop of an expression over rows, and what was generated for it.
type LoopCode struct {
	Name       string         `json:"name,omitzero" doc:"Which of several loops it is."`
	Expression string         `json:"expression" doc:"What is done to one element: a value a line."`
	Results    []AccessReport `json:"results" doc:"What it writes."`
	Operands   []AccessReport `json:"operands" doc:"What it reads."`
	Folds      []string       `json:"folds,omitzero" doc:"What it folds over a row, as add of v1."`
	Assembly   string         `json:"assembly,omitzero" doc:"The machine code, in the syntax of Go's assembler."`
	Why        string         `json:"why,omitzero" doc:"Why it runs in Go instead."`
}

// AccessReport is how a loop reads or writes an operand: contiguous, one element behind the other where it lies;
// broadcast, one element for all of a row; staged, in a block of the worker's memory that is copied there, or from
// there.
type AccessReport struct {
	DType  string `json:"dtype" of:"dtype" doc:"Its dtype in memory."`
	Access string `json:"access" of:"access" doc:"How its elements lie in a row."`
}

// Code tells what was generated for a step, which is named by itself or by one of the nodes that it computes. Where
// shapes depend on data, steps are those of the segment that is planned ahead. The error is that there is no such step.
func (p *Program) Code(step string) (*CodeReport, error) {
	if p == nil || p.first == nil || p.first.ahead == nil {
		return nil, errors.New("there is no step: nothing is planned ahead")
	}
	steps := p.first.ahead.Steps()
	i := slices.IndexFunc(steps, func(s exec.Step) bool { return s.Name == step })
	if i < 0 {
		i = slices.IndexFunc(steps, func(s exec.Step) bool { return slices.Contains(s.Ops, step) })
	}
	if i < 0 {
		near := words.Nearest(step, func(yield func(string) bool) {
			for _, s := range steps {
				if !yield(s.Name) {
					return
				}
			}
		})
		return nil, fmt.Errorf("there is no step %q%s", step, words.DidYouMean(near))
	}
	s := steps[i]
	r := &CodeReport{Step: s.Name, Ops: filled(s.Ops), Loops: []LoopCode{}}
	if s.Code != nil {
		r.Loops = mapped(s.Code(), loopCodeOf)
	}
	switch {
	case len(r.Loops) > 0:
	case s.Loop != nil:
		r.Why = "the op computes an element by a function in Go: it is stated by no expression"
	default:
		r.Why = "its kernel is written in Go, or a copy: it is no loop of an expression"
	}
	return r, nil
}

func loopCodeOf(l expr.Listing) LoopCode {
	r := LoopCode{Name: l.Name, Results: []AccessReport{}, Operands: []AccessReport{}, Assembly: l.Assembly, Why: l.Why}
	if l.Loop == nil {
		return r
	}
	c := l.Loop.Code
	r.Expression = c.String()
	access := func(d tensor.DType, at int, one bool) AccessReport {
		a := AccessReport{d.String(), "contiguous"}
		switch {
		case one:
			a.Access = "broadcast"
		case at < len(l.Staged) && l.Staged[at]:
			a.Access = "staged"
		}
		return a
	}
	for i, o := range c.Out {
		if o.DType != tensor.Invalid {
			r.Results = append(r.Results, access(o.DType, i, false))
		}
	}
	for i, d := range c.In {
		r.Operands = append(r.Operands, access(d, len(c.Out)+i, l.Loop.Scalar[i]))
	}
	for _, f := range l.Loop.Folds {
		r.Folds = append(r.Folds, fmt.Sprintf("%v of v%d", f.Op, f.V))
	}
	return r
}
