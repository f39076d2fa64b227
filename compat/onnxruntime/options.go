package onnxruntime_go

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// SessionOptions are options of a session. Those without an effect in graphrun are accepted.
type SessionOptions struct {
	threads int
	entries map[string]string // nil after Destroy
}

// NewSessionOptions returns the default options.
func NewSessionOptions() (*SessionOptions, error) {
	if err := check(); err != nil {
		return nil, err
	}
	return &SessionOptions{entries: map[string]string{}}, nil
}

func (o *SessionOptions) check() error {
	if o == nil || o.entries == nil {
		return errors.New("the SessionOptions are not initialized")
	}
	return nil
}

// Destroy ends the use of the options. Sessions do not need them any more.
func (o *SessionOptions) Destroy() error {
	if err := o.check(); err != nil {
		return err
	}
	*o = SessionOptions{}
	return nil
}

// SetIntraOpNumThreads sets the number of workers of a run (graphrun.Options.Threads). 0 is GOMAXPROCS.
func (o *SessionOptions) SetIntraOpNumThreads(n int) error {
	if n < 0 {
		return fmt.Errorf("the number of threads must be at least 0, not %d", n)
	}
	if err := o.check(); err != nil {
		return err
	}
	o.threads = n
	return nil
}

// SetInterOpNumThreads has no effect: the workers of a run share all work.
func (o *SessionOptions) SetInterOpNumThreads(n int) error {
	if n < 0 {
		return fmt.Errorf("the number of threads must be at least 0, not %d", n)
	}
	return o.check()
}

// SetExecutionMode has no effect: independent nodes always run in parallel.
func (o *SessionOptions) SetExecutionMode(newMode ExecutionMode) error {
	if newMode != ExecutionModeSequential && newMode != ExecutionModeParallel {
		return fmt.Errorf("invalid execution mode %d", int(newMode))
	}
	return o.check()
}

// SetGraphOptimizationLevel has no effect: all passes run.
func (o *SessionOptions) SetGraphOptimizationLevel(level GraphOptimizationLevel) error {
	const layout = 3 // ORT_ENABLE_LAYOUT
	if level < 0 || level > layout && level != GraphOptimizationLevelEnableAll {
		return fmt.Errorf("invalid graph optimization level %d", int(level))
	}
	return o.check()
}

// The following methods have no effect.

func (o *SessionOptions) SetCpuMemArena(isEnabled bool) error { return o.check() }
func (o *SessionOptions) SetMemPattern(isEnabled bool) error  { return o.check() }
func (o *SessionOptions) DisableProfiling() error             { return o.check() }
func (o *SessionOptions) SetLogSeverityLevel(level LoggingLevel) error {
	return errors.Join(o.check(), checkLevel(level))
}

// AddSessionConfigEntry sets an entry, which has no effect.
func (o *SessionOptions) AddSessionConfigEntry(key, value string) error {
	if err := o.check(); err != nil {
		return err
	}
	o.entries[key] = value
	return nil
}

// HasSessionConfigEntry reports whether an entry is set.
func (o *SessionOptions) HasSessionConfigEntry(key string) (bool, error) {
	if err := o.check(); err != nil {
		return false, err
	}
	_, ok := o.entries[key]
	return ok, nil
}

// GetSessionConfigEntry returns an entry.
func (o *SessionOptions) GetSessionConfigEntry(key string) (string, error) {
	if ok, err := o.HasSessionConfigEntry(key); err != nil || !ok {
		return "", errors.Join(err, fmt.Errorf("the session config entry %q is not set", key))
	}
	return o.entries[key], nil
}

// SetOptimizedModelFilePath returns an error: graphrun writes no ONNX models.
func (o *SessionOptions) SetOptimizedModelFilePath(path string) error {
	return errors.Join(o.check(), errors.New("graphrun writes no optimized models: remove this call; "+
		"`graphrun plan MODEL` shows the optimized graph"))
}

// EnableProfiling returns an error.
func (o *SessionOptions) EnableProfiling(profileFilePrefix string) error {
	return errors.Join(o.check(), errors.New("sessions write no profiles: remove this call; "+
		"`graphrun bench MODEL --profile --trace OUT.json` measures the steps of a run"))
}

