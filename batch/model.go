package batch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/arrays"
	"github.com/graphrun/graphrun/internal/batching"
	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// model is a loaded model, and the program to which it is compiled.
type model struct {
	graph          *graph.Graph
	digest         string // digest of the model and the options
	program        *graphrun.Program
	joinAxis       *batching.Axis // the dimension along which inputs are joined; nil if each input is run separately
	unjoinedReason error          // the reason why joinAxis is nil
}

// loadModel reads a model without compiling it.
func loadModel(ctx context.Context, path string, options *Options) (*model, error) {
	// The digest of the model covers all files that the loader opens.
	recorder, name := files.Record(os.DirFS(filepath.Dir(path))), filepath.Base(path)
	loader := options.Loader
	loader.FS = recorder
	g, err := loader.Load(ctx, name)
	if err != nil {
		return nil, err
	}
	digest, err := recorder.Digest(name)
	if err != nil {
		return nil, err
	}
	return &model{graph: g, digest: options.digest(digest)}, nil
}

// plannedRows is the number of rows for which a model is planned. It does not depend on options, because it may affect
// the bits of results.
const plannedRows = 8

// compile compiles the model, and tries to prove that its rows (slices of dimension 0 of the inputs) are independent.
func (m *model) compile(ctx context.Context, options *Options) (err error) {
	compileOptions := options.Compile
	rowsSymbol, unjoinedReason := batching.Symbol(m.graph, compileOptions.Sizes) // rowsSymbol is "" if there is a reason
	m.unjoinedReason = unjoinedReason
	if rowsSymbol != "" {
		rows := m.graph.Symbols[rowsSymbol].Clamp(plannedRows)
		compileOptions.Hints = append([]map[string]int{{rowsSymbol: rows}}, compileOptions.Hints...)
	}
	if m.program, err = graphrun.Compile(ctx, m.graph, compileOptions); err != nil {
		return err
	}
	if rowsSymbol != "" {
		const exact = true // an output has the same bits in every batch
		m.joinAxis, m.unjoinedReason = batching.Prove(ctx, m.program.Internal(), m.graph, rowsSymbol,
			options.MaxRows, exact)
	}
	return nil
}

// parallelRuns returns the maximum number of simultaneous runs.
func parallelRuns(options *Options) int {
	if options.Compile.Threads <= 0 {
		return 1
	}
	return max(1, runtime.GOMAXPROCS(0)/options.Compile.Threads)
}

// runBatch executes the model once, on the joined inputs of runs: a [batching.Run] has the inputs of one file.
// outputs[i] has the outputs of runs[i]. The caller calls release when it no longer uses the outputs.
func (m *model) runBatch(ctx context.Context, runs []*batching.Run) (outputs [][]npz.Entry, release func(), err error) {
	defer catchPanic(&err)
	in, err := batching.Join(runs)
	if err != nil {
		return nil, nil, err
	}
	out, err := m.program.Run(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	for _, runOutputs := range m.joinAxis.Split(out, runs) { // if joinAxis is nil, runs has one element
		entries := arrays.Entries(m.graph, runOutputs)
		if err := arrays.Decode(m.graph, entries); err != nil { // string tensors have codes instead of strings
			return nil, nil, err
		}
		outputs = append(outputs, entries)
	}
	return outputs, func() {
		for _, tensors := range []map[string]*tensor.Tensor{out, in} {
			for _, t := range tensors {
				t.Release()
			}
		}
	}, nil
}

// catchPanic converts a panic to an error, so that one input cannot end the run of all other inputs. It must be
// deferred.
func catchPanic(err *error) {
	switch value := recover().(type) {
	case nil:
	case *tensor.MemoryError:
		*err = value
	default:
		*err = fmt.Errorf("internal error: %v\n%s", value, debug.Stack())
	}
}
