// Command graphrun-beam runs a model on files with Apache Beam. Each .npz or .npy file has the inputs of one run. The
// results of NAME.npz or NAME.npy are written to NAME.npz in the directory --outputs.
//
//	graphrun-beam --model model.onnx --inputs 'inputs/*.npz' --outputs results
//
// The default runner is Prism, in this process. --runner, --endpoint and the other flags of Beam select Flink, Spark or
// Dataflow.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"

	"github.com/graphrun/graphrun/beam/inference"
)

var (
	model    = flag.String("model", "", "path of the model (.onnx or .json), which every worker can read")
	inputs   = flag.String("inputs", "", "pattern of the .npz and .npy files with inputs")
	outputs  = flag.String("outputs", "", "directory of the results")
	failures = flag.String("failures", "", "continue after files that fail, and write their names and errors to this file")
	exact    = flag.Bool("exact", false, "exclude implementations that use another formula than the op's definition")
	threads  = flag.Int("threads", 0, "maximum number of workers of a run (default GOMAXPROCS)")
	batching = flag.String("batching", string(inference.BatchExact), "which files are joined into batches: exact (if "+
		"this does not change the bits of their results), fast (all), off (none)")
	maxRows = flag.Int("max-batch-size", 64, "maximum number of rows of a batch")
	sizes   = sizesFlag{}
)

func init() {
	flag.Var(sizes, "dim", "size of a symbol, `NAME=N`; repeatable")
}

// sizesFlag is a repeatable flag NAME=N.
type sizesFlag map[string]int

func (s sizesFlag) String() string { return "" }

func (s sizesFlag) Set(text string) error {
	name, number, _ := strings.Cut(text, "=")
	n, err := strconv.Atoi(number)
	if err != nil || name == "" {
		return errors.New("want NAME=N")
	}
	s[name] = n
	return nil
}

func main() {
	flag.Parse()
	beam.Init() // does not return in a worker process
	os.Exit(run(context.Background(), os.Stdout, os.Stderr))
}

// run runs the pipeline, and returns the exit code: 0 for success, 1 if the pipeline or a file failed, 2 if the flags
// are invalid.
func run(ctx context.Context, stdout, stderr io.Writer) int {
	if err := checkFlags(ctx); err != nil {
		fmt.Fprintln(stderr, "graphrun-beam:", err)
		return 2
	}
	pipeline, root := beam.NewPipelineWithRoot()
	build(root)
	result, err := beamx.RunWithMetrics(ctx, pipeline)
	if err != nil {
		fmt.Fprintln(stderr, "graphrun-beam:", err)
		return 1
	}
	if result == nil { // the job runs without this process
		return 0
	}
	done, failed := counter(result, "elements"), counter(result, "failures")
	fmt.Fprintf(stdout, "done %d, failed %d\n", done, failed)
	if failed > 0 {
		return 1
	}
	return 0
}

// checkFlags checks the flags and the files with inputs.
func checkFlags(ctx context.Context) error {
	modes := []inference.Batching{inference.BatchExact, inference.BatchFast, inference.BatchOff}
	switch {
	case flag.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	case *model == "" || *inputs == "" || *outputs == "":
		return errors.New("--model, --inputs and --outputs are required")
	case !slices.Contains(modes, inference.Batching(*batching)):
		return fmt.Errorf("--batching %q: want exact, fast or off", *batching)
	case *threads < 0 || *maxRows < 1:
		return errors.New("--threads must not be negative, and --max-batch-size must be positive")
	}
	return checkInputs(ctx)
}

// checkInputs checks that there are files with inputs, and that the names of their results are unique.
func checkInputs(ctx context.Context) error {
	files, err := filesystem.New(ctx, *inputs)
	if err != nil {
		return err
	}
	defer files.Close()
	list, err := files.List(ctx, *inputs)
	if err != nil {
		return fmt.Errorf("--inputs: %w", err)
	}
	if len(list) == 0 {
		return fmt.Errorf("--inputs: no file matches %s", *inputs)
	}
	byName := make(map[string]string, len(list))
	for _, file := range list {
		name := inference.ElementName(file)
		if other := byName[name]; other != "" {
			return fmt.Errorf("%s and %s would both be written to %s.npz", other, file, name)
		}
		byName[name] = file
	}
	return nil
}

// build adds the transforms to the pipeline.
func build(scope beam.Scope) {
	options := inference.Options{Model: *model, Sizes: sizes, Exact: *exact, Threads: *threads,
		Batching: inference.Batching(*batching), MaxRows: *maxRows}
	if *failures == "" {
		inference.WriteFiles(scope, *outputs, inference.Run(scope, options, inference.ReadFiles(scope, *inputs)))
		return
	}
	elements, unread := inference.TryReadFiles(scope, *inputs)
	results, failed := inference.TryRun(scope, options, elements)
	inference.WriteFiles(scope, *outputs, results)
	inference.WriteFailures(scope, *failures, beam.Flatten(scope, unread, failed))
}

// counter returns the committed value of a counter of package inference.
func counter(result beam.PipelineResult, name string) int64 {
	list := result.Metrics().Query(func(r metrics.SingleResult) bool { return r.Name() == name }).Counters()
	sum := int64(0)
	for _, c := range list {
		sum += c.Result()
	}
	return sum
}
