package serve

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/tensor"
)

// Batching says which requests run as one batch.
type Batching string

const (
	// BatchExact joins requests whose results have the same bits in the batch as alone. One plan serves all batch sizes.
	BatchExact Batching = "exact"
	// BatchFast joins all requests with independent rows. Sizes may have different plans, so that the last bits of a
	// result depend on the size of the batch.
	BatchFast Batching = "fast"
	// BatchOff joins no requests.
	BatchOff Batching = "off"
)

// Options are the options of a server. Zero values are good defaults.
type Options struct {
	// Loader loads the models. Its field FS is not used: a model reads only files in its own directory.
	Loader graphrun.Loader
	// Compile compiles the models. Compile.Threads bounds the workers of one run. As many runs are active at once as
	// workers fit into GOMAXPROCS.
	Compile graphrun.Options
	// Batching says which requests run as one batch; "" is BatchExact.
	Batching Batching
	// MaxRows is the maximum number of rows of a batch; 0 is 64. A single request may have more rows.
	MaxRows int
	// PreferredRows are typical numbers of rows of a batch. Models are planned for the first one.
	PreferredRows []int
	// MaxDelay is the longest time that a request waits for others to join. 0 is 2 ms; a negative time disables
	// waiting. While no other requests wait, there is no delay.
	MaxDelay time.Duration
	// Queue is the maximum number of waiting requests; 0 is 1024. Further requests are rejected with status 429.
	Queue int
	// MaxBody is the maximum size of a request in bytes; 0 is 64 MiB.
	MaxBody int64
	// Timeout bounds the time of a request, including its transmission; 0 is one minute. Then its run is cancelled and
	// the status is 503.
	Timeout time.Duration
	// Token, if set, is required of all requests but those of /v2/health, as in "Authorization: Bearer TOKEN".
	Token string
	// Version is the version of the server in the response of /v2.
	Version string
	// Log receives events; nil is slog.Default().
	Log *slog.Logger
	// Hook, if set, observes requests, for tracing.
	Hook Hook
}

// Hook observes requests. An implementation starts a span of a tracing library. It is called from many goroutines.
type Hook interface {
	// Begin is called when a request for a model begins. The request has the returned context. end is called with the
	// result.
	Begin(r *http.Request, model, version string) (ctx context.Context, end func(Outcome))
}

// Outcome is the result of a request for a model.
type Outcome struct {
	Status int           // the HTTP status
	Err    error         // nil if the request succeeded
	Rows   int           // the rows of the batch in which the request ran
	Queued time.Duration // before the run
	Run    time.Duration // of the batch
}

// Server serves models: it is an [http.Handler]. [Open] makes it.
type Server struct {
	options Options
	paths   []string
	metrics *serverMetrics
	slots   chan struct{} // has an element for each active run
	waiting atomic.Int64  // waiting requests of all models

	models   atomic.Pointer[map[string][]*model] // by name, sorted by version
	draining atomic.Bool
	active   sync.WaitGroup // requests for inference

	reloading sync.Mutex
	seen      map[string]signature // by version: of the last scan, and of files that cannot be loaded
}

// Open loads the models at paths (see the package comment) and returns a server. It fails if a model cannot be loaded.
func Open(ctx context.Context, paths []string, o Options) (*Server, error) {
	o.complete()
	if !slices.Contains([]Batching{BatchExact, BatchFast, BatchOff}, o.Batching) {
		return nil, fmt.Errorf("Options.Batching is %q: want exact, fast or off", o.Batching)
	}
	threads := o.Compile.Threads
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	s := &Server{options: o, paths: slices.Clone(paths), seen: map[string]signature{},
		slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/threads))}
	s.metrics = newMetrics(s)
	versions, err := findVersions(paths)
	if err != nil {
		return nil, err
	}
	if len(versions) == 0 {
		return nil, fmt.Errorf("there is no model in %s", strings.Join(paths, ", "))
	}
	models := map[string][]*model{}
	for _, v := range versions {
		m, err := s.loadAndLog(ctx, v)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", v, err)
		}
		models[v.model] = append(models[v.model], m)
	}
	s.models.Store(&models)
	return s, nil
}

