package onnxruntime_go

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// session is a compiled model. It is used by several goroutines.
type session struct {
	program         *graphrun.Program
	inputs, outputs map[string]graph.Port
	metadata        *ModelMetadata
	maps            sync.Pool // of *tensorMaps, empty
}

// tensorMaps has the inputs of a run, and the outputs that it writes.
type tensorMaps struct{ in, into map[string]*tensor.Tensor }

func newTensorMaps() any {
	return &tensorMaps{map[string]*tensor.Tensor{}, map[string]*tensor.Tensor{}}
}

func (s *session) release(m *tensorMaps) {
	clear(m.in)
	clear(m.into)
	s.maps.Put(m)
}

// newSession compiles a model for outputs by name, or for all outputs if there are no names. shapes are those of the
// inputs of all runs, or nil: if the model does not have them, a run will say so.
func newSession(from source, inputNames, outputNames []string, shapes map[string][]int,
	options *SessionOptions) (*session, error) {
	g, err := from.graph(shapes)
	if err != nil && shapes != nil {
		g, err = from.graph(nil)
	}
	if err != nil {
		return nil, err
	}
	s := &session{maps: sync.Pool{New: newTensorMaps}}
	if s.metadata, err = from.metadata(); err != nil {
		return nil, err
	}
	compileOptions := graphrun.Options{}
	if options != nil {
		if err := options.check(); err != nil {
			return nil, err
		}
		compileOptions.Threads = options.threads
	}
	if err := keepOutputs(g, outputNames); err != nil {
		return nil, err
	}
	if s.program, err = graphrun.Compile(context.Background(), g, compileOptions); err != nil {
		return nil, err
	}
	s.inputs, s.outputs = byName(s.program.Inputs()), byName(s.program.Outputs())
	for _, name := range inputNames {
		if !s.hasInput(name) {
			return nil, unknown("input", name, slices.Sorted(maps.Keys(s.inputs)))
		}
	}
	return s, nil
}

// keepOutputs removes the outputs without names from a graph, unless there are no names.
func keepOutputs(g *graph.Graph, names []string) error {
	if len(names) == 0 {
		return nil
	}
	all, allNames := g.Outputs, []string{}
	for _, output := range all {
		allNames = append(allNames, output.Name)
	}
	g.Outputs = nil
	for i, name := range names {
		k := slices.Index(allNames, name)
		if k < 0 {
			return unknown("output", name, allNames)
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("output %q is given twice", name)
		}
		g.Outputs = append(g.Outputs, all[k])
	}
	return nil
}

func byName(ports []graph.Port) map[string]graph.Port {
	m := map[string]graph.Port{}
	for _, port := range ports {
		m[port.Name] = port
	}
	return m
}

// hasInput reports whether the model has an input. One that is a map is two inputs of the graph.
func (s *session) hasInput(name string) bool {
	_, isTensor := s.inputs[name]
	_, isMap := s.inputs[name+".keys"]
	return isTensor || isMap
}

func unknown(kind, name string, names []string) error {
	return fmt.Errorf("the model has no %s %q; its %ss are %s", kind, name, kind, strings.Join(names, ", "))
}

// run runs the model. It writes to the memory of the values of outputs, and sets those that are nil.
func (s *session) run(opts *RunOptions, inputNames []string, inputs []Value, outputNames []string,
	outputs []Value) error {
	if s == nil {
		return errors.New("the session was destroyed")
	}
	if err := check(); err != nil {
		return err
	}
	ctx, err := opts.context()
	if err != nil {
		return err
	}
	used := s.maps.Get().(*tensorMaps)
	defer s.release(used)
	in, into, isDirect := used.in, used.into, true
	for i, name := range inputNames {
		if err := s.feed(in, name, inputs[i]); err != nil {
			return fmt.Errorf("error running network: %w", err)
		}
	}
	for i, name := range outputNames {
		if outputs[i] == nil {
			isDirect = false
			continue
		}
		if err := isUsable(outputs[i]); err != nil {
			return fmt.Errorf("error running network: output %q %w", name, err)
		}
		into[name] = outputs[i].GetInternals().tensor
		isDirect = isDirect && into[name] != nil && !s.outputs[name].Labels.IsText() && !s.outputs[name].Labels.IsMap()
	}
	if isDirect {
		if err := s.program.RunInto(ctx, in, into); err != nil {
			return fmt.Errorf("error running network: %w", err)
		}
		return nil
	}
	results, err := s.program.Run(ctx, in)
	if err != nil {
		return fmt.Errorf("error running network: %w", err)
	}
	var taken [][2]uintptr // addresses of inputs and earlier outputs
	for _, t := range in {
		from, to := t.Span()
		taken = append(taken, [2]uintptr{from, to})
	}
	for i, name := range outputNames {
		result := results[name].Contiguous()
		from, to := result.Span()
		if slices.ContainsFunc(taken, func(other [2]uintptr) bool { return from < other[1] && other[0] < to }) {
			result = result.CopyTo(tensor.New(result.DType, result.Shape...))
		}
		taken = append(taken, [2]uintptr{from, to})
		if outputs[i], err = store(s.outputs[name].Labels, result, outputs[i]); err != nil {
			return fmt.Errorf("error running network: output %q %w", name, err)
		}
	}
	return nil
}

