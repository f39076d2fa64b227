package onnxruntime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	ort "github.com/graphrun/graphrun/compat/onnxruntime"
)

// GraphOptimizationLevel is how much a session optimizes. It has no effect: graphrun always chooses the best plan.
type GraphOptimizationLevel int

// The levels, with the numbers of the C API.
const (
	GraphOptimizationLevelDisableAll GraphOptimizationLevel = 0
	GraphOptimizationLevelBasic      GraphOptimizationLevel = 1
	GraphOptimizationLevelExtended   GraphOptimizationLevel = 2
	GraphOptimizationLevelAll        GraphOptimizationLevel = 99
)

// ExecutionMode has no effect: independent nodes run in parallel.
type ExecutionMode int

// The modes, with the numbers of the C API.
const (
	ExecutionModeSequential ExecutionMode = 0
	ExecutionModeParallel   ExecutionMode = 1
)

// SessionOptions are options of a session. Those without an effect in graphrun are accepted.
type SessionOptions struct {
	options    *ort.SessionOptions
	entries    map[string]string
	threads    int
	mode       ExecutionMode
	memPattern bool
}

// NewSessionOptions returns the default options.
func NewSessionOptions() (*SessionOptions, error) {
	options, err := ort.NewSessionOptions()
	if err != nil {
		return nil, wrap("create session options", err)
	}
	return &SessionOptions{options: options, entries: map[string]string{}, memPattern: true}, nil
}

// base returns the options of package ort; nil for the default.
func (o *SessionOptions) base() *ort.SessionOptions {
	if o == nil {
		return nil
	}
	return o.options
}

// Clone returns a copy of the options.
func (o *SessionOptions) Clone() (*SessionOptions, error) {
	c, err := NewSessionOptions()
	if err != nil {
		return nil, err
	}
	c.entries, c.mode, c.memPattern = maps.Clone(o.entries), o.mode, o.memPattern
	return c, c.SetIntraOpNumThreads(o.threads)
}

// SetIntraOpNumThreads sets the number of workers of a run; 0 is GOMAXPROCS.
func (o *SessionOptions) SetIntraOpNumThreads(n int) error {
	o.threads = n
	return wrap("set intra op threads", o.options.SetIntraOpNumThreads(n))
}

// SetInterOpNumThreads has no effect: the workers of a run share all work.
func (o *SessionOptions) SetInterOpNumThreads(n int) error {
	return wrap("set inter op threads", o.options.SetInterOpNumThreads(n))
}

// SetGraphOptimizationLevel has no effect.
func (o *SessionOptions) SetGraphOptimizationLevel(level GraphOptimizationLevel) error {
	return wrap("set graph optimization level", o.options.SetGraphOptimizationLevel(ort.GraphOptimizationLevel(level)))
}

// SetExecutionMode has no effect.
func (o *SessionOptions) SetExecutionMode(mode ExecutionMode) error {
	o.mode = mode
	return wrap("set execution mode", o.options.SetExecutionMode(ort.ExecutionMode(mode)))
}

// GetExecutionMode returns the mode that was set.
func (o *SessionOptions) GetExecutionMode() (ExecutionMode, error) { return o.mode, nil }

// EnableMemPattern has no effect: memory is always planned.
func (o *SessionOptions) EnableMemPattern() error {
	o.memPattern = true
	return nil
}

// DisableMemPattern has no effect.
func (o *SessionOptions) DisableMemPattern() error {
	o.memPattern = false
	return nil
}

// IsMemPatternEnabled returns what was set.
func (o *SessionOptions) IsMemPatternEnabled() (bool, error) { return o.memPattern, nil }

// EnableCpuMemArena has no effect.
func (o *SessionOptions) EnableCpuMemArena() error { return nil }

// DisableCpuMemArena has no effect.
func (o *SessionOptions) DisableCpuMemArena() error { return nil }

// AddConfigEntry keeps an entry, which has no effect.
func (o *SessionOptions) AddConfigEntry(key, value string) error {
	o.entries[key] = value
	return nil
}

// HasSessionConfigEntry reports whether there is an entry.
func (o *SessionOptions) HasSessionConfigEntry(key string) (bool, error) {
	_, ok := o.entries[key]
	return ok, nil
}

