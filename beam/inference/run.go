package inference

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/reflectx"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/internal/batching"
	"github.com/graphrun/graphrun/tensor"
)

// namespace is the namespace of the metrics.
const namespace = "graphrun"

var (
	elementsRun    = beam.NewCounter(namespace, "elements")
	elementsFailed = beam.NewCounter(namespace, "failures")
	batchesRun     = beam.NewCounter(namespace, "batches")
	modelsLoaded   = beam.NewCounter(namespace, "models_loaded")
	batchElements  = beam.NewDistribution(namespace, "batch_elements")
	runTime        = beam.NewDistribution(namespace, "run_us")
	loadTime       = beam.NewDistribution(namespace, "load_ms")
)

func init() {
	// ProcessElement and the emitters are called without reflection, as by register.DoFn6x1, whose functions take 30
	// seconds to compile.
	beam.RegisterDoFn(reflect.TypeFor[runFn]())
	reflectx.RegisterStructWrapper(reflect.TypeFor[runFn](), func(fn any) map[string]reflectx.Func {
		return map[string]reflectx.Func{"ProcessElement": reflectx.MakeFunc(fn.(*runFn).ProcessElement)}
	})
	register.Function6x1((*runFn)(nil).ProcessElement)
	register.Emitter2[beam.EventTime, Element]()
	register.Emitter2[beam.EventTime, Failure]()
}

// Run runs a model on a PCollection of [Element] and returns a PCollection of [Element]. A result has the name, the
// timestamp and the window of its input. Elements outside the global window run one by one, because Beam's Go
// SDK cannot emit to other windows at the end of a bundle.
//
// An element that cannot be run fails its bundle, and the error names the element. Run panics if options are invalid,
// as other functions that construct pipelines do.
func Run(s beam.Scope, options Options, elements beam.PCollection) beam.PCollection {
	const try = false
	results, _ := runScope(s, options, elements, try)
	return results
}

// TryRun is [Run], but returns failed elements as a PCollection of [Failure]. A lack of memory and a model that cannot
// be loaded are not failures of an element: they fail the bundle.
func TryRun(s beam.Scope, options Options, elements beam.PCollection) (results, failures beam.PCollection) {
	const try = true
	return runScope(s, options, elements, try)
}

// runScope adds the transform of [Run] or, if try is set, of [TryRun].
func runScope(s beam.Scope, options Options, elements beam.PCollection, try bool) (results, failures beam.PCollection) {
	if err := options.complete(); err != nil {
		panic(fmt.Errorf("inference: %w", err))
	}
	return beam.ParDo2(s.Scope("inference.Run"), &runFn{Options: options, Try: try}, elements)
}

// maxPendingBytes bounds the inputs that wait for a batch.
const maxPendingBytes = 64 << 20

// maxPendingBatches bounds the rows that wait, as a multiple of the maximum batch size. More than one batch is useful
// if shapes differ between elements, because only elements of equal shapes are joined.
const maxPendingBatches = 4

// runFn runs elements in batches. ProcessElement collects elements up to the bounds above. flush then joins elements of
// equal shapes to batches, and runBatch runs a batch.
type runFn struct {
	Options Options
	Try     bool

	key          string // the JSON of Options: the key of the model
	model        *model
	pending      []elementRun
	pendingRows  int
	pendingBytes int
}

// elementRun has the name and the time of an element, and the run of the model on its inputs.
type elementRun struct {
	name string
	time beam.EventTime
	run  *batching.Run
}

type (
	emitElement func(beam.EventTime, Element)
	emitFailure func(beam.EventTime, Failure)
)

func (f *runFn) Setup(ctx context.Context) error {
	key, err := json.Marshal(f.Options)
	if err != nil {
		return err
	}
	f.key = string(key)
	f.model, err = acquire(ctx, f.key, f.Options)
	return err
}

func (f *runFn) Teardown() {
	if f.model != nil {
		f.model = nil
		release(f.key)
	}
}

// StartBundle drops elements that remain from an earlier bundle if that bundle failed.
func (f *runFn) StartBundle(_ context.Context, _ func(beam.EventTime, Element), _ func(beam.EventTime, Failure)) {
	f.clear()
}

