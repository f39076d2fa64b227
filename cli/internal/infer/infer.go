// Package infer implements "graphrun infer". It prints the inferred types, strides and aliases of values. Sizes that
// depend on symbols without a value are printed as expressions (symbolic.go).
package infer

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/document"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/progress"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/report"
)

// flags are the options of the command.
type flags struct {
	ext                      *command.Extensions
	json, keepGoing, classes bool
	dims                     []string
	expect                   string // a file of PyTorch's strides; "" means none
}

// Command returns the command infer.
func Command(ext *command.Extensions) *cobra.Command {
	f := flags{ext: ext}
	cmd := &cobra.Command{
		Use:   "infer FILE",
		Short: "Show the dtype, shape, strides and aliases of every value",
		Long: `Applies PyTorch's rules for dtypes, shapes and strides to the graph as written: no node is fused, moved or
dropped, and no data are read.

Flags are contiguous, channels_last, channels_last_3d and non_overlapping_and_dense. An alias is the
value whose storage a view shares.

Symbolic sizes without --dim stay symbols: sizes, strides and offsets are expressions, the listed flags
hold for all sizes, and conditions state when other flags hold. If inference depends on a condition on
sizes, it takes the outcome for the assumed sizes and prints the condition as a guard: the table holds for
all sizes that satisfy the guards. With --classes, inference follows both outcomes of each condition, for
up to 16 classes of sizes, and prints differing results as Where(condition, a, b). A note lists the symbols
for which a minimum of 2 in the file would remove guards.

If a shape depends on data, infer prints the dtype, and the sizes and strides that are known. u0, u1, ...
are sizes that only the run determines; different names may stand for equal sizes. "?" means unknown (in
JSON null, and "dynamic" is true). The graph then runs in segments, which graphrun plan shows; the last
column is the segment that computes a value.

--expect compares dtypes, shapes, strides, offsets and aliases with those that PyTorch gave the same module
(scripts/from_torch.py writes both files), prints how many values are equal, and fails with the first value
that differs and the rule that decided its layout. Strides of dimensions of size 1 must be equal, too.`,
		Example: `  graphrun infer examples/models/stride_rules.json
  graphrun infer model.json --json --keep-going
  graphrun infer model.json --dim N=16
  graphrun infer resnet18.json --expect resnet18.strides.json`,
		Args:              command.OneFile,
		ValidArgsFunction: command.CompleteGraph,
		RunE: exit.WithExitCode(func(cmd *cobra.Command, args []string) error {
			return run(cmd, args[0], f)
		}),
	}
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	cmd.Flags().BoolVar(&f.keepGoing, "keep-going", false, "list rejected nodes and unreadable constants as errors, "+
		"and infer the other nodes")
	cmd.Flags().BoolVar(&f.classes, "classes", false, "infer all classes of unknown sizes, if there are at most 16, "+
		"instead of the class of the assumed sizes")
	cmd.Flags().StringVar(&f.expect, "expect", "", "compare with the strides in this file, which "+
		"scripts/from_torch.py writes, and print no table")
	cmd.MarkFlagsMutuallyExclusive("expect", "json")
	cmd.MarkFlagsMutuallyExclusive("expect", "keep-going")
	cmd.MarkFlagsMutuallyExclusive("expect", "classes")
	command.DimFlag(cmd, &f.dims)
	return cmd
}

// inference is an inferred graph, with the mistakes and notes that are shown. A mistake is, for example, a node that
// inference rejects. Without --keep-going, a mistake is also the error of the command, and the graph is nil. With
// --keep-going, the graph is shown without the rejected nodes.
type inference struct {
	graph    *graph.Graph    // nil if the graph cannot be shown
	errs     []*graph.Error  // the mistakes in the file
	symbolic *graph.Symbolic // the types as expressions over symbols; may be nil: see SymbolicOf
	raised   *RaisedMinimums // nil if no guard can be removed
}

// run infers a graph, prints the document, and then the notes and the mistakes.
func run(cmd *cobra.Command, path string, f flags) error {
	var inferred inference
	job := progress.Begin(cmd, filepath.Base(path))
	defer job.End()
	err := job.Do(progress.Loading, func() error { return inferred.load(job.Context, path, f) })
	job.End() // removes the display of progress before the first note
	if interruptErr := exit.InterruptError(job.Context); interruptErr != nil {
		return interruptErr
	}
	if inferred.graph == nil && !f.json { // the JSON document has the mistakes of such a graph
		return err
	}
	if f.expect != "" {
		return compare(cmd, inferred.graph, f.expect)
	}
	printErr := job.Do(progress.Printing, func() error {
		out := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
		doc := documentOf(inferred.graph, inferred.symbolic, inferred.errs)
		doc.RaisedMinimums = inferred.raised
		if f.json {
			document.Write(out, doc)
		} else {
			writeInferTable(out, term.StdoutDisplay(cmd), doc)
		}
		return out.Flush()
	})
	if printErr != nil {
		return printErr
	}
	inferred.printNotes(cmd, path, f.json)
	if err == nil && len(inferred.errs) > 0 {
		return &exit.Error{Code: exit.CodeFailed}
	}
	return err
}