// GetSessionConfigEntry returns an entry.
func (o *SessionOptions) GetSessionConfigEntry(key string) (string, error) {
	value, ok := o.entries[key]
	if !ok {
		return "", fmt.Errorf("ort: get session config entry: there is no entry %q", key)
	}
	return value, nil
}

// EnableProfiling fails: graphrun bench --report has the times of steps.
func (o *SessionOptions) EnableProfiling(profileFilePrefix string) error {
	return wrap("enable profiling", o.options.EnableProfiling(profileFilePrefix))
}

// DisableProfiling has no effect.
func (o *SessionOptions) DisableProfiling() error { return nil }

// AppendExecutionProvider accepts "CPU", and fails for devices.
func (o *SessionOptions) AppendExecutionProvider(name string, options map[string]string) error {
	if name == "CPU" || name == "CPUExecutionProvider" {
		return nil
	}
	return wrap("append provider", o.options.AppendExecutionProvider(name, options))
}

var errUnsupported = errors.New("not supported by graphrun")

// AddFreeDimensionOverride fails: each run takes the sizes from its inputs.
func (o *SessionOptions) AddFreeDimensionOverride(dimDenotation string, dimValue int64) error {
	return wrap("add free dimension override", errUnsupported)
}

// AddFreeDimensionOverrideByName fails: each run takes the sizes from its inputs.
func (o *SessionOptions) AddFreeDimensionOverrideByName(dimName string, dimValue int64) error {
	return wrap("add free dimension override by name", errUnsupported)
}

// AddInitializer fails.
func (o *SessionOptions) AddInitializer(name string, value *Tensor) error {
	return wrap("add initializer", errUnsupported)
}

// SetOptimizedModelFilePath fails: graphrun plan shows what is run.
func (o *SessionOptions) SetOptimizedModelFilePath(path string) error {
	return wrap("set optimized model path", o.options.SetOptimizedModelFilePath(path))
}

// RegisterCustomOpsLibrary fails: onnx.Operators are in Go.
func (o *SessionOptions) RegisterCustomOpsLibrary(libraryPath string) error {
	return wrap("register custom ops library", errUnsupported)
}

// Close ends the use of the options. Sessions do not need them any more.
func (o *SessionOptions) Close() error {
	if o.options == nil {
		return nil
	}
	err := o.options.Destroy()
	o.options = nil
	return wrap("close session options", err)
}

// RunOptions can stop a run.
type RunOptions struct{ options *ort.RunOptions }

// NewRunOptions returns the default options.
func NewRunOptions() (*RunOptions, error) {
	options, err := ort.NewRunOptions()
	if err != nil {
		return nil, wrap("create run options", err)
	}
	return &RunOptions{options}, nil
}

// SetLogVerbosityLevel has no effect.
func (o *RunOptions) SetLogVerbosityLevel(level int) error { return nil }

// SetLogSeverityLevel has no effect.
func (o *RunOptions) SetLogSeverityLevel(level int) error { return nil }

// SetTag has no effect.
func (o *RunOptions) SetTag(tag string) error { return nil }

// AddConfigEntry has no effect.
func (o *RunOptions) AddConfigEntry(key, value string) error { return nil }

// SetTerminate stops runs with the options.
func (o *RunOptions) SetTerminate() error { return wrap("set terminate", o.options.Terminate()) }

// UnsetTerminate permits runs with the options again.
func (o *RunOptions) UnsetTerminate() error {
	return wrap("unset terminate", o.options.UnsetTerminate())
}

// Close ends the use of the options.
func (o *RunOptions) Close() error {
	if o.options == nil {
		return nil
	}
	err := o.options.Destroy()
	o.options = nil
	return wrap("close run options", err)
}

// AllocatorType is a kind of allocator, which has no effect.
type AllocatorType int

// The kinds of allocators, with the numbers of the C API.
const (
	AllocatorTypeInvalid AllocatorType = -1
	AllocatorTypeDevice  AllocatorType = 0
	AllocatorTypeArena   AllocatorType = 1
)

// MemType is a kind of memory, which has no effect.
type MemType int

// The kinds of memory, with the numbers of the C API.
const (
	MemTypeCPUInput MemType = -2
	MemTypeCPU      MemType = -1
	MemTypeDefault  MemType = 0
)

