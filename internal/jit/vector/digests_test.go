//go:build linux || darwin

package vector_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/internal/jit/vector"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/tensor"
)

// loopDigests adds loops to digests, for the instruction sets that the generator of an architecture distinguishes.
type loopDigests struct {
	*testing.T
	*jittest.Digests
	sets []machine.Features
}

// add adds a piece for each instruction set. A loop without code adds nothing to it.
func (d *loopDigests) add(name string, opts vector.Options, loops ...*expr.Loop) {
	d.Helper()
	for _, cpu := range d.sets {
		var funcs []*jit.Func
		for _, l := range loops {
			c, err := vector.Compile(l, cpu, opts)
			switch {
			case err == nil:
				funcs = append(funcs, vector.FuncOf(c))
			case !errors.Is(err, vector.ErrUnsupported):
				d.Fatalf("%s: %v", name, err)
			}
		}
		d.Add(cpu.String()+" "+name, funcs...)
	}
}

// loop returns a loop of an operation on operands of a dtype.
func (d *loopDigests) loop(o expr.Op, of tensor.DType) *expr.Loop {
	d.Helper()
	in := []tensor.DType{of, of, of}[:o.ArgCount()]
	if o == expr.Select {
		in[0] = tensor.Bool
	}
	b := expr.NewBuilder(in...)
	args := make([]expr.Value, len(in))
	for k := range args {
		args[k] = b.Load(k)
	}
	return d.build(b, b.Emit(o, args...))
}

func (d *loopDigests) build(b *expr.Builder, v expr.Value) *expr.Loop {
	d.Helper()
	code, err := b.Build(b.Real(v))
	if err != nil {
		d.Fatal(err)
	}
	return &expr.Loop{Code: code, Uniform: make([]bool, len(code.In))}
}

// addOperations adds a piece for each operation: its loops of all dtypes.
func (d *loopDigests) addOperations() {
	loops, order := map[expr.Op][]*expr.Loop{}, []expr.Op(nil)
	add := func(o expr.Op, of tensor.DType) {
		if loops[o] == nil {
			order = append(order, o)
		}
		loops[o] = append(loops[o], d.loop(o, of))
	}
	for _, of := range tensor.DTypes() {
		if of.IsReducedFloat() || of.IsComplex() {
			continue
		}
		for _, o := range vector.Operations(of) {
			add(o, of)
		}
		for o := expr.Exp; of.IsFloat() && o < expr.Call; o++ {
			add(o, of)
		}
	}
	for _, o := range order {
		d.add(o.String(), vector.Options{}, loops[o]...)
	}
}

// addConversions adds a piece for each dtype: the conversions to all real dtypes.
func (d *loopDigests) addConversions() {
	for _, from := range tensor.DTypes() {
		var loops []*expr.Loop
		for _, to := range tensor.DTypes() {
			if !from.IsComplex() && !to.IsComplex() {
				b := expr.NewBuilder(from)
				loops = append(loops, d.build(b, b.Convert(to, b.Load(0))))
			}
		}
		if len(loops) > 0 {
			d.add("conversions of "+from.String(), vector.Options{}, loops...)
		}
	}
}

// TestDigests compares the code of loops with the committed digests.
func TestDigests(t *testing.T) {
	testsize.Long(t)
	for arch, sets := range map[string][]machine.Features{"amd64": {machine.AVX2, machine.AVX512},
		"arm64": {machine.NEON}} {
		t.Run(arch, func(t *testing.T) {
			loopDigests{t, jittest.NewDigests(t, "testdata/"+arch+".sum"), sets}.compare()
		})
	}
}

// compare compares the code of all operations and conversions, and of random loops, also with options.
func (d loopDigests) compare() {
	d.Helper()
	d.addOperations()
	d.addConversions()
	options := []vector.Options{{NonTemporal: true}, {NonTemporal: true, Unfenced: true}, {NonTemporal: true,
		CachedOutputs: 1}, {Prefetch: vector.Prefetch{Operands: 3, Bytes: 512, IntoL1: true}},
		{Prefetch: vector.Prefetch{Operands: 1, Bytes: 4096}}}
	for seed := range uint64(60) {
		steps := 12
		if seed%4 == 0 {
			steps = 80
		}
		l, err := vector.RandomLoop(rand.New(rand.NewPCG(seed, 30)), steps)
		if err != nil {
			d.Fatal(err)
		}
		d.add(fmt.Sprint("random ", seed), vector.Options{}, l)
		if seed < 10 {
			d.add(fmt.Sprint("random ", seed, " with options"), options[seed%uint64(len(options))], l)
		}
	}
	d.Compare()
}
