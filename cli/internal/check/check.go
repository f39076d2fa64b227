// Package check implements "graphrun check". It lists the operators of a graph that graphrun does not support, and the
// nodes that graphrun rejects.
package check

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/document"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/onnx"
	"github.com/graphrun/graphrun/report"
)

// Document is the output of check.
type Document struct {
	Runs     bool             `json:"runs" doc:"Whether nothing is missing and nothing is rejected."`
	Missing  []Missing        `json:"missing" doc:"The operators that are not supported."`
	Rejected []report.Mistake `json:"rejected" doc:"The nodes with supported operators, initializers, inputs and outputs that are rejected, each with its cause; a node that depends on a rejected node is listed only if its own error does not depend on undeclared types of its operands."`
}

// Missing describes an operator that is not supported.
type Missing struct {
	Op         string   `json:"op" doc:"The name of the operator, or of the op in a graph file."`
	Domain     string   `json:"domain" doc:"The domain; empty for the default domain and in a graph file."`
	Nodes      []string `json:"nodes" doc:"The names of its nodes."`
	DidYouMean string   `json:"did_you_mean,omitzero" doc:"A similar supported operator; absent if there is none."`
	Instead    string   `json:"instead,omitzero" doc:"What to do in place of an operator that will not be supported; absent for others."`
}

// Command returns the command check.
func Command(ext *command.Extensions) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "List the operators of a model that graphrun lacks, and everything that it rejects",
		Long: `Reads a model or a graph file without running it. Lists the operators that are not supported, and all
nodes, weights, inputs and outputs that are rejected, with their causes. Nodes that depend on these are
checked as far as the types of their operands are declared or do not matter. The exit code is 0 if both
lists are empty, and 1 otherwise. Symbolic sizes have assumed values.

graphrun ops --onnx lists the supported operators.`,
		Example: `  graphrun check model.onnx
  graphrun check model.onnx --json | jq -r '.missing[].op'`,
		Args: command.OneFile,
		RunE: exit.WithExitCode(func(cmd *cobra.Command, args []string) error {
			doc, err := documentOf(cmd.Context(), ext, args[0])
			if err != nil {
				return err
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			if asJSON {
				document.Write(out, doc)
			} else {
				doc.write(out, term.StdoutDisplay(cmd), args[0])
			}
			if err := out.Flush(); err != nil || doc.Runs {
				return err
			}
			return exit.Failed(nil) // the output has the reasons
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// documentOf reports the missing operators of the file at path, and the nodes that are rejected for other reasons.
func documentOf(ctx context.Context, ext *command.Extensions, path string) (*Document, error) {
	const keepGoing = true                             // skip nodes and constants with mistakes
	f, err := ext.Open(ctx, path, nil, keepGoing, nil) // without values of --dim, and without a cache
	if err != nil {
		return nil, err
	}
	doc := &Document{Missing: []Missing{}}
	operators, err := f.MissingOperators() // nil for a graph file, whose missing ops are mistakes below
	if err != nil {
		return nil, exit.UsageError(err)
	}
	for _, operator := range operators {
		doc.Missing = append(doc.Missing, Missing{operator.Name, operator.Domain, operator.Nodes, operator.Suggestion,
			operator.Instead})
	}
	var rejected []*graph.Error
	for _, mistake := range mistakes(ctx, f) {
		switch {
		case errors.Is(mistake, onnx.ErrUnavailableOperand): // the cause is the node that computes the operand
		case errors.Is(mistake, onnx.ErrNoConverter): // the operator is in doc.Missing
		case !f.IsModel() && mistake.Op != "" && ext.Lookup(mistake.Op) == nil: // an unknown op of a graph file
			doc.addMissing(mistake, ext)
		default:
			rejected = append(rejected, mistake)
		}
	}
	doc.Rejected = document.Mistakes(rejected)
	doc.Runs = len(doc.Missing) == 0 && len(rejected) == 0
	return doc, ctx.Err()
}

// mistakes returns the errors of reading a file, and then of inference. Inference omits nodes that are rejected only
// because they read a result of a rejected node.
func mistakes(ctx context.Context, f *graphrun.File) []*graph.Error {
	g, list, err := command.BoundGraph(ctx, f)
	if err == nil {
		err = command.Infer(ctx, g)
	}
	var several graph.Errors
	var single *graph.Error
	switch {
	case err == nil:
		return list
	case errors.As(err, &several):
		return append(list, several...)
	case errors.As(err, &single):
		return append(list, single)
	}
	return append(list, &graph.Error{Err: err})
}

// addMissing adds the node of an error to the entry of its unsupported operator.
func (d *Document) addMissing(mistake *graph.Error, ext *command.Extensions) {
	i := slices.IndexFunc(d.Missing, func(m Missing) bool { return m.Op == mistake.Op })
	if i < 0 {
		i = len(d.Missing)
		d.Missing = append(d.Missing, Missing{Op: mistake.Op, DidYouMean: graph.SuggestOp(mistake.Op, ext.Lookup)})
	}
	if !slices.Contains(d.Missing[i].Nodes, mistake.Node) {
		d.Missing[i].Nodes = append(d.Missing[i].Nodes, mistake.Node)
	}
}

// maxListed is the maximum number of nodes of an operator in the text.
const maxListed = 5

// write prints the document as text.
func (d *Document) write(w io.Writer, display term.Display, path string) {
	if d.Runs {
		fmt.Fprintf(w, "%s: nothing is missing\n", format.Printable(path))
		return
	}
	if len(d.Missing) > 0 {
		d.writeMissing(w, display)
	}
	if len(d.Missing) > 0 && len(d.Rejected) > 0 {
		fmt.Fprintln(w)
	}
	if len(d.Rejected) > 0 {
		d.writeRejected(w)
	}
}

// writeMissing prints the table of unsupported operators.
func (d *Document) writeMissing(w io.Writer, display term.Display) {
	const minWidth = 10 // minimum width of the column of names, in characters
	table := term.NewTable(term.NameCol("operator"), term.UntruncatedCol("domain").OmitIfAll(""), term.NumberCol("nodes"),
		term.PhraseCol("names", minWidth), term.NameCol("did you mean").OmitIfAll(""))
	for _, missing := range d.Missing {
		names := strings.Join(missing.Nodes[:min(maxListed, len(missing.Nodes))], ", ")
		if len(missing.Nodes) > maxListed {
			names += ", ..."
		}
		table.Add(missing.Op, missing.Domain, len(missing.Nodes), names, missing.DidYouMean)
	}
	fmt.Fprintln(w, "Operators that are not supported")
	table.Write(w, display)
	for _, missing := range d.Missing {
		if missing.Instead != "" {
			fmt.Fprintf(w, "%s: %s\n", format.Printable(missing.Op), missing.Instead)
		}
	}
}

// writeRejected prints the rejected nodes, initializers, inputs and outputs.
func (d *Document) writeRejected(w io.Writer) {
	fmt.Fprintln(w, "Rejected")
	for _, rejected := range d.Rejected {
		place := ""
		if rejected.Node != "" {
			place = fmt.Sprintf("node %q (%s): ", rejected.Node, rejected.Op)
		}
		fmt.Fprintln(w, "  "+format.Printable(place+rejected.Message))
	}
}
