package exec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Run runs the program on inputs by name and returns the outputs by name.
//
// An input must have the dtype and shape that the graph declares; one of another layout
// is copied first. An output that is a view of an input shares its storage; two outputs
// may share storage with each other. The error names the node that failed first in the
// order of the graph; a cancelled context gives its cause. Nothing of the run goes on
// after the return. Where the program was compiled to keep going, outputs may be missing;
// the error beside the others is then an [*Incomplete].
func (p *Program) Run(ctx context.Context, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	return p.run(ctx, nil, in)
}

// run is Run within another run or nil: see [Run.Parent].
func (p *Program) run(ctx context.Context, parent *Run,
	in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	s, err := p.acquire()
	if err != nil {
		return nil, err
	}
	defer p.giveBack(s)
	return s.runNamed(ctx, parent, in)
}

// Run is [Program.Run] in this session's memory.
func (s *Session) Run(ctx context.Context, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	return s.runNamed(ctx, nil, in)
}

func (s *Session) runNamed(ctx context.Context, parent *Run,
	in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	if err := checkNames(s.p.inputs, in); err != nil {
		return nil, err
	}
	list, out := s.in, s.out
	defer func() { clear(list); clear(out) }()
	for i, v := range s.p.inputs {
		list[i] = in[v.Name]
	}
	err := s.runInto(ctx, parent, list, out)
	if err != nil && !errors.As(err, new(*Incomplete)) {
		return nil, err
	}
	res := make(map[string]*tensor.Tensor, len(out))
	for i, o := range s.p.outputs {
		if out[i] != nil {
			res[o.Name] = out[i]
		}
	}
	return res, err
}

// checkNames refuses inputs that the graph does not have. Where no more are given than it
// has, one that is missing is the mistake to tell.
func checkNames(inputs []*graph.Value, in map[string]*tensor.Tensor) error {
	if len(in) <= len(inputs) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		if !slices.ContainsFunc(inputs, func(v *graph.Value) bool { return v.Name == name }) {
			return fmt.Errorf("the graph has no input %q", name)
		}
	}
	return nil
}

var errNoContext = errors.New("the context is nil: context.Background() is one that never ends")

// RunInto is [Program.Run] with inputs and outputs in the order of the graph. An output
// given as a tensor of the dtype, shape and strides that the program makes is written in
// place; nil is replaced by a fresh tensor, or stays where a run that keeps going
// ([Options.KeepGoing]) leaves the output out.
func (p *Program) RunInto(ctx context.Context, in, out []*tensor.Tensor) error {
	return p.runInto(ctx, nil, in, out)
}

func (p *Program) runInto(ctx context.Context, parent *Run, in, out []*tensor.Tensor) error {
	s, err := p.acquire()
	if err != nil {
		return err
	}
	defer p.giveBack(s)
	return s.runInto(ctx, parent, in, out)
}

// RunInto is [Program.RunInto] in this session's memory. With one thread, all outputs
// given and inputs of the declared layout, it allocates nothing.
func (s *Session) RunInto(ctx context.Context, in, out []*tensor.Tensor) error {
	return s.runInto(ctx, nil, in, out)
}

// fill is the run itself.
func (s *Session) fill(ctx context.Context, in, out []*tensor.Tensor) (err error) {
	defer tensor.CatchMemory(&err)
	p := s.p
	if ctx == nil {
		return errNoContext
	}
	if len(in) != len(p.inputs) || len(out) != len(p.outputs) {
		return fmt.Errorf("want %d inputs and %d outputs, got %d and %d", len(p.inputs), len(p.outputs), len(in), len(out))
	}
	for i, v := range p.inputs {
		if err := checkInput(v, in[i]); err != nil {
			return err
		}
		if !fits(v, in[i]) {
			in = slices.Clone(in)
			in[i] = laidOut(in[i], v.Meta)
		}
	}
	defer s.release()
	if s.losses != nil {
		s.losses.reset()
	}
	if err := s.allocate(in, out); err != nil {
		return err
	}
	s.bind(in)
	if err := s.execute(ctx); err != nil {
		return err
	}
	var made []bool // nil: all
	if s.losses != nil {
		made = s.losses.made()
	}
	for i, o := range p.outputs {
		if made != nil && !made[i] {
			continue
		}
		if err := s.deliver(o, in, &out[i]); err != nil {
			return err
		}
	}
	if s.losses != nil {
		return s.losses.summary(made)
	}
	return nil
}

