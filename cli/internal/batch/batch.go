// Package batch implements "graphrun batch".
package batch

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/batch"
	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/progress"
	"github.com/graphrun/graphrun/cli/internal/term"
)

// flags has the values of the flags; help explains them.
type flags struct {
	inputs          []string
	outputs         string
	shard           command.Shard
	retry, status   bool
	dims            []string
	compile         command.Compile
	maxRows         int       // rows that run together
	partSize        int       // inputs that are recorded together
	resize, crop    []int     // height and width, or one number
	mean, deviation []float64 // one number for each channel
}

const help = `Runs a model on many input files, and writes the outputs of each to DIR/NAME.npz. NAME is the path of the input
file without its extension, relative to the folder that precedes the first wildcard in GLOB: for --inputs 'in/*/x.png',
in/a/x.png gives DIR/a/x.npz.

Formats of inputs:
  .npz         an array for each input of the model
  .npy         the only input
  .png .jpg    the only input, [N, C, H, W] or [N, H, W, C]; --resize, --crop, --mean and --deviation act in this order,
               as the transforms of torchvision do (bilinear, with antialiasing)
  .csv         each record is a row of the model's batch dimension; all rows of the file are one input. If the first
               line has names of inputs (x, or x.0, x.1, ... for several fields), it gives the order of the fields
  .jsonl       each line is such a row: an object with a value for each input, or the value of the only input

An output file is written completely or not at all. DIR/.graphrun records the finished inputs, with digests of model,
options, input and output. After an interruption, a kill or a full disk, the same command continues: it skips inputs
with the same digests, and computes at most --part-size inputs again.

Inputs that fail are recorded with their errors. Later runs skip them, unless --retry is given. --status counts
finished, failed and missing inputs, lists errors, and runs nothing.

--shard 3/64 runs the third of 64 shards. In an array job (Kubernetes, AWS Batch, Slurm), --shards 64 runs the shard
with the index of the job's task. The shard of an input depends only on its name. Machines with different vector
instructions may round differently; with GRAPHRUN_TARGET=avx2, all use the same instructions.

The last line is "done N, skipped M, failed K". The exit code is 1 if K > 0.`

// Command returns the command batch.
func Command(ext *command.Extensions) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "batch MODEL --inputs GLOB --outputs DIR",
		Short: "Run a model on many input files, also in parts on several machines",
		Long:  help,
		Example: `  graphrun batch resnet18.onnx --inputs 'images/*.jpg' --outputs results --resize 256 --crop 224 \
    --mean 0.485,0.456,0.406 --deviation 0.229,0.224,0.225
  graphrun batch model.onnx --inputs 'in/*.npz' --outputs out --shard 3/64
  graphrun batch model.onnx --inputs 'in/*.npz' --outputs out --status`,
		Args:              command.OneFile,
		ValidArgsFunction: command.CompleteGraph,
		RunE:              exit.WithExitCode(func(cmd *cobra.Command, args []string) error { return run(cmd, args[0], f) }),
	}
	flagSet := cmd.Flags()
	flagSet.StringArrayVar(&f.inputs, "inputs", nil, "run on the files that match `GLOB` (repeatable)")
	flagSet.StringVar(&f.outputs, "outputs", "", "write outputs to `DIR`")
	_ = cmd.MarkFlagDirname("outputs")
	f.shard.AddFlags(cmd, "inputs")
	flagSet.BoolVar(&f.retry, "retry", false, "run failed inputs again")
	flagSet.BoolVar(&f.status, "status", false, "count finished, failed and missing inputs, and list errors")
	flagSet.IntSliceVar(&f.resize, "resize", nil, "scale images to `H,W`, or their shorter side to one number")
	flagSet.IntSliceVar(&f.crop, "crop", nil, "crop images to their central `H,W` pixels; one number gives a square")
	flagSet.Float64SliceVar(&f.mean, "mean", nil, "subtract `MEAN`, a number for each channel, from images with values "+
		"from 0 to 1")
	flagSet.Float64SliceVar(&f.deviation, "deviation", nil, "divide images by `DEVIATION`, a number for each channel")
	flagSet.IntVar(&f.maxRows, "max-batch-size", 8, "run at most `N` rows of several inputs together")
	flagSet.IntVar(&f.partSize, "part-size", 64,
		"record finished inputs at least once for every `N` inputs; an interruption loses at most N")
	command.DimFlag(cmd, &f.dims)
	f.compile.AddFlags(cmd, ext)
	return cmd
}

