//go:build linux

// Command portable measures graphs without machine code (the portable path), for scripts/portable.py, which compares
// two versions of this repository. It reads requests from standard input and writes answers, each a JSON document on
// its own line. The script builds this file within both versions. For an older version it replaces load.go, because the
// API for loading graphs has changed.
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
	Ns     int64        // duration of the measurement in ns
	Within [][2]float64 // the range of the elements of each input
}

// answer has the lower quartile of a run's processor times in ns, or an error.
type answer struct {
	Ns    float64 `json:"ns"`
	Error string  `json:"error"`
}

// loadedGraph is a graph that is ready to run, with allocated outputs.
type loadedGraph struct {
	file           string
	session        *exec.Session
	in, out        []*tensor.Tensor
	runsPerReading int // number of runs between two clock readings
}

// minSamples is the minimum number of measurements. The answer is their lower quartile instead of their minimum,
// because on virtual machines the clock is occasionally wrong in either direction.
const minSamples = 4

// clockSpan is the minimum time in ns between two clock readings. A reading takes some hundred ns.
const clockSpan = 20_000

func main() {
	runtime.LockOSThread() // the clock measures the thread
	debug.SetGCPercent(400)
	var current loadedGraph
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var wanted request
		err := json.Unmarshal(in.Bytes(), &wanted)
		var reply answer
		if err == nil {
			reply.Ns, err = serve(&current, wanted)
		}
		if err != nil {
			reply.Error, current = err.Error(), loadedGraph{}
		}
		encoded, err := json.Marshal(reply)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(encoded))
	}
}

// serve runs the requested graph for the requested time, and returns the lower quartile of the times of a run.
func serve(current *loadedGraph, wanted request) (float64, error) {
	if current.file != wanted.File {
		next, err := prepare(wanted)
		if err != nil {
			return 0, err
		}
		*current = next
	}
	var times []float64
	for end := time.Now().Add(time.Duration(wanted.Ns)); len(times) < minSamples || time.Now().Before(end); {
		t, err := current.run()
		if err != nil {
			return 0, err
		}
		times = append(times, t)
	}
	slices.Sort(times)
	return times[len(times)/4], nil
}

// prepare loads and compiles the requested graph, and generates its inputs.
func prepare(wanted request) (loadedGraph, error) {
	g, err := load(wanted.File)
	if err != nil {
		return loadedGraph{}, err
	}
	plan, err := passes.Run(g, passes.Options{})
	if err != nil {
		return loadedGraph{}, err
	}
	program, err := exec.Compile(plan.Graph, exec.Options{Threads: 1})
	if err != nil {
		return loadedGraph{}, err
	}
	loaded := loadedGraph{file: wanted.File, session: program.NewSession(), runsPerReading: 1}
	named := map[string]*tensor.Tensor{}
	for k, v := range plan.Graph.Inputs {
		dense, err := randomElements(v.Meta.DType, v.Meta.Numel(), wanted.Within[k], k).View(tensor.New(v.Meta.DType,
			v.Meta.Shape...))
		if err != nil {
			return loadedGraph{}, err
		}
		t := dense.CopyTo(v.Meta)
		loaded.in, named[v.Name] = append(loaded.in, t), t
	}
	out, err := program.Run(context.Background(), named)
	if err != nil {
		return loadedGraph{}, err
	}
	for _, output := range plan.Graph.Outputs {
		loaded.out = append(loaded.out, out[output.Name])
	}
	for range 2 { // the second run has warm caches
		took, err := loaded.run()
		if err != nil {
			return loadedGraph{}, err
		}
		loaded.runsPerReading = int(clockSpan/(took+1)) + 1
	}
	runtime.GC()
	return loaded, nil
}

// run returns the processor time of a run, in ns.
func (loaded *loadedGraph) run() (float64, error) {
	start := processorTime()
	for range loaded.runsPerReading {
		if err := loaded.session.RunInto(context.Background(), loaded.in, loaded.out); err != nil {
			return 0, err
		}
	}
	return float64(processorTime()-start) / float64(loaded.runsPerReading), nil
}

// elementsKey has the arguments of randomElements, as a key of generatedElements.
type elementsKey struct {
	dtype  tensor.DType
	count  int
	within [2]float64
	input  int
}

var generatedElements = map[elementsKey]*tensor.Tensor{}

// randomElements returns `count` random elements from within[0] to within[1] for the input with index `input`. Equal
// arguments give equal elements.
func randomElements(dtype tensor.DType, count int, within [2]float64, input int) *tensor.Tensor {
	key := elementsKey{dtype, count, within, input}
	if elements := generatedElements[key]; elements != nil {
		return elements
	}
	elements := tensor.Empty(tensor.New(dtype, count))
	r := rand.New(rand.NewPCG(1, uint64(input)))
	draw := func() float64 { return within[0] + (within[1]-within[0])*r.Float64() }
	for i := range count {
		switch value := draw(); {
		case dtype == tensor.Bool:
			elements.SetFlat(i, tensor.BoolScalar(r.Float64() < 0.5))
		case dtype.IsComplex():
			elements.SetFlat(i, tensor.ComplexScalar(complex(value, draw())))
		case dtype.IsFloat():
			elements.SetFlat(i, tensor.FloatScalar(value))
		default:
			elements.SetFlat(i, tensor.IntScalar(int64(math.Round(value))))
		}
	}
	generatedElements[key] = elements
	return elements
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
