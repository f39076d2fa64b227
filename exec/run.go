package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/tensor"
)

// Run runs the program on inputs by name and returns the outputs by name.
//
// An input must have the dtype and shape that the graph declares. An input with another layout is copied first. An
// output that is a view of an input shares the input's storage, and two outputs may share storage. Outputs stay valid
// until they are released ([tensor.Tensor.Release]), which is optional. If nodes fail, the error names the first one in
// the order of the graph. If the context is canceled, the error is its cause. No work of the run continues after Run
// returns. If the program was compiled with [Options.KeepGoing], outputs may be missing; the error is then an
// [*Incomplete].
func (p *Program) Run(ctx context.Context, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	return p.run(ctx, nil, in)
}

// run is [Program.Run] as a part of the run parent. parent is nil for a run that a caller started: see [Run.Parent].
func (p *Program) run(ctx context.Context, parent *Run,
	in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	s, err := p.acquireSession()
	if err != nil {
		return nil, err
	}
	defer p.releaseSession(s)
	return s.runNamed(ctx, parent, in)
}

// Run is [Program.Run] in this session's memory.
func (s *Session) Run(ctx context.Context, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	return s.runNamed(ctx, nil, in)
}

// runNamed runs the program with inputs and outputs by name.
func (s *Session) runNamed(ctx context.Context, parent *Run,
	in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	list, out := s.in, s.out
	defer func() { clear(list); clear(out) }()
	if err := listInputs(s.program.inputs, in, list); err != nil {
		return nil, err
	}
	err := s.runInto(ctx, parent, list, out)
	if err != nil && !errors.As(err, new(*Incomplete)) {
		return nil, err
	}
	res := make(map[string]*tensor.Tensor, len(out))
	for i, output := range s.program.outputs {
		if out[i] != nil {
			res[output.Name] = out[i]
		}
	}
	return res, err
}

// runNamedInto is [Runner.RunInto] for a static graph.
func (p *Program) runNamedInto(ctx context.Context, in, out map[string]*tensor.Tensor) error {
	s, err := p.acquireSession()
	if err != nil {
		return err
	}
	defer p.releaseSession(s)
	s.onlyGivenOutputs = true
	defer func() { clear(s.in); clear(s.out); s.onlyGivenOutputs = false }()
	if err := listInputs(p.inputs, in, s.in); err != nil {
		return err
	}
	for i, output := range p.outputs {
		s.out[i] = out[output.Name]
	}
	return s.runInto(ctx, nil, s.in, s.out)
}

// listInputs sets list to the named inputs in the order of the graph. The entry of a missing input is nil. An unknown
// name is an error.
func listInputs(inputs []*graph.Value, in map[string]*tensor.Tensor, list []*tensor.Tensor) error {
	found := 0
	for i, v := range inputs {
		t, ok := in[v.Name]
		if ok {
			found++
		}
		list[i] = t
	}
	if found == len(in) {
		return nil
	}
	names := make([]string, len(inputs))
	for i, v := range inputs {
		names[i] = v.Name
	}
	return unknownName("input", names, in)
}

// maxListed is the maximum number of names that a message lists. If there are more, the message lists none.
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
	known := 0
	for _, output := range outputs {
		t, isGiven := out[output.Name]
		if !isGiven {
			continue
		}
		if known++; t == nil {
			return fmt.Errorf("the tensor given for output %q is nil", output.Name)
		}
	}
	if known == len(out) {
		return nil
	}
	names := make([]string, len(outputs))
	for i, output := range outputs {
		names[i] = output.Name
	}
	return unknownName("output", names, out)
}

var errNoContext = errors.New("the context is nil: pass a context such as context.Background()")

// RunInto is [Program.Run] with inputs and outputs in the order of the graph. It writes output i into the tensor out[i]
// (see [Runner.RunInto]). If out[i] is nil, RunInto sets it to a new tensor, unless a run with [Options.KeepGoing]
// omits the output.
func (p *Program) RunInto(ctx context.Context, in, out []*tensor.Tensor) error {
	return p.runInto(ctx, nil, in, out)
}

// runInto is [Program.RunInto] as a part of the run parent, which may be nil.
func (p *Program) runInto(ctx context.Context, parent *Run, in, out []*tensor.Tensor) error {
	s, err := p.acquireSession()
	if err != nil {
		return err
	}
	defer p.releaseSession(s)
	return s.runInto(ctx, parent, in, out)
}

// RunInto is [Program.RunInto] in this session's memory. It does not allocate if the program has one thread, all
// outputs are given, and all inputs have the declared layout.
func (s *Session) RunInto(ctx context.Context, in, out []*tensor.Tensor) error {
	return s.runInto(ctx, nil, in, out)
}

// runUntraced executes a run with the inputs of list in, and sets the outputs in list out.
func (s *Session) runUntraced(ctx context.Context, in, out []*tensor.Tensor) (err error) {
	defer tensor.CatchMemory(&err)
	p := s.program
	if ctx == nil {
		return errNoContext
	}
	if len(in) != len(p.inputs) || len(out) != len(p.outputs) {
		return fmt.Errorf("the graph has %d inputs and %d outputs, but %d and %d tensors were given", len(p.inputs),
			len(p.outputs), len(in), len(out))
	}
	for i, v := range p.inputs {
		if err := checkInput(v, in[i]); err != nil {
			return err
		}
	}
	if p.device != nil && s.device == nil {
		if err := s.openDevice(); err != nil {
			return err
		}
	}
	defer s.release()
	s.setContext(ctx)
	if s.stepFailures != nil {
		s.stepFailures.reset()
	}
	if err := s.allocate(in, out); err != nil {
		return err
	}
	if in, err = s.inputsInLayout(ctx, in); err != nil {
		return err
	}
	s.bind(in)
	if err := s.execute(ctx); err != nil {
		return err
	}
	var computed []bool // nil: all outputs are computed
	if s.stepFailures != nil {
		computed = s.stepFailures.computedOutputs()
	}
	for i, output := range p.outputs {
		if computed != nil && !computed[i] {
			continue
		}
		if err := s.deliver(ctx, i, in, out); err != nil {
			return fmt.Errorf("output %q: %w", output.Name, err)
		}
	}
	if s.stepFailures != nil {
		return s.stepFailures.runError(computed)
	}
	return nil
}

// checkInput returns an error if a tensor cannot be input v.
func checkInput(v *graph.Value, t *tensor.Tensor) error {
	switch {
	case t == nil:
		return fmt.Errorf("input %q is missing", v.Name)
	case t.Check() != nil:
		return fmt.Errorf("input %q: %w", v.Name, t.Check())
	case t.Storage().Place() != tensor.Host:
		return fmt.Errorf("input %q is in the memory of %v, but the program runs on the %v", v.Name,
			t.Storage().Place(), tensor.Host)
	case t.DType != v.Meta.DType:
		return fmt.Errorf("input %q is %v, the graph wants %v", v.Name, t.DType, v.Meta.DType)
	case !slices.Equal(t.Shape, v.Meta.Shape):
		return fmt.Errorf("input %q has shape %s, the graph wants %s", v.Name, tensor.ListString(t.Shape),
			tensor.ListString(v.Meta.Shape))
	}
	return nil
}
