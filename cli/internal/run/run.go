// Package run implements "graphrun run".
package run

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/arrays"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// flags are the options of the command.
type flags struct {
	ext       *command.Extensions
	sources   inputs.Sources
	keepGoing bool
	outputs   string // the path of the file to write; empty for none
	json      bool

	// The compilation of the graph.
	strategy        string
	slack           command.Slack
	caches          command.Caches
	dims, pins      []string
	hints           []map[string]int // the sizes of --dim: see command.SplitHints
	threads         int
	noFusion, exact bool
	device, costs   string
	cache           command.Cache
	tuned           string         // path of the file of --tuned; empty for none
	tunedResult     *pricing.Tuned // of the file
}

// Command returns the command run.
func Command(ext *command.Extensions) *cobra.Command {
	f := flags{ext: ext}
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run a graph and print its outputs",
		Long: `Plans and runs a graph, and prints a line for each output: name, dtype, shape, strides, and
the least, greatest and mean value.

Inputs come from --inputs and --input, in logical (row-major) order; they are copied into the
layouts that the graph declares. An input with a default, which ONNX models may have, keeps it if no
array is given. Other inputs are generated from --seed, and a note says so. The generated values are
the same for every strategy and layout: real numbers from -1 to 1, and integers from 0 to 9 or, for an
index, below the size that it indexes. The size of a symbol comes from --dim or from the shapes of
arrays; without either, it is the hint of the symbol or, without a hint, the least size above 1 within
its bounds.

With --keep-going, failures do not end the run. Each node that is rejected or fails, each input or
constant that cannot be read, and each result for which memory is missing is reported with its
reason, and so is every output that depends on one of them. The other outputs are computed.

--outputs is written atomically: if the run fails, an existing file is unchanged.

In .npz and .npy files, bfloat16 values are stored as uint16 bit patterns. Strings, which are
inputs and outputs of some ONNX models, are arrays with numpy's dtype U or S.`,
		Example: `  graphrun run examples/models/residual.json
  graphrun run model.onnx --seed 3 --json
  graphrun run model.json --inputs in.npz --outputs out.npz
  graphrun run model.json --input x=x.npy --dim N=8 --strategy channels_last --threads 4`,
		Args:              command.OneFile,
		ValidArgsFunction: command.CompleteGraph,
		RunE: exit.WithExitCode(func(cmd *cobra.Command, args []string) error {
			return run(cmd, args[0], f)
		}),
	}
	flagSet := cmd.Flags()
	f.sources.AddFlags(cmd)
	flagSet.StringVar(&f.outputs, "outputs", "", "write all outputs to `FILE.npz`, in logical order")
	flagSet.BoolVar(&f.keepGoing, "keep-going", false, "continue past failed nodes and compute the other outputs; "+
		"the exit code is then 1")
	flagSet.BoolVar(&f.json, "json", false, "print JSON")
	command.HintFlag(cmd, &f.dims)
	command.PinFlag(cmd, &f.pins)
	f.ext.StrategyFlag(cmd, &f.strategy)
	f.slack.AddFlag(cmd)
	f.caches.AddFlag(cmd)
	command.FusionFlag(cmd, &f.noFusion)
	command.ExactFlag(cmd, &f.exact)
	command.DeviceFlag(cmd, &f.device)
	command.CostsFlag(cmd, &f.costs)
	command.ThreadsFlag(cmd, &f.threads)
	f.cache.AddFlags(cmd)
	command.TunedFlag(cmd, &f.tuned)
	cmd.MarkFlagFilename("outputs", "npz")
	return cmd
}

