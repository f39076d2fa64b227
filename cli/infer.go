package cli

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

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/report"
)

type inferFlags struct {
	json, keepGoing, classes bool
	dims                     []string
}

func inferCommand() *cobra.Command {
	var f inferFlags
	cmd := &cobra.Command{
		Use:   "infer FILE",
		Short: "Show the dtype, shape, strides and aliases of every value",
		Long: `Applies PyTorch's propagation rules to the graph as it is written: nothing is fused,
moved or dropped. Data are not touched.

flags are those that hold of contiguous, channels_last, channels_last_3d and
non_overlapping_and_dense. An alias is the value whose storage a view shares.

Sizes that nobody gives stay unknown: sizes, strides and offsets are expressions over symbols, flags hold for
all sizes, and conditions tell when others do. Inference goes the way of the sizes that are assumed where it
must branch, and what it thereby asks of sizes is told: the table holds while that does. With --classes it
goes all ways, up to 16 classes of sizes, and what differs is a Where(condition, a, b). A note lists the symbols for
which a minimum of 2 would remove guards.

Where a shape depends on data, so that it is known only when the graph runs, what is known ahead
is shown: the dtype, sizes and strides, where u0, u1 ... stand for sizes that only the run tells; what
is not known is "?" (in JSON null, and "dynamic" is true). Sizes with different names may turn out equal,
and expressions hold for the sizes that nodes do not refuse. The graph then runs in segments, which graphrun
plan shows; the last column tells which makes a value.`,
		Example: `  graphrun infer examples/models/stride_rules.json
  graphrun infer model.json --json --keep-going
  graphrun infer model.json --dim N=16`,
		Args:              oneFile,
		ValidArgsFunction: completeGraph,
		RunE: action(func(cmd *cobra.Command, args []string) error {
			return infer(cmd, args[0], f)
		}),
	}
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	cmd.Flags().BoolVar(&f.keepGoing, "keep-going", false, "list what is refused, or cannot be read, as errors, and "+
		"infer the rest")
	cmd.Flags().BoolVar(&f.classes, "classes", false, "infer all classes of sizes that are not given, where there are "+
		"at most 16, instead of that of the sizes that are assumed")
	dimFlag(cmd, &f.dims)
	return cmd
}

func infer(cmd *cobra.Command, path string, f inferFlags) error {
	var g *graph.Graph
	var s *graph.Symbolic
	var fewer *fewerGuards
	var errs []*graph.Error
	j := begin(cmd, filepath.Base(path))
	defer j.end()
	err := j.do(loading, func() (err error) {
		if g, errs, err = inferGraph(j.ctx, path, f); err == nil {
			if s, err = symbolicOf(g, errs, f.classes); err == nil {
				fewer = fewerGuardsOf(g, s, errs, f.classes)
			}
		}
		return err
	})
	j.end()
	if cut := stopped(j.ctx); cut != nil {
		return cut
	}
	if g == nil && !f.json {
		return err
	}
	printed := j.do(printing, func() error {
		out := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
		r := inferReportOf(g, s, errs)
		if r.Fewer = fewer; f.json {
			writeDocument(out, r)
		} else {
			writeInferTable(out, shown(cmd), r)
		}
		return out.Flush()
	})
	if printed != nil {
		return printed
	}
	switch {
	case s != nil:
		warn(cmd, path, g)
		if fewer != nil && !f.json {
			note(cmd, "%v", fewer)
		}
		if s.Cut != nil {
			note(cmd, "the table holds for one class of sizes: %v", s.Cut)
		}
	case g != nil:
		tell(cmd, path, g)
	}
	for _, e := range errs {
		if !f.json {
			printError(cmd, named(path, e))
		}
	}
	if err == nil && len(errs) > 0 {
		return &exitError{code: exitFailed}
	}
	return err
}

// inferGraph returns the graph, nil if nothing of it can be shown, and its mistakes. The
// error ends the command; with --keep-going refused nodes do not make one.
func inferGraph(ctx context.Context, path string, f inferFlags) (*graph.Graph, []*graph.Error, error) {
	g, missing, err := openGraph(ctx, path, f.dims, f.keepGoing)
	if err != nil {
		return nil, mistakes(err), err
	}
	if !f.keepGoing {
		if err := inferStrictly(ctx, g); err != nil {
			return nil, mistakes(err), err
		}
		return g, nil, nil
	}
	g.SetContext(ctx)
	refused := g.InferAll()
	g.SetContext(context.Background())
	errs := slices.Concat(missing, inOrder(refused), g.PinErrors(refused))
	slices.SortStableFunc(errs, byPlace)
	return g, errs, nil
}

// inferStrictly infers a graph. The error holds every node that is refused for a reason of
// its own.
func inferStrictly(ctx context.Context, g *graph.Graph) error {
	g.SetContext(ctx)
	defer g.SetContext(context.Background())
	if err := graphrun.Infer(g); err != nil {
		return wrong(err)
	}
	return nil
}

// byPlace compares errors by their places in the file.
func byPlace(a, b *graph.Error) int { return cmp.Or(a.Line-b.Line, a.Col-b.Col) }

