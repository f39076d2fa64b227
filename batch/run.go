package batch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/gofrs/flock"
	"golang.org/x/sync/semaphore"

	"github.com/graphrun/graphrun/internal/batching"
	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// Run runs a model on the unfinished inputs of a shard, and writes their outputs to the directory dir. It creates dir
// if necessary. An error of the model, of the directory or of the context ends the run; finished outputs remain, and
// the summary counts them. If another process runs the same shard, Run returns an error.
func Run(ctx context.Context, model string, inputs []Input, dir string, options Options) (Summary, error) {
	if err := machine.RunError(); err != nil {
		return Summary{}, err
	}
	return run(ctx, model, inputs, dir, options, disk{})
}

// Status counts the inputs of a shard without running or reading them. It does not detect changed contents of inputs.
func Status(ctx context.Context, model string, inputs []Input, dir string, options Options) (Summary, error) {
	j, err := newJob(ctx, model, inputs, dir, &options)
	if err != nil {
		return Summary{}, err
	}
	for _, in := range j.inputs {
		switch r := j.outputDir.finishedRecord(j.records[in.Name], "", j.model.digest); {
		case r == nil:
			j.summary.Missing++
		case r.Error != "":
			j.fail(in, r.Error)
		default:
			j.summary.Done++
		}
	}
	return j.summary, nil
}

// job is the work on one shard, a part of the inputs. It is a pipeline of goroutines ([job.process]):
//
//	inputs -> read (several goroutines) -> runAll (one, which forms batches and starts their runs) -> commitAll (one)
//
// read decodes a file to an [item], runAll makes a [result] of each item, and commitAll writes outputs and records.
type job struct {
	options   *Options
	model     *model
	decoder   decoder
	outputDir outputDir
	inputs    []Input
	records   map[string][]record // records of earlier runs, by the name of the input

	cancel                      context.CancelCauseFunc
	window                      *semaphore.Weighted // limits the number of inputs that are computed but not yet recorded
	decodedBytes, computedBytes *semaphore.Weighted // limit the bytes of decoded inputs, and the bytes of computed results
	results                     chan *result        // results to commit

	mu      sync.Mutex // protects summary and the calls of Options.Progress
	summary Summary
}

// newJob checks the options and the names of the inputs, loads the model at path, and reads the records of earlier
// runs.
func newJob(ctx context.Context, path string, inputs []Input, dir string, options *Options) (*job, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	j := &job{options: options, outputDir: outputDir{filepath.Clean(dir)}, inputs: options.inShard(inputs)}
	wanted := map[string]bool{}
	for _, in := range j.inputs {
		switch {
		case !filepath.IsLocal(filepath.FromSlash(in.Name)):
			return nil, fmt.Errorf("input %s: the name %q is not a path below the output directory", in.Path, in.Name)
		case wanted[in.Name]:
			return nil, fmt.Errorf("two inputs have the name %q", in.Name)
		case sameFile(j.outputDir.outputPath(in.Name), in.Path):
			return nil, fmt.Errorf("the output of %s would replace the input", in.Path)
		}
		wanted[in.Name] = true
	}
	var err error
	if j.model, err = loadModel(ctx, path, options); err != nil {
		return nil, err
	}
	j.decoder = decoder{j.model.graph, options.Images}
	j.records, err = j.outputDir.readManifests(wanted)
	return j, err
}

// sameFile reports whether the paths of an output and of an input lead to the same file.
func sameFile(output, input string) bool {
	if !strings.EqualFold(filepath.Ext(input), ".npz") {
		return false
	}
	outputInfo, err := os.Stat(output)
	if err != nil {
		return false
	}
	inputInfo, err := os.Stat(input)
	return err == nil && os.SameFile(outputInfo, inputInfo)
}

// run is [Run] for the model at path, with the file system fsys for outputs.
func run(ctx context.Context, path string, inputs []Input, dir string, options Options, fsys fileSystem) (_ Summary,
	err error) {
	j, err := newJob(ctx, path, inputs, dir, &options)
	if err != nil {
		return Summary{}, err
	}
	if err := j.model.compile(ctx, &options); err != nil {
		return Summary{}, err
	}
	j.summary.Unjoined = j.model.unjoinedReason
	c := &committer{
		ctx: ctx, fsys: fsys, outputDir: j.outputDir, runDigest: j.model.digest,
		temporary: j.outputDir.shardPath("writing", &options),
	}
	if err := os.MkdirAll(j.outputDir.stateDir(), 0o777); err != nil {
		return j.summary, err
	}
	j.summary.Missing = len(j.inputs)
	unlock, err := lock(j.outputDir.shardPath("lock", &options))
	if err != nil {
		return j.summary, err
	}
	defer unlock()
	if err := c.openShard(&options); err != nil {
		return j.summary, err
	}
	defer func() { err = errors.Join(err, c.manifest.Close()) }()
	err = j.process(ctx, c)
	sorted.Func(j.summary.Failures, func(a, b Failure) int { return strings.Compare(a.Input, b.Input) })
	j.summary.Missing = len(j.inputs) - j.summary.Done - j.summary.Skipped - j.summary.Failed
	return j.summary, err
}