// run loads a graph and its inputs, compiles and runs it, and prints and writes its outputs.
func run(cmd *cobra.Command, path string, f flags) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	costProfile, err := command.CostProfile(cmd, f.costs)
	if err != nil {
		return err
	}
	if f.dims, f.hints, err = command.SplitHints(f.dims); err != nil {
		return err
	}
	f.sources.KeepGoing, f.sources.Cache = f.keepGoing, f.cache.Option()
	command.LimitGarbage()
	job := progress.Begin(cmd, filepath.Base(path))
	defer job.End()
	var work runWork
	err = job.Do(progress.Loading, func() (err error) { work, err = loadWork(job.Context, path, f); return err })
	if err != nil {
		return err
	}
	// The notes are printed after the run, and also if planning or the run fails.
	printNotes := sync.OnceFunc(func() {
		job.End()
		command.PrintNotes(cmd, path, work.runGraph)
		work.incomplete.printError(cmd, path)
		work.inputs.Print(cmd)
	})
	defer printNotes()
	var compiled *graphrun.Program
	err = job.Do(progress.Planning, func() (err error) {
		compiled, err = f.ext.Compile(job.Context, work.runGraph, f.compileOptions(job, costProfile))
		return err
	})
	if err != nil {
		return err
	}
	var out map[string]*tensor.Tensor
	err = job.Do(progress.Running, func() (err error) {
		values, err := compiled.CachesOf(work.inputs.Values)
		if err == nil {
			out, err = compiled.Run(job.Context, values)
		}
		return err
	})
	if err := work.merge(out, err); err != nil {
		return work.inputs.HintAtGeneratedValues(err)
	}
	printNotes()
	command.NoteUnplanned(cmd, path, compiled)
	command.NoteMemoryLimit(cmd, compiled)
	if err := work.writeOutputs(job, cmd, out, f); err != nil {
		return err
	}
	work.inputs.NoteNaN(cmd, out)
	if work.incomplete.hasFailures() {
		return &exit.Error{Code: exit.CodeFailed}
	}
	return nil
}

// check validates the flags.
func (f *flags) check(cmd *cobra.Command) error {
	if err := f.ext.CheckStrategy(f.strategy); err != nil {
		return err
	}
	if err := cmp.Or(f.slack.Check(cmd, f.strategy), f.caches.Check()); err != nil {
		return err
	}
	var err error
	if f.tunedResult, err = command.Tuned(f.tuned); err != nil {
		return err
	}
	if err := f.cache.Check(cmd); err != nil {
		return err
	}
	if err := f.sources.Check(cmd); err != nil {
		return err
	}
	if err := command.CheckThreads(f.threads); err != nil {
		return err
	}
	return outfile.CheckWritable("--outputs", f.outputs, ".npz")
}

// loadWork reads, binds and infers the graph, and reads its inputs.
func loadWork(ctx context.Context, path string, f flags) (w runWork, err error) {
	g, given, err := inputs.Load(ctx, f.ext, f.sources, path, f.dims)
	if err != nil {
		return w, err
	}
	if err := command.BindHints(path, g, f.hints); err != nil {
		given.Close()
		return w, err
	}
	w.fileGraph, w.runGraph = g, g
	if f.keepGoing {
		w.incomplete.Failed = given.GraphMistakes
		w.dropInputs(given)
		w.dropRejected()
	} else {
		err = command.Infer(ctx, g)
	}
	if err == nil {
		err = command.ApplyPins(ctx, w.runGraph, w.remainingPins(f.pins))
	}
	if err != nil {
		given.Close()
		return w, err
	}
	if w.inputs, err = f.sources.ReadValues(w.runGraph, given); err == nil {
		w.dropInputs(given)
		w.runGraph = w.runGraph.WithConstantDefaults()
	}
	return w, err
}

// compileOptions returns the options for compiling the graph.
func (f *flags) compileOptions(job *progress.Job, costProfile *pricing.Profile) graphrun.Options {
	return graphrun.Options{Strategy: f.ext.Strategy(f.strategy), Threads: f.threads, Tracer: job,
		InputsInMemory: true, Costs: costProfile, KeepGoing: f.keepGoing, NoFusion: f.noFusion, Exact: f.exact,
		Device: f.device, Progress: job.Enter, Hints: f.hints, Slack: f.slack.Option(), Cache: f.cache.Option(),
		Tuned: f.tunedResult, Caches: f.caches.Option()}
}

// writeOutputs writes the outputs to the file of --outputs, and prints them. With --keep-going it prints the outputs
// even if the file cannot be written.
func (w runWork) writeOutputs(job *progress.Job, cmd *cobra.Command, out map[string]*tensor.Tensor,
	f flags) (err error) {
	if f.outputs != "" {
		err = checkWriteMemory(out)
	}
	if f.outputs != "" && err == nil {
		entries := arrays.Entries(w.runGraph, out)
		if err = arrays.Decode(w.runGraph, entries); err == nil {
			err = outfile.Write(cmd.Context(), f.outputs, func(file io.Writer) error { return npz.WriteNPZ(file, entries) })
		}
	}
	interrupted := cmd.Context().Err() != nil
	if err != nil && (!f.keepGoing || interrupted) {
		return err
	}
	return cmp.Or(err, job.Do(progress.Printing, func() error {
		return printOutputs(outfile.Until(cmd.Context(), cmd.OutOrStdout()), term.StdoutDisplay(cmd), w.runGraph, out, f,
			w.incomplete)
	}))
}