func (o *Options) complete() {
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

// defaultTo sets *option to value if it is zero.
func defaultTo[T comparable](option *T, value T) {
	if *option == *new(T) {
		*option = value
	}
}

func (s *Server) loadAndLog(ctx context.Context, v version) (*model, error) {
	start := time.Now()
	m, unjoined, err := s.load(ctx, v)
	if err != nil {
		return nil, err
	}
	attributes := []any{"model", v.model, "version", v.name, "path", v.path, "time", time.Since(start)}
	if unjoined != nil {
		attributes = append(attributes, "not_batched", unjoined.Error())
	}
	s.options.Log.Info("model loaded", attributes...)
	return m, nil
}

// Reload looks for new, changed and removed models. A changed model replaces its predecessor when it is loaded; requests
// that are running end with the predecessor. Files are loaded when two calls found them unchanged, because another
// process may still write them. If a model cannot be loaded, its predecessor continues, and the error is logged.
func (s *Server) Reload(ctx context.Context) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	versions, err := findVersions(s.paths)
	if err != nil {
		return err
	}
	old, models, seen := *s.models.Load(), map[string][]*model{}, map[string]signature{}
	for _, v := range versions {
		key := v.model + "/" + v.name
		m := versionOf(old[v.model], v.name)
		if m == nil || m.files != v.files {
			previous, wasSeen := s.seen[key]
			switch {
			case !wasSeen || previous != v.files && previous != failed(v.files):
				seen[key] = v.files
			case previous == failed(v.files):
				seen[key] = previous
			default:
				loaded, err := s.loadAndLog(ctx, v)
				if err != nil {
					s.options.Log.Error("model not loaded", "model", v.model, "version", v.name, "error", err)
					seen[key] = failed(v.files)
				} else {
					m = loaded
				}
			}
		}
		if m != nil {
			models[v.model] = append(models[v.model], m)
		}
	}
	for _, list := range old {
		for _, m := range list {
			if versionOf(models[m.name], m.version) == nil {
				s.options.Log.Info("model removed", "model", m.name, "version", m.version)
			}
		}
	}
	s.seen = seen
	s.models.Store(&models)
	return nil
}

// failed returns the signature in Server.seen of files that cannot be loaded.
func failed(files signature) signature { return "failed " + files }

func versionOf(list []*model, version string) *model {
	i := slices.IndexFunc(list, func(m *model) bool { return m.version == version })
	if i < 0 {
		return nil
	}
	return list[i]
}

