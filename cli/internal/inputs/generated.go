package inputs

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Set has the inputs of a run, and their origin.
type Set struct {
	Values     map[string]*tensor.Tensor
	Generated  []*graph.Value // inputs without an array
	Seed       uint64
	unusedNote string // the note about unused arrays of the archive; empty if all are used
}

// generatedIntegers are the values of generated integer inputs, unless they are indices into fewer elements.
var generatedIntegers = []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}

func newSet(seed uint64) *Set {
	return &Set{Values: map[string]*tensor.Tensor{}, Seed: seed}
}

// integersFor returns the integers that each generated input of an inferred graph may hold. If the graph accepts none
// of the usual integers, the usual integers are used nevertheless, and the run reports the error.
func integersFor(g *graph.Graph) func(*graph.Value) []int64 {
	admitted := g.Admitted(generatedIntegers)
	return func(v *graph.Value) []int64 {
		if some := admitted[v]; len(some) > 0 {
			return some
		}
		return generatedIntegers
	}
}

// Print prints the notes about the inputs.
func (in *Set) Print(cmd *cobra.Command) {
	for _, text := range in.Notes() {
		term.Note(cmd, "%s", text)
	}
}

// Notes lists the generated inputs and the unused arrays.
func (in *Set) Notes() (list []string) {
	if in.unusedNote != "" {
		list = append(list, in.unusedNote)
	}
	if len(in.Generated) > 0 {
		list = append(list, fmt.Sprintf("generated from seed %d: %s", in.Seed, in.names()))
	}
	return list
}

// names lists the first generated inputs, and the number of the remaining inputs.
func (in *Set) names() string {
	const most = 6
	var names []string
	for _, v := range in.Generated {
		names = append(names, v.Name)
	}
	what := "input "
	if len(names) > 1 {
		what = "inputs "
	}
	if n := len(names) - most; n > 0 {
		return fmt.Sprintf("%s%s and %d more", what, strings.Join(names[:most], ", "), n)
	}
	return what + strings.Join(names, ", ")
}

// Blame adds to the error of a run that generated values may be the cause.
func (in *Set) Blame(err error) error {
	var e *exit.Error
	if err == nil || len(in.Generated) == 0 || errors.As(err, &e) {
		return err
	}
	return fmt.Errorf("%w\nThe values of %s were generated (integers from 0 to 9, real numbers from -1 to 1): "+
		"pass other values with --inputs.", err, in.names())
}
