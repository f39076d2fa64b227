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

// Set are the values that a graph runs on, and where they come from.
type Set struct {
	Values    map[string]*tensor.Tensor
	Generated []*graph.Value // those that no file gave
	Seed      uint64
	extra     string // arrays of the archive that no input takes, empty if there are none
}

// generatedIntegers are those that made-up integer inputs hold, unless they are indices of
// fewer places.
var generatedIntegers = []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}

func newSet(seed uint64) *Set {
	return &Set{Values: map[string]*tensor.Tensor{}, Seed: seed}
}

// integersFor returns the integers that each made-up input of an inferred graph may hold.
// Where none of the usual ones will do, they are made up all the same: it is not for the
// command to say that the graph cannot run.
func integersFor(g *graph.Graph) func(*graph.Value) []int64 {
	admitted := g.Admitted(generatedIntegers)
	return func(v *graph.Value) []int64 {
		if some := admitted[v]; len(some) > 0 {
			return some
		}
		return generatedIntegers
	}
}

// Print notes what should be known of the inputs.
func (in *Set) Print(cmd *cobra.Command) {
	for _, text := range in.Notes() {
		term.Note(cmd, "%s", text)
	}
}

// Notes tell which inputs were made up, and which arrays were not used.
func (in *Set) Notes() (list []string) {
	if in.extra != "" {
		list = append(list, in.extra)
	}
	if len(in.Generated) > 0 {
		list = append(list, fmt.Sprintf("made up from seed %d: %s", in.Seed, in.names()))
	}
	return list
}

// names lists the inputs that were made up, a few of many.
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

// Blame adds to the error of a run that values may be at fault that nobody gave.
func (in *Set) Blame(err error) error {
	var e *exit.Error
	if err == nil || len(in.Generated) == 0 || errors.As(err, &e) {
		return err
	}
	return fmt.Errorf("%w\nThe values of %s were made up (integers from 0 to 9, real numbers from -1 to 1): "+
		"give others with --inputs.", err, in.names())
}
