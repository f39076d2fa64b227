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

// proveClaim proves or refutes a claim for a rank. It returns an error if the claim is not proved.
func proveClaim(cmd *cobra.Command, text string, f flags) error {
	c, err := contiguity.ParseClaim(text)
	if err != nil {
		return exit.Wrongf("the claim %q: %w", text, err)
	}
	rankKnown := cmd.Flags().Changed("rank")
	for _, r := range c.Predicates {
		if !rankKnown && r.Rank != 0 {
			f.rank, rankKnown = r.Rank, true
		}
	}
	switch {
	case !rankKnown:
		return exit.Wrongf("prove %q wants --rank R, from 0 to %d", text, maxRank)
	case f.rank < 0 || f.rank > maxRank:
		return exit.Wrongf("--rank %d: want 0 to %d", f.rank, maxRank)
	}
	if err := outfile.CheckWritable("--smt", f.smt); err != nil {
		return err
	}
	p, err := contiguity.ProveClaim(c, f.rank)
	if err != nil {
		return err
	}
	if err := writeSMT(cmd, f.smt, p.SMT); err != nil {
		return err
	}
	doc := &Document{Predicates: predicatesOf(c.Predicates), Claim: claimOf(p)}
	out := bufio.NewWriter(cmd.OutOrStdout())
	if f.json {
		document.Write(out, doc)
	} else {
		fmt.Fprintf(out, "%s, rank %d\n\n%s\n  %s\n\n%s\n", p.Claim.Text, p.Rank,
			term.Output(cmd).Paint(term.Strong, "The formula"),
			p.Formula, doc.Claim.Conclusion)
	}
	if err := out.Flush(); err != nil || p.Proved {
		return err
	}
	return exit.Failed(nil) // the output has the reason
}

func claimOf(p *contiguity.ClaimReport) *claimDoc {
	d := &claimDoc{Text: p.Claim.Text, Rank: p.Rank, Expr: p.Formula.String(), Ways: p.Paths, Proved: p.Proved,
		Shape: p.Sizes, Strides: p.Strides}
	switch {
	case p.Proved:
		d.Conclusion = fmt.Sprintf("Proved for rank %d: it holds for all sizes and strides.", p.Rank)
	case p.Sizes != nil:
		d.Conclusion = fmt.Sprintf("Refuted: it does not hold for shape %v and strides %v.", p.Sizes, p.Strides)
	default:
		d.Conclusion = "Not proved, and no sizes and strides were found that refute it."
	}
	return d
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
