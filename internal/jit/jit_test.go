package jit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/testsize"
)

// needCode skips a test where no code can be called. Neither the race detector nor a missing generator is a reason
// here: the tests cover how functions are linked, called and unmapped.
func needCode(t testing.TB) {
	t.Helper()
	if !isSupported || runtime.GOARCH == "amd64" && !machine.HostFeatures().Has(machine.AVX2) {
		t.Skip(Available())
	}
}

// pick returns the value for the architecture of this process.
func pick[T any](amd64, arm64 T) T {
	if runtime.GOARCH == "arm64" {
		return arm64
	}
	return amd64
}

// adder returns code that adds a constant to Args.InnerCount float32 of operand 0, vector by vector and then one by
// one, and writes them to operand 1.
func adder(t testing.TB, c float32) []byte {
	t.Helper()
	return pick(adderAMD64, adderARM64)(t, c)
}

// apply calls a function that [adder] made, and returns an error if a result is wrong.
func apply(f *Func, args *Args, c float32, n int) error {
	in, out := make([]float32, n+1), make([]float32, n+1)
	for i := range in {
		in[i] = float32(i)
	}
	out[n] = -1
	args.InnerCount = n
	args.Ptr[0], args.Ptr[1] = unsafe.Pointer(&in[0]), unsafe.Pointer(&out[0])
	if err := f.Call(args); err != nil {
		return err
	}
	for i, v := range out[:n] {
		if want := in[i] + c; v != want {
			return fmt.Errorf("element %d of %d: %g, want %g", i, n, v, want)
		}
	}
	if out[n] != -1 {
		return fmt.Errorf("the code wrote beyond %d elements", n)
	}
	return nil
}

func TestCall(t *testing.T) {
	needCode(t)
	var args Args
	f, g := newFunc("one", adder(t, 1)), newFunc("two", adder(t, 2))
	for n := range 50 {
		if err := errors.Join(apply(f, &args, 1, n), apply(g, &args, 2, n)); err != nil {
			t.Fatal(err)
		}
	}
	if f.mapping != g.mapping || f.code != nil || f.Name() != "one" {
		t.Errorf("functions that wait together are mapped together: %+v, %+v", f, g)
	}
}

// TestRegisters calls code that changes every register that it may use.
func TestRegisters(t *testing.T) {
	needCode(t)
	f, args := newFunc("registers", pick(clobberAMD64, clobberARM64)(t)), new(Args)
	sum := 0.0
	for i := range 1000 {
		var zero [8]float64 // cleared by X15 on amd64
		x := float64(i) * 0.5
		if err := f.Call(args); err != nil {
			t.Fatal(err)
		}
		later := make([]float64, 8)
		for j := range zero {
			sum += x + zero[j] + later[j]
		}
	}
	if sum != 8*0.5*999*1000/2 {
		t.Errorf("the sum is %g", sum)
	}
}

// TestSpill calls code that aligns the address of the spill area, stores it in Args.InnerCount, and writes the last
// byte.
func TestSpill(t *testing.T) {
	needCode(t)
	f := newFunc("spill", pick(spillAMD64, spillARM64)(t))
	for range 100 {
		args := new(Args)
		if err := f.Call(args); err != nil {
			t.Fatal(err)
		}
		from := uintptr(unsafe.Pointer(&args.Spill))
		if at := uintptr(args.InnerCount); at%64 != 0 || at < from || at+SpillBytes > from+unsafe.Sizeof(args.Spill) {
			t.Errorf("%x in %x", at, from)
		}
	}
}