// Drain rejects new requests with status 503, and waits until all accepted ones are answered or the context ends.
func (s *Server) Drain(ctx context.Context) error {
	s.draining.Store(true)
	ended := make(chan struct{})
	go func() { s.active.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// statusError is an error with an HTTP status.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }

func (e *statusError) Unwrap() error { return e.err }

func statusErrorf(status int, format string, args ...any) error {
	return &statusError{status, fmt.Errorf(format, args...)}
}

// timeoutError is the error of a request that took longer than Options.Timeout.
type timeoutError time.Duration

func (e timeoutError) Error() string {
	return fmt.Sprintf("the request took longer than %v", time.Duration(e))
}

// statusClientGone is nginx's status of a request whose client closed the connection.
const statusClientGone = 499

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	route, err := s.answer(w, r)
	status := http.StatusOK
	if err != nil {
		status = writeError(w, err)
	}
	s.metrics.responded(route, status, time.Since(start))
}

// writeError writes the response of an error and returns its status.
func writeError(w http.ResponseWriter, err error) int {
	status := http.StatusInternalServerError
	var e *statusError
	if errors.As(err, &e) {
		status = e.status
	}
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
	return status
}

// answer answers a request. It returns the route without names, for metrics.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) (route string, err error) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	if path == "/v2/health/live" || path == "/v2/health/ready" {
		return path, s.health(w, r, path == "/v2/health/ready")
	}
	if err := s.authorize(r); err != nil {
		return "unauthorized", err
	}
	switch path {
	case "/v2":
		return path, get(w, r, map[string]any{"name": "graphrun", "version": s.options.Version,
			"extensions": []string{"binary_tensor_data"}})
	case "/metrics":
		if err := checkMethod(r, http.MethodGet, http.MethodHead); err != nil {
			return path, err
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		s.metrics.set.WritePrometheus(w)
		return path, nil
	}
	rest, ok := strings.CutPrefix(path, "/v2/models/")
	if !ok {
		return "unknown", statusErrorf(http.StatusNotFound, "there is no route %s", r.URL.Path)
	}
	parts, version := strings.Split(rest, "/"), ""
	if len(parts) >= 3 && parts[1] == "versions" {
		version, parts = parts[2], append(parts[:1], parts[3:]...)
	}
	action := strings.Join(parts[1:], "/")
	if !slices.Contains([]string{"", "ready", "infer"}, action) {
		return "unknown", statusErrorf(http.StatusNotFound, "there is no route %s", r.URL.Path)
	}
	route = strings.TrimSuffix("/v2/models/{model}/"+action, "/")
	m, all, err := s.find(parts[0], version)
	if err != nil {
		return route, err
	}
	switch action {
	case "":
		return route, get(w, r, m.metadata(all))
	case "ready":
		return route, get(w, r, map[string]any{"name": m.name, "ready": !s.draining.Load()})
	}
	return route, s.infer(w, r, m)
}

func (s *Server) authorize(r *http.Request) error {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if s.options.Token != "" && (!ok || subtle.ConstantTimeCompare([]byte(token), []byte(s.options.Token)) != 1) {
		return statusErrorf(http.StatusUnauthorized, "a valid bearer token is required")
	}
	return nil
}

// health answers whether the server is live or ready.
func (s *Server) health(w http.ResponseWriter, r *http.Request, ready bool) error {
	if !ready {
		return get(w, r, map[string]bool{"live": true})
	}
	if s.draining.Load() {
		return statusErrorf(http.StatusServiceUnavailable, "the server is shutting down")
	}
	return get(w, r, map[string]bool{"ready": true})
}

func checkMethod(r *http.Request, methods ...string) error {
	if slices.Contains(methods, r.Method) {
		return nil
	}
	return statusErrorf(http.StatusMethodNotAllowed, "method %s: want %s", r.Method, methods[0])
}

// get answers a GET request with a document.
func get(w http.ResponseWriter, r *http.Request, doc any) error {
	if err := checkMethod(r, http.MethodGet, http.MethodHead); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(doc)
	return nil
}

// find returns a version of a model, the greatest one if version is empty, and all versions.
func (s *Server) find(name, version string) (m *model, all []*model, err error) {
	all = (*s.models.Load())[name]
	switch {
	case len(all) == 0:
		return nil, nil, statusErrorf(http.StatusNotFound, "there is no model %q", name)
	case version == "":
		return all[len(all)-1], all, nil
	}
	if m = versionOf(all, version); m == nil {
		return nil, nil, statusErrorf(http.StatusNotFound, "model %q has no version %q", name, version)
	}
	return m, all, nil
}

// portDoc describes an input or output.
type portDoc struct {
	Name     string `json:"name"`
	Datatype string `json:"datatype"`
	Shape    []int  `json:"shape"`
}

// metadata returns the metadata of the model, whose versions are all.
func (m *model) metadata(all []*model) any {
	doc := struct {
		Name     string    `json:"name"`
		Versions []string  `json:"versions"`
		Platform string    `json:"platform"`
		Inputs   []portDoc `json:"inputs"`
		Outputs  []portDoc `json:"outputs"`
	}{Name: m.name, Platform: "graphrun", Inputs: portDocs(m.inputs), Outputs: portDocs(m.outputs)}
	for _, v := range all {
		doc.Versions = append(doc.Versions, v.version)
	}
	return doc
}

