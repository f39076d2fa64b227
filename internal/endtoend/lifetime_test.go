//go:build linux

package endtoend_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	graphexec "github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/tensor"
)

// executable returns the number of bytes of executable anonymous memory of the process. The system joins adjacent
// mappings, so their number is not useful.
func executable(t *testing.T) (size uint64) {
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	for l := range bytes.Lines(maps) {
		var from, to uint64
		fields := strings.Fields(string(l))
		if len(fields) != 5 || !strings.Contains(fields[1], "x") {
			continue
		}
		require.NotContains(t, fields[1], "w", "memory that is both")
		_, err := fmt.Sscanf(fields[0], "%x-%x", &from, &to)
		require.NoError(t, err)
		size += to - from
	}
	return size
}

// ownCode compiles a graph whose code no other program shares: a constant in it is the number.
func ownCode(number float64) (*graphexec.Program, error) {
	g := graph.New("own", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 40, 50)
	y := g.Apply("clamp", graph.Attrs{"max": number}, g.Apply("exp", nil, x)[0])[0]
	g.Output("y", y).Output("sum", g.Apply("sum", graph.Attrs{"dim": 1}, y)[0])
	if g.Err() != nil {
		return nil, g.Err()
	}
	p, err := passes.Run(g, passes.Options{})
	if err != nil {
		return nil, err
	}
	return graphexec.Compile(p.Graph, graphexec.Options{Threads: 2})
}

// runOwn runs a program of ownCode on zeros, whose exponential is 1, and checks the results.
func runOwn(p *graphexec.Program, number float64) error {
	out, err := p.Run(context.Background(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 40, 50)})
	if err != nil {
		return err
	}
	want := min(1, float64(float32(number)))
	if y, s := out["y"].At(39, 49).Float(), out["sum"].At(39).Float(); y != want || s < 49.99*want || s > 50.01*want {
		return fmt.Errorf("%g and %g, want %g and 50 of them", y, s, want)
	}
	return nil
}

// TestCodeIsLetGo compiles, runs and drops programs while another program runs and garbage is collected all the time.
// Afterwards no new memory is executable, and no goroutine is left.
func TestCodeIsLetGo(t *testing.T) {
	const workers, programs = 4, 30
	before, routines := quiet(t), runtime.NumGoroutine()
	kept, err := ownCode(0.5)
	require.NoError(t, err)
	require.NoError(t, runOwn(kept, 0.5))
	withOne := quiet(t)
	stop := make(chan struct{})
	var collector, group sync.WaitGroup
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
	failed := make([]error, workers)
	for w := range workers {
		group.Go(func() {
			for i := range programs {
				number := 0.5 + float64(1+w*programs+i)/1000
				p, err := ownCode(number)
				for range 5 {
					if err == nil {
						err = errors.Join(runOwn(p, number), runOwn(kept, 0.5))
					}
				}
				failed[w] = errors.Join(failed[w], err)
			}
		})
	}
	group.Wait()
	close(stop)
	collector.Wait()
	require.NoError(t, errors.Join(failed...))
	if jit.Available() == nil {
		require.Greater(t, withOne, before, "no code was made")
	}
	settle(t, "what was dropped", func() bool { return executable(t) <= withOne })
	require.NoError(t, runOwn(kept, 0.5))
	runtime.KeepAlive(kept)
	settle(t, "all code", func() bool { return executable(t) <= before })
	settle(t, "goroutines", func() bool { return runtime.NumGoroutine() <= routines })
}

// quiet returns the executable bytes after the garbage of other tests is collected.
func quiet(t *testing.T) (size uint64) {
	for same := 0; same < 10; same++ {
		runtime.GC()
		time.Sleep(2 * time.Millisecond)
		if now := executable(t); now != size {
			size, same = now, 0
		}
	}
	return size
}

// settle collects garbage until gone reports true, at most 500 times.
func settle(t *testing.T, what string, gone func() bool) {
	t.Helper()
	for range 500 {
		if runtime.GC(); gone() {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Errorf("%s stays", what)
}

// denyExecution makes the kernel reject executable memory from now on, as hardened systems do.
func denyExecution() error {
	return unix.Prctl(unix.PR_SET_MDWE, unix.PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0)
}

// TestWithoutExecutableMemory runs processes in which memory cannot be made executable, from the start or after some
// code was mapped. That code still runs, and the rest runs in Go.
func TestWithoutExecutableMemory(t *testing.T) {
	testsize.Long(t)
	if when := os.Getenv("DENY_EXECUTION"); when != "" {
		var early *graphexec.Program
		if when == "later" {
			var err error
			early, err = ownCode(0.25)
			require.NoError(t, err)
			require.NoError(t, runOwn(early, 0.25))
		}
		if err := denyExecution(); err != nil {
			fmt.Println("not here:", err)
			return
		}
		for _, number := range []float64{0.125, 0.75, 3} {
			p, err := ownCode(number)
			require.NoError(t, err)
			require.NoError(t, runOwn(p, number))
		}
		if when == "later" {
			require.NoError(t, runOwn(early, 0.25))
		} else {
			require.Error(t, jit.Available())
		}
		fmt.Println("ran")
		return
	}
	for _, when := range []string{"early", "later"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestWithoutExecutableMemory$")
		cmd.Env = append(os.Environ(), "DENY_EXECUTION="+when)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		if bytes.Contains(out, []byte("not here:")) {
			t.Skipf("this system cannot refuse: %s", out)
		}
		require.Contains(t, string(out), "ran", when)
	}
}
