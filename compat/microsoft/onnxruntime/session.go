package onnxruntime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	ort "github.com/graphrun/graphrun/compat/onnxruntime"
)

// IOInfo describes an input or output of a model.
type IOInfo struct {
	Name     string
	DataType TensorElementDataType
	Shape    []int64 // -1 for sizes that differ between runs
}

// Session is a compiled model. Run may be called from several goroutines at once.
type Session struct {
	lock            sync.RWMutex                // held by runs
	session         *ort.DynamicAdvancedSession // nil after Close
	inputs, outputs []IOInfo
}

// NewSession loads and compiles a model file. Nil options are the default.
func NewSession(modelPath string, opts *SessionOptions) (*Session, error) {
	if err := check(); err != nil {
		return nil, err
	}
	inputs, outputs, err := ort.GetInputOutputInfo(modelPath)
	if err != nil {
		return nil, wrap("create session", err)
	}
	return newSession("create session", inputs, outputs, func(in, out []string) (*ort.DynamicAdvancedSession, error) {
		return ort.NewDynamicAdvancedSession(modelPath, in, out, opts.base())
	})
}

// NewSessionFromBytes compiles a model. Nil options are the default.
func NewSessionFromBytes(model []byte, opts *SessionOptions) (*Session, error) {
	if err := check(); err != nil {
		return nil, err
	}
	if len(model) == 0 {
		return nil, errors.New("ort: create session: empty model data")
	}
	inputs, outputs, err := ort.GetInputOutputInfoWithONNXData(model)
	if err != nil {
		return nil, wrap("create session from bytes", err)
	}
	return newSession("create session from bytes", inputs, outputs,
		func(in, out []string) (*ort.DynamicAdvancedSession, error) {
			return ort.NewDynamicAdvancedSessionWithONNXData(model, in, out, opts.base())
		})
}

func newSession(what string, inputs, outputs []ort.InputOutputInfo,
	create func(in, out []string) (*ort.DynamicAdvancedSession, error)) (*Session, error) {
	s := &Session{inputs: infosOf(inputs), outputs: infosOf(outputs)}
	var err error
	if s.session, err = create(namesOf(s.inputs), namesOf(s.outputs)); err != nil {
		return nil, wrap(what, err)
	}
	openSessions.Add(1)
	return s, nil
}

func infosOf(list []ort.InputOutputInfo) []IOInfo {
	infos := make([]IOInfo, len(list))
	for i, info := range list {
		infos[i] = IOInfo{Name: info.Name}
		if info.OrtValueType == ort.ONNXTypeTensor {
			infos[i].DataType, infos[i].Shape = TensorElementDataType(info.DataType), info.Dimensions
		}
	}
	return infos
}

func namesOf(list []IOInfo) []string {
	names := make([]string, len(list))
	for i, info := range list {
		names[i] = info.Name
	}
	return names
}

// Inputs describes the inputs, in the order of the model.
func (s *Session) Inputs() []IOInfo { return cloned(s.inputs) }

// Outputs describes the outputs, in the order of the model.
func (s *Session) Outputs() []IOInfo { return cloned(s.outputs) }

func cloned(list []IOInfo) []IOInfo {
	list = slices.Clone(list)
	for i := range list {
		list[i].Shape = slices.Clone(list[i].Shape)
	}
	return list
}

// Run runs the model on inputs by name, and returns new tensors for the named outputs; nil names all of them. It stops
// when ctx ends, with the error of the context.
func (s *Session) Run(ctx context.Context, inputs map[string]*Tensor, outputNames []string) (map[string]*Tensor, error) {
	return s.RunWithOptions(ctx, nil, inputs, outputNames)
}

// RunWithOptions is [Session.Run] with options, which can also stop it.
func (s *Session) RunWithOptions(ctx context.Context, opts *RunOptions, inputs map[string]*Tensor,
	outputNames []string) (map[string]*Tensor, error) {
	s.lock.RLock()
	defer s.lock.RUnlock()
	switch {
	case s.session == nil:
		return nil, errors.New("ort: run: session is closed")
	case ctx == nil:
		return nil, errors.New("ort: run: the context is nil")
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case outputNames == nil:
		outputNames = namesOf(s.outputs)
	case len(outputNames) == 0:
		return nil, errors.New("ort: run: no output names specified")
	}
	values := map[string]ort.Value{}
	for name, t := range inputs {
		if err := t.check(fmt.Sprintf("run: input %q", name)); err != nil {
			return nil, err
		}
		values[name] = t.value
	}
	if opts == nil {
		var err error
		if opts, err = NewRunOptions(); err != nil {
			return nil, err
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = opts.SetTerminate() })
	defer func() {
		if !stop() {
			_ = opts.UnsetTerminate()
		}
	}()
	results, err := s.session.RunByName(opts.options, values, outputNames)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, wrap("run", err)
	}
	out := make(map[string]*Tensor, len(results))
	for name, v := range results {
		out[name] = &Tensor{v}
	}
	return out, nil
}

// EndProfiling fails: graphrun bench --report has the times of steps.
func (s *Session) EndProfiling() (string, error) {
	return "", wrap("end profiling", errors.New("profiling is not supported: see graphrun bench --report"))
}

// Close waits for runs and ends the use of the session.
func (s *Session) Close() error {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.session == nil {
		return nil
	}
	openSessions.Add(-1)
	err := s.session.Destroy()
	s.session = nil
	return wrap("close", err)
}

// ModelMetadata describes a model.
type ModelMetadata struct{ metadata *ort.ModelMetadata }

// ModelMetadata returns the metadata of the model.
func (s *Session) ModelMetadata() (*ModelMetadata, error) {
	s.lock.RLock()
	defer s.lock.RUnlock()
	if s.session == nil {
		return nil, errors.New("ort: model metadata: session is closed")
	}
	m, err := s.session.GetModelMetadata()
	return &ModelMetadata{m}, wrap("model metadata", err)
}

// ProducerName returns the name of the exporter.
func (m *ModelMetadata) ProducerName() (string, error) { return m.metadata.GetProducerName() }

// GraphName returns the name of the graph.
func (m *ModelMetadata) GraphName() (string, error) { return m.metadata.GetGraphName() }

// Domain returns the domain of the model.
func (m *ModelMetadata) Domain() (string, error) { return m.metadata.GetDomain() }

// Description returns the description of the model.
func (m *ModelMetadata) Description() (string, error) { return m.metadata.GetDescription() }

// GraphDescription returns the empty string: graphrun does not read it.
func (m *ModelMetadata) GraphDescription() (string, error) { return "", nil }

// Version returns the version of the model.
func (m *ModelMetadata) Version() (int64, error) { return m.metadata.GetVersion() }

// CustomMetadataKeys returns the keys of metadata_props.
func (m *ModelMetadata) CustomMetadataKeys() ([]string, error) {
	return m.metadata.GetCustomMetadataMapKeys()
}

// LookupCustomMetadata returns a value of metadata_props, and the empty string for an unknown key.
func (m *ModelMetadata) LookupCustomMetadata(key string) (string, error) {
	text, _, err := m.metadata.LookupCustomMetadataMap(key)
	return text, err
}

// Close has no effect.
func (m *ModelMetadata) Close() error { return nil }
