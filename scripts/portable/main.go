//go:build linux

// Command portable runs cases for scripts/portable.py. It reads requests from standard input and writes answers, one
// JSON document for each line. The script also builds this file in the reference version, which has another load.go.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/tensor"
)

// request asks for the time of a run. The graph stays loaded between consecutive requests for the same file.
type request struct {
	File   string
	Ns     int64        // the duration of the measurement in ns
	Within [][2]float64 // by input, the range of its elements
}

// answer has the lower quartile of a run's processor times in ns, or an error.
type answer struct {
	Ns    float64 `json:"ns"`
	Error string  `json:"error"`
}

// loaded is a case ready to run, with allocated outputs.
type loaded struct {
	file    string
	session *exec.Session
	in, out []*tensor.Tensor
	loop    int // runs between two clock readings
}

// leastLooks is the minimum number of measurements. The lower quartile counts instead of the minimum, because on
// virtual machines the clock is occasionally wrong in either direction.
const leastLooks = 4

// clockSpan is the minimum time in ns between two clock readings, which take some hundred ns each.
const clockSpan = 20_000

func main() {
	runtime.LockOSThread() // the clock measures the thread
	debug.SetGCPercent(400)
	var at loaded
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var q request
		err := json.Unmarshal(in.Bytes(), &q)
		var a answer
		if err == nil {
			a.Ns, err = serve(&at, q)
		}
		if err != nil {
			a.Error, at = err.Error(), loaded{}
		}
		b, err := json.Marshal(a)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(b))
	}
}

func serve(at *loaded, q request) (float64, error) {
	if at.file != q.File {
		next, err := prepare(q)
		if err != nil {
			return 0, err
		}
		*at = next
	}
	var took []float64
	for end := time.Now().Add(time.Duration(q.Ns)); len(took) < leastLooks || time.Now().Before(end); {
		t, err := at.run()
		if err != nil {
			return 0, err
		}
		took = append(took, t)
	}
	slices.Sort(took)
	return took[len(took)/4], nil
}

func prepare(q request) (loaded, error) {
	g, err := load(q.File)
	if err != nil {
		return loaded{}, err
	}
	plan, err := passes.Run(g, passes.Options{})
	if err != nil {
		return loaded{}, err
	}
	p, err := exec.Compile(plan.Graph, exec.Options{Threads: 1, InputsHeld: true})
	if err != nil {
		return loaded{}, err
	}
	c := loaded{file: q.File, session: p.NewSession(), loop: 1}
	named := map[string]*tensor.Tensor{}
	for k, v := range plan.Graph.Inputs {
		dense, err := randomElements(v.Meta.DType, v.Meta.Numel(), q.Within[k], k).View(tensor.New(v.Meta.DType,
			v.Meta.Shape...))
		if err != nil {
			return loaded{}, err
		}
		t := dense.CopyTo(v.Meta)
		c.in, named[v.Name] = append(c.in, t), t
	}
	out, err := p.Run(context.Background(), named)
	if err != nil {
		return loaded{}, err
	}
	for _, o := range plan.Graph.Outputs {
		c.out = append(c.out, out[o.Name])
	}
	for range 2 { // the second run has warm caches
		took, err := c.run()
		if err != nil {
			return loaded{}, err
		}
		c.loop = int(clockSpan/(took+1)) + 1
	}
	runtime.GC()
	return c, nil
}

// run returns the processor time of a run, in ns.
func (c *loaded) run() (float64, error) {
	start := processorTime()
	for range c.loop {
		if err := c.session.RunInto(context.Background(), c.in, c.out); err != nil {
			return 0, err
		}
	}
	return float64(processorTime()-start) / float64(c.loop), nil
}

// drawing has the parameters of random elements.
type drawing struct {
	dtype  tensor.DType
	n      int
	within [2]float64
	input  int
}

var drawings = map[drawing]*tensor.Tensor{}

// randomElements returns n random elements. Equal arguments give equal elements.
func randomElements(d tensor.DType, n int, within [2]float64, input int) *tensor.Tensor {
	key := drawing{d, n, within, input}
	if t := drawings[key]; t != nil {
		return t
	}
	t := tensor.Empty(tensor.New(d, n))
	r := rand.New(rand.NewPCG(1, uint64(input)))
	draw := func() float64 { return within[0] + (within[1]-within[0])*r.Float64() }
	for i := range n {
		switch x := draw(); {
		case d == tensor.Bool:
			t.SetFlat(i, tensor.BoolScalar(r.Float64() < 0.5))
		case d.IsComplex():
			t.SetFlat(i, tensor.ComplexScalar(complex(x, draw())))
		case d.IsFloat():
			t.SetFlat(i, tensor.FloatScalar(x))
		default:
			t.SetFlat(i, tensor.IntScalar(int64(math.Round(x))))
		}
	}
	drawings[key] = t
	return t
}

// processorTime returns the thread's processor time in ns, which excludes other processes.
func processorTime() int64 {
	const threadClock = 3 // CLOCK_THREAD_CPUTIME_ID of Linux
	var t syscall.Timespec
	if _, _, e := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, threadClock, uintptr(unsafe.Pointer(&t)), 0); e != 0 {
		panic(e)
	}
	return t.Nano()
}
