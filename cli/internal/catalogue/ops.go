// Package catalogue implements "graphrun ops". It lists ops, or prints the page of an op: its operands, attributes and
// dtypes.
package catalogue

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/document"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/graph"
)

// flags has the values of the flags; the help of [Command] explains them.
type flags struct {
	ext                *command.Extensions
	json, onnx         bool
	missing            bool
	kind, dtype, match string
}

// Command returns the command ops.
func Command(ext *command.Extensions) *cobra.Command {
	f := flags{ext: ext}
	cmd := &cobra.Command{
		Use:   "ops [NAME | PATTERN]...",
		Short: "List the ops, or show the pages of named ops",
		Long: `Lists the ops with their operands and attributes, or shows the pages of named ops. Names, operands,
attributes and defaults are as in PyTorch's aten.

A name with * ? or [a-z] is a pattern and lists the matching ops. --kind, --dtype and --search
restrict the list further. Quote patterns, or the shell expands them to files.

The column "dtypes" has the dtypes that operands accept; if operands differ, the longest list. It shortens them to
int (uint8, int8, int16, int32, int64), uint (uint16, uint32, uint64), half (float16, bfloat16), float
(float32, float64) and complex (complex64, complex128). The page of an op has the dtypes of every operand.

The kind is the layout rule of the op: follows (pointwise; PyTorch's permutation rule determines the
result's layout), view (computes new strides, shares the operand's storage), requires (reads some layouts
only), own (reads any layout; the op determines the layout of the result).

--onnx lists the operators of ONNX models instead. For each operator it shows the domain, the first
version of the operator set that has the operator, and the calls that are rejected.

--missing lists the names of PyTorch's operator suite (op_db of torch.testing) that no op has, with the
reasons. A name is not listed if an op has one of its aliases, or computes the same under another name.`,
		Example: `  graphrun ops
  graphrun ops conv2d max_pool2d
  graphrun ops 'conv*' '*_pool2d'
  graphrun ops --kind view
  graphrun ops --search 'batch norm' --dtype bfloat16
  graphrun ops --onnx 'QLinear*'
  graphrun ops --missing 'linalg.*'
  graphrun ops --json | jq -r '.ops[] | select(.results == null) | .name'`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return opNamesOf(ext.Ops()), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: exit.WithExitCode(func(cmd *cobra.Command, args []string) error { return f.show(cmd, args) }),
	}
	flagSet := cmd.Flags()
	flagSet.BoolVar(&f.json, "json", false, "print JSON")
	flagSet.BoolVar(&f.onnx, "onnx", false, "list the operators of ONNX models")
	flagSet.BoolVar(&f.missing, "missing", false, "list the names of PyTorch's operator suite that are missing")
	flagSet.StringVar(&f.kind, "kind", "", "only ops of a `KIND`: "+strings.Join(Kinds(), ", "))
	flagSet.StringVar(&f.dtype, "dtype", "", "only ops that support a `DTYPE`, or all dtypes of a group such as float")
	flagSet.StringVar(&f.match, "search", "", "only ops with these `WORDS` in their name or documentation")
	command.CompleteFrom(cmd, "kind", Kinds())
	command.CompleteFrom(cmd, "dtype", dtypeNames())
	return cmd
}

// show prints the list that the flags select.
func (f flags) show(cmd *cobra.Command, args []string) error {
	if f.missing {
		return f.showMissing(cmd, args)
	}
	if f.onnx {
		return f.showOperators(cmd, args)
	}
	list, showsPages, err := f.choose(args)
	if err != nil {
		return err
	}
	return showOps(cmd, list, showsPages, f.json)
}

// choose returns the ops that arguments and flags select, and whether to print their pages. Pages are printed if each
// argument is the name of an op.
func (f flags) choose(args []string) (list []*graph.Op, showsPages bool, err error) {
	if f.kind != "" && !slices.Contains(Kinds(), f.kind) {
		return nil, false, exit.UsageErrorf("--kind %s: %s", f.kind, format.WantOneOf(f.kind, Kinds()))
	}
	dtypes := dtypesNamed(f.dtype)
	if f.dtype != "" && dtypes == nil {
		return nil, false, exit.UsageErrorf("--dtype %s: %s", f.dtype, format.WantOneOf(f.dtype, dtypeNames()))
	}
	list, showsPages, err = f.selectOps(args)
	if err != nil {
		return nil, false, err
	}
	list = slices.DeleteFunc(list, func(op *graph.Op) bool {
		hasKind := f.kind == "" || op.Kind.String() == f.kind
		hasDTypes := dtypes == nil || dtypesOf(op).mostGeneral().hasAll(dtypes)
		return !hasKind || !mentions(op, f.match) || !hasDTypes
	})
	if len(list) == 0 {
		return nil, false, exit.UsageErrorf("no op matches; graphrun ops lists all of them")
	}
	return list, showsPages, nil
}