// lock locks a shard. On a file system without locks, lock has no effect, and two processes may do the same work.
func lock(path string) (unlock func(), err error) {
	fileLock := flock.New(path)
	locked, err := fileLock.TryLock()
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return func() {}, nil
	case err != nil:
		return nil, err
	case !locked:
		return nil, fmt.Errorf("%s: another process is running this shard", path)
	}
	return func() { _ = fileLock.Unlock() }, nil
}

// process reads, runs and commits the inputs. It starts the goroutines of the pipeline. Their channels are next (from
// sendInputs to readers), waiting (from readers to runAll) and j.results (from readers and runAll to commitAll).
func (j *job) process(ctx context.Context, c *committer) error {
	callerContext := ctx
	ctx, j.cancel = context.WithCancelCause(ctx)
	defer j.cancel(nil)
	partSize, memory := j.options.PartSize, int64(j.options.Memory)
	j.window = semaphore.NewWeighted(int64(partSize))
	j.decodedBytes = semaphore.NewWeighted(memory)
	j.computedBytes = semaphore.NewWeighted(memory)
	next := make(chan Input)
	waiting := make(chan *item, partSize)
	j.results = make(chan *result, partSize)
	var readers sync.WaitGroup
	for range max(2, runtime.GOMAXPROCS(0)) {
		readers.Go(func() {
			for in := range next {
				if it := j.read(ctx, in); it != nil {
					waiting <- it
				}
			}
		})
	}
	go j.sendInputs(ctx, next)
	go func() {
		readers.Wait()
		close(waiting)
	}()
	go func() {
		j.runAll(ctx, waiting)
		readers.Wait() // readers and runAll send to j.results
		close(j.results)
	}()
	err := j.commitAll(c)
	if err == nil && callerContext.Err() != nil {
		err = context.Cause(callerContext)
	}
	return err
}

// sendInputs sends the inputs to a channel until the context ends, and closes the channel.
func (j *job) sendInputs(ctx context.Context, next chan<- Input) {
	defer close(next)
	for _, in := range j.inputs {
		select {
		case next <- in:
		case <-ctx.Done():
			return
		}
	}
}

// item is a decoded input that waits to be run.
type item struct {
	input  Input
	digest string        // digest of the contents of the file
	run    *batching.Run // the decoded tensors, as a run that can join a batch
	bytes  int64         // number of bytes acquired from job.decodedBytes
}

// read reads and decodes an input. It returns nil if an earlier run has finished the input, if reading or decoding
// fails, or if the context has ended. It sends the result of a failure to j.results.
func (j *job) read(ctx context.Context, in Input) *item {
	if ctx.Err() != nil {
		return nil
	}
	data, err := readInput(in.Path)
	if err != nil {
		j.results <- &result{input: in, err: err}
		return nil
	}
	sum := sha256.Sum256(data)
	decoded := &item{input: in, digest: hex.EncodeToString(sum[:])}
	if r := j.outputDir.finishedRecord(j.records[in.Name], decoded.digest, j.model.digest); r != nil {
		if retried := r.Error != "" && j.options.Retry; !retried {
			const skipped = true
			j.finish(in, r.Error, skipped)
			return nil
		}
	}
	tensors, err := j.decode(in, data)
	if err != nil {
		j.results <- &result{input: in, digest: decoded.digest, err: err}
		return nil
	}
	for _, t := range tensors {
		decoded.bytes += int64(t.Bytes())
	}
	decoded.bytes = min(decoded.bytes, int64(j.options.Memory)) // admits one input of any size
	if j.decodedBytes.Acquire(ctx, decoded.bytes) != nil {
		return nil
	}
	decoded.run = j.model.joinAxis.NewRun(ctx, tensors)
	return decoded
}

func (j *job) decode(in Input, data []byte) (_ map[string]*tensor.Tensor, err error) {
	defer catchPanic(&err)
	return j.decoder.decode(in.Path, data)
}

// readInput reads a file, if it fits into memory.
func readInput(path string) ([]byte, error) {
	f, info, err := files.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const maxBytes = min(1<<46, math.MaxInt) // more than any machine has, and no overflow in Fits
	size := int(min(info.Size(), maxBytes))
	if limit, ok := machine.Fits(size); !ok {
		return nil, fmt.Errorf("the file has %s and does not fit into memory: %v", machine.Bytes(size), limit)
	}
	data := make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if n < len(data) {
		return nil, fmt.Errorf("the file cannot be read: %w", err)
	}
	return data, nil
}

