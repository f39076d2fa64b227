package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/tensor"
)

// This file runs programs. A run binds the caller's inputs to the memory of a session, executes the steps, and delivers
// the outputs. [Session.runUntraced] has these stages. The other functions call it: Run takes and returns tensors by
// name, and RunInto takes lists in the order of the graph. Both are methods of [Program], which acquires a session, and
// of [Session].

// Run runs the program on inputs by name and returns the outputs by name.
//
// An input must have the dtype and shape that the graph declares. An input with another layout is copied first. An
// output that is a view of an input shares the input's storage. The storage of any other output contains nothing but
// outputs. Two outputs may share it. Outputs stay valid until they are released ([tensor.Tensor.Release]), which is
// optional. If nodes fail, the error names the first one in the order of the graph. If the context is canceled, the
// error is its cause. No work of the run continues after Run returns. If the program was compiled with
// [Options.KeepGoing], outputs may be missing; the error is then an [*Incomplete].
func (p *Program) Run(ctx context.Context, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	session, err := p.acquireSession()
	if err != nil {
		return nil, err
	}
	defer p.releaseSession(session)
	return session.Run(ctx, in)
}

// Run is [Program.Run] in this session's memory.
func (s *Session) Run(ctx context.Context, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	orderedInputs, outputs := s.in, s.out
	defer func() { clear(orderedInputs); clear(outputs) }()
	if err := orderInputs(s.program.inputs, in, orderedInputs); err != nil {
		return nil, err
	}
	err := s.RunInto(ctx, orderedInputs, outputs)
	if err != nil && !errors.As(err, new(*Incomplete)) { // with an Incomplete, the computed outputs are returned too
		return nil, err
	}
	byName := make(map[string]*tensor.Tensor, len(outputs))
	for i, output := range s.program.outputs {
		if outputs[i] != nil {
			byName[output.Name] = outputs[i]
		}
	}
	return byName, err
}

// RunIntoNamed runs the program like [Program.Run], and writes each output into the tensor that out holds under its
// name. Such a tensor must have the dtype and shape of the output. Its strides are arbitrary, but no two elements may
// overlap. If the program would give the output the same strides, the last kernel writes the tensor directly.
// Otherwise the output is copied into the tensor. Bytes between the elements are not written. Outputs without a
// tensor in out are dropped. Unknown names in out are ignored: see [CheckOutputs].
//
// A tensor may be the tensor of an input, which the run then overwrites. This is not permitted if an output is a view
// of the input. A tensor may not share memory with an input in any other way, with a constant or with another tensor.
// If it does, RunIntoNamed writes nothing and returns an error that names the tensor. After other errors the contents
// of the tensors are arbitrary. With [Options.KeepGoing], only the contents of outputs that the [*Incomplete] lists are
// arbitrary.
func (p *Program) RunIntoNamed(ctx context.Context, in, out map[string]*tensor.Tensor) error {
	session, err := p.acquireSession()
	if err != nil {
		return err
	}
	defer p.releaseSession(session)
	session.onlyGivenOutputs = true
	defer func() { clear(session.in); clear(session.out); session.onlyGivenOutputs = false }()
	if err := orderInputs(p.inputs, in, session.in); err != nil {
		return err
	}
	for i, output := range p.outputs {
		session.out[i] = out[output.Name]
	}
	return session.RunInto(ctx, session.in, session.out)
}

var errNoContext = errors.New("the context is nil: pass context.Background() if there is no other")

// RunInto is [Program.Run] with inputs and outputs in the order of the graph. It writes output i into the tensor out[i]
// (see [Program.RunIntoNamed]). If out[i] is nil, RunInto sets it to a new tensor, unless a run with
// [Options.KeepGoing] omits the output.
func (p *Program) RunInto(ctx context.Context, in, out []*tensor.Tensor) error {
	return p.RunWithin(ctx, nil, in, out)
}

// RunWithin is [Program.RunInto] as a part of the run parent ([Run.Parent]), which may be nil.
func (p *Program) RunWithin(ctx context.Context, parent *Run, in, out []*tensor.Tensor) error {
	session, err := p.acquireSession()
	if err != nil {
		return err
	}
	defer p.releaseSession(session)
	return session.runWithin(ctx, parent, in, out)
}

// RunInto is [Program.RunInto] in this session's memory. It does not allocate if the program has one thread, all
// outputs are given, and all inputs have the declared layout.
func (s *Session) RunInto(ctx context.Context, in, out []*tensor.Tensor) error {
	return s.runWithin(ctx, nil, in, out)
}