// feed adds the tensors of an input.
func (s *session) feed(in map[string]*tensor.Tensor, name string, v Value) error {
	if err := isUsable(v); err != nil {
		return fmt.Errorf("input %q %w", name, err)
	}
	port, isTensor := s.inputs[name]
	data := v.GetInternals()
	switch {
	case data.pairs != nil && !isTensor:
		return errors.Join(s.feed(in, name+".keys", data.pairs.keys), s.feed(in, name+".values", data.pairs.values))
	case data.strings != nil && port.Labels.IsText():
		t, err := port.Labels.Encode(data.strings.contents, data.strings.shape.ints()...)
		in[name] = t
		if err != nil {
			return fmt.Errorf("input %q %w", name, err)
		}
		return nil
	case data.tensor == nil || port.Labels.IsText() || !isTensor:
		want := "a map"
		if isTensor {
			info := infoOf(port)
			want = info.DataType.String()
		}
		return fmt.Errorf("input %q is %v of %v, but the model wants %s", name, v.GetONNXType(), v.DataType(), want)
	}
	in[name] = data.tensor
	return nil
}

// store returns a result as a value: v with the result in its memory, or a new one if v is nil.
func store(labels graph.Labels, result *tensor.Tensor, v Value) (Value, error) {
	if labels.IsMap() {
		if v != nil {
			return v, errors.New("is a sequence: give nil for it")
		}
		return sequenceOf(labels, result)
	}
	if labels.IsText() {
		list, err := labels.Decode(result)
		if err != nil || v == nil {
			return &StringTensor{shapeOf(result), append([]string{}, list...)}, err
		}
		target := v.GetInternals().strings
		if target == nil || !target.shape.Equals(shapeOf(result)) {
			return v, fmt.Errorf("has strings and the shape %v, but the value for it has %v and the shape %v", shapeOf(result),
				v.DataType(), v.GetShape())
		}
		return v, target.SetContents(list)
	}
	if v == nil {
		return valueOf(result)
	}
	target := v.GetInternals().tensor
	if target == nil || target.DType != result.DType || !shapeOf(target).Equals(shapeOf(result)) {
		return v, fmt.Errorf("has %v and the shape %v, but the value for it has %v and the shape %v",
			elementTypeOf(result.DType), shapeOf(result), v.DataType(), v.GetShape())
	}
	tensor.CopyElements(target, result)
	return v, nil
}

// AdvancedSession runs a model on the same inputs and outputs, whose contents change between runs.
type AdvancedSession struct {
	session                 *session // nil after Destroy
	inputNames, outputNames []string
	inputs, outputs         []Value
}

func newAdvancedSession(from source, inputNames, outputNames []string, inputs, outputs []Value,
	options *SessionOptions) (*AdvancedSession, error) {
	switch {
	case len(inputs) == 0:
		return nil, errors.New("no inputs were provided")
	case len(outputs) == 0:
		return nil, errors.New("no outputs were provided")
	case len(inputs) != len(inputNames):
		return nil, fmt.Errorf("got %d inputs, but %d input names", len(inputs), len(inputNames))
	case len(outputs) != len(outputNames):
		return nil, fmt.Errorf("got %d outputs, but %d output names", len(outputs), len(outputNames))
	}
	shapes := map[string][]int{}
	for i, v := range inputs {
		if err := isUsable(v); err != nil {
			return nil, fmt.Errorf("input %q %w", inputNames[i], err)
		}
		if t := v.GetInternals().tensor; t != nil {
			shapes[inputNames[i]] = t.Shape
		}
	}
	if i := slices.Index(outputs, nil); i >= 0 {
		return nil, fmt.Errorf("output %q is nil: a DynamicAdvancedSession allocates outputs", outputNames[i])
	}
	s, err := newSession(from, inputNames, outputNames, shapes, options)
	if err != nil {
		return nil, fmt.Errorf("error creating session: %w", err)
	}
	return &AdvancedSession{s, slices.Clone(inputNames), slices.Clone(outputNames), slices.Clone(inputs),
		slices.Clone(outputs)}, nil
}

