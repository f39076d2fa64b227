// Package tune implements "graphrun tune", which measures on this machine which plan of a graph is fastest. Package
// experiment makes the measurements; this package reads the workload and prints the result.
package tune

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/document"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/inputs"
	"github.com/graphrun/graphrun/cli/internal/outfile"
	"github.com/graphrun/graphrun/cli/internal/progress"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/report"
)

// flags are the options of the command.
type flags struct {
	ext             *command.Extensions
	sources         inputs.Sources
	dims, pins      []string
	hints           []map[string]int
	threads         int
	noFusion, exact bool
	device, costs   string
	cache           command.Cache
	tuned           string // path of the result; empty for none
	budget          time.Duration
	regretText      string  // the value of --regret, such as 2%
	regret          float64 // the parsed value; set by check
	json            bool
}

const help = `Measures on this machine which plan of a graph is fastest, with the given sizes and --threads. Plans are
chosen at predicted prices; tune replaces predictions by measurements:

It runs plans and takes the times of their steps as prices of labels, the ways to compute a node:
implementation, order and copies. It solves the layout problem exactly at these prices. An interval of each
price, measured or assumed, bounds the regret: how much less another plan can cost at any prices within the
intervals. The plan that may be cheaper has the labels that matter, and is run next, until the bound is
below --regret or its part of --budget is used up. Then the plans at measured and at predicted prices, the
next best plans and other strategies run whole, in turns; the fastest run again, so that luck in the choice
does not count. The text begins with the plan that is fastest, by how much and with what certainty, or says
that plans are not distinguishable. On a disturbed machine it concludes nothing: the plan stays.

The result is written to --tuned FILE or stored in --cache DIR. run, bench, plan, batch and serve use it with
the same flag. It holds for the same graph (the data of weights does not count), sizes, pins and options, on
the same machine, with the same number of threads and the same version of graphrun; otherwise --tuned is
refused, and --cache has no result. If the file or the cache has a result already, tune continues it: known
prices are not measured again unless they matter.

The file has the prices, as plan --measure writes them: plan --prices FILE shows plans at these prices, and
plan --certificate proves that a plan is the cheapest at them, with the bound on its regret.

Ctrl-C ends the measurement; the prices so far are written, and nothing is concluded (exit code 130).`

// Command returns the command tune.
func Command(ext *command.Extensions) *cobra.Command {
	f := flags{ext: ext}
	cmd := &cobra.Command{
		Use:   "tune FILE",
		Short: "Measure on this machine which plan is fastest",
		Long:  help,
		Example: `  graphrun tune model.onnx --tuned model.tuned.json
  graphrun run model.onnx --tuned model.tuned.json
  graphrun tune model.onnx --dim N=8 --threads 1 --budget 5m --regret 1%
  graphrun tune model.onnx --cache ~/.cache/graphrun
  graphrun plan model.onnx --prices model.tuned.json --k-best 5`,
		Args:              command.OneFile,
		ValidArgsFunction: command.CompleteGraph,
		RunE: exit.WithExitCode(func(cmd *cobra.Command, args []string) error {
			return run(cmd, args[0], f)
		}),
	}
	flagSet := cmd.Flags()
	flagSet.BoolVar(&f.json, "json", false, "print JSON")
	flagSet.StringVar(&f.tuned, "tuned", "", "write the result to `FILE`; if it has a result, continue it")
	_ = cmd.MarkFlagFilename("tuned", "json")
	flagSet.DurationVar(&f.budget, "budget", time.Minute, "measure for about some `TIME`, such as 5m")
	flagSet.StringVar(&f.regretText, "regret", "2%", "measure labels until no plan can cost less by more than "+
		"`SHARE`, such as 0.5%")
	f.sources.AddFlags(cmd)
	command.PinFlag(cmd, &f.pins)
	command.ThreadsFlag(cmd, &f.threads)
	f.cache.AddFlags(cmd)
	command.FusionFlag(cmd, &f.noFusion)
	command.ExactFlag(cmd, &f.exact)
	command.DeviceFlag(cmd, &f.device)
	command.CostsFlag(cmd, &f.costs)
	command.HintFlag(cmd, &f.dims)
	return cmd
}

