// Command soak runs several programs from several goroutines for some time, with and without releases of results, and
// prints the memory of the process. It fails if a result changes or memory grows.
//
// Each goroutine (a worker) repeats these steps: It runs a random program on a random input, sometimes a second time
// into given tensors. It compares the results with the hashes of earlier ones. It drops, releases or retains the
// results.
//
//	go run ./scripts/soak -for 1h
package main

import (
	"context"
	"flag"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// tensors has inputs or results by name.
type tensors = map[string]*tensor.Tensor

func main() {
	if err := soak(); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// soak runs the workers until the time is over or one of them fails, and checks the memory of the process.
func soak() error {
	duration := flag.Duration("for", time.Minute, "how long to run")
	every := flag.Duration("every", 0, "how often to print; 0: a sixtieth of the time")
	goroutines := flag.Int("goroutines", 4, "number of goroutines that run programs")
	threads := flag.Int("threads", 2, "threads of a run")
	orderSeed := flag.Uint64("seed", 1, "seed for the order of runs")
	flag.Parse()
	if *duration <= 0 || *goroutines <= 0 || *threads <= 0 || *every < 0 {
		return fmt.Errorf("-for, -goroutines and -threads must be positive, and -every not negative")
	}
	if *every == 0 {
		*every = max(*duration/60, time.Second/10)
	}
	all, err := subjects(context.Background(), *threads)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), *duration)
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	runs := make([]atomic.Int64, len(resultUses))
	var wait sync.WaitGroup
	for i := range *goroutines {
		wait.Go(func() {
			w := &worker{rng: rand.New(rand.NewPCG(*orderSeed, uint64(i))), runs: runs}
			if err := w.run(ctx, all); err != nil {
				fail(err)
			}
		})
	}
	rss := sampleMemory(ctx, *every, runs)
	wait.Wait()
	if err := context.Cause(ctx); err != nil && err != context.DeadlineExceeded {
		return err
	}
	return checkGrowth(rss)
}

// subject is a program with its inputs of several sizes and the hashes of the expected results.
type subject struct {
	name       string
	program    *graphrun.Program
	inputs     []tensors           // by size
	wantHashes []map[string]uint64 // by size: the hash of each result
}

// subjects compiles the graphs and computes the wanted results for each shape.
func subjects(ctx context.Context, threads int) ([]*subject, error) {
	list, shapes := graphs()
	var all []*subject
	for i, g := range list {
		program, err := graphrun.Compile(ctx, g, graphrun.Options{Threads: threads})
		if err != nil {
			return nil, err
		}
		s := &subject{name: g.Name, program: program}
		for k, shape := range shapes[i] {
			inputs := tensors{"x": randomTensor(rand.New(rand.NewPCG(uint64(i), uint64(k))), shape...)}
			results, err := program.Run(ctx, inputs)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", g.Name, err)
			}
			hashes := map[string]uint64{}
			for name, result := range results {
				hashes[name] = hash(result)
			}
			s.inputs, s.wantHashes = append(s.inputs, inputs), append(s.wantHashes, hashes)
		}
		all = append(all, s)
	}
	return all, nil
}

// graphs returns graphs with an input x, and shapes of x for each graph. In graph "open" a size is a symbol. In graph
// "decided" the data decides the size of a result.
func graphs() (list []*graph.Graph, shapes [][][]int) {
	add := func(name string, compute func(x *graph.Value) []*graph.Value, dims []graph.Dim, inputShapes ...[]int) {
		g := graphrun.New(name)
		for i, y := range compute(g.InputDims("x", tensor.Float32, tensor.NoFormat, dims...)) {
			g.Output(fmt.Sprint("y", i), y)
		}
		list, shapes = append(list, g), append(shapes, inputShapes)
	}
	n := graph.Dim{Symbol: "N"}
	add("pointwise", func(x *graph.Value) []*graph.Value {
		exponentials := op.Exp(x)
		return []*graph.Value{exponentials, op.Permute(exponentials, []int{1, 0}), op.Softmax(exponentials, 1)}
	}, []graph.Dim{{Size: 512}, {Size: 1024}}, []int{512, 1024})
	add("open", func(x *graph.Value) []*graph.Value {
		return []*graph.Value{op.Contiguous(op.Permute(x, []int{0, 2, 1})), op.Add(x, x)}
	}, []graph.Dim{n, {Size: 64}, {Size: 196}}, []int{1, 64, 196}, []int{3, 64, 196}, []int{8, 64, 196},
		[]int{40, 64, 196})
	add("decided", func(x *graph.Value) []*graph.Value {
		return []*graph.Value{op.Nonzero(op.Relu(x)), op.Tanh(x), x}
	}, []graph.Dim{n, {Size: 300}}, []int{7, 300}, []int{100, 300})
	return list, shapes
}

// randomTensor returns a tensor of pseudo-random numbers from -1 to 1.
func randomTensor(rng *rand.Rand, shape ...int) *tensor.Tensor {
	data := make([]float32, tensor.Numel(shape))
	for i := range data {
		data[i] = 2*rng.Float32() - 1
	}
	return tensor.Must(tensor.FromSlice(data, shape...))
}

// hashSeed is the seed of all hashes.
var hashSeed = maphash.MakeSeed()

