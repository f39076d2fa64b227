// Package onnxruntime has the API of the Go binding in the repository of ONNX Runtime
// (github.com/microsoft/onnxruntime/go/onnxruntime), and runs models by graphrun, without cgo. A program switches by a
// line of its go.mod:
//
//	replace github.com/microsoft/onnxruntime/go => github.com/graphrun/graphrun/compat/microsoft VERSION
//
// docs/from-onnxruntime.md of graphrun says what differs. The binding has no version yet; its README pins commit
// 2a43ec07e67d, and this package has the API of that time.
package onnxruntime

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	ort "github.com/graphrun/graphrun/compat/onnxruntime"
)

var (
	environment  sync.Mutex
	isShutDown   bool
	openSessions atomic.Int64
)

// SetSharedLibraryPath has no effect: there is no shared library.
func SetSharedLibraryPath(path string) {}

// Init begins the use of the package. Further calls have no effect.
func Init() error {
	environment.Lock()
	defer environment.Unlock()
	if isShutDown {
		return errors.New("ort: already shut down")
	}
	if ort.IsInitialized() {
		return nil
	}
	return wrap("init", ort.InitializeEnvironment())
}

// Shutdown ends the use of the package, finally. It fails while sessions are open.
func Shutdown() error {
	environment.Lock()
	defer environment.Unlock()
	if n := openSessions.Load(); n > 0 {
		return fmt.Errorf("ort: cannot shut down: %d session(s) still open", n)
	}
	if !isShutDown && ort.IsInitialized() {
		if err := ort.DestroyEnvironment(); err != nil {
			return wrap("shut down", err)
		}
	}
	isShutDown = true
	return nil
}

// IsInitialized reports whether the package can be used.
func IsInitialized() bool { return ort.IsInitialized() }

// GetVersion returns the version of ONNX Runtime whose API the package has.
func GetVersion() (string, error) { return ort.GetVersion(), check() }

// APIVersion returns the version of the C API whose functions the package has.
func APIVersion() int { return 27 }

// EnableTelemetry has no effect: nothing is sent.
func EnableTelemetry() error { return check() }

// DisableTelemetry has no effect: nothing is sent.
func DisableTelemetry() error { return check() }

// AvailableProviders returns the processor's provider.
func AvailableProviders() ([]string, error) { return []string{"CPUExecutionProvider"}, check() }

func check() error {
	if !ort.IsInitialized() {
		return errors.New("ort: not initialized; call Init() first")
	}
	return nil
}

// ErrorCode is the kind of an [OrtError].
type ErrorCode int

// The kinds of errors, with the numbers of the C API.
const (
	ErrorCodeOK ErrorCode = iota
	ErrorCodeFail
	ErrorCodeInvalidArgument
	ErrorCodeNoSuchFile
	ErrorCodeNoModel
	ErrorCodeEngineError
	ErrorCodeRuntimeException
	ErrorCodeInvalidProtobuf
	ErrorCodeModelLoaded
	ErrorCodeNotImplemented
	ErrorCodeInvalidGraph
	ErrorCodeEPFail
)

var errorNames = [...]string{"OK", "Fail", "InvalidArgument", "NoSuchFile", "NoModel", "EngineError", "RuntimeException",
	"InvalidProtobuf", "ModelLoaded", "NotImplemented", "InvalidGraph", "EPFail"}

// String returns the name without ErrorCode.
func (c ErrorCode) String() string {
	if c >= 0 && int(c) < len(errorNames) {
		return errorNames[c]
	}
	return fmt.Sprintf("ErrorCode(%d)", int(c))
}

// OrtError is an error of the loader or of a run. Its message is that of graphrun, and names the place in the model.
type OrtError struct {
	Code ErrorCode
	Msg  string
	err  error
}

// Error returns the kind and the message.
func (e *OrtError) Error() string { return fmt.Sprintf("onnxruntime: %s: %s", e.Code, e.Msg) }

// Unwrap returns the error of graphrun.
func (e *OrtError) Unwrap() error { return e.err }

// wrap adds what was done to an error of package ort.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("ort: %s: %w", what, &OrtError{Code: codeOf(err), Msg: err.Error(), err: err})
}