// check checks the flags.
func (f *flags) check(cmd *cobra.Command) error {
	if f.budget <= 0 {
		return exit.UsageErrorf("--budget %v: want more than 0s", f.budget)
	}
	var err error
	if f.regret, err = command.ParseShare("regret", f.regretText, 1); err != nil {
		return err
	}
	if err := command.CheckThreads(f.threads); err != nil {
		return err
	}
	if err := cmp.Or(f.cache.Check(cmd), f.sources.Check(cmd)); err != nil {
		return err
	}
	return outfile.CheckWritable("--tuned", f.tuned)
}

// run loads a graph, tunes it, and writes and prints the result.
func run(cmd *cobra.Command, path string, f flags) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	profile, err := command.CostProfile(cmd, f.costs)
	if err != nil {
		return err
	}
	if f.dims, f.hints, err = command.SplitHints(f.dims); err != nil {
		return err
	}
	if len(f.hints) > 1 {
		return exit.UsageErrorf("--dim: tune measures one combination of sizes: tune each by a separate command")
	}
	var before *pricing.Tuned
	if _, err := os.Stat(f.tuned); err == nil {
		if before, err = command.Tuned(f.tuned); err != nil {
			return err
		}
	}
	job := progress.Begin(cmd, filepath.Base(path))
	defer job.End()
	var workload inputs.Workload
	err = job.Do(progress.Loading, func() (err error) {
		workload, err = inputs.LoadWorkload(job.Context, f.ext, path, f.dims, f.pins, f.hints, f.sources)
		return err
	})
	if err != nil {
		return err
	}
	if err := command.RejectDynamic(workload.Graph,
		"the graph runs in segments, which tune does not measure"); err != nil {
		return program.WithFile(path, err)
	}
	options := graphrun.Options{Threads: f.threads, InputsInMemory: true, NoFusion: f.noFusion, Exact: f.exact,
		Device: f.device, Costs: profile, Hints: f.hints, Passes: f.ext.Passes(),
		Cache: f.cache.Option()}
	job.Enter(progress.Running)
	noted := time.Now()
	tuning, err := experiment.Tune(job.Context, workload.Graph, options, workload.Inputs.Values, experiment.TuneOptions{
		Budget: f.budget, Regret: f.regret, Before: before, Seed: f.sources.Seed,
		Progress: func(state string, left time.Duration) {
			text := fmt.Sprintf("%s; at most about %v left", state, left.Round(time.Second))
			job.Enter(text)
			if !term.IsTerminal(cmd.ErrOrStderr()) && time.Since(noted) > noteInterval {
				noted = time.Now()
				term.PrintNote(cmd, "%s", text)
			}
		}})
	job.End()
	command.PrintNotes(cmd, path, workload.Graph)
	if err != nil {
		return program.WithFile(path, workload.Inputs.HintAtGeneratedValues(err))
	}
	if f.tuned != "" { // after an interruption, too: hence the context without cancellation
		if err := outfile.Write(context.WithoutCancel(cmd.Context()), f.tuned, tuning.Result.Write); err != nil {
			return err
		}
	}
	if err := f.print(cmd, tuning); err != nil {
		return err
	}
	return exit.InterruptError(job.Context)
}

// noteInterval is the time between notes about progress if standard error is not a terminal.
const noteInterval = 30 * time.Second

// Document is the output of tune.
type Document struct {
	Summary     string                   `json:"summary" doc:"The result in words."`
	Plan        string                   `json:"plan" doc:"The plan that was fastest: measured (the cheapest at the measured prices), predicted (the cheapest without them), labels (another plan of the layout problem), or the name of a strategy."`
	Threads     int                      `json:"threads" doc:"The number of workers of a run."`
	Dims        map[string]int           `json:"dims" doc:"The sizes of the graph's symbols."`
	Interrupted bool                     `json:"interrupted" doc:"Whether the measurement was interrupted."`
	Regret      *layout.RegretBound      `json:"regret,omitzero" doc:"The regret of the cheapest plan at the measured prices; left out if nothing was measured."`
	Rounds      int                      `json:"rounds" doc:"How often labels were measured."`
	Plans       []experiment.Measurement `json:"plans" doc:"The plans whose whole runs were measured, to choose the finalists; ratios are relative to the first."`
	Finalists   []experiment.Measurement `json:"finalists" doc:"The fastest plans, in other runs."`
	Verdict     *experiment.Ranking      `json:"verdict" doc:"The verdict about the finalists; null if there is one plan only."`
	Prices      []pricing.LabelPrice     `json:"prices" doc:"The measured prices."`
	report.Notes
}