// checkWriteMemory returns an error if writing an output needs more memory than is available. Elements of an output may
// share memory (a broadcast output has strides 0), but the file has every element.
func checkWriteMemory(out map[string]*tensor.Tensor) error {
	for _, name := range sorted.Keys(out) {
		output := out[name]
		if output == nil || output.Bytes() <= output.Storage().Len() {
			continue
		}
		if limit, ok := machine.Fits(output.Bytes()); !ok {
			return exit.Failed(fmt.Errorf("--outputs: output %q needs %s to write all its elements (it takes %s in memory), "+
				"but only %s are available", name, format.Bytes(output.Bytes()), format.Bytes(output.Storage().Len()),
				format.Bytes(limit.Available)))
		}
	}
	return nil
}

// Document is the output of run.
type Document struct {
	Outputs        document.Stream[OutputDoc] `json:"outputs" doc:"The computed outputs, in the order of the graph."`
	Errors         []report.Mistake           `json:"errors,omitzero" doc:"The nodes, inputs and constants that failed, with --keep-going."`
	MissingOutputs []LeftOutDoc               `json:"left_out,omitzero" doc:"The outputs that are missing, with --keep-going."`
	report.Notes
}

// OutputDoc describes a computed output. The tag `of` names the set of a field's strings for the JSON Schema.
type OutputDoc struct {
	Name    string   `json:"name" doc:"The name of the output."`
	DType   string   `json:"dtype" of:"dtype" doc:"The dtype."`
	Shape   []int    `json:"shape" doc:"The sizes of the dimensions."`
	Strides []int    `json:"strides" doc:"The strides in elements."`
	Min     *float64 `json:"min" doc:"The least element; null if it is not finite, and for strings."`
	Max     *float64 `json:"max" doc:"The greatest element; null if it is not finite, and for strings."`
	Mean    *float64 `json:"mean" doc:"The mean of the elements; null if it is not finite, and for strings."`

	Strings []string              `json:"strings,omitzero" doc:"The strings that the elements stand for, in row-major order."`
	Maps    []map[string]*float64 `json:"maps,omitzero" doc:"The maps that the rows stand for; a value that is not finite is null."`

	min, max, mean float64 // may be infinite or NaN

	// A document that is written has labels and values instead of Strings and Maps, which could take much more memory.
	labels graph.Labels
	values *tensor.Tensor
}

// MarshalJSONTo writes the output. It decodes strings and maps one by one.
func (o *OutputDoc) MarshalJSONTo(encoder *jsontext.Encoder) error {
	if err := encoder.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, member := range []struct {
		key   string
		value any
	}{{"name", o.Name}, {"dtype", o.DType}, {"shape", o.Shape}, {"strides", o.Strides}, {"min", o.Min}, {"max", o.Max},
		{"mean", o.Mean}} {
		err := encoder.WriteToken(jsontext.String(member.key))
		if err := cmp.Or(err, json.MarshalEncode(encoder, member.value)); err != nil {
			return err
		}
	}
	list := func(key string, each func(visit func(item any) error) error) error {
		err := cmp.Or(encoder.WriteToken(jsontext.String(key)), encoder.WriteToken(jsontext.BeginArray))
		if err == nil {
			err = each(func(item any) error { return json.MarshalEncode(encoder, item) })
		}
		return cmp.Or(err, encoder.WriteToken(jsontext.EndArray))
	}
	if o.labels.IsText() {
		err := list("strings", func(visit func(item any) error) error {
			return o.labels.Each(o.values, func(_ int, s string) error { return visit(s) })
		})
		if err != nil {
			return err
		}
	}
	if o.labels.IsMap() {
		if err := list("maps", o.eachMap); err != nil {
			return err
		}
	}
	return encoder.WriteToken(jsontext.EndObject)
}

// eachMap calls visit with each map, a map[string]*float64. A value that is not finite is nil.
func (o *OutputDoc) eachMap(visit func(item any) error) error {
	values := map[string]*float64{}
	return o.labels.EachMap(o.values, func(row map[string]float64) error {
		for key, value := range row {
			values[key] = finite(value)
		}
		return visit(values)
	})
}