// printNotes prints notes about the graph. If the output is not JSON, it also prints the mistakes and the symbols whose
// minimums could be raised. A JSON document contains both.
func (inferred *inference) printNotes(cmd *cobra.Command, path string, json bool) {
	switch {
	case inferred.symbolic != nil:
		command.PrintWarnings(cmd, path, inferred.graph)
		if inferred.raised != nil && !json {
			term.PrintNote(cmd, "%v", inferred.raised)
		}
		if reason := inferred.symbolic.IncompleteReason; reason != nil {
			term.PrintNote(cmd, "the table holds for one class of sizes: %v", reason)
		}
	case inferred.graph != nil: // the table has no expressions, so PrintNotes also lists the assumed sizes
		command.PrintNotes(cmd, path, inferred.graph)
	}
	if json {
		return
	}
	for _, e := range inferred.errs {
		term.PrintError(cmd, program.WithFile(path, e))
	}
}

// load loads and infers a graph, first with the given and assumed sizes, then with symbols. If it fails or panics, the
// fields that are known so far are set.
func (inferred *inference) load(ctx context.Context, path string, f flags) (err error) {
	if inferred.graph, inferred.errs, err = inferGraph(ctx, path, f); err != nil {
		return err
	}
	if inferred.symbolic, err = SymbolicOf(inferred.graph, inferred.errs, f.classes); err != nil {
		return err
	}
	inferred.raised = raisedMinimumsOf(inferred.graph, inferred.symbolic, inferred.errs, f.classes)
	return nil
}

// inferGraph loads and infers the graph. It also returns the mistakes in the file, and an error if the graph cannot be
// shown; the graph is then nil. With --keep-going, the graph can be shown in spite of mistakes in nodes, in constants
// and in pins (layouts that the file demands for outputs).
func inferGraph(ctx context.Context, path string, f flags) (*graph.Graph, []*graph.Error, error) {
	g, skipped, err := f.ext.OpenGraph(ctx, path, f.dims, f.keepGoing)
	if err != nil {
		return nil, mistakes(err), err
	}
	if !f.keepGoing {
		if err := command.Infer(ctx, g); err != nil {
			return nil, mistakes(err), err
		}
		return g, nil, nil
	}
	g.SetContext(ctx)
	rejected := g.InferAll()
	g.SetContext(context.Background())
	errs := slices.Concat(skipped, sortedByPlace(rejected), g.PinErrors(rejected))
	sorted.Func(errs, compareByPlace) // merges the three lists; errors with the same place keep their order
	return g, errs, nil
}

// compareByPlace compares errors by their places in the file, for sorting.
func compareByPlace(a, b *graph.Error) int { return cmp.Or(a.Line-b.Line, a.Col-b.Col) }

// sortedByPlace lists the errors of rejected nodes, sorted by place and then by node, because maps have no order.
func sortedByPlace(rejected map[*graph.Node]*graph.Error) []*graph.Error {
	errs := make([]*graph.Error, 0, len(rejected))
	for _, e := range rejected {
		errs = append(errs, e)
	}
	sorted.Func(errs, func(a, b *graph.Error) int {
		return cmp.Or(compareByPlace(a, b), strings.Compare(a.Node, b.Node))
	})
	return errs
}

// mistakes returns the errors that an error of loading or inference combines.
func mistakes(err error) []*graph.Error {
	var multiple graph.Errors
	var single *graph.Error
	switch {
	case errors.As(err, &multiple):
		return multiple
	case errors.As(err, &single):
		return []*graph.Error{single}
	}
	return []*graph.Error{{Err: err}}
}

// Document is the output of infer.
type Document struct {
	Values         document.Stream[ValueDoc] `json:"values" doc:"The inputs, constants and outputs of nodes."`
	Errors         []report.Mistake          `json:"errors" doc:"The rejected nodes, and constants that cannot be read."`
	Guards         []GuardDoc                `json:"guards,omitzero" doc:"The document is valid for all sizes that satisfy these conditions."`
	RaisedMinimums *RaisedMinimums           `json:"fewer_guards,omitzero" doc:"Symbols whose minimum could be raised to remove guards."`
	report.Notes
	segments bool // whether shapes depend on data, so that the graph runs in segments
}