// TestLookup checks that functions with equal keys share code, that unreachable code is dropped from the cache, and
// that an error is returned to its caller only.
func TestLookup(t *testing.T) {
	needCode(t)
	made := 0
	get := func() *Func {
		f, err := Lookup("lookup", func(bool) (Code, error) { made++; return Code{Bytes: adder(t, 3)}, nil })
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := get()
	if g := get(); f != g || made != 1 {
		t.Errorf("%p and %p, made %d times", f, g, made)
	}
	if err := apply(f, new(Args), 3, 33); err != nil {
		t.Error(err)
	}
	f = nil
	settle(t, "the key to go", func() bool {
		cache.Lock()
		defer cache.Unlock()
		_, ok := cache.funcs["lookup"]
		return !ok
	})
	if get(); made != 2 {
		t.Errorf("made %d times", made)
	}
	wrong := errors.New("wrong")
	if f, err := Lookup("none", func(bool) (Code, error) { return Code{}, wrong }); f != nil || err != wrong {
		t.Errorf("%v, %v", f, err)
	}
}

// settle collects garbage until done reports true, at most 500 times.
func settle(t *testing.T, what string, done func() bool) {
	t.Helper()
	for range 500 {
		runtime.GC()
		if done() {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Errorf("waited in vain for %s", what)
}

// executable counts the anonymous executable mappings of the process. It returns -1 on systems without /proc.
func executable() int {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return -1
	}
	n := 0
	for l := range bytes.Lines(maps) {
		if fields := bytes.Fields(l); len(fields) == 5 && string(fields[1]) == "r-xp" {
			n++
		}
		if fields := bytes.Fields(l); strings.HasPrefix(string(fields[1]), "rwx") {
			panic("memory is writable and executable: " + string(l))
		}
	}
	return n
}

// TestUnmapped checks that the memory of unreachable functions is unmapped.
func TestUnmapped(t *testing.T) {
	needCode(t)
	before := executable() // an emulator has mappings of its own
	for i := range 50 {
		f := newFunc("dropped", adder(t, float32(i)))
		if err := apply(f, new(Args), float32(i), 10); err != nil {
			t.Fatal(err)
		}
		_ = newFunc("never called", adder(t, 0))
	}
	settle(t, "memory to be unmapped", func() bool { return executable() <= before })
	if err := Link(); err != nil { // the functions that were never called are gone, too
		t.Error(err)
	}
}

// TestConcurrent compiles, shares, calls and drops functions in several goroutines. Meanwhile another goroutine
// collects garbage without pause, and signals of the profiler interrupt the threads at any instruction.
func TestConcurrent(t *testing.T) {
	needCode(t)
	if pprof.StartCPUProfile(io.Discard) == nil { // go test -cpuprofile has one already
		defer pprof.StopCPUProfile()
	}
	stop := make(chan struct{})
	var collector, workers sync.WaitGroup
	collector.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	})
	rounds := testsize.Of(60, 300)
	for w := range 4 {
		workers.Go(func() {
			var args Args
			for i := range rounds {
				c := float32(i % 7)
				f, err := Lookup(fmt.Sprint("add ", c), func(bool) (Code, error) { return Code{Bytes: adder(t, c)}, nil })
				if err != nil {
					t.Error(err)
					return
				}
				own := newFunc("own", adder(t, float32(w)))
				if i%3 == 0 {
					err = Link()
				}
				for n := range 20 {
					err = errors.Join(err, apply(f, &args, c, n*5), apply(own, &args, float32(w), n))
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	workers.Wait()
	close(stop)
	collector.Wait()
}

// TestSwitches checks environment variables in processes of their own.
func TestSwitches(t *testing.T) {
	if os.Getenv("PRINT_AVAILABLE") != "" {
		fmt.Println("available:", Available())
		if f := newFunc("named", retFunction); isSupported {
			_ = f.Call(new(Args))
		}
		text, _ := os.ReadFile(fmt.Sprintf("/tmp/perf-%d.map", os.Getpid()))
		fmt.Printf("perf: %q\n", text)
		_ = os.Remove(fmt.Sprintf("/tmp/perf-%d.map", os.Getpid()))
		return
	}
	needCode(t)
	for _, tc := range pick([]struct{ env, want string }{
		{"GRAPHRUN_JIT=on", "available: <nil>"}, {"GRAPHRUN_JIT=off", "switched off"},
		{"GRAPHRUN_JIT=on GODEBUG=cpu.avx2=off", "AVX2"},
		{"GRAPHRUN_JIT=on GODEBUG=cpu.avx512f=off", "available: <nil>"}, {"GRAPHRUN_JIT=on", `perf: ""`},
		{"GRAPHRUN_JIT=on GRAPHRUN_PERFMAP=1", ` 1 graphrun:named\n"`},
	}, []struct{ env, want string }{
		{"GRAPHRUN_JIT=on", "no code generator for arm64 yet"}, {"GRAPHRUN_JIT=off", "switched off"},
		{"GRAPHRUN_JIT=on GRAPHRUN_PERFMAP=1", ` 4 graphrun:named\n"`},
	}) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSwitches$")
		cmd.Env = append(append(os.Environ(), "PRINT_AVAILABLE=1"), strings.Fields(tc.env)...)
		out, err := cmd.CombinedOutput()
		if errors.Is(err, syscall.ENOEXEC) {
			t.Skip("an emulator runs this process, and cannot start another: ", err)
		}
		if err != nil || !strings.Contains(string(out), tc.want) {
			t.Errorf("%s: %v\n%s", tc.env, err, out)
		}
	}
}

// TestRefused: if memory cannot be made executable, Call returns an error.
func TestRefused(t *testing.T) {
	if isSupported {
		t.Skip("this build has machine code")
	}
	if err := newFunc("none", retFunction).Call(new(Args)); err == nil || Available() == nil {
		t.Error("a call without executable memory has no error")
	}
}

func BenchmarkCall(b *testing.B) {
	needCode(b)
	args := new(Args)
	for _, tc := range []struct {
		name string
		code []byte
		n    int
	}{{"ret", retFunction, 0}, {"add64", adder(b, 1), 64}} {
		b.Run(tc.name, func(b *testing.B) {
			f := newFunc(tc.name, tc.code)
			in, out := make([]float32, 64), make([]float32, 64)
			args.InnerCount, args.Ptr[0], args.Ptr[1] = tc.n, unsafe.Pointer(&in[0]), unsafe.Pointer(&out[0])
			for b.Loop() {
				if err := f.Call(args); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