// check validates the flags.
func (f *flags) check(cmd *cobra.Command) error {
	if err := f.compile.Check(cmd); err != nil {
		return err
	}
	switch {
	case len(f.inputs) == 0:
		return command.UsageError(cmd, "batch wants --inputs")
	case f.outputs == "":
		return command.UsageError(cmd, "batch wants --outputs")
	case f.maxRows < 1:
		return exit.UsageErrorf("--max-batch-size %d: want at least 1", f.maxRows)
	case f.partSize < 1:
		return exit.UsageErrorf("--part-size %d: want at least 1", f.partSize)
	}
	return f.shard.Parse()
}

// run runs the model on the inputs, or prints their status with --status.
func run(cmd *cobra.Command, model string, f flags) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	sizes, err := command.ParseDims(f.dims)
	if err != nil {
		return err
	}
	inputs, err := batch.Find(f.inputs...)
	if err != nil {
		return exit.UsageErrorf("--inputs: %w", err)
	}
	if len(inputs) == 0 {
		return exit.UsageErrorf("--inputs: no file matches %s", strings.Join(f.inputs, ", "))
	}
	images := batch.Images{Resize: f.resize, Crop: f.crop, Mean: f.mean, Deviation: f.deviation}
	if err := images.Check(); err != nil {
		return exit.UsageError(err)
	}
	job := progress.Begin(cmd, filepath.Base(model))
	defer job.End()
	options := batch.Options{Loader: f.compile.Loader(), Compile: f.compile.Options(), Images: images,
		Shard: f.shard.Index, Shards: f.shard.Count, PartSize: f.partSize, MaxRows: f.maxRows, Retry: f.retry,
		Progress: func(done, skipped, total int) { job.ReportWithNotes(cmd, done, total-skipped, "input") }}
	options.Loader.Sizes = sizes
	if f.status {
		return printStatus(cmd, job, model, inputs, f.outputs, options)
	}
	summary, err := batch.Run(cmd.Context(), model, inputs, f.outputs, options)
	job.End()
	isBeforeFirstInput := summary.Done+summary.Skipped+summary.Failed+summary.Missing == 0
	if err != nil && isBeforeFirstInput { // the arguments are the cause
		return exit.InterruptErrorOr(cmd.Context(), exit.UsageError(err))
	}
	return report(cmd, summary, err)
}

// maxListed is the number of failures that are listed after a run.
const maxListed = 10

// report prints the result of a run. err is the error that ended the run, or nil if the run is complete.
func report(cmd *cobra.Command, summary batch.Summary, err error) error {
	for i, failure := range summary.Failures {
		if i == maxListed {
			term.PrintNote(cmd, "%s more; --status lists all", format.Count(len(summary.Failures)-i, "failure"))
			break
		}
		term.PrintNote(cmd, "%s: %s", failure.Input, failure.Error)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "done %d, skipped %d, failed %d\n", summary.Done, summary.Skipped, summary.Failed)
	switch {
	case err != nil && cmd.Context().Err() == nil:
		return exit.Failed(fmt.Errorf("%w\n%s missing; finished outputs are kept, and the same command continues", err,
			format.CountIrregular(summary.Missing, "output is", "outputs are")))
	case err != nil:
		return exit.InterruptError(cmd.Context())
	case summary.Failed > 0:
		return &exit.Error{Code: exit.CodeFailed}
	}
	return nil
}

// printStatus prints the counts of --status and the errors of failed inputs. dir is the value of --outputs.
func printStatus(cmd *cobra.Command, job *progress.Job, model string, inputs []batch.Input, dir string,
	options batch.Options) error {
	summary, err := batch.Status(cmd.Context(), model, inputs, dir, options)
	job.End()
	if err != nil {
		return exit.InterruptErrorOr(cmd.Context(), exit.UsageError(err))
	}
	for _, failure := range summary.Failures {
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", format.Printable(failure.Input), format.Printable(failure.Error))
	}
	fmt.Fprintf(cmd.OutOrStdout(), "done %d, failed %d, missing %d\n", summary.Done, summary.Failed, summary.Missing)
	if summary.Failed > 0 {
		return &exit.Error{Code: exit.CodeFailed}
	}
	return nil
}
