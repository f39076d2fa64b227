// Package view implements "graphrun view". It draws a graph or a plan as SVG, HTML or DOT.
//
// A [picture] has boxes and lines without positions (picture.go). A tree of [item] groups its boxes (fold.go). A
// [scene] has the positions of the boxes in each group (levels.go). svg.go and html.go write a scene; dot.go writes a
// picture.
package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/outfile"
	"github.com/graphrun/graphrun/cli/internal/progress"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graph/dot"
	"github.com/graphrun/graphrun/internal/graphdraw"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/report"
)

// flags are the options of the command.
type flags struct {
	ext *command.Extensions

	// The graph and its plan.
	asWritten       bool // draw the graph without a plan
	strategy        string
	strategies      []string // strategies of two plans
	slack           command.Slack
	exact, noFusion bool
	device, costs   string
	dims, pins      []string

	// The drawing.
	out       string
	open      []string // scopes of the groups to open
	depth     int      // the number of levels of groups to open
	around    string
	hops      int
	direction string
	profile   string // the path of a file with measured times
}

// Command returns the command view.
func Command(ext *command.Extensions) *cobra.Command {
	f := flags{ext: ext}
	cmd := &cobra.Command{
		Use:   "view FILE -o OUT.svg|.html|.dot",
		Short: "Draw a graph or a plan",
		Long: `Draws the plan, as graphrun plan makes it: a box for every step, with its ops, its implementation and its
estimated cost, and a line for every value, in the color of its layout. Inserted copies are dashed and red,
with their costs and reasons. Constants are not drawn; they are in the details of their readers. Text that
does not fit into a box is in its tooltip. The output of the command names the file, the cost, the copies
and the steps with the largest costs.

--as-written draws the graph before planning: a box for every node of the file. A graph whose shapes depend
on data is planned in parts during a run, so it is drawn as written unless --strategy demands a plan.

More than 60 boxes are folded: scopes of names (/layer1/layer1.0/conv1/Conv), then equal blocks in sequence
("layer1.1 to layer1.2 × 2"), then sections of boxes. --depth and --open say how many groups are open;
--around draws the neighbourhood of a value.

--profile shows measured times beside the predicted ones, as text and as a second bar.
--strategies A,B draws two plans side by side. A box that differs has a marked corner and lines that begin
with ≠; a box that only one plan has, has a line that begins with +.

OUT.svg is a picture. OUT.html is a self-contained page with search, zoom and an overview; clicking a group
opens it, and clicking a step shows its details and what graphrun explain prints for its values. OUT.dot is
a graph in Graphviz's language.`,
		Example: `  graphrun view examples/models/residual.json -o residual.svg
  graphrun view examples/models/residual.json -o written.svg --as-written
  graphrun view model.onnx -o model.html --strategy channels_last --pin conv1=impl:nchw
  graphrun bench model.onnx --profile --json > times.json
  graphrun view model.onnx -o times.html --profile times.json
  graphrun view model.onnx -o both.html --strategies propagate,optimal
  graphrun view model.onnx -o part.svg --around /layer1/layer1.0/Add_output_0 --hops 3
  graphrun view model.onnx -o model.svg --open layer1/layer1.0 --direction horizontal
  graphrun view model.json -o model.dot && dot -Tpdf -O model.dot`,
		Args:              command.OneFile,
		ValidArgsFunction: command.CompleteGraph,
		RunE: exit.WithExitCode(func(cmd *cobra.Command, args []string) error {
			return run(cmd, args[0], f)
		}),
	}
	cmd.Flags().StringVarP(&f.out, "output", "o", "", "write to `FILE`: .svg, .html or .dot (required)")
	_ = cmd.MarkFlagFilename("output", "svg", "html", "dot")
	f.ext.StrategyFlag(cmd, &f.strategy)
	f.slack.AddFlag(cmd)
	cmd.Flags().BoolVar(&f.asWritten, "as-written", false, "draw the graph without a plan")
	cmd.Flags().StringSliceVar(&f.strategies, "strategies", nil, "draw the plans of strategies `A,B` side by side")
	_ = cmd.RegisterFlagCompletionFunc("strategies", f.ext.CompleteStrategies)
	cmd.Flags().StringVar(&f.profile, "profile", "",
		"show the measured times of `FILE`, the output of bench --profile --json or plan --measure --json")
	_ = cmd.MarkFlagFilename("profile", "json")
	f.addDrawingFlags(cmd)
	command.FusionFlag(cmd, &f.noFusion)
	command.ExactFlag(cmd, &f.exact)
	command.DeviceFlag(cmd, &f.device)
	command.CostsFlag(cmd, &f.costs)
	command.DimFlag(cmd, &f.dims)
	command.PinFlag(cmd, &f.pins)
	return cmd
}

