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

With --keep-going, whatever can be made is made: a node that is refused when the graph is loaded,
inferred, planned or compiled, that fails while it runs, or for whose result there is no memory, is
named with its reason, and so is every output that is left out because of it.

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
	fl.BoolVar(&f.keepGoing, "keep-going", false, "leave out what fails and what depends on it, and deliver the rest; the exit code is then 1")
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
	f.src.keepGoing = f.keepGoing
	f.src.note = func(format string, args ...any) {
		fmt.Fprintf(cmd.ErrOrStderr(), "graphrun: "+format+"\n", args...)
	}
	collectEarly()
	w, err := loadRun(path, f)
	if err != nil {
		return err
	}
	var m meter
	r, err := exec.NewRunner(w.graph, planner(f.strategy, f.keepGoing),
		exec.Options{Threads: f.threads, Progress: m.report, InputsHeld: true, KeepGoing: f.keepGoing})
	if err != nil {
		return err
	}
	noteLimit(f.src.note, r.Program())
	out, err := withProgress(cmd.ErrOrStderr(), w.graph.Name, &m, func() (map[string]*tensor.Tensor, error) {
		return r.Run(cmd.Context(), w.in)
	})
	omitted, err := w.omitted(out, err)
	if err != nil {
		return runError(cmd.Context(), err)
	}
	omitted.report(cmd.ErrOrStderr())
	if f.outputs != "" {
		if err := npz.WriteFile(f.outputs, entries(w.graph, out)); err != nil {
			return err
		}
	}
	if err := printOutputs(cmd.OutOrStdout(), w.graph, out, f, omitted); err != nil {
		return err
	}
	if omitted.any() {
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
func loadRun(path string, f runFlags) (w runWork, err error) {
	dims, err := parseDims(f.dims)
	if err != nil {
		return w, err
	}
	open := loadGraphFor
	if isONNX(path) {
		open = loadModelFor
	}
	g, given, err := open(f.src, path, dims)
	if err != nil {
		return w, err
	}
	w.whole, w.graph = g, g
	if f.keepGoing {
		refused := g.InferAll()
		w.refused = append(given.missing, g.RootErrors(refused)...)
		w.graph = g.Drop(refused)
	} else if err := inferStrictly(g); err != nil {
		return w, err
	}
	w.in, err = f.src.values(w.graph, given)
	return w, err
}

// loadGraphFor reads a graph file and the values of its inputs, whose shapes bind its
// symbols together with dims.
func loadGraphFor(src sources, path string, dims map[string]int) (*graph.Graph, *given, error) {
	parse := parseSome
	if !src.keepGoing {
		parse = func(path string) (*graph.Graph, graph.Errors, error) {
			g, err := parseGraph(path)
			return g, nil, err
		}
	}
	g, missing, err := parse(path)
	if err != nil {
		return nil, nil, err
	}
	given, err := src.read(g)
	if err != nil {
		return nil, nil, err
	}
	given.missing = missing
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

// entries lists the outputs that there are, in the graph's order.
func entries(g *graph.Graph, out map[string]*tensor.Tensor) []npz.Entry {
	list := make([]npz.Entry, 0, len(g.Outputs))
	for _, o := range g.Outputs {
		if out[o.Name] != nil {
			list = append(list, npz.Entry{Name: o.Name, Tensor: out[o.Name]})
		}
	}
	return list
}

// printOutputs prints a line for each output: name, dtype, shape, strides and statistics.
func printOutputs(w io.Writer, g *graph.Graph, out map[string]*tensor.Tensor, f runFlags, left omissions) error {
	buf := bufio.NewWriter(w)
	list := entries(g, out)
	if f.json {
		d := newDocument(buf)
		d.list("outputs", len(list), func(i int) any {
			v := list[i].Tensor
			least, most, mean := v.Stats()
			return outputDoc{list[i].Name, v.DType.String(), filled(v.Shape), filled(v.Strides), finite(least), finite(most), finite(mean)}
		})
		if f.keepGoing {
			left.fields(d)
		}
		d.end()
		return buf.Flush()
	}
	var t columns
	for _, o := range list {
		v := o.Tensor
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