// documentOf returns the document of a run. out has the outputs; missing is used if keepGoing is true.
func documentOf(g *graph.Graph, out map[string]*tensor.Tensor, keepGoing bool, missing incomplete) *Document {
	doc := &Document{Notes: g.Notes()}
	doc.Outputs = document.StreamOf(arrays.Entries(g, out), func(entry npz.Entry) OutputDoc {
		values := entry.Tensor
		least, greatest, mean := values.Stats()
		output := OutputDoc{Name: entry.Name, DType: values.DType.String(), Shape: program.NotNil(values.Shape),
			Strides: program.NotNil(values.Strides), Min: finite(least), Max: finite(greatest), Mean: finite(mean),
			min: least, max: greatest, mean: mean}
		output.addLabels(g.Labels[entry.Name], values)
		return output
	})
	if keepGoing {
		doc.Errors, doc.MissingOutputs = document.Mistakes(missing.Failed), missing.docs()
	}
	return doc
}

// addLabels sets the labels of t. If an element encodes no string, addLabels sets none. An example is the code -1 of a
// generated input.
func (o *OutputDoc) addLabels(labels graph.Labels, t *tensor.Tensor) {
	if labels.IsText() && labels.Each(t, func(int, string) error { return nil }) != nil {
		labels.Texts = nil
	}
	if labels.IsText() { // codes have no order
		o.Min, o.Max, o.Mean = nil, nil, nil
	}
	o.labels, o.values = labels, t
}

// printOutputs prints a line for each output: name, dtype, shape, strides and statistics.
func printOutputs(w io.Writer, display term.Display, g *graph.Graph, out map[string]*tensor.Tensor, f flags,
	missing incomplete) error {
	buffer := bufio.NewWriter(w)
	doc := documentOf(g, out, f.keepGoing, missing)
	if f.json {
		document.Write(buffer, doc)
		return buffer.Flush()
	}
	table := term.NewTable(term.NameCol(""), term.UntruncatedCol(""), term.ListCol(""), term.ListCol(""),
		term.UntruncatedCol(""), term.UntruncatedCol(""), term.UntruncatedCol(""))
	for output := range doc.Outputs {
		cells := []any{output.Name, output.DType, format.Ints(output.Shape), "strides " + format.Ints(output.Strides)}
		switch {
		case output.labels.IsText():
			cells = append(cells, "strings "+firstOf(output.values.Numel(), func(visit func(item string) error) error {
				return output.labels.Each(output.values, func(_ int, s string) error { return visit(strconv.Quote(s)) })
			}))
		case output.labels.IsMap():
			rows := output.values.Numel() / max(output.values.Shape[output.values.Rank()-1], 1)
			cells = append(cells, "maps "+firstOf(rows, func(visit func(item string) error) error {
				return output.eachMap(func(row any) error { return visit(mapText(row.(map[string]*float64))) })
			}))
		default:
			cells = append(cells, "min "+statistic(output.min), "max "+statistic(output.max), "mean "+statistic(output.mean))
		}
		table.Add(cells...)
	}
	table.Write(buffer, display)
	return buffer.Flush()
}

// firstOf returns the first of count items, as in a, b, c, d and 3 more. each calls a function for each item, until the
// function returns an error.
func firstOf(count int, each func(visit func(item string) error) error) string {
	const maxListed = 4
	var list []string
	_ = each(func(item string) error {
		if list = append(list, item); len(list) == maxListed {
			return errors.New("the other items are not listed")
		}
		return nil
	})
	text := strings.Join(list, ", ")
	if omitted := count - len(list); omitted > 0 {
		text += fmt.Sprintf(" and %d more", omitted)
	}
	return text
}

// mapText formats a map as in {a: 0.25, b: 0.75}, sorted by key.
func mapText(row map[string]*float64) string {
	entries := make([]string, 0, len(row))
	for _, key := range sorted.Keys(row) {
		value := "null"
		if row[key] != nil {
			value = statistic(*row[key])
		}
		entries = append(entries, key+": "+value)
	}
	return "{" + strings.Join(entries, ", ") + "}"
}

// finite returns nil for infinities and NaN, for which JSON has no literals.
func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// statistic formats a statistic with six digits.
func statistic(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }
