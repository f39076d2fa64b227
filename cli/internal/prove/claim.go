package prove

import (
	"bufio"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/document"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/outfile"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/internal/contiguity"
)

// proveClaim proves or refutes a claim for one rank, the value of --rank. Without --rank, the first predicate of the
// claim that is defined for a single rank gives the rank. proveClaim returns an error if the claim is not proved.
func proveClaim(cmd *cobra.Command, text string, f flags) error {
	claim, err := contiguity.ParseClaim(text)
	if err != nil {
		return exit.UsageErrorf("the claim %q: %w", text, err)
	}
	rankKnown := cmd.Flags().Changed("rank")
	for _, predicate := range claim.Predicates {
		if !rankKnown && predicate.Rank != 0 {
			f.rank, rankKnown = predicate.Rank, true
		}
	}
	switch {
	case !rankKnown:
		return exit.UsageErrorf("prove %q requires --rank R, from 0 to %d", text, maxRank)
	case f.rank < 0 || f.rank > maxRank:
		return exit.UsageErrorf("--rank %d: want 0 to %d", f.rank, maxRank)
	}
	if err := outfile.CheckWritable("--smt", f.smt); err != nil {
		return err
	}
	proof, err := contiguity.ProveClaim(claim, f.rank)
	if err != nil {
		return err
	}
	if err := writeSMT(cmd, f.smt, proof.SMT); err != nil {
		return err
	}
	doc := &Document{Predicates: predicatesOf(claim.Predicates), Claim: claimOf(proof)}
	out := bufio.NewWriter(cmd.OutOrStdout())
	if f.json {
		document.Write(out, doc)
	} else {
		fmt.Fprintf(out, "%s, rank %d\n\n%s\n  %s\n\n%s\n", proof.Claim.Text, proof.Rank,
			term.StdoutDisplay(cmd).Paint(term.Strong, "The formula"), proof.Formula, doc.Claim.Conclusion)
	}
	if err := out.Flush(); err != nil || proof.Proved {
		return err
	}
	return exit.Failed(nil) // the output has the reason
}

// claimOf returns the document of a proof or refutation.
func claimOf(proof *contiguity.ClaimReport) *claimDoc {
	doc := &claimDoc{Text: proof.Claim.Text, Rank: proof.Rank, Expr: proof.Formula.String(), Proved: proof.Proved,
		Shape: proof.Sizes, Strides: proof.Strides,
		Classes: proof.Classes}
	switch {
	case proof.Proved:
		doc.Conclusion = fmt.Sprintf("Proved for rank %d: it holds for all sizes and strides.", proof.Rank)
	case proof.Sizes != nil:
		doc.Conclusion = fmt.Sprintf("Refuted: it does not hold for shape %v and strides %v.", proof.Sizes, proof.Strides)
	default:
		doc.Conclusion = "Not proved, and no sizes and strides were found that refute it."
	}
	return doc
}

// writeSMT writes the file of --smt. It does nothing if path is empty.
func writeSMT(cmd *cobra.Command, path string, text func() string) error {
	if path == "" {
		return nil
	}
	return outfile.Write(cmd.Context(), path, func(w io.Writer) error {
		_, err := io.WriteString(w, text())
		return err
	})
}