// check validates the flags and reads the cost profile.
func (f *flags) check(cmd *cobra.Command) (*pricing.Profile, error) {
	switch ext := filepath.Ext(f.out); {
	case f.out == "" || ext == "":
		return nil, exit.UsageErrorf("view wants -o OUT.svg, OUT.html or OUT.dot")
	case !slices.Contains([]string{".svg", ".html", ".dot"}, ext):
		return nil, exit.UsageErrorf("-o %s: the extension of the file must be .svg, .html or .dot", f.out)
	}
	if err := f.checkDrawing(cmd); err != nil {
		return nil, err
	}
	if err := f.checkPair(cmd); err != nil {
		return nil, err
	}
	if err := f.checkStrategy(cmd); err != nil {
		return nil, err
	}
	if err := outfile.CheckWritable("-o", f.out); err != nil {
		return nil, err
	}
	return command.CostProfile(cmd, f.costs)
}

// checkStrategy validates --strategy, --as-written, and the flags that require a plan.
func (f *flags) checkStrategy(cmd *cobra.Command) error {
	if f.asWritten {
		for _, flag := range []string{"strategy", "strategies", "costs", "device", "exact", "no-fusion", "profile", "slack"} {
			if cmd.Flags().Changed(flag) {
				return exit.UsageErrorf("--%s concerns plans, but --as-written draws the graph without a plan", flag)
			}
		}
		return nil
	}
	if len(f.strategies) > 0 {
		return f.slack.Check(cmd, f.strategies...)
	}
	return cmp.Or(f.ext.CheckStrategy(f.strategy), f.slack.Check(cmd, f.strategy))
}

