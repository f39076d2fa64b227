package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/tensor"
)

// statusError is an error with an HTTP status.
type statusError struct {
	status int
	err    error
}

// Error returns the message of the cause.
func (e *statusError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *statusError) Unwrap() error { return e.err }

// statusErrorf returns an error with an HTTP status and a formatted message.
func statusErrorf(status int, format string, args ...any) error {
	return &statusError{status, fmt.Errorf(format, args...)}
}

// timeoutError is the error of a request that took longer than Options.Timeout.
type timeoutError time.Duration

func (e timeoutError) Error() string {
	return fmt.Sprintf("the request took longer than %v", time.Duration(e))
}

// statusClientGone is the status of a request whose client closed the connection. HTTP has no such status; nginx uses
// this number.
const statusClientGone = 499

// statusOf returns the HTTP status of an error.
func statusOf(err error) int {
	var e *statusError
	if errors.As(err, &e) {
		return e.status
	}
	if errors.As(err, new(*tensor.MemoryError)) {
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// writeError writes the response for an error and returns its HTTP status.
func writeError(w http.ResponseWriter, err error) int {
	status := statusOf(err)
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	for _, name := range []string{"Content-Length", jsonLengthHeader} { // of an answer that failed before its beginning
		w.Header().Del(name)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
	return status
}

// cutError is the error of an answer that ended after its beginning was written. The connection must be closed.
type cutError struct{ err error }

// Error returns the message of the cause.
func (e *cutError) Error() string { return "the answer was cut off: " + e.err.Error() }

// Unwrap returns the cause.
func (e *cutError) Unwrap() error { return e.err }

// answerError returns the error of an answer that ends because of err, with its status: the client is gone or does not
// read. It returns nil if err is nil.
func answerError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(timeoutError)), errors.Is(err, os.ErrDeadlineExceeded):
		return &statusError{http.StatusServiceUnavailable, err}
	}
	return &statusError{statusClientGone, err}
}

// endedError returns [answerError] of the cause of a context that has ended, otherwise nil.
func endedError(ctx context.Context) error { return answerError(context.Cause(ctx)) }

// recoverPanic recovers a panic of a handler, logs it, and stores an error in err. The status is 500, or 503 if there
// was not enough memory. Only a deferred call has an effect. A panic with [http.ErrAbortHandler] continues, because a
// handler closes the connection by this panic.
func (s *Server) recoverPanic(r *http.Request, err *error) {
	value := recover()
	if value == nil {
		return
	}
	if value == http.ErrAbortHandler {
		panic(value)
	}
	if memoryErr, ok := value.(*tensor.MemoryError); ok {
		*err = &statusError{http.StatusServiceUnavailable, memoryErr}
		return
	}
	s.options.Log.Error("a request panicked", "path", r.URL.Path, "panic", value, "stack", string(debug.Stack()))
	*err = statusErrorf(http.StatusInternalServerError, "the request failed because of an internal error")
}

// decode decodes a request. The error has the status 400, or 503 if there is not enough memory.
func (m *model) decode(header http.Header, body []byte) (r *request, err error) {
	err = func() (err error) {
		defer tensor.CatchMemory(&err)
		r, err = m.decodeRequest(header, body)
		return err
	}()
	if memoryErr := (*tensor.MemoryError)(nil); errors.As(err, &memoryErr) {
		return nil, &statusError{http.StatusServiceUnavailable, err}
	}
	if err != nil {
		return nil, &statusError{http.StatusBadRequest, err}
	}
	return r, nil
}

// bodyError returns the error of a body that cannot be read, with its status. err is the error of reading; ctx is the
// context of the request.
func bodyError(ctx context.Context, err error) error {
	var tooLarge *http.MaxBytesError
	var memoryErr *tensor.MemoryError
	switch {
	case errors.As(err, &memoryErr):
		return &statusError{http.StatusServiceUnavailable, err}
	case errors.As(err, &tooLarge):
		return statusErrorf(http.StatusRequestEntityTooLarge, "the body exceeds %d bytes", tooLarge.Limit)
	case errors.As(context.Cause(ctx), new(timeoutError)), errors.Is(err, os.ErrDeadlineExceeded):
		return statusErrorf(http.StatusServiceUnavailable, "the body did not arrive in time")
	case ctx.Err() != nil:
		return &statusError{statusClientGone, context.Cause(ctx)}
	}
	return statusErrorf(http.StatusBadRequest, "the body cannot be read: %w", err)
}

// runError returns the error of a run with its status. clientContext ends when the client closes the connection.
func runError(clientContext context.Context, err error) error {
	var allocationErr *tensor.MemoryError
	var planErr *graphrun.MemoryError
	switch {
	case errors.Is(err, errQueueFull):
		return &statusError{http.StatusTooManyRequests, err}
	case clientContext.Err() != nil:
		return &statusError{statusClientGone, context.Cause(clientContext)}
	case errors.As(err, &allocationErr), errors.As(err, &planErr), errors.As(err, new(timeoutError)):
		return &statusError{http.StatusServiceUnavailable, err}
	case errors.Is(err, errPanic):
		return &statusError{http.StatusInternalServerError, err}
	}
	return &statusError{http.StatusBadRequest, err}
}