// print prints the result.
func (f *flags) print(cmd *cobra.Command, tuning *experiment.Tuning) error {
	result := tuning.Result
	doc := &Document{Summary: result.Summary, Plan: result.Plan, Threads: result.Threads, Dims: result.Sizes,
		Interrupted: tuning.Interrupted, Regret: tuning.Regret, Rounds: tuning.Rounds, Prices: result.Prices,
		Plans: []experiment.Measurement{}, Finalists: []experiment.Measurement{}}
	doc.Prices = program.NotNil(doc.Prices)
	if doc.Dims == nil {
		doc.Dims = map[string]int{}
	}
	if tuning.Choice != nil {
		doc.Plans = tuning.Choice.Rows
	}
	if tuning.Final != nil {
		doc.Finalists, doc.Verdict = tuning.Final.Rows, tuning.Final.Verdict
	}
	out := bufio.NewWriter(cmd.OutOrStdout())
	if f.json {
		document.Write(out, doc)
	} else {
		doc.write(out, term.StdoutDisplay(cmd), f)
	}
	return out.Flush()
}

// write prints the result as text.
func (doc *Document) write(w io.Writer, display term.Display, f *flags) {
	sentences := []string{doc.Summary}
	switch {
	case f.tuned != "" && doc.Interrupted:
		sentences = append(sentences, f.tuned+" has the prices so far; the same command continues")
	case f.tuned != "":
		sentences = append(sentences, f.tuned+" has the result; run, bench, plan, batch and serve use it with --tuned")
	}
	display.WriteSentences(w, sentences...)
	for _, part := range []struct {
		title string
		rows  []experiment.Measurement
	}{{"Finalists", doc.Finalists}, {"Plans", doc.Plans}} {
		if len(part.rows) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s\n%s", display.Paint(term.Strong, part.title), experiment.TableOf(part.rows))
	}
	if doc.Verdict != nil && doc.Verdict.Noise != "" {
		fmt.Fprintf(w, "\ndisturbed measurement: %s\n", doc.Verdict.Noise)
	}
	wrong := slices.Clone(doc.Prices)
	slices.SortStableFunc(wrong, func(a, b pricing.LabelPrice) int {
		return cmp.Compare(math.Abs(b.MeasuredNS-b.PredictedNS), math.Abs(a.MeasuredNS-a.PredictedNS))
	})
	if len(wrong) > mostPrices {
		wrong = wrong[:mostPrices]
	}
	term.WriteList(w, display, "Prices that differ most from their predictions", wrong, []term.Column{term.NameCol("node"),
		term.NameCol("op"), term.UntruncatedCol("implementation"), term.UntruncatedCol("order"),
		term.UntruncatedCol("predicted"), term.UntruncatedCol("measured"), term.UntruncatedCol("interval"),
		term.UntruncatedCol("runs")}, func(p pricing.LabelPrice) []any {
		interval := "-"
		if p.HighNS > 0 {
			interval = format.Nanoseconds(p.LowNS) + " to " + format.Nanoseconds(p.HighNS)
		}
		return []any{p.Node, p.Op, p.Implementation, format.Ints(p.Order), format.Nanoseconds(p.PredictedNS),
			format.Nanoseconds(p.MeasuredNS), interval, p.Samples}
	})
	fmt.Fprintf(w, "\n%s measured in %s, with %s\n", format.Count(len(doc.Prices), "price"),
		format.Count(doc.Rounds, "round"), format.Count(doc.Threads, "worker"))
}

// mostPrices is the number of prices that the text lists; JSON has all.
const mostPrices = 10
