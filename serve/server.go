package serve

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// Server serves models: it is an [http.Handler]. [Open] makes it.
//
// A request for inference passes through these steps: answer finds the model by the path. inferWithin reads the body.
// model.decode decodes the body (by decodeRequest). queue.run waits for a slot and runs the model, perhaps in a batch
// with other requests. model.writeAnswer encodes and writes the outputs.
type Server struct {
	options Options
	threads int // maximum number of workers of one run
	paths   []string
	metrics *serverMetrics
	slots   chan struct{} // a semaphore: one element for each active run
	// extraSlot admits one more run than slots, and only the run of a full batch. The workers of this run use the cores
	// that are idle at the ends of steps of other runs, and between runs.
	extraSlot chan struct{}
	waiting   atomic.Int64 // number of waiting requests of all models
	bodies    tensor.Pool  // memory of the bodies of requests
	collector *time.Timer  // collects the memory of models that are no longer used: see model.leave

	models   atomic.Pointer[map[string][]*model] // by name, sorted by version
	draining atomic.Bool                         // whether Drain was called
	active   sync.WaitGroup                      // accepted requests for inference that are not yet answered
	// acceptLock orders accept and Drain: active.Add must not run at the same time as active.Wait.
	acceptLock sync.Mutex

	reloading sync.Mutex // held by Reload; protects changedFiles
	// changedFiles has an entry, by MODEL/VERSION, for each model that the last call of Reload found new or changed and
	// did not load. The entry is the signature of the model's files, or their [failedSignature] if loading failed.
	changedFiles map[string]signature
}

// Open loads the models at paths (see the package comment) and returns a server. It fails if a model cannot be loaded.
func Open(ctx context.Context, paths []string, o Options) (*Server, error) {
	if err := machine.RunError(); err != nil {
		return nil, err
	}
	o.setDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	threads := o.Compile.Threads
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	s := &Server{options: o, threads: threads, paths: slices.Clone(paths), changedFiles: map[string]signature{},
		slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/threads)), extraSlot: make(chan struct{}, 1),
		collector: time.AfterFunc(math.MaxInt64, debug.FreeOSMemory)}
	s.metrics = newMetrics(s)
	versions, err := findVersions(paths)
	if err != nil {
		return nil, err
	}
	if len(versions) == 0 {
		return nil, fmt.Errorf("no model was found in %s", strings.Join(paths, ", "))
	}
	models := map[string][]*model{}
	for _, v := range versions {
		if v.conflict != nil {
			return nil, v.conflict
		}
		m, err := s.loadAndLog(ctx, v)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", v, err)
		}
		models[v.model] = append(models[v.model], m)
	}
	s.models.Store(&models)
	return s, nil
}

// loadAndLog loads a version of a model and logs it.
func (s *Server) loadAndLog(ctx context.Context, v version) (*model, error) {
	start := time.Now()
	m, whyNotBatched, err := s.load(ctx, v)
	if err != nil {
		return nil, err
	}
	attributes := []any{"model", v.model, "version", v.name, "path", v.path, "time", time.Since(start)}
	if whyNotBatched != nil {
		attributes = append(attributes, "not_batched", whyNotBatched.Error())
	}
	s.options.Log.Info("model loaded", attributes...)
	return m, nil
}

// Reload looks for new, changed and removed models. A changed model replaces its predecessor when it is loaded; the
// predecessor still answers the requests that it has accepted. A model is loaded only when two successive calls find
// the same files, because another process may still be writing them. If a model cannot be loaded, its predecessor
// continues, and the error is logged. For example, let a file of version 2 change before call 5. Call 5 records the
// signature of the files (names, sizes and times) in changedFiles. Call 6 loads the files if their signature is the
// same.
func (s *Server) Reload(ctx context.Context) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	versions, err := findVersions(s.paths)
	if err != nil {
		return err
	}
	old, models, changed := *s.models.Load(), map[string][]*model{}, map[string]signature{}
	for _, v := range versions {
		m := versionOf(old[v.model], v.name)
		isNewOrChanged := m == nil || m.files != v.files || v.conflict != nil
		if isNewOrChanged {
			if loaded, unloaded := s.reloadVersion(ctx, v); loaded != nil {
				m = loaded
			} else {
				changed[v.model+"/"+v.name] = unloaded
			}
		}
		if m != nil {
			models[v.model] = append(models[v.model], m)
		}
	}
	s.changedFiles = changed
	s.models.Store(&models)
	for _, list := range old {
		for _, m := range list {
			successor := versionOf(models[m.name], m.version)
			if successor == nil {
				s.options.Log.Info("model removed", "model", m.name, "version", m.version)
			}
			if successor != m {
				m.leave()
			}
		}
	}
	return nil
}