// MemoryInfo names the memory of the host.
type MemoryInfo struct{}

// NewCPUMemoryInfo returns the memory of the host.
func NewCPUMemoryInfo() (*MemoryInfo, error) { return &MemoryInfo{}, check() }

// NewMemoryInfo returns the memory of the host, "Cpu". It fails for other names.
func NewMemoryInfo(name string, allocatorType AllocatorType, id int, memType MemType) (*MemoryInfo, error) {
	if name != "Cpu" {
		return nil, wrap("create memory info", fmt.Errorf("memory %q: %w", name, errUnsupported))
	}
	return NewCPUMemoryInfo()
}

// Close has no effect.
func (m *MemoryInfo) Close() error { return nil }

// IOBinding has inputs and outputs by name. It serves one goroutine at a time.
type IOBinding struct {
	session *Session
	inputs  map[string]*Tensor
	outputs map[string]*Tensor // nil for an output that a run allocates
	names   []string           // of outputs, in the order of BindOutput
	results map[string]*Tensor // of the last run, for outputs that it allocated
}

// NewIOBinding returns an empty binding.
func NewIOBinding(session *Session) (*IOBinding, error) {
	if session == nil {
		return nil, errors.New("ort: create io binding: session is nil")
	}
	return &IOBinding{session: session, inputs: map[string]*Tensor{}, outputs: map[string]*Tensor{}}, check()
}

// BindInput binds an input.
func (b *IOBinding) BindInput(name string, value *Tensor) error {
	if err := value.check("bind input"); err != nil {
		return err
	}
	if !slices.Contains(namesOf(b.session.inputs), name) {
		return fmt.Errorf("ort: bind input: the model has no input %q", name)
	}
	b.inputs[name] = value
	return nil
}

// BindOutput binds an output to a tensor. A run copies its result into the memory of the tensor.
func (b *IOBinding) BindOutput(name string, value *Tensor) error {
	if err := value.check("bind output"); err != nil {
		return err
	}
	return b.bindOutput(name, value)
}

// BindOutputToDevice binds an output that each run allocates.
func (b *IOBinding) BindOutputToDevice(name string, memInfo *MemoryInfo) error {
	return b.bindOutput(name, nil)
}

func (b *IOBinding) bindOutput(name string, value *Tensor) error {
	if !slices.Contains(namesOf(b.session.outputs), name) {
		return fmt.Errorf("ort: bind output: the model has no output %q", name)
	}
	if !slices.Contains(b.names, name) {
		b.names = append(b.names, name)
	}
	b.outputs[name] = value
	return nil
}

// Run runs the session on the bound values.
func (b *IOBinding) Run(opts *RunOptions) error {
	results, err := b.session.RunWithOptions(context.Background(), opts, b.inputs, append([]string{}, b.names...))
	if err != nil {
		return err
	}
	b.results = results
	for name, target := range b.outputs {
		result := results[name]
		if target == nil {
			continue
		}
		if target.DataType() != result.DataType() || !slices.Equal(target.Shape(), result.Shape()) {
			return fmt.Errorf("ort: run with binding: output %q has %s%v, but the bound tensor has %s%v", name,
				result.DataType(), result.Shape(), target.DataType(), target.Shape())
		}
		from, err := result.Bytes()
		if err != nil {
			return err
		}
		to, err := target.Bytes()
		if err != nil {
			return err
		}
		copy(to, from)
	}
	return nil
}

// OutputNames returns the names of the bound outputs.
func (b *IOBinding) OutputNames() ([]string, error) { return slices.Clone(b.names), nil }

// OutputValues returns the bound outputs, with those that the last run allocated.
func (b *IOBinding) OutputValues() ([]*Tensor, error) {
	values := []*Tensor{}
	for _, name := range b.names {
		if v := cmp.Or(b.outputs[name], b.results[name]); v != nil {
			values = append(values, v)
		}
	}
	return values, nil
}

// ClearInputs removes all inputs.
func (b *IOBinding) ClearInputs() { clear(b.inputs) }

// ClearOutputs removes all outputs.
func (b *IOBinding) ClearOutputs() {
	clear(b.outputs)
	b.names = nil
}

// Close ends the use of the binding.
func (b *IOBinding) Close() error {
	b.ClearInputs()
	b.ClearOutputs()
	return nil
}