// run loads a graph, plans it if a strategy is given, and writes its drawing.
func run(cmd *cobra.Command, path string, f flags) error {
	costProfile, err := f.check(cmd)
	if err != nil {
		return err
	}
	isDefault := !cmd.Flags().Changed("strategy") // of --strategy
	job := progress.Begin(cmd, filepath.Base(path))
	defer job.End()
	var g *graph.Graph
	err = job.Do(progress.Loading, func() (err error) {
		g, err = f.ext.LoadWithPins(job.Context, path, f.dims, f.pins)
		return err
	})
	if err != nil {
		return err
	}
	var text []byte
	var drawing *picture
	err = job.Do(progress.Planning, func() (err error) {
		text, drawing, err = f.render(job.Context, path, g, costProfile, isDefault)
		return err
	})
	job.End()
	if interruptErr := exit.InterruptError(job.Context); interruptErr != nil {
		return interruptErr
	}
	command.PrintNotes(cmd, path, g)
	if err != nil {
		return program.WithFile(path, err)
	}
	job.Enter(progress.Writing)
	err = outfile.Write(cmd.Context(), f.out, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	if err != nil {
		return err
	}
	term.StdoutDisplay(cmd).WriteSentences(cmd.OutOrStdout(), drawing.answers(f.out)...)
	return nil
}

// render returns the content of the output file, and the picture of the graph or of its plan. isDefault says that the
// strategy was not given: a graph that cannot be planned as a whole is then drawn as written.
func (f *flags) render(ctx context.Context, path string, g *graph.Graph, costProfile *pricing.Profile,
	isDefault bool) ([]byte, *picture, error) {
	title := command.FileLabel(path)
	if len(f.strategies) > 0 {
		return f.renderPair(ctx, title, g, costProfile)
	}
	drawnGraph := g
	var compiled *graphrun.Program // nil for a graph as written
	var plan *report.Plan          // nil for a graph as written
	isPlannable := command.RejectDynamic(g, "") == nil
	if !f.asWritten && (isPlannable || !isDefault || f.profile != "") {
		var err error
		if compiled, err = f.compile(ctx, g, f.strategy, costProfile); err != nil {
			return nil, nil, err
		}
		drawnGraph, plan = compiled.Graph(), compiled.Report()
	}
	times := ""
	if plan != nil {
		sizes, err := command.SizesOf(g, f.dims)
		if err != nil {
			return nil, nil, err
		}
		if times, err = f.addTimes(plan, sizes); err != nil {
			return nil, nil, err
		}
	}
	drawing := pictureOf(title, drawnGraph, plan)
	if times != "" {
		drawing.remarks = append(drawing.remarks, times)
	}
	if plan == nil {
		drawing.remarks = append(drawing.remarks, fmt.Sprintf("as written: %s, %s", format.Count(len(g.Nodes), "node"),
			format.Count(len(g.Constants), "constant")))
	}
	drawing.addSizes(g)
	switch {
	case plan != nil && isDefault:
		drawing.remarks = append(drawing.remarks, "the plan that graphrun plan shows; --as-written draws the "+
			"graph of the file")
	case f.asWritten && isPlannable:
		drawing.remarks = append(drawing.remarks, "the graph of the file; without --as-written, its plan is drawn")
	case plan == nil:
		drawing.remarks = append(drawing.remarks, "the graph of the file: shapes depend on data, and graphrun plan shows "+
			"the parts that are planned during a run")
	}
	drawing, err := f.neighbourhood(drawing)
	if err != nil {
		return nil, nil, err
	}
	root, err := f.groupTree(drawing)
	if err != nil {
		return nil, nil, err
	}
	text, err := f.encode(ctx, drawing, root, newExplainer(g, compiled))
	return text, drawing, err
}

// compile plans a graph with a strategy.
func (f *flags) compile(ctx context.Context, g *graph.Graph, strategy string,
	costProfile *pricing.Profile) (*graphrun.Program, error) {
	if err := command.RejectDynamic(g, "the graph runs in segments, which graphrun plan shows"); err != nil {
		return nil, err
	}
	return f.ext.Compile(ctx, g, graphrun.Options{Strategy: f.ext.Strategy(strategy), NoFusion: f.noFusion, Exact: f.exact,
		Device: f.device, Costs: costProfile, Slack: f.slack.Option(),
		MemoryLimit: -1}) // unlimited: the plan may be for another machine
}

// neighbourhood returns the excerpt of a picture around the value that --around names. Without --around it returns the
// whole picture.
func (f *flags) neighbourhood(drawing *picture) (*picture, error) {
	if f.around == "" {
		return drawing, nil
	}
	excerpt, found := drawing.around(f.around, f.hops)
	if !found {
		return nil, exit.UsageErrorf("--around %s: no box of the picture has this value%s", f.around,
			suggest.ForUnknown(f.around, "values", drawing.valueNames))
	}
	return excerpt, nil
}

// encode returns a picture in the format of the output file. explainers has an explainer for each plan of the
// picture, which only the HTML format uses.
func (f *flags) encode(ctx context.Context, drawing *picture, root *item, explainers ...*explainer) ([]byte, error) {
	ext := filepath.Ext(f.out)
	if ext == ".dot" {
		isWholeGraph := f.around == "" && drawing.graph != nil && root.isUnfolded()
		if isWholeGraph && f.direction != horizontal {
			return dot.Marshal(drawing.graph)
		}
		return drawing.dot(root, f.direction == horizontal), nil
	}
	drawsAll := ext == ".html" // a click opens a folded group
	scene, err := drawing.newScene(root, f.direction == horizontal, drawsAll)
	if errors.Is(err, graphdraw.ErrTooLarge) {
		return nil, fmt.Errorf("the graph is %w: draw a part with --depth or --around, or let Graphviz draw "+
			"the file of graphrun view -o OUT.dot", err)
	}
	if err != nil {
		return nil, err
	}
	if ext == ".svg" {
		return scene.svg(), nil
	}
	return scene.page(ctx, explainers...)
}

// addSizes adds a remark with the sizes of symbols.
func (p *picture) addSizes(g *graph.Graph) {
	sizes, assumed := g.BoundSizes(), g.Assumed()
	var texts []string
	for _, name := range sorted.Keys(sizes) {
		text := fmt.Sprintf("%s=%d", name, sizes[name])
		if _, isAssumed := assumed[name]; isAssumed {
			text += " (assumed)"
		}
		texts = append(texts, text)
	}
	if len(texts) > 0 {
		p.remarks = append(p.remarks, "for "+strings.Join(texts, ", "))
	}
}
