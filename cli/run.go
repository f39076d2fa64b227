package cli

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

type runFlags struct {
	src             sources
	outputs         string
	dims            []string
	hints           []map[string]int
	pins            []string
	strategy        string
	costs           string
	threads         int
	keepGoing       bool
	noFusion, exact bool
	json            bool
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
every strategy and layout: real numbers from -1 to 1, integers from 0 to 9, or below the size of
what they index. A note says so. Symbols get their sizes from --dim, else from the given inputs,
else the least size over 1 within their bounds.

With --keep-going, whatever can be made is made: a node that is refused when the graph is loaded,
converted, inferred, planned or compiled, that fails while it runs, or for whose result there is no
memory, an input or a constant that cannot be read, or is none of the graph's, is named with its
reason, and so is every output that is left out because of it.

--outputs is written as a whole or not at all: when the run fails, a file that was there stays.

In .npz and .npy files bfloat16 values are written as uint16 bit patterns.`,
		Example: `  graphrun run examples/models/residual.json
  graphrun run model.onnx --seed 3 --json
  graphrun run model.json --inputs in.npz --outputs out.npz
  graphrun run model.json --input x=x.npy --dim N=8 --strategy channels_last --threads 4`,
		Args:              oneFile,
		ValidArgsFunction: completeGraph,
		RunE: action(func(cmd *cobra.Command, args []string) error {
			return run(cmd, args[0], f)
		}),
	}
	fl := cmd.Flags()
	f.src.add(cmd)
	fl.StringVar(&f.outputs, "outputs", "", "write all outputs to `FILE.npz`, in logical order")
	fl.BoolVar(&f.keepGoing, "keep-going", false, "leave out what fails and what depends on it, and deliver the rest; "+
		"the exit code is then 1")
	fl.BoolVar(&f.json, "json", false, "print JSON")
	hintFlag(cmd, &f.dims)
	pinFlag(cmd, &f.pins)
	strategyFlag(cmd, &f.strategy)
	fusionFlag(cmd, &f.noFusion)
	exactFlag(cmd, &f.exact)
	costsFlag(cmd, &f.costs)
	threadsFlag(cmd, &f.threads)
	cmd.MarkFlagFilename("outputs", "npz")
	return cmd
}

func run(cmd *cobra.Command, path string, f runFlags) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	costs, err := pricesOf(cmd, f.costs)
	if err != nil {
		return err
	}
	if f.dims, f.hints, err = splitHints(f.dims); err != nil {
		return err
	}
	f.src.keepGoing = f.keepGoing
	collectEarly()
	j := begin(cmd, filepath.Base(path))
	defer j.end()
	var w runWork
	if err := j.do(loading, func() (err error) { w, err = loadRun(j.ctx, path, f); return err }); err != nil {
		return err
	}
	aside := sync.OnceFunc(func() {
		j.end()
		tell(cmd, path, w.g)
		w.left.printError(cmd, path)
		w.in.say(cmd)
	})
	defer aside()
	var p *graphrun.Program
	err = j.do(planning, func() (err error) {
		p, err = compile(j.ctx, w.g, graphrun.Options{Strategy: strategyOf(f.strategy), Threads: f.threads,
			Tracer: j, InputsHeld: true, Costs: costs, KeepGoing: f.keepGoing, NoFusion: f.noFusion, Exact: f.exact,
			Progress: j.enter, Hints: f.hints})
		return err
	})
	if err != nil {
		return err
	}
	var out map[string]*tensor.Tensor
	err = j.do(running, func() (err error) { out, err = p.Run(j.ctx, w.in.values); return err })
	if err := w.omit(out, err); err != nil {
		return w.in.blame(err)
	}
	aside()
	noteRefused(cmd, path, p)
	noteLimit(cmd, p)
	if err := w.deliver(j, cmd, out, f); err != nil {
		return err
	}
	if w.left.any() {
		return &exitError{code: exitFailed}
	}
	return nil
}

func (f *runFlags) check(cmd *cobra.Command) error {
	if err := checkStrategy(f.strategy); err != nil {
		return err
	}
	if f.outputs != "" && filepath.Ext(f.outputs) != ".npz" {
		return wrongf("--outputs %s: want a .npz file", f.outputs)
	}
	if err := f.src.check(cmd); err != nil {
		return err
	}
	if err := checkThreads(f.threads); err != nil {
		return err
	}
	return checkWritable("--outputs", f.outputs)
}

func loadRun(ctx context.Context, path string, f runFlags) (w runWork, err error) {
	g, given, err := loadFor(ctx, f.src, path, f.dims)
	if err != nil {
		return w, err
	}
	if err := bindHint(path, g, f.hints); err != nil {
		given.close()
		return w, err
	}
	w.whole, w.g = g, g
	if f.keepGoing {
		w.left.Failed = given.missing
		w.lose(given)
		w.refuse()
	} else {
		err = inferStrictly(ctx, g)
	}
	if err == nil {
		err = applyPins(ctx, w.g, w.pinned(f.pins))
	}
	if err != nil {
		given.close()
		return w, err
	}
	if w.in, err = f.src.values(w.g, given); err == nil {
		w.lose(given)
	}
	return w, err
}

// deliver writes the outputs to the file that was asked for, and prints them. One that keeps going
// prints them even if they cannot be written.
func (w runWork) deliver(j *job, cmd *cobra.Command, out map[string]*tensor.Tensor, f runFlags) (err error) {
	if f.outputs != "" {
		err = checkWritten(out)
	}
	if f.outputs != "" && err == nil {
		err = writeWhole(cmd.Context(), f.outputs, func(file io.Writer) error {
			return npz.WriteNPZ(file, entries(w.g, out))
		})
	}
	if err != nil && !(f.keepGoing && cmd.Context().Err() == nil) {
		return err
	}
	return cmp.Or(err, j.do(printing, func() error {
		return printOutputs(cmd.OutOrStdout(), shown(cmd), w.g, out, f, w.left)
	}))
}

// checkWritten refuses outputs that share memory among their elements and would take more than the process may have
// when every element is written.
func checkWritten(out map[string]*tensor.Tensor) error {
	for _, name := range slices.Sorted(maps.Keys(out)) {
		t := out[name]
		if t == nil || t.Bytes() <= t.Storage().Len() {
			continue
		}
		if l, ok := machine.Fits(t.Bytes()); !ok {
			return failed(fmt.Errorf("--outputs: output %q takes %s when all its elements are written, %s in memory; "+
				"%s are left", name, byteSize(t.Bytes()), byteSize(t.Storage().Len()), byteSize(l.Left)))
		}
	}
	return nil
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
func printOutputs(w io.Writer, show display, g *graph.Graph, out map[string]*tensor.Tensor, f runFlags,
	left omissions) error {
	buf := bufio.NewWriter(w)
	r := runReportOf(g, out, f.keepGoing, left)
	if f.json {
		writeDocument(buf, r)
		return buf.Flush()
	}
	t := newTable(nameCol(""), wholeCol(""), listCol(""), listCol(""), wholeCol(""), wholeCol(""), wholeCol(""))
	for o := range r.Outputs {
		t.add(o.Name, o.DType, ints(o.Shape), "strides "+ints(o.Strides),
			"min "+number(o.least), "max "+number(o.most), "mean "+number(o.mean))
	}
	t.write(buf, show)
	return buf.Flush()
}

// runReport is what run prints.
type runReport struct {
	Outputs stream[outputDoc] `json:"outputs" doc:"The outputs that there are, in the order of the graph."`
	Errors  []report.Mistake  `json:"errors,omitzero" doc:"The nodes, inputs and constants that failed, with --keep-going."`
	LeftOut []leftOutDoc      `json:"left_out,omitzero" doc:"The outputs that are missing, with --keep-going."`
	report.Notes
}

type outputDoc struct {
	Name    string   `json:"name" doc:"The name of the output."`
	DType   string   `json:"dtype" of:"dtype" doc:"The type of its elements."`
	Shape   []int    `json:"shape" doc:"Its sizes."`
	Strides []int    `json:"strides" doc:"Steps between elements, in elements."`
	Min     *float64 `json:"min" doc:"The least element; null where that is no finite number."`
	Max     *float64 `json:"max" doc:"The greatest element; null where that is no finite number."`
	Mean    *float64 `json:"mean" doc:"The mean of its elements; null where that is no finite number."`

	least, most, mean float64 // not finite ones too
}

func runReportOf(g *graph.Graph, out map[string]*tensor.Tensor, keepGoing bool, left omissions) *runReport {
	r := &runReport{Notes: report.NotesOf(g)}
	r.Outputs = streamOf(entries(g, out), func(e npz.Entry) outputDoc {
		v := e.Tensor
		least, most, mean := v.Stats()
		return outputDoc{e.Name, v.DType.String(), filled(v.Shape), filled(v.Strides),
			finite(least), finite(most), finite(mean), least, most, mean}
	})
	if keepGoing {
		r.Errors, r.LeftOut = errorsOf(left.Failed), left.docs()
	}
	return r
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
