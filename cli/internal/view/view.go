// Package view is the command that draws a graph as SVG, HTML or DOT.
package view

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
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
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/layered"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/report"
)

type flags struct {
	ext                  *command.Extensions
	out, strategy, costs string
	exact, noFusion      bool
	dims, pins           []string
}

func Command(ext *command.Extensions) *cobra.Command {
	f := flags{ext: ext}
	cmd := &cobra.Command{
		Use:   "view FILE -o OUT.svg|.html|.dot",
		Short: "Draw a graph, or what runs under a strategy",
		Long: `Draws the graph as written, or with --strategy as it will run: a box for every step, with the ops
that it computes, its implementation and its estimated cost; a line for every value, in a colour for how it
lies. Copies that were inserted are dashed and red, with their price and why they are there. Constants are not
drawn: what reads them tells of them. What does not fit into a box is shown where the mouse points.

OUT.svg is a picture. OUT.html is a page of its own, which loads nothing: it can be searched, zoomed and moved,
and shows of a step that is clicked all that is known of it, with what graphrun explain tells of its values.
OUT.dot is the graph in Graphviz's language.`,
		Example: `  graphrun view examples/models/residual.json -o residual.svg --strategy optimal
  graphrun view model.onnx -o model.html --strategy channels_last --pin conv1=impl:nchw
  graphrun view model.json -o model.dot && dot -Tpdf -O model.dot`,
		Args:              command.OneFile,
		ValidArgsFunction: command.CompleteGraph,
		RunE: exit.Coded(func(cmd *cobra.Command, args []string) error {
			return run(cmd, args[0], f)
		}),
	}
	cmd.Flags().StringVarP(&f.out, "output", "o", "", "write to `FILE`: .svg, .html or .dot (required)")
	_ = cmd.MarkFlagFilename("output", "svg", "html", "dot")
	f.ext.StrategyFlag(cmd, &f.strategy)
	cmd.Flags().Lookup("strategy").DefValue = "the graph as written"
	f.strategy = ""
	command.FusionFlag(cmd, &f.noFusion)
	command.ExactFlag(cmd, &f.exact)
	command.CostsFlag(cmd, &f.costs)
	command.DimFlag(cmd, &f.dims)
	command.PinFlag(cmd, &f.pins)
	return cmd
}

// check refuses what cannot be drawn, and reads the profile.
func (f *flags) check(cmd *cobra.Command) (*machine.Profile, error) {
	switch ext := filepath.Ext(f.out); {
	case f.out == "" || ext == "":
		return nil, exit.Wrongf("view wants -o OUT.svg, OUT.html or OUT.dot")
	case !slices.Contains([]string{".svg", ".html", ".dot"}, ext):
		return nil, exit.Wrongf("-o %s: want a file .svg, .html or .dot", f.out)
	}
	if f.strategy == "" {
		for _, flag := range []string{"costs", "exact", "no-fusion"} {
			if cmd.Flags().Changed(flag) {
				return nil, exit.Wrongf("--%s is about what runs, and the graph as written was asked for: add --strategy", flag)
			}
		}
	} else if err := f.ext.CheckStrategy(f.strategy); err != nil {
		return nil, err
	}
	if err := outfile.CheckWritable("-o", f.out); err != nil {
		return nil, err
	}
	return command.Prices(cmd, f.costs)
}

func run(cmd *cobra.Command, path string, f flags) error {
	costs, err := f.check(cmd)
	if err != nil {
		return err
	}
	j := progress.Begin(cmd, filepath.Base(path))
	defer j.End()
	var g *graph.Graph
	err = j.Do(progress.Loading, func() (err error) {
		g, err = f.ext.LoadPinned(j.Context, path, f.dims, f.pins)
		return err
	})
	if err != nil {
		return err
	}
	var text []byte
	err = j.Do(progress.Planning, func() (err error) { text, err = f.drawn(j.Context, path, g, costs); return err })
	j.End()
	if cut := exit.Stopped(j.Context); cut != nil {
		return cut
	}
	command.PrintNotes(cmd, path, g)
	if err != nil {
		return exit.InFile(path, err)
	}
	j.Enter(progress.Writing)
	return outfile.Write(cmd.Context(), f.out, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// drawn is a graph in the language of the output file, as it is written or as it runs under a strategy.
func (f *flags) drawn(ctx context.Context, path string, g *graph.Graph, costs *machine.Profile) ([]byte, error) {
	title := filepath.Base(path)
	runs, p, plan := g, (*graphrun.Program)(nil), (*report.Plan)(nil)
	if f.strategy != "" {
		if err := command.RejectDynamic(g, "the graph runs in segments, which graphrun plan shows"); err != nil {
			return nil, err
		}
		var err error
		p, err = f.ext.Compile(ctx, g, graphrun.Options{Strategy: f.ext.Strategy(f.strategy),
			NoFusion: f.noFusion, Exact: f.exact, Costs: costs, MemoryLimit: -1}) // it may be for another machine
		if err != nil {
			return nil, err
		}
		runs, plan = p.Graph(), p.Report()
	}
	if filepath.Ext(f.out) == ".dot" {
		return runs.DOT()
	}
	drawing := pictured(title, runs, plan)
	if plan == nil {
		drawing.remarks = append(drawing.remarks, fmt.Sprintf("as written: %s, %s", format.Count(len(g.Nodes), "node"),
			format.Count(len(g.Constants), "constant")))
	}
	drawing.tellSizes(g)
	svg, err := drawing.svg()
	if errors.Is(err, layered.ErrTooLarge) {
		return nil, fmt.Errorf("the graph is %w: graphrun view -o OUT.dot leaves the drawing to Graphviz", err)
	}
	if err != nil || filepath.Ext(f.out) == ".svg" {
		return svg, err
	}
	return drawing.page(ctx, svg, g, p)
}

// tellSizes tells for which sizes of symbols the graph is drawn.
func (p *picture) tellSizes(g *graph.Graph) {
	sizes, assumed := g.Bound(), g.Assumed()
	var list []string
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		text := fmt.Sprintf("%s=%d", name, sizes[name])
		if _, is := assumed[name]; is {
			text += " (assumed)"
		}
		list = append(list, text)
	}
	if len(list) > 0 {
		p.remarks = append(p.remarks, "for "+strings.Join(list, ", "))
	}
}