func portDocs(ports []port) []portDoc {
	list := make([]portDoc, len(ports))
	for i, p := range ports {
		list[i] = portDoc{p.name, p.datatype(), append([]int{}, p.shape...)}
		if p.shape == nil { // the protocol has no unknown rank
			list[i].Shape = []int{-1}
		}
	}
	return list
}

// infer answers a request for inference.
func (s *Server) infer(w http.ResponseWriter, r *http.Request, m *model) (err error) {
	if err := checkMethod(r, http.MethodPost); err != nil {
		return err
	}
	s.active.Add(1)
	defer s.active.Done()
	if s.draining.Load() {
		return statusErrorf(http.StatusServiceUnavailable, "the server is shutting down")
	}
	start := time.Now()
	ctx, cancel := context.WithTimeoutCause(r.Context(), s.options.Timeout,
		timeoutError(s.options.Timeout))
	defer cancel()
	var res result
	if s.options.Hook != nil {
		var end func(Outcome)
		ctx, end = s.options.Hook.Begin(r.WithContext(ctx), m.name, m.version)
		defer func() {
			o := Outcome{Status: http.StatusOK, Err: err, Rows: res.rows, Queued: res.queued, Run: res.active}
			var e *statusError
			if errors.As(err, &e) {
				o.Status = e.status
			}
			end(o)
		}()
	}
	defer func() {
		if err != nil {
			m.metrics.failures.Inc()
			return
		}
		m.metrics.successes.Inc()
		m.metrics.request.Add(int(time.Since(start).Microseconds()))
		m.metrics.queued.Add(int(res.queued.Microseconds()))
	}()
	// The body of a slow client ends with the request's time.
	http.NewResponseController(w).SetReadDeadline(start.Add(s.options.Timeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.options.MaxBody))
	if err != nil {
		return bodyError(ctx, err)
	}
	request, err := m.decode(r.Header, body)
	if err != nil {
		return err
	}
	res, err = m.queue.run(ctx, request.inputs)
	if err != nil {
		return runError(r.Context(), err)
	}
	response, jsonLength, err := m.encodeResponse(request, res.out)
	res.release()
	if err != nil {
		return &statusError{http.StatusBadRequest, err}
	}
	w.Header().Set("Content-Type", "application/json")
	if jsonLength >= 0 {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set(headerLength, strconv.Itoa(jsonLength))
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(response)))
	w.Write(response)
	return nil
}

// decode decodes a request. A lack of memory is not the request's mistake.
func (m *model) decode(header http.Header, body []byte) (r *request, err error) {
	err = func() (err error) {
		defer tensor.CatchMemory(&err)
		r, err = m.decodeRequest(header, body)
		return err
	}()
	if memory := (*tensor.MemoryError)(nil); errors.As(err, &memory) {
		return nil, &statusError{http.StatusServiceUnavailable, err}
	}
	if err != nil {
		return nil, &statusError{http.StatusBadRequest, err}
	}
	return r, nil
}

// bodyError returns the error of a body that cannot be read.
func bodyError(ctx context.Context, err error) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return statusErrorf(http.StatusRequestEntityTooLarge, "the body exceeds %d bytes", tooLarge.Limit)
	case ctx.Err() != nil:
		return &statusError{statusClientGone, context.Cause(ctx)}
	}
	return statusErrorf(http.StatusBadRequest, "the body cannot be read: %w", err)
}

// runError returns the error of a run with its status. request is the context of the client.
func runError(request context.Context, err error) error {
	var memory *tensor.MemoryError
	var need *graphrun.MemoryError
	switch {
	case errors.Is(err, errQueueFull):
		return &statusError{http.StatusTooManyRequests, err}
	case request.Err() != nil:
		return &statusError{statusClientGone, context.Cause(request)}
	case errors.As(err, &memory), errors.As(err, &need), errors.As(err, new(timeoutError)):
		return &statusError{http.StatusServiceUnavailable, err}
	case errors.Is(err, errPanic):
		return &statusError{http.StatusInternalServerError, err}
	}
	return &statusError{http.StatusBadRequest, err}
}