// providerError is the error for an execution provider other than the CPU.
func providerError(name string) error {
	return fmt.Errorf("there is no execution provider %s: this package runs models on the CPU; remove the call, or continue "+
		"after this error with the CPU", name)
}

// AppendExecutionProvider accepts the CPU, and returns an error for other providers.
func (o *SessionOptions) AppendExecutionProvider(providerName string, options map[string]string) error {
	if err := o.check(); err != nil {
		return err
	}
	if name := strings.TrimSuffix(strings.ToUpper(providerName), "EXECUTIONPROVIDER"); name != "CPU" {
		return providerError(providerName)
	}
	return nil
}

// The following methods return an error.

func (o *SessionOptions) AppendExecutionProviderCUDA(cudaOptions *CUDAProviderOptions) error {
	return o.AppendExecutionProvider("CUDA", nil)
}
func (o *SessionOptions) AppendExecutionProviderTensorRT(tensorRTOptions *TensorRTProviderOptions) error {
	return o.AppendExecutionProvider("TensorRT", nil)
}
func (o *SessionOptions) AppendExecutionProviderCoreML(flags uint32) error {
	return o.AppendExecutionProvider("CoreML", nil)
}
func (o *SessionOptions) AppendExecutionProviderCoreMLV2(options map[string]string) error {
	return o.AppendExecutionProvider("CoreML", nil)
}
func (o *SessionOptions) AppendExecutionProviderDirectML(deviceID int) error {
	return o.AppendExecutionProvider("DirectML", nil)
}
func (o *SessionOptions) AppendExecutionProviderOpenVINO(options map[string]string) error {
	return o.AppendExecutionProvider("OpenVINO", nil)
}

// noProvider has the methods of options that nothing takes.
type noProvider string

// Update returns an error.
func (n noProvider) Update(options map[string]string) error { return providerError(string(n)) }

// Destroy does nothing.
func (noProvider) Destroy() error { return nil }

// CUDAProviderOptions are options that nothing takes.
type CUDAProviderOptions struct{ noProvider }

// TensorRTProviderOptions are options that nothing takes.
type TensorRTProviderOptions struct{ noProvider }

// NewCUDAProviderOptions returns an error, as ONNX Runtime without CUDA does.
func NewCUDAProviderOptions() (*CUDAProviderOptions, error) {
	return nil, errors.Join(check(), providerError("CUDA"))
}

// NewTensorRTProviderOptions returns an error, as ONNX Runtime without TensorRT does.
func NewTensorRTProviderOptions() (*TensorRTProviderOptions, error) {
	return nil, errors.Join(check(), providerError("TensorRT"))
}

// RunOptions can end runs.
type RunOptions struct {
	mutex  sync.Mutex
	ctx    context.Context // of all runs with the options until UnsetTerminate; nil after Destroy
	cancel context.CancelCauseFunc
}

// NewRunOptions returns options.
func NewRunOptions() (*RunOptions, error) {
	if err := check(); err != nil {
		return nil, err
	}
	o := &RunOptions{}
	o.ctx, o.cancel = context.WithCancelCause(context.Background())
	return o, nil
}

// change calls f unless the options were destroyed.
func (o *RunOptions) change(f func()) error {
	errUnusable := errors.New("the RunOptions are not initialized")
	if o == nil {
		return errUnusable
	}
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.ctx == nil {
		return errUnusable
	}
	f()
	return nil
}

// Terminate cancels the runs with these options: those in progress, and later ones until UnsetTerminate.
func (o *RunOptions) Terminate() error {
	return o.change(func() { o.cancel(errors.New("the run was terminated by its RunOptions")) })
}

// UnsetTerminate allows runs again.
func (o *RunOptions) UnsetTerminate() error {
	return o.change(func() {
		if o.ctx.Err() != nil {
			o.ctx, o.cancel = context.WithCancelCause(context.Background())
		}
	})
}

// Destroy ends the use of the options. Runs in progress continue.
func (o *RunOptions) Destroy() error { return o.change(func() { o.ctx = nil }) }

// context returns the context of a run. o may be nil.
func (o *RunOptions) context() (ctx context.Context, err error) {
	if o == nil {
		return context.Background(), nil
	}
	err = o.change(func() { ctx = o.ctx })
	return ctx, err
}