// hash returns a hash of the elements in logical order.
func hash(t *tensor.Tensor) uint64 {
	return maphash.Bytes(hashSeed, t.CopyTo(tensor.New(t.DType, t.Shape...)).Storage().Bytes())
}

// resultUses names what a worker does with results: drop them, release them, drop them but retain bytes of them
// ("held"), or run the program again into other tensors.
var resultUses = []string{"dropped", "released", "held", "into"}

// worker runs programs until the context ends. It retains the bytes of some results after it has dropped their tensors,
// to check that later runs do not change them.
type worker struct {
	rng      *rand.Rand
	retained [8]retainedOutput
	runs     []atomic.Int64 // by index of resultUses; shared by all workers
}

// retainedOutput has bytes of a dropped result.
type retainedOutput struct {
	bytes []byte
	hash  uint64
}

// run runs random programs with random inputs. It returns the first error.
func (w *worker) run(ctx context.Context, all []*subject) error {
	for ctx.Err() == nil {
		s, use := all[w.rng.IntN(len(all))], w.rng.IntN(len(resultUses))
		inputIndex := w.rng.IntN(len(s.inputs))
		if err := w.runOnce(ctx, s, inputIndex, use); err != nil && ctx.Err() == nil {
			return fmt.Errorf("%s, input %v, %s: %w", s.name, s.inputs[inputIndex]["x"].Shape, resultUses[use], err)
		}
		w.runs[use].Add(1)
	}
	return nil
}

// runOnce runs the program of s with one of its inputs, and checks the results. use is an index of resultUses.
func (w *worker) runOnce(ctx context.Context, s *subject, inputIndex, use int) error {
	results, err := s.program.Run(ctx, s.inputs[inputIndex])
	if err != nil {
		return err
	}
	if resultUses[use] == "into" {
		for name, result := range results {
			meta := result.Meta
			meta.Offset = w.rng.IntN(3)
			results[name] = tensor.Empty(meta)
		}
		if err := s.program.RunInto(ctx, s.inputs[inputIndex], results); err != nil {
			return err
		}
	}
	for name, result := range results {
		// A hash takes long, so only a quarter of the results are checked.
		if w.rng.IntN(4) == 0 && hash(result) != s.wantHashes[inputIndex][name] {
			return fmt.Errorf("%s has changed", name)
		}
	}
	switch resultUses[use] {
	case "released":
		return release(results)
	case "held":
		return w.retain(results["y0"])
	}
	return nil
}

// release releases results.
func release(results tensors) error {
	for _, result := range results {
		if result.Storage().Releasable() { // false for views of the input and released results
			if err := result.Release(); err != nil {
				return err
			}
		}
	}
	return nil
}

// retain checks that bytes that were retained earlier have not changed, and replaces them by bytes of a result.
func (w *worker) retain(result *tensor.Tensor) error {
	retained := &w.retained[w.rng.IntN(len(w.retained))]
	if maphash.Bytes(hashSeed, retained.bytes) != retained.hash && retained.bytes != nil {
		return fmt.Errorf("the bytes of a dropped result have changed")
	}
	bytes := result.Storage().Bytes()
	retained.bytes = bytes[w.rng.IntN(len(bytes)):]
	retained.hash = maphash.Bytes(hashSeed, retained.bytes)
	return nil
}

// sampleMemory prints the memory of the process until the context ends. It returns the samples of resident bytes.
func sampleMemory(ctx context.Context, every time.Duration, runs []atomic.Int64) (rss []int) {
	fmt.Printf("%10s %10s %10s %10s %6s", "seconds", "RSS MiB", "heap MiB", "Go MiB", "GCs")
	for _, use := range resultUses {
		fmt.Printf(" %10s", use)
	}
	fmt.Println()
	start := time.Now()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return rss
		case <-tick.C:
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		rss = append(rss, residentBytes())
		fmt.Printf("%10.0f %10.1f %10.1f %10.1f %6d", time.Since(start).Seconds(), mib(rss[len(rss)-1]),
			mib(int(m.HeapAlloc)), mib(int(m.Sys-m.HeapReleased)), m.NumGC)
		for i := range runs {
			fmt.Printf(" %10d", runs[i].Load())
		}
		fmt.Println()
	}
}

// residentBytes returns the resident memory of the process in bytes.
func residentBytes() int {
	status, err := os.ReadFile("/proc/self/status")
	if err == nil {
		for line := range strings.Lines(string(status)) {
			var kib int
			if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kib); err == nil {
				return kib << 10
			}
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.Sys - m.HeapReleased)
}

func mib(n int) float64 { return float64(n) / (1 << 20) }

// checkGrowth returns an error if the peak of the last third of the samples exceeds the peak of the second third by
// more than a quarter plus 64 MiB. The first third, in which caches fill, is ignored. Fewer than 6 samples are not
// judged.
func checkGrowth(rss []int) error {
	if len(rss) < 6 {
		return nil
	}
	third := len(rss) / 3
	before, after := slices.Max(rss[third:2*third]), slices.Max(rss[2*third:])
	fmt.Printf("peak RSS of the second third %.1f MiB, of the last %.1f MiB\n", mib(before), mib(after))
	if after > before+before/4+64<<20 {
		return fmt.Errorf("memory grows")
	}
	return nil
}
