//go:build linux || darwin

package kernels_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/internal/jit/vector"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// withDTypes returns the operands of an example with dtype d, in place of the first operand's dtype and in place of
// all. The last variant mixes dtypes, so that there are conversions.
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

// compiledCall is a kernel and its call.
type compiledCall struct {
	*graph.Kernel
	call graph.Call
}

// kernelsOf returns the kernels of an op for a call: those of its implementations, and of its row program.
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
			call := *c
			call.Impl, call.Walk, call.Out = m, w, slices.Clone(c.Out)
			for o := range call.Out {
				call.Out[o] = w.ResultLayout(o, call.Out[o])
			}
			add(&call, m.Lower)
		}
	}
	if op.Compile != nil && len(op.Impls) < 2 {
		add(c, op.Compile)
	}
	if op.Rows != nil {
		if r, err := op.Rows(c); err == nil && r != nil {
			add(c, func(c *graph.Call) (*graph.Kernel, error) { return fusion.CompileRows(r, c) })
		}
	}
	return list
}

// listings returns the loops of a call that are compiled from expressions; other machine code has separate tests.
func listings(k compiledCall) []expr.Listing {
	if k.Code == nil {
		return nil
	}
	return slices.DeleteFunc(k.Code(), func(l expr.Listing) bool { return l.Loop == nil })
}

// loopsByOp returns the loops of all ops, by name.
var loopsByOp = sync.OnceValue(func() map[string][]*expr.Loop {
	found := map[string][]*expr.Loop{}
	for _, op := range kernels.All() {
		found[op.Name] = loopsOf(op)
	}
	return found
})

// loopsOf returns the distinct loops of an op's kernels for its examples in every dtype. A loop without reduction is
// returned with every choice of scalar operands.
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
						add(listed.Loop)
						if len(listed.Loop.Folds) > 0 {
							continue
						}
						for set := range 1 << min(3, len(listed.Loop.Uniform)) {
							l := &expr.Loop{Code: listed.Loop.Code, Uniform: make([]bool, len(listed.Loop.Uniform))}
							for i := range min(3, len(l.Uniform)) {
								l.Uniform[i] = set>>i&1 != 0
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

// onlyInGo lists pointwise ops that have no expression, or one with a function that is never compiled.
var onlyInGo = []string{"erfinv", "gcd", "lcm", "lgamma"}

// TestCompiledLoops compares the machine code of every op that has an expression with the interpreter, bit for bit and
// for all dtypes: in CI for all loops, else for a sample of the loops of each op. New ops are included
// automatically.
func TestCompiledLoops(t *testing.T) {
	testsize.Long(t)
	sets := jittest.InstructionSets(t, machine.Portable)
	var compiled sync.Map
	all, seen := 0, map[string]bool{}
	filtered := map[string]bool{} // the ops that the -run flag excludes
	step := testsize.Of(60, 1)
	t.Run("ops", func(t *testing.T) {
		for _, op := range kernels.All() {
			loops := loopsByOp()[op.Name]
			if all += len(loops); len(loops) == 0 {
				continue
			}
			filtered[op.Name] = true
			t.Run(op.Name, func(t *testing.T) {
				delete(filtered, op.Name)
				compileOnly := make([]bool, len(loops)) // checked for an earlier op
				for k, l := range loops {
					if k%step > 0 {
						continue
					}
					key := l.Key()
					compileOnly[k], seen[key] = seen[key], true
				}
				t.Parallel()
				b := jittest.NewComparison(t)
				for k, l := range loops {
					if k%step > 0 {
						continue
					}
					for _, cpu := range sets {
						var err error
						if compileOnly[k] {
							_, err = vector.Compile(l, cpu, vector.Options{})
						} else {
							err = b.Check(l, cpu)
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
		listed := slices.Contains(onlyInGo, op.Name)
		if op.Kind == graph.FollowsOperands && ok == listed && !filtered[op.Name] {
			t.Errorf("%s: machine code was compared: %v; listed in onlyInGo: %v", op.Name, ok, listed)
		}
	}
	if len(filtered) == 0 && (all < 5000 || len(seen) < testsize.Of(150, 4000)) {
		t.Errorf("only %d loops were found, %d of them different", all, len(seen))
	}
}

// TestEmittedForms compares every form of instruction in the code of ops for amd64 with Go's assembler, and checks the
// rules for code that the runtime does not know. It does not execute the code.
func TestEmittedForms(t *testing.T) {
	testsize.Long(t)
	var forms jittest.Forms
	seen := map[string]bool{}
	step := testsize.Of(50, 1)
	for _, op := range kernels.All() {
		for k, l := range loopsByOp()[op.Name] {
			if k%step > 0 {
				continue
			}
			key := l.Code.Key()
			if len(l.Folds) == 0 && seen[key] {
				continue
			}
			seen[key] = true
			for _, cpu := range []machine.Features{machine.AVX2, machine.AVX512, machine.NEON} {
				c, err := vector.Compile(l, cpu, vector.Options{})
				if err != nil {
					continue
				}
				listing := c.Listing()
				if err := jittest.CheckRules(cpu, listing); err != nil {
					t.Errorf("%s: %v", op.Name, err)
				}
				if cpu != machine.NEON { // package asm of arm64 compares all forms
					forms.Add(listing)
				}
			}
		}
	}
	if n := forms.Check(t); n < testsize.Of(600, 2000) {
		t.Errorf("only %d forms were compared", n)
	}
}

// callLimit bounds the instructions of a call of machine code, since a call delays the runtime's stop-the-world: less
// than 50 us of the densest code, such as that of cos.
const callLimit = 300_000

// TestCallsAreShort counts the instructions of the longest calls of the code of every op: one row, and the maximum
// number of rows of one element.
func TestCallsAreShort(t *testing.T) {
	testsize.Long(t)
	cpu := jittest.InstructionSets(t, machine.Portable)[0]
	seen := map[string]bool{}
	longest, counted, step := 0, 0, testsize.Of(25, 1)
	for _, op := range kernels.All() {
		for k, l := range loopsByOp()[op.Name] {
			if k%step > 0 {
				continue
			}
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
			instructions, err := jittest.CountInstructions(cpu, r.Listing(op.Name).Assembly())
			if err != nil {
				t.Fatalf("%s: %v", op.Name, err)
			}
			for _, n0 := range []int{1, 7, r.MaxElements()} {
				n := instructions.Max(n0, r.RowsPerCall(n0))
				if counted++; n > callLimit/machine.CallDivisor {
					t.Errorf("%s: a call of %d rows of %d elements executes %d instructions\n%v", op.Name, r.RowsPerCall(n0), n0, n,
						l.Code)
				}
				longest = max(longest, n)
			}
		}
	}
	if counted < 5000/step || longest < callLimit/machine.CallDivisor/4 {
		t.Errorf("counted %d calls of at most %d instructions", counted, longest)
	}
}