// reloadVersion loads a new or changed version, if its files are the same as at the last call of Reload. Otherwise, or
// if loading failed, it returns nil and the entry of Server.changedFiles.
func (s *Server) reloadVersion(ctx context.Context, v version) (*model, signature) {
	previous, wasChanged := s.changedFiles[v.model+"/"+v.name]
	if v.conflict != nil {
		conflict := failedSignature(signature(v.conflict.Error()))
		if previous != conflict {
			s.options.Log.Error("model not loaded", "model", v.model, "version", v.name, "error", v.conflict)
		}
		return nil, conflict
	}
	switch {
	case wasChanged && previous == failedSignature(v.files):
		return nil, previous
	case !wasChanged || previous != v.files: // changed since the last call
		return nil, v.files
	}
	loaded, err := s.loadAndLog(ctx, v)
	if err != nil {
		s.options.Log.Error("model not loaded", "model", v.model, "version", v.name, "error", err)
		return nil, failedSignature(v.files)
	}
	return loaded, ""
}

// failedSignature returns the entry of Server.changedFiles for files that could not be loaded. Unchanged files are then
// not loaded again.
func failedSignature(files signature) signature { return "failed " + files }

// versionOf returns the model in list with the given version; nil if there is none.
func versionOf(list []*model, version string) *model {
	i := slices.IndexFunc(list, func(m *model) bool { return m.version == version })
	if i < 0 {
		return nil
	}
	return list[i]
}

// Drain rejects new requests with status 503, and waits until all accepted ones are answered or the context ends.
func (s *Server) Drain(ctx context.Context) error {
	s.acceptLock.Lock()
	s.draining.Store(true)
	s.acceptLock.Unlock()
	ended := make(chan struct{})
	go func() { s.active.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// accept adds a request to s.active. It returns false after a call of Drain.
func (s *Server) accept() bool {
	s.acceptLock.Lock()
	defer s.acceptLock.Unlock()
	if s.draining.Load() {
		return false
	}
	s.active.Add(1)
	return true
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	// A deadline applies to all later responses of the connection, too: each response sets it. A run ends after Timeout
	// at the latest, and its response takes at most the same time.
	_ = http.NewResponseController(w).SetWriteDeadline(start.Add(2 * s.options.Timeout))
	route, err := s.answer(w, r)
	status := http.StatusOK
	isCut := errors.As(err, new(*cutError))
	if isCut {
		status = statusOf(err)
	} else if err != nil {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.options.Timeout)) // it may have passed
		status = writeError(w, err)
	}
	s.metrics.recordResponse(route, status, time.Since(start))
	if isCut { // otherwise the client would take what it has received for the whole response
		panic(http.ErrAbortHandler)
	}
}

// answer answers a request. It returns the route with placeholders for names, which is a label of metrics.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) (route string, err error) {
	route = "unknown"
	defer s.recoverPanic(r, &err)
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
		if err := checkMethod(w, r, http.MethodGet, http.MethodHead); err != nil {
			return path, err
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		s.metrics.write(w, *s.models.Load())
		return path, nil
	}
	name, version, action, ok := splitModelPath(path)
	if !ok || !slices.Contains([]string{"", "ready", "infer"}, action) {
		return "unknown", statusErrorf(http.StatusNotFound, "there is no route %s", r.URL.Path)
	}
	route = strings.TrimSuffix("/v2/models/{model}/"+action, "/")
	m, all, err := s.find(name, version)
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

// splitModelPath splits a path of the form /v2/models/NAME[/versions/VERSION][/ACTION]. Missing parts are empty.
func splitModelPath(path string) (name, version, action string, ok bool) {
	afterPrefix, ok := strings.CutPrefix(path, "/v2/models/")
	parts := strings.Split(afterPrefix, "/")
	if len(parts) >= 3 && parts[1] == "versions" {
		version, parts = parts[2], append(parts[:1], parts[3:]...)
	}
	return parts[0], version, strings.Join(parts[1:], "/"), ok
}

