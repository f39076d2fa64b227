// Package onnxruntime_go has the API of github.com/yalue/onnxruntime_go v1.27.0 and runs models with graphrun: without
// cgo and without a shared library. A program changes to it by one line of its go.mod:
//
//	replace github.com/yalue/onnxruntime_go => github.com/graphrun/graphrun/compat/onnxruntime VERSION
//
// docs/from-onnxruntime.md in the main module lists what differs and what is absent. Memory belongs to Go's garbage
// collector: a Destroy method only ends the use of a value, and slices of its data stay valid.
package onnxruntime_go

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// version is the version of ONNX Runtime whose API the package has.
const version = "1.27.0+graphrun"

// NotInitializedError is returned if [InitializeEnvironment] was not called.
var NotInitializedError error = errors.New("InitializeEnvironment() has not been called")

var initialized atomic.Bool

// check returns an error before [InitializeEnvironment] and after [DestroyEnvironment].
func check() error {
	if !initialized.Load() {
		return NotInitializedError
	}
	return nil
}

// GetVersion returns a version for logs.
func GetVersion() string { return version }

// SetSharedLibraryPath does nothing: there is no shared library.
func SetSharedLibraryPath(path string) {}

// IsInitialized reports whether the environment is initialized.
func IsInitialized() bool { return initialized.Load() }

// InitializeEnvironment must be called before most functions of the package.
func InitializeEnvironment(opts ...EnvironmentOption) error {
	if !initialized.CompareAndSwap(false, true) {
		return errors.New("the environment has already been initialized")
	}
	return nil
}

// DestroyEnvironment reverses [InitializeEnvironment].
func DestroyEnvironment() error {
	if !initialized.CompareAndSwap(true, false) {
		return NotInitializedError
	}
	return nil
}

// EnvironmentOption is an option of [InitializeEnvironment]. There are only options for logs, which have no effect:
// graphrun writes no logs.
type EnvironmentOption func()

// The following options, and telemetry, have no effect.

func WithLogLevelVerbose() EnvironmentOption { return func() {} }
func WithLogLevelInfo() EnvironmentOption    { return func() {} }
func WithLogLevelWarning() EnvironmentOption { return func() {} }
func WithLogLevelError() EnvironmentOption   { return func() {} }
func WithLogLevelFatal() EnvironmentOption   { return func() {} }
func EnableTelemetry() error                 { return check() }
func DisableTelemetry() error                { return check() }

// SetEnvironmentLogLevel has no effect but to check the level.
func SetEnvironmentLogLevel(level LoggingLevel) error {
	if err := check(); err != nil {
		return err
	}
	return checkLevel(level)
}

func checkLevel(level LoggingLevel) error {
	if level < LoggingLevelVerbose || level > LoggingLevelFatal {
		return fmt.Errorf("invalid logging level %d", int(level))
	}
	return nil
}

// RegisterExecutionProviderLibrary returns an error: there are no provider libraries.
func RegisterExecutionProviderLibrary(registrationName, libraryPath string) error {
	return errors.Join(check(), providerError(registrationName))
}

// UnregisterExecutionProviderLibrary returns an error, as no library was registered.
func UnregisterExecutionProviderLibrary(registrationName string) error {
	return errors.Join(check(), fmt.Errorf("no execution provider library %q is registered", registrationName))
}

// MemoryInfo, Allocator and ArenaCfg have no effect: programs manage the memory of their runs.
type (
	MemoryInfo struct{}
	Allocator  struct{}
	ArenaCfg   struct{}
)

func NewArenaCfg(maxMem int, arenaExtendStrategy, initialChunkSize, maxDeadBytesPerChunk int) (*ArenaCfg, error) {
	return &ArenaCfg{}, check()
}
func NewArenaCfgV2(configs map[string]int) (*ArenaCfg, error)                  { return &ArenaCfg{}, check() }
func (c *ArenaCfg) Destroy()                                                   {}
func GetMemoryInfo() (*MemoryInfo, error)                                      { return &MemoryInfo{}, check() }
func CreateAndRegisterAllocator(memInfo *MemoryInfo, arenaCfg *ArenaCfg) error { return check() }
func CreateAndRegisterAllocatorV2(providerType string, memInfo *MemoryInfo, arenaCfg *ArenaCfg,
	options map[string]string) error {
	return check()
}
func UnregisterAllocator(memInfo *MemoryInfo) error { return check() }

// RegisterAllocator returns an error.
func RegisterAllocator(allocator *Allocator) error {
	return errors.Join(check(), errors.New("graphrun has no custom allocators"))
}