// NewAdvancedSession returns a session of the model in a file.
func NewAdvancedSession(onnxFilePath string, inputNames, outputNames []string, inputs, outputs []Value,
	options *SessionOptions) (*AdvancedSession, error) {
	return newAdvancedSession(source{path: onnxFilePath}, inputNames, outputNames, inputs, outputs, options)
}

// NewAdvancedSessionWithONNXData returns a session of a model.
func NewAdvancedSessionWithONNXData(onnxData []byte, inputNames, outputNames []string, inputs, outputs []Value,
	options *SessionOptions) (*AdvancedSession, error) {
	return newAdvancedSession(source{data: onnxData}, inputNames, outputNames, inputs, outputs, options)
}

// Run runs the model on the contents of the inputs, and writes the outputs.
func (s *AdvancedSession) Run() error { return s.RunWithOptions(nil) }

// RunWithOptions is Run with options.
func (s *AdvancedSession) RunWithOptions(opts *RunOptions) error {
	return s.session.run(opts, s.inputNames, s.inputs, s.outputNames, s.outputs)
}

// GetModelMetadata returns the metadata of the model.
func (s *AdvancedSession) GetModelMetadata() (*ModelMetadata, error) { return s.session.describe() }

// Destroy frees the session, but not its inputs and outputs.
func (s *AdvancedSession) Destroy() error {
	*s = AdvancedSession{}
	return nil
}

func (s *session) describe() (*ModelMetadata, error) {
	if s == nil {
		return nil, errors.New("the session was destroyed")
	}
	return s.metadata, nil
}

// DynamicAdvancedSession runs a model on inputs that are given for each run. Any number of goroutines may run it.
type DynamicAdvancedSession struct {
	session                 *session // nil after Destroy
	inputNames, outputNames []string
}

func newDynamicAdvancedSession(from source, inputNames, outputNames []string,
	options *SessionOptions) (*DynamicAdvancedSession, error) {
	s, err := newSession(from, inputNames, outputNames, nil, options)
	if err != nil {
		return nil, fmt.Errorf("error creating session: %w", err)
	}
	return &DynamicAdvancedSession{s, slices.Clone(inputNames), slices.Clone(outputNames)}, nil
}

// NewDynamicAdvancedSession returns a session of the model in a file. Without names, only RunWithBinding can be called.
func NewDynamicAdvancedSession(onnxFilePath string, inputNames, outputNames []string,
	options *SessionOptions) (*DynamicAdvancedSession, error) {
	return newDynamicAdvancedSession(source{path: onnxFilePath}, inputNames, outputNames, options)
}

// NewDynamicAdvancedSessionWithONNXData returns a session of a model.
func NewDynamicAdvancedSessionWithONNXData(onnxData []byte, inputNames, outputNames []string,
	options *SessionOptions) (*DynamicAdvancedSession, error) {
	return newDynamicAdvancedSession(source{data: onnxData}, inputNames, outputNames, options)
}

// Run runs the model. It sets the outputs that are nil, and writes to the memory of the others.
func (s *DynamicAdvancedSession) Run(inputs, outputs []Value) error {
	return s.RunWithOptions(inputs, outputs, nil)
}

// RunWithOptions is Run with options.
func (s *DynamicAdvancedSession) RunWithOptions(inputs, outputs []Value, opts *RunOptions) error {
	if s.session != nil && len(inputs) != len(s.inputNames) {
		return fmt.Errorf("the session has %d input names, but Run was called with %d inputs", len(s.inputNames), len(inputs))
	}
	if s.session != nil && len(outputs) != len(s.outputNames) {
		return fmt.Errorf("the session has %d output names, but Run was called with %d outputs", len(s.outputNames),
			len(outputs))
	}
	return s.session.run(opts, s.inputNames, inputs, s.outputNames, outputs)
}

