package inputs

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graph/indices"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/tensor"
)

// Set has the input tensors of a run, by the name of the input.
type Set struct {
	Values     map[string]*tensor.Tensor
	Generated  []*graph.Value // the inputs with generated values
	Seed       uint64         // the seed of generated values
	unusedNote string         // the note about unused arrays of the archive; empty if all are used
}

// generatedIntegers are the values of generated integer inputs. Inputs that are indices get only valid indices.
var generatedIntegers = []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}

func newSet(seed uint64) *Set {
	return &Set{Values: map[string]*tensor.Tensor{}, Seed: seed}
}

// integersFor returns a function that maps a generated input to its possible integers. These are generatedIntegers or,
// if the input is an index, the elements of generatedIntegers that are valid indices. For an input of strings, the
// integers must also be codes of listed strings, if the model lists any: see [generateTexts]. If no element is valid,
// the function returns all of generatedIntegers, and the run will probably fail.
func integersFor(g *graph.Graph) func(*graph.Value) []int64 {
	valid := indices.Valid(g, generatedIntegers)
	return func(v *graph.Value) []int64 {
		list := valid[v]
		if len(list) == 0 {
			list = generatedIntegers
		}
		if labels := g.Labels[v.Name]; labels.IsText() && len(labels.Texts.List()) > 0 { // codes of listed strings
			count := len(labels.Texts.List())
			list = slices.DeleteFunc(slices.Clone(list), func(code int64) bool { return code >= int64(count) })
		}
		if len(list) == 0 {
			return generatedIntegers
		}
		return list
	}
}

// Print prints the notes to stderr.
func (s *Set) Print(cmd *cobra.Command) {
	for _, text := range s.Notes() {
		term.PrintNote(cmd, "%s", text)
	}
}

// Notes returns notes about generated inputs and unused arrays.
func (s *Set) Notes() (list []string) {
	if s.unusedNote != "" {
		list = append(list, s.unusedNote)
	}
	if len(s.Generated) > 0 {
		list = append(list, fmt.Sprintf("generated from seed %d: %s", s.Seed, s.names()))
	}
	return list
}

// names lists the generated inputs: the names of the first maxListed, and the number of the others.
func (s *Set) names() string {
	const maxListed = 6
	var names []string
	for _, v := range s.Generated {
		names = append(names, v.Name)
	}
	noun := "input "
	if len(names) > 1 {
		noun = "inputs "
	}
	if n := len(names) - maxListed; n > 0 {
		return fmt.Sprintf("%s%s and %d more", noun, strings.Join(names[:maxListed], ", "), n)
	}
	return noun + strings.Join(names, ", ")
}

// HintAtGeneratedValues adds to the error of a run the hint that generated input values may be the cause.
func (s *Set) HintAtGeneratedValues(err error) error {
	var withExitCode *exit.Error // an error with an exit code is not an error of the run itself
	if err == nil || len(s.Generated) == 0 || errors.As(err, &withExitCode) {
		return err
	}
	return fmt.Errorf("%w\nThe values of %s were generated (integers from 0 to 9, real numbers from -1 to 1): "+
		"pass other values with --inputs.", err, s.names())
}

// NoteNaN prints a note if an output of generated inputs is NaN: a generated variance or divisor may be negative or 0.
func (s *Set) NoteNaN(cmd *cobra.Command, out map[string]*tensor.Tensor) {
	if len(s.Generated) == 0 {
		return
	}
	for _, name := range sorted.Keys(out) {
		t := out[name]
		if t == nil || !t.DType.IsFloat() || t.Numel() == 0 {
			continue
		}
		if _, _, mean := t.Stats(); math.IsNaN(mean) {
			term.PrintNote(cmd, "output %s has NaN: the generated real numbers are from -1 to 1, also where the model expects "+
				"a variance or a divisor; pass values with --inputs", format.Printable(name))
			return
		}
	}
}
