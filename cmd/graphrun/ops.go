package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
)

func opsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ops [NAME]",
		Short: "List the ops, or show the page of one",
		Long: `Lists the ops with their operands and attributes, or shows what one of them takes and gives.
Names, operands, attributes and defaults are those of PyTorch's aten.

dtypes are those of the operand that serves the most: int stands for uint8 and int8 to int64,
uint for uint16 to uint64, half for float16 and bfloat16, float for float32 and float64, complex
for both complex ones. The page of an op has those of every operand.

The kind tells how an op stands to layouts: follows (pointwise: PyTorch's permutation rule lays
the result out), view (maps strides, shares storage), requires (serves some layouts only), own
(takes any layout, the result has one of its own).`,
		Example: `  graphrun ops
  graphrun ops conv2d`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return wrongf("ops wants one name at most, got %d", len(args))
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if len(args) == 0 {
				for _, o := range kernels.All() {
					names = append(names, o.Name)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: action(func(cmd *cobra.Command, args []string) error {
			out := bufio.NewWriter(cmd.OutOrStdout())
			if len(args) == 0 {
				listOps(out)
				return out.Flush()
			}
			op := kernels.Lookup(args[0])
			if op == nil {
				return wrong(unknownOp(args[0]))
			}
			describeOp(out, op)
			return out.Flush()
		}),
	}
}

// unknownOp names the op that may have been meant.
func unknownOp(name string) error {
	if meant := graph.SuggestOp(name, kernels.Lookup); meant != "" {
		return graph.NoOp(name, kernels.Lookup)
	}
	return fmt.Errorf("there is no op %q; graphrun ops lists them", name)
}

func listOps(w io.Writer) {
	t := newTable("name", "kind", "dtypes", "takes", "does")
	for _, o := range kernels.All() {
		first, _, _ := strings.Cut(o.Doc, "\n")
		first, _, _ = strings.Cut(first, ". ")
		t.add(o.Name, o.Kind, servedBy(o).main(), shortened(signature(o), 72), strings.TrimSuffix(first, "."))
	}
	t.write(w)
}

// shortened cuts a signature that would widen the whole list; the page of the op has all of it.
func shortened(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:strings.LastIndex(s[:most-5], ", ")] + ", ...)"
}

// signature lists operands and attributes as a call would have them.
func signature(o *graph.Op) string {
	var parts []string
	for _, p := range o.Params {
		s := p.Name
		switch {
		case p.Variadic:
			s += "..."
		case p.Optional:
			s += "?"
		}
		parts = append(parts, s)
	}
	for _, f := range o.Schema.Fields {
		parts = append(parts, f.Name+"="+attrDefault(f))
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

func attrDefault(f graph.Field) string {
	switch {
	case f.Required:
		return "..."
	case f.Default == "":
		return `""`
	}
	return f.Default
}

func describeOp(w io.Writer, o *graph.Op) {
	dtypes := servedBy(o)
	fmt.Fprintf(w, "%s%s\n\n%s\n", o.Name, signature(o), wrapped(o.Doc, 88))
	fmt.Fprintf(w, "\nLayout: %s\n", layoutText(o.Kind))
	if len(o.Params) > 0 {
		fmt.Fprintln(w, "\nInputs")
		t := columns{}
		for i, p := range o.Params {
			t.add("  "+p.Name, paramText(p), dtypes.operand(i))
		}
		t.write(w)
	}
	if len(o.Schema.Fields) > 0 {
		fmt.Fprintln(w, "\nAttributes")
		t := columns{}
		for _, f := range o.Schema.Fields {
			t.add("  "+f.Name, f.Type, attrText(f), attrDoc(f, dtypes))
		}
		t.write(w)
	}
	switch {
	case o.Many:
		fmt.Fprintln(w, "\nOutputs: as many as attributes and shapes make; name them under \"outputs\".")
	case len(o.Outputs) > 1:
		fmt.Fprintf(w, "\nOutputs: %s; name them under \"outputs\".\n", strings.Join(o.Outputs, ", "))
	}
}

func layoutText(k graph.Kind) string {
	switch k {
	case graph.Follows:
		return "follows: the result is laid out by PyTorch's permutation rule"
	case graph.View:
		return "view: strides are mapped and storage is shared where possible"
	case graph.Requires:
		return "requires: serves some layouts, others are copied first"
	}
	return "own: takes any layout, the result has one of its own"
}

func paramText(p graph.Param) string {
	s := "tensor"
	switch {
	case p.Variadic:
		return "one or more tensors"
	case p.Number:
		s = "tensor or number"
	}
	if p.Optional {
		s += ", may be null or left out"
	}
	return s
}

func attrText(f graph.Field) string {
	s := "default " + attrDefault(f)
	if f.Required {
		s = "required"
	}
	if f.OneOf != nil {
		s += ", one of " + strings.Join(f.OneOf, " ")
	}
	return s
}

func attrDoc(f graph.Field, s served) string {
	if f.Name != "dtype" || s.attr == nil {
		return f.Doc
	}
	return strings.TrimSpace(f.Doc + " (" + s.attr.String() + ")")
}
