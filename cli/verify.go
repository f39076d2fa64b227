package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/document"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/progress"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/sorted"
)

// verifyCommand returns the command verify.
func verifyCommand(ext *command.Extensions) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify FILE CERTIFICATE",
		Short: "Check the certificate of a plan against the graph",
		Long: `Checks a certificate that graphrun plan --certificate wrote. It runs the planning passes that precede the
choice of layouts, with the sizes, pins and cost profile of the certificate, and compares the resulting
layout problem with the problem in the certificate, entry by entry. Then it adds up the cost of the
solution and checks the proof of the lower bound. The checker shares no code with the solver.

The proof is about the estimated costs of the profile; graphrun bench measures actual times.

Exit code 0: the certificate holds; 1: it does not, with the reason; 2: the file is no certificate.`,
		Example: `  graphrun plan model.onnx --strategy optimal --certificate plan.cert.json
  graphrun verify model.onnx plan.cert.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return command.UsageError(cmd, "verify wants a graph file and a certificate, got %s",
					format.Count(len(args), "argument"))
			}
			return nil
		},
		ValidArgsFunction: command.CompleteGraph,
		RunE: exit.WithExitCode(func(cmd *cobra.Command, args []string) error {
			return verify(cmd, ext, args[0], args[1], asJSON)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// verify checks the file certificate for the graph at path.
func verify(cmd *cobra.Command, ext *command.Extensions, path, certificate string, asJSON bool) error {
	parsed, err := readCertificate(certificate)
	if err != nil {
		return err
	}
	job := progress.Begin(cmd, filepath.Base(path))
	defer job.End()
	var g *graph.Graph
	err = job.Do(progress.Loading, func() (err error) {
		g, err = loadCertified(job.Context, ext, path, parsed)
		return err
	})
	var unknown *command.UnknownDim
	if errors.As(err, &unknown) {
		return exit.Failed(fmt.Errorf("%s does not hold for %s: the graph differs from the certified graph: the "+
			"certificate is for %s, but the file has no symbolic dimension %q; verify the file that was planned, or make a "+
			"certificate of this file", certificate, path, program.SizesText(parsed.Graph.Sizes), unknown.Name))
	}
	if err != nil {
		return err
	}
	var verdict *experiment.Verdict
	err = job.Do(progress.Verifying, func() (err error) {
		verdict, err = experiment.Verify(job.Context, g, parsed)
		return err
	})
	job.End()
	if interruptErr := exit.InterruptError(job.Context); interruptErr != nil {
		return interruptErr
	}
	command.PrintWarnings(cmd, path, g)
	if err != nil {
		return exit.Failed(fmt.Errorf("%s does not hold for %s: %w", certificate, path, err))
	}
	return job.Do(progress.Printing, func() error {
		out := bufio.NewWriter(cmd.OutOrStdout())
		if asJSON {
			document.Write(out, verdict)
		} else {
			writeVerdict(out, verdict)
		}
		return out.Flush()
	})
}

// readCertificate reads the certificate at path.
func readCertificate(path string) (*experiment.Certificate, error) {
	f, _, err := files.OpenRegular(path)
	if err != nil {
		return nil, exit.UsageError(err)
	}
	defer f.Close()
	certificate, err := experiment.ReadCertificate(bufio.NewReader(f))
	if err != nil {
		return nil, exit.UsageErrorf("%s: %w", path, err)
	}
	return certificate, nil
}

// loadCertified reads and infers the graph at path, with the sizes of symbols that the certificate records.
func loadCertified(ctx context.Context, ext *command.Extensions, path string, c *experiment.Certificate) (*graph.Graph,
	error) {
	var dims []string
	for _, name := range sorted.Keys(c.Graph.Sizes) {
		dims = append(dims, fmt.Sprintf("%s=%d", name, c.Graph.Sizes[name]))
	}
	return ext.LoadWithPins(ctx, path, dims, nil) // Verify applies the pins of the certificate
}

// writeVerdict prints what the certificate proves.
func writeVerdict(w io.Writer, v *experiment.Verdict) {
	claim := "the proved bound is right"
	if v.Optimal {
		claim = "no plan among the forms considered costs less"
	}
	atPrices := ""
	if v.Prices > 0 {
		atPrices = fmt.Sprintf(" at %s and the rates of the profile", format.Count(v.Prices, "measured price"))
	}
	fmt.Fprintf(w, "the certificate holds: the plan costs %s%s, and %s\n", format.Nanoseconds(v.CostNS), atPrices, claim)
	if v.Optimal {
		fmt.Fprintf(w, "optimal: cost = bound = %s (%.3f ns)\n", format.Nanoseconds(v.CostNS), v.CostNS)
	} else {
		fmt.Fprintf(w, "cost %s, bound %s: a gap of %s (%.2g%%)\n", format.Nanoseconds(v.CostNS),
			format.Nanoseconds(v.BoundNS), format.Nanoseconds(v.CostNS-v.BoundNS), 100*(v.CostNS/max(v.BoundNS, 1)-1))
	}
	if v.RegretNS != nil {
		fmt.Fprintf(w, "at any prices within the intervals of the measured prices, no plan costs less by more than %s (%.2g%%)\n",
			format.Nanoseconds(*v.RegretNS), 100**v.RegretNS/max(v.CostNS, 1))
	}
	if copies := v.Copies; copies != nil && (copies.Copies > 0 || copies.Slack > 0) {
		writeCopiesVerdict(w, copies)
	}
	withSizes := ""
	if len(v.Sizes) > 0 {
		withSizes = " with " + program.SizesText(v.Sizes)
	}
	fmt.Fprintf(w,
		"holds for graph %.12s%s, strategy %s: %s and %s of costs match the certificate, the sum of costs is right, "+
			"and the proof is right\n", v.Digest, withSizes, v.Strategy, format.Count(v.Variables, "variable"),
		format.Count(v.Factors, "table"))
}

// writeCopiesVerdict prints the bounds on the number of copies that the certificate proves.
func writeCopiesVerdict(w io.Writer, c *experiment.CopiesVerdict) {
	plans := "of the plans of least cost"
	if c.Slack > 0 {
		plans = fmt.Sprintf("of the plans that cost at most %.3g%% more than the bound", 100*c.Slack)
	}
	if !c.Fewest {
		fmt.Fprintf(w, "%s: %s, each has at least %d\n", format.CountIrregular(c.Copies, "copy", "copies"), plans, c.AtLeast)
		return
	}
	fmt.Fprintf(w, "%s: %s, none has fewer", format.CountIrregular(c.Copies, "copy", "copies"), plans)
	if c.LeastMemory && c.Copies > 0 {
		fmt.Fprintf(w, "; of these, none copies fewer bytes (in units of %s)", format.Bytes(int(c.UnitBytes)))
	}
	fmt.Fprintln(w)
}
