package infer

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/inspect"
	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/tensor"
)

// expectation is a file that scripts/from_torch.py writes beside a graph file: what PyTorch's values are.
type expectation struct {
	Version int             `json:"version"`
	Torch   string          `json:"torch"` // the version of PyTorch
	Values  []expectedValue `json:"values"`
}

// expectedValue is a value of the graph as PyTorch has it. The fields mean what those of ValueDoc mean.
type expectedValue struct {
	Name    string  `json:"name"`
	Aten    string  `json:"aten"` // the overload that made it; informative
	DType   string  `json:"dtype"`
	Shape   []int   `json:"shape"`
	Strides []int   `json:"strides"`
	Offset  int     `json:"offset"`
	AliasOf *string `json:"alias_of"`
}

// readExpectation reads the file at path, and checks that it is about the graph.
func readExpectation(path string, g *graph.Graph) (*expectation, error) {
	f, _, err := files.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	e := new(expectation)
	if err := files.DecodeJSON(text, e); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if e.Version != 1 {
		return nil, fmt.Errorf("%s: version %d: want 1", path, e.Version)
	}
	if len(e.Values) == 0 {
		return nil, fmt.Errorf("%s: values: the list is empty", path)
	}
	seen := map[string]bool{}
	for i := range e.Values {
		want := &e.Values[i]
		if err := want.check(g); err != nil {
			return nil, fmt.Errorf("%s: values[%d]: %w", path, i, err)
		}
		if seen[want.Name] {
			return nil, fmt.Errorf("%s: values[%d]: there are two values %q", path, i, want.Name)
		}
		seen[want.Name] = true
	}
	return e, nil
}

// check reports a mistake in the description of a value.
func (want *expectedValue) check(g *graph.Graph) error {
	_, err := tensor.ParseDType(want.DType)
	switch {
	case g.Value(want.Name) == nil:
		return fmt.Errorf("the graph has no value %q", want.Name)
	case err != nil:
		return fmt.Errorf("%q: %w", want.Name, err)
	case want.Shape == nil || want.Strides == nil:
		return fmt.Errorf("%q: shape and strides are required", want.Name)
	case len(want.Shape) != len(want.Strides):
		return fmt.Errorf("%q: %d sizes and %d strides", want.Name, len(want.Shape), len(want.Strides))
	}
	return nil
}

// difference describes how a value differs from PyTorch's. It is nil if the two are equal.
func (want *expectedValue) difference(v *graph.Value) error {
	differs := func(what string, ours, theirs any) error {
		return fmt.Errorf("%s %v, in PyTorch %v", what, ours, theirs)
	}
	alias, wantAlias := "none", "none"
	if v.Alias != nil {
		alias = fmt.Sprintf("%q", v.Alias.Name)
	}
	if want.AliasOf != nil {
		wantAlias = fmt.Sprintf("%q", *want.AliasOf)
	}
	switch m := v.Meta; {
	case m.DType.String() != want.DType:
		return differs("dtype", m.DType, want.DType)
	case !slices.Equal(m.Shape, want.Shape):
		return differs("shape", format.Ints(m.Shape), format.Ints(want.Shape))
	case !slices.Equal(m.Strides, want.Strides):
		return differs("shape "+format.Ints(m.Shape)+", strides", format.Ints(m.Strides), format.Ints(want.Strides))
	case m.Offset != want.Offset:
		return differs("offset", m.Offset, want.Offset)
	case alias != wantAlias:
		return differs("shares storage with", alias, wantAlias)
	}
	return nil
}

// compare compares the values of an inferred graph with those of the file at path, and prints how many are equal. The
// error is that of the first value that differs, in the order in which the graph computes them.
func compare(cmd *cobra.Command, g *graph.Graph, path string) error {
	e, err := readExpectation(path, g)
	if err != nil {
		return exit.UsageError(err)
	}
	byName := make(map[string]*expectedValue, len(e.Values))
	for i := range e.Values {
		byName[e.Values[i].Name] = &e.Values[i]
	}
	var first error
	var equal, dynamic, unlisted int
	g.Values(func(v *graph.Value) {
		want := byName[v.Name]
		switch {
		case want == nil:
			unlisted++
		case v.Dynamic:
			dynamic++
		default:
			err := want.difference(v)
			if err == nil {
				equal++
			} else if first == nil {
				first = located(g, v, err)
			}
		}
	})
	fmt.Fprintf(cmd.OutOrStdout(), "%s of %s values as PyTorch\n", thousands(equal), thousands(len(e.Values)-dynamic))
	if dynamic > 0 {
		term.PrintNote(cmd, "not compared, because the shape depends on data: %s", format.Count(dynamic, "value"))
	}
	if unlisted > 0 {
		term.PrintNote(cmd, "not in %s: %s of the graph", path, format.Count(unlisted, "value"))
	}
	if first != nil {
		return exit.Failed(first)
	}
	return nil
}

// located returns the error of a value, with the place of its node and the rule that decided its layout.
func located(g *graph.Graph, v *graph.Value, err error) error {
	if layout, unknown := inspect.ExplainLayout(g, v.Name); unknown == nil {
		err = fmt.Errorf("%w\nby the rule %q: %s", err, layout.Rule, layout.Why)
	}
	if v.Node == nil {
		return fmt.Errorf("%s %q: %w", v.Kind(), v.Name, err)
	}
	if len(v.Node.Out) > 1 {
		err = fmt.Errorf("value %q: %w", v.Name, err)
	}
	return g.NodeError(v.Node, err)
}

// thousands spells a number with commas: 1,243.
func thousands(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