// RunByName runs the model on inputs by name, and returns new values for the outputs with the names. The original has
// no such method: it serves module compat/microsoft. Inputs that the model has defaults for may be missing.
func (s *DynamicAdvancedSession) RunByName(opts *RunOptions, inputs map[string]Value,
	outputNames []string) (map[string]Value, error) {
	names, values := slices.Sorted(maps.Keys(inputs)), []Value{}
	for _, name := range names {
		if s.session != nil && !s.session.hasInput(name) {
			return nil, unknown("input", name, slices.Sorted(maps.Keys(s.session.inputs)))
		}
		values = append(values, inputs[name])
	}
	for _, name := range outputNames {
		if s.session != nil && s.session.outputs[name].Name == "" {
			return nil, unknown("output", name, slices.Sorted(maps.Keys(s.session.outputs)))
		}
	}
	outputs, results := make([]Value, len(outputNames)), map[string]Value{}
	if err := s.session.run(opts, names, values, outputNames, outputs); err != nil {
		return nil, err
	}
	for i, name := range outputNames {
		results[name] = outputs[i]
	}
	return results, nil
}

// GetModelMetadata returns the metadata of the model.
func (s *DynamicAdvancedSession) GetModelMetadata() (*ModelMetadata, error) {
	return s.session.describe()
}

// Destroy frees the session.
func (s *DynamicAdvancedSession) Destroy() error {
	*s = DynamicAdvancedSession{}
	return nil
}

// IoBinding has inputs and outputs by name.
type IoBinding struct {
	session                 *session
	inputNames, outputNames []string
	inputs, outputs         []Value
}

// CreateIoBinding returns an empty binding.
func (s *DynamicAdvancedSession) CreateIoBinding() (*IoBinding, error) {
	if s.session == nil {
		return nil, errors.New("the session was destroyed")
	}
	return &IoBinding{session: s.session}, nil
}

// RunWithBinding runs the model on the values of a binding.
func (s *DynamicAdvancedSession) RunWithBinding(b *IoBinding) error {
	if s.session != nil && b.session != s.session {
		return errors.New("the binding is of another session, or was destroyed")
	}
	if len(b.outputs) == 0 {
		return errors.New("the binding has no outputs")
	}
	return s.session.run(nil, b.inputNames, b.inputs, b.outputNames, b.outputs)
}

// BindInput binds an input.
func (b *IoBinding) BindInput(name string, value Value) error {
	if b.session == nil || !b.session.hasInput(name) {
		return fmt.Errorf("the binding has no input %q", name)
	}
	return bind(&b.inputNames, &b.inputs, name, value)
}

// BindOutput binds an output.
func (b *IoBinding) BindOutput(name string, value Value) error {
	if b.session == nil || b.session.outputs[name].Name == "" {
		return fmt.Errorf("the binding has no output %q", name)
	}
	return bind(&b.outputNames, &b.outputs, name, value)
}

func bind(names *[]string, values *[]Value, name string, v Value) error {
	if err := isUsable(v); err != nil {
		return fmt.Errorf("the value for %q %w", name, err)
	}
	i := slices.Index(*names, name)
	if i < 0 {
		i, *names, *values = len(*names), append(*names, name), append(*values, nil)
	}
	(*values)[i] = v
	return nil
}

// GetBoundOutputNames returns the names of the bound outputs, in the order of BindOutput.
func (b *IoBinding) GetBoundOutputNames() ([]string, error) { return slices.Clone(b.outputNames), nil }

// GetBoundOutputValues returns copies of the bound outputs.
func (b *IoBinding) GetBoundOutputValues() ([]Value, error) {
	values := []Value{}
	for i, v := range b.outputs {
		if err := isUsable(v); err != nil {
			return nil, fmt.Errorf("output %q %w", b.outputNames[i], err)
		}
		if data := v.GetInternals(); data.tensor != nil {
			c, err := valueOf(data.tensor.CopyTo(tensor.New(data.tensor.DType, data.tensor.Shape...)))
			if err != nil {
				return nil, err
			}
			values = append(values, c)
		} else if data.strings != nil {
			values = append(values, &StringTensor{data.strings.GetShape(), slices.Clone(data.strings.contents)})
		}
	}
	return values, nil
}

// ClearBoundInputs removes all inputs.
func (b *IoBinding) ClearBoundInputs() { b.inputNames, b.inputs = nil, nil }

// ClearBoundOutputs removes all outputs.
func (b *IoBinding) ClearBoundOutputs() { b.outputNames, b.outputs = nil, nil }

// Destroy ends the use of the binding.
func (b *IoBinding) Destroy() error {
	*b = IoBinding{}
	return nil
}
