//go:build linux || darwin

package kernels_test

import (
	"errors"
	"runtime/debug"
	"slices"
	"sync"
	"testing"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/internal/jit/vector"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// withDTypes returns the operands of an example with other dtypes: the one dtype for all that have the first operand's,
// and for all. The last mixes in another, so that there are conversions.
func withDTypes(in []tensor.Meta, d tensor.DType) [][]tensor.Meta {
	if len(in) == 0 {
		return nil
	}
	all := tensor.DTypes()
	lists := [][]tensor.Meta{slices.Clone(in), slices.Clone(in), slices.Clone(in)}
	for k, m := range in {
		if m.DType == tensor.Invalid {
			continue
		}
		if m.DType == in[0].DType {
			lists[0][k].DType = d
		}
		lists[1][k].DType = d
		lists[2][k].DType = d
		if k > 0 {
			lists[2][k].DType = all[(slices.Index(all, d)+5*k)%len(all)]
		}
	}
	if len(in) == 1 {
		return lists[:1]
	}
	return lists
}

// compiledCall is a kernel and the call that it is for.
type compiledCall struct {
	*graph.Kernel
	call graph.Call
}

// kernelsOf returns the kernels that an op has for a call: those of its implementations, and of its rows.
func kernelsOf(op *graph.Op, given graph.Attrs, in []tensor.Meta) (list []compiledCall) {
	c, err := kerneltest.CallOf(op, given, in)
	if err != nil {
		return nil
	}
	if res, err := kerneltest.Infer(op, c); err != nil || len(res) == 0 || res[0].Dynamic || res[0].Alias >= 0 {
		return nil
	}
	add := func(c *graph.Call, lower func(c *graph.Call) (*graph.Kernel, error)) {
		if k, err := lower(c); err == nil && k != nil {
			list = append(list, compiledCall{k, *c})
		}
	}
	for i := range op.Impls {
		m := &op.Impls[i]
		for _, w := range m.Walks(c, nil) {
			at := *c
			at.Impl, at.Walk, at.Out = m, w, slices.Clone(c.Out)
			for o := range at.Out {
				at.Out[o] = w.Lay(o, at.Out[o])
			}
			add(&at, m.Lower)
		}
	}
	if op.Compile != nil && len(op.Impls) < 2 {
		add(c, op.Compile)
	}
	if op.Rows != nil {
		if r, err := op.Rows(c); err == nil && r != nil {
			add(c, r.Compile)
		}
	}
	return list
}

// listings are those of the loops of a call; machine code that no expression states has tests of its own.
func listings(k compiledCall) []expr.Listing {
	if k.Code == nil {
		return nil
	}
	return slices.DeleteFunc(k.Code(), func(l expr.Listing) bool { return l.Loop == nil })
}

// loopsByOp are the loops of all ops, by name.
var loopsByOp = sync.OnceValue(func() map[string][]*expr.Loop {
	found := map[string][]*expr.Loop{}
	for _, op := range kernels.All() {
		found[op.Name] = loopsOf(op)
	}
	return found
})

// loopsOf returns the loops of an op's kernels for its examples in every dtype, each once. A loop that folds nothing
// comes with every choice of operands that stay where they are.
func loopsOf(op *graph.Op) (loops []*expr.Loop) {
	seen := map[string]bool{}
	add := func(l *expr.Loop) {
		if key := l.Key(); !seen[key] {
			seen[key] = true
			loops = append(loops, l)
		}
	}
	for _, ex := range op.Examples {
		for _, d := range tensor.DTypes() {
			for _, in := range withDTypes(ex.In, d) {
				for _, k := range kernelsOf(op, ex.Attrs, in) {
					for _, listed := range listings(k) {
						if listed.Loop == nil { // machine code that no expression states
							continue
						}
						add(listed.Loop)
						if len(listed.Loop.Folds) > 0 {
							continue
						}
						for set := range 1 << min(3, len(listed.Loop.Scalar)) {
							l := &expr.Loop{Code: listed.Loop.Code, Scalar: make([]bool, len(listed.Loop.Scalar))}
							for i := range min(3, len(l.Scalar)) {
								l.Scalar[i] = set>>i&1 != 0
							}
							add(l)
						}
					}
				}
			}
		}
	}
	return loops
}

// instructionSets returns those for which machine code can be run here.
func instructionSets(t *testing.T) []machine.ISA {
	if err := jit.Available(); err != nil {
		t.Skip(err)
	}
	return []machine.ISA{machine.AVX2, machine.AVX512}[:machine.Instructions()]
}

// onlyInGo are pointwise ops that state no expression, or one with a function that no machine code is made of, in any
// dtype.
var onlyInGo = []string{"erfinv", "lgamma"}

// TestCompiledLoops holds the machine code of every op that has an expression against the interpreter, for all its
// dtypes, bit for bit. An op that is added is among them by itself.
func TestCompiledLoops(t *testing.T) {
	sets := instructionSets(t)
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // what a loop takes is garbage after it
	var compiled sync.Map
	all, seen := 0, map[string]bool{}
	t.Run("ops", func(t *testing.T) {
		for _, op := range kernels.All() {
			loops := loopsByOp()[op.Name]
			if all += len(loops); len(loops) == 0 {
				continue
			}
			checked := make([]bool, len(loops)) // by an op before
			for k, l := range loops {
				key := l.Key()
				checked[k], seen[key] = seen[key], true
			}
			t.Run(op.Name, func(t *testing.T) {
				t.Parallel()
				b := jittest.NewBoth(t)
				for k, l := range loops {
					for _, isa := range sets {
						var err error
						if checked[k] {
							_, err = vector.Compile(l, isa, vector.Options{})
						} else {
							err = b.Check(l, isa)
						}
						if err == nil {
							compiled.Store(op.Name, true)
						} else if !errors.Is(err, vector.ErrUnsupported) {
							t.Fatal(err)
						}
					}
				}
			})
		}
	})
	for _, op := range kernels.All() {
		_, ok := compiled.Load(op.Name)
		if listed := slices.Contains(onlyInGo, op.Name); op.Kind == graph.Follows && ok == listed {
			t.Errorf("%s: machine code was compared: %v; listed as one that has none: %v", op.Name, ok, listed)
		}
	}
	if all < 5000 || len(seen) < 4000 {
		t.Errorf("only %d loops were found, %d of them different", all, len(seen))
	}
}

// TestEmittedForms holds every form of instruction in the code of ops against Go's assembler, and the code to the rules
// for what the runtime does not know. It needs no processor that has them.
func TestEmittedForms(t *testing.T) {
	var forms jittest.Forms
	seen := map[string]bool{}
	for _, op := range kernels.All() {
		for _, l := range loopsByOp()[op.Name] {
			key := l.Code.Key()
			if len(l.Folds) == 0 && seen[key] {
				continue
			}
			seen[key] = true
			for _, isa := range []machine.ISA{machine.AVX2, machine.AVX512} {
				c, err := vector.Compile(l, isa, vector.Options{})
				if err != nil {
					continue
				}
				listing := c.Listing()
				if err := jittest.Rules(listing); err != nil {
					t.Errorf("%s: %v", op.Name, err)
				}
				forms.Add(listing)
			}
		}
	}
	if n := forms.Check(t); n < 2000 {
		t.Errorf("only %d forms were compared", n)
	}
}

// callLimit is how many instructions a call of machine code may execute, which the runtime waits for before it stops
// the world: less than 50 us of the densest code, such as that of cos.
const callLimit = 300_000

// TestCallsAreShort counts what the longest calls of the code of every op execute: of one row, and of as many rows of
// one element as go in a call.
func TestCallsAreShort(t *testing.T) {
	instructionSets(t)
	seen := map[string]bool{}
	longest, counted := 0, 0
	for _, op := range kernels.All() {
		for _, l := range loopsByOp()[op.Name] {
			key := l.Key()
			if seen[key] {
				continue
			}
			seen[key] = true
			r, err := loops.New(l, loops.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if !r.Compiled() {
				continue
			}
			listing := r.Listing(op.Name).Assembly
			for _, n0 := range []int{1, 7, r.Most()} {
				n, err := jittest.Executed(listing, n0, r.MostRows(n0))
				if err != nil {
					t.Fatalf("%s: %v", op.Name, err)
				}
				if counted++; n > callLimit {
					t.Errorf("%s: a call of %d rows of %d elements executes %d instructions\n%v", op.Name, r.MostRows(n0), n0, n,
						l.Code)
				}
				longest = max(longest, n)
			}
		}
	}
	if counted < 5000 || longest < callLimit/4 {
		t.Errorf("%d calls were counted, of %d instructions at most", counted, longest)
	}
}
