// Package prove implements "graphrun prove". It prints proofs of claims about layout predicates. Package contiguity has
// the predicates and computes the proofs.
package prove

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/document"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/outfile"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/internal/contiguity"
)

type flags struct {
	rank int
	smt  string
	json bool
}

// Command returns the command prove.
func Command() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "prove [PREDICATE|CLAIM]",
		Short: "Prove a claim about layouts, or that a predicate and PyTorch's branches agree",
		Long: `Proves that two forms of a layout predicate, such as contiguous, agree for all sizes and strides of a rank:
a formula without branches, and PyTorch's code, which branches on comparisons of sizes. Without an argument,
prove lists the predicates.

A way is a possible combination of outcomes of the comparisons of both forms. The proof runs both forms
once for each way. A comparison whose outcome follows from earlier ones adds no way. The output has the
formula, the ways through the branching form with their decisions, the comparisons of both forms (atoms),
the steps of the induction over the number of dimensions, and the conclusion. Sizes are x1, x2, ...,
strides are y1, y2, ...; both are any integers from 0 on.

A predicate that exists for one rank only needs no --rank. Other predicates need --rank R, from 0 to 6.
A predicate that sorts dimensions is a disjunction. From rank 5 on, each of its operands (parts) is proved alone.

A claim joins predicates by ~ (not), & (and), | (or) and => (implies), in decreasing precedence, with
parentheses. It is proved for all sizes and strides of a rank, or refuted by an example.

--smt writes the negation of the proved statement for SMT solvers: unsat confirms the proof.

Exit code 0: proved; 1: refuted, with sizes and strides, or not proved; 2: an invalid call.`,
		Example: `  graphrun prove
  graphrun prove contiguous --rank 4
  graphrun prove "contiguous => non_overlapping_and_dense" --rank 4
  graphrun prove non_overlapping_and_dense --rank 3 --smt dense.smt2 && z3 dense.smt2
  graphrun prove channels_last --json | jq '.ways | length'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.UsageError(cmd, "prove wants one predicate at most, got %d", len(args))
			}
			return nil
		},
		ValidArgsFunction: completePredicate,
		RunE: exit.WithExitCode(func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listPredicates(cmd, f)
			}
			if strings.ContainsAny(args[0], "~&|()=> ") {
				return proveClaim(cmd, args[0], f)
			}
			predicate, err := f.choose(args[0], cmd.Flags().Changed("rank"))
			if err != nil {
				return err
			}
			return prove(cmd, predicate, f)
		}),
	}
	flagSet := cmd.Flags()
	flagSet.IntVar(&f.rank, "rank", 0,
		"number of dimensions `R`, 0 to 6; may be omitted for a predicate that exists for one rank only")
	flagSet.StringVar(&f.smt, "smt", "", "write the negation of the proved statement to `OUT.smt2`, for solvers")
	flagSet.BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

// completePredicate completes the name of a predicate.
func completePredicate(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return predicateNames(), cobra.ShellCompDirectiveNoFileComp
}

// maxRank is the greatest value of --rank. The number of ways grows fast with the rank.
const maxRank = 6

func predicateNames() []string {
	var names []string
	for _, predicate := range contiguity.Predicates {
		names = append(names, predicate.Name)
	}
	return names
}

// choose returns the named predicate. If --rank is not given, it sets the rank to the only rank of the predicate.
func (f *flags) choose(name string, rankGiven bool) (contiguity.Predicate, error) {
	i := slices.Index(predicateNames(), name)
	if i < 0 {
		return contiguity.Predicate{}, exit.UsageErrorf("there is no predicate %q: %s", name,
			format.WantOneOf(name, predicateNames()))
	}
	predicate := contiguity.Predicates[i]
	switch {
	case !rankGiven && predicate.Rank == 0:
		return predicate, exit.UsageErrorf("prove %s requires --rank R, from 0 to %d", name, maxRank)
	case !rankGiven:
		f.rank = predicate.Rank
	case predicate.Rank != 0 && f.rank != predicate.Rank:
		return predicate, exit.UsageErrorf("--rank %d: %s exists for rank %d only", f.rank, name, predicate.Rank)
	case f.rank < 0 || f.rank > maxRank:
		return predicate, exit.UsageErrorf("--rank %d: want 0 to %d; greater ranks follow by induction", f.rank, maxRank)
	}
	return predicate, nil
}

// listPredicates prints the predicates.
func listPredicates(cmd *cobra.Command, f flags) error {
	if cmd.Flags().Changed("rank") || f.smt != "" {
		return command.UsageError(cmd, "--rank and --smt require a predicate: %s", strings.Join(predicateNames(), ", "))
	}
	out := bufio.NewWriter(cmd.OutOrStdout())
	doc := &Document{Predicates: predicatesOf(contiguity.Predicates)}
	if f.json {
		document.Write(out, doc)
		return out.Flush()
	}
	table := term.NewTable(term.NameCol("predicate"), term.UntruncatedCol("rank"), term.ProseCol("holds where"))
	for _, predicate := range doc.Predicates {
		rank := "any"
		if predicate.Rank != nil {
			rank = fmt.Sprint(*predicate.Rank)
		}
		table.Add(predicate.Name, rank, predicate.Doc)
	}
	table.Write(out, term.StdoutDisplay(cmd))
	return out.Flush()
}

// prove proves that the two forms of a predicate agree, and prints the proof. It returns an error if they are not
// proved to agree.
func prove(cmd *cobra.Command, predicate contiguity.Predicate, f flags) error {
	if err := outfile.CheckWritable("--smt", f.smt); err != nil {
		return err
	}
	proof, err := contiguity.Prove(predicate, f.rank)
	if err != nil {
		return err
	}
	if err := writeSMT(cmd, f.smt, proof.SMT); err != nil {
		return err
	}
	out := bufio.NewWriter(cmd.OutOrStdout())
	doc := &Document{Predicates: predicatesOf([]contiguity.Predicate{predicate}), ProofDoc: proofOf(proof)}
	if f.json {
		document.Write(out, doc)
	} else {
		writeProof(out, term.StdoutDisplay(cmd), doc)
	}
	if err := out.Flush(); err != nil || proof.Proved {
		return err
	}
	return exit.Failed(nil) // the output has the reason
}

// writeProof prints the proof as text.
func writeProof(w io.Writer, display term.Display, doc *Document) {
	head := func(text string) { fmt.Fprintln(w, display.Paint(term.Strong, text)) }
	proof, predicate := doc.ProofDoc, doc.Predicates[0]
	fmt.Fprintf(w, "%s, rank %d: %s\n\n", predicate.Name, proof.Rank, predicate.Doc)
	head("The formula")
	fmt.Fprintf(w, "  %s\n\n", proof.Expr)
	writeWays(w, display, proof)
	fmt.Fprintln(w)
	head(format.Count(len(proof.Atoms), "atom"))
	for _, atom := range proof.Atoms {
		fmt.Fprintf(w, "  %s\n", atom)
	}
	fmt.Fprintln(w)
	head("The induction over the dimensions")
	for i, step := range proof.Steps {
		holds := "holds"
		if !step.Holds {
			holds = "does not hold"
		}
		text := format.Wrap(fmt.Sprintf("%s It %s, on %s.", step.Claim, holds, format.Count(step.Ways, "way")),
			display.ProseWidth()-5)
		fmt.Fprintf(w, "  %d. %s\n", i+1, strings.ReplaceAll(text, "\n", "\n     "))
	}
	if len(proof.Steps) == 0 {
		fmt.Fprintln(w, "  none")
	}
	fmt.Fprintf(w, "\n%s\n", proof.Conclusion)
}

// writeWays prints a table with a row for each path through the branching form: its decisions, the results of both
// forms, and the number of ways through both forms. The formula can divide a path into several such ways.
func writeWays(w io.Writer, display term.Display, proof *ProofDoc) {
	type row struct {
		part, path                     string
		branchingResult, formulaResult bool
	}
	wayCount := map[row]int{}
	var rows []row
	for _, way := range proof.Ways {
		shown := row{way.Part, way.Path, way.Branching, way.Formula}
		if wayCount[shown]++; wayCount[shown] == 1 {
			rows = append(rows, shown)
		}
	}
	fmt.Fprintln(w, display.Paint(term.Strong, fmt.Sprintf("The branching form: %s, %s through both forms",
		format.Count(len(rows), "way"), format.Count(len(proof.Ways), "way"))))
	columns := []term.Column{term.UntruncatedCol("gives"), term.UntruncatedCol("formula"), term.NumberCol("ways"),
		term.ProseCol("where it decided")}
	if proof.ByParts {
		columns = append([]term.Column{term.NameCol("part")}, columns...)
	}
	table := term.NewTable(columns...)
	for _, shown := range rows {
		cells := []any{shown.part, shown.branchingResult, shown.formulaResult, wayCount[shown], shown.path}
		table.Add(cells[len(cells)-len(columns):]...) // omits the cell of the part if there is no column for it
	}
	table.Write(w, display)
}
