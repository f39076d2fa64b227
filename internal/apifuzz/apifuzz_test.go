package apifuzz

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

var announce = flag.Bool("announce", false, "print each call, before it ends the process")

var calls = flag.Int("calls", testsize.Of(12, 30), "calls of each function and method, in TestEveryFunction")

// target is a function, or a method with its receiver as the first argument.
type target struct {
	name string
	f    reflect.Value
}

// targets returns all functions and methods in the order of their names.
func targets() []target {
	var all []target
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		if _, skip := vouched[name]; !skip {
			all = append(all, target{name, reflect.ValueOf(functions[name])})
		}
	}
	for _, t := range receivers {
		for i := range t.NumMethod() {
			m := t.Method(i)
			name := methodName(t, m.Name)
			if _, skip := vouched[name]; !skip {
				all = append(all, target{name, m.Func})
			}
		}
	}
	return all
}

// methodName returns (pkg.Type).Method, also for pointers and instances of generic types.
func methodName(t reflect.Type, method string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(t.String(), "*"), "[")
	return "(" + name + ")." + method
}

// arguments returns random arguments of a function. A receiver is never a nil pointer, which would be a mistake in Go
// itself.
func (w *world) arguments(f reflect.Type, method bool) []reflect.Value {
	n := f.NumIn()
	var args []reflect.Value
	for i := range n {
		t := f.In(i)
		if f.IsVariadic() && i == n-1 {
			list := w.argument(t, 2)
			for k := range list.Len() {
				args = append(args, list.Index(k))
			}
			break
		}
		v := w.argument(t, 2)
		for method && i == 0 && t.Kind() == reflect.Pointer && v.IsNil() {
			v = w.argument(t, 2)
		}
		args = append(args, v)
	}
	return args
}

const (
	longest = 20 * time.Second // maximum time of a call, on a busy machine
	most    = 512 << 20        // maximum number of bytes that a call may allocate
)

// fault calls f and describes what is wrong: a panic, too many bytes, or too much time. It returns "" if nothing is.
func fault(f func()) string {
	before := allocated()
	done := make(chan string, 1)
	go func() {
		defer func() {
			done <- wrong(recover())
		}()
		debug.SetPanicOnFault(true)
		f()
	}()
	select {
	case s := <-done:
		if n := allocated() - before; s == "" && n > most {
			return fmt.Sprintf("allocated %d bytes", n)
		}
		return s
	case <-time.After(longest):
		return fmt.Sprintf("did not return in %v", longest)
	}
}

func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// wrong describes a panic that is not documented, and returns "" for others.
func wrong(p any) string {
	if _, short := p.(*tensor.MemoryError); p == nil || short {
		return "" // the error for storage that exceeds the memory
	}
	text := fmt.Sprint(p)
	for _, pkg := range packages {
		if _, name, ok := strings.Cut(pkg, "/"); ok {
			pkg = name
		}
		if strings.HasPrefix(text, pkg+": ") {
			return ""
		}
	}
	return fmt.Sprintf("panics: %s\n%s", text, place(debug.Stack()))
}

// place returns the first lines of a stack that are in the code of the module.
func place(stack []byte) string {
	var lines []string
	for _, l := range strings.Split(string(stack), "\n") {
		if strings.HasPrefix(l, "\t") && strings.Contains(l, "graphrun") && !strings.Contains(l, "/apifuzz/") {
			lines = append(lines, strings.TrimSpace(l))
		}
	}
	return "\t" + strings.Join(lines[:min(len(lines), 4)], "\n\t")
}

// try calls the target with random arguments for a seed.
func try(t target, seed uint64) string {
	w := newWorld(rand.New(rand.NewPCG(seed, 1)))
	return fault(func() {
		out := t.f.Call(w.arguments(t.f.Type(), strings.HasPrefix(t.name, "(")))
		for _, v := range out {
			// An error in the results must have a text.
			if e, ok := v.Interface().(error); ok && e != nil && !isNil(v) {
				_ = e.Error()
			}
		}
	})
}

func isNil(v reflect.Value) bool {
	if v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// tryOp adds a node of an op to a graph with many values. The number of operands and the types of attributes are
// sometimes wrong.
func tryOp(op *graph.Op, seed uint64) string {
	w := newWorld(rand.New(rand.NewPCG(seed, 2)))
	return fault(func() {
		defer func() {
			// A builder keeps errors. It must not panic, not even as documented.
			if p := recover(); p != nil {
				panic(fmt.Sprintf("the builder panics: %v\n%s", p, place(debug.Stack())))
			}
		}()
		g := rich()
		w.graphs = []*graph.Graph{g}
		var in []any
		for range max(len(op.Params)+[]int{0, 0, 0, 0, 1, -1}[w.rng.IntN(6)], 0) {
			if w.rng.IntN(8) == 0 {
				in = append(in, w.any())
			} else {
				in = append(in, w.value())
			}
		}
		out := g.Apply(op.Name, w.attrsOf(op), in...)
		g.Output("result", out[0].Named("named"))
		_ = g.Err()
	})
}

// numbers matches numbers, in which faults of the same kind differ.
var numbers = regexp.MustCompile(`-?[0-9]+`)

// faults counts calls and reports faults. It reports each kind of fault once for a target.
type faults struct {
	t      *testing.T
	calls  int
	faulty map[string]bool
}

func (r *faults) count(name string, seed uint64, call func() string) {
	r.calls++
	if *announce {
		fmt.Fprintln(os.Stderr, name, seed)
	}
	fault := call()
	if key := name + numbers.ReplaceAllString(fault, "0"); fault != "" && !r.faulty[key] {
		r.faulty[key] = true
		r.t.Errorf("%s, seed %d: %s", name, seed, fault)
	}
}

// TestEveryFunction calls all exported functions and methods, and adds nodes of all ops.
func TestEveryFunction(t *testing.T) {
	t.Chdir(t.TempDir()) // some calls write files
	r := &faults{t: t, faulty: map[string]bool{}}
	for _, f := range targets() {
		for seed := range uint64(*calls) {
			r.count(f.name, seed, func() string { return try(f, seed) })
		}
	}
	for _, op := range kernels.All() {
		for seed := range uint64(*calls) {
			r.count("op "+op.Name, seed, func() string { return tryOp(op, seed) })
		}
	}
	t.Logf("%d calls of %d functions, methods and ops: %d faults", r.calls, len(targets())+len(kernels.All()),
		len(r.faulty))
}

// FuzzAPI calls one function, method or op with random arguments for a seed.
func FuzzAPI(f *testing.F) {
	all, ops := targets(), kernels.All()
	f.Add(uint16(0), uint64(1))
	f.Add(uint16(len(all)), uint64(1))
	f.Fuzz(func(t *testing.T, which uint16, seed uint64) {
		t.Chdir(t.TempDir())
		name, s := "", ""
		if i := int(which) % (len(all) + len(ops)); i < len(all) {
			name, s = all[i].name, try(all[i], seed)
		} else {
			op := ops[i-len(all)]
			name, s = "op "+op.Name, tryOp(op, seed)
		}
		if s != "" {
			t.Errorf("%s: %s", name, s)
		}
	})
}