// runAll runs all decoded inputs that the channel waiting passes. It joins the inputs that wait at the same time into
// batches if their rows can be joined, and runs several batches concurrently. It starts no further run after the
// context has ended.
func (j *job) runAll(ctx context.Context, waiting <-chan *item) {
	slots := make(chan struct{}, parallelRuns(j.options))
	var runs sync.WaitGroup
	defer runs.Wait()
	for first := range waiting {
		items := appendWaiting([]*item{first}, waiting, j.options.PartSize)
		for len(items) > 0 {
			var batch []*item
			batch, items = j.nextBatch(items)
			if j.window.Acquire(ctx, int64(len(batch))) != nil {
				j.releaseDecoded(append(batch, items...))
				break // the outer loop continues: it drains waiting, so that readers do not block
			}
			slots <- struct{}{}
			runs.Go(func() {
				defer func() { <-slots }()
				j.runTogether(ctx, batch)
			})
		}
	}
}

// appendWaiting appends the elements that a channel passes without waiting, up to a length of limit.
func appendWaiting[T any](list []T, waiting <-chan T, limit int) []T {
	for len(list) < limit {
		select {
		case next, ok := <-waiting:
			if !ok {
				return list
			}
			list = append(list, next)
		default:
			return list
		}
	}
	return list
}

// nextBatch divides items into the items of the next batch and all others.
func (j *job) nextBatch(items []*item) (batch, others []*item) {
	indices := j.model.joinAxis.Batch(runsOf(items), math.MaxInt)
	for i, it := range items {
		if slices.Contains(indices, i) {
			batch = append(batch, it)
		} else {
			others = append(others, it)
		}
	}
	return batch, others
}

// runsOf returns the runs of items.
func runsOf(items []*item) []*batching.Run {
	runs := make([]*batching.Run, len(items))
	for i, it := range items {
		runs[i] = it.run
	}
	return runs
}

// releaseDecoded returns the bytes of items to the limit of decoded inputs.
func (j *job) releaseDecoded(items []*item) {
	for _, it := range items {
		j.decodedBytes.Release(it.bytes)
	}
}

// runTogether runs items as one batch, and sends their results to j.results. If the batch fails, the items run one by
// one, because the error may concern the data of a single item. If a run fails after the context has ended, its items
// have no result.
func (j *job) runTogether(ctx context.Context, items []*item) {
	outputs, release, err := j.model.runBatch(ctx, runsOf(items))
	if err != nil && len(items) > 1 && ctx.Err() == nil {
		for _, it := range items {
			j.runTogether(ctx, []*item{it})
		}
		return
	}
	j.releaseDecoded(items)
	if err != nil && ctx.Err() != nil {
		j.window.Release(int64(len(items)))
		return
	}
	// The outputs of the items share the memory of the batch's results, which is released after all of them are written.
	var unwritten sync.WaitGroup
	unwritten.Add(len(items))
	for i, it := range items {
		r := &result{input: it.input, digest: it.digest, err: err, inWindow: true}
		if err == nil {
			r.entries, r.release = outputs[i], unwritten.Done
			r.bytes = min(bytesOf(outputs[i]), int64(j.options.Memory))
		}
		// A computed result is committed even if the context ends, unless it is large: see interruptedBytes.
		_ = j.computedBytes.Acquire(context.Background(), r.bytes)
		j.results <- r
	}
	if err == nil {
		go func() {
			unwritten.Wait()
			release()
		}()
	}
}

// bytesOf returns the sum of the sizes of tensors.
func bytesOf(entries []npz.Entry) (n int64) {
	for _, e := range entries {
		n += int64(e.Tensor.Bytes())
	}
	return n
}

// commitAll commits results until their channel is closed. Results that wait at the same time are committed together;
// the limit is PartSize results. After an error, commitAll cancels the run and discards further results.
func (j *job) commitAll(c *committer) (err error) {
	for first := range j.results {
		results := appendWaiting([]*result{first}, j.results, j.options.PartSize)
		if err == nil {
			if err = c.commit(results); err != nil {
				j.cancel(err)
			}
		}
		for _, r := range results {
			j.releaseResult(r)
			if err == nil {
				const skipped = false
				j.finish(r.input, r.message(), skipped)
			}
		}
	}
	return err
}

// releaseResult releases the memory of a result, and its share in the limits of results.
func (j *job) releaseResult(r *result) {
	if r.release != nil {
		r.release()
	}
	j.computedBytes.Release(r.bytes)
	if r.inWindow {
		j.window.Release(1)
	}
}

// finish counts a finished input, and calls Options.Progress. message is the error of the input, or empty. skipped
// reports whether an earlier run has finished the input.
func (j *job) finish(in Input, message string, skipped bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case message != "":
		j.fail(in, message)
	case skipped:
		j.summary.Skipped++
	default:
		j.summary.Done++
	}
	if j.options.Progress != nil {
		j.options.Progress(j.summary.Done+j.summary.Failed, j.summary.Skipped, len(j.inputs))
	}
}

// fail counts a failed input.
func (j *job) fail(in Input, message string) {
	j.summary.Failed++
	j.summary.Failures = append(j.summary.Failures, Failure{in.Path, message})
}
