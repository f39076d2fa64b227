package inspect

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/tensor"
)

// StepCode lists the loops of a step. It lists only loops that are compiled from expressions.
type StepCode struct {
	Step  string     `json:"step" doc:"The name of the step."`
	Ops   []string   `json:"ops" doc:"The nodes that it computes."`
	Why   string     `json:"why,omitzero" doc:"The reason why the step has no loops that are compiled from expressions; omitted if loops is not empty."`
	Loops []LoopCode `json:"loops" doc:"The loops, in the order of execution."`
}

// LoopCode is the expression of a loop over rows, and the code that was generated for it.
type LoopCode struct {
	Name       string   `json:"name,omitzero" doc:"The name of the loop, if the step has several."`
	Expression string   `json:"expression" doc:"The computation of one element, one value per line."`
	Results    []Access `json:"results" doc:"The results that it writes."`
	Operands   []Access `json:"operands" doc:"The operands that it reads."`
	Folds      []string `json:"folds,omitzero" doc:"The reductions over a row, such as \"add of v1\"."`
	Assembly   string   `json:"assembly,omitzero" doc:"The machine code, in the syntax of Go's assembler."`
	Why        string   `json:"why,omitzero" doc:"The reason why the loop runs in Go; omitted if there is machine code."`
}

// Access is the way in which a loop accesses an operand along a row: contiguous; broadcast (all elements of the row use
// one element); or staged (first copied to a block, which is a small buffer of the worker). The tag `of` is for JSON
// Schemas. It names the list of a field's possible values: of:"access" means Accesses.
type Access struct {
	DType  string `json:"dtype" of:"dtype" doc:"The dtype of the operand in memory."`
	Access string `json:"access" of:"access" doc:"How elements of a row are accessed."`
}

// Accesses lists the values of [Access.Access].
func Accesses() []string { return []string{accessContiguous, accessBroadcast, accessStaged} }

const (
	accessContiguous = "contiguous"
	accessBroadcast  = "broadcast"
	accessStaged     = "staged"
)

// Code returns the code of the step with the given name, or with a node of that name. If shapes depend on data, it
// searches only the part of the graph that is compiled before a run. It fails if there is no such step.
func Code(p *graphrun.Program, step string) (*StepCode, error) {
	first := (*program.Program)(p).FirstBinding()
	if first == nil || first.Program == nil {
		return nil, errors.New("the program has no steps before a run, because the shapes of all its nodes depend on data")
	}
	found, err := findStep(first.Program.Steps(), step)
	if err != nil {
		return nil, err
	}
	code := &StepCode{Step: found.Name, Ops: program.NotNil(found.Ops), Loops: []LoopCode{}}
	if found.Code != nil {
		code.Loops = mapSlice(found.Code(), loopCodeOf)
	}
	switch {
	case len(code.Loops) > 0: // no reason is needed
	case found.Loop != nil: // the step iterates over elements, but has no compiled loops
		code.Why = "the op has no expression: a Go function computes its elements"
	default:
		code.Why = "the kernel of the step has no expression: it is written in Go, or only copies elements"
	}
	return code, nil
}

// findStep returns the step with a name or, if there is none, the step that computes the node with this name.
func findStep(steps []exec.Step, name string) (*exec.Step, error) {
	i := slices.IndexFunc(steps, func(step exec.Step) bool { return step.Name == name })
	if i < 0 {
		i = slices.IndexFunc(steps, func(step exec.Step) bool { return slices.Contains(step.Ops, name) })
	}
	if i >= 0 {
		return &steps[i], nil
	}
	names := func(yield func(string) bool) {
		for _, step := range steps {
			if !yield(step.Name) {
				return
			}
		}
	}
	return nil, fmt.Errorf("there is no step %q%s", name, suggest.ForUnknown(name, "steps", names))
}

// loopCodeOf returns the expression of a loop, the accesses of its results and operands, and its machine code.
func loopCodeOf(listing expr.Listing) LoopCode {
	loop := LoopCode{Name: listing.Name, Results: []Access{}, Operands: []Access{}, Why: listing.Why}
	if listing.Assembly != nil {
		loop.Assembly = listing.Assembly()
	}
	if listing.Loop == nil {
		return loop
	}
	code := listing.Loop.Code
	loop.Expression = code.String()
	for i, o := range code.Out {
		if o.DType != tensor.Invalid { // otherwise the output is folded over the row and not stored
			const isScalar = false
			loop.Results = append(loop.Results, accessOf(&listing, o.DType, i, isScalar))
		}
	}
	for i, dtype := range code.In {
		loop.Operands = append(loop.Operands, accessOf(&listing, dtype, len(code.Out)+i, listing.Loop.Uniform[i]))
	}
	for _, f := range listing.Loop.Folds {
		loop.Folds = append(loop.Folds, fmt.Sprintf("%v of v%d", f.Op, f.Value))
	}
	return loop
}

// accessOf returns the access to a result or an operand. index counts first the results and then the operands. isScalar
// means that the result or operand has one element for the whole row.
func accessOf(listing *expr.Listing, dtype tensor.DType, index int, isScalar bool) Access {
	access := accessContiguous
	switch {
	case isScalar:
		access = accessBroadcast
	case index < len(listing.Staged) && listing.Staged[index]:
		access = accessStaged
	}
	return Access{DType: dtype.String(), Access: access}
}
