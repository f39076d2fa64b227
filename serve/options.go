package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/graphrun/graphrun"
)

// Batching is the rule for joining requests into batches.
type Batching string

const (
	// BatchExact joins requests whose results have the same bits in the batch as alone. One plan serves all batch sizes.
	BatchExact Batching = "exact"
	// BatchFast joins all requests with independent rows. Batches of different sizes may have different plans, so the
	// last bits of a result depend on the size of the batch.
	BatchFast Batching = "fast"
	// BatchOff joins no requests.
	BatchOff Batching = "off"
)

// Options are the options of a server. Zero values are good defaults. Only MaxDelay may be negative.
type Options struct {
	// Loader loads the models. Its field FS is not used: a model reads only files in its own directory.
	Loader graphrun.Loader
	// Compile has the options by which models are compiled. Compile.Threads is the maximum number of workers of one
	// run. At most GOMAXPROCS / Compile.Threads runs are active at the same time, or one more if the waiting requests
	// fill a batch. If Compile.Hints is empty, a model that has open sizes in addition to the batch size gets a second
	// plan, for sizes of at least 200. The nearest plan serves a request.
	Compile graphrun.Options
	// Batching is the rule for joining requests into batches; "" means BatchExact.
	Batching Batching
	// MaxRows is the maximum number of rows of a batch; 0 means 64, and more than 1024 means 1024. A single request may
	// have more rows.
	MaxRows int
	// PreferredRows are the preferred numbers of rows of a batch. A batch has the largest preferred number that the
	// waiting rows fill. If the waiting rows are fewer than every preferred number, all waiting rows run.
	//
	// With BatchExact, one plan serves all batch sizes. It is the plan for the first number of rows, or the plan for
	// one row if that plan costs less on balance. The plan for one row may take some implementations from the plan for
	// the first number.
	//
	// Nil means that models are planned for 8 rows, and that the preferred number follows from predicted costs. It is
	// at most 8, or twice the smallest batch size of the model if that is more. Larger batches would need more memory
	// and are rarely faster. The candidates are this maximum, and the number of workers times 1, 2, 4 and so on below
	// it: 3, 6 and 8 for 3 workers. The preferred number is the least candidate at which a row costs at most 0.5% more
	// than at the best candidate.
	PreferredRows []int
	// MaxDelay is the longest time that a request waits for other requests to fill a batch. 0 means 2 ms; a negative time
	// disables waiting. If only one request waited when the last batch was taken, the next request does not wait,
	// because others are then unlikely to follow.
	MaxDelay time.Duration
	// Queue is the maximum number of waiting requests; 0 means 1024. Further requests are rejected with status 429.
	Queue int
	// MaxBody is the maximum size of a request in bytes; 0 means 64 MiB.
	MaxBody int64
	// Timeout is the maximum time of a request, including its transmission; 0 means one minute. After this time, the run
	// of the request is cancelled, and the status is 503. The transmission of the response may take the same time again;
	// then the connection is closed.
	Timeout time.Duration
	// Token, if set, must be in the header of each request, as in "Authorization: Bearer TOKEN". Only /v2/health needs
	// no token.
	Token string
	// Version is the version of the server in the response of /v2.
	Version string
	// Log receives events; nil means slog.Default().
	Log *slog.Logger
	// Hook, if set, observes requests, for tracing.
	Hook Hook
}

// Hook observes requests. For example, an implementation starts a span of a tracing library for each request. Its
// methods are called from many goroutines.
type Hook interface {
	// Begin is called when a request for a model begins. The request continues with the returned context. end is called
	// when the request ends.
	Begin(r *http.Request, model, version string) (ctx context.Context, end func(Outcome))
}

// Outcome is the result of a request for a model.
type Outcome struct {
	Status int           // the HTTP status
	Err    error         // nil if the request succeeded
	Rows   int           // the rows of the batch in which the request ran
	Queued time.Duration // time in the queue
	Run    time.Duration // duration of the batch's run
}

// setDefaults replaces zero values.
func (o *Options) setDefaults() {
	defaultTo(&o.Batching, BatchExact)
	defaultTo(&o.MaxRows, 64)
	defaultTo(&o.MaxDelay, 2*time.Millisecond)
	defaultTo(&o.Queue, 1024)
	defaultTo(&o.MaxBody, 64<<20)
	defaultTo(&o.Timeout, time.Minute)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.PreferredRows = slices.Clone(o.PreferredRows)
}

// check returns an error for invalid values. Defaults are set.
func (o *Options) check() error {
	if !slices.Contains([]Batching{BatchExact, BatchFast, BatchOff}, o.Batching) {
		return fmt.Errorf("Options.Batching is %q: want exact, fast or off", o.Batching)
	}
	for _, c := range []struct {
		name  string
		value int64
	}{{"MaxRows", int64(o.MaxRows)}, {"Queue", int64(o.Queue)}, {"MaxBody", o.MaxBody}, {"Timeout", int64(o.Timeout)}} {
		if c.value < 0 {
			return fmt.Errorf("Options.%s is negative", c.name)
		}
	}
	for _, rows := range o.PreferredRows {
		if rows < 1 {
			return fmt.Errorf("Options.PreferredRows has %d: want at least 1", rows)
		}
	}
	return nil
}

// defaultTo sets *option to value if it is zero.
func defaultTo[T comparable](option *T, value T) {
	if *option == *new(T) {
		*option = value
	}
}
