//go:build linux

// Command sizes measures runs whose sizes change from run to run, as those of a decoder or of a server of text. It
// prints JSON: the median CPU time in milliseconds of the first run at each size, and of the same run repeated, without
// the first two sizes, which compile, and the anonymous memory of the process. ort.js measures ONNX Runtime in the same
// way. Run the two in turns, several times:
//
//	(cd scripts/sizes && npm install --ignore-scripts onnxruntime-node)
//	go build -o sizes ./scripts/sizes
//	./sizes -lengths 64 minilm.onnx && node scripts/sizes/ort.js -lengths 64 minilm.onnx      64 random lengths
//	./sizes -tokens 256 decoder.onnx && node scripts/sizes/ort.js -tokens 256 decoder.onnx    256 tokens after 32
//	./sizes -tokens 256 -caches 2048 decoder.onnx                                             the caches stay in place
//	./sizes -images 20 network.onnx && node scripts/sizes/ort.js -images 20 network.onnx      20 random sizes of images
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// promptLength is the number of tokens of the first step of a decoder.
const promptLength = 32

func main() {
	lengths := flag.Int("lengths", 0, "number of random lengths from 1 to 512 of a sequence")
	tokens := flag.Int("tokens", 0, "number of tokens that a decoder generates")
	images := flag.Int("images", 0, "number of random sizes of images, multiples of 32 from 64 to 640")
	batch := flag.Int("batch", 1, "batch size")
	capacity := flag.Int("caches", 0, "capacity of the caches of a decoder; 0: no caches")
	threads := flag.Int("threads", 1, "number of workers")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("want one model")
	}
	g, err := graphrun.Load(context.Background(), flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	options := graphrun.Options{Threads: *threads}
	if *capacity > 0 {
		options.Caches = graphrun.RecognizedCaches(*capacity)
	}
	inputs := slices.Clone(g.Inputs)
	program, err := graphrun.Compile(context.Background(), g, options)
	if err != nil {
		log.Fatal(err)
	}
	m := &measurement{program: program, inputs: inputs, batch: *batch, caches: *capacity > 0}
	state := 1
	below := func(n int) int { // a generator of random numbers that ort.js has, too
		state = state * 48271 % 2147483647
		return state % n
	}
	switch {
	case *tokens > 0:
		err = m.decode(*tokens)
	case *images > 0:
		err = m.each(*images, func() []int { return []int{32 * (2 + below(19)), 32 * (2 + below(19))} })
	default:
		err = m.each(max(*lengths, 1), func() []int { return []int{1 + below(512)} })
	}
	if err != nil {
		log.Fatal(err)
	}
	m.print()
}

// measurement is a program and the CPU times of its runs.
type measurement struct {
	program         *graphrun.Program
	inputs          []*graph.Value
	batch           int
	caches          bool
	first, repeated []time.Duration
}

// print prints the median times, without the first two runs, which compile.
func (m *measurement) print() {
	median := func(list []time.Duration) float64 {
		sorted := slices.Sorted(slices.Values(list[min(2, len(list)-1):]))
		return float64(sorted[len(sorted)/2].Microseconds()) / 1e3
	}
	status, _ := os.ReadFile("/proc/self/status")
	memory := ""
	for line := range strings.Lines(string(status)) {
		if name, value, _ := strings.Cut(line, ":"); name == "RssAnon" {
			memory = strings.TrimSpace(value)
		}
	}
	fmt.Printf("{\"first\": %.3f, \"repeated\": %.3f, \"anonymous\": %q}\n", median(m.first), median(m.repeated), memory)
}

// time measures two equal runs, and returns the outputs of the second.
func (m *measurement) time(run func() (map[string]*tensor.Tensor, error)) (map[string]*tensor.Tensor, error) {
	start := cpuTime()
	if _, err := run(); err != nil {
		return nil, err
	}
	middle := cpuTime()
	out, err := run()
	m.first, m.repeated = append(m.first, middle-start), append(m.repeated, cpuTime()-middle)
	return out, err
}

// each runs the model at count sizes: the lengths of sequences, or the heights and widths of images.
func (m *measurement) each(count int, draw func() []int) error {
	for range count {
		sizes, in := draw(), map[string]*tensor.Tensor{}
		for _, v := range m.inputs {
			shape := []int{m.batch}
			if rank := len(v.Dims); rank == 4 {
				shape = append(shape, v.Dims[1].Size)
			}
			in[v.Name] = ones(v.Meta.DType, append(shape, sizes...)...)
		}
		if _, err := m.time(func() (map[string]*tensor.Tensor, error) {
			return m.program.Run(context.Background(), in)
		}); err != nil {
			return err
		}
	}
	return nil
}

// decode feeds the caches of each step to the next one.
func (m *measurement) decode(tokens int) error {
	in, length, total := map[string]*tensor.Tensor{}, promptLength, promptLength
	isPast := func(v *graph.Value) bool { return strings.HasPrefix(v.Name, "past") }
	for _, v := range m.inputs {
		if isPast(v) || v.Name == "encoder_hidden_states" {
			shape := []int{m.batch}
			for _, dim := range v.Dims[1:] {
				size := dim.Size
				if dim.Symbol != "" && isPast(v) {
					size = 0
				} else if dim.Symbol != "" {
					size = 1500 // of an encoder of speech
				}
				shape = append(shape, size)
			}
			in[v.Name] = tensor.Zeros(v.Meta.DType, shape...)
		}
	}
	var err error
	if m.caches {
		if in, err = m.program.CachesOf(in); err != nil {
			return err
		}
	}
	for step := range tokens {
		for _, v := range m.inputs {
			switch v.Name {
			case "input_ids", "position_ids":
				in[v.Name] = ones(v.Meta.DType, m.batch, length)
			case "attention_mask":
				in[v.Name] = ones(v.Meta.DType, m.batch, total)
			case "use_cache_branch":
				in[v.Name] = tensor.Must(tensor.FromSlice([]bool{step > 0}, 1))
			}
		}
		out, err := m.time(func() (map[string]*tensor.Tensor, error) { return m.program.Run(context.Background(), in) })
		if err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		for _, v := range m.inputs {
			if rest, ok := strings.CutPrefix(v.Name, "past_key_values"); ok {
				if present := out["present"+rest]; present != nil && present.Numel() > 0 {
					in[v.Name] = present
					if !m.caches {
						in[v.Name] = present.Contiguous() // a run would copy it each time
					}
				}
			}
		}
		length, total = 1, total+1
	}
	return nil
}

// ones returns a tensor of ones.
func ones(dtype tensor.DType, shape ...int) *tensor.Tensor {
	t := tensor.Zeros(dtype, shape...)
	one := tensor.IntScalar(1).Tensor(dtype)
	size := dtype.Size()
	for i, bytes := 0, t.Storage().Bytes(); i+size <= len(bytes); i += size {
		copy(bytes[i:], one.Storage().Bytes()[:size])
	}
	return t
}

// cpuTime returns the CPU time of the process.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