// inOrder sorts refused nodes by their places.
func inOrder(refused map[*graph.Node]*graph.Error) []*graph.Error {
	errs := make([]*graph.Error, 0, len(refused))
	for _, e := range refused {
		errs = append(errs, e)
	}
	slices.SortFunc(errs, func(a, b *graph.Error) int { return cmp.Or(byPlace(a, b), strings.Compare(a.Node, b.Node)) })
	return errs
}

// mistakes lists what an error from loading holds.
func mistakes(err error) []*graph.Error {
	var all graph.Errors
	var one *graph.Error
	switch {
	case errors.As(err, &all):
		return all
	case errors.As(err, &one):
		return []*graph.Error{one}
	}
	return []*graph.Error{{Err: err}}
}

// inferred calls f with every value that has a meta.
func inferred(g *graph.Graph, errs []*graph.Error, f func(*graph.Value)) {
	if g == nil {
		return
	}
	refused := make(map[string]bool, len(errs))
	for _, e := range errs {
		refused[e.Node] = true
	}
	g.Values(func(v *graph.Value) {
		if v.Node == nil || !refused[v.Node.Name] {
			f(v)
		}
	})
}

// inferReport is what infer prints.
type inferReport struct {
	Values stream[valueDoc] `json:"values" doc:"Inputs, constants, and what nodes make."`
	Errors []report.Mistake `json:"errors" doc:"The nodes that are refused, and constants that cannot be read."`
	Guards []guardDoc       `json:"guards,omitzero" doc:"What the sizes that are assumed decided: all holds while these do."`
	Fewer  *fewerGuards     `json:"fewer_guards,omitzero" doc:"Minimums with which there are fewer guards."`
	report.Notes
	segments bool // shapes depend on data
}

// valueDoc is what infer says of a value.
type valueDoc struct {
	Name       string            `json:"name" doc:"The name of the value."`
	Op         string            `json:"op" doc:"The op that makes it, input or constant."`
	DType      textOrNull        `json:"dtype" of:"dtype" doc:"Its elements' type; null if unknown."`
	Shape      report.Sizes      `json:"shape" doc:"Its sizes; null if unknown."`
	Strides    report.Sizes      `json:"strides" doc:"Steps in elements; null if unknown."`
	Offset     *report.Size      `json:"offset" doc:"Where it begins; null if unknown."`
	Flags      []string          `json:"flags" of:"flag" doc:"What holds of its strides, for all sizes."`
	AliasOf    textOrNull        `json:"alias_of" doc:"The nearest value that it is a view of; null for none."`
	Conditions map[string]string `json:"conditions,omitzero" doc:"When else a flag holds, as formulas."`
	Dynamic    bool              `json:"dynamic,omitzero" doc:"Whether its shape depends on data."`
	Segment    *int              `json:"segment,omitzero" doc:"The segment of plan that makes it first."`
}

func valueOf(v *graph.Value, known *program.Known) valueDoc {
	d := valueDoc{Name: v.Name, Op: v.Kind(), Shape: known.Sizes(v), Dynamic: v.Dynamic}
	if t := known.DType(v); t.Valid() {
		d.DType = textOrNull(t.String())
	}
	if i, ok := known.Segment(v); ok {
		d.Segment = &i
	}
	if v.Dynamic {
		return d
	}
	d.Strides, d.Offset, d.Flags = report.SizesOf(v.Type.Strides), &report.Size{N: v.Meta.Offset}, v.Meta.Flags()
	if v.Alias != nil {
		d.AliasOf = textOrNull(v.Alias.Name)
	}
	return d
}

func inferReportOf(g *graph.Graph, s *graph.Symbolic, errs []*graph.Error) *inferReport {
	values := func(yield func(*valueDoc) bool) {
		known := program.KnownOf(g)
		var d valueDoc
		more := true
		inferred(g, errs, func(v *graph.Value) {
			if more {
				switch d = valueOf(v, known); {
				case s != nil:
					symbolicValue(&d, s, v)
				case v.Dynamic:
					symbolicValue(&d, known.Unbacked(), v)
				}
				more = yield(&d)
			}
		})
	}
	return &inferReport{Values: values, Errors: errorsOf(errs), Guards: guardsOf(s), Notes: report.NotesOf(g),
		segments: g != nil && g.Dynamic()}
}

// writeInferTable prints the values as columns.
func writeInferTable(w io.Writer, show display, r *inferReport) {
	flags := phraseCol("flags", 10)
	flags.cut = cutFlags
	t := newTable(nameCol("name"), nameCol("op"), wholeCol("dtype"), listCol("shape"), listCol("strides"),
		wholeCol("offset").unless("0"), flags, nameCol("alias of"))
	if r.segments {
		t.columns = append(t.columns, wholeCol("segment"))
	}
	for v := range r.Values {
		row := []any{v.Name, v.Op, cmp.Or(v.DType, "?"), v.Shape.String(), "?", "?", "", ""}
		if v.Strides != nil {
			copy(row[4:], []any{v.Strides.String(), v.Offset.String(), strings.Join(v.Flags, " "), v.AliasOf})
		}
		switch {
		case v.Segment != nil:
			row = append(row, *v.Segment)
		case r.segments:
			row = append(row, "")
		}
		t.add(row...)
	}
	t.write(w, show)
	writeGuards(w, r.Guards)
}