// authorize returns an error if the server requires a token that the request lacks.
func (s *Server) authorize(r *http.Request) error {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	isBearer := strings.EqualFold(scheme, "Bearer")
	if s.options.Token != "" && (!isBearer || subtle.ConstantTimeCompare([]byte(token), []byte(s.options.Token)) != 1) {
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

// checkMethod returns an error if the request has none of the methods.
func checkMethod(w http.ResponseWriter, r *http.Request, methods ...string) error {
	if slices.Contains(methods, r.Method) {
		return nil
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	return statusErrorf(http.StatusMethodNotAllowed, "method %s is not allowed: use %s", r.Method, methods[0])
}

// get answers a GET request with a document.
func get(w http.ResponseWriter, r *http.Request, doc any) error {
	if err := checkMethod(w, r, http.MethodGet, http.MethodHead); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(doc)
	return nil
}

// find returns one version of a model, and the list of all versions of the model. An empty version selects the
// greatest version.
func (s *Server) find(name, version string) (m *model, all []*model, err error) {
	all = (*s.models.Load())[name]
	switch {
	case len(all) == 0:
		return nil, nil, statusErrorf(http.StatusNotFound, "there is no model %q", name)
	case version == "":
		return all[len(all)-1], all, nil
	}
	m = versionOf(all, version)
	if m == nil {
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

// metadata returns the metadata of the model. all lists its versions.
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

// portDocs describes ports.
func portDocs(ports []port) []portDoc {
	list := []portDoc{}
	for _, p := range ports {
		if p.isOptional {
			continue // the protocol has no optional inputs: clients would have to send all weights of some models
		}
		doc := portDoc{Name: p.name, Datatype: p.datatype(), Shape: append([]int{}, p.shape...)}
		if p.shape == nil { // the protocol has no unknown rank
			doc.Shape = []int{-1}
		}
		list = append(list, doc)
	}
	return list
}

// infer answers a request for inference.
func (s *Server) infer(w http.ResponseWriter, r *http.Request, m *model) error {
	if err := checkMethod(w, r, http.MethodPost); err != nil {
		return err
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		w.Header().Set("Accept-Encoding", "identity")
		return statusErrorf(http.StatusUnsupportedMediaType,
			"Content-Encoding %.40q is not supported: send the body as it is", encoding)
	}
	if !s.accept() {
		return statusErrorf(http.StatusServiceUnavailable, "the server is shutting down")
	}
	defer s.active.Done()
	m.users.Add(1)
	defer m.leave()
	start := time.Now()
	ctx, cancel := context.WithTimeoutCause(r.Context(), s.options.Timeout, timeoutError(s.options.Timeout))
	defer cancel()
	end := func(Outcome) {}
	if s.options.Hook != nil {
		ctx, end = s.options.Hook.Begin(r.WithContext(ctx), m.name, m.version)
	}
	// The deadline ends the request of a client that sends its body too slowly. If it cannot be set, only the context
	// ends the request.
	_ = http.NewResponseController(w).SetReadDeadline(start.Add(s.options.Timeout))
	inferred, err := s.inferWithin(ctx, w, r, m)
	outcome := Outcome{Status: http.StatusOK, Err: err, Rows: inferred.rows, Queued: inferred.queued,
		Run: inferred.runTime}
	if err != nil {
		outcome.Status = statusOf(err)
		m.metrics.failures.Inc()
	} else {
		m.metrics.successes.Inc()
		m.metrics.request.Add(int(time.Since(start).Microseconds()))
		m.metrics.queued.Add(int(inferred.queued.Microseconds()))
	}
	end(outcome)
	return err
}

// inferWithin reads a request, runs the model and writes the response. It stops when the context ends. The outputs of
// the returned result are already released.
func (s *Server) inferWithin(ctx context.Context, w http.ResponseWriter, r *http.Request, m *model) (
	res result, err error) {
	defer s.recoverPanic(r, &err)
	body, err := s.readBody(w, r)
	if err != nil {
		return res, bodyError(ctx, err)
	}
	defer func() { // after the response is written, because outputs may share memory with the batch and with the body
		if res.release != nil {
			res.release()
		}
		if !res.runContinues { // a run that continues still reads the body
			_ = body.storage.Release()
		}
	}()
	request, err := m.decode(r.Header, body.bytes)
	if err != nil {
		return res, err
	}
	if res, err = m.queue.run(ctx, request.inputs); err != nil {
		return res, runError(r.Context(), err)
	}
	// The answer may take Options.Timeout again. The deadline ends a write to a client that does not read.
	ctx, cancel := context.WithTimeoutCause(r.Context(), s.options.Timeout, timeoutError(s.options.Timeout))
	defer cancel()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.options.Timeout))
	return res, m.writeAnswer(ctx, w, request, res.out)
}