// selectOps returns the distinct ops that names and patterns select, or all ops if args is empty. areNames reports
// whether each argument is the name of an op.
func (f flags) selectOps(args []string) (list []*graph.Op, areNames bool, err error) {
	if len(args) == 0 {
		return slices.Clone(f.ext.Ops()), false, nil
	}
	areNames = true
	for _, arg := range args {
		var found []*graph.Op
		if strings.ContainsAny(arg, "*?[") {
			areNames = false
			if found, err = f.opsMatching(arg); err != nil {
				return nil, false, err
			}
		} else if op := f.ext.Lookup(arg); op != nil {
			found = []*graph.Op{op}
		} else {
			return nil, false, exit.UsageError(unknownOp(f.ext, arg))
		}
		for _, op := range found {
			if !slices.Contains(list, op) {
				list = append(list, op)
			}
		}
	}
	return list, areNames, nil
}

// opsMatching returns the ops whose names match a pattern of [path.Match].
func (f flags) opsMatching(pattern string) ([]*graph.Op, error) {
	var found []*graph.Op
	for _, op := range f.ext.Ops() {
		switch ok, err := path.Match(pattern, op.Name); {
		case err != nil:
			return nil, exit.UsageErrorf("the pattern %s is invalid: * matches any letters, ? one letter, and [a-z] one of "+
				"these letters", pattern)
		case ok:
			found = append(found, op)
		}
	}
	if found == nil {
		return nil, exit.UsageErrorf("no op matches %q; graphrun ops lists all of them", pattern)
	}
	return found, nil
}

// mentions reports whether the name or documentation of an op has all words.
func mentions(op *graph.Op, words string) bool {
	text := strings.ToLower(op.Name + " " + op.Doc)
	for _, w := range strings.Fields(strings.ToLower(words)) {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// Kinds returns the names of the layout rules of ops.
func Kinds() []string {
	var names []string
	for _, k := range []graph.Kind{graph.FollowsOperands, graph.View, graph.RequiresLayout, graph.OwnLayout} {
		names = append(names, k.String())
	}
	return names
}

// unknownOp returns the error for an unknown op, with a suggestion.
func unknownOp(ext *command.Extensions, name string) error {
	if graph.SuggestOp(name, ext.Lookup) != "" {
		return graph.UnknownOp(name, ext.Lookup)
	}
	// SuggestOp finds no similar name, but name may be the beginning of an op's name.
	if hint := format.DidYouMean(name, opNamesOf(ext.Ops())); hint != "" {
		return fmt.Errorf("there is no op %q%s", name, hint)
	}
	return fmt.Errorf("there is no op %q; graphrun ops lists them", name)
}

// opNamesOf returns the names of ops.
func opNamesOf(list []*graph.Op) []string {
	names := make([]string, len(list))
	for i, op := range list {
		names[i] = op.Name
	}
	return names
}

// showOps prints ops: as JSON, as pages, or as a table.
func showOps(cmd *cobra.Command, list []*graph.Op, showsPages, asJSON bool) error {
	out := bufio.NewWriter(cmd.OutOrStdout())
	switch {
	case asJSON:
		document.Write(out, &Document{document.StreamOf(list, docOf)})
	case showsPages:
		for i, op := range list {
			if i > 0 {
				fmt.Fprintln(out)
			}
			showOp(out, term.StdoutDisplay(cmd), op)
		}
	default:
		showTable(out, term.StdoutDisplay(cmd), list)
	}
	return out.Flush()
}

// showTable prints a table with a row for each op.
func showTable(w io.Writer, display term.Display, list []*graph.Op) {
	const maxSignature = 72 // in bytes
	// The numbers are the minimum widths of the columns, in characters.
	table := term.NewTable(term.NameCol("name"), term.UntruncatedCol("kind"), term.PhraseCol("dtypes", 10),
		term.PhraseCol("takes", 20).OmitIfNarrow(), term.PhraseCol("does", 30))
	for _, op := range list {
		sentence, _, _ := strings.Cut(op.Doc, "\n")
		sentence, _, _ = strings.Cut(sentence, ". ")
		table.Add(op.Name, op.Kind, dtypesOf(op).mostGeneral(), shortened(signature(op), maxSignature),
			strings.TrimSuffix(sentence, "."))
	}
	table.Write(w, display)
}

// shortened cuts a signature of more than maxBytes bytes between two arguments, so that the result has fewer than
// maxBytes bytes. If the first argument is too long, it returns the signature unchanged.
func shortened(text string, maxBytes int) string {
	if len(text) <= maxBytes {
		return text
	}
	const end = ", ...)"
	cut := strings.LastIndex(text[:maxBytes-len(end)+1], ", ")
	if cut < 0 {
		return text
	}
	return text[:cut] + end
}