// ValueDoc describes a value. The tag `of` names the set of a field's strings for the JSON Schema.
type ValueDoc struct {
	Name       string              `json:"name" doc:"The name of the value."`
	Op         string              `json:"op" doc:"The op that computes the value, or input or constant."`
	DType      document.TextOrNull `json:"dtype" of:"dtype" doc:"The dtype; null if unknown."`
	Shape      report.Sizes        `json:"shape" doc:"The sizes; null if unknown."`
	Strides    report.Sizes        `json:"strides" doc:"The strides in elements; null if unknown."`
	Offset     *report.Size        `json:"offset" doc:"The offset in elements; null if unknown."`
	Flags      []string            `json:"flags" of:"flag" doc:"The layout flags that hold for all sizes."`
	AliasOf    document.TextOrNull `json:"alias_of" doc:"For a view, the value that is viewed; otherwise null."`
	Conditions map[string]string   `json:"conditions,omitzero" doc:"For other layout flags, the condition on sizes under which the flag holds."`
	Dynamic    bool                `json:"dynamic,omitzero" doc:"Whether the shape depends on data."`
	Segment    *int                `json:"segment,omitzero" doc:"The index of the first segment that computes the value; absent if no segment computes it."`
}

// ValueDocOf describes a value of an inferred graph. facts describes the values whose shapes depend on data.
func ValueDocOf(v *graph.Value, facts *program.PreRunFacts) ValueDoc {
	doc := ValueDoc{Name: v.Name, Op: v.Kind(), Shape: facts.Sizes(v), Dynamic: v.Dynamic}
	if t := facts.DType(v); t.Valid() {
		doc.DType = document.TextOrNull(t.String())
	}
	if i, ok := facts.Segment(v); ok {
		doc.Segment = &i
	}
	if v.Dynamic {
		return doc
	}
	doc.Strides, doc.Offset, doc.Flags = report.SizesOf(v.Type.Strides), &report.Size{N: v.Meta.Offset}, v.Meta.Flags()
	if v.Alias != nil {
		doc.AliasOf = document.TextOrNull(v.Alias.Name)
	}
	return doc
}

// documentOf returns the document of a graph. If symbolic is not nil, the document has its types. errs are the
// errors of rejected nodes and constants. If g is nil, the document has no values.
func documentOf(g *graph.Graph, symbolic *graph.Symbolic, errs []*graph.Error) *Document {
	values := func(yield func(*ValueDoc) bool) {
		facts := program.NewPreRunFacts(g)
		var doc ValueDoc
		wantsMore := true // the last result of yield; eachInferred cannot be stopped
		eachInferred(g, errs, func(v *graph.Value) {
			if !wantsMore {
				return
			}
			doc = ValueDocOf(v, facts)
			switch {
			case symbolic != nil:
				SetSymbolicType(&doc, symbolic, v)
			case v.Dynamic: // sizes that depend on data are u0, u1, ...
				SetSymbolicType(&doc, facts.Unbacked(), v)
			}
			wantsMore = yield(&doc)
		})
	}
	return &Document{Values: values, Errors: document.Mistakes(errs), Guards: GuardsOf(symbolic), Notes: g.Notes(),
		segments: g != nil && g.Dynamic()}
}

// eachInferred calls visit with every value whose type is known. errs are the errors of rejected nodes.
func eachInferred(g *graph.Graph, errs []*graph.Error, visit func(*graph.Value)) {
	if g == nil {
		return
	}
	rejected := make(map[string]bool, len(errs))
	for _, e := range errs {
		rejected[e.Node] = true
	}
	g.Values(func(v *graph.Value) {
		if v.Node == nil || !rejected[v.Node.Name] {
			visit(v)
		}
	})
}

// writeInferTable prints the values as a table, and the guards.
func writeInferTable(w io.Writer, display term.Display, doc *Document) {
	flags := term.PhraseCol("flags", 10) // at least 10 characters wide
	flags.Cut = term.CutFlags
	table := term.NewTable(term.NameCol("name"), term.NameCol("op"), term.UntruncatedCol("dtype"), term.ListCol("shape"),
		term.ListCol("strides"), term.UntruncatedCol("offset").OmitIfAll("0"), flags, term.NameCol("alias of"))
	if doc.segments {
		table.Columns = append(table.Columns, term.UntruncatedCol("segment"))
	}
	for v := range doc.Values {
		row := []any{v.Name, v.Op, cmp.Or(v.DType, "?"), v.Shape.String()}
		if v.Strides != nil {
			row = append(row, v.Strides.String(), v.Offset.String(), strings.Join(v.Flags, " "), v.AliasOf)
		} else {
			row = append(row, "?", "?", "", "")
		}
		switch {
		case v.Segment != nil:
			row = append(row, *v.Segment)
		case doc.segments:
			row = append(row, "")
		}
		table.Add(row...)
	}
	table.Write(w, display)
	WriteGuards(w, doc.Guards)
}