func checkInput(v *graph.Value, t *tensor.Tensor) error {
	switch {
	case t == nil:
		return fmt.Errorf("input %q is missing", v.Name)
	case t.Check() != nil:
		return fmt.Errorf("input %q: %w", v.Name, t.Check())
	case t.DType != v.Meta.DType:
		return fmt.Errorf("input %q is %v, the graph wants %v", v.Name, t.DType, v.Meta.DType)
	case !slices.Equal(t.Shape, v.Meta.Shape):
		return fmt.Errorf("input %q has shape %s, the graph wants %s", v.Name, tensor.ListString(t.Shape),
			tensor.ListString(v.Meta.Shape))
	}
	return nil
}

// laidOut returns a copy of t that lies exactly as m says.
func laidOut(t *tensor.Tensor, m tensor.Meta) *tensor.Tensor {
	out := tensor.Empty(m)
	tensor.CopyElements(out, t)
	return out
}

// fits reports whether the tensor is laid out as the program was compiled for.
func fits(v *graph.Value, t *tensor.Tensor) bool {
	return t.SameAddresses(v.Meta) && t.Offset >= v.Meta.Offset
}

// allocate gets the memory of the outputs: the caller's tensor where one was given.
func (s *Session) allocate(in, out []*tensor.Tensor) error {
	p := s.p
	for i, o := range p.outputs {
		t := out[i]
		if t == nil || p.lost[o.Value] {
			continue
		}
		m := o.Value.Meta
		if err := t.Check(); err != nil {
			return fmt.Errorf("the tensor given for output %q: %w", o.Name, err)
		}
		if t.DType != m.DType || !t.SameLayout(m) {
			return fmt.Errorf("output %q is %v, the tensor given for it %v", o.Name, m, t.Meta)
		}
		if err := s.take(in, t); err != nil {
			return fmt.Errorf("the tensor given for output %q shares storage with %w", o.Name, err)
		}
		if k := p.storageOf(o.Value); p.storages[k].kind == inFresh && o.Value.Alias == nil &&
			t.Offset == 0 && t.Storage().Len() >= p.storages[k].bytes {
			s.fresh[k] = t.Storage()
		}
	}
	for k := range p.storages {
		if p.storages[k].kind == inFresh && s.fresh[k] == nil {
			s.fresh[k] = tensor.NewStorage(p.storages[k].bytes)
		}
	}
	return nil
}

// deliver sets an output: the storage that the run wrote, a view of an input, or a copy of
// a constant.
func (s *Session) deliver(o graph.Output, in []*tensor.Tensor, out **tensor.Tensor) error {
	root := o.Value.Root()
	k := s.p.storageOf(root)
	so := &s.p.storages[k]
	m := o.Value.Meta
	var t *tensor.Tensor
	var err error
	switch so.kind {
	case inFresh:
		if *out != nil && (*out).Storage() == s.fresh[k] {
			return nil
		}
		t, err = tensor.Over(m, s.fresh[k])
	case inInput:
		x := in[so.input]
		shift := (x.Offset - root.Meta.Offset) * x.DType.Size()
		if shift%m.DType.Size() != 0 {
			// No offset of the view's dtype says where it begins.
			x, shift = laidOut(x, root.Meta), 0
		}
		m.Offset += shift / m.DType.Size()
		t, err = x.View(m)
	default:
		if t, err = so.data.View(m); err == nil && *out == nil {
			t = t.CopyTo(m)
		}
	}
	if err != nil {
		return fmt.Errorf("output %q: %w", o.Name, err)
	}
	if *out == nil {
		*out = t
	} else {
		tensor.CopyElements(*out, t)
	}
	return nil
}