// clear drops the pending elements.
func (f *runFn) clear() {
	f.pending, f.pendingRows, f.pendingBytes = nil, 0, 0
}

// ProcessElement runs the element alone, or collects it for a batch. It runs the batch if enough elements are
// collected.
func (f *runFn) ProcessElement(ctx context.Context, w beam.Window, eventTime beam.EventTime, e Element,
	emit func(beam.EventTime, Element), fail func(beam.EventTime, Failure)) error {
	in, err := f.model.inputs(e)
	if err != nil {
		return f.handleError(ctx, e.Name, eventTime, err, fail)
	}
	added := elementRun{e.Name, eventTime, f.model.batchAxis.NewRun(ctx, in)}
	if _, global := w.(window.GlobalWindow); !global || added.run.Rows == 0 { // 0 rows: the run cannot be joined
		return f.runBatch(ctx, []elementRun{added}, emit, fail)
	}
	f.pending = append(f.pending, added)
	f.pendingRows += added.run.Rows
	for _, t := range in {
		f.pendingBytes += t.Bytes()
	}
	if f.pendingRows < maxPendingBatches*f.Options.MaxRows && f.pendingBytes < maxPendingBytes {
		return nil
	}
	return f.flush(ctx, emit, fail)
}

func (f *runFn) FinishBundle(ctx context.Context, emit func(beam.EventTime, Element),
	fail func(beam.EventTime, Failure)) error {
	return f.flush(ctx, emit, fail)
}

// flush runs the pending elements.
func (f *runFn) flush(ctx context.Context, emit emitElement, fail emitFailure) error {
	pending := f.pending
	f.clear()
	for len(pending) > 0 {
		runs := make([]*batching.Run, len(pending))
		for i, p := range pending {
			runs[i] = p.run
		}
		chosen := f.model.batchAxis.Batch(runs, math.MaxInt) // batchAxis has the limit Options.MaxRows (load)
		var batch, remaining []elementRun
		for i, p := range pending {
			if slices.Contains(chosen, i) {
				batch = append(batch, p)
			} else {
				remaining = append(remaining, p)
			}
		}
		if err := f.runBatch(ctx, batch, emit, fail); err != nil {
			return err
		}
		pending = remaining
	}
	return nil
}

// runBatch runs elements as one batch. If the batch fails, the elements run one by one, because the error may concern a
// single element.
func (f *runFn) runBatch(ctx context.Context, batch []elementRun, emit emitElement, fail emitFailure) error {
	runs := make([]*batching.Run, len(batch))
	for i, p := range batch {
		runs[i] = p.run
	}
	start := time.Now()
	out, err := f.model.run(ctx, runs)
	switch {
	case err != nil && len(batch) > 1:
		for i := range batch {
			if err := f.runBatch(ctx, batch[i:i+1], emit, fail); err != nil {
				return err
			}
		}
		return nil
	case err != nil:
		return f.handleError(ctx, batch[0].name, batch[0].time, err, fail)
	}
	batchesRun.Inc(ctx, 1)
	elementsRun.Inc(ctx, int64(len(batch)))
	batchElements.Update(ctx, int64(len(batch)))
	runTime.Update(ctx, time.Since(start).Microseconds())
	for i, p := range batch {
		emit(p.time, Element{p.name, out[i]})
	}
	return nil
}

// handleError handles the error of an element. Run returns the error. TryRun emits a Failure if the error concerns only
// this element, and otherwise returns the error.
func (f *runFn) handleError(ctx context.Context, name string, eventTime beam.EventTime, err error,
	fail emitFailure) error {
	elementsFailed.Inc(ctx, 1)
	var allocationErr *tensor.MemoryError
	var runErr *graphrun.MemoryError
	if !f.Try || ctx.Err() != nil || errors.As(err, &allocationErr) || errors.As(err, &runErr) {
		return fmt.Errorf("element %q: %w", name, err)
	}
	fail(eventTime, Failure{name, err.Error()})
	return nil
}