// runUntraced executes a run with the inputs and outputs in the order of the graph. It checks the inputs, allocates
// memory, and copies inputs into the layouts that the plan requires. Then it executes the steps and delivers the
// outputs. It sets outputs that the caller did not give.
func (s *Session) runUntraced(ctx context.Context, inputs, outputs []*tensor.Tensor) (err error) {
	defer tensor.CatchMemory(&err)
	program := s.program
	if err := program.checkRun(ctx, inputs, outputs); err != nil {
		return err
	}
	if program.device != nil && s.device == nil {
		if err := s.openDevice(); err != nil {
			return err
		}
	}
	defer s.release()
	s.setContext(ctx)
	if s.stepFailures != nil {
		s.stepFailures.reset()
	}
	if err := s.allocateOutputs(inputs, outputs); err != nil {
		return err
	}
	if inputs, err = s.inputsInLayout(ctx, inputs); err != nil {
		return err
	}
	s.bind(inputs)
	if err := s.execute(ctx); err != nil {
		return err
	}
	var computed []bool // nil: all outputs are computed
	if s.stepFailures != nil {
		computed = s.stepFailures.computedOutputs()
	}
	for i, output := range program.outputs {
		if computed != nil && !computed[i] {
			continue
		}
		if err := s.deliverOutput(ctx, i, inputs, outputs); err != nil {
			return fmt.Errorf("output %q: %w", output.Name, err)
		}
	}
	if s.stepFailures != nil {
		return s.stepFailures.runError(computed)
	}
	return nil
}

// OrderInputs returns the given inputs in the order of the graph's inputs. The tensor of a missing input is its default.
// OrderInputs returns an error for an unknown name, and for a tensor that cannot be an input.
func OrderInputs(inputs []*graph.Value, given map[string]*tensor.Tensor) ([]*tensor.Tensor, error) {
	ordered := make([]*tensor.Tensor, len(inputs))
	if slices.Contains(inputs, nil) {
		return nil, errors.New("an input is nil")
	}
	if err := orderInputs(inputs, given, ordered); err != nil {
		return nil, err
	}
	for i, v := range inputs {
		if err := checkInput(v, ordered[i]); err != nil {
			return nil, err
		}
	}
	return ordered, nil
}

// orderInputs stores the given inputs in `ordered`, in the order of the graph. The entry of a missing input is
// its default, or nil. An unknown name is an error.
func orderInputs(inputs []*graph.Value, given map[string]*tensor.Tensor, ordered []*tensor.Tensor) error {
	found := 0
	for i, v := range inputs {
		input, isGiven := given[v.Name]
		if isGiven {
			found++
		} else {
			input = v.Default
		}
		ordered[i] = input
	}
	if found == len(given) {
		return nil
	}
	names := make([]string, len(inputs))
	for i, v := range inputs {
		names[i] = v.Name
	}
	return unknownName("input", names, given)
}

// maxListed is the maximum number of names that a message lists. If there are more names, the message lists none.
const maxListed = 12

// unknownName returns an error for the first name, alphabetically, that the graph does not have.
func unknownName(kind string, names []string, tensors map[string]*tensor.Tensor) error {
	for _, name := range sorted.Keys(tensors) {
		if slices.Contains(names, name) {
			continue
		}
		hint := suggest.DidYouMean(suggest.Nearest(name, slices.Values(names)))
		if hint == "" && len(names) > 0 && len(names) <= maxListed {
			hint = "; it has " + strings.Join(names, ", ")
		}
		return fmt.Errorf("the graph has no %s %q%s", kind, name, hint)
	}
	return nil
}

// CheckOutputs returns an error if a name is not an output of the graph, or if a tensor is nil.
func CheckOutputs(outputs []graph.Output, out map[string]*tensor.Tensor) error {
	found := 0
	for _, output := range outputs {
		given, isGiven := out[output.Name]
		if !isGiven {
			continue
		}
		if found++; given == nil {
			return fmt.Errorf("the tensor given for output %q is nil", output.Name)
		}
	}
	if found == len(out) {
		return nil
	}
	names := make([]string, len(outputs))
	for i, output := range outputs {
		names[i] = output.Name
	}
	return unknownName("output", names, out)
}

// checkRun returns an error if a run cannot start: the context is nil, the machine cannot run programs, or the inputs
// or the number of outputs are wrong.
func (p *Program) checkRun(ctx context.Context, inputs, outputs []*tensor.Tensor) error {
	if ctx == nil {
		return errNoContext
	}
	if err := machine.RunError(); err != nil {
		return err
	}
	if len(inputs) != len(p.inputs) || len(outputs) != len(p.outputs) {
		return fmt.Errorf("the graph has %d inputs and %d outputs, but %d and %d tensors were given", len(p.inputs),
			len(p.outputs), len(inputs), len(outputs))
	}
	for i, v := range p.inputs {
		if err := checkInput(v, inputs[i]); err != nil {
			return err
		}
	}
	return p.checkCaches(inputs, outputs)
}

// checkInput returns an error if a tensor cannot be input v.
func checkInput(v *graph.Value, given *tensor.Tensor) error {
	switch {
	case given == nil:
		return fmt.Errorf("input %q is missing", v.Name)
	case given.Check() != nil:
		return fmt.Errorf("input %q: %w", v.Name, given.Check())
	case given.Storage().Place() != tensor.Host:
		return fmt.Errorf("input %q is in the memory of the %v, but the program runs on the %v", v.Name,
			given.Storage().Place(), tensor.Host)
	case given.DType != v.Meta.DType:
		return fmt.Errorf("input %q is %v, the graph wants %v", v.Name, given.DType, v.Meta.DType)
	case !slices.Equal(given.Shape, v.Meta.Shape):
		return fmt.Errorf("input %q has shape %s, the graph wants %s", v.Name, tensor.ListString(given.Shape),
			tensor.ListString(v.Meta.Shape))
	}
	return nil
}
