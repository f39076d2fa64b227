package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

type runFlags struct {
	src       sources
	outputs   string
	dims      []string
	strategy  string
	threads   int
	keepGoing bool
	json      bool
}

func runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run a graph and print its outputs",
		Long: `Plans and runs a graph, and prints a line for each output: name, dtype, shape, strides, and
the least, greatest and mean value.

Inputs come from --inputs and --input, in logical (row-major) order; they are placed into the
layouts that the graph declares. Without any of these they are made from --seed, the same for
every strategy and layout. Symbols get their sizes from --dim, else from the given inputs,
else the least size over 1 within their bounds.

In .npz and .npy files bfloat16 values stand as uint16 bit patterns.`,
		Example: `  graphrun run examples/models/residual.json
  graphrun run model.json --inputs in.npz --outputs out.npz
  graphrun run model.json --input x=x.npy --dim N=8 --strategy channels_last --threads 4`,
		Args:              oneFile,
		ValidArgsFunction: completeGraph,
		RunE: action(func(cmd *cobra.Command, args []string) error {
			f.src.makeUp = cmd.Flags().Changed("seed")
			return run(cmd, args[0], f)
		}),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.src.archive, "inputs", "", "read inputs from the arrays of a .npz file")
	fl.StringArrayVar(&f.src.files, "input", nil, "read one input, as in NAME=FILE.npy (repeatable)")
	fl.StringVar(&f.outputs, "outputs", "", "write all outputs to a .npz file, in logical order")
	fl.Uint64Var(&f.src.seed, "seed", 0, "seed of made-up inputs")
	fl.BoolVar(&f.keepGoing, "keep-going", false, "drop refused nodes and what depends on them; the exit code is then 1")
	fl.BoolVar(&f.json, "json", false, "print JSON")
	dimFlag(cmd, &f.dims)
	strategyFlag(cmd, &f.strategy)
	threadsFlag(cmd, &f.threads)
	cmd.MarkFlagFilename("inputs", "npz")
	cmd.MarkFlagFilename("outputs", "npz")
	return cmd
}

func run(cmd *cobra.Command, path string, f runFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	g, in, refused, err := loadRun(path, f)
	if err != nil {
		return err
	}
	tell(cmd.ErrOrStderr(), path, g)
	for _, e := range refused {
		report(cmd.ErrOrStderr(), e)
	}
	var m meter
	r, err := exec.NewRunner(g, planner(f.strategy), exec.Options{Threads: f.threads, Progress: m.report})
	if err != nil {
		return err
	}
	out, err := withProgress(cmd.ErrOrStderr(), g.Name, &m, func() (map[string]*tensor.Tensor, error) {
		return r.Run(cmd.Context(), in)
	})
	if err != nil {
		return runError(cmd.Context(), err)
	}
	if f.outputs != "" {
		if err := npz.WriteFile(f.outputs, entries(g, out)); err != nil {
			return err
		}
	}
	if err := printOutputs(cmd.OutOrStdout(), g, out, f.json); err != nil {
		return err
	}
	if len(refused) > 0 {
		return &exitError{code: exitFailed}
	}
	return nil
}

func (f runFlags) check() error {
	if err := checkStrategy(f.strategy); err != nil {
		return err
	}
	if f.outputs != "" && filepath.Ext(f.outputs) != ".npz" {
		return wrongf("--outputs %s: want a .npz file", f.outputs)
	}
	return checkThreads(f.threads)
}

// loadRun returns the graph, bound and inferred, and values for its inputs. With
// --keep-going it is without the refused nodes.
func loadRun(path string, f runFlags) (*graph.Graph, map[string]*tensor.Tensor, []*graph.Error, error) {
	dims, err := parseDims(f.dims)
	if err != nil {
		return nil, nil, nil, err
	}
	open := loadGraphFor
	if isONNX(path) {
		open = loadModelFor
	}
	g, given, err := open(f.src, path, dims)
	if err != nil {
		return nil, nil, nil, err
	}
	var errs []*graph.Error
	if f.keepGoing {
		refused := g.InferAll()
		errs = inOrder(refused)
		g = g.Drop(refused)
	} else if err := inferStrictly(g); err != nil {
		return nil, nil, nil, err
	}
	in, err := f.src.values(g, given)
	return g, in, errs, err
}

// loadGraphFor reads a graph file and the values of its inputs, whose shapes bind its
// symbols together with dims.
func loadGraphFor(src sources, path string, dims map[string]int) (*graph.Graph, map[string]*tensor.Tensor, error) {
	g, err := parseGraph(path)
	if err != nil {
		return nil, nil, err
	}
	given, err := src.read(g)
	if err != nil {
		return nil, nil, err
	}
	if err := dimsOf(g, given, dims); err != nil {
		return nil, nil, err
	}
	if err := g.BindOnly(dims); err != nil {
		return nil, nil, wrong(named(path, err))
	}
	return g, given, nil
}

// runError says that a run was interrupted, where it was.
func runError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted")
	}
	return err
}

// entries lists the outputs in the graph's order.
func entries(g *graph.Graph, out map[string]*tensor.Tensor) []npz.Entry {
	list := make([]npz.Entry, 0, len(g.Outputs))
	for _, o := range g.Outputs {
		list = append(list, npz.Entry{Name: o.Name, Tensor: out[o.Name]})
	}
	return list
}

// printOutputs prints a line for each output: name, dtype, shape, strides and statistics.
func printOutputs(w io.Writer, g *graph.Graph, out map[string]*tensor.Tensor, asJSON bool) error {
	buf := bufio.NewWriter(w)
	if asJSON {
		d := newDocument(buf)
		d.list("outputs", len(g.Outputs), func(i int) any {
			o := g.Outputs[i]
			v := out[o.Name]
			least, most, mean := v.Stats()
			return outputDoc{o.Name, v.DType.String(), filled(v.Shape), filled(v.Strides), finite(least), finite(most), finite(mean)}
		})
		d.told(g)
		d.end()
		return buf.Flush()
	}
	var t columns
	for _, o := range g.Outputs {
		v := out[o.Name]
		least, most, mean := v.Stats()
		t.add(o.Name, v.DType, ints(v.Shape), "strides "+ints(v.Strides),
			"min "+number(least), "max "+number(most), "mean "+number(mean))
	}
	t.write(buf)
	return buf.Flush()
}

type outputDoc struct {
	Name    string   `json:"name"`
	DType   string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Strides []int    `json:"strides"`
	Min     *float64 `json:"min"`
	Max     *float64 `json:"max"`
	Mean    *float64 `json:"mean"`
}

// finite returns nil for what JSON has no number for.
func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// number prints a statistic to six digits.
func number(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }
