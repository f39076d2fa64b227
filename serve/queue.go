package serve

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/graphrun/graphrun/internal/batching"
	"github.com/graphrun/graphrun/tensor"
)

// errQueueFull is the error of a request that arrives when the queue is full.
var errQueueFull = errors.New("the queue is full")

// errPanic is the error of a batch that panicked in its run or in the split of its outputs. The server logs the panic.
var errPanic = errors.New("the run failed because of an internal error")

// queue has the waiting requests of a model, and joins them into batches. Server.slots limits the number of active
// runs of all models.
//
// For example, let all slots be taken when requests of 1, 2 and 5 rows arrive, in this order, and let batches of 8 rows
// be preferred. The first request starts the goroutine of dispatch, which waits for a slot. With this slot, it removes
// all three requests from the queue, because they have 8 rows together. runBatch joins their inputs, runs the model
// once, splits the outputs, and sends each request its part. If a slot is free when a request arrives and nothing
// waits, the request runs at once and alone (tryTakeSlot).
type queue struct {
	server *Server
	model  *model

	mu          sync.Mutex // protects the fields below, except arrived
	waiting     []*job
	dispatching bool          // whether the goroutine of dispatch is running
	arrived     chan struct{} // receives a value when a request arrives
	crowded     bool          // whether several requests were waiting when the last batch was taken
}

// job is a waiting request.
type job struct {
	ctx     context.Context
	run     *batching.Run
	arrival time.Time
	result  chan result // has capacity for the result
	started bool        // whether the job left the queue in a batch; protected by queue.mu
	// preferredRows are the preferred numbers of rows of a batch that begins with this job: see Options.PreferredRows.
	preferredRows []int
}

// result is the result of a job.
type result struct {
	out             map[string]*tensor.Tensor
	err             error
	release         func()        // must be called when out is no longer used; nil if the job has not run
	runContinues    bool          // the request ended during its run, which may still read the inputs
	queued, runTime time.Duration // the time in the queue, and the duration of the batch's run
	rows            int           // number of rows of the batch
}

// newQueue returns the queue of model m.
func newQueue(s *Server, m *model) *queue {
	return &queue{server: s, model: m, arrived: make(chan struct{}, 1)}
}

// run runs the model on the inputs of a request, possibly in a batch with other requests. The caller must call
// result.release if it is not nil, also after an error.
func (q *queue) run(ctx context.Context, in map[string]*tensor.Tensor) (result, error) {
	// If a slot is free, the run is not joined, so it needs no plan of its own. Otherwise NewRun below finds the plan.
	request := &job{ctx: ctx, arrival: time.Now(), result: make(chan result, 1), run: q.model.batchAxis.NewSingleRun(in)}
	if q.tryTakeSlot() {
		q.runBatch([]*job{request}, q.server.slots)
		finished := <-request.result
		return finished, finished.err
	}
	if q.server.waiting.Add(1) > int64(q.server.options.Queue) {
		q.server.waiting.Add(-1)
		return result{}, errQueueFull
	}
	q.plan(request, in)
	q.mu.Lock()
	q.waiting = append(q.waiting, request)
	if !q.dispatching {
		q.dispatching = true
		go q.dispatch()
	}
	q.mu.Unlock()
	select {
	case q.arrived <- struct{}{}:
	default: // arrived still has a value that dispatch has not received
	}
	select {
	case finished := <-request.result:
		return finished, finished.err
	case <-ctx.Done():
		return result{runContinues: q.remove(request)}, context.Cause(ctx)
	}
}

// plan sets the run and the preferred rows of a job that Server.waiting counts. After a panic, the job is not counted.
func (q *queue) plan(j *job, in map[string]*tensor.Tensor) {
	isPlanned := false
	defer func() {
		if !isPlanned {
			q.server.waiting.Add(-1)
		}
	}()
	j.run = q.model.batchAxis.NewRun(j.ctx, in)
	j.preferredRows = q.preferredRows(j.ctx, j.run)
	isPlanned = true
}

// tryTakeSlot takes one of Server.slots, if one is free and if no other request of this model waits or is likely to
// arrive. The goroutine of the request then runs the model itself, because each change of goroutines takes several
// microseconds.
func (q *queue) tryTakeSlot() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dispatching || q.crowded {
		return false
	}
	select {
	case q.server.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

// preferredRows returns job.preferredRows for a run.
func (q *queue) preferredRows(ctx context.Context, run *batching.Run) []int {
	if rows := q.server.options.PreferredRows; len(rows) > 0 {
		return rows
	}
	maxRows := q.server.plannedRows()
	return []int{q.model.batchAxis.EfficientRows(ctx, run, min(q.server.threads, maxRows), maxRows)}
}

// remove removes a job if it still waits, and reports whether its run has started. A started run continues. Its result
// is not received, and the garbage collector frees the memory of the result.
func (q *queue) remove(j *job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, j); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		q.server.waiting.Add(-1)
	}
	return j.started
}

// dispatch starts batches until no job waits.
func (q *queue) dispatch() {
	for {
		q.awaitFullBatch()
		slots := q.takeSlot()
		jobs := q.takeBatch()
		if jobs == nil { // dropEnded has set q.dispatching to false
			<-slots // frees the slot
			return
		}
		go q.runBatch(jobs, slots)
	}
}

// awaitFullBatch waits for further requests, until Options.MaxDelay after the arrival of the first request or until
// a full batch waits. It does not wait if the requests of the model are not joined. It also does not wait if a single
// request was waiting when the last batch was taken, because further requests are then unlikely.
func (q *queue) awaitFullBatch() {
	if q.model.batchAxis == nil || q.server.options.MaxDelay <= 0 {
		return
	}
	for {
		q.mu.Lock()
		remaining := time.Duration(0)
		if q.crowded && len(q.waiting) > 0 && !q.hasFullBatch() {
			remaining = q.server.options.MaxDelay - time.Since(q.waiting[0].arrival)
		}
		q.mu.Unlock()
		if remaining <= 0 {
			return
		}
		select {
		case <-q.arrived:
		case <-time.After(remaining):
		}
	}
}

// takeSlot waits until a run may start, and returns the semaphore to which its slot belongs: Server.slots, or
// Server.extraSlot if a full batch waits.
func (q *queue) takeSlot() chan struct{} {
	for {
		q.mu.Lock()
		full := q.hasFullBatch()
		q.mu.Unlock()
		var extraSlot chan struct{} // if it is nil, select ignores it
		if full {
			extraSlot = q.server.extraSlot
		}
		select {
		case q.server.slots <- struct{}{}:
			return q.server.slots
		case extraSlot <- struct{}{}:
			return extraSlot
		case <-q.arrived: // the batch may be full now
		}
	}
}

// hasFullBatch reports whether enough rows wait for the first entry in preferredRows of the first job. The caller
// holds q.mu.
func (q *queue) hasFullBatch() bool {
	return len(q.waiting) > 0 &&
		q.waitingRows() >= min(q.waiting[0].preferredRows[0], q.server.options.MaxRows)
}

// waitingRows returns the number of rows that wait. The caller holds q.mu.
func (q *queue) waitingRows() (rows int) {
	for _, j := range q.waiting {
		rows += j.run.Rows
	}
	return rows
}

// takeBatch removes the jobs of the next batch from the queue and returns them: the first job, and the jobs that can
// share its batch. Jobs whose contexts have ended are dropped. takeBatch returns nil if no job waits; dispatch must
// then end.
func (q *queue) takeBatch() []*job {
	for {
		waiting, maxRows := q.dropEnded()
		if len(waiting) == 0 {
			return nil
		}
		indices := []int{0} // if planning panics, the first job runs alone
		_ = q.catchPanic(func() error {
			indices = q.model.batchAxis.Batch(runsOf(waiting), maxRows) // without the lock: it may plan the program
			return nil
		})
		var jobs []*job
		for _, i := range indices {
			jobs = append(jobs, waiting[i])
		}
		if q.takeIfWaiting(jobs) { // otherwise a job has left the queue in the meantime: choose again
			return jobs
		}
	}
}

// dropEnded drops the jobs whose contexts have ended, and returns a copy of the others and the maximum number of rows
// of their batch. If there are none, dispatch must end.
func (q *queue) dropEnded() (waiting []*job, maxRows int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(j *job) bool {
		ended := j.ctx.Err() != nil
		if ended {
			q.server.waiting.Add(-1)
		}
		return ended
	})
	q.dispatching = len(q.waiting) > 0
	return slices.Clone(q.waiting), q.rowsOfBatch()
}

// rowsOfBatch returns the maximum number of rows of the next batch: the largest preferred number of rows of the first
// job that is at most the number of waiting rows. If every preferred number is larger, all waiting rows run, up to
// Options.MaxRows. The caller holds q.mu.
func (q *queue) rowsOfBatch() int {
	if len(q.waiting) == 0 {
		return 0
	}
	rows, waitingRows := 0, q.waitingRows()
	for _, n := range q.waiting[0].preferredRows {
		if n <= waitingRows {
			rows = max(rows, n)
		}
	}
	if rows == 0 {
		return q.server.options.MaxRows
	}
	return min(rows, q.server.options.MaxRows)
}

// takeIfWaiting removes the jobs of a batch from the queue. It returns false if one of the jobs no longer waits,
// because the remaining jobs may then need another plan.
func (q *queue) takeIfWaiting(jobs []*job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range jobs {
		if !slices.Contains(q.waiting, j) {
			return false
		}
	}
	q.crowded = len(q.waiting) > 1
	for _, j := range jobs {
		j.started = true
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(j *job) bool { return slices.Contains(jobs, j) })
	q.server.waiting.Add(-int64(len(jobs)))
	return true
}

// runBatch runs jobs together, and sends their results. If a batch fails, the jobs run one by one, because the error
// may concern the data of a single job. The caller has taken one of slots. runBatch frees this slot before it sends
// results, so that the next batch does not wait for responses.
func (q *queue) runBatch(jobs []*job, slots chan struct{}) {
	q.model.users.Add(1)
	defer q.model.leave()
	start := time.Now()
	var in, out map[string]*tensor.Tensor
	var parts []map[string]*tensor.Tensor
	err := q.catchPanic(func() (err error) {
		if in, out, err = q.execute(jobs); err == nil {
			parts = q.model.batchAxis.Split(out, runsOf(jobs))
		}
		return err
	})
	<-slots // frees the slot
	if err != nil && len(jobs) > 1 {
		for _, request := range jobs {
			q.server.slots <- struct{}{}
			q.runBatch([]*job{request}, q.server.slots)
		}
		return
	}
	runTime, rows := time.Since(start), 0
	for _, request := range jobs {
		rows += max(request.run.Rows, 1) // Rows is 0 for a run that cannot be joined: it counts as one row
	}
	if err == nil {
		q.model.metrics.recordRun(rows, runTime)
	}
	release := releaseAfter(len(jobs), out, in) // the results of the jobs share the memory of out and possibly of in
	for i, request := range jobs {
		finished := result{err: err, release: release, queued: start.Sub(request.arrival), runTime: runTime, rows: rows}
		if err == nil {
			finished.out = parts[i]
		}
		request.result <- finished
	}
}

// catchPanic returns the error of f. If f panics, it logs the panic and returns errPanic.
func (q *queue) catchPanic(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			q.server.options.Log.Error("a batch panicked", "model", q.model.name, "panic", value,
				"stack", string(debug.Stack()))
			err = errPanic
		}
	}()
	return f()
}

// execute runs the model on the joined inputs of jobs, and returns them with the outputs. The run is cancelled when the
// contexts of all jobs have ended.
func (q *queue) execute(jobs []*job) (in, out map[string]*tensor.Tensor, err error) {
	if len(jobs) == 1 {
		out, err = q.model.program.Run(jobs[0].ctx, jobs[0].run.In)
		return nil, out, err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var unfinishedContexts atomic.Int64
	unfinishedContexts.Store(int64(len(jobs)))
	for _, request := range jobs {
		// AfterFunc is called here. The function that it returns is called at the end, and removes the closure from the
		// context.
		defer context.AfterFunc(request.ctx, func() {
			if unfinishedContexts.Add(-1) == 0 {
				cancel(context.Cause(request.ctx))
			}
		})()
	}
	if in, err = batching.Join(runsOf(jobs)); err != nil {
		return nil, nil, err
	}
	out, err = q.model.program.Run(ctx, in)
	return in, out, err
}

// releaseAfter returns a function that releases tensors when it is called for the last of the given number of calls.
func releaseAfter(calls int, tensors ...map[string]*tensor.Tensor) func() {
	var missingCalls atomic.Int64
	missingCalls.Store(int64(calls))
	return func() {
		if missingCalls.Add(-1) != 0 {
			return
		}
		for _, byName := range tensors {
			for _, held := range byName {
				held.Release()
			}
		}
	}
}

// runsOf returns the runs of jobs.
func runsOf(jobs []*job) []*batching.Run {
	runs := make([]*batching.Run, len(jobs))
	for i, j := range jobs {
		runs[i] = j.run
	}
	return runs
}
